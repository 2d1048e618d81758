/* test_model_load.c - blocks from a checkpoint and back, what is refused on the way, and first
 * values from a seed. */
#include "base/fs.h"
#include "cmocka_all.h"
#include "model/load.h"
#include "model/philox.h"
#include "scratch.h"

#include <math.h>
#include <string.h>

static void check(oc_status s, const oc_error *err) {
    if (s != OC_OK) fail_msg("%s: %s", oc_status_name(s), err->message);
}

static void *room(uint64_t bytes) {
    void *p = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64 + 64);
    assert_non_null(p);
    memset(p, 0x5a, (size_t)(bytes + 63) / 64 * 64 + 64);
    return p;
}

static oc_model *parse(const char *json) {
    oc_model *m = NULL;
    oc_error err = {.status = OC_OK};
    check(oc_model_parse(&m, json, "config.json", &err), &err);
    return m;
}

/* ---- there and back ----------------------------------------------------------------------- */

typedef struct store {
    void **blocks;
    oc_dtype dtype;
} store;

static oc_status stored(void *arg, int32_t block, const void **values, oc_dtype *dtype,
                        oc_error *err) {
    (void)err;
    const store *s = arg;
    *values = s->blocks[block];
    *dtype = s->dtype;
    return OC_OK;
}

static void read_all(const oc_model *m, oc_tensors *t, store *s, uint64_t scratch_bytes) {
    oc_error err = {.status = OC_OK};
    void *scratch = room(scratch_bytes);
    s->blocks = calloc((size_t)m->n_blocks, sizeof(void *));
    for (int32_t b = 0; b < m->n_blocks; b++) {
        s->blocks[b] = room(m->blocks[b].elements * oc_dtype_bytes(s->dtype));
        check(oc_model_read_block(m, t, b, s->dtype, s->blocks[b], scratch, scratch_bytes, &err),
              &err);
    }
    free(scratch);
}

static void free_store(const oc_model *m, store *s) {
    for (int32_t b = 0; b < m->n_blocks; b++)
        free(s->blocks[b]);
    free(s->blocks);
}

static void write_all(const oc_model *m, store *s, const char *dir, uint64_t scratch_bytes) {
    oc_error err = {.status = OC_OK};
    oc_tensor_decl *decls;
    oc_writer *w;
    int32_t n;
    void *scratch = room(scratch_bytes);
    check(oc_model_decls(m, s->dtype, &decls, &n, &err), &err);
    check(oc_writer_open(&w, dir, decls, n, 0, &err), &err);
    check(oc_model_write(m, w, stored, s, scratch, scratch_bytes, &err), &err);
    check(oc_writer_commit(w, &err), &err);
    oc_writer_close(w);
    free(decls);
    free(scratch);
}

/* Every tensor of b is in a (under its name without the prefix if need be), shape and values. */
static void same_tensors(const oc_model *m, oc_tensors *a, oc_tensors *b, oc_dtype dtype) {
    oc_error err = {.status = OC_OK};
    for (int32_t i = 0; i < oc_tensors_count(b); i++) {
        const oc_tensor_info *y = oc_tensors_at(b, i), *x = oc_tensors_find(a, y->name);
        if (!x) x = oc_tensors_find(a, y->name + strlen(m->prefix));
        if (!x) fail_msg("'%s' was not in the first file", y->name);
        assert_int_equal(x->ndim, y->ndim);
        for (int32_t d = 0; d < x->ndim; d++)
            assert_int_equal(x->dims[d], y->dims[d]);
        void *vx = room(x->elements * 4), *vy = room(x->elements * 4);
        check(oc_tensors_read(a, x, 0, x->elements, dtype, vx, &err), &err);
        check(oc_tensors_read(b, y, 0, y->elements, dtype, vy, &err), &err);
        if (memcmp(vx, vy, x->elements * oc_dtype_bytes(dtype)) != 0)
            fail_msg("'%s' changed on the way", y->name);
        free(vx);
        free(vy);
    }
}

static void round_trip(const char *name, oc_dtype dtype, uint64_t scratch_bytes) {
    char dir[SCRATCH_BYTES], from[SCRATCH_BYTES];
    oc_error err = {.status = OC_OK};
    oc_model *m;
    oc_tensors *a, *b;
    store s = {NULL, dtype};
    scratch_make(dir);
    scratch_path(from, OC_TEST_DATA "/models", name);
    check(oc_model_open(&m, from, &err), &err);
    check(oc_tensors_open(&a, from, &err), &err);
    check(oc_model_check_tensors(m, a, &err), &err);
    assert_null(strstr(m->notes, "not used"));
    read_all(m, a, &s, scratch_bytes ? scratch_bytes : oc_model_scratch_bytes(m));
    write_all(m, &s, dir, scratch_bytes ? scratch_bytes : oc_model_scratch_bytes(m));
    check(oc_tensors_open(&b, dir, &err), &err);
    check(oc_model_check_tensors(m, b, &err), &err);
    same_tensors(m, a, b, dtype);
    assert_true((oc_tensors_find(b, m->head_name) != NULL) == !m->tied);
    oc_tensors_close(a);
    oc_tensors_close(b);
    free_store(m, &s);
    oc_model_close(m);
    assert_int_equal(oc_fs_remove_temporary(dir, &err), OC_OK);
}

static void test_what_is_read_is_written_back_the_same(void **state) {
    (void)state;
    static const char *const names[] = {
        "llama-untied", "llama-tied",    "llama-bias",    "gpt2",   "gpt2-chunks",
        "gpt_neox",     "gpt_neox-tied", "gpt_neox-full", "bloom",  "bloom-bare",
        "opt-post",     "opt-plain",     "phi3",          "gemma2", "gemma3-layer-types"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        round_trip(names[i], OC_F32, 0);
        round_trip(names[i], OC_BF16, 0);
        /* one row of gpt2's widest matrix (144 values) a time, and a number that divides nothing */
        round_trip(names[i], OC_F32, 576);
        round_trip(names[i], OC_F32, 4096);
    }
}

static void test_scratch_below_one_row_is_refused(void **state) {
    (void)state;
    oc_error err = {.status = OC_OK};
    oc_model *m;
    oc_tensors *t;
    check(oc_model_open(&m, OC_TEST_DATA "/models/gpt2", &err), &err);
    check(oc_tensors_open(&t, OC_TEST_DATA "/models/gpt2", &err), &err);
    const oc_block *b = &m->blocks[m->first_layer];
    void *dst = room(b->elements * 4), *scratch = room(128);
    assert_int_equal(oc_model_read_block(m, t, m->first_layer, OC_F32, dst, scratch, 128, &err),
                     OC_E_INVALID);
    assert_non_null(strstr(err.message, "c_attn"));
    free(dst);
    free(scratch);
    oc_tensors_close(t);
    oc_model_close(m);
}

/* ---- what does not fit -------------------------------------------------------------------- */

#define TINY                                                                                       \
    "\"model_type\": \"llama\", \"vocab_size\": 7, \"hidden_size\": 4, \"intermediate_size\": 3, " \
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 2"

/* A file with the decls of `shape`'s model, changed by `change`, checked against `wanted`. */
typedef struct alteration {
    const char *drop;   /* leave this tensor out */
    const char *turn;   /* swap this tensor's dimensions */
    const char *extra;  /* add a tensor of this name, shaped as the embedding */
    float extra_offset; /* its values differ from the embedding's by this */
} alteration;

enum { TINY_MOST = 32 };

static void write_tiny(const char *dir, const oc_model *m, const alteration *a) {
    oc_error err = {.status = OC_OK};
    oc_tensor_decl *decls, kept[TINY_MOST];
    int32_t n, k = 0;
    check(oc_model_decls(m, OC_F32, &decls, &n, &err), &err);
    for (int32_t i = 0; i < n; i++) {
        if (a->drop && strcmp(decls[i].name, a->drop) == 0) continue;
        kept[k] = decls[i];
        if (a->turn && strcmp(decls[i].name, a->turn) == 0) {
            kept[k].dims[0] = decls[i].dims[1];
            kept[k].dims[1] = decls[i].dims[0];
        }
        k++;
    }
    if (a->extra) {
        kept[k] = decls[0];
        kept[k++].name = a->extra;
    }
    oc_writer *w;
    check(oc_writer_open(&w, dir, kept, k, 0, &err), &err);
    for (int32_t i = 0; i < k; i++) {
        const oc_tensor_decl *d = &kept[oc_writer_at(w, i)];
        float values[64];
        uint64_t count = d->dims[0] * (d->ndim == 2 ? d->dims[1] : 1);
        bool extra = a->extra && d->name == a->extra;
        for (uint64_t j = 0; j < count; j++)
            values[j] = (float)j + (extra && j + 1 == count ? a->extra_offset : 0);
        check(oc_writer_append(w, values, OC_F32, count, &err), &err);
    }
    check(oc_writer_commit(w, &err), &err);
    oc_writer_close(w);
    free(decls);
}

/* The status of the check; messages and notes are in text. */
static oc_status check_altered(const char *json, alteration a, char text[OC_MODEL_NOTES]) {
    char dir[SCRATCH_BYTES];
    oc_error err = {.status = OC_OK};
    oc_model *m = parse(json);
    oc_tensors *t;
    scratch_make(dir);
    write_tiny(dir, m, &a);
    check(oc_tensors_open(&t, dir, &err), &err);
    oc_status s = oc_model_check_tensors(m, t, &err);
    snprintf(text, OC_MODEL_NOTES, "%s", s == OC_OK ? m->notes : err.message);
    oc_tensors_close(t);
    oc_model_close(m);
    assert_int_equal(oc_fs_remove_temporary(dir, &err), OC_OK);
    return s;
}

static void test_a_checkpoint_that_does_not_fit_is_refused_by_tensor(void **state) {
    (void)state;
    char text[OC_MODEL_NOTES];
    assert_int_equal(check_altered("{" TINY "}", (alteration){0}, text), OC_OK);
    assert_string_equal(text, "");

    alteration a = {.drop = "model.layers.0.mlp.up_proj.weight"};
    assert_int_equal(check_altered("{" TINY "}", a, text), OC_E_NOTFOUND);
    assert_non_null(strstr(text, a.drop));

    a = (alteration){.drop = "lm_head.weight"};
    assert_int_equal(check_altered("{" TINY "}", a, text), OC_E_NOTFOUND);
    assert_non_null(strstr(text, "tie_word_embeddings"));

    a = (alteration){.turn = "model.layers.0.mlp.down_proj.weight"};
    assert_int_equal(check_altered("{" TINY "}", a, text), OC_E_FORMAT);
    assert_non_null(strstr(text, a.turn));
    assert_non_null(strstr(text, "[3, 4]"));
    assert_non_null(strstr(text, "[4, 3]"));
}

static void test_extra_tensors_are_noted_and_known_ones_are_not(void **state) {
    (void)state;
    char text[OC_MODEL_NOTES];
    alteration a = {.extra = "model.layers.0.self_attn.q_norm.weight"};
    assert_int_equal(check_altered("{" TINY "}", a, text), OC_OK);
    assert_non_null(strstr(text, a.extra));
    a.extra = "model.layers.0.self_attn.rotary_emb.inv_freq";
    assert_int_equal(check_altered("{" TINY "}", a, text), OC_OK);
    assert_string_equal(text, "");
}

static void test_a_tied_checkpoint_may_repeat_the_head_but_not_change_it(void **state) {
    (void)state;
    char text[OC_MODEL_NOTES];
    const char *tied = "{" TINY ", \"tie_word_embeddings\": true}";
    alteration a = {.extra = "lm_head.weight"};
    assert_int_equal(check_altered(tied, a, text), OC_OK);
    assert_string_equal(text, "");
    a.extra_offset = 1e-3f;
    assert_int_equal(check_altered(tied, a, text), OC_E_FORMAT);
    assert_non_null(strstr(text, "lm_head.weight"));
    assert_non_null(strstr(text, "tie_word_embeddings"));
}

/* The reference renamed gpt_neox's head; files of both kinds exist. */
static void test_a_head_may_stand_under_its_other_name(void **state) {
    (void)state;
    char text[OC_MODEL_NOTES];
    const char *json = "{\"model_type\": \"gpt_neox\", \"vocab_size\": 7, \"hidden_size\": 4,"
                       " \"intermediate_size\": 3, \"num_hidden_layers\": 1,"
                       " \"num_attention_heads\": 1, \"rotary_pct\": 0.5}";
    alteration a = {.drop = "embed_out.weight", .extra = "lm_head.weight"};
    assert_int_equal(check_altered(json, a, text), OC_OK);
    assert_string_equal(text, "");
    a.extra = "lm_head.weights";
    assert_int_equal(check_altered(json, a, text), OC_E_NOTFOUND);
    assert_non_null(strstr(text, "embed_out.weight"));
}

/* ---- first values ------------------------------------------------------------------------- */

/* Known answers that come with the paper's library, Random123 (kat_vectors). */
static void test_philox_gives_its_published_answers(void **state) {
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        oc_philox_block c;
        memcpy(c.v, cases[i].counter, sizeof c.v);
        c = oc_philox(c, cases[i].key[0], cases[i].key[1]);
        assert_memory_equal(c.v, cases[i].want, sizeof c.v);
    }
}

static float *init_block(const oc_model *m, int32_t block, uint64_t seed) {
    float *v = room(m->blocks[block].elements * sizeof *v);
    oc_model_init_block(m, block, seed, v);
    return v;
}

/* Mean, variance and fourth moment of N(0, 0.02) within five standard errors; norms 1, biases 0,
 * gpt2's residual projections smaller. */
static void test_first_values_have_their_distribution(void **state) {
    (void)state;
    oc_model *m = parse("{\"model_type\": \"gpt2\", \"n_layer\": 8, \"n_embd\": 192}");
    float *v = init_block(m, m->first_layer + 3, 42);
    const oc_block *b = &m->blocks[m->first_layer + 3];
    for (int32_t i = 0; i < b->n_tensors; i++) {
        const oc_tensor_spec *t = &m->tensors[b->first_tensor + i];
        double std = strstr(t->name, "c_proj") ? 0.02 / 4 : 0.02, n = (double)t->elements;
        double s1 = 0, s2 = 0, s4 = 0;
        for (uint64_t k = 0; k < t->elements; k++) {
            double z = (double)v[t->offset + k] / std;
            s1 += z;
            s2 += z * z;
            s4 += z * z * z * z;
        }
        if (t->file_ndim == 1) {
            float want = strstr(t->name, "ln_") && !strstr(t->name, "bias") ? 1 : 0;
            assert_float_equal(v[t->offset], want, 0);
            assert_float_equal(v[t->offset + t->elements - 1], want, 0);
            continue;
        }
        assert_true(fabs(s1 / n) < 5 / sqrt(n));
        assert_true(fabs(s2 / n - 1) < 5 * sqrt(2 / n));
        assert_true(fabs(s4 / n - 3) < 5 * sqrt(96 / n));
    }
    free(v);
    oc_model_close(m);
}

/* The same table whole and in chunks: a wider layer makes larger chunks. */
static void test_first_values_do_not_depend_on_chunks(void **state) {
    (void)state;
    oc_model *a = parse("{\"model_type\": \"llama\", \"vocab_size\": 5000, \"hidden_size\": 10, "
                        "\"intermediate_size\": 2, \"num_attention_heads\": 1}");
    oc_model *b = parse("{\"model_type\": \"llama\", \"vocab_size\": 5000, \"hidden_size\": 10, "
                        "\"intermediate_size\": 2000, \"num_attention_heads\": 1}");
    assert_true(a->n_table > b->n_table);
    for (int head = 0; head <= 1; head++) {
        float *whole = init_block(b, head ? b->first_head : b->first_table, 7);
        assert_int_equal(b->blocks[0].rows, 5000);
        for (int32_t i = 0; i < a->n_table; i++) {
            int32_t block = (head ? a->first_head : a->first_table) + i;
            const oc_block *k = &a->blocks[block];
            float *v = init_block(a, block, 7);
            assert_memory_equal(v, whole + k->row0 * 10, (size_t)k->rows * 10 * sizeof *v);
            free(v);
        }
        free(whole);
    }
    oc_model_close(a);
    oc_model_close(b);
}

/* A fused tensor has the same values in the file whatever the number of heads: with one head its
 * parts stand there as they are kept. */
static void test_first_values_of_fused_tensors_follow_the_file(void **state) {
    (void)state;
    enum { H = 12, HEADS = 3, D = H / HEADS };
    oc_model *one = parse("{\"model_type\": \"bloom\", \"hidden_size\": 12, \"n_head\": 1}");
    oc_model *some = parse("{\"model_type\": \"bloom\", \"hidden_size\": 12, \"n_head\": 3}");
    const oc_block *a = &one->blocks[one->first_layer], *b = &some->blocks[some->first_layer];
    float *x = init_block(one, one->first_layer, 5), *y = init_block(some, some->first_layer, 5);
    const float *whole = x + a->offset[OC_W_QKV], *kept = y + b->offset[OC_W_QKV];
    for (int part = 0; part < 3; part++)
        for (int head = 0; head < HEADS; head++)
            assert_memory_equal(kept + (part * H + head * D) * H, whole + (head * 3 + part) * D * H,
                                D * H * sizeof *x);
    free(x);
    free(y);
    oc_model_close(one);
    oc_model_close(some);
}

static void test_first_values_depend_on_seed_and_name(void **state) {
    (void)state;
    oc_model *m = parse("{" TINY "}");
    const oc_tensor_spec *t = &m->tensors[m->blocks[0].first_tensor];
    size_t bytes = (size_t)t->elements * sizeof(float);
    float *a = init_block(m, m->first_table, 1), *b = init_block(m, m->first_table, 2);
    float *c = init_block(m, m->first_head, 1), *d = init_block(m, m->first_table, 1);
    assert_memory_equal(a, d, bytes);
    assert_memory_not_equal(a, b, bytes);
    assert_memory_not_equal(a, c, bytes);
    free(a);
    free(b);
    free(c);
    free(d);
    oc_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_read_is_written_back_the_same),
        cmocka_unit_test(test_scratch_below_one_row_is_refused),
        cmocka_unit_test(test_a_checkpoint_that_does_not_fit_is_refused_by_tensor),
        cmocka_unit_test(test_extra_tensors_are_noted_and_known_ones_are_not),
        cmocka_unit_test(test_a_tied_checkpoint_may_repeat_the_head_but_not_change_it),
        cmocka_unit_test(test_a_head_may_stand_under_its_other_name),
        cmocka_unit_test(test_philox_gives_its_published_answers),
        cmocka_unit_test(test_first_values_have_their_distribution),
        cmocka_unit_test(test_first_values_do_not_depend_on_chunks),
        cmocka_unit_test(test_first_values_of_fused_tensors_follow_the_file),
        cmocka_unit_test(test_first_values_depend_on_seed_and_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
