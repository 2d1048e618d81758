/* Runs the fuzz target of templates over its corpus. */
#include "fuzz/fuzz_template.c"

#include "corpus.h"

static void survives_the_corpus(void **state) {
    (void)state;
    assert_true(corpus_folder(OC_TEST_DATA "/fuzz/template", SIZE_MAX, 7) > 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(survives_the_corpus)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
