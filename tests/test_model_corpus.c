/* test_model_corpus.c - the fuzz target over its corpus: whole, cut short, with bytes changed. */
#include "cmocka_all.h"
#include "fuzz/fuzz_config.c"

#include <dirent.h>

enum { MOST_BYTES = 1 << 16 };

/* An exact copy on the heap, so that a sanitizer sees a read past the end. */
static void feed(const char *data, size_t n) {
    uint8_t *copy = malloc(n > 0 ? n : 1);
    assert_non_null(copy);
    memcpy(copy, data, n);
    (void)LLVMFuzzerTestOneInput(copy, n);
    free(copy);
}

static void feed_changed(char *data, size_t n) {
    static const char changes[3] = {1, 0x10, 0x40};
    feed(data, n);
    for (size_t i = 0; i < n; i++) {
        char was = data[i];
        feed(data, i);
        data[i] = (char)(was ^ changes[i % 3]);
        feed(data, n);
        data[i] = was;
    }
}

static void test_any_config_gives_a_model_or_a_message(void **state) {
    (void)state;
    static char data[MOST_BYTES];
    char path[1024];
    int files = 0;
    DIR *d = opendir(OC_TEST_DATA "/models/configs");
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", OC_TEST_DATA "/models/configs", e->d_name);
        FILE *f = fopen(path, "rb");
        assert_non_null(f);
        feed_changed(data, fread(data, 1, sizeof data, f));
        fclose(f);
        files++;
    }
    closedir(d);
    assert_true(files >= 29);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_config_gives_a_model_or_a_message)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
