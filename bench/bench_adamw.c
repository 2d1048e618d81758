/* bench_adamw - AdamW over fp32 p, m, v, g and a bf16 copy, against the machine's memory.
 *
 * usage: bench_adamw [cores [millions of parameters [rounds]]]
 *
 * Three kernels take turns, medians are printed: ours; one with the same memory streams (p, m, v
 * written in place, g read, the copy written around the caches) and no arithmetic; and a plain C
 * loop. Other load on the machine hits all three alike, so the ratios are what counts. */
#include "bench_util.h"

#include "device/device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { GRAIN = 32768, AHEAD = 256, ROUNDS_MAX = 101, BYTES_PER_PARAMETER = 4 * 7 + 2 };

typedef struct arrays {
    int64_t n;
    float *p, *m, *v, *g;
    uint16_t *copy;
} arrays;

/* ---- the same streams, no arithmetic: values move one array on ---- */

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static void streams_512(const arrays *a, int64_t i,
                                                           int64_t end) {
    for (; i < end; i += 16) {
        __builtin_prefetch(a->p + i + AHEAD, 1);
        __builtin_prefetch(a->m + i + AHEAD, 1);
        __builtin_prefetch(a->v + i + AHEAD, 1);
        __builtin_prefetch(a->g + i + AHEAD, 0);
        __m512 p = _mm512_loadu_ps(a->p + i), m = _mm512_loadu_ps(a->m + i);
        __m512 v = _mm512_loadu_ps(a->v + i);
        __m512i g = _mm512_srli_epi32(_mm512_castps_si512(_mm512_loadu_ps(a->g + i)), 16);
        _mm512_storeu_ps(a->p + i, m);
        _mm512_storeu_ps(a->m + i, v);
        _mm512_storeu_ps(a->v + i, p);
        _mm256_stream_si256((__m256i *)(void *)(a->copy + i), _mm512_cvtepi32_epi16(g));
    }
    _mm_sfence();
}

__attribute__((target("avx2"))) static void streams_256(const arrays *a, int64_t i, int64_t end) {
    for (; i < end; i += 8) {
        __builtin_prefetch(a->p + i + AHEAD, 1);
        __builtin_prefetch(a->m + i + AHEAD, 1);
        __builtin_prefetch(a->v + i + AHEAD, 1);
        __builtin_prefetch(a->g + i + AHEAD, 0);
        __m256 p = _mm256_loadu_ps(a->p + i), m = _mm256_loadu_ps(a->m + i);
        __m256 v = _mm256_loadu_ps(a->v + i), g = _mm256_loadu_ps(a->g + i);
        _mm256_storeu_ps(a->p + i, m);
        _mm256_storeu_ps(a->m + i, v);
        _mm256_storeu_ps(a->v + i, p);
        _mm_stream_si128((__m128i *)(void *)(a->copy + i),
                         _mm256_castsi256_si128(_mm256_castps_si256(g)));
    }
    _mm_sfence();
}
#endif

static void streams_task(void *arg, int64_t task, int worker) {
    (void)worker;
    const arrays *a = arg;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        streams_512(a, task * GRAIN, (task + 1) * GRAIN);
    } else {
        streams_256(a, task * GRAIN, (task + 1) * GRAIN);
    }
#else
    for (int64_t i = task * GRAIN; i < (task + 1) * GRAIN; i++) {
        float p = a->p[i];
        a->p[i] = a->m[i];
        a->m[i] = a->v[i];
        a->v[i] = p;
        a->copy[i] = (uint16_t)a->g[i];
    }
#endif
}

/* ---- what one would write first ---- */

static void plain_task(void *arg, int64_t task, int worker) {
    (void)worker;
    const arrays *a = arg;
    const float lr = 1e-4f, beta1 = 0.9f, beta2 = 0.999f, eps = 1e-8f, decay = 1 - lr * 0.01f;
    const float root2 = sqrtf(0.001f), step = lr / 0.1f;
    for (int64_t i = task * GRAIN; i < (task + 1) * GRAIN; i++) {
        float g = a->g[i];
        a->m[i] = beta1 * a->m[i] + (1 - beta1) * g;
        a->v[i] = beta2 * a->v[i] + (1 - beta2) * g * g;
        a->p[i] = a->p[i] * decay - step * (a->m[i] / (sqrtf(a->v[i]) / root2 + eps));
        a->copy[i] = oc_f32_to_bf16(a->p[i]);
    }
}

/* ---- measuring ---- */

static void *pages(uint64_t bytes) {
    uint64_t rounded = (bytes + (2 << 20) - 1) / (2 << 20) * (2 << 20);
    void *p = aligned_alloc(2 << 20, rounded);
    if (!p) {
        fprintf(stderr, "no memory for %llu bytes\n", (unsigned long long)bytes);
        exit(1);
    }
    madvise(p, rounded, MADV_HUGEPAGE);
    memset(p, 0, rounded);
    return p;
}

static double seconds(int which, oc_device *d, arrays *a) {
    const oc_update_scalars scalars = {.lr = 1e-4f, .bias1 = 0.1, .bias2 = 0.001, .coef = 1};
    oc_update u = {.kind = OC_ADAMW, .n = a->n, .p = a->p, .m = a->m, .v = a->v, .g = a->g};
    u.g_dtype = OC_F32;
    u.scalars = &scalars;
    u.copy = a->copy;
    u.copy_dtype = OC_BF16;
    u.beta1 = 0.9f;
    u.beta2 = 0.999f;
    u.eps = 1e-8f;
    u.weight_decay = 0.01f;
    double start = bench_now();
    if (which == 0) {
        d->ops->update(d, &u);
    } else {
        oc_pool_for(d->pool, a->n / GRAIN, which == 1 ? streams_task : plain_task, a);
    }
    return bench_now() - start;
}

/* Small positive numbers everywhere: no denormals, whatever moves where. */
static void fill(const arrays *a) {
    for (int64_t i = 0; i < a->n; i++) {
        float x = 0.5f + (float)(i % 1024) / 2048;
        a->p[i] = a->m[i] = a->v[i] = a->g[i] = x;
    }
}

static int run(oc_device *d, int64_t n, int rounds) {
    static const char *const names[3] = {"outcore", "same streams", "plain C"};
    static double took[3][ROUNDS_MAX];
    arrays a = {.n = n};
    a.p = pages((uint64_t)n * 4);
    a.m = pages((uint64_t)n * 4);
    a.v = pages((uint64_t)n * 4);
    a.g = pages((uint64_t)n * 4);
    a.copy = pages((uint64_t)n * 2);
    fill(&a);
    for (int r = -1; r < rounds; r++) { /* the first warms up */
        for (int w = 0; w < 3; w++) {
            double s = seconds(w, d, &a);
            if (r >= 0) took[w][r] = s;
        }
    }
    double base = bench_median(took[1], rounds);
    for (int w = 0; w < 3; w++) {
        double s = bench_median(took[w], rounds);
        printf("%-13s %7.2f GB/s  %6.1f M parameters/s  %.2f of the streams\n", names[w],
               BYTES_PER_PARAMETER * (double)n / s * 1e-9, (double)n / s * 1e-6, base / s);
    }
    free(a.p);
    free(a.m);
    free(a.v);
    free(a.g);
    free(a.copy);
    return 0;
}

int main(int argc, char **argv) {
    int cores = argc > 1 ? atoi(argv[1]) : 2, rounds = argc > 3 ? atoi(argv[3]) : 9;
    int64_t n = (argc > 2 ? atoll(argv[2]) : 16) * 1000000 / GRAIN * GRAIN;
    if (cores < 1 || n < GRAIN || rounds < 1 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: bench_adamw [cores [millions of parameters [rounds]]]\n");
        return 2;
    }
    oc_error err;
    oc_pool *pool;
    oc_device *d;
    if (oc_pool_open(&pool, cores, &err) != OC_OK ||
        oc_device_open_cpu(&d, pool, OC_ISA_BEST, &err) != OC_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    printf("AdamW, %lld parameters, %d cores, %s, median of %d rounds\n", (long long)n, cores,
           oc_device_kernels(d), rounds);
    int rc = run(d, n, rounds);
    oc_device_close(d);
    oc_pool_close(pool);
    return rc;
}
