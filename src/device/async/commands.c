/* commands.c - every op of the device table as a command: packed by value when it is issued; run,
 * with its addresses looked up, when the stream comes to it.
 *
 * Ops that take a struct carry a copy of it. The others put their arguments into oc_async_values,
 * each kind in the order of the op's parameters. An address that is not looked up faults, so none
 * can be forgotten unnoticed. */
#include "device/async/inner.h"

static void put(oc_device *d, oc_async_command c) { oc_async_issue(oc_async_of(d), &c); }

static void *real(const oc_async_stream *s, const void *p) { return oc_async_real(s->owner, p); }

static void *at(const oc_async_stream *s, const oc_async_command *c, int i) {
    return real(s, c->as.values.at[i]);
}

/* ---- scratch and questions: answered at once ---- */

static uint64_t scratch_bytes(const oc_device *d) {
    const oc_device *inner = oc_async_of(d)->inner;
    return inner->ops->scratch_bytes(inner);
}

static uint64_t attention_work_bytes(const oc_device *d, const oc_attention *a) {
    const oc_device *inner = oc_async_of(d)->inner;
    return inner->ops->attention_work_bytes(inner, a);
}

static uint64_t attention_paged_work_bytes(const oc_device *d, const oc_paged_attention *a) {
    const oc_device *inner = oc_async_of(d)->inner;
    return inner->ops->attention_paged_work_bytes(inner, a);
}

static void lend_scratch(oc_device *d, void *scratch) {
    oc_async *a = oc_async_of(d)->owner;
    a->scratch = oc_async_real(a, scratch);
    for (oc_async_stream *s = a->newest; s; s = s->next)
        s->inner->ops->lend_scratch(s->inner, a->scratch);
}

static oc_queue *queue(oc_device *d) { return &oc_async_of(d)->queue.queue; }

/* ---- products ---- */

/* All streams' products work in one scratch. Relaxed, so that this check orders nothing. */
static oc_status run_gemm(oc_async_stream *s, const oc_async_command *c) {
    oc_gemm g = c->as.gemm;
    g.a.data = real(s, g.a.data);
    g.b.data = real(s, g.b.data);
    g.c.data = real(s, g.c.data);
    g.bias = real(s, g.bias);
    g.residual = real(s, g.residual);
    atomic_bool *busy = &s->owner->in_gemm;
    if (atomic_exchange_explicit(busy, true, memory_order_relaxed)) return OC_E_INVALID;
    s->inner->ops->gemm(s->inner, &g);
    atomic_store_explicit(busy, false, memory_order_relaxed);
    return OC_OK;
}

static void gemm(oc_device *d, const oc_gemm *g) {
    put(d, (oc_async_command){.run = run_gemm, .as.gemm = *g});
}

/* ---- attention and rope ---- */

static oc_attention real_attention(const oc_async_stream *s, const oc_async_command *c) {
    oc_attention a = c->as.attention;
    a.slopes = real(s, a.slopes);
    a.doc_start = real(s, a.doc_start);
    a.q = real(s, a.q);
    a.k = real(s, a.k);
    a.v = real(s, a.v);
    a.out = real(s, a.out);
    a.lse = real(s, a.lse);
    a.work = real(s, a.work);
    a.dout = real(s, a.dout);
    a.dq = real(s, a.dq);
    a.dk = real(s, a.dk);
    a.dv = real(s, a.dv);
    return a;
}

static oc_status run_attention_forward(oc_async_stream *s, const oc_async_command *c) {
    oc_attention a = real_attention(s, c);
    s->inner->ops->attention_forward(s->inner, &a);
    return OC_OK;
}

static void attention_forward(oc_device *d, const oc_attention *a) {
    put(d, (oc_async_command){.run = run_attention_forward, .as.attention = *a});
}

static oc_status run_attention_backward(oc_async_stream *s, const oc_async_command *c) {
    oc_attention a = real_attention(s, c);
    s->inner->ops->attention_backward(s->inner, &a);
    return OC_OK;
}

static void attention_backward(oc_device *d, const oc_attention *a) {
    put(d, (oc_async_command){.run = run_attention_backward, .as.attention = *a});
}

static oc_paged_attention real_paged(const oc_async_stream *s, const oc_async_command *c) {
    oc_paged_attention a = c->as.paged;
    a.slopes = real(s, a.slopes);
    a.row = real(s, a.row);
    a.pages = real(s, a.pages);
    a.kv = real(s, a.kv);
    a.q = real(s, a.q);
    a.k = real(s, a.k);
    a.v = real(s, a.v);
    a.out = real(s, a.out);
    a.work = real(s, a.work);
    return a;
}

static oc_status run_attention_paged(oc_async_stream *s, const oc_async_command *c) {
    oc_paged_attention a = real_paged(s, c);
    s->inner->ops->attention_paged(s->inner, &a);
    return OC_OK;
}

static void attention_paged(oc_device *d, const oc_paged_attention *a) {
    put(d, (oc_async_command){.run = run_attention_paged, .as.paged = *a});
}

static oc_status run_pages_append(oc_async_stream *s, const oc_async_command *c) {
    oc_paged_attention a = real_paged(s, c);
    s->inner->ops->pages_append(s->inner, &a);
    return OC_OK;
}

static void pages_append(oc_device *d, const oc_paged_attention *a) {
    put(d, (oc_async_command){.run = run_pages_append, .as.paged = *a});
}

static oc_status run_rope(oc_async_stream *s, const oc_async_command *c) {
    oc_rope r = c->as.rope;
    r.positions = real(s, r.positions);
    r.inv_freq = real(s, r.inv_freq);
    r.x = real(s, r.x);
    s->inner->ops->rope(s->inner, &r);
    return OC_OK;
}

static void rope(oc_device *d, const oc_rope *r) {
    put(d, (oc_async_command){.run = run_rope, .as.rope = *r});
}

/* ---- norms, activations, sums ---- */

static oc_norm real_norm(const oc_async_stream *s, const oc_async_command *c) {
    oc_norm n = c->as.norm;
    n.x = real(s, n.x);
    n.w = real(s, n.w);
    n.b = real(s, n.b);
    n.y = real(s, n.y);
    n.mean = real(s, n.mean);
    n.rstd = real(s, n.rstd);
    n.dy = real(s, n.dy);
    n.add = real(s, n.add);
    n.dx = real(s, n.dx);
    n.dw = real(s, n.dw);
    n.db = real(s, n.db);
    return n;
}

static oc_status run_norm_forward(oc_async_stream *s, const oc_async_command *c) {
    oc_norm n = real_norm(s, c);
    s->inner->ops->norm_forward(s->inner, &n);
    return OC_OK;
}

static void norm_forward(oc_device *d, const oc_norm *n) {
    put(d, (oc_async_command){.run = run_norm_forward, .as.norm = *n});
}

static oc_status run_norm_backward(oc_async_stream *s, const oc_async_command *c) {
    oc_norm n = real_norm(s, c);
    s->inner->ops->norm_backward(s->inner, &n);
    return OC_OK;
}

static void norm_backward(oc_device *d, const oc_norm *n) {
    put(d, (oc_async_command){.run = run_norm_backward, .as.norm = *n});
}

static oc_status run_act_forward(oc_async_stream *s, const oc_async_command *c) {
    const oc_async_values *v = &c->as.values;
    s->inner->ops->act_forward(s->inner, v->act, v->flag, v->t[0], v->n[0], v->n[1], at(s, c, 0),
                               at(s, c, 1));
    return OC_OK;
}

static void act_forward(oc_device *d, oc_act act, bool gated, oc_dtype t, int64_t rows,
                        int64_t cols, const void *x, void *y) {
    oc_async_values v = {.act = act, .flag = gated, .t = {t}, .n = {rows, cols}, .at = {x, y}};
    put(d, (oc_async_command){.run = run_act_forward, .as.values = v});
}

static oc_status run_act_backward(oc_async_stream *s, const oc_async_command *c) {
    const oc_async_values *v = &c->as.values;
    s->inner->ops->act_backward(s->inner, v->act, v->flag, v->t[0], v->n[0], v->n[1], at(s, c, 0),
                                at(s, c, 1), at(s, c, 2));
    return OC_OK;
}

static void act_backward(oc_device *d, oc_act act, bool gated, oc_dtype t, int64_t rows,
                         int64_t cols, const void *x, const void *dy, void *dx) {
    oc_async_values v = {.act = act, .flag = gated, .t = {t}, .n = {rows, cols}, .at = {x, dy, dx}};
    put(d, (oc_async_command){.run = run_act_backward, .as.values = v});
}

static oc_status run_bias_grad(oc_async_stream *s, const oc_async_command *c) {
    const oc_async_values *v = &c->as.values;
    s->inner->ops->bias_grad(s->inner, v->t[0], v->n[0], v->n[1], at(s, c, 0), v->n[2],
                             at(s, c, 1));
    return OC_OK;
}

static void bias_grad(oc_device *d, oc_dtype t, int64_t rows, int64_t cols, const void *dy,
                      int64_t ld, void *db) {
    oc_async_values v = {.t = {t}, .n = {rows, cols, ld}, .at = {dy, db}};
    put(d, (oc_async_command){.run = run_bias_grad, .as.values = v});
}

static oc_status run_scale_add(oc_async_stream *s, const oc_async_command *c) {
    const oc_async_values *v = &c->as.values;
    s->inner->ops->scale_add(s->inner, v->t[0], v->n[0], at(s, c, 0), v->f, at(s, c, 1),
                             at(s, c, 2));
    return OC_OK;
}

static void scale_add(oc_device *d, oc_dtype t, int64_t n, const void *a, float scale,
                      const void *b, void *out) {
    oc_async_values v = {.t = {t}, .n = {n}, .f = scale, .at = {a, b, out}};
    put(d, (oc_async_command){.run = run_scale_add, .as.values = v});
}

/* ---- cross-entropy ---- */

static oc_status run_ce_init(oc_async_stream *s, const oc_async_command *c) {
    s->inner->ops->ce_init(s->inner, c->as.values.n[0], at(s, c, 0), at(s, c, 1), at(s, c, 2));
    return OC_OK;
}

static void ce_init(oc_device *d, int64_t rows, float *max, float *sum, float *target) {
    oc_async_values v = {.n = {rows}, .at = {max, sum, target}};
    put(d, (oc_async_command){.run = run_ce_init, .as.values = v});
}

static oc_status run_ce_update(oc_async_stream *s, const oc_async_command *c) {
    const oc_async_values *v = &c->as.values;
    s->inner->ops->ce_update(s->inner, v->n[0], v->n[1], v->n[2], at(s, c, 0), at(s, c, 1),
                             at(s, c, 2), at(s, c, 3), at(s, c, 4));
    return OC_OK;
}

static void ce_update(oc_device *d, int64_t rows, int64_t n, int64_t v0, const float *logits,
                      const int32_t *labels, float *max, float *sum, float *target) {
    oc_async_values v = {.n = {rows, n, v0}, .at = {logits, labels, max, sum, target}};
    put(d, (oc_async_command){.run = run_ce_update, .as.values = v});
}

static oc_status run_ce_loss(oc_async_stream *s, const oc_async_command *c) {
    s->inner->ops->ce_loss(s->inner, c->as.values.n[0], at(s, c, 0), at(s, c, 1), at(s, c, 2),
                           at(s, c, 3), at(s, c, 4), at(s, c, 5));
    return OC_OK;
}

static void ce_loss(oc_device *d, int64_t rows, const int32_t *labels, const float *max,
                    const float *sum, const float *target, float *lse, double *loss_sum) {
    oc_async_values v = {.n = {rows}, .at = {labels, max, sum, target, lse, loss_sum}};
    put(d, (oc_async_command){.run = run_ce_loss, .as.values = v});
}

static oc_status run_ce_scores(oc_async_stream *s, const oc_async_command *c) {
    s->inner->ops->ce_scores(s->inner, c->as.values.n[0], at(s, c, 0), at(s, c, 1), at(s, c, 2),
                             at(s, c, 3), at(s, c, 4));
    return OC_OK;
}

static void ce_scores(oc_device *d, int64_t rows, const int32_t *labels, const float *max,
                      const float *target, const float *lse, oc_token_score *scores) {
    oc_async_values v = {.n = {rows}, .at = {labels, max, target, lse, scores}};
    put(d, (oc_async_command){.run = run_ce_scores, .as.values = v});
}

static oc_status run_ce_grad(oc_async_stream *s, const oc_async_command *c) {
    const oc_async_values *v = &c->as.values;
    s->inner->ops->ce_grad(s->inner, v->n[0], v->n[1], v->n[2], at(s, c, 0), at(s, c, 1),
                           at(s, c, 2), at(s, c, 3), v->f, v->t[0], at(s, c, 4));
    return OC_OK;
}

static void ce_grad(oc_device *d, int64_t rows, int64_t n, int64_t v0, const float *logits,
                    const int32_t *labels, const float *lse, const float *dscale, float cap,
                    oc_dtype t, void *dlogits) {
    oc_async_values v = {
        .n = {rows, n, v0}, .f = cap, .t = {t}, .at = {logits, labels, lse, dscale, dlogits}};
    put(d, (oc_async_command){.run = run_ce_grad, .as.values = v});
}

static oc_status run_soft_cap(oc_async_stream *s, const oc_async_command *c) {
    s->inner->ops->soft_cap(s->inner, c->as.values.n[0], c->as.values.f, at(s, c, 0));
    return OC_OK;
}

static void soft_cap(oc_device *d, int64_t n, float cap, float *x) {
    oc_async_values v = {.n = {n}, .f = cap, .at = {x}};
    put(d, (oc_async_command){.run = run_soft_cap, .as.values = v});
}

/* ---- rows of a table ---- */

static oc_status run_rows_gather(oc_async_stream *s, const oc_async_command *c) {
    const oc_async_values *v = &c->as.values;
    s->inner->ops->rows_gather(s->inner, v->t[0], v->n[0], v->n[1], at(s, c, 0), v->n[2], v->n[3],
                               at(s, c, 1), at(s, c, 2));
    return OC_OK;
}

static void rows_gather(oc_device *d, oc_dtype t, int64_t n, int64_t cols, const int32_t *index,
                        int64_t row0, int64_t table_rows, const void *table, void *out) {
    oc_async_values v = {.t = {t}, .n = {n, cols, row0, table_rows}, .at = {index, table, out}};
    put(d, (oc_async_command){.run = run_rows_gather, .as.values = v});
}

static oc_status run_rows_scatter(oc_async_stream *s, const oc_async_command *c) {
    const oc_async_values *v = &c->as.values;
    s->inner->ops->rows_scatter(s->inner, v->t[0], v->n[0], v->n[1], at(s, c, 0), at(s, c, 1),
                                v->n[2], v->n[3], at(s, c, 2), at(s, c, 3));
    return OC_OK;
}

static void rows_scatter(oc_device *d, oc_dtype t, int64_t n, int64_t cols, const int32_t *index,
                         const int32_t *order, int64_t row0, int64_t table_rows, const void *src,
                         float *acc) {
    oc_async_values v = {
        .t = {t}, .n = {n, cols, row0, table_rows}, .at = {index, order, src, acc}};
    put(d, (oc_async_command){.run = run_rows_scatter, .as.values = v});
}

/* ---- gradients, parameters, bytes ---- */

static oc_status run_fold(oc_async_stream *s, const oc_async_command *c) {
    const oc_async_values *v = &c->as.values;
    s->inner->ops->fold(s->inner, v->n[0], at(s, c, 0), v->t[0], at(s, c, 1), v->t[1], v->flag,
                        at(s, c, 2));
    return OC_OK;
}

static void fold(oc_device *d, int64_t n, const void *g, oc_dtype g_dtype, void *acc,
                 oc_dtype acc_dtype, bool first, double *partials) {
    oc_async_values v = {
        .n = {n}, .t = {g_dtype, acc_dtype}, .flag = first, .at = {g, acc, partials}};
    put(d, (oc_async_command){.run = run_fold, .as.values = v});
}

static oc_status run_update(oc_async_stream *s, const oc_async_command *c) {
    oc_update u = c->as.update;
    u.p = real(s, u.p);
    u.m = real(s, u.m);
    u.v = real(s, u.v);
    u.g = real(s, u.g);
    u.copy = real(s, u.copy);
    u.scalars = real(s, u.scalars);
    s->inner->ops->update(s->inner, &u);
    return OC_OK;
}

static void update(oc_device *d, const oc_update *u) {
    put(d, (oc_async_command){.run = run_update, .as.update = *u});
}

static oc_status run_copy(oc_async_stream *s, const oc_async_command *c) {
    s->inner->ops->copy(s->inner, at(s, c, 0), at(s, c, 1), c->as.values.bytes);
    return OC_OK;
}

static void copy(oc_device *d, void *dst, const void *src, uint64_t bytes) {
    oc_async_values v = {.bytes = bytes, .at = {dst, src}};
    put(d, (oc_async_command){.run = run_copy, .as.values = v});
}

static oc_status run_fill(oc_async_stream *s, const oc_async_command *c) {
    s->inner->ops->fill(s->inner, at(s, c, 0), c->as.values.byte, c->as.values.bytes);
    return OC_OK;
}

static void fill(oc_device *d, void *dst, uint8_t value, uint64_t bytes) {
    oc_async_values v = {.byte = value, .bytes = bytes, .at = {dst}};
    put(d, (oc_async_command){.run = run_fill, .as.values = v});
}

static void zero(oc_device *d, void *dst, uint64_t bytes) { fill(d, dst, 0, bytes); }

const oc_device_ops oc_async_ops = {
    .name = "async",
    .scratch_bytes = scratch_bytes,
    .lend_scratch = lend_scratch,
    .gemm = gemm,
    .attention_work_bytes = attention_work_bytes,
    .attention_forward = attention_forward,
    .attention_backward = attention_backward,
    .attention_paged_work_bytes = attention_paged_work_bytes,
    .attention_paged = attention_paged,
    .pages_append = pages_append,
    .rope = rope,
    .norm_forward = norm_forward,
    .norm_backward = norm_backward,
    .act_forward = act_forward,
    .act_backward = act_backward,
    .bias_grad = bias_grad,
    .scale_add = scale_add,
    .ce_init = ce_init,
    .ce_update = ce_update,
    .ce_loss = ce_loss,
    .ce_scores = ce_scores,
    .ce_grad = ce_grad,
    .soft_cap = soft_cap,
    .rows_gather = rows_gather,
    .rows_scatter = rows_scatter,
    .fold = fold,
    .update = update,
    .copy = copy,
    .fill = fill,
    .zero = zero,
    .open_memory = oc_async_open_memory,
    .open_stream = oc_async_open_stream,
    .queue = queue,
};
