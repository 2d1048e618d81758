/* The block programs against a plain fp64 model (model_fp64.h): forward values, and every gradient
 * by finite differences of that model, for every placement of norms, kind of position and front.
 * Then what a program promises beyond numbers: recompute, padding, documents, buffers, back ends.
 */
#include "model/flops.h"
#include "model_specs.h"

#include <stdio.h>

enum { GUARD = 64 };

/* ---- guarded buffers: poison inside (NaN in every dtype), a pattern outside ---- */

enum { MAX_BUFFERS = 128 };
static struct {
    unsigned char *raw;
    size_t bytes;
} guarded[MAX_BUFFERS];
static int n_guarded;

static void *buffer_new(uint64_t bytes) {
    assert_true(n_guarded < MAX_BUFFERS);
    size_t whole = (((size_t)bytes + GUARD - 1) / GUARD + 2) * GUARD;
    unsigned char *raw = aligned_alloc(GUARD, whole);
    assert_non_null(raw);
    memset(raw, 0xa5, whole);
    memset(raw + GUARD, 0xff, (size_t)bytes);
    guarded[n_guarded].raw = raw;
    guarded[n_guarded++].bytes = (size_t)bytes;
    return raw + GUARD;
}

static void buffers_check(void) {
    for (int i = 0; i < n_guarded; i++) {
        const unsigned char *end = guarded[i].raw + GUARD + guarded[i].bytes;
        for (int j = 0; j < GUARD; j++) {
            assert_int_equal(guarded[i].raw[j], 0xa5);
            assert_int_equal(end[j], 0xa5);
        }
    }
}

static void buffers_free(void) {
    for (int i = 0; i < n_guarded; i++)
        free(guarded[i].raw);
    n_guarded = 0;
}

/* ---- a small model of any kind, on any device ---- */

static uint64_t rng_state;

static double uniform(void) { /* (-1, 1) */
    rng_state = rng_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(rng_state >> 11) / 4503599627370496.0 - 1.0;
}

static void range_add(rig *r, int block, const char *name, int64_t first, int64_t n) {
    assert_true(r->n_ranges < MAX_RANGES);
    range x = {block, name, first, n};
    r->ranges[r->n_ranges++] = x;
}

/* Place a weight, leave a gap behind it (the padding a block may have), register its parts. */
static void put(rig *r, int block, oc_weight k, const char *name, int64_t n) {
    oc_block *b = &r->blocks[block];
    b->offset[k] = (int64_t)b->elements;
    b->elements = (b->elements + (uint64_t)n + 64) / 64 * 64;
    if (name) range_add(r, block, name, b->offset[k], n);
}

static void put_attention(rig *r, int block, const rig_spec *s) {
    const oc_decoder_spec *d = &s->d;
    int64_t h = d->hidden, q = d->heads * d->head_dim, kv = d->kv_heads * d->head_dim;
    oc_block *b = &r->blocks[block];
    put(r, block, OC_W_NORM1, "norm1", h);
    put(r, block, OC_W_QKV, NULL, (q + 2 * kv) * h);
    range_add(r, block, "q", b->offset[OC_W_QKV], q * h);
    range_add(r, block, "k", b->offset[OC_W_QKV] + q * h, kv * h);
    range_add(r, block, "v", b->offset[OC_W_QKV] + (q + kv) * h, kv * h);
    if (s->qkv_bias) {
        put(r, block, OC_W_QKV_BIAS, NULL, q + 2 * kv);
        range_add(r, block, "q bias", b->offset[OC_W_QKV_BIAS], q);
        range_add(r, block, "k bias", b->offset[OC_W_QKV_BIAS] + q, kv);
        range_add(r, block, "v bias", b->offset[OC_W_QKV_BIAS] + q + kv, kv);
    }
    if (d->qk_norm) {
        put(r, block, OC_W_QNORM, "q norm", d->head_dim);
        put(r, block, OC_W_KNORM, "k norm", d->head_dim);
    }
    put(r, block, OC_W_OUT, "out", h * q);
    if (s->out_bias) put(r, block, OC_W_OUT_BIAS, "out bias", h);
    if (d->placement == OC_PLACE_SANDWICH) put(r, block, OC_W_POST1, "post norm 1", h);
}

static void put_layer(rig *r, int block, const rig_spec *s) {
    const oc_decoder_spec *d = &s->d;
    int64_t h = d->hidden, f = d->intermediate;
    oc_block *b = &r->blocks[block];
    put_attention(r, block, s);
    put(r, block, OC_W_NORM2, "norm2", h);
    put(r, block, OC_W_UP, NULL, (d->gated ? 2 : 1) * f * h);
    range_add(r, block, d->gated ? "gate" : "up", b->offset[OC_W_UP], f * h);
    if (d->gated) range_add(r, block, "up", b->offset[OC_W_UP] + f * h, f * h);
    put(r, block, OC_W_DOWN, "down", h * f);
    if (d->placement == OC_PLACE_SANDWICH) put(r, block, OC_W_POST2, "post norm 2", h);
    if (d->norm == OC_NORM_LAYER) {
        put(r, block, OC_W_NORM1_BIAS, "norm1 bias", h);
        put(r, block, OC_W_NORM2_BIAS, "norm2 bias", h);
    }
    if (s->mlp_bias) {
        put(r, block, OC_W_UP_BIAS, "up bias", f);
        put(r, block, OC_W_DOWN_BIAS, "down bias", h);
    }
}

static void put_ends(rig *r, const rig_spec *s) {
    bool biases = s->d.norm == OC_NORM_LAYER;
    int64_t embed = r->model.embed_dim;
    if (!s->bare_final) {
        put(r, FINAL, OC_W_FINAL_NORM, "final norm", HIDDEN);
        if (biases) put(r, FINAL, OC_W_FINAL_NORM_BIAS, "final norm bias", HIDDEN);
    }
    if (s->final_proj) put(r, FINAL, OC_W_PROJECT_OUT, "project out", embed * HIDDEN);
    if (r->blocks[FINAL].elements == 0) r->blocks[FINAL].elements = 64;
    if (s->front_norm) put(r, FRONT, OC_W_EMBED_NORM, "front norm", embed);
    if (s->front_norm && biases) put(r, FRONT, OC_W_EMBED_NORM_BIAS, "front norm bias", embed);
    if (s->front_proj) put(r, FRONT, OC_W_PROJECT_IN, "project in", embed * HIDDEN);
}

static void rig_blocks(rig *r, const rig_spec *s) {
    bool front = s->front_norm || s->front_proj;
    r->n_blocks = front ? BLOCKS : FRONT;
    r->model.front_block = front ? FRONT : -1;
    for (int i = 0; i < BLOCKS; i++) {
        r->blocks[i].kind = i < LAYERS   ? OC_BLOCK_LAYER
                            : i == FINAL ? OC_BLOCK_FINAL_NORM
                            : i == FRONT ? OC_BLOCK_FRONT
                                         : OC_BLOCK_HEAD;
        for (int k = 0; k < OC_W_COUNT; k++)
            r->blocks[i].offset[k] = -1;
    }
    for (int i = 0; i < LAYERS; i++) {
        put_layer(r, i, s);
        r->blocks[i].variant = i % s->d.n_variants;
    }
    put_ends(r, s);
    for (int i = 0; i < CHUNKS; i++) {
        r->blocks[CHUNK0 + i].row0 = i * OC_HEAD_TILE;
        r->blocks[CHUNK0 + i].rows = i == 0 ? OC_HEAD_TILE : VOCAB - OC_HEAD_TILE;
        put(r, CHUNK0 + i, OC_W_TABLE, "head", r->blocks[CHUNK0 + i].rows * r->model.embed_dim);
    }
}

/* Sequence 0: a document [0, 5), then two rows of padding. Sequence 1: [0, 3) and [3, 7), whose
 * last row has a target too, so that no op may leave out the last rows. */
enum { PADDING = 5, DOC1 = SEQ, DOC2 = SEQ + 3 };

static void rig_batch(rig *r) {
    for (int t = 0; t < T; t++) {
        int s = t % SEQ, start = t < SEQ ? (s < PADDING ? 0 : PADDING) : (s < 3 ? 0 : 3);
        r->doc_start[t] = start;
        r->positions[t] = s - start;
        r->tokens[t] = t;
        r->labels[t] = t >= PADDING && t < SEQ ? -100 : (int32_t)((t * 397 + 11) % VOCAB);
    }
    r->labels[4] = -100;
    r->labels[1] = VOCAB - 1; /* in the short chunk */
    r->batch = (oc_program_batch){r->tokens, r->labels, r->positions, r->doc_start};
}

/* n random values, as the dtype holds them, in dst and plain. */
static void fill_rows(const rig *r, void *dst, double *plain, int64_t n) {
    float x[T * HIDDEN] = {0};
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)uniform();
    oc_convert(dst, r->shape.dtype, x, OC_F32, (uint64_t)n);
    oc_convert(x, OC_F32, dst, r->shape.dtype, (uint64_t)n);
    for (int64_t i = 0; i < n; i++)
        plain[i] = (double)x[i];
}

static void rig_fill(rig *r) {
    double one = r->model.decoder.norm_plus_one ? 0 : 1;
    rng_state = 7;
    for (int b = 0; b < r->n_blocks; b++) {
        const oc_block *block = &r->blocks[b];
        float *w = calloc(block->elements, sizeof *w);
        r->w64[b] = calloc(block->elements, sizeof(double));
        assert_true(w && r->w64[b]);
        for (int i = 0; i < r->n_ranges; i++) {
            const range *x = &r->ranges[i];
            if (x->block != b) continue;
            bool norm = strstr(x->name, "norm") && !strstr(x->name, "bias");
            for (int64_t j = 0; j < x->n; j++)
                w[x->first + j] = (float)(norm ? one + 0.3 * uniform() : 0.5 * uniform());
        }
        oc_dtype t = r->shape.dtype;
        r->weights[b] = buffer_new(block->elements * oc_dtype_bytes(t));
        r->grads[b] = buffer_new(block->elements * oc_dtype_bytes(t));
        oc_convert(r->weights[b], t, w, OC_F32, block->elements);
        oc_convert(w, OC_F32, r->weights[b], t, block->elements);
        for (uint64_t j = 0; j < block->elements; j++)
            r->w64[b][j] = (double)w[j];
        free(w);
    }
    if (r->model.front_block < 0) {
        fill_rows(r, r->act[0], r->x0, T * HIDDEN);
    } else {
        fill_rows(r, r->rows, r->x0, T * r->model.embed_dim);
        fill_rows(r, r->position_rows, r->places, T * HIDDEN);
    }
}

static void rig_positions(rig *r) {
    const oc_decoder_spec *d = &r->model.decoder;
    int half = d->rot_dim / 2;
    assert_true(half * d->n_variants <= 8 && d->heads <= 8);
    for (int i = 0; i < half * d->n_variants; i++)
        r->inv_freq[i] = (float)pow(i < half ? 10000 : 50, -2.0 * (i % half) / d->rot_dim);
    for (int i = 0; i < d->heads && d->position == OC_POS_ALIBI; i++)
        r->inv_freq[i] = (float)exp2(-2.0 * i - 1);
}

static void rig_buffers(rig *r) {
    const oc_program_shape *s = &r->shape;
    for (int i = 0; i <= LAYERS; i++)
        r->act[i] = buffer_new(oc_program_act_bytes(s));
    for (int i = 0; i < LAYERS; i++)
        for (int v = 0; v < OC_SAVED_COUNT; v++)
            r->saved[i][v] = buffer_new(oc_program_saved_bytes(s, (oc_saved)v));
    r->d = buffer_new(oc_program_act_bytes(s));
    r->rows = buffer_new(oc_program_row_bytes(s));
    r->d_rows = buffer_new(oc_program_row_bytes(s));
    r->position_rows = buffer_new(oc_program_act_bytes(s));
    r->work = buffer_new(oc_program_work_bytes(s));
    r->head_work = buffer_new(oc_program_head_work_bytes(s));
    r->state = buffer_new(oc_program_head_state_bytes(s));
}

static rig *rig_tiled(const rig_spec *s, oc_dtype dtype, oc_device *device, int64_t tile) {
    rig *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->model.decoder = s->d;
    r->model.hidden = HIDDEN;
    r->model.embed_dim = s->embed ? s->embed : HIDDEN;
    r->model.vocab = VOCAB;
    r->model.n_layers = LAYERS;
    r->model.blocks = r->blocks;
    r->model.n_blocks = BLOCKS;
    r->model.final_norm_block = FINAL;
    r->model.embedding_scale = 1;
    rig_blocks(r, s);
    rig_batch(r);
    rig_positions(r);
    r->shape = (oc_program_shape){&r->model, device, dtype, BATCH, SEQ, tile, OC_GEMM_TILED};
    rig_buffers(r);
    rig_fill(r);
    return r;
}

static rig *rig_new(const rig_spec *s, oc_dtype dtype, oc_device *device) {
    return rig_tiled(s, dtype, device, 0);
}

static void rig_free(rig *r) {
    buffers_check();
    assert_int_equal(oc_device_status(r->shape.device), OC_OK);
    for (int b = 0; b < BLOCKS; b++)
        free(r->w64[b]);
    free(r);
    buffers_free();
}

/* Work areas hold nothing from call to call: poison them before each. */
static void poison_work(rig *r) {
    memset(r->work, 0xff, oc_program_work_bytes(&r->shape));
    memset(r->head_work, 0xff, oc_program_head_work_bytes(&r->shape));
}

static oc_layer_call layer_call(rig *r, int i) {
    oc_layer_call c = {.shape = &r->shape,
                       .block = &r->blocks[i],
                       .weights = r->weights[i],
                       .inv_freq = r->inv_freq,
                       .batch = &r->batch,
                       .work = r->work};
    memcpy(c.saved, r->saved[i], sizeof c.saved);
    return c;
}

/* Each part with the places that it needs, and no other. */
static void layer_forward(rig *r, int i, void *out) {
    const oc_saved needs[OC_PART_COUNT][2] = {{OC_SAVED_QKV, OC_SAVED_QKV},
                                              {OC_SAVED_QKV, OC_SAVED_ATTENTION},
                                              {OC_SAVED_ATTENTION, OC_SAVED_MID},
                                              {OC_SAVED_MID, OC_SAVED_MID}};
    bool parallel = r->model.decoder.placement == OC_PLACE_PARALLEL;
    for (int p = 0; p < OC_PART_COUNT; p++) {
        oc_layer_call c = layer_call(r, i);
        bool reads_in = p == OC_PART_IN || p == OC_PART_OUT || (p == OC_PART_MLP && parallel);
        for (int v = 0; v < OC_SAVED_COUNT; v++) {
            bool own = p == OC_PART_MLP && (v == OC_SAVED_UP || v == OC_SAVED_MLP);
            if (!own && v != (int)needs[p][0] && v != (int)needs[p][1]) c.saved[v] = NULL;
        }
        poison_work(r);
        oc_program_part_forward(&c, (oc_part)p, reads_in ? r->act[i] : NULL,
                                p == OC_PART_MLP ? out : NULL);
    }
}

static void rig_forward(rig *r) {
    poison_work(r);
    if (r->model.front_block >= 0)
        oc_program_front_forward(&r->shape, &r->blocks[FRONT], r->weights[FRONT], r->rows,
                                 r->position_rows, r->act[0], r->work);
    for (int i = 0; i < LAYERS; i++) {
        layer_forward(r, i, r->act[i + 1]);
    }
    oc_program_final_forward(&r->shape, &r->blocks[FINAL], r->weights[FINAL], r->act[LAYERS],
                             r->state);
    for (int i = 0; i < CHUNKS; i++) {
        poison_work(r);
        oc_program_head_forward(&r->shape, &r->blocks[CHUNK0 + i], r->weights[CHUNK0 + i],
                                &r->batch, r->state, r->logits[i], r->head_work);
    }
    oc_program_loss(&r->shape, &r->batch, r->state, &r->loss);
}

static void *grads_of(const rig *r, int block) { return r->frozen ? NULL : r->grads[block]; }

/* recompute: of saved values only their places are there. */
static void layer_backward(rig *r, int i, bool recompute) {
    for (int v = 0; v < OC_SAVED_COUNT && recompute; v++)
        if (r->saved[i][v])
            memset(r->saved[i][v], 0xff, oc_program_saved_bytes(&r->shape, (oc_saved)v));
    if (recompute) layer_forward(r, i, NULL);
    oc_layer_call c = layer_call(r, i);
    for (int v = 0; v < OC_SAVED_COUNT; v++)
        if (!oc_program_backward_reads(&r->model.decoder, (oc_saved)v)) c.saved[v] = NULL;
    poison_work(r);
    oc_program_layer_backward(&c, r->act[i], r->d, grads_of(r, i));
}

static void rig_backward(rig *r, bool recompute, float dscale) {
    for (int i = 0; i < CHUNKS; i++) {
        poison_work(r);
        oc_program_head_backward(&r->shape, &r->blocks[CHUNK0 + i], r->weights[CHUNK0 + i],
                                 &r->batch, &dscale, grads_of(r, CHUNK0 + i), r->state,
                                 r->logits[i], r->head_work);
    }
    oc_program_final_backward(&r->shape, &r->blocks[FINAL], r->weights[FINAL], r->act[LAYERS], r->d,
                              grads_of(r, FINAL), r->state);
    for (int i = LAYERS - 1; i >= 0; i--)
        layer_backward(r, i, recompute);
    if (r->model.front_block < 0) return;
    poison_work(r);
    oc_program_front_backward(&r->shape, &r->blocks[FRONT], r->weights[FRONT], r->rows, r->d,
                              r->d_rows, grads_of(r, FRONT), r->work);
}

static float value_at(const rig *r, const void *data, int64_t i) {
    float f;
    size_t e = oc_dtype_bytes(r->shape.dtype);
    oc_convert(&f, OC_F32, (const char *)data + (size_t)i * e, r->shape.dtype, 1);
    return f;
}

/* ---- against the plain fp64 model ---- */

/* d loss / d h at values p + h v, h = 0: 4-point central difference, error O(h^4). */
static double slope(const rig *r, double *p, const double *v, int64_t n) {
    const double h = 1e-3, at[4] = {-2, -1, 1, 2}, weight[4] = {1, -8, 8, -1};
    double sum = 0;
    double *kept = malloc((size_t)n * sizeof *kept);
    assert_non_null(kept);
    memcpy(kept, p, (size_t)n * sizeof *kept);
    for (int k = 0; k < 4; k++) {
        for (int64_t i = 0; i < n; i++)
            p[i] = kept[i] + at[k] * h * v[i];
        sum += weight[k] * plain_loss(r);
    }
    memcpy(p, kept, (size_t)n * sizeof *kept);
    free(kept);
    return sum / (12 * h);
}

/* Gradient g (dtype) of p: along a random unit direction (all elements at once) and along the
 * axis of its largest element. fp32 results carry a relative error of some 1e-6 an element, the
 * difference quotient 1e-10; tolerance 2e-5 of the gradient's RMS along a direction whose
 * projection has that size, 2e-5 of the largest element along its axis, and 2e-6 for gradients that
 * are zero by nature (the keys' bias without rotation). */
static void check_slopes(const rig *r, const char *name, double *p, const void *g, int64_t n) {
    double *v = calloc((size_t)n, sizeof *v);
    assert_non_null(v);
    double norm = 0, dot = 0, squares = 0;
    int64_t top = 0;
    for (int64_t i = 0; i < n; i++) {
        double gi = (double)value_at(r, g, i);
        v[i] = uniform();
        norm += v[i] * v[i];
        squares += gi * gi;
        if (fabs(gi) > fabs((double)value_at(r, g, top))) top = i;
    }
    for (int64_t i = 0; i < n; i++) {
        v[i] /= sqrt(norm);
        dot += v[i] * (double)value_at(r, g, i);
    }
    double expect = slope(r, p, v, n), tolerance = 2e-5 * sqrt(squares / (double)n) + 2e-6;
    if (!(fabs(dot - expect) <= tolerance))
        fail_msg("%s: gradient along a direction %.9g, finite difference %.9g", name, dot, expect);
    memset(v, 0, (size_t)n * sizeof *v);
    v[top] = 1;
    double g_top = (double)value_at(r, g, top);
    expect = slope(r, p, v, n);
    if (!(fabs(g_top - expect) <= 2e-5 * fabs(expect) + 2e-6))
        fail_msg("%s: gradient of element %lld %.9g, finite difference %.9g", name, (long long)top,
                 g_top, expect);
    free(v);
}

static oc_device *open_reference(void) {
    oc_device *d = NULL;
    oc_error err;
    assert_int_equal(oc_device_open_reference(&d, &err), OC_OK);
    return d;
}

static void check_against_plain(const rig_spec *spec, bool recompute, int64_t tile) {
    oc_device *dev = open_reference();
    rig *r = rig_tiled(spec, OC_F32, dev, tile);
    rig_forward(r);
    double expect = plain_loss(r);
    if (!(expect > 10 && fabs(r->loss - expect) <= 2e-6 * expect))
        fail_msg("%s: loss %.9g, in fp64 %.9g", spec->name, r->loss, expect);
    rig_backward(r, recompute, 1);
    for (int i = 0; i < r->n_ranges; i++) {
        const range *x = &r->ranges[i];
        char name[80];
        snprintf(name, sizeof name, "%s: %s of block %d", spec->name, x->name, x->block);
        check_slopes(r, name, r->w64[x->block] + x->first,
                     (const float *)r->grads[x->block] + x->first, x->n);
    }
    if (r->model.front_block < 0) {
        check_slopes(r, spec->name, r->x0, r->d, T * HIDDEN);
    } else {
        check_slopes(r, spec->name, r->x0, r->d_rows, T * r->model.embed_dim);
        check_slopes(r, spec->name, r->places, r->d, T * HIDDEN);
    }
    rig_free(r);
    oc_device_close(dev);
}

static void loss_and_gradients_match_a_plain_fp64_model(void **state) {
    (void)state;
    for (int i = 0; i < N_SPECS; i++) {
        check_against_plain(&rig_specs[i], i % 2 == 0, 0);
        check_against_plain(&rig_specs[i], i % 2 != 0, 4);
    }
}

/* ---- what a program promises ---- */

static void keep_results(const rig *r, char **out, size_t *bytes) {
    size_t e = oc_dtype_bytes(r->shape.dtype), n = T * HIDDEN * e, at = n;
    for (int b = 0; b < r->n_blocks; b++)
        n += (size_t)r->blocks[b].elements * e;
    *out = malloc(n);
    assert_non_null(*out);
    memcpy(*out, r->d, at);
    for (int b = 0; b < r->n_blocks; b++) {
        memcpy(*out + at, r->grads[b], (size_t)r->blocks[b].elements * e);
        at += (size_t)r->blocks[b].elements * e;
    }
    *bytes = n;
}

static void recompute_gives_the_bits_of_saved_tensors(void **state) {
    (void)state;
    const oc_dtype dtypes[] = {OC_F32, OC_BF16, OC_F16};
    oc_device *dev = open_reference();
    for (int k = 0; k < 3 * N_SPECS; k++) {
        rig *r = rig_new(&rig_specs[k / 3], dtypes[k % 3], dev);
        char *saved, *recomputed;
        size_t n, m;
        rig_forward(r);
        rig_backward(r, false, 1);
        keep_results(r, &saved, &n);
        rig_forward(r);
        rig_backward(r, true, 1);
        keep_results(r, &recomputed, &m);
        assert_memory_equal(saved, recomputed, n);
        free(saved);
        free(recomputed);
        rig_free(r);
    }
    oc_device_close(dev);
}

static void check_padding(const rig *r) {
    for (int b = 0; b < r->n_blocks; b++) {
        uint64_t covered = 0;
        for (uint64_t i = 0; i < r->blocks[b].elements; i++) {
            bool inside = false;
            for (int k = 0; k < r->n_ranges; k++) {
                const range *x = &r->ranges[k];
                if (x->block == b && (int64_t)i >= x->first && (int64_t)i < x->first + x->n)
                    inside = true;
            }
            float g = value_at(r, r->grads[b], (int64_t)i);
            assert_true(isfinite((double)g));
            if (!inside) assert_true(((const uint16_t *)r->grads[b])[i] == 0);
            covered += inside;
        }
        assert_true(covered < r->blocks[b].elements); /* there was padding to zero */
    }
}

static void every_gradient_element_is_written_and_padding_is_zero(void **state) {
    (void)state;
    oc_device *dev = open_reference();
    for (int i = 0; i < N_SPECS; i++) {
        rig *r = rig_tiled(&rig_specs[i], OC_BF16, dev, i % 2 ? 3 : 0);
        rig_forward(r);
        rig_backward(r, true, 1);
        check_padding(r);
        rig_free(r);
    }
    oc_device_close(dev);
}

/* Then act[0] is no input. */
static bool has_front(const rig_spec *s) { return s->front_norm || s->front_proj; }

/* Replace the layer-0 input of rows [first, last) by other values. */
static void change_rows(rig *r, int first, int last) {
    for (int i = first * HIDDEN; i < last * HIDDEN; i++)
        ((float *)r->act[0])[i] = (float)(3 * uniform());
}

static bool rows_equal(const float *a, const float *b, int first, int last) {
    for (int i = first * HIDDEN; i < last * HIDDEN; i++)
        if (a[i] != b[i]) return false;
    return true;
}

static void padding_rows_contribute_nothing(void **state) {
    (void)state;
    oc_device *dev = open_reference();
    for (int k = 0; k < N_SPECS; k++) {
        if (has_front(&rig_specs[k])) continue;
        rig *r = rig_new(&rig_specs[k], OC_F32, dev);
        rig_forward(r);
        rig_backward(r, true, 1);
        float zero[T * HIDDEN] = {0};
        assert_true(rows_equal(r->d, zero, PADDING, SEQ));
        assert_false(rows_equal(r->d, zero, 0, PADDING - 1));
        double loss = r->loss;
        float *kept[BLOCKS];
        for (int b = 0; b < r->n_blocks; b++) {
            kept[b] = malloc(r->blocks[b].elements * sizeof(float));
            memcpy(kept[b], r->grads[b], r->blocks[b].elements * sizeof(float));
        }
        change_rows(r, PADDING, SEQ);
        rig_forward(r);
        rig_backward(r, true, 1);
        assert_true(loss == r->loss);
        for (int b = 0; b < r->n_blocks; b++) {
            for (uint64_t i = 0; i < r->blocks[b].elements; i++)
                assert_true(kept[b][i] == ((float *)r->grads[b])[i]);
            free(kept[b]);
        }
        rig_free(r);
    }
    oc_device_close(dev);
}

static void documents_of_a_sequence_do_not_see_each_other(void **state) {
    (void)state;
    oc_device *dev = open_reference();
    for (int k = 0; k < N_SPECS; k++) {
        if (has_front(&rig_specs[k])) continue;
        rig *r = rig_new(&rig_specs[k], OC_F32, dev);
        float before[T * HIDDEN];
        rig_forward(r);
        memcpy(before, r->act[LAYERS], sizeof before);
        change_rows(r, DOC1 + 1, DOC2); /* the first document but for its first token */
        rig_forward(r);
        const float *after = r->act[LAYERS];
        assert_true(rows_equal(before, after, 0, DOC1 + 1)); /* causal */
        assert_false(rows_equal(before, after, DOC1 + 1, DOC1 + 2));
        assert_true(rows_equal(before, after, DOC2, T));

        for (int t = 0; t < T; t++) /* only the second document is trained */
            if (t < DOC2) r->labels[t] = -100;
        float zero[T * HIDDEN] = {0};
        rig_forward(r);
        rig_backward(r, true, 1);
        assert_true(rows_equal(r->d, zero, 0, DOC2));
        assert_false(rows_equal(r->d, zero, DOC2, DOC2 + 1));
        rig_free(r);
    }
    oc_device_close(dev);
}

/* A power of two commutes with every rounding while nothing under- or overflows. */
static void the_loss_scale_multiplies_every_gradient(void **state) {
    (void)state;
    oc_device *dev = open_reference();
    rig *r = rig_new(llama_like, OC_F32, dev);
    rig_forward(r);
    rig_backward(r, true, 1);
    float *kept = malloc(r->blocks[0].elements * sizeof(float));
    memcpy(kept, r->grads[0], r->blocks[0].elements * sizeof(float));
    rig_forward(r);
    rig_backward(r, true, 1024);
    for (uint64_t i = 0; i < r->blocks[0].elements; i++)
        assert_true(((float *)r->grads[0])[i] == 1024 * kept[i]);
    free(kept);
    rig_free(r);
    oc_device_close(dev);
}

static void logits_of_the_chunks_explain_the_loss(void **state) {
    (void)state;
    oc_device *dev = open_reference();
    rig *r = rig_new(llama_like, OC_BF16, dev);
    rig_forward(r);
    enum { LD = VOCAB + 5 };
    float *logits = buffer_new(sizeof(float) * T * LD);
    for (int i = 0; i < CHUNKS; i++)
        oc_program_head_logits(&r->shape, &r->blocks[CHUNK0 + i], r->weights[CHUNK0 + i], r->state,
                               logits + r->blocks[CHUNK0 + i].row0, LD);
    double loss = 0;
    for (int t = 0; t < T; t++) {
        double total = 0;
        for (int v = 0; v < VOCAB; v++)
            total += exp((double)logits[t * LD + v]);
        if (r->labels[t] >= 0) loss += log(total) - (double)logits[t * LD + r->labels[t]];
    }
    assert_true(fabs(loss - r->loss) <= 1e-5 * loss);
    rig_free(r);
    oc_device_close(dev);
}

static void embedding_is_scaled_and_positions_added(void **state) {
    (void)state;
    oc_device *dev = open_reference();
    rig *r = rig_new(gpt2_like, OC_F32, dev);
    float *rows = buffer_new(sizeof(float) * T * HIDDEN), *act = r->act[1];
    for (int i = 0; i < T * HIDDEN; i++)
        rows[i] = (float)i;
    r->model.embedding_scale = 0.5f;
    oc_program_embed(&r->shape, rows, NULL, act);
    for (int i = 0; i < T * HIDDEN; i++)
        assert_true(act[i] == 0.5f * (float)i);
    oc_program_embed(&r->shape, rows, rows, act);
    for (int i = 0; i < T * HIDDEN; i++)
        assert_true(act[i] == 1.5f * (float)i);
    /* the reference multiplies by a number of the weights' dtype */
    r->model.embedding_scale = 55.4256f;
    assert_true(oc_program_embedding_scale(&r->shape) == 55.4256f);
    r->shape.dtype = OC_BF16;
    assert_true(oc_program_embedding_scale(&r->shape) == 55.5f);
    rig_free(r);
    oc_device_close(dev);
}

static double layer_flops(const rig *r, int layer) {
    double sum = 0;
    for (int p = 0; p < OC_PART_COUNT; p++)
        sum +=
            oc_flops_part(&r->model, &r->blocks[layer], r->shape.batch, r->shape.seq, (oc_part)p);
    return sum;
}

static void flops_count_the_products_of_a_layer_and_a_chunk(void **state) {
    (void)state;
    oc_device *dev = open_reference();
    rig *r = rig_new(gpt2_like, OC_F32, dev);
    /* qkv 24 x 72, out 24 x 24, up and down 24 x 56; scores and values: 4 tokens seen on average */
    double expect = 2.0 * T * (24 * 72 + 24 * 24 + 2 * 24 * 56) + 4.0 * T * 4 * 24;
    assert_true(layer_flops(r, 0) == expect);
    assert_true(oc_flops_up(&r->model, T) == 2.0 * T * 24 * 56);
    assert_true(oc_flops_head(&r->model, T, 10) == 2.0 * T * 24 * 10);
    rig_free(r);
    /* of 7 tokens the first layer's see 28, the second's, 2 at most, 13; gated; a narrow head */
    const rig_spec *gemma = &rig_specs[4], *opt = &rig_specs[5];
    r = rig_new(gemma, OC_F32, dev);
    expect = 2.0 * T * (24 * 64 + 24 * 32 + 3 * 24 * 30) + 4.0 * T * 4 * 32;
    assert_true(layer_flops(r, 0) == expect);
    assert_true(layer_flops(r, 1) == expect - 4.0 * T / 7 * (28 - 13) * 32);
    rig_free(r);
    r = rig_new(opt, OC_F32, dev);
    assert_true(oc_flops_head(&r->model, T, 10) == 2.0 * T * 10 * 10);
    rig_free(r);
    oc_device_close(dev);
}

/* ---- back ends ---- */

static double rms_error(const rig *a, const rig *b, const void *x, const void *y, int64_t n) {
    double diff = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        double p = (double)value_at(a, x, i), q = (double)value_at(b, y, i);
        diff += (p - q) * (p - q);
        size += q * q;
    }
    return sqrt(diff / (size + 1e-30));
}

/* Both round each stored value once; a flipped rounding is a unit of the dtype, and some dozen
 * stored values stand between loss and a gradient. The cpu device sums in fp32, up to a thousand
 * terms, hence the second part. */
static void compare_devices(oc_device *cpu, oc_device *ref, const rig_spec *spec, oc_dtype t,
                            int64_t tile) {
    const double unit = t == OC_F32 ? 0x1p-24 : t == OC_BF16 ? 0x1p-9 : 0x1p-12;
    const double tolerance = 12 * unit + 64 * 0x1p-24;
    rig *a = rig_tiled(spec, t, cpu, tile), *b = rig_tiled(spec, t, ref, tile);
    rig_forward(a);
    rig_forward(b);
    assert_true(fabs(a->loss - b->loss) <= 8 * unit * b->loss);
    rig_backward(a, true, 1);
    rig_backward(b, true, 1);
    assert_true(rms_error(a, b, a->d, b->d, T * HIDDEN) <= tolerance);
    for (int i = 0; i < a->n_ranges; i++) {
        const range *x = &a->ranges[i];
        size_t at = (size_t)x->first * oc_dtype_bytes(t);
        /* gradients that are zero by nature are compared by nothing but their smallness */
        if (strcmp(x->name, "k bias") == 0 && spec->d.position != OC_POS_ROPE) continue;
        double e =
            rms_error(a, b, (char *)a->grads[x->block] + at, (char *)b->grads[x->block] + at, x->n);
        if (!(e <= tolerance))
            fail_msg("%s %s %s: relative error %g", spec->name, oc_dtype_name(t), x->name, e);
    }
    buffers_check();
    for (int i = 0; i < BLOCKS; i++)
        free(b->w64[i]);
    free(b);
    rig_free(a);
}

static void cpu_device_agrees_with_the_reference(void **state) {
    (void)state;
    oc_error err;
    oc_device *ref = open_reference();
    oc_pool *pool = NULL;
    assert_int_equal(oc_pool_open(&pool, 2, &err), OC_OK);
    for (int isa = OC_ISA_PLAIN; isa <= OC_ISA_AVX512; isa++) {
        oc_device *cpu = NULL;
        oc_status s = oc_device_open_cpu(&cpu, pool, (oc_isa)isa, &err);
        if (s == OC_E_UNSUPPORTED && isa != OC_ISA_PLAIN) continue;
        assert_int_equal(s, OC_OK);
        void *scratch = aligned_alloc(64, (size_t)cpu->ops->scratch_bytes(cpu) / 64 * 64 + 64);
        assert_non_null(scratch);
        cpu->ops->lend_scratch(cpu, scratch);
        for (int t = 0; t < OC_DTYPE_COUNT; t++) {
            for (int i = 0; i < N_SPECS; i++)
                compare_devices(cpu, ref, &rig_specs[i], (oc_dtype)t, i % 2 ? 5 : 0);
        }
        oc_device_close(cpu);
        free(scratch);
    }
    oc_pool_close(pool);
    oc_device_close(ref);
}

/* ---- tiles, values that are not kept, frozen blocks ---- */

enum { TILE = 4 }; /* does not divide the tokens */

static char *results_of(rig *r, bool recompute, size_t *n) {
    char *out;
    rig_forward(r);
    rig_backward(r, recompute, 1);
    keep_results(r, &out, n);
    return out;
}

static void drop_up(rig *r) {
    for (int i = 0; i < LAYERS; i++)
        r->saved[i][OC_SAVED_UP] = NULL;
}

static void keep_logits(rig *r) {
    for (int i = 0; i < CHUNKS; i++)
        r->logits[i] = buffer_new(oc_program_logits_bytes(&r->shape, r->blocks[CHUNK0 + i].rows));
}

/* Of every kind of model in every dtype, in one tile and in several: what `change` does to a rig
 * changes no bit. */
static void changes_no_bit(void (*change)(rig *r)) {
    oc_device *dev = open_reference();
    for (int k = 0; k < 2 * OC_DTYPE_COUNT * N_SPECS; k++) {
        const rig_spec *spec = &rig_specs[k / 2 / OC_DTYPE_COUNT];
        oc_dtype t = (oc_dtype)(k / 2 % OC_DTYPE_COUNT);
        rig *r = rig_tiled(spec, t, dev, k % 2 ? TILE : 0);
        size_t n, m;
        char *want = results_of(r, false, &n);
        change(r);
        for (int recompute = 0; recompute < 2; recompute++) {
            char *got = results_of(r, recompute, &m);
            if (memcmp(want, got, n)) fail_msg("%s in %s differs", spec->name, oc_dtype_name(t));
            free(got);
        }
        free(want);
        rig_free(r);
    }
    oc_device_close(dev);
}

static void making_up_again_gives_the_bits_of_keeping_it(void **state) {
    (void)state;
    changes_no_bit(drop_up);
}

static void kept_logits_give_the_bits_of_making_them_again(void **state) {
    (void)state;
    changes_no_bit(keep_logits);
}

/* In fp32 sums differ by their order alone. */
static void tiles_of_tokens_give_the_gradients_of_all_at_once(void **state) {
    (void)state;
    oc_device *dev = open_reference();
    for (int k = 0; k < N_SPECS; k++) {
        rig *r = rig_new(&rig_specs[k], OC_F32, dev);
        size_t n, m;
        float *whole = (void *)results_of(r, false, &n);
        rig_free(r);
        r = rig_tiled(&rig_specs[k], OC_F32, dev, TILE);
        float *tiled = (void *)results_of(r, false, &m);
        double most = 0, difference = 0;
        for (size_t i = 0; i < n / sizeof *whole; i++) {
            most = fmax(most, fabs((double)whole[i]));
            difference = fmax(difference, fabs((double)whole[i] - (double)tiled[i]));
        }
        if (!(difference <= 1e-6 * most))
            fail_msg("%s: %g of %g", rig_specs[k].name, difference, most);
        free(whole);
        free(tiled);
        rig_free(r);
    }
    oc_device_close(dev);
}

/* A sum over tiles is rounded once: bf16 gradients are as near to fp32's as those of one tile. */
static void sums_over_tiles_are_rounded_once(void **state) {
    (void)state;
    oc_device *dev = open_reference();
    for (int k = 0; k < N_SPECS; k++) {
        rig *one = rig_new(&rig_specs[k], OC_BF16, dev);
        rig_forward(one);
        rig_backward(one, false, 1);
        rig *many = rig_tiled(&rig_specs[k], OC_BF16, dev, 2);
        rig_forward(many);
        rig_backward(many, false, 1);
        for (int i = 0; i < one->n_ranges; i++) {
            const range *x = &one->ranges[i];
            size_t at = (size_t)x->first * sizeof(uint16_t);
            double e = rms_error(one, many, (char *)one->grads[x->block] + at,
                                 (char *)many->grads[x->block] + at, x->n);
            if (!(e <= 0x1p-9 / 4)) fail_msg("%s: %s: %g", rig_specs[k].name, x->name, e);
        }
        for (int b = 0; b < BLOCKS; b++)
            free(one->w64[b]);
        free(one);
        rig_free(many);
    }
    oc_device_close(dev);
}

/* What goes on to the blocks before it has the same bits, and no gradient is touched. */
static void a_frozen_block_passes_gradients_on(void **state) {
    (void)state;
    oc_device *dev = open_reference();
    for (int k = 0; k < 2 * N_SPECS; k++) {
        rig *r = rig_tiled(&rig_specs[k / 2], OC_BF16, dev, k % 2 ? TILE : 0);
        size_t n, act = T * HIDDEN * sizeof(uint16_t);
        char *want = results_of(r, false, &n), *d_rows = malloc(oc_program_row_bytes(&r->shape));
        bool front = r->model.front_block >= 0;
        assert_non_null(d_rows);
        if (front) memcpy(d_rows, r->d_rows, oc_program_row_bytes(&r->shape));
        for (int b = 0; b < r->n_blocks; b++)
            memset(r->grads[b], 0xff, r->blocks[b].elements * sizeof(uint16_t));
        r->frozen = true;
        rig_forward(r);
        rig_backward(r, k % 3 == 0, 1);
        assert_memory_equal(want, r->d, act);
        if (front) assert_memory_equal(d_rows, r->d_rows, oc_program_row_bytes(&r->shape));
        for (int b = 0; b < r->n_blocks; b++)
            for (uint64_t i = 0; i < r->blocks[b].elements; i++)
                assert_int_equal(((uint16_t *)r->grads[b])[i], 0xffff);
        free(want);
        free(d_rows);
        rig_free(r);
    }
    oc_device_close(dev);
}

/* Beyond a tile the mlp's and the head's work do not grow, and a backward's only by what is as wide
 * as hidden or qkv. */
/* More tokens never need less room: a micro-batch is cut into tiles where that begins to pay. */
static void tiles_begin_where_they_take_less_room(void **state) {
    (void)state;
    oc_device *dev = open_reference();
    for (int k = 0; k < N_SPECS * OC_DTYPE_COUNT; k++) {
        rig *r = rig_new(&rig_specs[k / OC_DTYPE_COUNT], (oc_dtype)(k % OC_DTYPE_COUNT), dev);
        oc_program_shape s = r->shape;
        int64_t e = (int64_t)oc_dtype_bytes(s.dtype);
        int64_t most = OC_TOKEN_TILE + (e == 4 ? 0 : 4 * HIDDEN / e);
        uint64_t before = 0;
        s.batch = 1;
        for (s.seq = most - 64; s.seq < most + 64; s.seq++) {
            uint64_t now = oc_program_backward_work_bytes(&s);
            /* fp32 sums of a bias, and a short tile's alignment */
            assert_true(now + 4096 >= before);
            before = now;
        }
        s.seq = most;
        uint64_t one = oc_program_part_work_bytes(&s, OC_PART_MLP);
        s.seq = most + 1;
        assert_true(oc_program_part_work_bytes(&s, OC_PART_MLP) < one || e == 4);
        rig_free(r);
    }
    oc_device_close(dev);
}

static void work_grows_with_no_width_of_the_mlp_or_the_vocabulary(void **state) {
    (void)state;
    oc_device *dev = open_reference();
    for (int k = 0; k < N_SPECS; k++) {
        rig *r = rig_new(&rig_specs[k], OC_BF16, dev);
        oc_program_shape small = r->shape, large = r->shape;
        int64_t qkv =
            (r->model.decoder.heads + 2 * r->model.decoder.kv_heads) * r->model.decoder.head_dim;
        small.tile = large.tile = 256;
        small.batch = 100;
        large.batch = 10000;
        uint64_t tokens = (uint64_t)((large.batch - small.batch) * SEQ);
        assert_int_equal(oc_program_part_work_bytes(&small, OC_PART_MLP),
                         oc_program_part_work_bytes(&large, OC_PART_MLP));
        assert_int_equal(oc_program_head_work_bytes(&small), oc_program_head_work_bytes(&large));
        uint64_t grown =
            oc_program_backward_work_bytes(&large) - oc_program_backward_work_bytes(&small);
        /* q, k and v twice where they are normed, two of hidden, fp32 statistics of heads and of
         * two norms, of attention */
        uint64_t widths = (uint64_t)(2 * qkv + 2 * HIDDEN + r->model.decoder.heads * 8) * 2;
        uint64_t statistics = (uint64_t)(4 + 3 * r->model.decoder.heads * 2) * 4;
        assert_true(grown <= tokens * (widths + statistics));
        rig_free(r);
    }
    oc_device_close(dev);
}

static int forget_buffers(void **state) { /* after a failed test */
    (void)state;
    buffers_free();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(loss_and_gradients_match_a_plain_fp64_model, forget_buffers),
        cmocka_unit_test_teardown(recompute_gives_the_bits_of_saved_tensors, forget_buffers),
        cmocka_unit_test_teardown(every_gradient_element_is_written_and_padding_is_zero,
                                  forget_buffers),
        cmocka_unit_test_teardown(padding_rows_contribute_nothing, forget_buffers),
        cmocka_unit_test_teardown(documents_of_a_sequence_do_not_see_each_other, forget_buffers),
        cmocka_unit_test_teardown(the_loss_scale_multiplies_every_gradient, forget_buffers),
        cmocka_unit_test_teardown(logits_of_the_chunks_explain_the_loss, forget_buffers),
        cmocka_unit_test_teardown(embedding_is_scaled_and_positions_added, forget_buffers),
        cmocka_unit_test_teardown(flops_count_the_products_of_a_layer_and_a_chunk, forget_buffers),
        cmocka_unit_test_teardown(cpu_device_agrees_with_the_reference, forget_buffers),
        cmocka_unit_test_teardown(making_up_again_gives_the_bits_of_keeping_it, forget_buffers),
        cmocka_unit_test_teardown(kept_logits_give_the_bits_of_making_them_again, forget_buffers),
        cmocka_unit_test_teardown(tiles_of_tokens_give_the_gradients_of_all_at_once,
                                  forget_buffers),
        cmocka_unit_test_teardown(sums_over_tiles_are_rounded_once, forget_buffers),
        cmocka_unit_test_teardown(a_frozen_block_passes_gradients_on, forget_buffers),
        cmocka_unit_test_teardown(tiles_begin_where_they_take_less_room, forget_buffers),
        cmocka_unit_test_teardown(work_grows_with_no_width_of_the_mlp_or_the_vocabulary,
                                  forget_buffers),
    };
    return cmocka_run_group_tests_name("model_program", tests, NULL, NULL);
}
