/* program_internal.h - what the block programs share: sizes, places of weights, norms.
 *
 * Private to src/model (program*.c). */
#ifndef OC_PROGRAM_INTERNAL_H
#define OC_PROGRAM_INTERNAL_H

#include "model/program.h"

#include "base/checked.h"

enum { OC_AREA_ALIGN = 64 };

/* Widths of activations, in elements a token. */
typedef struct oc_widths {
    int64_t tokens, hidden, heads, kv, qkv, up, mid, embed;
    bool rms;
} oc_widths;

oc_widths oc_program_widths(const oc_program_shape *s);

/* Append an area of rows x cols elements; returns its offset. */
static inline uint64_t oc_area(uint64_t *end, int64_t rows, int64_t cols, size_t element_bytes) {
    uint64_t at = *end;
    *end = oc_align_up(at + (uint64_t)rows * (uint64_t)cols * element_bytes, OC_AREA_ALIGN);
    return at;
}

/* NULL when the block lacks it. */
static inline void *oc_weight_at(const oc_block *block, oc_dtype t, const void *flat, oc_weight k) {
    int64_t o = block->offset[k];
    return o < 0 ? NULL : (char *)(uintptr_t)flat + (size_t)o * oc_dtype_bytes(t);
}

/* Zero what no gradient op writes: the gaps between tensors and after the last. */
void oc_program_zero_padding(const oc_program_shape *s, const oc_block *block, void *grads);

/* The norm `k` of the block over [T, cols], without y and gradients. */
oc_norm oc_program_norm(const oc_program_shape *s, const oc_block *block, const void *weights,
                        oc_weight k, oc_weight bias, int64_t cols, const void *x, float *mean,
                        float *rstd);

/* Bytes of work that the front block's backward needs. */
uint64_t oc_program_front_work_bytes(const oc_program_shape *s);

#endif
