/* Reads what the reference library wrote, and refuses what it must (see
 * tools/make_safetensors_fixtures.py). */
#include "tensor/safetensors_internal.h"
#include "tensor_util.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

static oc_tensors *open_ok(const char *path) {
    oc_tensors *t;
    oc_error err = {0};
    oc_status s = oc_tensors_open(&t, path, &err);
    if (s != OC_OK) print_error("%s\n", err.message);
    assert_int_equal(s, OC_OK);
    return t;
}

static void open_refused(const char *path, oc_status want, const char *const words[], int n) {
    oc_tensors *t = (oc_tensors *)&n;
    oc_error err = {0};
    oc_status s = oc_tensors_open(&t, path, &err);
    if (s != want) print_error("%s: %s, %s\n", path, oc_status_name(s), err.message);
    assert_int_equal(s, want);
    assert_int_equal(err.status, want);
    assert_null(t);
    for (int i = 0; i < n && words[i] != NULL; i++) {
        if (strstr(err.message, words[i]) == NULL) print_error("%s\n", err.message);
        assert_non_null(strstr(err.message, words[i]));
    }
    assert_null(strchr(err.message, '\n'));
}

static void refuses_each_bad_file_by_its_own_message(void **state) {
    (void)state;
    static const struct {
        const char *file;
        oc_status status;
        const char *words[2];
    } bad[] = {
        {"empty", OC_E_FORMAT, {"0 bytes are too few"}},
        {"seven_bytes", OC_E_FORMAT, {"7 bytes are too few"}},
        {"header_too_long", OC_E_FORMAT, {"100000001", "above the limit"}},
        {"header_past_end", OC_E_FORMAT, {"truncated: a header of 9 bytes"}},
        {"length_overflows", OC_E_FORMAT, {"above the limit"}},
        {"truncated", OC_E_FORMAT, {"truncated: tensor 'x'"}},
        {"trailing", OC_E_FORMAT, {"1 bytes after the last tensor"}},
        {"utf8", OC_E_FORMAT, {"not valid UTF-8"}},
        {"json", OC_E_FORMAT, {"not valid JSON"}},
        {"json_two", OC_E_FORMAT, {"not valid JSON"}},
        {"json_nul_padding", OC_E_FORMAT, {"not valid JSON"}},
        {"json_deep", OC_E_FORMAT, {"not valid JSON"}},
        {"array", OC_E_FORMAT, {"not a JSON object"}},
        {"entry_not_object", OC_E_FORMAT, {"'x' is not a JSON object"}},
        {"no_dtype", OC_E_FORMAT, {"'x' has no \"dtype\""}},
        {"no_shape", OC_E_FORMAT, {"'x' has no \"shape\""}},
        {"no_offsets", OC_E_FORMAT, {"'x': \"data_offsets\""}},
        {"unknown_dtype", OC_E_FORMAT, {"'x' has the unknown dtype 'F128'"}},
        {"dtype_case", OC_E_FORMAT, {"'x' has the unknown dtype 'u8'"}},
        {"negative_dim", OC_E_FORMAT, {"'x': dimension 0"}},
        {"real_dim", OC_E_FORMAT, {"'x': dimension 0"}},
        {"dim_too_big", OC_E_FORMAT, {"not valid JSON", "integer"}},
        {"shape_overflow", OC_E_OVERFLOW, {"'x': the product of its shape overflows"}},
        {"shape_wraps", OC_E_OVERFLOW, {"'x': the product of its shape overflows"}},
        {"size_overflow", OC_E_OVERFLOW, {"'x': its size overflows"}},
        {"size_mismatch", OC_E_FORMAT, {"'x' has 20 bytes", "need 24"}},
        {"half_byte", OC_E_FORMAT, {"'x': 3 elements of F4"}},
        {"end_before_begin", OC_E_FORMAT, {"'x' ends (0) before it begins (2)"}},
        {"three_offsets", OC_E_FORMAT, {"'x': \"data_offsets\""}},
        {"negative_offset", OC_E_FORMAT, {"'x': \"data_offsets\""}},
        {"hole_first", OC_E_FORMAT, {"a hole of 1 bytes before tensor 'x'"}},
        {"hole", OC_E_FORMAT, {"a hole of 1 bytes before tensor 'y'"}},
        {"overlap", OC_E_FORMAT, {"'y' overlaps tensor 'x'"}},
        {"same_place", OC_E_FORMAT, {"'y' overlaps tensor 'x'"}},
        {"empty_inside", OC_E_FORMAT, {"'y' overlaps tensor 'x'"}},
        {"far_away", OC_E_FORMAT, {"a hole of 9223372036854775807 bytes"}},
        {"twice", OC_E_FORMAT, {"a key twice", "x"}},
        {"twice_inside", OC_E_FORMAT, {"a key twice", "dtype"}},
        {"metadata_array", OC_E_FORMAT, {"\"__metadata__\" is not a JSON object"}},
        {"metadata_number", OC_E_FORMAT, {"\"__metadata__\" key 'k' is not a string"}},
        {"nul_name", OC_E_FORMAT, {"not valid JSON", "NUL"}},
        {"nine_dims", OC_E_UNSUPPORTED, {"'x' has 9 dimensions"}},
    };
    const int n = (int)(sizeof bad / sizeof bad[0]);
    assert_int_equal(count_files(DATA "bad"), n);
    for (int i = 0; i < n; i++) {
        char path[1024];
        snprintf(path, sizeof path, DATA "bad/%s.safetensors", bad[i].file);
        open_refused(path, bad[i].status, bad[i].words, 2);
        const char *named[] = {path};
        open_refused(path, bad[i].status, named, 1);
    }
}

static void reads_the_reference_librarys_weights(void **state) {
    (void)state;
    oc_tensors *t = open_ok(DATA "good/weights.safetensors");
    assert_int_equal(oc_tensors_count(t), 6);
    assert_int_equal(oc_tensors_file_count(t), 1);
    assert_string_equal(oc_tensors_metadata(t, 0, "format"), "pt");
    assert_string_equal(oc_tensors_metadata(t, 0, "note"), "h\xc3\xa9llo \"x\"");
    assert_null(oc_tensors_metadata(t, 0, "other"));
    static const char *const names[] = {"a.f32", "b.f16", "c.bf16"};
    static const oc_file_dtype dtypes[] = {OC_FD_F32, OC_FD_F16, OC_FD_BF16};
    for (int i = 0; i < 3; i++) {
        const oc_tensor_info *x = oc_tensors_find(t, names[i]);
        assert_non_null(x);
        assert_int_equal(x->dtype, dtypes[i]);
        assert_int_equal(x->ndim, 2);
        assert_int_equal(x->dims[0], 3);
        assert_int_equal(x->dims[1], 5);
        float v[15];
        assert_int_equal(oc_tensors_read(t, x, 0, 15, OC_F32, v, NULL), OC_OK);
        for (int k = 0; k < 15; k++)
            assert_float_equal(v[k], (float)(k - 7) * 0.375f, 0);
        uint16_t part[3];
        assert_int_equal(oc_tensors_read(t, x, 11, 3, OC_BF16, part, NULL), OC_OK);
        for (int k = 0; k < 3; k++)
            assert_float_equal(oc_bf16_to_f32(part[k]), (float)(k + 4) * 0.375f, 0);
    }
    const oc_tensor_info *x = oc_tensors_find(t, "scalar");
    float v = 0;
    assert_int_equal(x->ndim, 0);
    assert_int_equal(x->elements, 1);
    assert_int_equal(oc_tensors_read(t, x, 0, 1, OC_F32, &v, NULL), OC_OK);
    assert_float_equal(v, 2.5f, 0);
    x = oc_tensors_find(t, "empty");
    assert_int_equal(x->elements, 0);
    assert_int_equal(oc_tensors_read(t, x, 0, 0, OC_F32, NULL, NULL), OC_OK);
    assert_null(oc_tensors_find(t, "a.f3"));
    assert_null(oc_tensors_find(t, "a.f322"));
    oc_tensors_close(t);
}

/* The file holds a tensor and its casts by PyTorch: ours must give the same bits. */
static void converts_as_pytorch_does(void **state) {
    (void)state;
    static const struct {
        const char *from, *want;
        oc_dtype dtype;
    } cases[] = {{"wide", "as_bf16", OC_BF16},       {"wide", "as_f16", OC_F16},
                 {"as_bf16", "bf16_as_f32", OC_F32}, {"as_f16", "f16_as_f32", OC_F32},
                 {"as_bf16", "bf16_as_f16", OC_F16}, {"as_f16", "f16_as_bf16", OC_BF16},
                 {"as_bf16", "as_bf16", OC_BF16}};
    oc_tensors *t = open_ok(DATA "good/rounding.safetensors");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const oc_tensor_info *x = oc_tensors_find(t, cases[i].from);
        const oc_tensor_info *y = oc_tensors_find(t, cases[i].want);
        unsigned char got[512], want[512];
        assert_int_equal(x->elements, 128);
        assert_int_equal(oc_tensors_read(t, x, 0, 128, cases[i].dtype, got, NULL), OC_OK);
        assert_int_equal(oc_tensors_read_raw(t, y, 0, y->bytes, want, NULL), OC_OK);
        assert_memory_equal(got, want, y->bytes);
    }
    oc_tensors_close(t);
}

static void reads_every_dtype_and_refuses_to_convert_the_others(void **state) {
    (void)state;
    static const struct {
        const char *name;
        oc_file_dtype dtype;
        uint32_t width;
    } all[] = {{"bool", OC_FD_BOOL, 1},
               {"uint8", OC_FD_U8, 1},
               {"int8", OC_FD_I8, 1},
               {"float8_e5m2", OC_FD_F8_E5M2, 1},
               {"float8_e4m3fn", OC_FD_F8_E4M3, 1},
               {"float8_e8m0fnu", OC_FD_F8_E8M0, 1},
               {"int16", OC_FD_I16, 2},
               {"uint16", OC_FD_U16, 2},
               {"float16", OC_FD_F16, 2},
               {"bfloat16", OC_FD_BF16, 2},
               {"int32", OC_FD_I32, 4},
               {"uint32", OC_FD_U32, 4},
               {"float32", OC_FD_F32, 4},
               {"complex64", OC_FD_C64, 8},
               {"float64", OC_FD_F64, 8},
               {"int64", OC_FD_I64, 8},
               {"uint64", OC_FD_U64, 8}};
    oc_tensors *t = open_ok(DATA "good/dtypes.safetensors");
    assert_int_equal(oc_tensors_count(t), 17);
    for (unsigned i = 0; i < 17; i++) {
        const oc_tensor_info *x = oc_tensors_find(t, all[i].name);
        assert_non_null(x);
        assert_int_equal(x->dtype, all[i].dtype);
        assert_int_equal(x->bytes, 6 * all[i].width);
        unsigned char raw[64];
        assert_int_equal(oc_tensors_read_raw(t, x, 0, x->bytes, raw, NULL), OC_OK);
        for (unsigned k = 0; k < x->bytes; k++)
            assert_int_equal(raw[k], i == 0 ? k % 2 : k + i);
        oc_dtype d;
        if (oc_file_dtype_compute(x->dtype, &d)) continue;
        float v[6];
        oc_error err = {0};
        assert_int_equal(oc_tensors_read(t, x, 0, 6, OC_F32, v, &err), OC_E_UNSUPPORTED);
        assert_non_null(strstr(err.message, all[i].name));
        assert_non_null(strstr(err.message, oc_file_dtype_name(x->dtype)));
    }
    oc_tensors_close(t);
}

static void reads_odd_but_legal_headers(void **state) {
    (void)state;
    oc_tensors *t = open_ok(DATA "good/nothing.safetensors");
    assert_int_equal(oc_tensors_count(t), 0);
    assert_null(oc_tensors_at(t, 0));
    assert_null(oc_tensors_find(t, "x"));
    oc_tensors_close(t);

    t = open_ok(DATA "good/space.safetensors");
    char b[3] = {0};
    assert_int_equal(oc_tensors_read_raw(t, oc_tensors_find(t, "x"), 0, 2, b, NULL), OC_OK);
    assert_string_equal(b, "ab");
    oc_tensors_close(t);

    t = open_ok(DATA "good/unsorted.safetensors");
    assert_int_equal(oc_tensors_count(t), 4);
    static const char *const order[] = {"z", "e", "a", "end"};
    for (int i = 0; i < 4; i++)
        assert_string_equal(oc_tensors_at(t, i)->name, order[i]);
    assert_int_equal(oc_tensors_read_raw(t, oc_tensors_find(t, "a"), 1, 2, b, NULL), OC_OK);
    assert_string_equal(b, "aa");
    oc_tensors_close(t);

    t = open_ok(DATA "good/nul.safetensors");
    assert_string_equal(oc_tensors_metadata(t, 0, "k"), "a");
    oc_tensors_close(t);

    t = open_ok(DATA "good/names.safetensors");
    assert_non_null(oc_tensors_find(t, ""));
    assert_non_null(oc_tensors_find(t, "caf\xc3\xa9/\xe4\xb8\xad/.."));
    assert_non_null(oc_tensors_find(t, "new\nline"));
    oc_tensors_close(t);

    t = open_ok(DATA "good/subbyte.safetensors");
    assert_int_equal(oc_tensors_find(t, "e2")->bytes, 3);
    assert_int_equal(oc_tensors_find(t, "e3")->elements, 8);
    oc_tensors_close(t);
}

static void refuses_reads_outside_a_tensor(void **state) {
    (void)state;
    oc_tensors *t = open_ok(DATA "good/weights.safetensors");
    const oc_tensor_info *x = oc_tensors_find(t, "b.f16");
    float v[16];
    oc_error err = {0};
    assert_int_equal(oc_tensors_read(t, x, 0, 16, OC_F32, v, &err), OC_E_INVALID);
    assert_non_null(strstr(err.message, "b.f16"));
    assert_int_equal(oc_tensors_read(t, x, 16, 0, OC_F32, v, NULL), OC_E_INVALID);
    assert_int_equal(oc_tensors_read(t, x, 2, UINT64_MAX, OC_F32, v, NULL), OC_E_INVALID);
    assert_int_equal(oc_tensors_read(t, x, UINT64_MAX, 2, OC_F32, v, NULL), OC_E_INVALID);
    assert_int_equal(oc_tensors_read_raw(t, x, 29, 2, v, NULL), OC_E_INVALID);
    assert_int_equal(oc_tensors_read(t, x, 15, 0, OC_F32, v, NULL), OC_OK);
    oc_tensors_close(t);
}

/* ---- indexes ---- */

static void loads_only_what_the_index_names(void **state) {
    (void)state;
    const char *paths[] = {DATA "sharded", DATA "sharded/",
                           DATA "sharded/model.safetensors.index.json"};
    for (int p = 0; p < 3; p++) {
        oc_tensors *t = open_ok(paths[p]);
        assert_int_equal(oc_tensors_count(t), 4);
        assert_int_equal(oc_tensors_file_count(t), 2);
        assert_null(oc_tensors_find(t, "stray"));
        for (int i = 0; i < 4; i++) {
            char name[32];
            float v[32];
            snprintf(name, sizeof name, "layers.%d.w", i);
            const oc_tensor_info *x = oc_tensors_find(t, name);
            assert_non_null(x);
            assert_int_equal(x->file, i / 2);
            assert_non_null(strstr(oc_tensors_file(t, x->file),
                                   i < 2 ? "model-00001-of-00002" : "model-00002-of-00002"));
            assert_int_equal(oc_tensors_read(t, x, 0, 32, OC_F32, v, NULL), OC_OK);
            assert_float_equal(v[31], (float)i, 0);
        }
        oc_tensors_close(t);
    }
}

/* One U8 tensor, or two. */
static void put_shard(const char *dir, const char *name, const char *a, const char *b) {
    char json[512];
    int n = snprintf(json, sizeof json,
                     "{\"%s\":{\"dtype\":\"U8\",\"shape\":[1],"
                     "\"data_offsets\":[0,1]}",
                     a);
    if (b != NULL)
        n += snprintf(json + n, sizeof json - (size_t)n,
                      ",\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}", b);
    n += snprintf(json + n, sizeof json - (size_t)n, "}%s", b != NULL ? "xy" : "x");
    char file[600];
    uint64_t header = (uint64_t)n - (b != NULL ? 2 : 1);
    memcpy(file, &header, 8);
    memcpy(file + 8, json, (size_t)n);
    put_file(dir, name, file, 8 + (size_t)n);
}

#define MAP(pairs) "{\"metadata\":{\"total_size\":3},\"weight_map\":{" pairs "}}"

static void refuses_bad_indexes_by_name(void **state) {
    (void)state;
    static const struct {
        const char *json;
        oc_status status;
        const char *words[3];
    } bad[] = {
        {"", OC_E_FORMAT, {"index is not valid JSON"}},
        {"[]", OC_E_FORMAT, {"no \"weight_map\""}},
        {"{\"weight_map\":[]}", OC_E_FORMAT, {"no \"weight_map\""}},
        {MAP(""), OC_E_FORMAT, {"names no tensor"}},
        {MAP("\"a\":3"), OC_E_FORMAT, {"file of tensor 'a' is not a string"}},
        {MAP("\"a\":\"s.safetensors\",\"a\":\"s.safetensors\""), OC_E_FORMAT, {"a key twice", "a"}},
        {MAP("\"a\":\"../s.safetensors\""), OC_E_FORMAT, {"tensor 'a'", "'../s.safetensors'"}},
        {MAP("\"a\":\"..\""), OC_E_FORMAT, {"tensor 'a'", "'..'"}},
        {MAP("\"a\":\".\""), OC_E_FORMAT, {"tensor 'a'"}},
        {MAP("\"a\":\"\""), OC_E_FORMAT, {"tensor 'a'"}},
        {MAP("\"a\":\"/etc/passwd\""), OC_E_FORMAT, {"tensor 'a'", "'/etc/passwd'"}},
        {MAP("\"a\":\"sub\\\\s.safetensors\""), OC_E_FORMAT, {"tensor 'a'"}},
        {MAP("\"a\":\"s.safetensors\\u0000x\""), OC_E_FORMAT, {"tensor 'a'"}},
        {MAP("\"a\":\"gone.safetensors\""),
         OC_E_NOTFOUND,
         {"shard 'gone.safetensors' is missing", "'a'"}},
        {MAP("\"a\":\"s.safetensors\",\"c\":\"s.safetensors\""),
         OC_E_NOTFOUND,
         {"s.safetensors: tensor 'c' is missing", "index.json"}},
        {MAP("\"a\":\"s.safetensors\",\"b\":\"s2.safetensors\""),
         OC_E_NOTFOUND,
         {"s2.safetensors: tensor 'b' is missing"}},
        {MAP("\"a\":\"dir\""), OC_E_INVALID, {"dir is not a regular file"}},
        {MAP("\"a\":\"fifo\""), OC_E_INVALID, {"fifo is not a regular file"}},
        {MAP("\"a\":\"text\""), OC_E_FORMAT, {"text"}},
    };
    char dir[256], path[512];
    make_dir(dir);
    snprintf(path, sizeof path, "%s/dir", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    char fifo[512];
    snprintf(fifo, sizeof fifo, "%s/fifo", dir);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    put_shard(dir, "s.safetensors", "a", "b");
    put_shard(dir, "s2.safetensors", "c", NULL);
    put_text(dir, "text", "hello, world");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        put_text(dir, "model.safetensors.index.json", bad[i].json);
        open_refused(dir, bad[i].status, bad[i].words, 3);
    }
    put_text(dir, "model.safetensors.index.json",
             MAP("\"c\":\"s2.safetensors\",\"b\":\"s.safetensors\""));
    oc_tensors *t = open_ok(dir);
    assert_int_equal(oc_tensors_count(t), 2);
    assert_null(oc_tensors_find(t, "a"));
    assert_int_equal(oc_tensors_find(t, "b")->file, 0);
    assert_int_equal(oc_tensors_find(t, "c")->file, 1);
    oc_tensors_close(t);
    rmdir(path);
    clear_dir(dir, 0);
}

static void says_what_is_not_there(void **state) {
    (void)state;
    char dir[256];
    make_dir(dir);
    const char *words[] = {"neither model.safetensors nor", dir};
    open_refused(dir, OC_E_NOTFOUND, words, 2);
    const char *none[] = {"/nowhere/x.safetensors", "No such file"};
    open_refused("/nowhere/x.safetensors", OC_E_NOTFOUND, none, 2);
    /* A single model.safetensors wins over an index, as in the reference library. */
    put_shard(dir, "model.safetensors", "single", NULL);
    put_text(dir, "model.safetensors.index.json", "{");
    oc_tensors *t = open_ok(dir);
    assert_non_null(oc_tensors_find(t, "single"));
    oc_tensors_close(t);
    clear_dir(dir, 0);
}

/* ---- faults ---- */

static int reads, fail_at, fail_errno;

/* Short reads all along; read number fail_at fails with fail_errno. */
static ssize_t flaky_pread(int fd, void *dst, size_t n, off_t offset) {
    if (++reads == fail_at) {
        errno = fail_errno;
        return -1;
    }
    return oc_st_io_posix.pread(fd, dst, n > 5 ? 5 : n, offset);
}

static void survives_short_and_interrupted_reads_and_names_failed_ones(void **state) {
    (void)state;
    oc_st_io io = oc_st_io_posix;
    io.pread = flaky_pread;
    static const int errnos[] = {EINTR, EIO};
    for (int e = 0; e < 2; e++) {
        int at = 1;
        for (;; at++) {
            reads = 0;
            fail_at = at;
            fail_errno = errnos[e];
            oc_tensors *t;
            oc_error err = {0};
            float v[15] = {0};
            oc_status s = oc_tensors_open_io(&t, DATA "good/weights.safetensors", &io, &err);
            if (s == OC_OK)
                s = oc_tensors_read(t, oc_tensors_find(t, "b.f16"), 0, 15, OC_F32, v, &err);
            oc_tensors_close(t);
            if (fail_errno == EIO && reads >= at) {
                assert_int_equal(s, OC_E_IO);
                assert_non_null(strstr(err.message, "weights.safetensors"));
                assert_non_null(strstr(err.message, "Input/output error"));
                continue;
            }
            assert_int_equal(s, OC_OK);
            for (int k = 0; k < 15; k++)
                assert_float_equal(v[k], (float)(k - 7) * 0.375f, 0);
            if (reads < at) break;
        }
        assert_true(at > 50);
    }
}

static void names_a_file_that_shrank_after_open(void **state) {
    (void)state;
    char dir[256], path[512];
    size_t n;
    make_dir(dir);
    char *data = get_file(DATA "good", "weights.safetensors", &n);
    put_file(dir, "w.safetensors", data, n);
    free(data);
    snprintf(path, sizeof path, "%s/w.safetensors", dir);
    oc_tensors *t = open_ok(path);
    assert_int_equal(truncate(path, (off_t)n - 4), 0);
    const oc_tensor_info *last = oc_tensors_at(t, oc_tensors_count(t) - 1);
    unsigned char raw[64];
    oc_error err = {0};
    assert_int_equal(oc_tensors_read_raw(t, last, 0, last->bytes, raw, &err), OC_E_IO);
    assert_non_null(strstr(err.message, "it shrank"));
    assert_non_null(strstr(err.message, last->name));
    assert_non_null(strstr(err.message, path));
    oc_tensors_close(t);
    clear_dir(dir, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_each_bad_file_by_its_own_message),
        cmocka_unit_test(reads_the_reference_librarys_weights),
        cmocka_unit_test(converts_as_pytorch_does),
        cmocka_unit_test(reads_every_dtype_and_refuses_to_convert_the_others),
        cmocka_unit_test(reads_odd_but_legal_headers),
        cmocka_unit_test(refuses_reads_outside_a_tensor),
        cmocka_unit_test(loads_only_what_the_index_names),
        cmocka_unit_test(refuses_bad_indexes_by_name),
        cmocka_unit_test(says_what_is_not_there),
        cmocka_unit_test(survives_short_and_interrupted_reads_and_names_failed_ones),
        cmocka_unit_test(names_a_file_that_shrank_after_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
