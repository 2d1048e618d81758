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

const oc_few_kernels *oc_few_best(const oc_few_kernels *of_isa) {
#if defined(__x86_64__)
    if (of_isa == &oc_few_avx512 && __builtin_cpu_supports("avx512bf16")) return &oc_few_avx512bf16;
#endif
    return of_isa;
}

static int64_t most_rows(const oc_few_kernels *k, const oc_gemm *g) {
    if (g->b.dtype == OC_F32) return k->most_f32;
    return g->b.dtype == OC_BF16 ? k->most_bf16 : k->most_f16;
}

bool oc_few_takes(const oc_few_kernels *k, const oc_gemm *g) {
    bool asked =
        g->kernel == OC_GEMM_FEW || (g->kernel == OC_GEMM_AUTO && g->c.rows <= most_rows(k, g));
    return asked && g->a.dtype == g->b.dtype && g->trans_b && !g->trans_a && !g->accumulate;
}

void oc_few_run(const oc_few_kernels *k, oc_pool *pool, const oc_gemm *g) {
    job j = {k, g};
    oc_pool_for(pool, (g->c.cols + OC_FEW_COLUMNS - 1) / OC_FEW_COLUMNS, columns, &j);
}
