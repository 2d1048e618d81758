/* program.c - the parts of a decoder layer's forward, for every placement of norms. */
#include "model/program_internal.h"

#include <stddef.h>

/* ---- one call on one layer ----------------------------------------------------------------- */

static void *value_at(const oc_layer_call *call, oc_saved v, uint64_t offset) {
    char *place = call->saved[v];
    return place ? place + offset : NULL;
}

oc_layer oc_layer_of(const oc_layer_call *call, oc_work_layout work) {
    const oc_program_shape *s = call->shape;
    oc_saved_layout l = oc_program_saved_layout(s);
    oc_layer c = {
        .call = call,
        .s = s,
        .d = &s->model->decoder,
        .v = &s->model->decoder.variants[call->block->variant],
        .block = call->block,
        .dev = s->device,
        .ops = s->device->ops,
        .w = oc_program_widths(s),
        .t = s->dtype,
        .sl = l,
        .wl = work,
        .work = call->work,
        .qkv = value_at(call, OC_SAVED_QKV, 0),
        .o = value_at(call, OC_SAVED_ATTENTION, 0),
        .lse = value_at(call, OC_SAVED_ATTENTION, l.lse),
        .mid = value_at(call, OC_SAVED_MID, 0),
        .p = value_at(call, OC_SAVED_MID, l.p),
        .u = value_at(call, OC_SAVED_UP, 0),
        .m = value_at(call, OC_SAVED_MLP, 0),
    };
    c.rows = c.w.tokens;
    return c;
}

oc_layer oc_layer_tile(const oc_layer *c, int64_t first) {
    oc_layer tile = *c;
    int64_t left = c->w.tokens - first;
    tile.first = first;
    tile.rows = left < c->w.tile ? left : c->w.tile;
    return tile;
}

void oc_layer_linear(const oc_layer *c, const void *x, int64_t in, oc_weight k, oc_weight bias,
                     const void *residual, void *y, int64_t out) {
    const void *weights = c->call->weights;
    oc_gemm g = {
        .a = oc_mat_of(x, c->t, c->rows, in, in),
        .b = oc_mat_of(oc_weight_at(c->block, c->t, weights, k), c->t, out, in, in),
        .c = oc_mat_of(y, c->t, c->rows, out, out),
        .trans_b = true,
        .bias = oc_weight_at(c->block, c->t, weights, bias),
        .bias_dtype = c->t,
        .residual = residual,
        .kernel = c->s->products,
    };
    c->ops->gemm(c->dev, &g);
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

oc_weight oc_site_weight(oc_site site) {
    static const oc_weight weights[OC_SITES] = {OC_W_NORM1, OC_W_NORM2, OC_W_POST1,
                                                OC_W_POST2, OC_W_QNORM, OC_W_KNORM};
    return weights[site];
}

/* Only layer norms have a bias, and only they stand at the first two sites. */
oc_weight oc_site_bias(oc_site site) {
    return site == OC_SITE_1 ? OC_W_NORM1_BIAS : OC_W_NORM2_BIAS;
}

/* Statistics stand with the value that the norm reads when the backward norms it from there only;
 * else in the work area, which is as long as the rows at hand. */
static void statistics_at(const oc_layer *c, oc_site site, float **mean, float **rstd) {
    char *value = site == OC_SITE_POST1 ? c->mid : site == oc_site_after_mlp(c->d) ? c->m : NULL;
    bool p = site == OC_SITE_POST1;
    char *base = value ? value : c->work;
    uint64_t mean_at = !value ? c->wl.mean[site] : p ? c->sl.p_mean : c->sl.m_mean;
    uint64_t rstd_at = !value ? c->wl.rstd[site] : p ? c->sl.p_rstd : c->sl.m_rstd;
    *mean = (float *)(void *)(base + mean_at) + (value ? c->first : 0);
    *rstd = (float *)(void *)(base + rstd_at) + (value ? c->first : 0);
}

oc_norm oc_layer_norm(const oc_layer *c, oc_site site, const void *x) {
    bool head = site == OC_SITE_Q || site == OC_SITE_K;
    float *mean, *rstd;
    statistics_at(c, site, &mean, &rstd);
    oc_norm n =
        oc_program_norm(c->s, c->block, c->call->weights, oc_site_weight(site), oc_site_bias(site),
                        head ? c->d->head_dim : c->w.hidden, x, mean, rstd);
    n.rows = c->rows;
    if (head) {
        n.groups = oc_site_groups(c->d, site);
        n.ld = c->w.qkv;
    }
    return n;
}

void oc_layer_norm_forward(const oc_layer *c, oc_site site, const void *x, void *y) {
    oc_norm n = oc_layer_norm(c, site, x);
    n.y = y;
    c->ops->norm_forward(c->dev, &n);
}

/* ---- attention ----------------------------------------------------------------------------- */

/* Turn the q and k parts of [T, qkv], which stand side by side: they are heads alike. */
void oc_layer_rope(const oc_layer *c, void *qkv, bool inverse) {
    if (c->d->position != OC_POS_ROPE) return;
    oc_rope r = {
        .dtype = c->t,
        .rows = c->w.tokens,
        .heads = c->d->heads + c->d->kv_heads,
        .head_dim = c->d->head_dim,
        .rot_dim = c->d->rot_dim,
        .inverse = inverse,
        .positions = c->call->batch->positions,
        .inv_freq = c->call->inv_freq + c->v->rope * (c->d->rot_dim / 2),
        .scaling = c->v->rope_scaling,
        .x = qkv,
        .ld = c->w.qkv,
    };
    c->ops->rope(c->dev, &r);
}

char *oc_layer_k(const oc_layer *c, char *qkv) {
    return qkv + (size_t)c->w.heads * oc_dtype_bytes(c->t);
}

static char *v_of(const oc_layer *c, char *qkv) {
    return qkv + (size_t)(c->w.heads + c->w.kv) * oc_dtype_bytes(c->t);
}

char *oc_layer_turn(const oc_layer *c) {
    char *turned = c->work + c->wl.turned;
    if (!c->d->qk_norm) return c->qkv;
    oc_layer_norm_forward(c, OC_SITE_Q, c->qkv, turned);
    oc_layer_norm_forward(c, OC_SITE_K, oc_layer_k(c, c->qkv), oc_layer_k(c, turned));
    oc_layer_rope(c, turned, false);
    return turned;
}

oc_attention oc_layer_attention(const oc_layer *c, char *turned) {
    oc_attention a = oc_program_attention(c->s, c->block->variant);
    if (c->d->position == OC_POS_ALIBI) a.slopes = c->call->inv_freq;
    a.doc_start = c->call->batch->doc_start;
    a.q = turned;
    a.k = oc_layer_k(c, turned);
    a.v = v_of(c, c->qkv);
    a.out = c->o;
    a.lse = c->lse;
    a.work = c->work + c->wl.attention;
    return a;
}

/* ---- parts --------------------------------------------------------------------------------- */

static void part_in(const oc_layer *c, const void *in) {
    const void *x = in;
    if (!oc_is_post(c->d)) {
        x = c->work + c->wl.n;
        oc_layer_norm_forward(c, OC_SITE_1, in, c->work + c->wl.n);
    }
    oc_layer_linear(c, x, c->w.hidden, OC_W_QKV, OC_W_QKV_BIAS, NULL, c->qkv, c->w.qkv);
    if (!c->d->qk_norm) oc_layer_rope(c, c->qkv, false);
}

static void part_attention(const oc_layer *c) {
    oc_attention a = oc_layer_attention(c, oc_layer_turn(c));
    c->ops->attention_forward(c->dev, &a);
}

/* y = a + b, the rows at hand */
static void add(const oc_layer *c, const void *a, const void *b, void *y) {
    c->ops->scale_add(c->dev, c->t, c->rows * c->w.hidden, a, 1.0f, b, y);
}

static void part_out(const oc_layer *c, const void *in) {
    bool normed = oc_is_sandwich(c->d);
    char *n = c->work + c->wl.n;
    oc_layer_linear(c, c->o, c->w.heads, OC_W_OUT, OC_W_OUT_BIAS, normed ? NULL : in,
                    normed ? c->p : c->mid, c->w.hidden);
    if (!normed) return;
    oc_layer_norm_forward(c, OC_SITE_POST1, c->p, n);
    add(c, in, n, c->mid);
}

void oc_layer_up(const oc_layer *c, const void *n, void *u) {
    oc_layer_linear(c, n, c->w.hidden, OC_W_UP, OC_W_UP_BIAS, NULL, u, c->w.up);
}

void oc_layer_activate(const oc_layer *c, const void *u, void *a) {
    c->ops->act_forward(c->dev, c->d->act, c->d->gated, c->t, c->rows, c->w.mid, u, a);
}

static void down(const oc_layer *c, const void *u, const void *residual, void *y) {
    char *a = c->work + c->wl.a;
    oc_layer_activate(c, u, a);
    oc_layer_linear(c, a, c->w.mid, OC_W_DOWN, OC_W_DOWN_BIAS, residual, y, c->w.hidden);
}

/* What comes behind u, at the rows at hand; n: what the norm before the mlp made. */
static void behind_up(const oc_layer *c, const void *u, char *n, void *out) {
    char *mid = oc_layer_rows(c, c->mid, c->w.hidden), *m = oc_layer_rows(c, c->m, c->w.hidden);
    if (!m) m = c->work + c->wl.m;
    switch (c->d->placement) {
    case OC_PLACE_PRE:
    case OC_PLACE_PARALLEL:
        if (out) down(c, u, mid, out);
        break;
    case OC_PLACE_POST:
        down(c, u, n, m);
        oc_layer_norm_forward(c, OC_SITE_2, m, out ? out : n);
        break;
    case OC_PLACE_SANDWICH:
        down(c, u, NULL, m);
        oc_layer_norm_forward(c, OC_SITE_POST2, m, n);
        if (out) add(c, mid, n, out);
        break;
    }
}

static void part_mlp(const oc_layer *whole, const void *in, void *out) {
    const void *from = oc_is_parallel(whole->d) ? in : whole->mid;
    for (int64_t t = 0; t < whole->w.tokens; t += whole->w.tile) {
        oc_layer c = oc_layer_tile(whole, t);
        char *n = c.work + c.wl.n, *u = oc_layer_rows(&c, c.u, c.w.up);
        if (!u) u = c.work + c.wl.u;
        oc_layer_norm_forward(&c, oc_is_post(c.d) ? OC_SITE_1 : OC_SITE_2,
                              oc_layer_rows(&c, from, c.w.hidden), n);
        oc_layer_up(&c, n, u);
        behind_up(&c, u, n, oc_layer_rows(&c, out, c.w.hidden));
    }
}

void oc_program_part_forward(const oc_layer_call *call, oc_part p, const void *in, void *out) {
    oc_layer c = oc_layer_of(call, oc_program_part_work(call->shape, p));
    switch (p) {
    case OC_PART_IN:
        part_in(&c, in);
        break;
    case OC_PART_ATTENTION:
        part_attention(&c);
        break;
    case OC_PART_OUT:
        part_out(&c, in);
        break;
    case OC_PART_MLP:
        part_mlp(&c, in, out);
        break;
    case OC_PART_COUNT:
        break;
    }
}
