/* attention.h - exact attention in tiles, forward and backward, for the CPU back end.
 *
 * The meaning is that of struct oc_attention (device/device.h). Nothing of size seq x seq is ever
 * stored: the forward is an online softmax over key tiles, the backward recomputes probabilities
 * from the log-sum-exp (Dao, FlashAttention-2, arXiv 2307.08691). Tiles stand at fixed positions of
 * a sequence, and a masked key adds an exact zero, so a token's bits depend only on its position
 * and on the keys it attends to: not on threads, nor on the other sequences, documents and lengths.
 */
#ifndef OC_DEVICE_CPU_ATTENTION_H
#define OC_DEVICE_CPU_ATTENTION_H

#include "base/pool.h"
#include "device/device.h"

enum {
    OC_ATTENTION_LANES = 48, /* queries (or keys) side by side in vectors: a multiple of any VF_N */
    OC_ATTENTION_TILE = OC_ATTENTION_GRAIN, /* tokens that stream at a time; also keys that stand */
    OC_ATTENTION_QUERIES = 192,             /* queries that stand */
    OC_ATTENTION_ROWS = 8                   /* row ranges are cut at multiples of this */
};

/* The part of one (sequence, head) that a task computes. scratch holds
 * oc_attention_scratch_floats() floats of the running thread. */
typedef struct oc_attention_task {
    const oc_attention *a;
    int64_t sequence, tile; /* of OC_ATTENTION_QUERIES; backward_kv: of OC_ATTENTION_TILE */
    int32_t head;           /* a query head; backward_kv: a head of k and v */
    const float *delta;     /* backward: [T, heads], the sum over a row of dout * out */
    float *dq; /* backward_kv: [heads / kv_heads][padded seq][padded head_dim]; NULL: none */
    float *scratch;
} oc_attention_task;

/* One instruction set's kernels. */
typedef struct oc_attention_kernels {
    const char *name;
    void (*forward)(const oc_attention_task *t); /* the queries of a tile: out, lse */
    void (*delta)(const oc_attention *a, int64_t row, int64_t rows, float *delta);
    void (*backward_kv)(const oc_attention_task *t); /* the keys of a tile: dk, dv; adds into dq */
    void (*backward_q)(const oc_attention_task *t);  /* the queries of a tile: dq, from delta */
    void (*store_dq)(const oc_attention_task *t);    /* scale * t->dq of all heads, rounded */
} oc_attention_kernels;

extern const oc_attention_kernels oc_attention_plain;
#if defined(__x86_64__)
extern const oc_attention_kernels oc_attention_avx2;
extern const oc_attention_kernels oc_attention_avx512;
#endif

/* The backward either makes one pass over the keys of each (sequence, kv head), keeping dq in fp32
 * (5 matrix products), or two passes with more and smaller tasks (7 products). Both give the same
 * bits, so AUTO may look at the number of cores. */
typedef enum oc_attention_passes {
    OC_ATTENTION_AUTO,
    OC_ATTENTION_ONE_PASS,
    OC_ATTENTION_TWO_PASSES
} oc_attention_passes;

/* Floats of head_dim in scratch rows: whole vectors of any width. */
static inline int64_t oc_attention_padded_dim(const oc_attention *a) {
    return ((int64_t)a->head_dim + 15) / 16 * 16;
}
static inline int64_t oc_attention_tiles(const oc_attention *a, int64_t tokens) {
    return (a->seq + tokens - 1) / tokens;
}
int64_t oc_attention_scratch_floats(const oc_attention *a);

/* Bytes of oc_attention.work, for forward and backward alike. Linear in the tokens. */
uint64_t oc_attention_work_bytes(const oc_attention *a, int pool_slots);
uint64_t oc_attention_work_bytes_for(const oc_attention *a, int pool_slots,
                                     oc_attention_passes passes);

/* a->work: 64-byte aligned, oc_attention_work_bytes(a, oc_pool_slots(pool)). */
void oc_attention_forward_run(const oc_attention_kernels *k, oc_pool *pool, const oc_attention *a);
void oc_attention_backward_run(const oc_attention_kernels *k, oc_pool *pool, const oc_attention *a);
void oc_attention_backward_run_for(const oc_attention_kernels *k, oc_pool *pool,
                                   const oc_attention *a, oc_attention_passes passes);

#endif
