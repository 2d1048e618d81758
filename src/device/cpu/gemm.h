/* gemm.h - matrix products of the CPU back end: C = op(A) op(B) and an epilogue.
 *
 * Called by the device table alone, from one lane at a time. Nothing allocates (the oneDNN kernels
 * excepted: the library does). Kernels are a fixed choice per machine, see oc_gemm_default().
 *
 * Bits: an element of C is, per block of OC_GEMM_KC terms of K, one chain of (fused, where the ISA
 * has it) multiply-adds in order of k; block sums are added in order; then bias, residual and old C
 * are added in this order, and the result is rounded once. Tile shapes do not enter, so no element
 * depends on M, N, the number of threads, or leading dimensions; it depends on the kernels in use.
 * (oc_gemm_onednn: the library orders the terms, inside tiles of a fixed shape.) */
#ifndef OC_GEMM_H
#define OC_GEMM_H

#include "base/pool.h"
#include "device/device.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct oc_gemm_kernels oc_gemm_kernels;

extern const oc_gemm_kernels oc_gemm_plain;
#if defined(__x86_64__)
extern const oc_gemm_kernels oc_gemm_avx2;
extern const oc_gemm_kernels oc_gemm_avx512;
#endif
extern const oc_gemm_kernels oc_gemm_onednn; /* sequential dnnl_sgemm per tile */

const char *oc_gemm_name(const oc_gemm_kernels *k); /* "avx512 14x32" */
bool oc_gemm_runs_here(const oc_gemm_kernels *k);   /* this machine and build can run k */

/* The kernels for an ISA that this machine runs (or OC_ISA_BEST); NULL when it does not. */
const oc_gemm_kernels *oc_gemm_default(oc_isa isa);

/* Bytes to lend oc_gemm_run(), for any kernels; pool_slots = oc_pool_slots(pool), 1 without a pool.
 */
uint64_t oc_gemm_scratch_bytes(int pool_slots);

/* scratch: 64-byte aligned, contents irrelevant before and after. pool NULL: the calling thread
 * alone. Shapes are trusted: op(a) is M x K, op(b) K x N, c M x N; any may be 0 (K = 0: an empty
 * sum). */
void oc_gemm_run(const oc_gemm_kernels *k, oc_pool *pool, void *scratch, const oc_gemm *g);

#endif
