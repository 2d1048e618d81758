/* Files appear whole or not at all, and only what is ours is removed. */
#include "cmocka_all.h"
#include "scratch.h"

#include "base/fs.h"
#include "base/json.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[SCRATCH_BYTES];

static int set_up(void **state) {
    (void)state;
    scratch_make(dir);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    return oc_fs_remove_temporary(dir, NULL) == OC_OK && !oc_fs_exists(dir) ? 0 : -1;
}

static void directories_are_made_with_parents(void **state) {
    (void)state;
    char path[SCRATCH_BYTES];
    oc_error err;
    assert_int_equal(oc_fs_make_directories(scratch_path(path, dir, "a//b/c/"), &err), OC_OK);
    assert_true(oc_fs_is_directory(scratch_path(path, dir, "a/b/c")));
    assert_int_equal(oc_fs_make_directories(path, &err), OC_OK);
    scratch_write(dir, "a/file", "x");
    assert_int_equal(oc_fs_make_directories(scratch_path(path, dir, "a/file"), &err), OC_E_EXISTS);
    assert_int_equal(oc_fs_make_directories(scratch_path(path, dir, "a/file/b"), &err),
                     OC_E_EXISTS);
    assert_non_null(strstr(err.message, "a/file"));
    assert_int_equal(oc_fs_make_directories("", &err), OC_E_IO);
}

static void atomic_writes_replace_and_leave_nothing(void **state) {
    (void)state;
    char path[SCRATCH_BYTES], temporary[SCRATCH_BYTES];
    oc_error err;
    char *text = NULL;
    size_t bytes = 0;
    scratch_path(path, dir, "state.json");
    scratch_path(temporary, dir, "state.json.tmp");
    scratch_write(dir, "state.json.tmp", "left over from a crash, and longer");
    assert_int_equal(oc_fs_write_atomic(path, "one", 3, &err), OC_OK);
    assert_int_equal(oc_fs_write_atomic(path, "t\0o", 3, &err), OC_OK);
    assert_false(oc_fs_exists(temporary));
    assert_int_equal(oc_fs_read(&text, &bytes, path, 100, &err), OC_OK);
    assert_int_equal(bytes, 3);
    assert_memory_equal(text, "t\0o", 4);
    free(text);
}

static void a_failed_write_keeps_the_old_file(void **state) {
    (void)state;
    char path[SCRATCH_BYTES];
    oc_error err;
    assert_int_equal(oc_fs_write_atomic(scratch_path(path, dir, "no/such/place"), "x", 1, &err),
                     OC_E_IO);
    assert_non_null(strstr(err.message, "no/such/place"));
    /* The target is a directory with something in it: the rename fails after a good write. */
    assert_int_equal(oc_fs_make_directories(scratch_path(path, dir, "full/x"), &err), OC_OK);
    scratch_path(path, dir, "full");
    assert_int_not_equal(oc_fs_write_atomic(path, "x", 1, &err), OC_OK);
    assert_true(oc_fs_is_directory(path));
    assert_false(oc_fs_exists(scratch_path(path, dir, "full.tmp")));
    /* A full disk: /dev/full refuses every byte. */
    assert_int_equal(symlink("/dev/full", scratch_path(path, dir, "s.tmp")), 0);
    scratch_write(dir, "s", "old");
    assert_int_equal(oc_fs_write_atomic(scratch_path(path, dir, "s"), "new", 3, &err), OC_E_IO);
    assert_non_null(strstr(err.message, "No space left"));
    char *text;
    size_t bytes;
    assert_int_equal(oc_fs_read(&text, &bytes, path, 100, &err), OC_OK);
    assert_string_equal(text, "old");
    free(text);
}

static void only_regular_files_are_read(void **state) {
    (void)state;
    char path[SCRATCH_BYTES];
    oc_error err;
    char *text;
    size_t bytes;
    json_t *json;
    (void)alarm(60); /* a FIFO that is opened would wait for ever */
    assert_int_equal(mkfifo(scratch_path(path, dir, "fifo"), 0600), 0);
    const char *const others[][2] = {
        {path, "a FIFO"}, {dir, "a directory"}, {"/dev/zero", "a device"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_int_equal(oc_fs_read(&text, &bytes, others[i][0], 1000, &err), OC_E_IO);
        assert_non_null(strstr(err.message, others[i][0]));
        assert_non_null(strstr(err.message, others[i][1]));
        assert_int_equal(oc_json_load(&json, others[i][0], OC_JSON_NO_NUL, &err), OC_E_IO);
        assert_non_null(strstr(err.message, others[i][1]));
    }
    (void)alarm(0);
}

static oc_status count_name(void *arg, const char *name, oc_error *err) {
    if (strcmp(name, "bad") == 0) return oc_fail(err, OC_E_INVALID, "%s", name);
    ++*(int *)arg;
    return OC_OK;
}

static void what_cannot_be_listed_is_not_empty(void **state) {
    (void)state;
    char path[SCRATCH_BYTES];
    oc_error err;
    int n = 0;
    scratch_write(dir, "one", "x");
    scratch_write(dir, ".two", "x");
    assert_int_equal(oc_fs_list(dir, count_name, &n, &err), OC_OK);
    assert_int_equal(n, 2);
    assert_int_equal(oc_fs_list(scratch_path(path, dir, "one"), count_name, &n, &err), OC_E_IO);
    assert_non_null(strstr(err.message, "cannot be listed"));
    assert_int_equal(oc_fs_list(scratch_path(path, dir, "none"), count_name, &n, &err), OC_E_IO);
    scratch_write(dir, "bad", "x");
    assert_int_equal(oc_fs_list(dir, count_name, &n, &err), OC_E_INVALID);
}

static void identity_is_not_the_name(void **state) {
    (void)state;
    char a[SCRATCH_BYTES], b[SCRATCH_BYTES], c[SCRATCH_BYTES];
    oc_fs_id x = {0}, y = {0}, z = {0};
    scratch_write(dir, "a", "x");
    scratch_write(dir, "other", "x");
    assert_int_equal(link(scratch_path(a, dir, "a"), scratch_path(b, dir, "hard")), 0);
    assert_int_equal(symlink("hard", scratch_path(c, dir, "soft")), 0);
    assert_true(oc_fs_identify(a, &x) && oc_fs_identify(b, &y) && oc_fs_identify(c, &z));
    assert_true(oc_fs_same(x, y) && oc_fs_same(x, z));
    assert_true(oc_fs_identify(scratch_path(a, dir, "other"), &y));
    assert_false(oc_fs_same(x, y));
    assert_false(oc_fs_identify(scratch_path(a, dir, "none"), &y));
}

static void the_topmost_new_directory_is_told(void **state) {
    (void)state;
    char path[SCRATCH_BYTES];
    size_t top = 99;
    assert_int_equal(oc_fs_make_path(scratch_path(path, dir, "p"), &top, NULL), OC_OK);
    assert_int_equal(top, strlen(path));
    assert_int_equal(oc_fs_make_path(scratch_path(path, dir, "p/q/r"), &top, NULL), OC_OK);
    assert_int_equal(top, strlen(path) - 2);
    assert_int_equal(oc_fs_make_path(path, &top, NULL), OC_OK);
    assert_int_equal(top, 0);
    scratch_write(dir, "p/q/r/file", "x");
    assert_int_equal(oc_fs_make_path(scratch_path(path, dir, "p/new/../q/r/file"), &top, NULL),
                     OC_E_EXISTS);
    assert_int_equal(top, strlen(path) - strlen("/../q/r/file"));
}

static void reads_are_whole_and_bounded(void **state) {
    (void)state;
    char path[SCRATCH_BYTES];
    oc_error err;
    char *text = (char *)&err;
    size_t bytes = 77;
    static char big[100001];
    memset(big, 'q', sizeof big - 1);
    scratch_write(dir, "big", big);
    scratch_path(path, dir, "big");
    assert_int_equal(oc_fs_read(&text, &bytes, path, 99999, &err), OC_E_FORMAT);
    assert_null(text);
    assert_int_equal(bytes, 77);
    assert_int_equal(oc_fs_read(&text, &bytes, path, 100000, &err), OC_OK);
    assert_int_equal(bytes, 100000);
    assert_string_equal(text, big);
    free(text);
    assert_int_equal(oc_fs_read(&text, &bytes, scratch_path(path, dir, "none"), 9, &err),
                     OC_E_NOTFOUND);
    assert_int_equal(oc_fs_read(&text, &bytes, dir, 9, &err), OC_E_IO);
    /* A file whose size reads 0. */
    assert_int_equal(oc_fs_read(&text, &bytes, "/proc/self/status", 1 << 20, &err), OC_OK);
    assert_true(bytes > 100);
    free(text);
}

static void only_temporaries_are_removed(void **state) {
    (void)state;
    char path[SCRATCH_BYTES], target[SCRATCH_BYTES];
    oc_error err;
    static const char *const others[] = {"keep", ".tmp", "keep.tmp/inner", "keep.tmp/.."};
    assert_int_equal(oc_fs_make_directories(scratch_path(path, dir, "keep.tmp/inner"), &err),
                     OC_OK);
    scratch_write(dir, "keep", "x");
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_int_equal(oc_fs_remove_temporary(scratch_path(path, dir, others[i]), &err),
                         OC_E_INVALID);
    assert_true(oc_fs_exists(scratch_path(path, dir, "keep")));
    assert_true(oc_fs_exists(scratch_path(path, dir, "keep.tmp/inner")));
    assert_int_equal(oc_fs_make_directories(scratch_path(path, dir, "run.tmp/a/b"), &err), OC_OK);
    scratch_write(dir, "run.tmp/a/b/f", "x");
    scratch_write(dir, "outside", "x");
    assert_int_equal(
        symlink(scratch_path(target, dir, "outside"), scratch_path(path, dir, "run.tmp/a/link")),
        0);
    assert_int_equal(symlink("/", scratch_path(path, dir, "run.tmp/root")), 0);
    assert_int_equal(oc_fs_remove_temporary(scratch_path(path, dir, "run.tmp/"), &err), OC_OK);
    assert_false(oc_fs_exists(scratch_path(path, dir, "run.tmp")));
    assert_true(oc_fs_exists(target));
    assert_int_equal(oc_fs_remove_temporary(path, &err), OC_OK);
}

static void rename_refuses_full_directories(void **state) {
    (void)state;
    char from[SCRATCH_BYTES], to[SCRATCH_BYTES];
    oc_error err;
    scratch_path(from, dir, "step.tmp");
    scratch_path(to, dir, "step");
    assert_int_equal(oc_fs_make_directories(from, &err), OC_OK);
    assert_int_equal(oc_fs_rename(from, to, &err), OC_OK);
    assert_true(oc_fs_is_directory(to) && !oc_fs_exists(from));
    scratch_write(dir, "step/f", "x");
    assert_int_equal(oc_fs_make_directories(from, &err), OC_OK);
    assert_int_equal(oc_fs_rename(from, to, &err), OC_E_EXISTS);
}

static void free_bytes_are_those_of_df(void **state) {
    (void)state;
    uint64_t bytes = 0;
    oc_error err;
    assert_int_equal(oc_fs_free_bytes(dir, &bytes, &err), OC_OK);
    char command[SCRATCH_BYTES + 64];
    snprintf(command, sizeof command, "df -B1 --output=avail '%s' | tail -1", dir);
    FILE *f = popen(command, "r");
    unsigned long long df = 0;
    int n = f ? fscanf(f, "%llu", &df) : 0;
    if (f) pclose(f);
    if (n != 1) skip();
    /* Others write meanwhile. */
    double ratio = (double)bytes / (double)df;
    assert_true(ratio > 0.9 && ratio < 1.1);
    assert_int_equal(oc_fs_free_bytes("/nonexistent/x", &bytes, &err), OC_E_NOTFOUND);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(directories_are_made_with_parents, set_up, tear_down),
        cmocka_unit_test_setup_teardown(atomic_writes_replace_and_leave_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_failed_write_keeps_the_old_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_regular_files_are_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_listed_is_not_empty, set_up, tear_down),
        cmocka_unit_test_setup_teardown(identity_is_not_the_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_topmost_new_directory_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reads_are_whole_and_bounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_temporaries_are_removed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rename_refuses_full_directories, set_up, tear_down),
        cmocka_unit_test_setup_teardown(free_bytes_are_those_of_df, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
