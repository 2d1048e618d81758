/* Runs the data set's fuzz target over a small corpus and over the files that the search starts
 * from. */
#include "fuzz/fuzz_jsonl.c"

#include "corpus.h"

static const char *const corpus[] = {
    "",
    "{\"text\": \"a\"}\n{\"text\": \"bcd\"}\n\r\n{\"text\": \"efghijklmnopqrstuvwxyz\"}",
    "\xef\xbb\xbf{\"text\":\"\\u0000\\ud83d\\ude00 caf\xc3\xa9\"}\n",
    "{\"input_ids\":[5,6,7]}\n{\"input_ids\":[3,4,5],\"labels\":[3,-100,299]}\n",
    "{\"input_ids\":[],\"labels\":null}\n{\"input_ids\":[1,2,3,4,5,6,7,8,9,10,11,12]}",
    "{\"input_ids\":[1,2],\"labels\":[-100,-100],\"attention_mask\":[1,1]}\n",
    "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}",
    "[[[[[[[[[[",
    "{\"text\":1e999}",
    "\n\n\n",
    "{\"text\":\"\\ud800\"}",
};

static void survives_the_corpus(void **state) {
    (void)state;
    for (size_t c = 0; c < sizeof corpus / sizeof corpus[0]; c++)
        corpus_disturb(corpus[c], strlen(corpus[c]), SIZE_MAX, 1);
}

/* Every form and both kinds of compressed files. */
static void survives_the_files(void **state) {
    (void)state;
    assert_true(corpus_folder(OC_TEST_DATA "/fuzz/jsonl", SIZE_MAX, 1) >= 10);
}

static int release(void **state) {
    (void)state;
    oc_tokenizer_close(tokenizer);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(survives_the_corpus),
                                       cmocka_unit_test(survives_the_files)};
    return cmocka_run_group_tests(tests, NULL, release);
}
