/* Runs the fuzz target of safetensors over its corpus. */
#include "fuzz/fuzz_safetensors.c"

#include "corpus.h"

#define FILES OC_TEST_DATA "/safetensors/"

static void survives_the_corpus(void **state) {
    (void)state;
    assert_true(corpus_folder(FILES "good", 700, 1) >= 9);
    assert_true(corpus_folder(FILES "bad", 700, 1) >= 40);
    assert_true(corpus_folder(FILES "sharded", 700, 1) >= 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(survives_the_corpus)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
