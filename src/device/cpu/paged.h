/* paged.h - exact attention over pages, for the CPU back end.
 *
 * The meaning is that of struct oc_paged_attention (device/device.h). Keys are taken in blocks of
 * OC_PAGED_KEYS that stand at fixed places of a sequence, with an online softmax from block to
 * block: a token's bits depend on its query and the keys it attends to, and on nothing else of the
 * pass. */
#ifndef OC_DEVICE_CPU_PAGED_H
#define OC_DEVICE_CPU_PAGED_H

#include "base/pool.h"
#include "device/device.h"

enum {
    OC_PAGED_KEYS = 64,  /* keys of a block */
    OC_PAGED_TOKENS = 16 /* tokens of a task, with all query heads of one head of k and v */
};

/* Tokens first .. first + n - 1 of a row, all query heads of one head of k and v. */
typedef struct oc_paged_task {
    const oc_paged_attention *a;
    int64_t row, first, n;
    int32_t head;
    float *scratch; /* oc_paged_scratch_floats() */
} oc_paged_task;

typedef struct oc_paged_kernels {
    const char *name;
    void (*attend)(const oc_paged_task *t);
} oc_paged_kernels;

extern const oc_paged_kernels oc_paged_plain;
#if defined(__x86_64__)
extern const oc_paged_kernels oc_paged_avx2;
extern const oc_paged_kernels oc_paged_avx512;
#endif

int64_t oc_paged_padded_dim(const oc_paged_attention *a);
int64_t oc_paged_scratch_floats(const oc_paged_attention *a);
uint64_t oc_paged_work_bytes(const oc_paged_attention *a, int pool_slots);
void oc_paged_append_run(oc_pool *pool, const oc_paged_attention *a);
void oc_paged_attention_run(const oc_paged_kernels *k, oc_pool *pool, const oc_paged_attention *a);

#endif
