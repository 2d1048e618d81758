/* few.c - cuts a product of few rows into tasks of the pool. */
#include "device/cpu/few.h"

typedef struct job {
    const oc_few_kernels *k;
    const oc_gemm *g;
} job;

static void columns(void *arg, int64_t task, int worker) {
    const job *j = arg;
    int64_t n = task * OC_FEW_COLUMNS, left = j->g->c.cols - n;
    (void)worker;
    j->k->columns(j->g, n, left < OC_FEW_COLUMNS ? left : OC_FEW_COLUMNS);
}

bool oc_few_takes(const oc_gemm *g) {
    int64_t most = g->b.dtype == OC_F32 ? OC_GEMM_FEW_ROWS / 3 : OC_GEMM_FEW_ROWS; /* measured */
    bool asked = g->kernel == OC_GEMM_FEW || (g->kernel == OC_GEMM_AUTO && g->c.rows <= most);
    return asked && g->trans_b && !g->trans_a && !g->accumulate;
}

void oc_few_run(const oc_few_kernels *k, oc_pool *pool, const oc_gemm *g) {
    job j = {k, g};
    oc_pool_for(pool, (g->c.cols + OC_FEW_COLUMNS - 1) / OC_FEW_COLUMNS, columns, &j);
}
