/* test_model_pytorch.c - logits, loss and every gradient against PyTorch's numbers, as
 * tools/make_expected.py wrote them: every directory of tests/data/models that has some.
 *
 * Error of a tensor = max |ours - theirs| / max |theirs|, at most 1e-4. Arguments: directories to
 * compare instead of the fixtures. */
#include "base/json.h"
#include "cmocka_all.h"
#include "model/load.h"
#include "model/program.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_ERROR 1e-4

typedef struct fixture {
    const char *dir;
    oc_model *model;
    oc_tensors *weights, *expected;
    int64_t batch, seq;
    int32_t *tokens, *labels, *positions, *doc_start, *order, *position_order;
    int32_t *rows;  /* tokens whose look-up is trained; -1 for the others */
    json_t *zero;   /* scales of gradients that are zero by nature; NULL: none */
    int32_t length; /* of the longest document: the reference's dynamic frequencies depend on it */
    float **w, **g; /* [n_blocks] flat */
} fixture;

typedef struct results {
    float *logits; /* [T, vocab] */
    double loss;
} results;

static void check(oc_status s, const oc_error *err) {
    if (s != OC_OK) fail_msg("%s: %s", oc_status_name(s), err->message);
}

static void *room(uint64_t bytes) {
    void *p = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64 + 64);
    assert_non_null(p);
    /* what is read before it is written shows up as NaN */
    memset(p, 0xff, (size_t)(bytes + 63) / 64 * 64 + 64);
    return p;
}

/* ---- fixtures ---------------------------------------------------------------------------------
 */

static int32_t *read_rows(const json_t *root, const char *key, int64_t *batch, int64_t *seq) {
    const json_t *rows = json_object_get(root, key);
    assert_true(json_is_array(rows));
    *batch = (int64_t)json_array_size(rows);
    *seq = (int64_t)json_array_size(json_array_get(rows, 0));
    int32_t *out = room((uint64_t)(*batch * *seq) * sizeof *out);
    for (int64_t b = 0; b < *batch; b++)
        for (int64_t t = 0; t < *seq; t++)
            out[b * *seq + t] = (int32_t)json_integer_value(
                json_array_get(json_array_get(rows, (size_t)b), (size_t)t));
    return out;
}

static const int32_t *sort_keys;

static int by_key(const void *a, const void *b) {
    int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    int32_t x = sort_keys[i], y = sort_keys[j];
    return x != y ? (x > y) - (x < y) : (i > j) - (i < j);
}

static int32_t *make_order(const int32_t *keys, int64_t n) {
    int32_t *order = room((uint64_t)n * sizeof *order);
    for (int64_t i = 0; i < n; i++)
        order[i] = (int32_t)i;
    sort_keys = keys;
    qsort(order, (size_t)n, sizeof *order, by_key);
    return order;
}

static void read_blocks(fixture *f) {
    oc_error err = {0};
    const oc_model *m = f->model;
    uint64_t scratch_bytes = oc_model_scratch_bytes(m);
    void *scratch = room(scratch_bytes);
    f->w = calloc((size_t)m->n_blocks, sizeof *f->w);
    f->g = calloc((size_t)m->n_blocks, sizeof *f->g);
    for (int32_t b = 0; b < m->n_blocks; b++) {
        f->w[b] = room(m->blocks[b].elements * sizeof(float));
        f->g[b] = room(m->blocks[b].elements * sizeof(float));
        check(oc_model_read_block(m, f->weights, b, OC_F32, f->w[b], scratch, scratch_bytes, &err),
              &err);
    }
    free(scratch);
}

static void open_fixture(fixture *f, const char *dir) {
    oc_error err = {0};
    char path[1024];
    *f = (fixture){.dir = dir};
    check(oc_model_open(&f->model, dir, &err), &err);
    check(oc_tensors_open(&f->weights, dir, &err), &err);
    check(oc_model_check_tensors(f->model, f->weights, &err), &err);
    snprintf(path, sizeof path, "%s/expected.safetensors", dir);
    check(oc_tensors_open(&f->expected, path, &err), &err);
    snprintf(path, sizeof path, "%s/batch.json", dir);
    json_t *root;
    check(oc_json_load(&root, path, OC_JSON_NO_NUL, &err), &err);
    f->tokens = read_rows(root, "tokens", &f->batch, &f->seq);
    f->labels = read_rows(root, "labels", &f->batch, &f->seq);
    f->positions = read_rows(root, "positions", &f->batch, &f->seq);
    f->doc_start = read_rows(root, "doc_start", &f->batch, &f->seq);
    f->zero = json_incref(json_object_get(root, "zero_gradients"));
    json_decref(root);
    f->rows = room((uint64_t)(f->batch * f->seq) * sizeof *f->rows);
    for (int64_t i = 0; i < f->batch * f->seq; i++)
        f->rows[i] = f->tokens[i] == f->model->padding_idx ? -1 : f->tokens[i];
    f->order = make_order(f->rows, f->batch * f->seq);
    f->position_order = make_order(f->positions, f->batch * f->seq);
    for (int64_t i = 0; i < f->batch * f->seq; i++)
        if (f->positions[i] >= f->length) f->length = f->positions[i] + 1;
    oc_model_rope(f->model, f->length, f->model->inv_freq);
    read_blocks(f);
}

static void close_fixture(fixture *f) {
    for (int32_t b = 0; b < f->model->n_blocks; b++) {
        free(f->w[b]);
        free(f->g[b]);
    }
    free(f->w);
    free(f->g);
    free(f->tokens);
    free(f->labels);
    free(f->positions);
    free(f->doc_start);
    free(f->order);
    free(f->rows);
    free(f->position_order);
    json_decref(f->zero);
    oc_tensors_close(f->weights);
    oc_tensors_close(f->expected);
    oc_model_close(f->model);
}

/* ---- one forward and backward -----------------------------------------------------------------
 */

typedef struct buffers {
    void **act;                     /* [n_layers + 1] */
    void *(*saved)[OC_SAVED_COUNT]; /* [n_layers] */
    void *d, *d_rows, *work, *head_work, *state, *rows, *position_rows;
} buffers;

static void open_buffers(buffers *x, const oc_program_shape *s) {
    int32_t n = s->model->n_layers;
    x->act = calloc((size_t)n + 1, sizeof *x->act);
    x->saved = calloc((size_t)n, sizeof *x->saved);
    for (int32_t i = 0; i <= n; i++)
        x->act[i] = room(oc_program_act_bytes(s));
    for (int32_t i = 0; i < n; i++)
        for (int v = 0; v < OC_SAVED_COUNT; v++)
            x->saved[i][v] = room(oc_program_saved_bytes(s, (oc_saved)v));
    x->d = room(oc_program_act_bytes(s));
    x->rows = room(oc_program_row_bytes(s));
    x->d_rows = room(oc_program_row_bytes(s));
    x->position_rows = room(oc_program_act_bytes(s));
    x->work = room(oc_program_work_bytes(s));
    x->head_work = room(oc_program_head_work_bytes(s));
    x->state = room(oc_program_head_state_bytes(s));
}

static void close_buffers(buffers *x, const oc_program_shape *s) {
    int32_t n = s->model->n_layers;
    for (int32_t i = 0; i <= n; i++)
        free(x->act[i]);
    for (int32_t i = 0; i < n; i++)
        for (int v = 0; v < OC_SAVED_COUNT; v++)
            free(x->saved[i][v]);
    free(x->act);
    free(x->saved);
    free(x->d);
    free(x->rows);
    free(x->d_rows);
    free(x->position_rows);
    free(x->work);
    free(x->head_work);
    free(x->state);
}

static void embed(const fixture *f, const oc_program_shape *s, buffers *x) {
    const oc_model *m = f->model;
    const oc_device_ops *ops = s->device->ops;
    int64_t T = f->batch * f->seq;
    for (int32_t i = 0; i < m->n_table; i++) {
        const oc_block *k = &m->blocks[m->first_table + i];
        ops->rows_gather(s->device, OC_F32, T, m->embed_dim, f->tokens, k->row0, k->rows,
                         f->w[m->first_table + i], x->rows);
    }
    bool learned = m->position_block >= 0;
    if (learned)
        ops->rows_gather(s->device, OC_F32, T, m->hidden, f->positions, -m->position_offset,
                         m->blocks[m->position_block].rows, f->w[m->position_block],
                         x->position_rows);
    void *position_rows = learned ? x->position_rows : NULL;
    if (m->front_block >= 0)
        oc_program_front_forward(s, &m->blocks[m->front_block], f->w[m->front_block], x->rows,
                                 position_rows, x->act[0], x->work);
    else
        oc_program_embed(s, x->rows, position_rows, x->act[0]);
}

/* up: whether its place is there. */
static oc_layer_call layer_call(const fixture *f, const oc_program_shape *s,
                                const oc_program_batch *b, const buffers *x, int32_t i, bool up) {
    const oc_model *m = f->model;
    oc_layer_call c = {.shape = s,
                       .block = &m->blocks[m->first_layer + i],
                       .weights = f->w[m->first_layer + i],
                       .inv_freq = m->inv_freq,
                       .batch = b,
                       .work = x->work};
    memcpy(c.saved, x->saved[i], sizeof c.saved);
    if (!up) c.saved[OC_SAVED_UP] = NULL;
    return c;
}

static void layer_forward(const oc_layer_call *c, const void *in, void *out) {
    for (int p = 0; p < OC_PART_COUNT; p++)
        oc_program_part_forward(c, (oc_part)p, in, out);
}

static void forward(const fixture *f, const oc_program_shape *s, const oc_program_batch *b,
                    buffers *x, results *r) {
    const oc_model *m = f->model;
    embed(f, s, x);
    for (int32_t i = 0; i < m->n_layers; i++) {
        oc_layer_call c = layer_call(f, s, b, x, i, true);
        layer_forward(&c, x->act[i], x->act[i + 1]);
    }
    oc_program_final_forward(s, &m->blocks[m->final_norm_block], f->w[m->final_norm_block],
                             x->act[m->n_layers], x->state);
    for (int32_t i = m->first_head; i < m->first_head + m->n_head; i++) {
        const oc_block *k = &m->blocks[i];
        oc_program_head_forward(s, k, f->w[i], b, x->state, NULL, x->head_work);
        oc_program_head_logits(s, k, f->w[i], x->state, r->logits + k->row0, m->vocab);
    }
    oc_program_loss(s, b, x->state, &r->loss);
}

/* Gradients of the embedding and of the positions from x->d. */
static void embed_backward(const fixture *f, const oc_program_shape *s, buffers *x) {
    const oc_model *m = f->model;
    const oc_device_ops *ops = s->device->ops;
    int64_t T = f->batch * f->seq;
    if (m->front_block >= 0)
        oc_program_front_backward(s, &m->blocks[m->front_block], f->w[m->front_block], x->rows,
                                  x->d, x->d_rows, f->g[m->front_block], x->work);
    else
        ops->scale_add(s->device, OC_F32, T * m->hidden, x->d, oc_program_embedding_scale(s), NULL,
                       x->d_rows);
    for (int32_t i = m->first_table; i < m->first_table + m->n_table; i++) {
        const oc_block *k = &m->blocks[i];
        if (!m->tied) memset(f->g[i], 0, k->elements * sizeof(float));
        ops->rows_scatter(s->device, OC_F32, T, m->embed_dim, f->rows, f->order, k->row0, k->rows,
                          x->d_rows, f->g[i]);
    }
    if (m->position_block < 0) return;
    const oc_block *k = &m->blocks[m->position_block];
    memset(f->g[m->position_block], 0, k->elements * sizeof(float));
    ops->rows_scatter(s->device, OC_F32, T, m->hidden, f->positions, f->position_order,
                      -m->position_offset, k->rows, x->d, f->g[m->position_block]);
}

static void backward(const fixture *f, const oc_program_shape *s, const oc_program_batch *b,
                     buffers *x, bool recompute) {
    const oc_model *m = f->model;
    for (int32_t i = m->first_head; i < m->first_head + m->n_head; i++)
        oc_program_head_backward(s, &m->blocks[i], f->w[i], b, &(float){1}, f->g[i], x->state, NULL,
                                 x->head_work);
    oc_program_final_backward(s, &m->blocks[m->final_norm_block], f->w[m->final_norm_block],
                              x->act[m->n_layers], x->d, f->g[m->final_norm_block], x->state);
    for (int32_t i = m->n_layers - 1; i >= 0; i--) {
        oc_layer_call c = layer_call(f, s, b, x, i, !recompute);
        for (int v = 0; v < OC_SAVED_COUNT && recompute; v++)
            memset(x->saved[i][v], 0xff, oc_program_saved_bytes(s, (oc_saved)v));
        if (recompute) layer_forward(&c, x->act[i], NULL);
        oc_program_layer_backward(&c, x->act[i], x->d, f->g[m->first_layer + i]);
    }
    embed_backward(f, s, x);
}

/* ---- comparing --------------------------------------------------------------------------------
 */

static const oc_tensor_info *find_expected(const fixture *f, const char *name) {
    const oc_tensor_info *x = oc_tensors_find(f->expected, name);
    char other[256];
    if (x || !f->model->head_alias) return x;
    snprintf(other, sizeof other, "grad.%s", f->model->head_name);
    if (strcmp(name, other) != 0) return NULL;
    snprintf(other, sizeof other, "grad.%s", f->model->head_alias);
    return oc_tensors_find(f->expected, other);
}

static float *expected_values(const fixture *f, const char *name, uint64_t *n) {
    oc_error err = {0};
    const oc_tensor_info *x = find_expected(f, name);
    if (!x) fail_msg("%s: no '%s' among the expected tensors", f->dir, name);
    float *v = room(x->elements * sizeof *v);
    check(oc_tensors_read(f->expected, x, 0, x->elements, OC_F32, v, &err), &err);
    *n = x->elements;
    return v;
}

/* Largest difference of n values: ours[i * step] against theirs[i]. NaN counts as infinite. */
static void differ(const float *ours, uint64_t step, const float *theirs, uint64_t n, double *most,
                   double *scale) {
    for (uint64_t i = 0; i < n; i++) {
        double e = fabs((double)ours[i * step] - (double)theirs[i]);
        *most = e == e ? fmax(*most, e) : INFINITY;
        *scale = fmax(*scale, fabs((double)theirs[i]));
    }
}

static double judge(const fixture *f, const char *device, const char *name, double most,
                    double scale) {
    double error = most == 0 ? 0 : most / scale;
    if (!(error <= MOST_ERROR))
        fail_msg("%s on %s: %s differs from PyTorch by %.3g (largest value %.3g)", f->dir, device,
                 name, most, scale);
    return error;
}

/* All specs of one file tensor (chunks) against the tensor's gradient; returns the error. */
static double compare_gradient(const fixture *f, const char *device, const char *name) {
    const oc_model *m = f->model;
    char key[256];
    snprintf(key, sizeof key, "grad.%s", name);
    uint64_t n, seen = 0;
    float *theirs = expected_values(f, key, &n);
    /* of a gradient that is zero by nature both sides hold rounding alone */
    double most = 0, scale = json_number_value(json_object_get(f->zero, name));
    for (int32_t b = 0; b < m->n_blocks; b++)
        for (int32_t i = 0; i < m->blocks[b].n_tensors; i++) {
            const oc_tensor_spec *t = &m->tensors[m->blocks[b].first_tensor + i];
            if (strcmp(t->name, name) != 0) continue;
            const float *ours = f->g[b] + t->offset;
            seen += t->elements;
            uint64_t rows = (uint64_t)t->rows, cols = (uint64_t)t->cols;
            uint64_t row0 = (uint64_t)t->file_row0;
            if (t->file_group > 0)
                for (uint64_t r = 0; r < rows; r++) {
                    uint64_t group = (uint64_t)t->file_group;
                    uint64_t at = row0 + r / group * (uint64_t)t->file_stride + r % group;
                    differ(ours + r * cols, 1, theirs + at * cols, cols, &most, &scale);
                }
            else if (t->transposed)
                for (uint64_t c = 0; c < cols; c++)
                    differ(ours + c, cols, theirs + c * (uint64_t)t->file_dims[1] + row0, rows,
                           &most, &scale);
            else
                differ(ours, 1, theirs + row0 * cols, t->elements, &most, &scale);
        }
    assert_int_equal(seen, n);
    free(theirs);
    return judge(f, device, key, most, scale);
}

static void check_padding(const fixture *f) {
    const oc_model *m = f->model;
    for (int32_t b = 0; b < m->n_blocks; b++) {
        uint64_t end = 0;
        for (int32_t i = 0; i <= m->blocks[b].n_tensors; i++) {
            const oc_tensor_spec *t = &m->tensors[m->blocks[b].first_tensor + i];
            uint64_t next = i < m->blocks[b].n_tensors ? t->offset : m->blocks[b].elements;
            for (; end < next; end++)
                if (f->w[b][end] != 0 || f->g[b][end] != 0)
                    fail_msg("%s: padding of block %d is not zero", f->dir, b);
            if (i < m->blocks[b].n_tensors) end = t->offset + t->elements;
        }
    }
}

static void compare(const fixture *f, const char *device, const results *r) {
    uint64_t n;
    double most = 0, scale = 0, worst = 0;
    float *theirs = expected_values(f, "logits", &n);
    assert_int_equal(n, f->batch * f->seq * f->model->vocab);
    differ(r->logits, 1, theirs, n, &most, &scale);
    free(theirs);
    double logits = judge(f, device, "logits", most, scale);
    theirs = expected_values(f, "loss_sum", &n);
    double loss = judge(f, device, "loss", fabs(r->loss - (double)theirs[0]), (double)theirs[0]);
    free(theirs);
    int32_t gradients = 0;
    for (int32_t i = 0; i < f->model->n_tensors; i++) {
        const char *name = f->model->tensors[i].name;
        if (i > 0 && name == f->model->tensors[i - 1].name) continue;
        worst = fmax(worst, compare_gradient(f, device, name));
        gradients++;
    }
    /* nothing in the reference that we do not have */
    assert_int_equal(gradients + 3, oc_tensors_count(f->expected));
    check_padding(f);
    print_message("  %-40s logits %.1e loss %.1e gradients %.1e (%d)\n", device, logits, loss,
                  worst, gradients);
}

/* ---- the devices ------------------------------------------------------------------------------
 */

static void run_with(fixture *f, oc_device *device, int64_t tile) {
    oc_program_shape s = {f->model, device, OC_F32, f->batch, f->seq, tile, OC_GEMM_TILED};
    oc_program_batch b = {f->tokens, f->labels, f->positions, f->doc_start};
    buffers x;
    results r = {0};
    open_buffers(&x, &s);
    r.logits = room((uint64_t)(f->batch * f->seq * f->model->vocab) * sizeof(float));
    for (int recompute = 0; recompute <= 1; recompute++) {
        for (int32_t i = 0; i < f->model->n_blocks; i++)
            memset(f->g[i], 0xff, f->model->blocks[i].elements * sizeof(float));
        forward(f, &s, &b, &x, &r);
        backward(f, &s, &b, &x, recompute);
        assert_int_equal(oc_device_status(device), OC_OK);
        compare(f, oc_device_kernels(device), &r);
    }
    close_buffers(&x, &s);
    free(r.logits);
}

/* In one tile, and in tiles that do not divide the tokens. */
static void run_on(fixture *f, oc_device *device) {
    void *scratch = room(device->ops->scratch_bytes(device));
    device->ops->lend_scratch(device, scratch);
    run_with(f, device, 0);
    run_with(f, device, 7);
    free(scratch);
}

static const char *const families[] = {"llama", "mistral",  "qwen2", "qwen3",  "phi3",       "gpt2",
                                       "opt",   "gpt_neox", "bloom", "gemma2", "gemma3_text"};
enum { FAMILIES = sizeof families / sizeof families[0] };
static int family_fixtures[FAMILIES]; /* compared so far */

static void count_family(const oc_model *m) {
    for (int i = 0; i < FAMILIES; i++)
        family_fixtures[i] += strcmp(m->family, families[i]) == 0;
}

static void compare_directory(const char *dir) {
    oc_error err = {0};
    fixture f;
    oc_device *device;
    oc_pool *pool;
    print_message("%s\n", dir);
    open_fixture(&f, dir);
    count_family(f.model);
    check(oc_device_open_reference(&device, &err), &err);
    run_on(&f, device);
    oc_device_close(device);
    check(oc_pool_open(&pool, 2, &err), &err);
    static const oc_isa isas[] = {OC_ISA_PLAIN, OC_ISA_AVX2, OC_ISA_AVX512};
    for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++) {
        oc_status s = oc_device_open_cpu(&device, pool, isas[i], &err);
        if (s == OC_E_UNSUPPORTED && isas[i] != OC_ISA_PLAIN) continue;
        check(s, &err);
        run_on(&f, device);
        oc_device_close(device);
    }
    oc_pool_close(pool);
    close_fixture(&f);
}

static const char *const *directories;
static int n_directories;

static void test_given_directories_match_pytorch(void **state) {
    (void)state;
    for (int i = 0; i < n_directories; i++)
        compare_directory(directories[i]);
}

/* Every directory with expected numbers; there are three at least of each family. */
static void test_every_fixture_matches_pytorch(void **state) {
    (void)state;
    char path[1024];
    for (int i = 0; i < FAMILIES; i++)
        family_fixtures[i] = 0;
    DIR *d = opendir(OC_TEST_DATA "/models");
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        snprintf(path, sizeof path, "%s/models/%s/expected.safetensors", OC_TEST_DATA, e->d_name);
        FILE *file = fopen(path, "rb");
        if (!file) continue;
        fclose(file);
        snprintf(path, sizeof path, "%s/models/%s", OC_TEST_DATA, e->d_name);
        compare_directory(path);
    }
    closedir(d);
    for (int i = 0; i < FAMILIES; i++)
        if (family_fixtures[i] < 3) fail_msg("%s: %d fixtures", families[i], family_fixtures[i]);
}

int main(int argc, char **argv) {
    const struct CMUnitTest fixtures[] = {cmocka_unit_test(test_every_fixture_matches_pytorch)};
    const struct CMUnitTest given[] = {cmocka_unit_test(test_given_directories_match_pytorch)};
    if (argc <= 1) return cmocka_run_group_tests(fixtures, NULL, NULL);
    directories = (const char *const *)(argv + 1);
    n_directories = argc - 1;
    return cmocka_run_group_tests(given, NULL, NULL);
}
