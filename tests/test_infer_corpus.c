/* Runs the batch file's fuzz target over a small corpus. */
#include "fuzz/fuzz_requests.c"

#include "corpus.h"

static const char *const corpus[] = {
    "",
    "{\"prompt\":\"a\"}\n\r\n{\"prompt\":\"b\",\"max_tokens\":3,\"stop\":[\"x\"],\"seed\":-1}",
    "\xef\xbb\xbf[{\"input_ids\":[1,2,3]},\n{\"prompt\":\"caf\xc3\xa9\",\"logprobs\":2}]",
    "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"temperature\":0.5,\"top_p\":0.9}\n",
    "{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\",\"body\":"
    "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"logprobs\":true,\"top_logprobs\":2}}",
    "{\"custom_id\":\"b\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":"
    "{\"prompt\":[5,6],\"n\":1,\"logit_bias\":{},\"min_tokens\":1}}\n{\"prompt\":7}",
    "{\"prompt\":\"0123456789012345678901234567890123\"}",
    "[[[[[[[[[[",
    "{\"prompt\":\"\\u0000\\ud83d\\ude00\",\"top_k\":1e3}",
};

static void survives_the_corpus(void **state) {
    (void)state;
    for (size_t c = 0; c < sizeof corpus / sizeof corpus[0]; c++)
        corpus_disturb(corpus[c], strlen(corpus[c]), SIZE_MAX, 1);
}

static void survives_a_row_that_is_too_long(void **state) {
    (void)state;
    char text[3 * ROW_BYTES];
    for (int array = 0; array < 2; array++) {
        int n = snprintf(text, sizeof text, "%s{\"prompt\":\"%0*d\"}%s{\"prompt\":\"a\"}%s",
                         array ? "[" : "", 2 * ROW_BYTES, 7, array ? "," : "\n", array ? "]" : "");
        corpus_disturb(text, (size_t)n, SIZE_MAX, 97);
    }
}

static int release(void **state) {
    (void)state;
    oc_tokenizer_close(tokenizer);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(survives_the_corpus),
                                       cmocka_unit_test(survives_a_row_that_is_too_long)};
    return cmocka_run_group_tests(tests, NULL, release);
}
