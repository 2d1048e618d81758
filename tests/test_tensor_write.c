/* What the writer puts on disk: bytes, layout, shards, and that nothing is seen before commit. */
#include "tensor/safetensors_internal.h"
#include "tensor_util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define OK(call)                                                                                   \
    do {                                                                                           \
        oc_error ok_err = {0}, *err = &ok_err;                                                     \
        oc_status ok_s = (call);                                                                   \
        if (ok_s != OC_OK) print_error("%s\n", err->message);                                      \
        assert_int_equal(ok_s, OC_OK);                                                             \
    } while (0)

static unsigned char byte_of(int32_t decl, uint64_t k) {
    return (unsigned char)((uint64_t)decl * 37 + k * 11 + 5);
}

/* Streams every tensor in file order, in pieces of at most `piece` bytes. */
static void fill_raw(oc_writer *w, const oc_tensor_decl *decls, int32_t n, uint64_t piece) {
    for (int32_t k = 0; k < n; k++) {
        int32_t d = oc_writer_at(w, k);
        uint64_t bytes = oc_file_dtype_bits(decls[d].dtype);
        for (int32_t i = 0; i < decls[d].ndim; i++)
            bytes *= decls[d].dims[i];
        bytes /= 8;
        for (uint64_t at = 0; at < bytes;) {
            unsigned char buf[64];
            uint64_t m = bytes - at < piece ? bytes - at : piece;
            for (uint64_t i = 0; i < m; i++)
                buf[i] = byte_of(d, at + i);
            OK(oc_writer_append_raw(w, buf, m, err));
            at += m;
        }
    }
}

static void check_raw(const char *path, const oc_tensor_decl *decls, int32_t n) {
    oc_tensors *t;
    OK(oc_tensors_open(&t, path, err));
    assert_int_equal(oc_tensors_count(t), n);
    for (int32_t d = 0; d < n; d++) {
        const oc_tensor_info *x = oc_tensors_find(t, decls[d].name);
        assert_non_null(x);
        assert_int_equal(x->dtype, decls[d].dtype);
        assert_int_equal(x->ndim, decls[d].ndim);
        for (int32_t i = 0; i < x->ndim; i++)
            assert_int_equal(x->dims[i], decls[d].dims[i]);
        unsigned char raw[4096];
        OK(oc_tensors_read_raw(t, x, 0, x->bytes, raw, err));
        for (uint64_t k = 0; k < x->bytes; k++)
            assert_int_equal(raw[k], byte_of(d, k));
        assert_int_equal(x->offset % oc_st_alignment(x->dtype), 0);
    }
    oc_tensors_close(t);
}

static void round_trips_every_dtype_and_odd_shapes(void **state) {
    (void)state;
    oc_tensor_decl decls[OC_FD_COUNT + 5];
    char names[OC_FD_COUNT][16];
    int32_t n = 0;
    for (int i = 0; i < OC_FD_COUNT; i++) {
        snprintf(names[i], sizeof names[i], "t.%s", oc_file_dtype_name((oc_file_dtype)i));
        decls[n++] = (oc_tensor_decl){names[i], (oc_file_dtype)i, 2, {3, 8}};
    }
    decls[n++] = (oc_tensor_decl){"scalar", OC_FD_F32, 0, {0}};
    decls[n++] = (oc_tensor_decl){"empty", OC_FD_BF16, 3, {4, 0, 2}};
    decls[n++] = (oc_tensor_decl){"eight", OC_FD_I16, 8, {1, 2, 1, 3, 1, 1, 1, 2}};
    decls[n++] = (oc_tensor_decl){"a \"b\"\\\n\x01 caf\xc3\xa9", OC_FD_U8, 1, {7}};
    decls[n++] = (oc_tensor_decl){"", OC_FD_F64, 1, {5}};
    char dir[256], path[512];
    make_dir(dir);
    for (uint64_t piece = 1; piece <= 64; piece += 21) {
        oc_writer *w;
        OK(oc_writer_open(&w, dir, decls, n, 0, err));
        fill_raw(w, decls, n, piece);
        OK(oc_writer_commit(w, err));
        oc_writer_close(w);
        assert_int_equal(count_files(dir), 1);
        snprintf(path, sizeof path, "%s/model.safetensors", dir);
        check_raw(path, decls, n);
    }
    clear_dir(dir, 0);
}

/* The bytes are spelled out by hand from the format's description. */
static void writes_exactly_the_format(void **state) {
    (void)state;
    static const oc_tensor_decl decls[] = {
        {"b", OC_FD_BF16, 1, {3}}, {"z", OC_FD_F32, 2, {1, 2}}, {"a", OC_FD_F16, 1, {1}}};
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"z\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
        "\"a\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[8,10]},"
        "\"b\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[10,16]}}";
    static const unsigned char data[] = {0,    0,    0x80, 0x3f, 0,    0,
                                         0x20, 0xc0,                          /* 1, -2.5 fp32 */
                                         0x00, 0x3e,                          /* 1.5 fp16 */
                                         0x80, 0x3f, 0x00, 0x00, 0x20, 0xc1}; /* 1, 0, -10 bf16 */
    char dir[256];
    make_dir(dir);
    oc_writer *w;
    OK(oc_writer_open(&w, dir, decls, 3, 0, err));
    assert_int_equal(oc_writer_at(w, 0), 1);
    assert_int_equal(oc_writer_at(w, 1), 2);
    assert_int_equal(oc_writer_at(w, 2), 0);
    assert_int_equal(oc_writer_at(w, 3), -1);
    const float z[] = {1, -2.5f}, a[] = {1.5f}, b[] = {1, 0, -10};
    OK(oc_writer_append(w, z, OC_F32, 2, err));
    OK(oc_writer_append(w, a, OC_F32, 1, err));
    OK(oc_writer_append(w, b, OC_F32, 3, err));
    OK(oc_writer_commit(w, err));
    oc_writer_close(w);
    size_t n, text = strlen(header), padded = (text + 7) / 8 * 8;
    char *file = get_file(dir, "model.safetensors", &n);
    assert_int_equal(n, 8 + padded + sizeof data);
    uint64_t length;
    memcpy(&length, file, 8);
    assert_int_equal(length, padded);
    assert_memory_equal(file + 8, header, text);
    for (size_t i = text; i < padded; i++)
        assert_int_equal(file[8 + i], ' ');
    assert_memory_equal(file + 8 + padded, data, sizeof data);
    free(file);
    clear_dir(dir, 0);
}

/* More than one bounce buffer, converted both ways, against the scalar conversions. */
static void converts_long_tensors_in_pieces(void **state) {
    (void)state;
    enum { N = 200003 };
    static float in[N];
    static uint16_t half[N];
    static float back[N];
    for (int i = 0; i < N; i++)
        in[i] = (float)(i % 4099 - 2000) * 0.01f;
    const oc_tensor_decl decl = {"w", OC_FD_BF16, 1, {N}};
    char dir[256];
    make_dir(dir);
    oc_writer *w;
    oc_tensors *t;
    OK(oc_writer_open(&w, dir, &decl, 1, 0, err));
    OK(oc_writer_append(w, in, OC_F32, 150001, err));
    OK(oc_writer_append(w, in + 150001, OC_F32, N - 150001, err));
    OK(oc_writer_commit(w, err));
    oc_writer_close(w);
    OK(oc_tensors_open(&t, dir, err));
    const oc_tensor_info *x = oc_tensors_find(t, "w");
    OK(oc_tensors_read(t, x, 0, N, OC_BF16, half, err));
    OK(oc_tensors_read(t, x, 1, N - 1, OC_F32, back, err));
    for (int i = 0; i < N; i++)
        assert_int_equal(half[i], oc_f32_to_bf16(in[i]));
    for (int i = 1; i < N; i++)
        assert_float_equal(back[i - 1], oc_bf16_to_f32(oc_f32_to_bf16(in[i])), 0);
    oc_tensors_close(t);
    clear_dir(dir, 0);
}

static const oc_tensor_decl four[] = {{"embed", OC_FD_F32, 2, {5, 4}}, /* 80 bytes */
                                      {"l0", OC_FD_F32, 1, {10}},      /* 40 */
                                      {"l1", OC_FD_F32, 1, {10}},
                                      {"big", OC_FD_BF16, 1, {100}}}; /* 200 */

static void write_four(const char *dir, uint64_t max_shard_bytes) {
    oc_writer *w;
    OK(oc_writer_open(&w, dir, four, 4, max_shard_bytes, err));
    fill_raw(w, four, 4, 64);
    OK(oc_writer_commit(w, err));
    oc_writer_close(w);
    check_raw(dir, four, 4);
}

static void shards_as_hugging_face_does(void **state) {
    (void)state;
    static const char index[] = "{\n"
                                "  \"metadata\": {\n"
                                "    \"total_size\": 360\n"
                                "  },\n"
                                "  \"weight_map\": {\n"
                                "    \"big\": \"model-00003-of-00003.safetensors\",\n"
                                "    \"embed\": \"model-00001-of-00003.safetensors\",\n"
                                "    \"l0\": \"model-00002-of-00003.safetensors\",\n"
                                "    \"l1\": \"model-00002-of-00003.safetensors\"\n"
                                "  }\n"
                                "}\n";
    char dir[256];
    size_t n;
    make_dir(dir);
    write_four(dir, 100);
    assert_int_equal(count_files(dir), 4);
    char *text = get_file(dir, "model.safetensors.index.json", &n);
    assert_int_equal(n, strlen(index));
    assert_memory_equal(text, index, n);
    free(text);
    write_four(dir, 120); /* embed + l0, l1, big */
    assert_int_equal(count_files(dir), 4);
    clear_dir(dir, 0);
}

static void removes_an_older_model_of_another_shape(void **state) {
    (void)state;
    char dir[256];
    make_dir(dir);
    put_text(dir, "config.json", "{}");
    put_text(dir, "model-x.safetensors", "not ours");
    write_four(dir, 100); /* three shards and an index */
    assert_int_equal(count_files(dir), 6);
    write_four(dir, 0); /* one file */
    assert_int_equal(count_files(dir), 3);
    assert_true(has_file(dir, "model.safetensors"));
    write_four(dir, 160); /* two shards and an index: the single file would win over it */
    assert_int_equal(count_files(dir), 5);
    assert_false(has_file(dir, "model.safetensors"));
    write_four(dir, 100);
    assert_int_equal(count_files(dir), 6);
    assert_false(has_file(dir, "model-00001-of-00002.safetensors"));
    assert_true(has_file(dir, "config.json"));
    assert_true(has_file(dir, "model-x.safetensors"));
    clear_dir(dir, 0);
}

static void shows_nothing_before_commit_and_leaves_nothing_after_close(void **state) {
    (void)state;
    for (uint64_t limit = 0; limit <= 100; limit += 100) {
        char dir[256];
        make_dir(dir);
        oc_writer *w;
        OK(oc_writer_open(&w, dir, four, 4, limit, err));
        fill_raw(w, four, 4, 64);
        DIR *d = opendir(dir);
        for (struct dirent *e; (e = readdir(d)) != NULL;)
            if (e->d_name[0] != '.' || strlen(e->d_name) > 2)
                assert_memory_equal(e->d_name, ".tmp-", 5);
        closedir(d);
        oc_writer_close(w);
        assert_int_equal(count_files(dir), 0);
        rmdir(dir);
    }
}

static void refuses_misuse_by_name(void **state) {
    (void)state;
    char dir[256];
    make_dir(dir);
    oc_writer *w;
    oc_error e = {0};
    float v[100] = {0};
    const oc_tensor_decl twice[] = {
        {"x", OC_FD_F32, 1, {1}}, {"y", OC_FD_F32, 1, {1}}, {"x", OC_FD_F16, 1, {1}}};
    assert_int_equal(oc_writer_open(&w, dir, twice, 3, 0, &e), OC_E_INVALID);
    assert_non_null(strstr(e.message, "'x' is to be written twice"));
    assert_null(w);
    static const struct {
        oc_tensor_decl decl;
        oc_status status;
    } bad[] = {{{"__metadata__", OC_FD_F32, 1, {1}}, OC_E_INVALID},
               {{"v", OC_FD_F32, 9, {1}}, OC_E_INVALID},
               {{"v", OC_FD_F32, -1, {1}}, OC_E_INVALID},
               {{"v", OC_FD_COUNT, 1, {1}}, OC_E_INVALID},
               {{"v", OC_FD_F4, 1, {3}}, OC_E_INVALID},
               {{"v", OC_FD_F32, 2, {1ull << 40, 1ull << 40}}, OC_E_OVERFLOW},
               {{NULL, OC_FD_F32, 1, {1}}, OC_E_INVALID},
               {{"\xff", OC_FD_F32, 1, {1}}, OC_E_INVALID}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(oc_writer_open(&w, dir, &bad[i].decl, 1, 0, &e), bad[i].status);
        assert_int_equal(count_files(dir), 0);
    }
    assert_int_equal(oc_writer_open(&w, "/nowhere", four, 4, 0, &e), OC_E_IO);
    assert_non_null(strstr(e.message, "/nowhere"));

    const oc_tensor_decl two[] = {{"f", OC_FD_F32, 1, {2}}, {"i", OC_FD_I32, 1, {2}}};
    OK(oc_writer_open(&w, dir, two, 2, 0, err));
    assert_int_equal(oc_writer_append(w, v, OC_F32, 3, &e), OC_E_INVALID);
    assert_non_null(strstr(e.message, "'f'"));
    assert_int_equal(oc_writer_append(w, v, OC_F32, UINT64_MAX / 2, &e), OC_E_INVALID);
    OK(oc_writer_append(w, v, OC_F32, 1, err));
    assert_int_equal(oc_writer_commit(w, &e), OC_E_INVALID);
    assert_non_null(strstr(e.message, "'f' is incomplete"));
    OK(oc_writer_append(w, v, OC_F32, 1, err));
    assert_int_equal(oc_writer_append(w, v, OC_F32, 1, &e), OC_E_UNSUPPORTED);
    assert_non_null(strstr(e.message, "'i': I32"));
    OK(oc_writer_append_raw(w, v, 8, err));
    assert_int_equal(oc_writer_append_raw(w, v, 1, &e), OC_E_INVALID);
    OK(oc_writer_commit(w, err));
    assert_int_equal(oc_writer_commit(w, &e), OC_E_INVALID);
    assert_int_equal(oc_writer_append_raw(w, v, 1, &e), OC_E_INVALID);
    oc_writer_close(w);
    oc_writer_close(NULL);
    clear_dir(dir, 0);
}

static void writes_a_model_without_tensors(void **state) {
    (void)state;
    char dir[256];
    make_dir(dir);
    oc_writer *w;
    oc_tensors *t;
    OK(oc_writer_open(&w, dir, NULL, 0, 0, err));
    OK(oc_writer_commit(w, err));
    oc_writer_close(w);
    OK(oc_tensors_open(&t, dir, err));
    assert_int_equal(oc_tensors_count(t), 0);
    oc_tensors_close(t);
    clear_dir(dir, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips_every_dtype_and_odd_shapes),
        cmocka_unit_test(writes_exactly_the_format),
        cmocka_unit_test(converts_long_tensors_in_pieces),
        cmocka_unit_test(shards_as_hugging_face_does),
        cmocka_unit_test(removes_an_older_model_of_another_shape),
        cmocka_unit_test(shows_nothing_before_commit_and_leaves_nothing_after_close),
        cmocka_unit_test(refuses_misuse_by_name),
        cmocka_unit_test(writes_a_model_without_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
