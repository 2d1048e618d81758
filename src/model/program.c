#include "model/program.h"

#include "base/checked.h"

#include <assert.h>
#include <stddef.h>

enum { ALIGN = 64 };

/* Widths of a layer's activations, in elements a token. */
typedef struct widths {
    int64_t tokens, hidden, heads, qkv, up, mid;
    bool rms;
} widths;

/* A layer's save area. Byte offsets. */
typedef struct save_layout {
    uint64_t mean1, rstd1, qkv, o, lse, x2, mean2, rstd2, u, bytes;
} save_layout;

/* A layer op's work area. One value at a time lives at its start (n1, attention's work, n2, a, da,
 * dn2), except in the attention part of the backward: there dqkv stands at its start, do, then n1,
 * then dn1 at `after`, and attention's own work behind do. In bytes of the values:
 *
 *   bytes = max(a, n, dqkv + n, dqkv + do + attention work) */
typedef struct work_layout {
    uint64_t after, attention, bytes;
} work_layout;

typedef struct head_layout {
    uint64_t xn, mean, rstd, max, sum, target, lse, dxn, bytes;
} head_layout;

static widths widths_of(const oc_program_shape *s) {
    const oc_decoder_spec *d = &s->model->decoder;
    widths w = {
        .tokens = s->batch * s->seq,
        .hidden = d->hidden,
        .heads = (int64_t)d->heads * d->head_dim,
        .qkv = ((int64_t)d->heads + 2 * (int64_t)d->kv_heads) * d->head_dim,
        .up = d->gated ? 2 * d->intermediate : d->intermediate,
        .mid = d->intermediate,
        .rms = d->norm == OC_NORM_RMS,
    };
    return w;
}

/* Append an area of rows x cols elements; returns its offset. */
static uint64_t place(uint64_t *end, int64_t rows, int64_t cols, size_t element_bytes) {
    uint64_t at = *end;
    *end = oc_align_up(at + (uint64_t)rows * (uint64_t)cols * element_bytes, ALIGN);
    return at;
}

static save_layout save_of(const oc_program_shape *s) {
    widths w = widths_of(s);
    size_t e = oc_dtype_bytes(s->dtype);
    int64_t T = w.tokens;
    save_layout l = {0};
    uint64_t end = 0;
    l.mean1 = place(&end, w.rms ? 0 : T, 1, sizeof(float));
    l.rstd1 = place(&end, T, 1, sizeof(float));
    l.qkv = place(&end, T, w.qkv, e);
    l.o = place(&end, T, w.heads, e);
    l.lse = place(&end, T, s->model->decoder.heads, sizeof(float));
    l.x2 = place(&end, T, w.hidden, e);
    l.mean2 = place(&end, w.rms ? 0 : T, 1, sizeof(float));
    l.rstd2 = place(&end, T, 1, sizeof(float));
    l.u = place(&end, T, w.up, e);
    l.bytes = end;
    return l;
}

static oc_attention attention_shape(const oc_program_shape *s) {
    const oc_decoder_spec *d = &s->model->decoder;
    widths w = widths_of(s);
    oc_attention a = {
        .dtype = s->dtype,
        .batch = s->batch,
        .seq = s->seq,
        .heads = d->heads,
        .kv_heads = d->kv_heads,
        .head_dim = d->head_dim,
        .scale = d->attention_scale,
        .window = d->window,
        .q_ld = w.qkv,
        .k_ld = w.qkv,
        .v_ld = w.qkv,
        .out_ld = w.heads,
    };
    return a;
}

static work_layout work_of(const oc_program_shape *s) {
    widths w = widths_of(s);
    size_t e = oc_dtype_bytes(s->dtype);
    oc_attention shape = attention_shape(s);
    uint64_t attention = s->device->ops->attention_work_bytes(s->device, &shape);
    work_layout l = {0};
    uint64_t end = 0, mid = 0, hidden = 0;
    (void)place(&mid, w.tokens, w.mid, e);
    (void)place(&hidden, w.tokens, w.hidden, e);

    (void)place(&end, w.tokens, w.qkv, e);
    l.after = end;
    l.attention = end;
    (void)place(&l.attention, w.tokens, w.heads, e);
    end = l.attention;
    (void)place(&end, (int64_t)attention, 1, 1);

    l.bytes = oc_max_u64(oc_max_u64(mid, hidden), oc_max_u64(end, l.after + hidden));
    return l;
}

static head_layout head_of(const oc_program_shape *s) {
    widths w = widths_of(s);
    head_layout l = {0};
    uint64_t end = 0;
    l.xn = place(&end, w.tokens, w.hidden, oc_dtype_bytes(s->dtype));
    l.mean = place(&end, w.rms ? 0 : w.tokens, 1, sizeof(float));
    l.rstd = place(&end, w.tokens, 1, sizeof(float));
    l.max = place(&end, w.tokens, 1, sizeof(float));
    l.sum = place(&end, w.tokens, 1, sizeof(float));
    l.target = place(&end, w.tokens, 1, sizeof(float));
    l.lse = place(&end, w.tokens, 1, sizeof(float));
    l.dxn = place(&end, w.tokens, w.hidden, sizeof(float));
    l.bytes = end;
    return l;
}

uint64_t oc_program_act_bytes(const oc_program_shape *s) {
    uint64_t end = 0;
    (void)place(&end, s->batch * s->seq, s->model->decoder.hidden, oc_dtype_bytes(s->dtype));
    return end;
}

uint64_t oc_program_save_bytes(const oc_program_shape *s) { return save_of(s).bytes; }
uint64_t oc_program_work_bytes(const oc_program_shape *s) { return work_of(s).bytes; }
uint64_t oc_program_head_state_bytes(const oc_program_shape *s) { return head_of(s).bytes; }

/* Byte offset of the dlogits tile behind the logits tile: the same place when they alias. */
static uint64_t head_work(const oc_program_shape *s, uint64_t *dlogits) {
    int64_t rows = s->model->vocab < OC_HEAD_TILE ? s->model->vocab : OC_HEAD_TILE;
    int64_t tokens = s->batch * s->seq;
    uint64_t end = 0;
    (void)place(&end, tokens, rows, sizeof(float));
    *dlogits = 0;
    if (s->dtype != OC_F32) *dlogits = place(&end, tokens, rows, oc_dtype_bytes(s->dtype));
    return end;
}

uint64_t oc_program_head_work_bytes(const oc_program_shape *s) {
    uint64_t dlogits;
    return head_work(s, &dlogits);
}

double oc_program_layer_flops(const oc_program_shape *s) {
    widths w = widths_of(s);
    const oc_decoder_spec *d = &s->model->decoder;
    double T = (double)w.tokens, h = (double)w.hidden;
    double gemms = h * (double)w.qkv + (double)w.heads * h + h * (double)w.up + (double)w.mid * h;
    /* A token sees half of its sequence on average, or its window; scores and values: 2 each. */
    double span = (double)(s->seq + 1) / 2;
    if (d->window > 0 && (double)d->window < span) span = (double)d->window;
    return 2 * T * gemms + 4 * T * span * (double)w.heads;
}

double oc_program_chunk_flops(const oc_program_shape *s, int64_t rows) {
    return 2 * (double)(s->batch * s->seq) * (double)s->model->decoder.hidden * (double)rows;
}

/* Values a weight of the block holds, its rows x cols as the spec has them. */
static int64_t weight_elements(const oc_program_shape *s, const oc_block *block, oc_weight k) {
    const oc_decoder_spec *d = &s->model->decoder;
    widths w = widths_of(s);
    switch (k) {
    case OC_W_NORM1:
    case OC_W_NORM1_BIAS:
    case OC_W_NORM2:
    case OC_W_NORM2_BIAS:
    case OC_W_FINAL_NORM:
    case OC_W_FINAL_NORM_BIAS:
    case OC_W_OUT_BIAS:
    case OC_W_DOWN_BIAS:
        return d->hidden;
    case OC_W_QKV:
        return w.qkv * d->hidden;
    case OC_W_QKV_BIAS:
        return w.qkv;
    case OC_W_OUT:
        return w.heads * d->hidden;
    case OC_W_UP:
        return w.up * d->hidden;
    case OC_W_UP_BIAS:
        return w.up;
    case OC_W_DOWN:
        return w.mid * d->hidden;
    case OC_W_TABLE:
        return block->rows * d->hidden;
    case OC_W_COUNT:
        break;
    }
    return 0;
}

/* Zero what no gradient op writes: the gaps between tensors and after the last. */
static void zero_padding(const oc_program_shape *s, const oc_block *block, void *grads) {
    size_t e = oc_dtype_bytes(s->dtype);
    uint64_t at = 0;
    while (at < block->elements) {
        int next = -1;
        for (int k = 0; k < OC_W_COUNT; k++) {
            int64_t o = block->offset[k];
            if (o < 0 || (uint64_t)o < at) continue;
            if (next < 0 || o < block->offset[next]) next = k;
        }
        uint64_t start = next < 0 ? block->elements : (uint64_t)block->offset[next];
        if (start > at) s->device->ops->zero(s->device, (char *)grads + at * e, (start - at) * e);
        at = start;
        if (next >= 0) at += (uint64_t)weight_elements(s, block, (oc_weight)next);
    }
    assert(at == block->elements);
}

/* One call on one layer: what every step of it needs. */
typedef struct layer {
    const oc_program_shape *s;
    const oc_block *block;
    oc_device *dev;
    const oc_device_ops *ops;
    widths w;
    oc_dtype t;
    const char *weights;
    char *grads, *work;
    const float *inv_freq;
    const oc_program_batch *batch;
    work_layout wl;
    float *mean1, *rstd1, *mean2, *rstd2, *lse;
    char *qkv, *o, *x2, *u;
} layer;

static layer layer_of(const oc_program_shape *s, const oc_block *block, const void *weights,
                      const float *inv_freq, const oc_program_batch *b, void *save, void *work) {
    save_layout l = save_of(s);
    widths w = widths_of(s);
    char *p = save;
    layer c = {
        .s = s,
        .block = block,
        .dev = s->device,
        .ops = s->device->ops,
        .w = w,
        .t = s->dtype,
        .weights = weights,
        .work = work,
        .inv_freq = inv_freq,
        .batch = b,
        .wl = work_of(s),
        .mean1 = w.rms ? NULL : (void *)(p + l.mean1),
        .rstd1 = (void *)(p + l.rstd1),
        .mean2 = w.rms ? NULL : (void *)(p + l.mean2),
        .rstd2 = (void *)(p + l.rstd2),
        .lse = (void *)(p + l.lse),
        .qkv = p + l.qkv,
        .o = p + l.o,
        .x2 = p + l.x2,
        .u = p + l.u,
    };
    return c;
}

static const void *weight_at(const oc_block *block, oc_dtype t, const void *flat, oc_weight k) {
    int64_t o = block->offset[k];
    return o < 0 ? NULL : (const char *)flat + (size_t)o * oc_dtype_bytes(t);
}

static void *grad_at(const oc_block *block, oc_dtype t, void *flat, oc_weight k) {
    int64_t o = block->offset[k];
    return o < 0 ? NULL : (char *)flat + (size_t)o * oc_dtype_bytes(t);
}

/* y[T, out] = x[T, in] W[out, in]^T (+ bias) (+ residual) */
static void linear(const layer *c, const void *x, int64_t in, oc_weight k, oc_weight bias,
                   const void *residual, void *y, int64_t out) {
    oc_gemm g = {
        .a = oc_mat_of(x, c->t, c->w.tokens, in, in),
        .b = oc_mat_of(weight_at(c->block, c->t, c->weights, k), c->t, out, in, in),
        .c = oc_mat_of(y, c->t, c->w.tokens, out, out),
        .trans_b = true,
        .bias = weight_at(c->block, c->t, c->weights, bias),
        .bias_dtype = c->t,
        .residual = residual,
    };
    c->ops->gemm(c->dev, &g);
}

/* dx[T, in] = dy[T, out] W[out, in] */
static void linear_dx(const layer *c, const void *dy, int64_t out, oc_weight k, void *dx,
                      int64_t in) {
    oc_gemm g = {
        .a = oc_mat_of(dy, c->t, c->w.tokens, out, out),
        .b = oc_mat_of(weight_at(c->block, c->t, c->weights, k), c->t, out, in, in),
        .c = oc_mat_of(dx, c->t, c->w.tokens, in, in),
    };
    c->ops->gemm(c->dev, &g);
}

/* dW[out, in] = dy[T, out]^T x[T, in]; db[out] = sum of dy over T */
static void linear_dw(const layer *c, const void *dy, int64_t out, const void *x, int64_t in,
                      oc_weight k, oc_weight bias) {
    oc_gemm g = {
        .a = oc_mat_of(dy, c->t, c->w.tokens, out, out),
        .b = oc_mat_of(x, c->t, c->w.tokens, in, in),
        .c = oc_mat_of(grad_at(c->block, c->t, c->grads, k), c->t, out, in, in),
        .trans_a = true,
    };
    c->ops->gemm(c->dev, &g);
    void *db = grad_at(c->block, c->t, c->grads, bias);
    if (db) c->ops->bias_grad(c->dev, c->t, c->w.tokens, out, dy, out, db);
}

static oc_norm norm_of(const oc_program_shape *s, const oc_block *block, const void *weights,
                       oc_weight k, oc_weight bias, const void *x, float *mean, float *rstd) {
    const oc_decoder_spec *d = &s->model->decoder;
    oc_norm n = {
        .dtype = s->dtype,
        .rows = s->batch * s->seq,
        .cols = d->hidden,
        .rms = d->norm == OC_NORM_RMS,
        .eps = d->norm_eps,
        .x = x,
        .w = weight_at(block, s->dtype, weights, k),
        .b = weight_at(block, s->dtype, weights, bias),
        .mean = mean,
        .rstd = rstd,
    };
    return n;
}

static void norm1(const layer *c, const void *x, void *y) {
    oc_norm n =
        norm_of(c->s, c->block, c->weights, OC_W_NORM1, OC_W_NORM1_BIAS, x, c->mean1, c->rstd1);
    n.y = y;
    c->ops->norm_forward(c->dev, &n);
}

static void norm2(const layer *c, void *y) {
    oc_norm n =
        norm_of(c->s, c->block, c->weights, OC_W_NORM2, OC_W_NORM2_BIAS, c->x2, c->mean2, c->rstd2);
    n.y = y;
    c->ops->norm_forward(c->dev, &n);
}

/* d += gradient through the norm */
static void norm_dx(const layer *c, oc_norm n, oc_weight k, oc_weight bias, const void *dy,
                    void *d) {
    n.dy = dy;
    n.dy_dtype = c->t;
    n.add = d;
    n.dx = d;
    n.dw = grad_at(c->block, c->t, c->grads, k);
    n.db = grad_at(c->block, c->t, c->grads, bias);
    c->ops->norm_backward(c->dev, &n);
}

/* Turn the q and k parts of [T, qkv], which stand side by side: they are heads alike. */
static void rope(const layer *c, void *qkv, bool inverse) {
    const oc_decoder_spec *d = &c->s->model->decoder;
    if (d->position != OC_POS_ROPE) return;
    oc_rope r = {
        .dtype = c->t,
        .rows = c->w.tokens,
        .heads = d->heads + d->kv_heads,
        .head_dim = d->head_dim,
        .rot_dim = d->rot_dim,
        .inverse = inverse,
        .positions = c->batch->positions,
        .inv_freq = c->inv_freq,
        .scaling = d->rope_scaling,
        .x = qkv,
        .ld = c->w.qkv,
    };
    c->ops->rope(c->dev, &r);
}

static oc_attention attention_of(const layer *c) {
    size_t e = oc_dtype_bytes(c->t);
    size_t k = (size_t)c->w.heads * e;
    size_t v = k + (size_t)(c->w.qkv - c->w.heads) / 2 * e;
    oc_attention a = attention_shape(c->s);
    a.doc_start = c->batch->doc_start;
    a.q = c->qkv;
    a.k = c->qkv + k;
    a.v = c->qkv + v;
    a.out = c->o;
    a.lse = c->lse;
    return a;
}

/* Everything but the down-projection, which nothing saved depends on. */
static void forward_saved(const layer *c, const void *in) {
    char *first = c->work;
    norm1(c, in, first);
    linear(c, first, c->w.hidden, OC_W_QKV, OC_W_QKV_BIAS, NULL, c->qkv, c->w.qkv);
    rope(c, c->qkv, false);
    oc_attention a = attention_of(c);
    a.work = first;
    c->ops->attention_forward(c->dev, &a);
    linear(c, c->o, c->w.heads, OC_W_OUT, OC_W_OUT_BIAS, in, c->x2, c->w.hidden);
    norm2(c, first);
    linear(c, first, c->w.hidden, OC_W_UP, OC_W_UP_BIAS, NULL, c->u, c->w.up);
}

static void activate(const layer *c, void *a) {
    const oc_decoder_spec *d = &c->s->model->decoder;
    c->ops->act_forward(c->dev, d->act, d->gated, c->t, c->w.tokens, c->w.mid, c->u, a);
}

void oc_program_layer_forward(const oc_program_shape *s, const oc_block *block, const void *weights,
                              const float *inv_freq, const oc_program_batch *b, const void *in,
                              void *out, void *save, void *work) {
    layer c = layer_of(s, block, weights, inv_freq, b, save, work);
    forward_saved(&c, in);
    char *a = c.work;
    activate(&c, a);
    linear(&c, a, c.w.mid, OC_W_DOWN, OC_W_DOWN_BIAS, c.x2, out, c.w.hidden);
}

/* d: gradient of the layer's output in, of x2 out. */
static void mlp_backward(const layer *c, void *d) {
    const oc_decoder_spec *spec = &c->s->model->decoder;
    char *first = c->work;
    activate(c, first);
    linear_dw(c, d, c->w.hidden, first, c->w.mid, OC_W_DOWN, OC_W_DOWN_BIAS);
    linear_dx(c, d, c->w.hidden, OC_W_DOWN, first, c->w.mid);
    c->ops->act_backward(c->dev, spec->act, spec->gated, c->t, c->w.tokens, c->w.mid, c->u, first,
                         c->u);
    norm2(c, first);
    linear_dw(c, c->u, c->w.up, first, c->w.hidden, OC_W_UP, OC_W_UP_BIAS);
    linear_dx(c, c->u, c->w.up, OC_W_UP, first, c->w.hidden);
    oc_norm n =
        norm_of(c->s, c->block, c->weights, OC_W_NORM2, OC_W_NORM2_BIAS, c->x2, c->mean2, c->rstd2);
    norm_dx(c, n, OC_W_NORM2, OC_W_NORM2_BIAS, first, d);
}

/* d: gradient of x2 in, of the layer's input out. */
static void attention_backward(const layer *c, const void *in, void *d) {
    size_t e = oc_dtype_bytes(c->t);
    char *dqkv = c->work, *after = c->work + c->wl.after;
    linear_dw(c, d, c->w.hidden, c->o, c->w.heads, OC_W_OUT, OC_W_OUT_BIAS);
    linear_dx(c, d, c->w.hidden, OC_W_OUT, after, c->w.heads);
    oc_attention a = attention_of(c);
    a.dout = after;
    a.dq = dqkv;
    a.dk = dqkv + (size_t)c->w.heads * e;
    a.dv = dqkv + (size_t)(c->w.qkv + c->w.heads) / 2 * e;
    a.work = c->work + c->wl.attention;
    c->ops->attention_backward(c->dev, &a);
    rope(c, dqkv, true);
    norm1(c, in, after);
    linear_dw(c, dqkv, c->w.qkv, after, c->w.hidden, OC_W_QKV, OC_W_QKV_BIAS);
    linear_dx(c, dqkv, c->w.qkv, OC_W_QKV, after, c->w.hidden);
    oc_norm n =
        norm_of(c->s, c->block, c->weights, OC_W_NORM1, OC_W_NORM1_BIAS, in, c->mean1, c->rstd1);
    norm_dx(c, n, OC_W_NORM1, OC_W_NORM1_BIAS, after, d);
}

void oc_program_layer_backward(const oc_program_shape *s, const oc_block *block,
                               const void *weights, const float *inv_freq,
                               const oc_program_batch *b, const void *in, void *d, void *grads,
                               void *save, bool recompute, void *work) {
    layer c = layer_of(s, block, weights, inv_freq, b, save, work);
    c.grads = grads;
    if (recompute) forward_saved(&c, in);
    mlp_backward(&c, d);
    attention_backward(&c, in, d);
    zero_padding(s, block, grads);
}

void oc_program_embed(const oc_program_shape *s, const void *rows, const void *position_rows,
                      void *act) {
    int64_t n = s->batch * s->seq * s->model->decoder.hidden;
    s->device->ops->scale_add(s->device, s->dtype, n, rows, s->model->embedding_scale,
                              position_rows, act);
}

/* The head state's parts. */
typedef struct head {
    char *xn;
    float *mean, *rstd, *max, *sum, *target, *lse, *dxn;
} head;

static head head_at(const oc_program_shape *s, const void *state) {
    head_layout l = head_of(s);
    char *p = (char *)(uintptr_t)state;
    head h = {
        .xn = p + l.xn,
        .mean = s->model->decoder.norm == OC_NORM_RMS ? NULL : (void *)(p + l.mean),
        .rstd = (void *)(p + l.rstd),
        .max = (void *)(p + l.max),
        .sum = (void *)(p + l.sum),
        .target = (void *)(p + l.target),
        .lse = (void *)(p + l.lse),
        .dxn = (void *)(p + l.dxn),
    };
    return h;
}

void oc_program_final_forward(const oc_program_shape *s, const oc_block *block, const void *weights,
                              const void *in, void *state) {
    head h = head_at(s, state);
    const oc_device_ops *ops = s->device->ops;
    int64_t T = s->batch * s->seq;
    oc_norm n =
        norm_of(s, block, weights, OC_W_FINAL_NORM, OC_W_FINAL_NORM_BIAS, in, h.mean, h.rstd);
    n.y = h.xn;
    ops->norm_forward(s->device, &n);
    ops->ce_init(s->device, T, h.max, h.sum, h.target);
    ops->zero(s->device, h.dxn, (uint64_t)(T * s->model->decoder.hidden) * sizeof(float));
}

/* Rows r .. r + n - 1 of a chunk. */
static oc_mat tile_of(const oc_program_shape *s, const oc_block *chunk, const void *flat, int64_t r,
                      int64_t n) {
    int64_t h = s->model->decoder.hidden;
    const char *table = weight_at(chunk, s->dtype, flat, OC_W_TABLE);
    return oc_mat_of(table + (size_t)(r * h) * oc_dtype_bytes(s->dtype), s->dtype, n, h, h);
}

static int64_t tile_rows(const oc_block *chunk, int64_t r) {
    return chunk->rows - r < OC_HEAD_TILE ? chunk->rows - r : OC_HEAD_TILE;
}

static oc_mat xn_of(const oc_program_shape *s, const head *h) {
    int64_t cols = s->model->decoder.hidden;
    return oc_mat_of(h->xn, s->dtype, s->batch * s->seq, cols, cols);
}

/* logits[T, n] = xn[T, h] tile[n, h]^T, fp32 */
static void tile_logits(const oc_program_shape *s, const head *h, oc_mat tile, float *logits,
                        int64_t ld) {
    oc_gemm g = {
        .a = xn_of(s, h),
        .b = tile,
        .c = oc_mat_of(logits, OC_F32, s->batch * s->seq, tile.rows, ld),
        .trans_b = true,
    };
    s->device->ops->gemm(s->device, &g);
}

void oc_program_head_forward(const oc_program_shape *s, const oc_block *chunk, const void *weights,
                             const oc_program_batch *b, void *state, void *work) {
    head h = head_at(s, state);
    for (int64_t r = 0; r < chunk->rows; r += OC_HEAD_TILE) {
        int64_t n = tile_rows(chunk, r);
        tile_logits(s, &h, tile_of(s, chunk, weights, r, n), work, n);
        s->device->ops->ce_update(s->device, s->batch * s->seq, n, chunk->row0 + r, work, b->labels,
                                  h.max, h.sum, h.target);
    }
}

void oc_program_loss(const oc_program_shape *s, const oc_program_batch *b, void *state,
                     double *loss_sum) {
    head h = head_at(s, state);
    s->device->ops->ce_loss(s->device, s->batch * s->seq, b->labels, h.max, h.sum, h.target, h.lse,
                            loss_sum);
}

void oc_program_head_backward(const oc_program_shape *s, const oc_block *chunk, const void *weights,
                              const oc_program_batch *b, float dscale, void *grads, void *state,
                              void *work) {
    head h = head_at(s, state);
    const oc_device_ops *ops = s->device->ops;
    int64_t T = s->batch * s->seq, cols = s->model->decoder.hidden;
    uint64_t dlogits_at;
    (void)head_work(s, &dlogits_at);
    void *dlogits = (char *)work + dlogits_at;
    for (int64_t r = 0; r < chunk->rows; r += OC_HEAD_TILE) {
        int64_t n = tile_rows(chunk, r);
        oc_mat tile = tile_of(s, chunk, weights, r, n);
        tile_logits(s, &h, tile, work, n);
        ops->ce_grad(s->device, T, n, chunk->row0 + r, work, b->labels, h.lse, dscale, s->dtype,
                     dlogits);
        oc_gemm dw = {
            .a = oc_mat_of(dlogits, s->dtype, T, n, n),
            .b = xn_of(s, &h),
            .c = tile_of(s, chunk, grads, r, n),
            .trans_a = true,
        };
        ops->gemm(s->device, &dw);
        oc_gemm dx = {
            .a = oc_mat_of(dlogits, s->dtype, T, n, n),
            .b = tile,
            .c = oc_mat_of(h.dxn, OC_F32, T, cols, cols),
            .accumulate = true,
        };
        ops->gemm(s->device, &dx);
    }
    zero_padding(s, chunk, grads);
}

void oc_program_final_backward(const oc_program_shape *s, const oc_block *block,
                               const void *weights, const void *in, void *d, void *grads,
                               void *state) {
    head h = head_at(s, state);
    oc_norm n =
        norm_of(s, block, weights, OC_W_FINAL_NORM, OC_W_FINAL_NORM_BIAS, in, h.mean, h.rstd);
    n.dy = h.dxn;
    n.dy_dtype = OC_F32;
    n.dx = d;
    n.dw = grad_at(block, s->dtype, grads, OC_W_FINAL_NORM);
    n.db = grad_at(block, s->dtype, grads, OC_W_FINAL_NORM_BIAS);
    s->device->ops->norm_backward(s->device, &n);
    zero_padding(s, block, grads);
}

void oc_program_head_logits(const oc_program_shape *s, const oc_block *chunk, const void *weights,
                            const void *state, float *logits, int64_t ld) {
    head h = head_at(s, state);
    for (int64_t r = 0; r < chunk->rows; r += OC_HEAD_TILE)
        tile_logits(s, &h, tile_of(s, chunk, weights, r, tile_rows(chunk, r)), logits + r, ld);
}
