/* Runs the fuzz target of tokenizers over its corpus. */
#include "fuzz/fuzz_tokenizer.c"

#include "corpus.h"

static void survives_the_corpus(void **state) {
    (void)state;
    assert_true(corpus_folder(OC_TEST_DATA "/fuzz/tokenizer", SIZE_MAX, 3) >= 10);
    corpus_feed("", 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(survives_the_corpus)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
