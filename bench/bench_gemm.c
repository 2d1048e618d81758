/* bench_gemm - GF/s of each kernel set on the products of training, beside dnnl_sgemm with the
 * library's own threading. Rounds are interleaved; medians are printed.
 *
 *   bench_gemm [threads [rounds [first-shape [last-shape]]]] */
#include "bench_util.h"

#include "base/checked.h"
#include "base/pool.h"
#include "device/cpu/gemm.h"

#include <dlfcn.h>
#include <dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS_MAX = 99 };

typedef struct shape {
    const char *name;
    int64_t m, n, k;
    bool trans_a, trans_b, accumulate;
    int times; /* products per timing */
} shape;

/* X W^T, dY W, dY^T X for T tokens and a W[out, in]; then vocabulary tiles of 1024; then decode. */
static const shape shapes[] = {
    {"forward T512 2048->2048", 512, 2048, 2048, false, true, false, 4},
    {"forward T2048 2048->2048", 2048, 2048, 2048, false, true, false, 1},
    {"forward T256 4096->11008", 256, 11008, 4096, false, true, false, 1},
    {"forward T1024 512->1536", 1024, 1536, 512, false, true, false, 8},
    {"dX T512 2048->2048", 512, 2048, 2048, false, false, false, 4},
    {"dX T1024 2048->5632", 1024, 2048, 5632, false, false, false, 1},
    {"dX T256 4096->4096", 256, 4096, 4096, false, false, false, 2},
    {"dW T512 2048->2048", 2048, 2048, 512, true, false, false, 4},
    {"dW T4096 1024->1024", 1024, 1024, 4096, true, false, false, 2},
    {"dW T256 4096->4096", 4096, 4096, 256, true, false, false, 2},
    {"logits T1024 h2048", 1024, 1024, 2048, false, true, false, 4},
    {"logits dX T1024 h2048", 1024, 2048, 1024, false, false, true, 4},
    {"logits dW T1024 h2048", 1024, 2048, 1024, true, false, false, 4},
    {"decode M8 4096->4096", 8, 4096, 4096, false, true, false, 16},
    {"decode M1 4096->4096", 1, 4096, 4096, false, true, false, 16},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

typedef struct entry {
    const char *name;
    const oc_gemm_kernels *kernels; /* NULL: dnnl_sgemm */
    oc_dtype dtype;
    double seconds[ROUNDS_MAX];
} entry;

static void set_library_threads(int n) {
    void (*set)(int) = NULL;
    void *symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    memcpy(&set, &symbol, sizeof set);
    if (set) set(n);
}

static oc_gemm product_of(const shape *s, oc_dtype t) {
    oc_gemm g = {.trans_a = s->trans_a, .trans_b = s->trans_b, .accumulate = s->accumulate};
    oc_dtype ct = s->accumulate ? OC_F32 : t;
    g.a = s->trans_a ? oc_mat_of(bench_filled(s->k * s->m, t), t, s->k, s->m, s->m)
                     : oc_mat_of(bench_filled(s->m * s->k, t), t, s->m, s->k, s->k);
    g.b = s->trans_b ? oc_mat_of(bench_filled(s->n * s->k, t), t, s->n, s->k, s->k)
                     : oc_mat_of(bench_filled(s->k * s->n, t), t, s->k, s->n, s->n);
    g.c = oc_mat_of(bench_filled(s->m * s->n, ct), ct, s->m, s->n, s->n);
    return g;
}

static void run_library(const shape *s, const oc_gemm *g, int threads) {
    set_library_threads(threads);
    dnnl_sgemm(s->trans_a ? 'T' : 'N', s->trans_b ? 'T' : 'N', s->m, s->n, s->k, 1.0f, g->a.data,
               g->a.ld, g->b.data, g->b.ld, s->accumulate ? 1.0f : 0.0f, g->c.data, g->c.ld);
}

static void bench_shape(const shape *s, entry *e, int entries, oc_pool *pool, void *scratch,
                        int rounds) {
    oc_gemm g[OC_DTYPE_COUNT];
    for (int t = 0; t < OC_DTYPE_COUNT; t++)
        g[t] = product_of(s, (oc_dtype)t);
    for (int r = -1; r < rounds; r++) /* round -1 warms up */
        for (int i = 0; i < entries; i++) {
            const oc_gemm *p = &g[e[i].dtype];
            double start = bench_now();
            for (int x = 0; x < s->times; x++) {
                if (e[i].kernels)
                    oc_gemm_run(e[i].kernels, pool, scratch, p);
                else
                    run_library(s, p, oc_pool_cores(pool));
            }
            if (r >= 0) e[i].seconds[r] = (bench_now() - start) / s->times;
        }
    double flops = 2.0 * (double)s->m * (double)s->n * (double)s->k;
    printf("%-26s", s->name);
    for (int i = 0; i < entries; i++) {
        printf(" %14.1f", flops / bench_median(e[i].seconds, rounds) * 1e-9);
    }
    printf("\n");
    fflush(stdout);
    for (int t = 0; t < OC_DTYPE_COUNT; t++) {
        free(g[t].a.data);
        free(g[t].b.data);
        free(g[t].c.data);
    }
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 1, rounds = argc > 2 ? atoi(argv[2]) : 5;
    int first = argc > 3 ? atoi(argv[3]) : 0, last = argc > 4 ? atoi(argv[4]) : SHAPES - 1;
    if (threads < 1 || rounds < 1 || rounds > ROUNDS_MAX || first < 0 || last >= SHAPES) return 1;
    oc_error err;
    oc_pool *pool;
    if (oc_pool_open(&pool, threads, &err) != OC_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    uint64_t bytes = oc_align_up(oc_gemm_scratch_bytes(oc_pool_slots(pool)), 64);
    void *scratch = aligned_alloc(64, bytes);
    const oc_gemm_kernels *best = oc_gemm_default(OC_ISA_BEST);
    const oc_gemm_kernels *avx2 = oc_gemm_default(OC_ISA_AVX2);
    if (!scratch || !best) return 1;
    entry e[8] = {{.name = "dnnl_sgemm", .dtype = OC_F32}};
    int n = 1;
    e[n++] = (entry){.name = "best fp32", .kernels = best, .dtype = OC_F32};
    e[n++] = (entry){.name = "best bf16", .kernels = best, .dtype = OC_BF16};
    e[n++] = (entry){.name = "best fp16", .kernels = best, .dtype = OC_F16};
    if (avx2 && avx2 != best) e[n++] = (entry){.name = "avx2", .kernels = avx2, .dtype = OC_F32};
    if (oc_gemm_runs_here(&oc_gemm_onednn)) {
        e[n++] = (entry){.name = "tiles fp32", .kernels = &oc_gemm_onednn, .dtype = OC_F32};
        e[n++] = (entry){.name = "tiles bf16", .kernels = &oc_gemm_onednn, .dtype = OC_BF16};
    }
    printf("GF/s, %d threads, best = %s, tiles = %s\n%-26s", threads, oc_gemm_name(best),
           oc_gemm_name(&oc_gemm_onednn), "");
    for (int i = 0; i < n; i++)
        printf(" %14s", e[i].name);
    printf("\n");
    for (int s = first; s <= last; s++)
        bench_shape(&shapes[s], e, n, pool, scratch, rounds);
    free(scratch);
    oc_pool_close(pool);
    return 0;
}
