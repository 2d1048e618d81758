/* The block programs follow no address of the device: forward and backward of every family's
 * fixtures run on the asynchronous device, whose memory faults for everybody but its stream, and
 * give the bits of the CPU device. Either device is reached through its memory's table alone. */
#include "cmocka_all.h"

#include "device/async/async.h"
#include "model/load.h"
#include "model/program.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, SEQ = 8, T = BATCH * SEQ, MEMORY_BYTES = 64 << 20 };

static void check(oc_status s, const oc_error *err) {
    if (s != OC_OK) fail_msg("%s: %s", oc_status_name(s), err->message);
}

/* A device's memory, given out from its start. */
typedef struct place {
    oc_device *device;
    oc_memory *memory;
    uint64_t used;
} place;

/* Bytes of src; NULL: poison, NaN in every dtype. */
static void *put(place *p, const void *src, uint64_t bytes) {
    oc_memory *m = p->memory;
    uint64_t at = p->used;
    oc_error err = {0};
    p->used += (bytes + 63) / 64 * 64;
    if (src)
        check(m->ops->upload(m, at, src, bytes, &err), &err);
    else
        check(m->ops->fill(m, at, 0xff, bytes, &err), &err);
    return (unsigned char *)m->base + at;
}

typedef struct run {
    const oc_model *model;
    oc_program_shape shape;
    oc_program_batch batch;
    const int32_t *order, *position_order;
    const float *inv_freq, *dscale;
    void **weights, **grads, **act, **saved; /* host arrays of device addresses */
    void *d, *rows, *d_rows, *position_rows, *work, *head_work, *state;
    double *loss;
} run;

/* ---- what is put there ---- */

static void make_batch(place *p, run *r) {
    int32_t tokens[T], labels[T], positions[T], doc_start[T], order[T], position_order[T];
    int64_t vocab = r->model->vocab;
    int n = 0;
    for (int i = 0; i < T; i++) {
        tokens[i] = (int32_t)((i * 37 + 5) % vocab);
        labels[i] = i % 5 == 4 ? -100 : (int32_t)((i * 91 + 3) % vocab);
        doc_start[i] = i % SEQ < 3 ? 0 : 3;
        positions[i] = i % SEQ - doc_start[i];
    }
    for (int32_t token = 0; token < vocab && n < T; token++) {
        for (int32_t i = 0; i < T; i++) {
            if (tokens[i] == token) order[n++] = i;
        }
    }
    n = 0;
    for (int32_t position = 0; position < SEQ; position++) {
        for (int32_t i = 0; i < T; i++) {
            if (positions[i] == position) position_order[n++] = i;
        }
    }
    r->batch.tokens = put(p, tokens, sizeof tokens);
    r->batch.labels = put(p, labels, sizeof labels);
    r->batch.positions = put(p, positions, sizeof positions);
    r->batch.doc_start = put(p, doc_start, sizeof doc_start);
    r->order = put(p, order, sizeof order);
    r->position_order = put(p, position_order, sizeof position_order);
}

static void **addresses(int32_t n) {
    void **out = calloc((size_t)n + 1, sizeof *out);
    assert_non_null(out);
    return out;
}

static void put_blocks(place *p, run *r) {
    const oc_model *m = r->model;
    float *values = malloc(2 * m->max_block_elements * sizeof *values);
    assert_non_null(values);
    float *stored = values + m->max_block_elements;
    r->weights = addresses(m->n_blocks);
    r->grads = addresses(m->n_blocks);
    for (int32_t b = 0; b < m->n_blocks; b++) {
        uint64_t n = m->blocks[b].elements, bytes = n * oc_dtype_bytes(r->shape.dtype);
        oc_model_init_block(m, b, 11, values);
        oc_convert(stored, r->shape.dtype, values, OC_F32, n);
        r->weights[b] = put(p, stored, bytes);
    }
    free(values);
}

static void put_buffers(place *p, run *r) {
    const oc_program_shape *s = &r->shape;
    r->act = addresses(r->model->n_layers);
    r->saved = addresses(r->model->n_layers * OC_SAVED_COUNT);
    for (int32_t i = 0; i <= r->model->n_layers; i++)
        r->act[i] = put(p, NULL, oc_program_act_bytes(s));
    for (int32_t i = 0; i < r->model->n_layers * OC_SAVED_COUNT; i++)
        r->saved[i] = put(p, NULL, oc_program_saved_bytes(s, (oc_saved)(i % OC_SAVED_COUNT)));
    r->d = put(p, NULL, oc_program_act_bytes(s));
    r->rows = put(p, NULL, oc_program_row_bytes(s));
    r->d_rows = put(p, NULL, oc_program_row_bytes(s));
    r->position_rows = put(p, NULL, oc_program_act_bytes(s));
    r->work = put(p, NULL, oc_program_work_bytes(s));
    r->head_work = put(p, NULL, oc_program_head_work_bytes(s));
    r->state = put(p, NULL, oc_program_head_state_bytes(s));
}

/* Results lie from the returned place on: the loss, then gradients, of 4 bytes each at most. */
static uint64_t put_results(place *p, run *r) {
    uint64_t at = p->used;
    r->loss = put(p, NULL, sizeof *r->loss);
    for (int32_t b = 0; b < r->model->n_blocks; b++)
        r->grads[b] = put(p, NULL, r->model->blocks[b].elements * sizeof(float));
    return at;
}

/* ---- forward and backward ---- */

static void embed(const run *r) {
    const oc_model *m = r->model;
    const oc_program_shape *s = &r->shape;
    for (int32_t i = m->first_table; i < m->first_table + m->n_table; i++)
        s->device->ops->rows_gather(s->device, s->dtype, T, m->embed_dim, r->batch.tokens,
                                    m->blocks[i].row0, m->blocks[i].rows, r->weights[i], r->rows);
    bool learned = m->position_block >= 0;
    if (learned)
        s->device->ops->rows_gather(s->device, s->dtype, T, m->hidden, r->batch.positions,
                                    -m->position_offset, m->blocks[m->position_block].rows,
                                    r->weights[m->position_block], r->position_rows);
    void *position_rows = learned ? r->position_rows : NULL;
    if (m->front_block >= 0)
        oc_program_front_forward(s, &m->blocks[m->front_block], r->weights[m->front_block], r->rows,
                                 position_rows, r->act[0], r->work);
    else
        oc_program_embed(s, r->rows, position_rows, r->act[0]);
}

/* Every other layer keeps no UP. */
static oc_layer_call layer_call(const run *r, int32_t i) {
    int32_t b = r->model->first_layer + i;
    oc_layer_call c = {.shape = &r->shape,
                       .block = &r->model->blocks[b],
                       .weights = r->weights[b],
                       .inv_freq = r->inv_freq,
                       .batch = &r->batch,
                       .work = r->work};
    memcpy(c.saved, r->saved + i * OC_SAVED_COUNT, sizeof c.saved);
    if (i % 2 == 0) c.saved[OC_SAVED_UP] = NULL;
    return c;
}

static void layer_forward(const oc_layer_call *c, const void *in, void *out) {
    for (int p = 0; p < OC_PART_COUNT; p++)
        oc_program_part_forward(c, (oc_part)p, in, out);
}

static void forward(const run *r) {
    const oc_model *m = r->model;
    const oc_program_shape *s = &r->shape;
    embed(r);
    for (int32_t i = 0; i < m->n_layers; i++) {
        oc_layer_call c = layer_call(r, i);
        layer_forward(&c, r->act[i], r->act[i + 1]);
    }
    oc_program_final_forward(s, &m->blocks[m->final_norm_block], r->weights[m->final_norm_block],
                             r->act[m->n_layers], r->state);
    for (int32_t b = m->first_head; b < m->first_head + m->n_head; b++)
        oc_program_head_forward(s, &m->blocks[b], r->weights[b], &r->batch, r->state, NULL,
                                r->head_work);
    oc_program_loss(s, &r->batch, r->state, r->loss);
}

static void backward(const run *r) {
    const oc_model *m = r->model;
    const oc_program_shape *s = &r->shape;
    for (int32_t b = m->first_head; b < m->first_head + m->n_head; b++)
        oc_program_head_backward(s, &m->blocks[b], r->weights[b], &r->batch, r->dscale, r->grads[b],
                                 r->state, NULL, r->head_work);
    oc_program_final_backward(s, &m->blocks[m->final_norm_block], r->weights[m->final_norm_block],
                              r->act[m->n_layers], r->d, r->grads[m->final_norm_block], r->state);
    for (int32_t i = m->n_layers - 1; i >= 0; i--) {
        oc_layer_call c = layer_call(r, i);
        if (i % 2 == 0) layer_forward(&c, r->act[i], NULL);
        oc_program_layer_backward(&c, r->act[i], r->d, r->grads[m->first_layer + i]);
    }
}

/* The tables' gradients are sums in fp32. A tied table's place holds the head's, in the dtype. */
static void embed_backward(const run *r) {
    const oc_model *m = r->model;
    const oc_program_shape *s = &r->shape;
    const oc_device_ops *ops = s->device->ops;
    if (m->front_block >= 0)
        oc_program_front_backward(s, &m->blocks[m->front_block], r->weights[m->front_block],
                                  r->rows, r->d, r->d_rows, r->grads[m->front_block], r->work);
    else
        ops->scale_add(s->device, s->dtype, T * m->hidden, r->d, oc_program_embedding_scale(s),
                       NULL, r->d_rows);
    for (int32_t b = m->first_table; b < m->first_table + m->n_table && !m->tied; b++) {
        ops->zero(s->device, r->grads[b], m->blocks[b].elements * sizeof(float));
        ops->rows_scatter(s->device, s->dtype, T, m->embed_dim, r->batch.tokens, r->order,
                          m->blocks[b].row0, m->blocks[b].rows, r->d_rows, r->grads[b]);
    }
    int32_t b = m->position_block;
    if (b < 0) return;
    ops->zero(s->device, r->grads[b], m->blocks[b].elements * sizeof(float));
    ops->rows_scatter(s->device, s->dtype, T, m->hidden, r->batch.positions, r->position_order,
                      -m->position_offset, m->blocks[b].rows, r->d, r->grads[b]);
}

static void finish(oc_device *d) {
    uint64_t ns;
    if (d->ops->queue) {
        oc_queue *q = d->ops->queue(d);
        assert_int_equal(q->ops->mark(q, 1), OC_OK);
        assert_int_equal(q->ops->await(q, 1, &ns), OC_OK);
    }
    assert_int_equal(oc_device_status(d), OC_OK);
}

/* ---- two devices ---- */

typedef struct result {
    unsigned char *bytes;
    uint64_t n;
} result;

static result run_in(place *p, const oc_model *m, oc_dtype dtype) {
    /* in one tile, or in several */
    run r = {.model = m,
             .shape = {m, p->device, dtype, BATCH, SEQ, dtype == OC_BF16 ? 5 : 0, OC_GEMM_TILED}};
    const float one = 1;
    result out;
    oc_error err = {0};
    void *scratch = put(p, NULL, p->device->ops->scratch_bytes(p->device));
    p->device->ops->lend_scratch(p->device, scratch);
    make_batch(p, &r);
    r.inv_freq = put(p, m->inv_freq, (uint64_t)m->n_inv_freq * sizeof(float));
    r.dscale = put(p, &one, sizeof one);
    put_blocks(p, &r);
    put_buffers(p, &r);
    uint64_t at = put_results(p, &r);
    forward(&r);
    backward(&r);
    embed_backward(&r);
    finish(p->device);
    out.n = p->used - at;
    out.bytes = malloc(out.n);
    assert_non_null(out.bytes);
    check(p->memory->ops->download(p->memory, out.bytes, at, out.n, &err), &err);
    free(r.weights);
    free(r.grads);
    free(r.act);
    free(r.saved);
    return out;
}

static result run_on(oc_device *device, const oc_model *m, oc_dtype dtype) {
    oc_arena_spec spec = {OC_TIER_DEVICE, MEMORY_BYTES, false, false};
    place p = {.device = device};
    oc_error err = {0};
    check(device->ops->open_memory(device, &p.memory, &spec, &err), &err);
    result r = run_in(&p, m, dtype);
    oc_memory_close(p.memory);
    oc_device_close(device);
    return r;
}

static void compare(oc_pool *pool, const oc_model *m, oc_dtype dtype, const char *name) {
    oc_error err = {0};
    oc_device *cpu, *async;
    check(oc_device_open_cpu(&cpu, pool, OC_ISA_BEST, &err), &err);
    check(oc_device_open_async(&async, pool, 0, &err), &err);
    result want = run_on(cpu, m, dtype), got = run_on(async, m, dtype);
    double loss;
    memcpy(&loss, want.bytes, sizeof loss);
    if (!(loss > 1) || want.n != got.n || memcmp(want.bytes, got.bytes, want.n) != 0)
        fail_msg("%s in %s: the devices differ (loss %g)", name, oc_dtype_name(dtype), loss);
    free(want.bytes);
    free(got.bytes);
}

static void programs_run_in_memory_that_faults(void **state) {
    (void)state;
    oc_pool *pool;
    oc_error err = {0};
    char path[1024];
    int models = 0;
    check(oc_pool_open(&pool, 2, &err), &err);
    DIR *d = opendir(OC_TEST_DATA "/models");
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        snprintf(path, sizeof path, "%s/models/%s/config.json", OC_TEST_DATA, e->d_name);
        FILE *file = fopen(path, "rb");
        if (!file) continue;
        fclose(file);
        oc_model *m;
        check(oc_model_open(&m, path, &err), &err);
        oc_model_rope(m, SEQ, m->inv_freq);
        for (int t = 0; t < OC_DTYPE_COUNT; t++)
            compare(pool, m, (oc_dtype)t, e->d_name);
        oc_model_close(m);
        models++;
    }
    closedir(d);
    oc_pool_close(pool);
    assert_true(models >= 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(programs_run_in_memory_that_faults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
