/* Runs the tokenizer's fuzz target over its corpus: whole, cut short, and with bytes changed. */
#include "fuzz/fuzz_tokenizer.c"

#include "tokenizer_case.h"

#include <dirent.h>

#define CORPUS OC_TEST_DATA "/fuzz/tokenizer"

/* In memory of its exact size, so that a read past the end is seen. */
static void feed(const char *data, size_t n) {
    uint8_t *copy = malloc(n > 0 ? n : 1);
    assert_non_null(copy);
    if (n > 0) memcpy(copy, data, n);
    (void)LLVMFuzzerTestOneInput(copy, n);
    free(copy);
}

static void feed_changed(char *data, size_t n) {
    feed(data, n);
    for (size_t i = 0; i < n; i += 3) {
        char was = data[i];
        feed(data, i);
        data[i] = (char)(was ^ (i % 2 == 0 ? 1 : 0x10));
        feed(data, n);
        data[i] = was;
    }
}

static void survives_the_corpus(void **state) {
    (void)state;
    DIR *d = opendir(CORPUS);
    assert_non_null(d);
    int files = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        char path[600];
        size_t n;
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, CORPUS "/%s", e->d_name);
        char *data = case_read(path, &n);
        feed_changed(data, n);
        free(data);
        files++;
    }
    closedir(d);
    assert_true(files >= 10);
    feed("", 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(survives_the_corpus)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
