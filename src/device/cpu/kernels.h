/* kernels.h - the single-threaded kernels of everything but gemm, attention and rope: one const
 * table per instruction set.
 *
 * The .inc files next to it hold the code, once, on top of vec.h; kernels_plain.c, kernels_avx2.c
 * and kernels_avx512.c compile it. The drivers (norm.c, act.c, loss.c, rows.c, optim.c,
 * elementwise.c) cut an op into tasks on a grid that depends on shapes only.
 *
 * Element-wise kernels compute an element the same way wherever it stands in the range (a short
 * last vector goes through a padded buffer), so cutting a range changes no bit. */
#ifndef OC_CPU_KERNELS_H
#define OC_CPU_KERNELS_H

#include "device/device.h"

/* Rows of a gate (and of up, dy, ...) that a task walks: n elements each. up NULL: not gated. */
typedef struct oc_act_span {
    oc_act act;
    oc_dtype dtype;
    int64_t n;
    const void *gate, *up;
    void *y;           /* forward */
    const void *dy;    /* backward */
    void *dgate, *dup; /* backward; may be gate and up */
} oc_act_span;

typedef struct oc_ce_row {
    const float *logits;
    int64_t n;
    int64_t label; /* relative to the tile; outside [0, n): none of this tile's classes */
    bool ignored;
} oc_ce_row;

typedef struct oc_fold_span {
    int64_t n;
    const void *g;
    oc_dtype g_dtype;
    void *acc;
    oc_dtype acc_dtype;
    bool first;
    double *partial; /* NULL: not asked for */
} oc_fold_span;

typedef struct oc_kernels {
    const char *name;

    /* groups and ld are given (not 0); vectors [first, end) of rows * groups; backward_rows: dx */
    void (*norm_forward)(const oc_norm *n, int64_t first, int64_t end);
    void (*norm_backward_rows)(const oc_norm *n, int64_t first, int64_t end);
    /* dw and db of columns [col0, col1), at most OC_COLUMN_STRIP of them */
    void (*norm_backward_columns)(const oc_norm *n, int64_t col0, int64_t col1);

    void (*act_forward)(const oc_act_span *s);
    void (*act_backward)(const oc_act_span *s);

    /* columns [0, cols) of dy, cols <= OC_COLUMN_STRIP */
    void (*bias_grad)(oc_dtype t, int64_t rows, int64_t cols, const void *dy, int64_t ld, void *db);
    void (*scale_add)(oc_dtype t, int64_t n, const void *a, float scale, const void *b, void *out);

    void (*ce_update)(const oc_ce_row *r, float *max, float *sum, float *target);
    void (*ce_grad)(const oc_ce_row *r, float lse, float dscale, float cap, oc_dtype t,
                    void *dlogits);
    void (*soft_cap)(int64_t n, float cap, float *x);

    void (*add_row)(oc_dtype t, int64_t n, const void *src, float *acc); /* acc += src */

    void (*fold)(const oc_fold_span *s);
    void (*update)(const oc_update *u, int64_t first, int64_t end);
    void (*copy)(void *dst, const void *src, uint64_t bytes); /* around the caches */
} oc_kernels;

enum { OC_COLUMN_STRIP = 256 }; /* columns a column-wise sum keeps in registers and L1 */

extern const oc_kernels oc_kernels_plain;
#if defined(__x86_64__)
extern const oc_kernels oc_kernels_avx2, oc_kernels_avx512;
#endif

#endif
