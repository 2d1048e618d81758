/* program_head.c - what stands before and after the layers: embedding rows, the front block, the
 * final norm and projection, the head and its loss. */
#include "model/program_internal.h"

/* ---- embedding rows and the front block ---------------------------------------------------- */

float oc_program_embedding_scale(const oc_program_shape *s) {
    float scale = s->model->embedding_scale;
    unsigned char stored[sizeof(float)];
    oc_convert(stored, s->dtype, &scale, OC_F32, 1);
    oc_convert(&scale, OC_F32, stored, s->dtype, 1);
    return scale;
}

void oc_program_embed(const oc_program_shape *s, const void *rows, const void *position_rows,
                      void *act) {
    int64_t n = s->batch * s->seq * s->model->decoder.hidden;
    s->device->ops->scale_add(s->device, s->dtype, n, rows, oc_program_embedding_scale(s),
                              position_rows, act);
}

/* The front block's backward norms once more, for the statistics. */
typedef struct front_work {
    uint64_t y, mean, rstd, bytes;
} front_work;

static front_work front_work_of(const oc_program_shape *s) {
    oc_widths w = oc_program_widths(s);
    front_work l = {0};
    uint64_t end = 0;
    l.y = oc_area(&end, w.tokens, w.embed, oc_dtype_bytes(s->dtype));
    l.mean = oc_area(&end, w.tokens, 1, sizeof(float));
    l.rstd = oc_area(&end, w.tokens, 1, sizeof(float));
    l.bytes = end;
    return l;
}

uint64_t oc_program_front_work_bytes(const oc_program_shape *s) {
    return s->model->front_block >= 0 ? front_work_of(s).bytes : 0;
}

static oc_norm front_norm(const oc_program_shape *s, const oc_block *block, const void *weights,
                          const void *rows, void *work) {
    front_work l = front_work_of(s);
    char *p = work;
    oc_norm n =
        oc_program_norm(s, block, weights, OC_W_EMBED_NORM, OC_W_EMBED_NORM_BIAS,
                        s->model->embed_dim, rows, (void *)(p + l.mean), (void *)(p + l.rstd));
    n.y = p + l.y;
    return n;
}

void oc_program_front_forward(const oc_program_shape *s, const oc_block *block, const void *weights,
                              const void *rows, const void *position_rows, void *act, void *work) {
    oc_widths w = oc_program_widths(s);
    const void *project = oc_weight_at(block, s->dtype, weights, OC_W_PROJECT_IN);
    if (project) {
        oc_gemm g = {
            .a = oc_mat_of(rows, s->dtype, w.tokens, w.embed, w.embed),
            .b = oc_mat_of(project, s->dtype, w.hidden, w.embed, w.embed),
            .c = oc_mat_of(act, s->dtype, w.tokens, w.hidden, w.hidden),
            .trans_b = true,
            .residual = position_rows,
            .kernel = s->products,
        };
        s->device->ops->gemm(s->device, &g);
        return;
    }
    oc_norm n = front_norm(s, block, weights, rows, work);
    n.y = act;
    s->device->ops->norm_forward(s->device, &n);
    if (position_rows)
        s->device->ops->scale_add(s->device, s->dtype, w.tokens * w.hidden, act, 1.0f,
                                  position_rows, act);
}

void oc_program_front_backward(const oc_program_shape *s, const oc_block *block,
                               const void *weights, const void *rows, const void *d, void *d_rows,
                               void *grads, void *work) {
    oc_widths w = oc_program_widths(s);
    const void *project = oc_weight_at(block, s->dtype, weights, OC_W_PROJECT_IN);
    if (project) {
        oc_mat dy = oc_mat_of(d, s->dtype, w.tokens, w.hidden, w.hidden);
        oc_gemm dw = {
            .a = dy,
            .b = oc_mat_of(rows, s->dtype, w.tokens, w.embed, w.embed),
            .c = oc_mat_of(oc_weight_at(block, s->dtype, grads, OC_W_PROJECT_IN), s->dtype,
                           w.hidden, w.embed, w.embed),
            .trans_a = true,
        };
        oc_gemm dx = {
            .a = dy,
            .b = oc_mat_of(project, s->dtype, w.hidden, w.embed, w.embed),
            .c = oc_mat_of(d_rows, s->dtype, w.tokens, w.embed, w.embed),
        };
        if (grads) s->device->ops->gemm(s->device, &dw);
        s->device->ops->gemm(s->device, &dx);
    } else {
        oc_norm n = front_norm(s, block, weights, rows, work);
        s->device->ops->norm_forward(s->device, &n);
        n.dy = d;
        n.dy_dtype = s->dtype;
        n.dx = d_rows;
        n.dw = oc_weight_at(block, s->dtype, grads, OC_W_EMBED_NORM);
        n.db = oc_weight_at(block, s->dtype, grads, OC_W_EMBED_NORM_BIAS);
        s->device->ops->norm_backward(s->device, &n);
    }
    oc_program_finish_gradient(s, block, grads);
}

/* ---- the head's state ---------------------------------------------------------------------- */

typedef struct head_layout {
    uint64_t xn, mean, rstd, max, sum, target, lse, dxn, between, bytes;
} head_layout;

/* Of the final block: does it norm, does it project? */
static bool final_has(const oc_program_shape *s, oc_weight k) {
    return s->model->blocks[s->model->final_norm_block].offset[k] >= 0;
}

/* `between` holds what is between norm and projection: the normed rows, later their gradient. */
static head_layout head_of(const oc_program_shape *s) {
    oc_widths w = oc_program_widths(s);
    bool both = final_has(s, OC_W_FINAL_NORM) && final_has(s, OC_W_PROJECT_OUT);
    head_layout l = {0};
    uint64_t end = 0;
    l.xn = oc_area(&end, w.tokens, w.embed, oc_dtype_bytes(s->dtype));
    l.mean = oc_area(&end, w.rms ? 0 : w.tokens, 1, sizeof(float));
    l.rstd = oc_area(&end, w.tokens, 1, sizeof(float));
    l.max = oc_area(&end, w.tokens, 1, sizeof(float));
    l.sum = oc_area(&end, w.tokens, 1, sizeof(float));
    l.target = oc_area(&end, w.tokens, 1, sizeof(float));
    l.lse = oc_area(&end, w.tokens, 1, sizeof(float));
    l.dxn = oc_area(&end, w.tokens, w.embed, sizeof(float));
    l.between = oc_area(&end, both ? w.tokens : 0, w.hidden, sizeof(float));
    l.bytes = end;
    return l;
}

uint64_t oc_program_head_state_bytes(const oc_program_shape *s) { return head_of(s).bytes; }

/* Tiles of tokens x rows of the vocabulary. dlogits stands behind the logits, or in their place
 * when they may alias; sum: the chunk's gradient of a tile's rows, in fp32, over the tiles of
 * tokens. */
typedef struct head_work {
    uint64_t dlogits, sum, bytes;
} head_work;

static head_work head_work_of(const oc_program_shape *s) {
    oc_widths w = oc_program_widths(s);
    int64_t rows = s->model->vocab < OC_HEAD_TILE ? s->model->vocab : OC_HEAD_TILE;
    bool apart = s->dtype != OC_F32;
    head_work l = {0};
    (void)oc_area(&l.bytes, w.tile, rows, sizeof(float));
    if (apart) l.dlogits = oc_area(&l.bytes, w.tile, rows, oc_dtype_bytes(s->dtype));
    l.sum = oc_area(&l.bytes, apart && w.tile < w.tokens ? rows : 0, w.embed, sizeof(float));
    return l;
}

uint64_t oc_program_head_work_bytes(const oc_program_shape *s) { return head_work_of(s).bytes; }

uint64_t oc_program_logits_bytes(const oc_program_shape *s, int64_t rows) {
    uint64_t end = 0;
    (void)oc_area(&end, s->batch * s->seq, rows, sizeof(float));
    return end;
}

typedef struct head {
    char *xn, *between;
    float *mean, *rstd, *max, *sum, *target, *lse, *dxn;
} head;

static head head_at(const oc_program_shape *s, const void *state) {
    head_layout l = head_of(s);
    char *p = (char *)(uintptr_t)state;
    head h = {
        .xn = p + l.xn,
        .between = p + l.between,
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

/* ---- the final block ----------------------------------------------------------------------- */

static oc_norm final_norm(const oc_program_shape *s, const oc_block *block, const void *weights,
                          const head *h, const void *in) {
    return oc_program_norm(s, block, weights, OC_W_FINAL_NORM, OC_W_FINAL_NORM_BIAS,
                           s->model->decoder.hidden, in, h->mean, h->rstd);
}

void oc_program_final_forward(const oc_program_shape *s, const oc_block *block, const void *weights,
                              const void *in, void *state) {
    head h = head_at(s, state);
    const oc_device_ops *ops = s->device->ops;
    oc_widths w = oc_program_widths(s);
    const void *project = oc_weight_at(block, s->dtype, weights, OC_W_PROJECT_OUT);
    const void *last = in;
    if (oc_weight_at(block, s->dtype, weights, OC_W_FINAL_NORM)) {
        oc_norm n = final_norm(s, block, weights, &h, in);
        n.y = project ? h.between : h.xn;
        ops->norm_forward(s->device, &n);
        last = n.y;
    }
    if (project) {
        oc_gemm g = {
            .a = oc_mat_of(last, s->dtype, w.tokens, w.hidden, w.hidden),
            .b = oc_mat_of(project, s->dtype, w.embed, w.hidden, w.hidden),
            .c = oc_mat_of(h.xn, s->dtype, w.tokens, w.embed, w.embed),
            .trans_b = true,
            .kernel = s->products,
        };
        ops->gemm(s->device, &g);
    } else if (last == in) {
        ops->copy(s->device, h.xn, in, (uint64_t)(w.tokens * w.hidden) * oc_dtype_bytes(s->dtype));
    }
    ops->ce_init(s->device, w.tokens, h.max, h.sum, h.target);
    ops->zero(s->device, h.dxn, (uint64_t)(w.tokens * w.embed) * sizeof(float));
}

/* dxn through the projection, into d of d_dtype; `last` went into it. */
static void project_backward(const oc_program_shape *s, const oc_block *block, const void *weights,
                             const head *h, const void *last, void *grads, void *d,
                             oc_dtype d_dtype) {
    oc_widths w = oc_program_widths(s);
    oc_mat dxn = oc_mat_of(h->dxn, OC_F32, w.tokens, w.embed, w.embed);
    oc_gemm dw = {
        .a = dxn,
        .b = oc_mat_of(last, s->dtype, w.tokens, w.hidden, w.hidden),
        .c = oc_mat_of(oc_weight_at(block, s->dtype, grads, OC_W_PROJECT_OUT), s->dtype, w.embed,
                       w.hidden, w.hidden),
        .trans_a = true,
    };
    oc_gemm dx = {
        .a = dxn,
        .b = oc_mat_of(oc_weight_at(block, s->dtype, weights, OC_W_PROJECT_OUT), s->dtype, w.embed,
                       w.hidden, w.hidden),
        .c = oc_mat_of(d, d_dtype, w.tokens, w.hidden, w.hidden),
    };
    if (grads) s->device->ops->gemm(s->device, &dw);
    s->device->ops->gemm(s->device, &dx);
}

void oc_program_final_backward(const oc_program_shape *s, const oc_block *block,
                               const void *weights, const void *in, void *d, void *grads,
                               void *state) {
    head h = head_at(s, state);
    const oc_device_ops *ops = s->device->ops;
    oc_widths w = oc_program_widths(s);
    bool project = block->offset[OC_W_PROJECT_OUT] >= 0;
    if (block->offset[OC_W_FINAL_NORM] >= 0) {
        oc_norm n = final_norm(s, block, weights, &h, in);
        n.dy = project ? (void *)h.between : h.dxn;
        n.dy_dtype = OC_F32;
        n.dx = d;
        n.dw = oc_weight_at(block, s->dtype, grads, OC_W_FINAL_NORM);
        n.db = oc_weight_at(block, s->dtype, grads, OC_W_FINAL_NORM_BIAS);
        if (project) project_backward(s, block, weights, &h, h.between, grads, h.between, OC_F32);
        ops->norm_backward(s->device, &n);
    } else if (project) {
        project_backward(s, block, weights, &h, in, grads, d, s->dtype);
    } else { /* rounded once, as any gradient of an activation */
        ops->fold(s->device, w.tokens * w.hidden, h.dxn, OC_F32, d, s->dtype, true, NULL);
    }
    oc_program_finish_gradient(s, block, grads);
}

/* ---- the head ------------------------------------------------------------------------------ */

/* Rows r .. r + n - 1 of a chunk. */
static oc_mat tile_of(const oc_program_shape *s, const oc_block *chunk, const void *flat, int64_t r,
                      int64_t n) {
    int64_t h = s->model->embed_dim;
    const char *table = oc_weight_at(chunk, s->dtype, flat, OC_W_TABLE);
    return oc_mat_of(table + (size_t)(r * h) * oc_dtype_bytes(s->dtype), s->dtype, n, h, h);
}

static int64_t tile_rows(const oc_block *chunk, int64_t r) {
    return chunk->rows - r < OC_HEAD_TILE ? chunk->rows - r : OC_HEAD_TILE;
}

/* n rows of xn, from row t on. */
static oc_mat xn_of(const oc_program_shape *s, const head *h, int64_t t, int64_t n) {
    int64_t cols = s->model->embed_dim;
    return oc_mat_of(h->xn + (size_t)(t * cols) * oc_dtype_bytes(s->dtype), s->dtype, n, cols,
                     cols);
}

/* logits[rows, n] = xn[rows, h] tile[n, h]^T, fp32, capped */
static void tile_logits(const oc_program_shape *s, oc_mat xn, oc_mat tile, float *logits,
                        int64_t ld) {
    float cap = s->model->decoder.logit_cap;
    oc_gemm g = {
        .a = xn,
        .b = tile,
        .c = oc_mat_of(logits, OC_F32, xn.rows, tile.rows, ld),
        .trans_b = true,
        .kernel = s->products,
    };
    s->device->ops->gemm(s->device, &g);
    if (cap <= 0) return;
    if (ld == tile.rows) {
        s->device->ops->soft_cap(s->device, xn.rows * ld, cap, logits);
        return;
    }
    for (int64_t t = 0; t < xn.rows; t++)
        s->device->ops->soft_cap(s->device, tile.rows, cap, logits + t * ld);
}

/* A tile of the head: rows [r, r + n) of the chunk, tokens [t, t + m). Logits that are kept lie
 * tile behind tile, in the order in which they are made. */
typedef struct head_tile {
    int64_t r, n, t, m;
} head_tile;

static bool next_tile(const oc_program_shape *s, const oc_block *chunk, head_tile *x) {
    oc_widths w = oc_program_widths(s);
    x->t += x->m;
    if (x->t == w.tokens || x->n == 0) {
        x->r += x->n;
        x->t = 0;
    }
    if (x->r == chunk->rows) return false;
    x->n = tile_rows(chunk, x->r);
    x->m = w.tokens - x->t < w.tile ? w.tokens - x->t : w.tile;
    return true;
}

static int64_t kept_at(const oc_program_shape *s, const head_tile *x) {
    return x->r * s->batch * s->seq + x->t * x->n;
}

void oc_program_head_forward(const oc_program_shape *s, const oc_block *chunk, const void *weights,
                             const oc_program_batch *b, void *state, float *logits, void *work) {
    head h = head_at(s, state);
    for (head_tile x = {0}; next_tile(s, chunk, &x);) {
        float *to = logits ? logits + kept_at(s, &x) : work;
        tile_logits(s, xn_of(s, &h, x.t, x.m), tile_of(s, chunk, weights, x.r, x.n), to, x.n);
        s->device->ops->ce_update(s->device, x.m, x.n, chunk->row0 + x.r, to, b->labels + x.t,
                                  h.max + x.t, h.sum + x.t, h.target + x.t);
    }
}

void oc_program_loss(const oc_program_shape *s, const oc_program_batch *b, void *state,
                     double *loss_sum) {
    head h = head_at(s, state);
    s->device->ops->ce_loss(s->device, s->batch * s->seq, b->labels, h.max, h.sum, h.target, h.lse,
                            loss_sum);
}

void oc_program_scores(const oc_program_shape *s, const oc_program_batch *b, void *state,
                       oc_token_score *scores) {
    head h = head_at(s, state);
    s->device->ops->ce_scores(s->device, s->batch * s->seq, b->labels, h.max, h.target, h.lse,
                              scores);
}

/* The tile's share of the chunk's gradient: one product when all tokens are in it, else a sum in
 * fp32, which the last tile rounds. */
static void head_dw(const oc_program_shape *s, const head *h, const head_tile *x, oc_mat dlogits,
                    oc_mat grad, float *sum) {
    bool tiled = x->m < s->batch * s->seq, last = x->t + x->m == s->batch * s->seq;
    bool apart = tiled && s->dtype != OC_F32;
    oc_gemm dw = {
        .a = dlogits,
        .b = xn_of(s, h, x->t, x->m),
        .c = apart ? oc_mat_of(sum, OC_F32, grad.rows, grad.cols, grad.cols) : grad,
        .trans_a = true,
        .accumulate = x->t > 0,
    };
    s->device->ops->gemm(s->device, &dw);
    if (apart && last)
        s->device->ops->fold(s->device, grad.rows * grad.cols, sum, OC_F32, grad.data, s->dtype,
                             true, NULL);
}

static void head_dx(const oc_program_shape *s, const head *h, const head_tile *x, oc_mat dlogits,
                    oc_mat tile) {
    int64_t cols = s->model->embed_dim;
    oc_gemm dx = {
        .a = dlogits,
        .b = tile,
        .c = oc_mat_of(h->dxn + x->t * cols, OC_F32, x->m, cols, cols),
        .accumulate = true,
    };
    s->device->ops->gemm(s->device, &dx);
}

void oc_program_head_backward(const oc_program_shape *s, const oc_block *chunk, const void *weights,
                              const oc_program_batch *b, const float *dscale, void *grads,
                              void *state, const float *logits, void *work) {
    head h = head_at(s, state);
    head_work l = head_work_of(s);
    char *area = work;
    for (head_tile x = {0}; next_tile(s, chunk, &x);) {
        oc_mat tile = tile_of(s, chunk, weights, x.r, x.n);
        oc_mat dlogits = oc_mat_of(area + l.dlogits, s->dtype, x.m, x.n, x.n);
        const float *from = logits ? logits + kept_at(s, &x) : work;
        if (!logits) tile_logits(s, xn_of(s, &h, x.t, x.m), tile, work, x.n);
        s->device->ops->ce_grad(s->device, x.m, x.n, chunk->row0 + x.r, from, b->labels + x.t,
                                h.lse + x.t, dscale, s->model->decoder.logit_cap, s->dtype,
                                dlogits.data);
        if (grads)
            head_dw(s, &h, &x, dlogits, tile_of(s, chunk, grads, x.r, x.n), (void *)(area + l.sum));
        head_dx(s, &h, &x, dlogits, tile);
    }
    oc_program_finish_gradient(s, chunk, grads);
}

void oc_program_head_logits(const oc_program_shape *s, const oc_block *chunk, const void *weights,
                            const void *state, float *logits, int64_t ld) {
    head h = head_at(s, state);
    for (int64_t r = 0; r < chunk->rows; r += OC_HEAD_TILE)
        tile_logits(s, xn_of(s, &h, 0, s->batch * s->seq),
                    tile_of(s, chunk, weights, r, tile_rows(chunk, r)), logits + r, ld);
}
