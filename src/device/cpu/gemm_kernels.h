/* gemm_kernels.h - what gemm.c asks of an ISA, and what the kernel files share. Private to gemm*.c.
 *
 * The scheme is that of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication"
 * (2008), with one change: a panel of B is packed just before its only use, so that it is read from
 * L1 and needs no buffer of its own size.
 *
 * For a tile of C (a task), for each K block: pack the rows of A into panels of mr rows; for each
 * nr columns: pack them, then multiply each panel of A with them. Partial sums of a tile stay in
 * fp32 in `sums`, micro-tile by micro-tile ([mr][nr] contiguous), until the last K block. */
#ifndef OC_GEMM_KERNELS_H
#define OC_GEMM_KERNELS_H

#include "device/cpu/gemm.h"

enum {
    OC_GEMM_KC = OC_GEMM_FEW_CHAIN, /* terms of K in one chain: fixes the bits */
    OC_GEMM_A_FLOATS = 128 << 10,   /* packed rows of A of one tile and K block */
    OC_GEMM_B_FLOATS = 32 * OC_GEMM_KC,
    OC_GEMM_SUM_FLOATS = 448 << 10,
    OC_GEMM_PANEL_PAD = 16, /* floats a packer may write past a panel */
    OC_GEMM_RUN_STEP = 16,  /* k from one line of a run to the next */
    OC_GEMM_RUN_LINES = OC_GEMM_KC / OC_GEMM_RUN_STEP,
    OC_GEMM_RUNS_MAX = 8
};

/* Cache lines that later work touches, to be fetched while a product is computed: one line of each
 * run every OC_GEMM_RUN_STEP of k. Bursts of prefetches would stall the core instead. */
typedef struct oc_gemm_ahead {
    struct {
        const char *line;
        int64_t step; /* bytes from line to line */
    } run[OC_GEMM_RUNS_MAX];
    int n;
} oc_gemm_ahead;

/* Where a micro-tile goes: pointers to its first element. */
typedef struct oc_gemm_dest {
    void *c;
    oc_dtype dtype;
    int64_t ld;
    bool accumulate;
    const void *bias; /* of its first column; NULL: none */
    oc_dtype bias_dtype;
    const void *residual; /* NULL: none */
} oc_gemm_dest;

/* One strip of a matrix to pack: n <= width lines of k elements. Element (line i, k) is at
 * i * ld + k when k_contiguous, else at k * ld + i. */
typedef struct oc_gemm_strip {
    const void *src;
    oc_dtype dtype;
    int64_t ld, n, k;
    bool k_contiguous;
} oc_gemm_strip;

/* One worker's share of the scratch. */
typedef struct oc_gemm_slot {
    float *a, *b, *sums;
} oc_gemm_slot;

/* Rows [m, m + rows) x columns [n, n + cols) of C. */
typedef struct oc_gemm_tile {
    int64_t m, n, rows, cols;
} oc_gemm_tile;

struct oc_gemm_kernels {
    const char *name;
    bool (*runs_here)(void);
    int mr, nr;

    /* dst[k * width + line] in fp32; lines n .. width - 1 are zero. width is mr or nr. */
    void (*pack_a)(float *dst, const oc_gemm_strip *s);
    void (*pack_b)(float *dst, const oc_gemm_strip *s);
    /* sums[mr][nr] = (add ? sums : 0) + the product of two packed panels; rows >= `rows` may be
     * left. */
    void (*multiply)(int rows, int64_t k, const float *a, const float *b, float *sums, bool add,
                     oc_gemm_ahead *ahead);
    void (*finish)(const oc_gemm_dest *d, const float *sums, int64_t rows, int64_t cols);

    /* NULL: there are no kernels for few rows. few_width: the least they have for so many, at most
     * mr. few_pack packs rows of A, any width. */
    int (*few_width)(int rows);
    void (*few_pack)(float *dst, int width, const oc_gemm_strip *s);
    void (*few)(const oc_gemm_few *x);
    void (*few_pairs)(const oc_gemm_few *x); /* NULL, or those of pairs of bf16 */
    bool (*pairs_here)(void);                /* this machine can run them */
    int few_most; /* rows up to which they are faster than tiles, without pairs; measured */

    /* NULL: the loop of gemm.c over the entries above. Otherwise computes one tile of the fixed
     * shape tile_rows x tile_cols (smaller at the edges of C). */
    void (*tile)(const oc_gemm *g, const oc_gemm_slot *s, const oc_gemm_tile *t);
    int tile_rows, tile_cols;
};

static inline const void *oc_gemm_at(const void *p, oc_dtype t, int64_t element) {
    return (const char *)p + element * (int64_t)oc_dtype_bytes(t);
}

static inline float oc_gemm_get(const void *p, oc_dtype t, int64_t i) {
    if (t == OC_F32) return ((const float *)p)[i];
    if (t == OC_BF16) return oc_bf16_to_f32(((const uint16_t *)p)[i]);
    return oc_f16_to_f32(((const uint16_t *)p)[i]);
}

static inline void oc_gemm_put(void *p, oc_dtype t, int64_t i, float v) {
    if (t == OC_F32)
        ((float *)p)[i] = v;
    else if (t == OC_BF16)
        ((uint16_t *)p)[i] = oc_f32_to_bf16(v);
    else
        ((uint16_t *)p)[i] = oc_f32_to_f16(v);
}

/* The strip of op(x) that starts at (line, k). lines_are_rows: x's rows are the lines. */
static inline oc_gemm_strip oc_gemm_strip_of(const oc_mat *x, bool lines_are_rows, int64_t line,
                                             int64_t n, int64_t k0, int64_t k) {
    int64_t at = lines_are_rows ? line * x->ld + k0 : k0 * x->ld + line;
    oc_gemm_strip s = {oc_gemm_at(x->data, x->dtype, at), x->dtype, x->ld, n, k, lines_are_rows};
    return s;
}

static inline oc_gemm_dest oc_gemm_dest_of(const oc_gemm *g, int64_t m, int64_t n) {
    const oc_mat *c = &g->c;
    int64_t at = m * c->ld + n;
    oc_gemm_dest d = {(char *)c->data + at * (int64_t)oc_dtype_bytes(c->dtype),
                      c->dtype,
                      c->ld,
                      g->accumulate,
                      g->bias ? oc_gemm_at(g->bias, g->bias_dtype, n) : NULL,
                      g->bias_dtype,
                      g->residual ? oc_gemm_at(g->residual, c->dtype, at) : NULL};
    return d;
}

#if defined(__x86_64__)
#include <cpuid.h>
static inline bool oc_gemm_cpu_has_f16c(void) { /* not all compilers name it to cpu_supports */
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
}
#endif

#if defined(__x86_64__)
void oc_gemm_few_avx512bf16(const oc_gemm_few *x);
#endif

/* Packing and finishing in plain C, for any width; sums of a row are sums_ld apart. */
void oc_gemm_pack_plain(float *dst, int width, const oc_gemm_strip *s);
void oc_gemm_finish_plain(const oc_gemm_dest *d, const float *sums, int64_t sums_ld, int64_t rows,
                          int64_t cols);

#endif
