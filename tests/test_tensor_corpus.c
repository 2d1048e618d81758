/* Runs the fuzz target over its corpus, whole, cut short, and with each byte changed. */
#include "fuzz/fuzz_safetensors.c"
#include "tensor_util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* An exact copy on the heap, so that a sanitizer sees a read past the end. */
static void feed(const char *data, size_t n) {
    uint8_t *copy = malloc(n > 0 ? n : 1);
    assert_non_null(copy);
    memcpy(copy, data, n);
    (void)LLVMFuzzerTestOneInput(copy, n);
    free(copy);
}

static int run_dir(const char *dir) {
    int files = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        size_t n;
        if (e->d_name[0] == '.') continue;
        char *data = get_file(dir, e->d_name, &n);
        assert_non_null(data);
        feed(data, n);
        size_t some = n < 700 ? n : 700;
        for (size_t i = 0; i < some; i++) {
            char was = data[i];
            feed(data, i);
            data[i] = (char)(was ^ (i % 3 == 0 ? 1 : i % 3 == 1 ? 0x10 : 0x80));
            feed(data, n);
            data[i] = was;
        }
        free(data);
        files++;
    }
    closedir(d);
    return files;
}

static void survives_the_corpus(void **state) {
    (void)state;
    assert_true(run_dir(DATA "good") >= 9);
    assert_true(run_dir(DATA "bad") >= 40);
    assert_true(run_dir(DATA "sharded") >= 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(survives_the_corpus)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
