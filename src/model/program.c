/* program.c - the program of a decoder layer, forward and backward, for every placement of norms.
 */
#include "model/program_internal.h"

#include <assert.h>
#include <stddef.h>

/* A layer's save area: what its backward reads. Byte offsets. mid1 is what follows the attention
 * (x2; post: the sum that norm1 norms), mid2 what follows the mlp where a norm comes after it.
 * stats: of the norms in the order of norm_site. */
typedef enum norm_site { SITE_1, SITE_2, SITE_POST1, SITE_POST2, SITE_Q, SITE_K, SITES } norm_site;

typedef struct save_layout {
    uint64_t mean[SITES], rstd[SITES];
    uint64_t qkv, o, lse, mid1, p, mid2, u, bytes;
} save_layout;

/* A layer op's work area. One value at a time lives at its start (n1, attention's work, n2, a, da,
 * dn2), beside it at `hold` what a placement needs longer. In the attention part of the backward
 * dqkv stands at the start, do, then n1, then dn1 at `after`, attention's own work behind do. With
 * norms of q and k these are turned in a copy at `turned`, as wide as qkv. In bytes of the values:
 *
 *   bytes = max(max(a, n) + hold, turned + attention work, dqkv + turned + max(n, do + work)) */
typedef struct work_layout {
    uint64_t hold, turned, forward_attention, after, attention, bytes;
} work_layout;

/* ---- sizes --------------------------------------------------------------------------------- */

oc_widths oc_program_widths(const oc_program_shape *s) {
    const oc_decoder_spec *d = &s->model->decoder;
    oc_widths w = {
        .tokens = s->batch * s->seq,
        .hidden = d->hidden,
        .heads = (int64_t)d->heads * d->head_dim,
        .kv = (int64_t)d->kv_heads * d->head_dim,
        .qkv = ((int64_t)d->heads + 2 * (int64_t)d->kv_heads) * d->head_dim,
        .up = d->gated ? 2 * d->intermediate : d->intermediate,
        .mid = d->intermediate,
        .embed = s->model->embed_dim,
        .rms = d->norm == OC_NORM_RMS,
    };
    return w;
}

static bool has_site(const oc_decoder_spec *d, norm_site site) {
    if (site == SITE_POST1 || site == SITE_POST2) return d->placement == OC_PLACE_SANDWICH;
    if (site == SITE_Q || site == SITE_K) return d->qk_norm;
    return true;
}

static int64_t site_groups(const oc_decoder_spec *d, norm_site site) {
    return site == SITE_Q ? d->heads : site == SITE_K ? d->kv_heads : 1;
}

static save_layout save_of(const oc_program_shape *s) {
    const oc_decoder_spec *d = &s->model->decoder;
    oc_widths w = oc_program_widths(s);
    size_t e = oc_dtype_bytes(s->dtype);
    bool sandwich = d->placement == OC_PLACE_SANDWICH, post = d->placement == OC_PLACE_POST;
    bool parallel = d->placement == OC_PLACE_PARALLEL;
    int64_t T = w.tokens;
    save_layout l = {0};
    uint64_t end = 0;
    for (int i = 0; i < SITES; i++) {
        int64_t n = has_site(d, (norm_site)i) ? site_groups(d, (norm_site)i) : 0;
        l.mean[i] = oc_area(&end, w.rms ? 0 : T, n, sizeof(float));
        l.rstd[i] = oc_area(&end, T, n, sizeof(float));
    }
    l.qkv = oc_area(&end, T, w.qkv, e);
    l.o = oc_area(&end, T, w.heads, e);
    l.lse = oc_area(&end, T, d->heads, sizeof(float));
    l.p = oc_area(&end, sandwich ? T : 0, w.hidden, e);
    l.mid1 = oc_area(&end, parallel ? 0 : T, w.hidden, e);
    l.mid2 = oc_area(&end, sandwich || post ? T : 0, w.hidden, e);
    /* parallel: the backward puts the mlp's share of dx in the place of u */
    l.u = oc_area(&end, T, parallel && w.hidden > w.up ? w.hidden : w.up, e);
    l.bytes = end;
    return l;
}

static oc_attention attention_shape(const oc_program_shape *s, int32_t variant) {
    const oc_decoder_spec *d = &s->model->decoder;
    oc_widths w = oc_program_widths(s);
    oc_attention a = {
        .dtype = s->dtype,
        .batch = s->batch,
        .seq = s->seq,
        .heads = d->heads,
        .kv_heads = d->kv_heads,
        .head_dim = d->head_dim,
        .scale = d->attention_scale,
        .soft_cap = d->attention_cap,
        .window = d->variants[variant].window,
        .q_ld = w.qkv,
        .k_ld = w.qkv,
        .v_ld = w.qkv,
        .out_ld = w.heads,
    };
    return a;
}

static uint64_t attention_bytes(const oc_program_shape *s) {
    uint64_t most = 0;
    for (int32_t i = 0; i < s->model->decoder.n_variants; i++) {
        oc_attention shape = attention_shape(s, i);
        most = oc_max_u64(most, s->device->ops->attention_work_bytes(s->device, &shape));
    }
    return oc_align_up(most, OC_AREA_ALIGN);
}

static work_layout work_of(const oc_program_shape *s) {
    const oc_decoder_spec *d = &s->model->decoder;
    oc_widths w = oc_program_widths(s);
    size_t e = oc_dtype_bytes(s->dtype);
    bool hold = d->placement == OC_PLACE_SANDWICH || d->placement == OC_PLACE_POST;
    uint64_t attention = attention_bytes(s), hidden = 0, qkv = 0;
    work_layout l = {0};
    (void)oc_area(&hidden, w.tokens, w.hidden, e);
    (void)oc_area(&qkv, w.tokens, w.qkv, e);
    (void)oc_area(&l.hold, w.tokens, w.mid, e);
    l.hold = oc_max_u64(l.hold, hidden);
    l.bytes = l.hold + (hold ? hidden : 0);

    l.turned = qkv;
    l.after = l.turned + (d->qk_norm ? qkv : 0);
    l.forward_attention = d->qk_norm ? l.after : 0;
    l.attention = l.after;
    (void)oc_area(&l.attention, w.tokens, w.heads, e);
    l.bytes = oc_max_u64(l.bytes, l.forward_attention + attention);
    l.bytes = oc_max_u64(l.bytes, oc_max_u64(l.attention + attention, l.after + hidden));
    l.bytes = oc_max_u64(l.bytes, oc_program_front_work_bytes(s));
    return l;
}

uint64_t oc_program_act_bytes(const oc_program_shape *s) {
    uint64_t end = 0;
    (void)oc_area(&end, s->batch * s->seq, s->model->decoder.hidden, oc_dtype_bytes(s->dtype));
    return end;
}

uint64_t oc_program_row_bytes(const oc_program_shape *s) {
    uint64_t end = 0;
    (void)oc_area(&end, s->batch * s->seq, s->model->embed_dim, oc_dtype_bytes(s->dtype));
    return end;
}

uint64_t oc_program_save_bytes(const oc_program_shape *s) { return save_of(s).bytes; }
uint64_t oc_program_work_bytes(const oc_program_shape *s) { return work_of(s).bytes; }

/* Of the mean layer: layers of different windows cost differently. */
double oc_program_layer_flops(const oc_program_shape *s) {
    oc_widths w = oc_program_widths(s);
    const oc_decoder_spec *d = &s->model->decoder;
    double T = (double)w.tokens, h = (double)w.hidden;
    double gemms = h * (double)w.qkv + (double)w.heads * h + h * (double)w.up + (double)w.mid * h;
    double spans = 0, layers = 0;
    for (int32_t i = 0; i < d->n_variants; i++) {
        /* A token sees half of its sequence on average, or its window; scores and values: 2 each.
         */
        const oc_layer_variant *v = &d->variants[i];
        double span = (double)(s->seq + 1) / 2;
        if (v->window > 0 && (double)v->window < span) span = (double)v->window;
        spans += span * v->layers;
        layers += v->layers;
    }
    return 2 * T * gemms + 4 * T * spans / layers * (double)w.heads;
}

/* Values a weight of the block holds, its rows x cols as the spec has them. */
static int64_t weight_elements(const oc_program_shape *s, const oc_block *block, oc_weight k) {
    const oc_decoder_spec *d = &s->model->decoder;
    oc_widths w = oc_program_widths(s);
    switch (k) {
    case OC_W_NORM1:
    case OC_W_NORM1_BIAS:
    case OC_W_NORM2:
    case OC_W_NORM2_BIAS:
    case OC_W_POST1:
    case OC_W_POST2:
    case OC_W_FINAL_NORM:
    case OC_W_FINAL_NORM_BIAS:
    case OC_W_OUT_BIAS:
    case OC_W_DOWN_BIAS:
        return d->hidden;
    case OC_W_EMBED_NORM:
    case OC_W_EMBED_NORM_BIAS:
        return w.embed;
    case OC_W_PROJECT_IN:
    case OC_W_PROJECT_OUT:
        return w.embed * d->hidden;
    case OC_W_QNORM:
    case OC_W_KNORM:
        return d->head_dim;
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
        return block->rows * (block->kind == OC_BLOCK_POSITION ? d->hidden : w.embed);
    case OC_W_COUNT:
        break;
    }
    return 0;
}

/* The place of a weight that norms do not have: padding. */
static bool is_bare(const oc_program_shape *s, oc_weight k) {
    bool norm = k == OC_W_NORM1 || k == OC_W_NORM2 || k == OC_W_FINAL_NORM;
    return norm && s->model->decoder.norm_bare;
}

void oc_program_zero_padding(const oc_program_shape *s, const oc_block *block, void *grads) {
    size_t e = oc_dtype_bytes(s->dtype);
    uint64_t at = 0;
    while (at < block->elements) {
        int next = -1;
        for (int k = 0; k < OC_W_COUNT; k++) {
            int64_t o = block->offset[k];
            if (o < 0 || (uint64_t)o < at || is_bare(s, (oc_weight)k)) continue;
            if (next < 0 || o < block->offset[next]) next = k;
        }
        uint64_t start = next < 0 ? block->elements : (uint64_t)block->offset[next];
        if (start > at) s->device->ops->zero(s->device, (char *)grads + at * e, (start - at) * e);
        at = start;
        if (next >= 0) at += (uint64_t)weight_elements(s, block, (oc_weight)next);
    }
    assert(at == block->elements);
}

/* ---- one call on one layer ----------------------------------------------------------------- */

typedef struct layer {
    const oc_program_shape *s;
    const oc_decoder_spec *d;
    const oc_layer_variant *v;
    const oc_block *block;
    oc_device *dev;
    const oc_device_ops *ops;
    oc_widths w;
    oc_dtype t;
    const char *weights;
    char *grads, *save, *work;
    const float *inv_freq;
    const oc_program_batch *batch;
    save_layout sl;
    work_layout wl;
    float *lse;
    char *qkv, *o, *p, *mid1, *mid2, *u;
} layer;

static layer layer_of(const oc_program_shape *s, const oc_block *block, const void *weights,
                      const float *inv_freq, const oc_program_batch *b, void *save, void *work) {
    save_layout l = save_of(s);
    char *at = save;
    layer c = {
        .s = s,
        .d = &s->model->decoder,
        .v = &s->model->decoder.variants[block->variant],
        .block = block,
        .dev = s->device,
        .ops = s->device->ops,
        .w = oc_program_widths(s),
        .t = s->dtype,
        .weights = weights,
        .save = save,
        .work = work,
        .inv_freq = inv_freq,
        .batch = b,
        .sl = l,
        .wl = work_of(s),
        .lse = (void *)(at + l.lse),
        .qkv = at + l.qkv,
        .o = at + l.o,
        .p = at + l.p,
        .mid1 = at + l.mid1,
        .mid2 = at + l.mid2,
        .u = at + l.u,
    };
    return c;
}

/* y[T, out] = x[T, in] W[out, in]^T (+ bias) (+ residual) */
static void linear(const layer *c, const void *x, int64_t in, oc_weight k, oc_weight bias,
                   const void *residual, void *y, int64_t out) {
    oc_gemm g = {
        .a = oc_mat_of(x, c->t, c->w.tokens, in, in),
        .b = oc_mat_of(oc_weight_at(c->block, c->t, c->weights, k), c->t, out, in, in),
        .c = oc_mat_of(y, c->t, c->w.tokens, out, out),
        .trans_b = true,
        .bias = oc_weight_at(c->block, c->t, c->weights, bias),
        .bias_dtype = c->t,
        .residual = residual,
    };
    c->ops->gemm(c->dev, &g);
}

/* dx[T, in] = dy[T, out] W[out, in] (+ residual) */
static void linear_dx(const layer *c, const void *dy, int64_t out, oc_weight k,
                      const void *residual, void *dx, int64_t in) {
    oc_gemm g = {
        .a = oc_mat_of(dy, c->t, c->w.tokens, out, out),
        .b = oc_mat_of(oc_weight_at(c->block, c->t, c->weights, k), c->t, out, in, in),
        .c = oc_mat_of(dx, c->t, c->w.tokens, in, in),
        .residual = residual,
    };
    c->ops->gemm(c->dev, &g);
}

/* dW[out, in] = dy[T, out]^T x[T, in]; db[out] = sum of dy over T */
static void linear_dw(const layer *c, const void *dy, int64_t out, const void *x, int64_t in,
                      oc_weight k, oc_weight bias) {
    oc_gemm g = {
        .a = oc_mat_of(dy, c->t, c->w.tokens, out, out),
        .b = oc_mat_of(x, c->t, c->w.tokens, in, in),
        .c = oc_mat_of(oc_weight_at(c->block, c->t, c->grads, k), c->t, out, in, in),
        .trans_a = true,
    };
    c->ops->gemm(c->dev, &g);
    void *db = oc_weight_at(c->block, c->t, c->grads, bias);
    if (db) c->ops->bias_grad(c->dev, c->t, c->w.tokens, out, dy, out, db);
}

/* ---- norms --------------------------------------------------------------------------------- */

oc_norm oc_program_norm(const oc_program_shape *s, const oc_block *block, const void *weights,
                        oc_weight k, oc_weight bias, int64_t cols, const void *x, float *mean,
                        float *rstd) {
    const oc_decoder_spec *d = &s->model->decoder;
    bool rms = d->norm == OC_NORM_RMS;
    oc_norm n = {
        .dtype = s->dtype,
        .rows = s->batch * s->seq,
        .cols = cols,
        .rms = rms,
        .plus_one = d->norm_plus_one,
        .eps = d->norm_eps,
        .x = x,
        .w = oc_weight_at(block, s->dtype, weights, k),
        .b = rms ? NULL : oc_weight_at(block, s->dtype, weights, bias),
        .mean = rms ? NULL : mean,
        .rstd = rstd,
    };
    return n;
}

static const oc_weight site_weights[SITES] = {OC_W_NORM1, OC_W_NORM2, OC_W_POST1,
                                              OC_W_POST2, OC_W_QNORM, OC_W_KNORM};

/* Only layer norms have a bias, and only they stand at the first two sites. */
static oc_weight site_bias(norm_site site) {
    return site == SITE_1 ? OC_W_NORM1_BIAS : OC_W_NORM2_BIAS;
}

static oc_norm norm_at(const layer *c, norm_site site, const void *x) {
    bool head = site == SITE_Q || site == SITE_K;
    oc_norm n =
        oc_program_norm(c->s, c->block, c->weights, site_weights[site], site_bias(site),
                        head ? c->d->head_dim : c->w.hidden, x,
                        (void *)(c->save + c->sl.mean[site]), (void *)(c->save + c->sl.rstd[site]));
    if (head) {
        n.groups = site_groups(c->d, site);
        n.ld = c->w.qkv;
    }
    return n;
}

static void norm_forward(const layer *c, norm_site site, const void *x, void *y) {
    oc_norm n = norm_at(c, site, x);
    n.y = y;
    c->ops->norm_forward(c->dev, &n);
}

/* dx = gradient through the norm of x (+ add) */
static void norm_backward(const layer *c, norm_site site, const void *x, const void *dy,
                          const void *add, void *dx) {
    oc_norm n = norm_at(c, site, x);
    n.dy = dy;
    n.dy_dtype = c->t;
    n.add = add;
    n.dx = dx;
    n.dw = oc_weight_at(c->block, c->t, c->grads, site_weights[site]);
    n.db = n.rms ? NULL : oc_weight_at(c->block, c->t, c->grads, site_bias(site));
    c->ops->norm_backward(c->dev, &n);
}

/* ---- attention ----------------------------------------------------------------------------- */

/* Turn the q and k parts of [T, qkv], which stand side by side: they are heads alike. */
static void rope(const layer *c, void *qkv, bool inverse) {
    if (c->d->position != OC_POS_ROPE) return;
    oc_rope r = {
        .dtype = c->t,
        .rows = c->w.tokens,
        .heads = c->d->heads + c->d->kv_heads,
        .head_dim = c->d->head_dim,
        .rot_dim = c->d->rot_dim,
        .inverse = inverse,
        .positions = c->batch->positions,
        .inv_freq = c->inv_freq + c->v->rope * (c->d->rot_dim / 2),
        .scaling = c->v->rope_scaling,
        .x = qkv,
        .ld = c->w.qkv,
    };
    c->ops->rope(c->dev, &r);
}

static char *k_of(const layer *c, char *qkv) {
    return qkv + (size_t)c->w.heads * oc_dtype_bytes(c->t);
}

static char *v_of(const layer *c, char *qkv) {
    return qkv + (size_t)(c->w.heads + c->w.kv) * oc_dtype_bytes(c->t);
}

/* q and k as attention reads them: turned where they stand, or normed and turned in a copy. */
static char *turn(const layer *c) {
    char *turned = c->work + c->wl.turned;
    if (!c->d->qk_norm) return c->qkv;
    norm_forward(c, SITE_Q, c->qkv, turned);
    norm_forward(c, SITE_K, k_of(c, c->qkv), k_of(c, turned));
    rope(c, turned, false);
    return turned;
}

static oc_attention attention_of(const layer *c, char *turned) {
    oc_attention a = attention_shape(c->s, c->block->variant);
    if (c->d->position == OC_POS_ALIBI) a.slopes = c->inv_freq;
    a.doc_start = c->batch->doc_start;
    a.q = turned;
    a.k = k_of(c, turned);
    a.v = v_of(c, c->qkv);
    a.out = c->o;
    a.lse = c->lse;
    return a;
}

/* qkv, o and lse from what the attention reads. */
static void attend(const layer *c, const void *x) {
    linear(c, x, c->w.hidden, OC_W_QKV, OC_W_QKV_BIAS, NULL, c->qkv, c->w.qkv);
    if (!c->d->qk_norm) rope(c, c->qkv, false);
    oc_attention a = attention_of(c, turn(c));
    a.work = c->work + c->wl.forward_attention;
    c->ops->attention_forward(c->dev, &a);
}

/* dqkv from the gradient of o, which stands at `after`; returns its place. Gradients of normed q
 * and k go back through their norms into the copy, which is read no longer; dv went there at once.
 */
static char *attend_backward(const layer *c) {
    char *dqkv = c->work, *turned = turn(c);
    bool normed = c->d->qk_norm;
    char *out = normed ? turned : dqkv;
    oc_attention a = attention_of(c, turned);
    a.dout = c->work + c->wl.after;
    a.dq = dqkv;
    a.dk = k_of(c, dqkv);
    a.dv = v_of(c, out);
    a.work = c->work + c->wl.attention;
    c->ops->attention_backward(c->dev, &a);
    rope(c, dqkv, true);
    if (!normed) return dqkv;
    norm_backward(c, SITE_Q, c->qkv, dqkv, NULL, turned);
    norm_backward(c, SITE_K, k_of(c, c->qkv), k_of(c, dqkv), NULL, k_of(c, turned));
    return turned;
}

/* ---- forward ------------------------------------------------------------------------------- */

static void activate(const layer *c, void *a) {
    c->ops->act_forward(c->dev, c->d->act, c->d->gated, c->t, c->w.tokens, c->w.mid, c->u, a);
}

static void up(const layer *c, const void *x) {
    linear(c, x, c->w.hidden, OC_W_UP, OC_W_UP_BIAS, NULL, c->u, c->w.up);
}

static void down(const layer *c, const void *residual, void *y) {
    activate(c, c->work);
    linear(c, c->work, c->w.mid, OC_W_DOWN, OC_W_DOWN_BIAS, residual, y, c->w.hidden);
}

/* y = a + b */
static void add(const layer *c, const void *a, const void *b, void *y) {
    c->ops->scale_add(c->dev, c->t, c->w.tokens * c->w.hidden, a, 1.0f, b, y);
}

/* out NULL: only what is saved. */
static void forward_pre(const layer *c, const void *in, void *out) {
    char *first = c->work;
    norm_forward(c, SITE_1, in, first);
    attend(c, first);
    linear(c, c->o, c->w.heads, OC_W_OUT, OC_W_OUT_BIAS, in, c->mid1, c->w.hidden);
    norm_forward(c, SITE_2, c->mid1, first);
    up(c, first);
    if (out) down(c, c->mid1, out);
}

static void forward_parallel(const layer *c, const void *in, void *out) {
    char *first = c->work;
    norm_forward(c, SITE_1, in, first);
    attend(c, first);
    norm_forward(c, SITE_2, in, first);
    up(c, first);
    if (!out) return;
    linear(c, c->o, c->w.heads, OC_W_OUT, OC_W_OUT_BIAS, in, out, c->w.hidden);
    down(c, out, out);
}

static void forward_post(const layer *c, const void *in, void *out) {
    char *x2 = c->work + c->wl.hold;
    attend(c, in);
    linear(c, c->o, c->w.heads, OC_W_OUT, OC_W_OUT_BIAS, in, c->mid1, c->w.hidden);
    norm_forward(c, SITE_1, c->mid1, x2);
    up(c, x2);
    down(c, x2, c->mid2);
    norm_forward(c, SITE_2, c->mid2, out ? out : c->work);
}

static void forward_sandwich(const layer *c, const void *in, void *out) {
    char *first = c->work;
    norm_forward(c, SITE_1, in, first);
    attend(c, first);
    linear(c, c->o, c->w.heads, OC_W_OUT, OC_W_OUT_BIAS, NULL, c->p, c->w.hidden);
    norm_forward(c, SITE_POST1, c->p, first);
    add(c, in, first, c->mid1);
    norm_forward(c, SITE_2, c->mid1, first);
    up(c, first);
    down(c, NULL, c->mid2);
    norm_forward(c, SITE_POST2, c->mid2, first);
    if (out) add(c, c->mid1, first, out);
}

typedef void forward_fn(const layer *c, const void *in, void *out);
static forward_fn *const forwards[] = {
    [OC_PLACE_PRE] = forward_pre,
    [OC_PLACE_POST] = forward_post,
    [OC_PLACE_SANDWICH] = forward_sandwich,
    [OC_PLACE_PARALLEL] = forward_parallel,
};

void oc_program_layer_forward(const oc_program_shape *s, const oc_block *block, const void *weights,
                              const float *inv_freq, const oc_program_batch *b, const void *in,
                              void *out, void *save, void *work) {
    layer c = layer_of(s, block, weights, inv_freq, b, save, work);
    forwards[c.d->placement](&c, in, out);
}

/* ---- backward ------------------------------------------------------------------------------ */

/* du, in the place of u, from dy: the gradient of the mlp's output. */
static void down_backward(const layer *c, const void *dy) {
    char *first = c->work;
    activate(c, first);
    linear_dw(c, dy, c->w.hidden, first, c->w.mid, OC_W_DOWN, OC_W_DOWN_BIAS);
    linear_dx(c, dy, c->w.hidden, OC_W_DOWN, NULL, first, c->w.mid);
    c->ops->act_backward(c->dev, c->d->act, c->d->gated, c->t, c->w.tokens, c->w.mid, c->u, first,
                         c->u);
}

/* The mlp behind norm2 of x: dx = gradient through both of dy (+ add). */
static void mlp_backward(const layer *c, const void *dy, const void *x, const void *add_to,
                         void *dx) {
    char *first = c->work;
    down_backward(c, dy);
    norm_forward(c, SITE_2, x, first);
    linear_dw(c, c->u, c->w.up, first, c->w.hidden, OC_W_UP, OC_W_UP_BIAS);
    linear_dx(c, c->u, c->w.up, OC_W_UP, NULL, first, c->w.hidden);
    norm_backward(c, SITE_2, x, first, add_to, dx);
}

/* do, at `after`, from dy: the gradient of the attention's output. */
static void out_backward(const layer *c, const void *dy) {
    linear_dw(c, dy, c->w.hidden, c->o, c->w.heads, OC_W_OUT, OC_W_OUT_BIAS);
    linear_dx(c, dy, c->w.hidden, OC_W_OUT, NULL, c->work + c->wl.after, c->w.heads);
}

/* The attention behind norm1 of in: d += gradient through both of do, which stands at `after`. */
static void attention_backward(const layer *c, const void *in, void *d) {
    char *after = c->work + c->wl.after;
    const char *dqkv = attend_backward(c);
    norm_forward(c, SITE_1, in, after);
    linear_dw(c, dqkv, c->w.qkv, after, c->w.hidden, OC_W_QKV, OC_W_QKV_BIAS);
    linear_dx(c, dqkv, c->w.qkv, OC_W_QKV, NULL, after, c->w.hidden);
    norm_backward(c, SITE_1, in, after, d, d);
}

static void backward_pre(const layer *c, const void *in, void *d) {
    mlp_backward(c, d, c->mid1, d, d);
    out_backward(c, d);
    attention_backward(c, in, d);
}

/* d feeds both halves: the mlp's share waits in the place of u. */
static void backward_parallel(const layer *c, const void *in, void *d) {
    mlp_backward(c, d, in, NULL, c->u);
    out_backward(c, d);
    add(c, d, c->u, d);
    attention_backward(c, in, d);
}

/* Through the norm at a site in place: d = its dx. */
static void norm_backward_in_place(const layer *c, norm_site site, const void *x, void *d) {
    norm_backward(c, site, x, d, NULL, c->work);
    c->ops->copy(c->dev, d, c->work, (uint64_t)(c->w.tokens * c->w.hidden) * oc_dtype_bytes(c->t));
}

static void backward_post(const layer *c, const void *in, void *d) {
    char *first = c->work;
    norm_backward_in_place(c, SITE_2, c->mid2, d);
    down_backward(c, d);
    norm_forward(c, SITE_1, c->mid1, first);
    linear_dw(c, c->u, c->w.up, first, c->w.hidden, OC_W_UP, OC_W_UP_BIAS);
    linear_dx(c, c->u, c->w.up, OC_W_UP, d, d, c->w.hidden);
    norm_backward_in_place(c, SITE_1, c->mid1, d);
    out_backward(c, d);
    const char *dqkv = attend_backward(c);
    linear_dw(c, dqkv, c->w.qkv, in, c->w.hidden, OC_W_QKV, OC_W_QKV_BIAS);
    linear_dx(c, dqkv, c->w.qkv, OC_W_QKV, d, d, c->w.hidden);
}

static void backward_sandwich(const layer *c, const void *in, void *d) {
    char *hold = c->work + c->wl.hold;
    norm_backward(c, SITE_POST2, c->mid2, d, NULL, hold);
    mlp_backward(c, hold, c->mid1, d, d);
    norm_backward(c, SITE_POST1, c->p, d, NULL, c->mid2); /* mid2 has done its work */
    out_backward(c, c->mid2);
    attention_backward(c, in, d);
}

typedef void backward_fn(const layer *c, const void *in, void *d);
static backward_fn *const backwards[] = {
    [OC_PLACE_PRE] = backward_pre,
    [OC_PLACE_POST] = backward_post,
    [OC_PLACE_SANDWICH] = backward_sandwich,
    [OC_PLACE_PARALLEL] = backward_parallel,
};

void oc_program_layer_backward(const oc_program_shape *s, const oc_block *block,
                               const void *weights, const float *inv_freq,
                               const oc_program_batch *b, const void *in, void *d, void *grads,
                               void *save, bool recompute, void *work) {
    layer c = layer_of(s, block, weights, inv_freq, b, save, work);
    c.grads = grads;
    if (recompute) forwards[c.d->placement](&c, in, NULL);
    backwards[c.d->placement](&c, in, d);
    oc_program_zero_padding(s, block, grads);
}
