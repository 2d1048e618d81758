/* Runs the fuzz target of templates over its corpus: whole, cut short, and with bytes changed. */
#include "fuzz/fuzz_template.c"

#include "cmocka_all.h"

#include <dirent.h>

static void feed(const char *data, size_t n) {
    uint8_t *copy = malloc(n > 0 ? n : 1); /* of exactly n bytes, so that a read beyond is seen */
    assert_non_null(copy);
    memcpy(copy, data, n);
    (void)LLVMFuzzerTestOneInput(copy, n);
    free(copy);
}

/* Every `stride`-th place of the input is cut at and changed. */
static void disturb(char *data, size_t n, size_t stride) {
    feed(data, n);
    for (size_t i = 0; i < n; i += stride) {
        char was = data[i];
        feed(data, i);
        data[i] = (char)(was ^ (i % 3 == 0 ? 1 : i % 3 == 1 ? 0x10 : 0x80));
        feed(data, n);
        data[i] = was;
    }
}

static void survives_the_corpus(void **state) {
    (void)state;
    static const char folder[] = OC_TEST_DATA "/fuzz/template";
    static char data[1 << 16];
    DIR *d = opendir(folder);
    size_t files = 0;
    if (!d) fail_msg("%s is missing", folder);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        char path[600];
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        FILE *f = fopen(path, "rb");
        assert_non_null(f);
        size_t n = fread(data, 1, sizeof data, f);
        fclose(f);
        disturb(data, n, 7);
        files++;
    }
    closedir(d);
    assert_true(files > 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(survives_the_corpus)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
