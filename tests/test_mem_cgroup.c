/* The room control groups leave, over made-up trees of both versions. */
#include "cmocka_all.h"
#include "scratch.h"

#include "base/fs.h"
#include "mem/cgroup.h"

typedef struct tree {
    char dir[SCRATCH_BYTES];
    char cgroup[SCRATCH_BYTES], mountinfo[SCRATCH_BYTES];
} tree;

static int set_up(void **state) {
    static tree t;
    scratch_make(t.dir);
    scratch_path(t.cgroup, t.dir, "self_cgroup");
    scratch_path(t.mountinfo, t.dir, "mountinfo");
    *state = &t;
    return 0;
}

static int tear_down(void **state) {
    tree *t = *state;
    return oc_fs_remove_temporary(t->dir, NULL) == OC_OK ? 0 : -1;
}

static void make(const tree *t, const char *name) {
    char path[SCRATCH_BYTES];
    assert_int_equal(oc_fs_make_directories(scratch_path(path, t->dir, name), NULL), OC_OK);
}

static void mount(const tree *t, const char *root, const char *type, const char *super) {
    char text[2048];
    snprintf(text, sizeof text,
             "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
             "30 22 0:26 %s %s/fs rw,nosuid shared:4 - %s cgroup %s\n",
             root, t->dir, type, super);
    scratch_write(t->dir, "mountinfo", text);
}

static uint64_t room(const tree *t) { return oc_cgroup_room(t->cgroup, t->mountinfo); }

static void no_files_mean_no_limit(void **state) {
    (void)state;
    assert_true(oc_cgroup_room("/nonexistent/a", "/nonexistent/b") == UINT64_MAX);
}

static void v2_takes_the_smallest_of_all_ancestors(void **state) {
    tree *t = *state;
    mount(t, "/", "cgroup2", "rw,nsdelegate");
    scratch_write(t->dir, "self_cgroup", "0::/outer/inner\n");
    make(t, "fs/outer/inner");
    assert_true(room(t) == UINT64_MAX);
    scratch_write(t->dir, "fs/outer/inner/memory.max", "max\n");
    scratch_write(t->dir, "fs/outer/inner/memory.current", "700\n");
    assert_true(room(t) == UINT64_MAX);
    scratch_write(t->dir, "fs/outer/memory.max", "1000\n");
    scratch_write(t->dir, "fs/outer/memory.current", "900\n");
    assert_int_equal(room(t), 100);
    scratch_write(t->dir, "fs/outer/inner/memory.max", "760\n");
    assert_int_equal(room(t), 60);
}

static void cache_that_can_go_is_room(void **state) {
    tree *t = *state;
    mount(t, "/", "cgroup2", "rw");
    scratch_write(t->dir, "self_cgroup", "0::/job\n");
    make(t, "fs/job");
    scratch_write(t->dir, "fs/job/memory.max", "1000\n");
    scratch_write(t->dir, "fs/job/memory.current", "900\n");
    scratch_write(t->dir, "fs/job/memory.stat", "anon 5\ninactive_file_x 7\ninactive_file 300\n");
    assert_int_equal(room(t), 400);
    /* Over the limit: nothing is left, not a wrapped number. */
    scratch_write(t->dir, "fs/job/memory.current", "2000\n");
    assert_int_equal(room(t), 0);
    scratch_write(t->dir, "fs/job/memory.current", "100\n");
    assert_int_equal(room(t), 1000);
}

static void v1_memory_controller(void **state) {
    tree *t = *state;
    mount(t, "/", "cgroup", "rw,memory");
    scratch_write(t->dir, "self_cgroup",
                  "5:cpu,cpuacct:/other\n4:hugetlb,memory:/slice/job\n0::/unified\n");
    make(t, "fs/slice/job");
    /* The number v1 writes for "no limit". */
    scratch_write(t->dir, "fs/slice/job/memory.limit_in_bytes", "9223372036854771712\n");
    scratch_write(t->dir, "fs/slice/job/memory.usage_in_bytes", "10\n");
    assert_true(room(t) == UINT64_MAX);
    scratch_write(t->dir, "fs/slice/job/memory.limit_in_bytes", "5000\n");
    scratch_write(t->dir, "fs/slice/job/memory.usage_in_bytes", "4500\n");
    scratch_write(t->dir, "fs/slice/job/memory.stat", "inactive_file 1\ntotal_inactive_file 200\n");
    assert_int_equal(room(t), 700);
}

static void v1_mounts_of_other_controllers_do_not_count(void **state) {
    tree *t = *state;
    mount(t, "/", "cgroup", "rw,cpu,cpuacct");
    scratch_write(t->dir, "self_cgroup", "4:memory:/job\n");
    make(t, "fs/job");
    scratch_write(t->dir, "fs/job/memory.limit_in_bytes", "5000\n");
    scratch_write(t->dir, "fs/job/memory.usage_in_bytes", "0\n");
    assert_true(room(t) == UINT64_MAX);
}

/* A container sees its own group mounted as the top; its path outside is another. */
static void a_container_reads_what_is_mounted(void **state) {
    tree *t = *state;
    mount(t, "/docker/abc", "cgroup2", "rw");
    make(t, "fs/inner");
    scratch_write(t->dir, "fs/memory.max", "4096\n");
    scratch_write(t->dir, "fs/memory.current", "96\n");
    scratch_write(t->dir, "fs/inner/memory.max", "10\n");
    scratch_write(t->dir, "fs/inner/memory.current", "3\n");
    scratch_write(t->dir, "self_cgroup", "0::/docker/abc\n");
    assert_int_equal(room(t), 4000);
    scratch_write(t->dir, "self_cgroup", "0::/docker/abc/inner\n");
    assert_int_equal(room(t), 7);
    scratch_write(t->dir, "self_cgroup", "0::/docker/abcdef\n");
    assert_int_equal(room(t), 4000);
    scratch_write(t->dir, "self_cgroup", "0::/../elsewhere\n");
    assert_int_equal(room(t), 4000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_files_mean_no_limit),
        cmocka_unit_test_setup_teardown(v2_takes_the_smallest_of_all_ancestors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cache_that_can_go_is_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(v1_memory_controller, set_up, tear_down),
        cmocka_unit_test_setup_teardown(v1_mounts_of_other_controllers_do_not_count, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_container_reads_what_is_mounted, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
