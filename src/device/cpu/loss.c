/* loss.c - the fused cross-entropy over the pool: rows are independent, the loss is summed by the
 * caller's thread in order of rows. */
#include "device/cpu/cpu.h"

#include <math.h>

enum { IGNORED = -100 };

typedef struct ce_job {
    const oc_kernels *kernels;
    int64_t rows, n, v0, grain;
    const float *logits;
    const int32_t *labels;
    float *max, *sum, *target; /* update */
    const float *lse;          /* grad, with the rest */
    float dscale, cap;
    oc_dtype dtype;
    void *dlogits;
} ce_job;

static oc_ce_row row_of(const ce_job *j, int64_t i) {
    oc_ce_row r = {j->logits + i * j->n, j->n, j->labels[i] - j->v0, j->labels[i] == IGNORED};
    return r;
}

static void update_task(void *arg, int64_t task, int worker) {
    (void)worker;
    const ce_job *j = arg;
    int64_t end = oc_cpu_min((task + 1) * j->grain, j->rows);
    for (int64_t i = task * j->grain; i < end; i++) {
        oc_ce_row r = row_of(j, i);
        j->kernels->ce_update(&r, j->max + i, j->sum + i, j->target + i);
    }
}

static void grad_task(void *arg, int64_t task, int worker) {
    (void)worker;
    const ce_job *j = arg;
    int64_t end = oc_cpu_min((task + 1) * j->grain, j->rows);
    for (int64_t i = task * j->grain; i < end; i++) {
        oc_ce_row r = row_of(j, i);
        void *out = oc_cpu_at_mut(j->dlogits, j->dtype, i * j->n);
        j->kernels->ce_grad(&r, j->lse[i], j->dscale, j->cap, j->dtype, out);
    }
}

void oc_cpu_ce_init(oc_device *d, int64_t rows, float *max, float *sum, float *target) {
    (void)d;
    for (int64_t i = 0; i < rows; i++) {
        max[i] = -INFINITY;
        sum[i] = 0;
        target[i] = 0;
    }
}

void oc_cpu_ce_update(oc_device *d, int64_t rows, int64_t n, int64_t v0, const float *logits,
                      const int32_t *labels, float *max, float *sum, float *target) {
    ce_job j = {.kernels = oc_cpu_of(d)->kernels, .rows = rows, .n = n, .v0 = v0};
    j.grain = oc_cpu_row_grain(n);
    j.logits = logits;
    j.labels = labels;
    j.max = max;
    j.sum = sum;
    j.target = target;
    oc_pool_for(d->pool, oc_cpu_tasks(rows, j.grain), update_task, &j);
}

void oc_cpu_ce_loss(oc_device *d, int64_t rows, const int32_t *labels, const float *max,
                    const float *sum, const float *target, float *lse, double *loss_sum) {
    (void)d;
    double loss = 0;
    for (int64_t i = 0; i < rows; i++) {
        float x = max[i] + logf(sum[i]);
        if (labels[i] != IGNORED) loss += (double)x - (double)target[i];
        lse[i] = x;
    }
    *loss_sum = loss;
}

void oc_cpu_ce_scores(oc_device *d, int64_t rows, const int32_t *labels, const float *max,
                      const float *target, const float *lse, oc_token_score *scores) {
    (void)d;
    for (int64_t i = 0; i < rows; i++) {
        bool counts = labels[i] != IGNORED;
        scores[i] = (oc_token_score){counts ? (double)lse[i] - (double)target[i] : 0,
                                     counts && target[i] == max[i]};
    }
}

void oc_cpu_ce_grad(oc_device *d, int64_t rows, int64_t n, int64_t v0, const float *logits,
                    const int32_t *labels, const float *lse, const float *dscale, float soft_cap,
                    oc_dtype t, void *dlogits) {
    ce_job j = {.kernels = oc_cpu_of(d)->kernels, .rows = rows, .n = n, .v0 = v0};
    j.grain = oc_cpu_row_grain(n);
    j.logits = logits;
    j.labels = labels;
    j.lse = lse;
    j.dscale = *dscale;
    j.cap = soft_cap;
    j.dtype = t;
    j.dlogits = dlogits;
    oc_pool_for(d->pool, oc_cpu_tasks(rows, j.grain), grad_task, &j);
}

enum { ELEMENTS = 16384 }; /* a task's share */

typedef struct cap_job {
    const oc_kernels *kernels;
    int64_t n;
    float cap, *x;
} cap_job;

static void cap_task(void *arg, int64_t task, int worker) {
    (void)worker;
    const cap_job *j = arg;
    int64_t i = task * ELEMENTS;
    j->kernels->soft_cap(oc_cpu_min(ELEMENTS, j->n - i), j->cap, j->x + i);
}

void oc_cpu_soft_cap(oc_device *d, int64_t n, float cap, float *x) {
    cap_job j = {oc_cpu_of(d)->kernels, n, cap, x};
    oc_pool_for(d->pool, oc_cpu_tasks(n, ELEMENTS), cap_task, &j);
}
