/* Runs the data set's fuzz target over a small corpus, whole, cut short, and with bytes changed. */
#include "fuzz/fuzz_jsonl.c"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

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

static void feed(const char *data, size_t n) {
    uint8_t *copy = malloc(n > 0 ? n : 1);
    assert_non_null(copy);
    memcpy(copy, data, n);
    (void)LLVMFuzzerTestOneInput(copy, n);
    free(copy);
}

static void feed_changed(const char *bytes, size_t n) {
    char *data = malloc(n + 1);
    assert_non_null(data);
    memcpy(data, bytes, n);
    feed(data, n);
    for (size_t i = 0; i < n; i++) {
        char was = data[i];
        feed(data, i);
        data[i] = (char)(was ^ (i % 3 == 0 ? 1 : i % 3 == 1 ? 0x10 : 0x80));
        feed(data, n);
        data[i] = was;
    }
    free(data);
}

static void survives_the_corpus(void **state) {
    (void)state;
    for (size_t c = 0; c < sizeof corpus / sizeof corpus[0]; c++)
        feed_changed(corpus[c], strlen(corpus[c]));
}

/* What is there for the search, every form and both kinds of compressed files among it. */
static void survives_the_files(void **state) {
    (void)state;
    char path[600], data[4096];
    int files = 0;
    DIR *d = opendir(OC_TEST_DATA "/fuzz/jsonl");
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, OC_TEST_DATA "/fuzz/jsonl/%s", e->d_name);
        FILE *f = fopen(path, "rb");
        assert_non_null(f);
        size_t n = fread(data, 1, sizeof data, f);
        fclose(f);
        feed_changed(data, n);
        files++;
    }
    closedir(d);
    assert_true(files >= 10);
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
