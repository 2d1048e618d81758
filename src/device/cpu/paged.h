/* paged.h - exact attention over pages, for the CPU back end.
 *
 * The meaning is that of struct oc_paged_attention (device/device.h). Keys are taken in blocks of
 * OC_PAGED_KEYS that stand at fixed places of a sequence, with an online softmax from block to
 * block within a span of OC_PAGED_SPAN keys, and spans are put together in order: a token's bits
 * depend on its query and the keys it attends to, and on nothing else of the pass. How many queries
 * a task takes, whether it takes all spans or one, and how it gets at the keys is free. */
#ifndef OC_DEVICE_CPU_PAGED_H
#define OC_DEVICE_CPU_PAGED_H

#include "base/pool.h"
#include "device/cpu/gemm.h"
#include "device/device.h"

enum {
    OC_PAGED_KEYS = 64,    /* of a block */
    OC_PAGED_SPAN = 512,   /* keys */
    OC_PAGED_QUERIES = 96, /* of a task, about: tokens x the query heads of a head of k and v */
    OC_PAGED_FEW = 16,     /* queries for which keys are read as they lie */
    OC_PAGED_SPARE = 16    /* queries' worth of scores beyond, for those kernels to write to */
};

/* Tokens first .. first + n - 1 of a row, all query heads of one head of k and v. */
typedef struct oc_paged_task {
    const oc_paged_attention *a;
    const oc_gemm_kernels *gemm;
    int64_t row, first, n;
    int32_t head;
    float *scratch; /* oc_paged_scratch_floats() */
} oc_paged_task;

/* What comes of the keys of a span, or of several: of each query its scores' maximum, the sum of
 * exp(score - maximum), and the values' sum weighted alike, [queries][padded dim]. */
typedef struct oc_paged_part {
    float *max, *sum, *out;
} oc_paged_part;

typedef struct oc_paged_kernels {
    const char *name;
    void (*attend)(const oc_paged_task *t);
    /* The same in steps: a span to `to`, and then all spans, part by part, to the result. Number 0
     * is the first span that the task's tokens attend to. */
    void (*attend_span)(const oc_paged_task *t, int64_t span, const oc_paged_part *to);
    void (*join)(const oc_paged_task *t, const oc_paged_part *parts, int64_t spans);
} oc_paged_kernels;

extern const oc_paged_kernels oc_paged_plain;
#if defined(__x86_64__)
extern const oc_paged_kernels oc_paged_avx2;
extern const oc_paged_kernels oc_paged_avx512;
#endif

int64_t oc_paged_padded_dim(const oc_paged_attention *a);
int64_t oc_paged_scratch_floats(const oc_paged_attention *a);
uint64_t oc_paged_work_bytes(const oc_paged_attention *a, const oc_pool *pool);
void oc_paged_append_run(oc_pool *pool, const oc_paged_attention *a);
void oc_paged_attention_run(const oc_paged_kernels *k, const oc_gemm_kernels *gemm, oc_pool *pool,
                            const oc_paged_attention *a);

#endif
