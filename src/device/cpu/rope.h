/* rope.h - rotary position embedding in place, for the CPU back end (struct oc_rope).
 *
 * The angle is position * inv_freq rounded to fp32, as the models were trained with; its cosine and
 * sine are right to fp32 rounding for any angle below 2^24. */
#ifndef OC_DEVICE_CPU_ROPE_H
#define OC_DEVICE_CPU_ROPE_H

#include "base/pool.h"
#include "device/device.h"

typedef struct oc_rope_kernels {
    const char *name;
    void (*rows)(const oc_rope *r, int64_t row, int64_t rows);
} oc_rope_kernels;

extern const oc_rope_kernels oc_rope_plain;
#if defined(__x86_64__)
extern const oc_rope_kernels oc_rope_avx2;
extern const oc_rope_kernels oc_rope_avx512;
#endif

void oc_rope_run(const oc_rope_kernels *k, oc_pool *pool, const oc_rope *r);

#endif
