/* few.h - products of few rows, c[M, N] = a[M, K] b[N, K]^T: bound by reading b, which is read
 * once, as it lies.
 *
 * Each element is the sum over k of VF_N lanes side by side, lane by lane in increasing order, and
 * then of the lanes: it depends on its row of a and its row of b alone, not on M, nor on how N is
 * cut. */
#ifndef OC_DEVICE_CPU_FEW_H
#define OC_DEVICE_CPU_FEW_H

#include "base/pool.h"
#include "device/device.h"

enum { OC_FEW_COLUMNS = 48 }; /* rows of b that a task takes */

typedef struct oc_few_kernels {
    const char *name;
    int64_t most_f32, most_bf16,
        most_f16; /* rows up to which they are faster than tiles, measured */
    void (*columns)(const oc_gemm *g, int64_t n,
                    int64_t count); /* columns n .. n + count - 1 of c */
} oc_few_kernels;

extern const oc_few_kernels oc_few_plain;
#if defined(__x86_64__)
extern const oc_few_kernels oc_few_avx2;
extern const oc_few_kernels oc_few_avx512;
extern const oc_few_kernels oc_few_avx512bf16; /* bf16 by pairs; else as avx512 */
#endif

/* The best of these that run here, for what gemm takes as its instruction set. */
const oc_few_kernels *oc_few_best(const oc_few_kernels *of_isa);
/* Whether these kernels compute such a product; shapes are the caller's matter. */
bool oc_few_takes(const oc_few_kernels *k, const oc_gemm *g);
void oc_few_run(const oc_few_kernels *k, oc_pool *pool, const oc_gemm *g);

#endif
