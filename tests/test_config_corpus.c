/* Runs the fuzz target of ds_config.json over its corpus and over the files people bring. */
#include "fuzz/fuzz_deepspeed.c"

#include "corpus.h"

static void any_bytes_give_a_configuration_or_a_message(void **state) {
    (void)state;
    assert_true(corpus_folder(OC_TEST_DATA "/fuzz/deepspeed", SIZE_MAX, 1) >= 10);
}

static void files_that_people_bring_give_one_when_damaged_too(void **state) {
    (void)state;
    assert_true(corpus_folder(OC_TEST_DATA "/ds_config", SIZE_MAX, 29) >= 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_bytes_give_a_configuration_or_a_message),
        cmocka_unit_test(files_that_people_bring_give_one_when_damaged_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
