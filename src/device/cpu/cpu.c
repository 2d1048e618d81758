/* cpu.c - the CPU back end: picks the kernels of an instruction set, and is the table over them. */
#include "device/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>

/* One instruction set's kernels for every op. */
typedef struct isa_kernels {
    oc_isa isa;
    const oc_kernels *kernels;
    const oc_attention_kernels *attention;
    const oc_rope_kernels *rope;
    const oc_paged_kernels *paged;
} isa_kernels;

/* Best first. */
static const isa_kernels isa_table[] = {
#if defined(__x86_64__)
    {OC_ISA_AVX512, &oc_kernels_avx512, &oc_attention_avx512, &oc_rope_avx512, &oc_paged_avx512},
    {OC_ISA_AVX2, &oc_kernels_avx2, &oc_attention_avx2, &oc_rope_avx2, &oc_paged_avx2},
#endif
    {OC_ISA_PLAIN, &oc_kernels_plain, &oc_attention_plain, &oc_rope_plain, &oc_paged_plain},
};

/* All files of one instruction set are compiled for the same features, so where gemm runs, all do.
 */
static const isa_kernels *find_kernels(oc_isa isa) {
    for (size_t i = 0; i < sizeof isa_table / sizeof isa_table[0]; i++) {
        const isa_kernels *k = &isa_table[i];
        if ((isa == OC_ISA_BEST || isa == k->isa) && oc_gemm_default(k->isa)) return k;
    }
    return NULL;
}

static uint64_t oc_cpu_scratch_bytes(const oc_device *d) {
    return oc_gemm_scratch_bytes(oc_pool_slots(d->pool));
}

static void oc_cpu_lend_scratch(oc_device *d, void *scratch) { oc_cpu_of(d)->scratch = scratch; }

static void oc_cpu_gemm(oc_device *d, const oc_gemm *g) {
    oc_cpu *c = oc_cpu_of(d);
    int64_t m = g->trans_a ? g->a.cols : g->a.rows, ka = g->trans_a ? g->a.rows : g->a.cols;
    int64_t kb = g->trans_b ? g->b.cols : g->b.rows, n = g->trans_b ? g->b.rows : g->b.cols;
    bool fits = m == g->c.rows && n == g->c.cols && ka == kb;
    if (!c->scratch || !fits || (g->accumulate && g->c.dtype != OC_F32)) {
        oc_device_set_failed(d, OC_E_INVALID);
        return;
    }
    oc_gemm_run(c->gemm, d->pool, c->scratch, g);
}

static uint64_t oc_cpu_attention_work_bytes(const oc_device *d, const oc_attention *a) {
    return oc_attention_work_bytes(a, oc_pool_slots(d->pool));
}

static void oc_cpu_attention_forward(oc_device *d, const oc_attention *a) {
    oc_attention_forward_run(oc_cpu_of(d)->attention, d->pool, a);
}

static void oc_cpu_attention_backward(oc_device *d, const oc_attention *a) {
    oc_attention_backward_run(oc_cpu_of(d)->attention, d->pool, a);
}

static uint64_t oc_cpu_attention_paged_work_bytes(const oc_device *d, const oc_paged_attention *a) {
    return oc_paged_work_bytes(a, d->pool);
}

static void oc_cpu_attention_paged(oc_device *d, const oc_paged_attention *a) {
    oc_paged_attention_run(oc_cpu_of(d)->paged, oc_cpu_of(d)->gemm, d->pool, a);
}

static void oc_cpu_pages_append(oc_device *d, const oc_paged_attention *a) {
    oc_paged_append_run(d->pool, a);
}

static void oc_cpu_rope(oc_device *d, const oc_rope *r) {
    oc_rope_run(oc_cpu_of(d)->rope, d->pool, r);
}

static const oc_device_ops cpu_ops = {
    .name = "cpu",
    OC_DEVICE_ENTRIES(oc_cpu_),
    .open_memory = oc_device_open_host_memory,
};

static void cpu_close(oc_device *d) { free(d->impl); }

oc_status oc_device_open_cpu(oc_device **out, oc_pool *pool, oc_isa isa, oc_error *err) {
    *out = NULL;
    if (!pool) return oc_fail(err, OC_E_INVALID, "the CPU device needs a thread pool; open one");
    const isa_kernels *k = find_kernels(isa);
    if (!k) {
        const char *name = isa == OC_ISA_AVX512 ? "AVX-512 (F, BW, DQ, VL)" : "AVX2 with FMA";
        return oc_fail(err, OC_E_UNSUPPORTED,
                       "this machine does not run %s kernels; ask for the best it has", name);
    }
    oc_cpu *c = calloc(1, sizeof *c);
    if (!c) return oc_fail(err, OC_E_MEMORY, "no memory for the CPU device (%zu bytes)", sizeof *c);
    c->kernels = k->kernels;
    c->attention = k->attention;
    c->rope = k->rope;
    c->paged = k->paged;
    c->gemm = oc_gemm_default(k->isa);
    snprintf(c->kernel_names, sizeof c->kernel_names, "%s gemm:%s%s", k->kernels->name,
             oc_gemm_name(c->gemm), oc_gemm_takes_pairs(c->gemm) ? " few:bf16 pairs" : "");
    c->impl.close = cpu_close;
    c->impl.kernels = c->kernel_names;
    atomic_init(&c->impl.failed, OC_OK);
    c->device.ops = &cpu_ops;
    c->device.pool = pool;
    c->device.impl = &c->impl;
    *out = &c->device;
    return OC_OK;
}
