/* gemm.h - matrix products of the CPU back end: C = op(A) op(B) and an epilogue.
 *
 * Called by the device table alone, from one lane at a time. Nothing allocates (the oneDNN kernels
 * excepted: the library does). Kernels are a fixed choice per machine, see oc_gemm_default().
 *
 * Bits: an element of C is, per block of OC_GEMM_KC terms of K, one chain of (fused, where the ISA
 * has it) multiply-adds in order of k; block sums are added in order; then bias, residual and old C
 * are added in this order, and the result is rounded once. Tile shapes do not enter, so no element
 * depends on M, N, the number of threads, or leading dimensions; it depends on the kernels in use.
 * In one case terms of K are taken in pairs, see oc_gemm_kernel (device/device.h).
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

/* ---- products of few rows: what attention uses, too ---- */

enum {
    OC_GEMM_FEW_CHAIN = 256, /* the terms of a K block */
    OC_GEMM_FEW_AHEAD = 512  /* bytes that are asked for ahead */
};

/* Some rows of A, packed, by rows of B as they lie. Lines of the cache of these are turned, so that
 * they lie as in a packed panel, and multiplied. An element is one chain of multiply-adds for each
 * K block, and these are added in order. */
typedef struct oc_gemm_few {
    int rows;        /* a width of oc_gemm_few_width() */
    const float *a;  /* [k][rows], each K block in a panel of its own */
    int64_t a_block; /* floats from one panel to the next */
    const char *const
        *row;       /* rows of B, oc_gemm_few_columns() of them, from a K block's begin on */
    oc_dtype dtype; /* of B */
    int64_t k;
    bool pairs; /* see oc_gemm_takes_pairs(): a is [k / 2][rows] of words of two bf16, the last of
                   an odd k 0 */
    /* What is read next: further on in these rows, up to `row_end` bytes from their begins; then
     * `jump` bytes beyond. */
    int64_t row_end, jump;
    float *turned; /* lines of oc_gemm_few_columns() x 64 bytes: two, or all of them when keep */
    bool keep;     /* all lines stay there for other rows of A; no more than a K block */
    bool kept;     /* they are there */
    bool add;
    float *sums; /* [rows][sums_ld] = (add ? sums : 0) + the product */
    int64_t sums_ld;
} oc_gemm_few;

/* Whether products of few rows of bf16 take these in pairs. */
bool oc_gemm_takes_pairs(const oc_gemm_kernels *k);
/* 0: these kernels have none for few rows. */
int oc_gemm_few_columns(const oc_gemm_kernels *k);
/* The least number >= rows that they have; rows <= 6, 8 with columns of 32. */
int oc_gemm_few_width(const oc_gemm_kernels *k, int rows);
void oc_gemm_few_run(const oc_gemm_kernels *k, const oc_gemm_few *x);

#endif
