/* program_backward.c - the backward of a decoder layer, for every placement of norms.
 *
 * The mlp's half goes tile by tile between two norms over all rows: what the norm before the mlp
 * makes is put down first, and each tile puts the gradient of its rows in their place. */
#include "model/program_internal.h"

#include <stddef.h>

/* ---- products ------------------------------------------------------------------------------ */

/* dx[rows, in] = dy[rows, out] W[out, in] (+ residual) */
static void linear_dx(const oc_layer *c, const void *dy, int64_t out, oc_weight k,
                      const void *residual, void *dx, int64_t in) {
    oc_gemm g = {
        .a = oc_mat_of(dy, c->t, c->rows, out, out),
        .b = oc_mat_of(oc_weight_at(c->block, c->t, c->call->weights, k), c->t, out, in, in),
        .c = oc_mat_of(dx, c->t, c->rows, in, in),
        .residual = residual,
    };
    c->ops->gemm(c->dev, &g);
}

static void bias_gradient(const oc_layer *c, oc_weight bias, const void *dy, int64_t out) {
    void *db = oc_weight_at(c->block, c->t, c->grads, bias);
    if (db) c->ops->bias_grad(c->dev, c->t, c->rows, out, dy, out, db);
}

/* to[out, in] (+)= dy[rows, out]^T x[rows, in] */
static void product(const oc_layer *c, const void *dy, int64_t out, const void *x, int64_t in,
                    void *to, oc_dtype t, bool accumulate) {
    oc_gemm g = {
        .a = oc_mat_of(dy, c->t, c->rows, out, out),
        .b = oc_mat_of(x, c->t, c->rows, in, in),
        .c = oc_mat_of(to, t, out, in, in),
        .trans_a = true,
        .accumulate = accumulate,
    };
    c->ops->gemm(c->dev, &g);
}

/* dW[out, in] = dy[T, out]^T x[T, in]; db[out] = sum of dy over T */
static void linear_dw(const oc_layer *c, const void *dy, int64_t out, const void *x, int64_t in,
                      oc_weight k, oc_weight bias) {
    if (!c->grads) return;
    product(c, dy, out, x, in, oc_weight_at(c->block, c->t, c->grads, k), c->t, false);
    bias_gradient(c, bias, dy, out);
}

/* ---- sums over tiles ----------------------------------------------------------------------- */

static bool tiled(const oc_layer *c) { return c->w.tile < c->w.tokens; }

/* Where a gradient is summed: in its own place when one tile is all, or that is fp32. */
static void *sum_at(const oc_layer *c, oc_weight k, uint64_t apart) {
    if (tiled(c) && c->t != OC_F32) return c->work + apart;
    return oc_weight_at(c->block, c->t, c->grads, k);
}

/* The tile's share of dW. */
static void tile_dw(const oc_layer *c, const void *dy, int64_t out, const void *x, int64_t in,
                    oc_weight k, uint64_t apart) {
    if (!c->grads) return;
    product(c, dy, out, x, in, sum_at(c, k, apart), tiled(c) ? OC_F32 : c->t, c->first > 0);
}

/* Rows of du in fp32 that the place of a takes. */
static int64_t wide_rows(const oc_layer *c) {
    int64_t e = (int64_t)oc_dtype_bytes(c->t), tile = c->w.tile < 4 ? 4 : c->w.tile;
    return tile * c->w.mid * e / (4 * c->w.up);
}

/* sum (+)= the sum of n rows of du, which are widened first, so that it is rounded once. */
static void add_up_bias(const oc_layer *c, const char *du, int64_t n, void *sum, bool first) {
    int64_t cols = c->w.up;
    char *wide = c->work + c->wl.a, *share = first ? sum : c->work + c->wl.tile_bias;
    c->ops->fold(c->dev, n * cols, du, c->t, wide, OC_F32, true, NULL);
    c->ops->bias_grad(c->dev, OC_F32, n, cols, wide, cols, share);
    if (!first) c->ops->fold(c->dev, cols, share, OC_F32, sum, OC_F32, false, NULL);
}

/* The tile's share of the up bias; a has done its work. */
static void tile_up_bias(const oc_layer *c, const char *du) {
    int64_t row = c->w.up * (int64_t)oc_dtype_bytes(c->t), step = wide_rows(c);
    if (!oc_weight_at(c->block, c->t, c->grads, OC_W_UP_BIAS)) return;
    if (!tiled(c)) {
        bias_gradient(c, OC_W_UP_BIAS, du, c->w.up);
        return;
    }
    void *sum = sum_at(c, OC_W_UP_BIAS, c->wl.sum_bias);
    for (int64_t r = 0; r < c->rows; r += step)
        add_up_bias(c, du + r * row, c->rows - r < step ? c->rows - r : step, sum,
                    c->first + r == 0);
}

/* A sum over tiles becomes the gradient, rounded once. */
static void settle(const oc_layer *c, oc_weight k, uint64_t apart, int64_t elements) {
    void *to = oc_weight_at(c->block, c->t, c->grads, k);
    if (!to || !tiled(c) || c->t == OC_F32) return;
    c->ops->fold(c->dev, elements, c->work + apart, OC_F32, to, c->t, true, NULL);
}

/* ---- norms --------------------------------------------------------------------------------- */

/* dx = gradient through the norm of x (+ add) */
static void norm_backward(const oc_layer *c, oc_site site, const void *x, const void *dy,
                          const void *add, void *dx) {
    oc_norm n = oc_layer_norm(c, site, x);
    n.dy = dy;
    n.dy_dtype = c->t;
    n.add = add;
    n.dx = dx;
    n.dw = oc_weight_at(c->block, c->t, c->grads, oc_site_weight(site));
    n.db = n.rms ? NULL : oc_weight_at(c->block, c->t, c->grads, oc_site_bias(site));
    c->ops->norm_backward(c->dev, &n);
}

/* ---- the mlp ------------------------------------------------------------------------------- */

/* A tile: dn = gradient of n (+ residual), from dy, the gradient of the mlp's output. du takes the
 * place of u. dn may be n. */
static void mlp_tile(const oc_layer *c, const void *dy, const char *n, const void *residual,
                     char *dn) {
    char *u = oc_layer_rows(c, c->u, c->w.up), *a = c->work + c->wl.a;
    if (!u) oc_layer_up(c, n, u = c->work + c->wl.u);
    if (c->grads) oc_layer_activate(c, u, a);
    tile_dw(c, dy, c->w.hidden, a, c->w.mid, OC_W_DOWN, c->wl.sum_down);
    linear_dx(c, dy, c->w.hidden, OC_W_DOWN, NULL, a, c->w.mid);
    c->ops->act_backward(c->dev, c->d->act, c->d->gated, c->t, c->rows, c->w.mid, u, a, u);
    tile_dw(c, u, c->w.up, n, c->w.hidden, OC_W_UP, c->wl.sum_up);
    tile_up_bias(c, u);
    linear_dx(c, u, c->w.up, OC_W_UP, residual, dn, c->w.hidden);
}

/* All of them. n: what the norm made; dn: n, or dy, whose rows then stay and get their share. */
static void mlp_backward(const oc_layer *whole, const void *dy, void *n, void *dn) {
    int64_t cols = whole->w.hidden;
    bias_gradient(whole, OC_W_DOWN_BIAS, dy, cols);
    for (int64_t t = 0; t < whole->w.tokens; t += whole->w.tile) {
        oc_layer c = oc_layer_tile(whole, t);
        char *to = oc_layer_rows(&c, dn, cols);
        mlp_tile(&c, oc_layer_rows(&c, dy, cols), oc_layer_rows(&c, n, cols), dn == n ? NULL : to,
                 to);
    }
    settle(whole, OC_W_DOWN, whole->wl.sum_down, cols * whole->w.mid);
    settle(whole, OC_W_UP, whole->wl.sum_up, whole->w.up * cols);
    settle(whole, OC_W_UP_BIAS, whole->wl.sum_bias, whole->w.up);
}

/* The mlp behind norm2 of x: dx = gradient through both of dy (+ add). */
static void normed_mlp_backward(const oc_layer *c, const void *dy, const void *x, const void *add,
                                void *dx) {
    char *n = c->work + c->wl.n;
    oc_layer_norm_forward(c, OC_SITE_2, x, n);
    mlp_backward(c, dy, n, n);
    norm_backward(c, OC_SITE_2, x, n, add, dx);
}

/* ---- the attention ------------------------------------------------------------------------- */

/* do, at `after`, from dy: the gradient of the attention's projected output. */
static void out_backward(const oc_layer *c, const void *dy) {
    linear_dw(c, dy, c->w.hidden, c->o, c->w.heads, OC_W_OUT, OC_W_OUT_BIAS);
    linear_dx(c, dy, c->w.hidden, OC_W_OUT, NULL, c->work + c->wl.after, c->w.heads);
}

/* dqkv from the gradient of o, which stands at `after`; returns its place. Gradients of normed q
 * and k go back through their norms into the copy, which is read no longer; dv went there at once.
 */
static char *core_backward(const oc_layer *c) {
    char *dqkv = c->work + c->wl.dqkv, *turned = oc_layer_turn(c);
    bool normed = c->d->qk_norm;
    char *out = normed ? turned : dqkv;
    oc_attention a = oc_layer_attention(c, turned);
    a.dout = c->work + c->wl.after;
    a.dq = dqkv;
    a.dk = oc_layer_k(c, dqkv);
    a.dv = out + (size_t)(c->w.heads + c->w.kv) * oc_dtype_bytes(c->t);
    c->ops->attention_backward(c->dev, &a);
    oc_layer_rope(c, dqkv, true);
    if (!normed) return dqkv;
    norm_backward(c, OC_SITE_Q, c->qkv, dqkv, NULL, turned);
    norm_backward(c, OC_SITE_K, oc_layer_k(c, c->qkv), oc_layer_k(c, dqkv), NULL,
                  oc_layer_k(c, turned));
    return turned;
}

/* The attention behind norm1 of in: d += gradient through both of do, which stands at `after`. */
static void attention_backward(const oc_layer *c, const void *in, void *d) {
    char *n = c->work + c->wl.after;
    const char *dqkv = core_backward(c);
    oc_layer_norm_forward(c, OC_SITE_1, in, n);
    linear_dw(c, dqkv, c->w.qkv, n, c->w.hidden, OC_W_QKV, OC_W_QKV_BIAS);
    linear_dx(c, dqkv, c->w.qkv, OC_W_QKV, NULL, n, c->w.hidden);
    norm_backward(c, OC_SITE_1, in, n, d, d);
}

/* ---- placements ---------------------------------------------------------------------------- */

static void backward_pre(const oc_layer *c, const void *in, void *d) {
    normed_mlp_backward(c, d, c->mid, d, d);
    out_backward(c, d);
    attention_backward(c, in, d);
}

/* d feeds both halves: the mlp's share waits in the place of n. */
static void backward_parallel(const oc_layer *c, const void *in, void *d) {
    char *share = c->work + c->wl.n;
    normed_mlp_backward(c, d, in, NULL, share);
    out_backward(c, d);
    c->ops->scale_add(c->dev, c->t, c->rows * c->w.hidden, d, 1.0f, share, d);
    attention_backward(c, in, d);
}

static void backward_post(const oc_layer *c, const void *in, void *d) {
    char *n = c->work + c->wl.n;
    norm_backward(c, OC_SITE_2, c->m, d, NULL, d);
    oc_layer_norm_forward(c, OC_SITE_1, c->mid, n);
    mlp_backward(c, d, n, d);
    norm_backward(c, OC_SITE_1, c->mid, d, NULL, d);
    out_backward(c, d);
    const char *dqkv = core_backward(c);
    linear_dw(c, dqkv, c->w.qkv, in, c->w.hidden, OC_W_QKV, OC_W_QKV_BIAS);
    linear_dx(c, dqkv, c->w.qkv, OC_W_QKV, d, d, c->w.hidden);
}

static void backward_sandwich(const oc_layer *c, const void *in, void *d) {
    char *hold = c->work + c->wl.hold;
    norm_backward(c, OC_SITE_POST2, c->m, d, NULL, hold);
    normed_mlp_backward(c, hold, c->mid, d, d);
    norm_backward(c, OC_SITE_POST1, c->p, d, NULL, c->m); /* m has done its work */
    out_backward(c, c->m);
    attention_backward(c, in, d);
}

typedef void backward_fn(const oc_layer *c, const void *in, void *d);
static backward_fn *const backwards[] = {
    [OC_PLACE_PRE] = backward_pre,
    [OC_PLACE_POST] = backward_post,
    [OC_PLACE_SANDWICH] = backward_sandwich,
    [OC_PLACE_PARALLEL] = backward_parallel,
};

void oc_program_layer_backward(const oc_layer_call *call, const void *in, void *d, void *grads) {
    oc_layer c = oc_layer_of(call, oc_program_backward_work(call->shape));
    c.grads = grads;
    backwards[c.d->placement](&c, in, d);
    oc_program_finish_gradient(call->shape, call->block, grads);
}
