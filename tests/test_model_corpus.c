/* Runs the fuzz target of config.json over its corpus: a model or a message. */
#include "fuzz/fuzz_config.c"

#include "corpus.h"

static void survives_the_corpus(void **state) {
    (void)state;
    assert_true(corpus_folder(OC_TEST_DATA "/models/configs", SIZE_MAX, 1) >= 29);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(survives_the_corpus)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
