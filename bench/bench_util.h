/* bench_util.h - what the measuring programs share. */
#ifndef OC_BENCH_UTIL_H
#define OC_BENCH_UTIL_H

#include "base/checked.h"
#include "base/dtype.h"

#include <stdlib.h>
#include <time.h>

static inline double bench_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* n values in [-1, 1) of dtype t, 64-byte aligned; the caller frees them. */
static inline void *bench_filled(int64_t n, oc_dtype t) {
    void *p = aligned_alloc(64, oc_align_up((uint64_t)n * oc_dtype_bytes(t), 64));
    if (!p) exit(1);
    for (int64_t i = 0; i < n; i++) {
        float v = (float)((i * 2654435761) >> 7 & 1023) / 512.0f - 1.0f;
        if (t == OC_F32)
            ((float *)p)[i] = v;
        else
            ((uint16_t *)p)[i] = t == OC_BF16 ? oc_f32_to_bf16(v) : oc_f32_to_f16(v);
    }
    return p;
}

static inline int bench_by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts x. */
static inline double bench_median(double *x, int n) {
    qsort(x, (size_t)n, sizeof *x, bench_by_value);
    return x[n / 2];
}

#endif
