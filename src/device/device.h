/* device.h - what a back end computes: the device table.
 *
 * One const oc_device_ops per back end (cpu: device/cpu/cpu.c; plain C reference: device/cpu/ref.c;
 * CUDA later). All pointers are device memory of that back end; the caller owns them. Matrices are
 * row-major. Nothing allocates: a back end that needs scratch states it and is lent it once.
 *
 * Numerics, the same for all back ends: an input of any dtype is widened to fp32, arithmetic and
 * accumulation are fp32 (sums over tokens or whole tensors that say so: fp64), and each output is
 * rounded once, to its own dtype. Results do not depend on the number of threads nor on live
 * lengths.
 *
 * Errors are sticky: an op returns nothing; oc_device_status() tells the first failure (CUDA
 * reports late by nature). Ops of one device run in the order they are called from one lane; two
 * lanes may call at the same time if they touch different memory. */
#ifndef OC_DEVICE_H
#define OC_DEVICE_H

#include "base/dtype.h"
#include "base/pool.h"
#include "base/queue.h"
#include "base/status.h"
#include "mem/memory.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct oc_device oc_device;

/* rows x cols elements, ld >= cols elements from one row to the next. */
typedef struct oc_mat {
    void *data;
    oc_dtype dtype;
    int64_t rows, cols, ld;
} oc_mat;

static inline oc_mat oc_mat_of(const void *data, oc_dtype dtype, int64_t rows, int64_t cols,
                               int64_t ld) {
    oc_mat m = {(void *)(uintptr_t)data, dtype, rows, cols, ld};
    return m;
}

/* Which kernel a product runs on. The bits are the same, with one exception: where a and b are bf16
 * and the processor multiplies pairs of these, FEW does that; pairs of products, which are exact,
 * are then added up in fp32 without denormals. */
typedef enum oc_gemm_kernel {
    OC_GEMM_TILED, /* packed panels: for many rows */
    OC_GEMM_FEW,   /* reads b once, as it lies: for few rows, whose time is that of reading b. For
                      products with trans_b alone; others are TILED */
    OC_GEMM_AUTO   /* FEW up to as many rows as it is faster for, else TILED; with pairs always FEW,
                      so that bits depend on no number of rows */
} oc_gemm_kernel;

/* c[M,N] = op(a)[M,K] op(b)[K,N] (+ bias[N]) (+ residual[M,N]) (+ c when accumulate).
 * a and b may differ in dtype. c is fp32 or the compute dtype. bias and residual, when given, have
 * the dtypes below; residual may alias c's data. The K loop is cut at fixed places, so that a
 * result element depends only on its row of op(a) and its column of op(b). */
typedef struct oc_gemm {
    oc_mat a, b, c;
    bool trans_a, trans_b; /* op(x) = x^T */
    bool accumulate;       /* c must be fp32 */
    const void *bias;      /* NULL: none */
    oc_dtype bias_dtype;
    const void *residual; /* NULL: none; ld = c.ld, dtype = c.dtype */
    oc_gemm_kernel kernel;
} oc_gemm;

typedef enum oc_act {
    OC_ACT_SILU,
    OC_ACT_GELU_TANH,
    OC_ACT_GELU,
    OC_ACT_RELU,
    OC_ACT_COUNT
} oc_act;

/* Rows are tokens of `batch` sequences of `seq` tokens; T = batch * seq. q, k, v are views into one
 * buffer or several, each [T, heads * head_dim] with its own ld. Token t of a sequence attends to
 * tokens doc_start[t] .. t of its sequence (doc_start is relative to the sequence and never
 * decreases in it), further limited to the last `window` tokens when window > 0. A score is scale *
 * q.k; then, where they are given, cap * tanh(score / cap) (soft cap), then + slope[head] * (key's
 * place - query's place) (ALiBi).
 */
typedef struct oc_attention {
    oc_dtype dtype;
    int64_t batch, seq;
    int32_t heads, kv_heads, head_dim;
    float scale;
    float soft_cap;           /* 0: none */
    const float *slopes;      /* [heads]; NULL: none */
    int64_t window;           /* 0: none */
    const int32_t *doc_start; /* [T] */
    const void *q, *k, *v;
    int64_t q_ld, k_ld, v_ld;
    void *out; /* forward: written; backward: read. [T, heads * head_dim] */
    int64_t out_ld;
    float *lse; /* [T, heads] natural log; forward: written; backward: read */
    void *work; /* attention_work_bytes() of device memory, forward and backward */
    /* backward only */
    const void *dout;   /* [T, heads * head_dim], ld = out_ld */
    void *dq, *dk, *dv; /* written; ld as q_ld, k_ld, v_ld */
} oc_attention;

/* A sequence's tokens of one pass: tokens first .. first + tokens - 1 of the pass. Before them it
 * has `context` tokens, whose keys and values lie in its pages. */
typedef struct oc_paged_row {
    int32_t first, tokens, context, unused;
} oc_paged_row;

/* Attention of a pass, over keys and values in pages. A page holds page_tokens tokens of one
 * sequence: their keys [kv_heads, page_tokens, head_dim], then their values alike. Token number i
 * of row r, in order from the sequence's first, lies in page pages[r * pages_ld + i / page_tokens].
 *
 * First the keys and values of the pass are put in their pages; then token context + j of a row
 * attends to tokens 0 .. context + j of its sequence, limited by the window, as in oc_attention.
 * Tokens of no row are left as they are. A token's result depends on its query and on its sequence
 * alone: not on the other rows, nor on how its sequence was cut into passes. No lse. */
typedef struct oc_paged_attention {
    oc_dtype dtype;
    int32_t heads, kv_heads, head_dim;
    float scale, soft_cap;
    const float *slopes; /* [heads]; NULL: none */
    int64_t window;
    int64_t tokens, rows;    /* of the pass */
    const oc_paged_row *row; /* [rows] */
    const int32_t *pages;    /* [rows, pages_ld] */
    int64_t pages_ld;
    int32_t page_tokens;
    int32_t keys;          /* the most tokens that a sequence may have: sizes the work */
    void *kv;              /* pages, one behind the other */
    const void *q, *k, *v; /* [tokens, ...] each with its own ld */
    int64_t q_ld, k_ld, v_ld;
    void *out; /* [tokens, heads * head_dim] */
    int64_t out_ld;
    void *work; /* attention_paged_work_bytes() */
} oc_paged_attention;

typedef struct oc_rope {
    oc_dtype dtype;
    int64_t rows;
    int32_t heads, head_dim,
        rot_dim;              /* the first rot_dim of each head turn: (i, i + rot_dim/2) pairs */
    bool inverse;             /* backward: turn the other way */
    const int32_t *positions; /* [rows] */
    const float *inv_freq;    /* [rot_dim / 2] */
    float scaling;            /* multiplies cos and sin (yarn, longrope); 1 otherwise */
    void *x;                  /* in place, [rows, heads * head_dim] */
    int64_t ld;
} oc_rope;

/* y = norm(x) * w (+ b). rms: no mean, no b. plus_one: the factor is (1 + w). A row holds `groups`
 * vectors of cols values side by side, each normed by itself with the same w (norms of each head);
 * x, y, dy, add and dx may be views into wider rows, and nothing outside the views is touched. y
 * may be x (then x is gone for the backward). dx may be any of x, add and, when dy_dtype is dtype,
 * dy: the same place, element for element. */
typedef struct oc_norm {
    oc_dtype dtype;
    int64_t rows, cols;
    int64_t groups; /* 0: 1 */
    int64_t ld;     /* from one row to the next, of x, y, dy, add and dx; 0: groups * cols */
    bool rms, plus_one;
    float eps;
    const void *x, *w, *b; /* b NULL: none; always so for rms */
    void *y;               /* forward */
    float *mean, *rstd; /* [rows * groups]; mean NULL for rms; forward: written; backward: read */
    /* backward: dx = (add ? add : 0) + d norm; dw, db whole sums over rows and groups (not
     * accumulated); NULL: not wanted */
    const void *dy;
    oc_dtype dy_dtype;  /* fp32 or dtype */
    const void *add;    /* dtype; NULL: none */
    void *dx, *dw, *db; /* dtype; db NULL for rms */
} oc_norm;

typedef enum oc_optimizer_kind { OC_ADAMW, OC_ADAM, OC_SGD } oc_optimizer_kind;

/* What changes from step to step, in memory that the device reads: a queue of kernels can be
 * captured once and run for every step. */
typedef struct oc_update_scalars {
    double lr, bias1, bias2; /* 1 - beta^t. double: 1 - beta2 of a float 0.999 is off by 1e-5 */
    float coef;              /* gradients are multiplied by it first */
} oc_update_scalars;

/* One update of n parameters. Adam adds weight_decay * p to the gradient, AdamW decays p by
 * lr * weight_decay; both as torch.optim does. SGD with momentum as torch.optim.SGD (dampening 0).
 */
typedef struct oc_update {
    oc_optimizer_kind kind;
    int64_t n;
    float *p, *m, *v; /* in place; fp32. SGD: v NULL, m NULL without momentum */
    const void *g;
    oc_dtype g_dtype; /* fp32 or the compute dtype */
    void *copy;       /* compute-dtype copy of p; NULL: none */
    oc_dtype copy_dtype;
    const oc_update_scalars *scalars; /* device memory */
    double beta1, beta2, eps, weight_decay, momentum;
} oc_update;

/* A document that begins at a multiple of so many tokens of its sequence comes out the same to the
 * bit wherever that is. */
enum { OC_ATTENTION_GRAIN = 96 };

/* Of a token with a label: how unlikely that was, and whether no other had a larger logit. */
typedef struct oc_token_score {
    double nll; /* lse - the label's logit; 0 without a label */
    uint64_t likeliest;
} oc_token_score;

typedef struct oc_device_ops {
    const char *name;

    /* scratch the back end wants for everything but attention's work; per pool */
    uint64_t (*scratch_bytes)(const oc_device *d);
    void (*lend_scratch)(oc_device *d, void *scratch); /* 64-byte aligned; borrowed until close */

    void (*gemm)(oc_device *d, const oc_gemm *g);

    uint64_t (*attention_work_bytes)(const oc_device *d, const oc_attention *a);
    void (*attention_forward)(oc_device *d, const oc_attention *a);
    void (*attention_backward)(oc_device *d, const oc_attention *a);
    /* Work: of at most a->tokens tokens, a->rows rows and a->keys keys. */
    uint64_t (*attention_paged_work_bytes)(const oc_device *d, const oc_paged_attention *a);
    void (*attention_paged)(oc_device *d, const oc_paged_attention *a);
    /* Only the first half: keys and values into their pages. */
    void (*pages_append)(oc_device *d, const oc_paged_attention *a);
    void (*rope)(oc_device *d, const oc_rope *r);

    void (*norm_forward)(oc_device *d, const oc_norm *n);
    void (*norm_backward)(oc_device *d, const oc_norm *n);

    /* y[rows, cols] = act(x); gated: x is [rows, 2 cols] = (gate | up), y = act(gate) * up. */
    void (*act_forward)(oc_device *d, oc_act act, bool gated, oc_dtype t, int64_t rows,
                        int64_t cols, const void *x, void *y);
    /* dx (shape of x) from x and dy; dx may alias x. */
    void (*act_backward)(oc_device *d, oc_act act, bool gated, oc_dtype t, int64_t rows,
                         int64_t cols, const void *x, const void *dy, void *dx);

    /* db[cols] = sum over rows of dy, in fp32, rounded once. */
    void (*bias_grad)(oc_device *d, oc_dtype t, int64_t rows, int64_t cols, const void *dy,
                      int64_t ld, void *db);

    /* out = scale * a (+ b). n elements of dtype t; out may alias a. b NULL: none. */
    void (*scale_add)(oc_device *d, oc_dtype t, int64_t n, const void *a, float scale,
                      const void *b, void *out);

    /* Fused cross-entropy over tiles of the vocabulary. A tile is logits[rows, n] fp32 for the
     * classes v0 .. v0 + n - 1; labels[rows], -100 = ignored. State per row, fp32: max, sum (of
     * exp(x - max)) and target (the logit at the label). ce_init, ce_update for each tile, ce_loss,
     * then ce_grad a tile. */
    void (*ce_init)(oc_device *d, int64_t rows, float *max, float *sum, float *target);
    void (*ce_update)(oc_device *d, int64_t rows, int64_t n, int64_t v0, const float *logits,
                      const int32_t *labels, float *max, float *sum, float *target);
    /* lse[rows] = max + log(sum) (may alias max); *loss_sum = sum over non-ignored rows of lse -
     * target (fp64, fixed order). */
    void (*ce_loss)(oc_device *d, int64_t rows, const int32_t *labels, const float *max,
                    const float *sum, const float *target, float *lse, double *loss_sum);
    /* After ce_loss: the terms of its sum, row by row. */
    void (*ce_scores)(oc_device *d, int64_t rows, const int32_t *labels, const float *max,
                      const float *target, const float *lse, oc_token_score *scores);
    /* dlogits = (exp(logits - lse) - [class == label]) * *dscale, 0 for ignored rows; dtype t; may
     * alias logits when t is fp32. dscale is in device memory. soft_cap > 0: logits went through
     * soft_cap(), and the gradient is that of what went in, (1 - (logits / cap)^2) as much. */
    void (*ce_grad)(oc_device *d, int64_t rows, int64_t n, int64_t v0, const float *logits,
                    const int32_t *labels, const float *lse, const float *dscale, float soft_cap,
                    oc_dtype t, void *dlogits);
    /* x = cap * tanh(x / cap), n values in place */
    void (*soft_cap)(oc_device *d, int64_t n, float cap, float *x);

    /* out[i, :] = table[index[i] - row0, :] for rows with row0 <= index < row0 + table_rows; others
     * are left as they are. */
    void (*rows_gather)(oc_device *d, oc_dtype t, int64_t n, int64_t cols, const int32_t *index,
                        int64_t row0, int64_t table_rows, const void *table, void *out);
    /* acc[index[i] - row0, :] += sum of src rows, for the same rows, fp32. order[n] sorts (index,
     * i); the rows of one index are added in order of i into a sum that starts from acc. */
    void (*rows_scatter)(oc_device *d, oc_dtype t, int64_t n, int64_t cols, const int32_t *index,
                         const int32_t *order, int64_t row0, int64_t table_rows, const void *src,
                         float *acc);

    /* acc[i] = (first ? 0 : acc[i]) + g[i]. acc has acc_dtype (compute dtype only when first). acc
     * may be g itself (then nothing moves). When partials is not NULL, partials[c] = sum of squares
     * (fp64) of the results in chunk c of OC_NORM_CHUNK elements; n may end in the middle of the
     * last. */
    void (*fold)(oc_device *d, int64_t n, const void *g, oc_dtype g_dtype, void *acc,
                 oc_dtype acc_dtype, bool first, double *partials);
    void (*update)(oc_device *d, const oc_update *u);
    /* Within the device, or between it and the host's arena. */
    void (*copy)(oc_device *d, void *dst, const void *src, uint64_t bytes);
    void (*fill)(oc_device *d, void *dst, uint8_t value, uint64_t bytes);
    void (*zero)(oc_device *d, void *dst, uint64_t bytes);

    /* Memory of the device's tier. */
    oc_status (*open_memory)(oc_device *d, oc_memory **out, const oc_arena_spec *spec,
                             oc_error *err);
    /* Another handle of the same device, whose ops go into a stream of their own; d owns it. NULL:
     * ops are done at return, and one handle serves every lane. */
    oc_status (*open_stream)(oc_device *d, oc_device **out, oc_error *err);
    /* The stream of this handle. NULL as above. */
    oc_queue *(*queue)(oc_device *d);
} oc_device_ops;

enum { OC_NORM_CHUNK = 65536 }; /* elements a norm partial covers; pieces are multiples of it */

struct oc_device {
    const oc_device_ops *ops;
    oc_pool *pool; /* borrowed; NULL for the reference */
    void *impl;    /* the back end's own */
};

typedef enum oc_isa { OC_ISA_PLAIN, OC_ISA_AVX2, OC_ISA_AVX512, OC_ISA_BEST = 99 } oc_isa;

/* pool is borrowed and outlives the device. isa OC_ISA_BEST picks the best this machine runs; a
 * named one that it cannot run is OC_E_UNSUPPORTED. */
OC_NODISCARD oc_status oc_device_open_cpu(oc_device **out, oc_pool *pool, oc_isa isa,
                                          oc_error *err);
/* Plain C, one thread, the definition of what every op means: for tests and for reading. */
OC_NODISCARD oc_status oc_device_open_reference(oc_device **out, oc_error *err);
void oc_device_close(oc_device *d);
oc_status oc_device_status(const oc_device *d); /* the first failure of any op; OC_OK */
const char *
oc_device_kernels(const oc_device *d); /* for logs and the numerics key: "avx512 own-gemm" */

#endif
