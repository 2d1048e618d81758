/* optim.c - folding gradients and updating parameters over the pool. */
#include "device/cpu/cpu.h"

enum { UPDATE_GRAIN = 32768 }; /* parameters a task updates: 0.4 MB of each stream's pages */

typedef struct fold_job {
    const oc_kernels *kernels;
    oc_fold_span whole; /* partial: the first chunk's */
} fold_job;

static void fold_task(void *arg, int64_t task, int worker) {
    (void)worker;
    const fold_job *j = arg;
    int64_t i = task * OC_NORM_CHUNK;
    oc_fold_span s = j->whole;
    s.n = oc_cpu_min(OC_NORM_CHUNK, s.n - i);
    s.g = oc_cpu_at(s.g, s.g_dtype, i);
    s.acc = oc_cpu_at_mut(s.acc, s.acc_dtype, i);
    s.partial = s.partial ? s.partial + task : NULL;
    j->kernels->fold(&s);
}

void oc_cpu_fold(oc_device *d, int64_t n, const void *g, oc_dtype g_dtype, void *acc,
                 oc_dtype acc_dtype, bool first, double *partials) {
    if (g == acc && first && !partials) return;
    fold_job j = {oc_cpu_of(d)->kernels, {n, g, g_dtype, acc, acc_dtype, first, partials}};
    oc_pool_for(d->pool, oc_cpu_tasks(n, OC_NORM_CHUNK), fold_task, &j);
}

typedef struct update_job {
    const oc_kernels *kernels;
    const oc_update *update;
} update_job;

static void update_task(void *arg, int64_t task, int worker) {
    (void)worker;
    const update_job *j = arg;
    int64_t i = task * UPDATE_GRAIN;
    j->kernels->update(j->update, i, oc_cpu_min(i + UPDATE_GRAIN, j->update->n));
}

void oc_cpu_update(oc_device *d, const oc_update *u) {
    update_job j = {oc_cpu_of(d)->kernels, u};
    oc_pool_for(d->pool, oc_cpu_tasks(u->n, UPDATE_GRAIN), update_task, &j);
}
