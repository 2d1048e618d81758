/* Every call of the writer that touches a file fails once: the message names the cause, no partial
 * file stays, and an older model is still whole. A full disk is one of these. */
#include "tensor/safetensors_internal.h"
#include "tensor_util.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmocka.h>

/* The fail_at-th call returns fail_errno, or counts when fail_errno is 0. */
static int calls, fail_at, fail_errno;

static int fails(void) {
    if (++calls != fail_at) return 0;
    errno = fail_errno;
    return 1;
}

static int f_open(const char *path, int flags, mode_t mode) {
    return fails() ? -1 : oc_st_io_posix.open(path, flags, mode);
}
static ssize_t f_write(int fd, const void *src, size_t n) {
    /* Short writes all along: they are legal and must be continued. */
    return fails() ? -1 : oc_st_io_posix.write(fd, src, n > 100 ? 100 : n);
}
/* A sweep saves hundreds of times; waiting for the disk each time would prove nothing more. */
static int f_fsync(int fd) {
    (void)fd;
    return fails() ? -1 : 0;
}
static int f_close(int fd) {
    /* Linux frees the descriptor even when close reports an error. Closing a directory loses
     * nothing and does not count. */
    struct stat st;
    int bad = fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode) && fails(), e = errno;
    int rc = oc_st_io_posix.close(fd);
    if (!bad) return rc;
    errno = e;
    return -1;
}
static int f_rename(const char *from, const char *to) {
    return fails() ? -1 : oc_st_io_posix.rename(from, to);
}

/* unlink stays real: it is what cleans up. */
static const oc_st_io *flaky(void) {
    static oc_st_io io;
    io = oc_st_io_posix;
    io.open = f_open;
    io.write = f_write;
    io.fsync = f_fsync;
    io.close = f_close;
    io.rename = f_rename;
    return &io;
}

static int no_fsync(int fd) {
    (void)fd;
    return 0;
}

static const oc_st_io *sound(void) {
    static oc_st_io io;
    io = oc_st_io_posix;
    io.fsync = no_fsync;
    return &io;
}

static const oc_tensor_decl decls[] = {
    {"a", OC_FD_F32, 1, {40}}, {"b", OC_FD_BF16, 1, {60}}, {"c", OC_FD_F32, 1, {30}}};

static oc_status save(const char *dir, float value, uint64_t limit, const oc_st_io *io,
                      oc_error *err) {
    oc_writer *w;
    float v[64];
    for (int i = 0; i < 64; i++)
        v[i] = value;
    oc_status s = oc_writer_open_io(&w, dir, decls, 3, limit, io, err);
    for (int32_t k = 0; s == OC_OK && k < 3; k++)
        s = oc_writer_append(w, v, OC_F32, decls[oc_writer_at(w, k)].dims[0], err);
    if (s == OC_OK) s = oc_writer_commit(w, err);
    oc_writer_close(w);
    return s;
}

static float value_of(const char *dir) {
    oc_tensors *t;
    float first = -1, v[64];
    assert_int_equal(oc_tensors_open(&t, dir, NULL), OC_OK);
    assert_int_equal(oc_tensors_count(t), 3);
    for (int i = 0; i < 3; i++) {
        const oc_tensor_info *x = oc_tensors_find(t, decls[i].name);
        assert_int_equal(oc_tensors_read(t, x, 0, x->elements, OC_F32, v, NULL), OC_OK);
        if (i == 0) first = v[0];
        for (uint64_t k = 0; k < x->elements; k++)
            assert_float_equal(v[k], first, 0);
    }
    oc_tensors_close(t);
    return first;
}

static int count_named(const char *dir, const char *prefix) {
    int n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += strncmp(e->d_name, prefix, strlen(prefix)) == 0;
    closedir(d);
    return n;
}

/* Limits: 0 is one file; 130 gives three shards, 300 two. old is the limit of the model that is
 * there. */
static void sweep(uint64_t limit, uint64_t old, int e, const char *sentence) {
    char dir[256];
    make_dir(dir);
    fail_errno = e;
    for (fail_at = 1;; fail_at++) {
        oc_error err = {0};
        clear_dir(dir, 1);
        assert_int_equal(save(dir, 1, old, sound(), NULL), OC_OK);
        calls = 0;
        oc_status s = save(dir, 2, limit, flaky(), &err);
        assert_int_equal(count_named(dir, ".tmp-"), 0);
        if (calls < fail_at) {
            assert_int_equal(s, OC_OK);
            assert_float_equal(value_of(dir), 2, 0);
            break;
        }
        assert_int_equal(s, OC_E_IO);
        assert_non_null(strstr(err.message, sentence));
        assert_non_null(strstr(err.message, dir));
        /* The old model or the new one, never a mix. */
        float v = value_of(dir);
        assert_true(v == 1 || v == 2);
    }
    assert_true(fail_at > 8);
    clear_dir(dir, 0);
}

static void loses_nothing_whichever_call_fails(void **state) {
    (void)state;
    static const struct {
        int e;
        const char *sentence;
    } errors[] = {{ENOSPC, "No space left"}, {EIO, "Input/output error"}, {EDQUOT, "quota"}};
    for (int i = 0; i < 3; i++) {
        sweep(0, 0, errors[i].e, errors[i].sentence);
        sweep(0, 130, errors[i].e, errors[i].sentence);
        sweep(130, 0, errors[i].e, errors[i].sentence);
        sweep(300, 130, errors[i].e, errors[i].sentence);
    }
}

static int count_model_files(const char *dir) { return count_named(dir, "model"); }

/* Same file names as the old model: nothing may be seen rather than a mix, and nothing half-done
 * stays. */
static void never_mixes_shards_of_two_models(void **state) {
    (void)state;
    char dir[256];
    make_dir(dir);
    fail_errno = EIO;
    int lost = 0;
    for (fail_at = 1;; fail_at++) {
        clear_dir(dir, 1);
        assert_int_equal(save(dir, 1, 130, sound(), NULL), OC_OK);
        calls = 0;
        oc_status s = save(dir, 2, 130, flaky(), NULL);
        assert_int_equal(count_named(dir, ".tmp-"), 0);
        oc_tensors *t;
        oc_status seen = oc_tensors_open(&t, dir, NULL);
        oc_tensors_close(t);
        if (seen == OC_OK) {
            float v = value_of(dir);
            assert_true(v == 2 || (v == 1 && s != OC_OK));
        } else {
            assert_int_equal(seen, OC_E_NOTFOUND);
            assert_false(has_file(dir, "model.safetensors.index.json"));
            lost++;
        }
        if (calls < fail_at) break;
    }
    assert_true(lost > 0 && lost < fail_at / 2);
    clear_dir(dir, 0);
}

static void retries_interrupted_writes(void **state) {
    (void)state;
    char dir[256];
    make_dir(dir);
    oc_st_io io = *sound();
    io.write = f_write;
    fail_errno = EINTR;
    for (fail_at = 1; fail_at < 10; fail_at++) {
        calls = 0;
        assert_int_equal(save(dir, 3, 0, &io, NULL), OC_OK);
        assert_float_equal(value_of(dir), 3, 0);
    }
    clear_dir(dir, 0);
}

/* The kernel's own refusal: a limit on file size, at every place of header, data and index. */
static void reports_a_file_that_may_not_grow(void **state) {
    (void)state;
    char dir[256];
    make_dir(dir);
    struct rlimit was, now;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    int refused = 0;
    for (rlim_t most = 0; most < 800; most += 40) {
        now = was;
        now.rlim_cur = most;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
        oc_error err = {0};
        oc_status s = save(dir, 1, 130, sound(), &err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
        if (s == OC_OK) break;
        refused++;
        assert_int_equal(s, OC_E_IO);
        assert_non_null(strstr(err.message, "File too large"));
        assert_non_null(strstr(err.message, ".tmp-model"));
        assert_int_equal(count_files(dir), 0);
    }
    signal(SIGXFSZ, handler);
    assert_true(refused > 3);
    assert_float_equal(value_of(dir), 1, 0);
    clear_dir(dir, 0);
}

static void clears_up_after_a_failed_rename(void **state) {
    (void)state;
    char dir[256];
    make_dir(dir);
    oc_st_io io = *sound();
    io.rename = f_rename;
    fail_errno = EIO;
    for (fail_at = 1; fail_at <= 3; fail_at++) {
        calls = 0;
        assert_int_equal(save(dir, 1, 130, &io, NULL), OC_E_IO);
        assert_int_equal(count_model_files(dir), 0);
        assert_int_equal(count_files(dir), 0);
    }
    clear_dir(dir, 0);
}

/* What reaches the disk in which order: w write, s sync of a file, d of the directory, r rename, I
 * rename of the index. */
static char journal[256];

static void note(char c) {
    size_t n = strlen(journal);
    if (n + 1 < sizeof journal && (n == 0 || journal[n - 1] != c || c != 'w')) journal[n] = c;
}
static ssize_t j_write(int fd, const void *src, size_t n) {
    note('w');
    return oc_st_io_posix.write(fd, src, n);
}
static int j_fsync(int fd) {
    struct stat st;
    note(fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) ? 'd' : 's');
    return 0;
}
static int j_rename(const char *from, const char *to) {
    note(strstr(to, "index") != NULL ? 'I' : 'r');
    return oc_st_io_posix.rename(from, to);
}

static void syncs_before_it_renames(void **state) {
    (void)state;
    char dir[256];
    make_dir(dir);
    oc_st_io io = oc_st_io_posix;
    io.write = j_write;
    io.fsync = j_fsync;
    io.rename = j_rename;
    memset(journal, 0, sizeof journal);
    assert_int_equal(save(dir, 1, 0, &io, NULL), OC_OK);
    assert_string_equal(journal, "wsrd");
    memset(journal, 0, sizeof journal);
    assert_int_equal(save(dir, 1, 130, &io, NULL), OC_OK);
    assert_string_equal(journal, "wswswswsrrrdId");
    /* Over a model of the same shards, the old index is gone for good before they appear. */
    memset(journal, 0, sizeof journal);
    assert_int_equal(save(dir, 1, 130, &io, NULL), OC_OK);
    assert_string_equal(journal, "wswswswsdrrrdId");
    clear_dir(dir, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loses_nothing_whichever_call_fails),
        cmocka_unit_test(never_mixes_shards_of_two_models),
        cmocka_unit_test(retries_interrupted_writes),
        cmocka_unit_test(reports_a_file_that_may_not_grow),
        cmocka_unit_test(clears_up_after_a_failed_rename),
        cmocka_unit_test(syncs_before_it_renames),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
