/* cpu.h - the CPU back end's own state, and its ops by noun. For the files of this folder only. */
#ifndef OC_CPU_H
#define OC_CPU_H

#include "device/cpu/attention.h"
#include "device/cpu/gemm.h"
#include "device/cpu/kernels.h"
#include "device/cpu/paged.h"
#include "device/cpu/rope.h"
#include "device/device.h"
#include "device/impl.h"

typedef struct oc_cpu {
    oc_device_impl impl; /* first: oc_device.impl points at it */
    oc_device device;
    const oc_kernels *kernels;
    const oc_gemm_kernels *gemm;
    const oc_attention_kernels *attention;
    const oc_paged_kernels *paged;
    const oc_rope_kernels *rope;
    void *scratch; /* lent; gemm's */
    char kernel_names[96];
} oc_cpu;

static inline oc_cpu *oc_cpu_of(oc_device *d) { return (oc_cpu *)d->impl; }

/* Rows a task takes when each has cols elements: enough work to pay for handing it out. */
static inline int64_t oc_cpu_row_grain(int64_t cols) {
    enum { ELEMENTS = 16384 };
    return cols >= ELEMENTS ? 1 : ELEMENTS / (cols > 0 ? cols : 1);
}

/* Columns of a strip of a column-wise sum: wide rows in strips that stream well, narrow ones in
 * strips that leave something for every core. */
static inline int64_t oc_cpu_strip(int64_t cols) {
    return cols >= 8 * OC_COLUMN_STRIP ? OC_COLUMN_STRIP : OC_COLUMN_STRIP / 4;
}

static inline int64_t oc_cpu_tasks(int64_t n, int64_t grain) { return (n + grain - 1) / grain; }
static inline int64_t oc_cpu_min(int64_t a, int64_t b) { return a < b ? a : b; }

static inline const void *oc_cpu_at(const void *data, oc_dtype t, int64_t i) {
    return (const unsigned char *)data + (size_t)i * oc_dtype_bytes(t);
}
static inline void *oc_cpu_at_mut(void *data, oc_dtype t, int64_t i) {
    return (unsigned char *)data + (size_t)i * oc_dtype_bytes(t);
}

/* The ops, as in oc_device_ops. */
void oc_cpu_norm_forward(oc_device *d, const oc_norm *n);
void oc_cpu_norm_backward(oc_device *d, const oc_norm *n);
void oc_cpu_act_forward(oc_device *d, oc_act act, bool gated, oc_dtype t, int64_t rows,
                        int64_t cols, const void *x, void *y);
void oc_cpu_act_backward(oc_device *d, oc_act act, bool gated, oc_dtype t, int64_t rows,
                         int64_t cols, const void *x, const void *dy, void *dx);
void oc_cpu_bias_grad(oc_device *d, oc_dtype t, int64_t rows, int64_t cols, const void *dy,
                      int64_t ld, void *db);
void oc_cpu_scale_add(oc_device *d, oc_dtype t, int64_t n, const void *a, float scale,
                      const void *b, void *out);
void oc_cpu_ce_init(oc_device *d, int64_t rows, float *max, float *sum, float *target);
void oc_cpu_ce_update(oc_device *d, int64_t rows, int64_t n, int64_t v0, const float *logits,
                      const int32_t *labels, float *max, float *sum, float *target);
void oc_cpu_ce_loss(oc_device *d, int64_t rows, const int32_t *labels, const float *max,
                    const float *sum, const float *target, float *lse, double *loss_sum);
void oc_cpu_ce_scores(oc_device *d, int64_t rows, const int32_t *labels, const float *max,
                      const float *target, const float *lse, oc_token_score *scores);
void oc_cpu_ce_grad(oc_device *d, int64_t rows, int64_t n, int64_t v0, const float *logits,
                    const int32_t *labels, const float *lse, const float *dscale, float soft_cap,
                    oc_dtype t, void *dlogits);
void oc_cpu_soft_cap(oc_device *d, int64_t n, float cap, float *x);
void oc_cpu_rows_gather(oc_device *d, oc_dtype t, int64_t n, int64_t cols, const int32_t *index,
                        int64_t row0, int64_t table_rows, const void *table, void *out);
void oc_cpu_rows_scatter(oc_device *d, oc_dtype t, int64_t n, int64_t cols, const int32_t *index,
                         const int32_t *order, int64_t row0, int64_t table_rows, const void *src,
                         float *acc);
void oc_cpu_fold(oc_device *d, int64_t n, const void *g, oc_dtype g_dtype, void *acc,
                 oc_dtype acc_dtype, bool first, double *partials);
void oc_cpu_update(oc_device *d, const oc_update *u);
void oc_cpu_copy(oc_device *d, void *dst, const void *src, uint64_t bytes);
void oc_cpu_fill(oc_device *d, void *dst, uint8_t value, uint64_t bytes);
void oc_cpu_zero(oc_device *d, void *dst, uint64_t bytes);

#endif
