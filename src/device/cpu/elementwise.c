/* elementwise.c - the small ops over the pool: bias gradients, scaled sums, copies, fills. */
#include "device/cpu/cpu.h"

#include <string.h>

typedef struct bias_job {
    const oc_kernels *kernels;
    oc_dtype dtype;
    int64_t rows, cols, ld, strip;
    const void *dy;
    void *db;
} bias_job;

static void bias_task(void *arg, int64_t task, int worker) {
    (void)worker;
    const bias_job *j = arg;
    int64_t col = task * j->strip;
    j->kernels->bias_grad(j->dtype, j->rows, oc_cpu_min(j->strip, j->cols - col),
                          oc_cpu_at(j->dy, j->dtype, col), j->ld,
                          oc_cpu_at_mut(j->db, j->dtype, col));
}

void oc_cpu_bias_grad(oc_device *d, oc_dtype t, int64_t rows, int64_t cols, const void *dy,
                      int64_t ld, void *db) {
    bias_job j = {oc_cpu_of(d)->kernels, t, rows, cols, ld, oc_cpu_strip(cols), dy, db};
    oc_pool_for(d->pool, oc_cpu_tasks(cols, j.strip), bias_task, &j);
}

enum { ELEMENTS = 32768, BYTES = 1 << 20 }; /* a task's share */

typedef struct scale_job {
    const oc_kernels *kernels;
    oc_dtype dtype;
    int64_t n;
    float scale;
    const void *a, *b;
    void *out;
} scale_job;

static void scale_task(void *arg, int64_t task, int worker) {
    (void)worker;
    const scale_job *j = arg;
    int64_t i = task * ELEMENTS;
    j->kernels->scale_add(j->dtype, oc_cpu_min(ELEMENTS, j->n - i), oc_cpu_at(j->a, j->dtype, i),
                          j->scale, j->b ? oc_cpu_at(j->b, j->dtype, i) : NULL,
                          oc_cpu_at_mut(j->out, j->dtype, i));
}

void oc_cpu_scale_add(oc_device *d, oc_dtype t, int64_t n, const void *a, float scale,
                      const void *b, void *out) {
    scale_job j = {oc_cpu_of(d)->kernels, t, n, scale, a, b, out};
    oc_pool_for(d->pool, oc_cpu_tasks(n, ELEMENTS), scale_task, &j);
}

typedef struct bytes_job {
    const oc_kernels *k;
    unsigned char *dst;
    const unsigned char *src; /* NULL: the value */
    uint64_t bytes;
    uint8_t value;
} bytes_job;

static void bytes_task(void *arg, int64_t task, int worker) {
    (void)worker;
    const bytes_job *j = arg;
    uint64_t at = (uint64_t)task * BYTES, n = j->bytes - at < BYTES ? j->bytes - at : BYTES;
    if (j->src) {
        j->k->copy(j->dst + at, j->src + at, n);
    } else {
        memset(j->dst + at, j->value, n);
    }
}

void oc_cpu_copy(oc_device *d, void *dst, const void *src, uint64_t bytes) {
    bytes_job j = {oc_cpu_of(d)->kernels, dst, src, bytes, 0};
    oc_pool_for(d->pool, oc_cpu_tasks((int64_t)bytes, BYTES), bytes_task, &j);
}

void oc_cpu_fill(oc_device *d, void *dst, uint8_t value, uint64_t bytes) {
    bytes_job j = {NULL, dst, NULL, bytes, value};
    oc_pool_for(d->pool, oc_cpu_tasks((int64_t)bytes, BYTES), bytes_task, &j);
}

void oc_cpu_zero(oc_device *d, void *dst, uint64_t bytes) { oc_cpu_fill(d, dst, 0, bytes); }
