/* test_train_config_corpus.c - the fuzz target over its corpus and over the files people bring:
 * whole, cut short, with bytes changed. */
#include "cmocka_all.h"
#include "fuzz/fuzz_deepspeed.c"

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

/* `step`: from one place that is cut or changed to the next. */
static void feed_changed(char *data, size_t n, size_t step) {
    static const char changes[3] = {1, 0x10, 0x40};
    feed(data, n);
    for (size_t i = 0; i < n; i += step) {
        char was = data[i];
        feed(data, i);
        data[i] = (char)(was ^ changes[i % 3]);
        feed(data, n);
        data[i] = was;
    }
}

static int feed_folder(const char *folder, size_t step) {
    static char data[MOST_BYTES];
    char path[1024];
    int files = 0;
    DIR *d = opendir(folder);
    if (!d) fail_msg("%s cannot be opened", folder);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        FILE *f = fopen(path, "rb");
        assert_non_null(f);
        feed_changed(data, fread(data, 1, sizeof data, f), step);
        fclose(f);
        files++;
    }
    closedir(d);
    return files;
}

static void any_bytes_give_a_configuration_or_a_message(void **state) {
    (void)state;
    assert_true(feed_folder(OC_TEST_DATA "/fuzz/deepspeed", 1) >= 10);
}

static void files_that_people_bring_give_one_when_damaged_too(void **state) {
    (void)state;
    assert_true(feed_folder(OC_TEST_DATA "/ds_config", 29) >= 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_bytes_give_a_configuration_or_a_message),
        cmocka_unit_test(files_that_people_bring_give_one_when_damaged_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
