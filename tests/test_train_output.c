/* The output directory of a run: whose it is, and what a refused run removes. */
#include "cmocka_all.h"
#include "scratch.h"

#include "base/fs.h"
#include "train/output.h"

#include <sys/stat.h>
#include <unistd.h>

static char home[SCRATCH_BYTES];

static int set_up(void **state) {
    (void)state;
    scratch_make(home);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    return oc_fs_remove_temporary(home, NULL) == OC_OK ? 0 : -1;
}

static void a_refused_run_removes_what_it_made(void **state) {
    (void)state;
    char dir[SCRATCH_BYTES], path[SCRATCH_BYTES];
    oc_output o;
    assert_int_equal(oc_output_open(&o, scratch_path(dir, home, "a/b/c/"), NULL), OC_OK);
    oc_output_close(&o, false);
    assert_false(oc_fs_exists(scratch_path(path, home, "a")));
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(oc_output_open(&o, dir, NULL), OC_OK);
    oc_output_close(&o, false);
    assert_true(oc_fs_exists(path) && !oc_fs_exists(scratch_path(path, home, "a/b")));
    assert_int_equal(oc_output_open(&o, dir, NULL), OC_OK);
    scratch_write(home, "a/b/mine", "x");
    oc_output_close(&o, false);
    assert_true(oc_fs_exists(path));
    assert_false(oc_fs_exists(dir));
    assert_int_equal(oc_output_open(&o, dir, NULL), OC_OK);
    oc_output_close(&o, true);
    assert_true(oc_fs_is_directory(dir));
}

static void a_run_that_has_no_lock_removes_nothing(void **state) {
    (void)state;
    char dir[SCRATCH_BYTES];
    oc_error err;
    oc_output first, second = {.fd = -1};
    assert_int_equal(oc_output_open(&first, scratch_path(dir, home, "a/b"), NULL), OC_OK);
    assert_int_equal(oc_output_open(&second, dir, &err), OC_E_EXISTS);
    assert_non_null(strstr(err.message, "another run"));
    assert_true(oc_fs_is_directory(dir));
    oc_output_close(&first, true);
}

/* Removed and made again by somebody: the directory that has the name now is not the run's. */
static void another_directory_of_the_same_name_stays(void **state) {
    (void)state;
    char dir[SCRATCH_BYTES];
    oc_output first, second;
    assert_int_equal(oc_output_open(&first, scratch_path(dir, home, "o"), NULL), OC_OK);
    assert_int_equal(rmdir(dir), 0);
    assert_int_equal(oc_output_open(&second, dir, NULL), OC_OK);
    oc_output_close(&first, false);
    assert_true(oc_fs_is_directory(dir));
    oc_output_close(&second, false);
    assert_false(oc_fs_exists(dir));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_refused_run_removes_what_it_made, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_run_that_has_no_lock_removes_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_directory_of_the_same_name_stays, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
