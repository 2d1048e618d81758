/* bench_attention - attention's rate on the matrix products it needs: 4 head_dim operations a
 * (query, key) pair forward, 10 backward.
 *
 * usage: bench_attention [cores [rounds]]. Best of `rounds` after one warm-up. On one core the time
 * is the thread's own, so that other load disturbs less. */
#include "base/pool.h"
#include "device/cpu/attention.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct setting {
    int64_t batch, seq;
    int32_t heads, kv_heads, head_dim;
    int64_t window;
    float soft_cap;
    bool alibi;
} setting;

static const setting SETTINGS[] = {
    {1, 1024, 8, 8, 64, 0, 0, false},   {1, 4096, 2, 2, 64, 0, 0, false},
    {1, 1024, 4, 4, 128, 0, 0, false},  {1, 4096, 1, 1, 128, 0, 0, false},
    {1, 2048, 8, 2, 128, 0, 0, false},  {8, 256, 4, 2, 64, 0, 0, false},
    {1, 2048, 4, 4, 80, 0, 0, false},   {1, 2048, 2, 2, 256, 0, 0, false},
    {1, 4096, 4, 2, 64, 512, 0, false}, {1, 2048, 2, 2, 256, 0, 50, false},
    {1, 2048, 8, 2, 128, 0, 50, false}, {1, 2048, 8, 2, 128, 0, 0, true},
    {1, 4096, 4, 2, 64, 512, 50, true},
};

typedef struct buffers {
    void *qkv, *out, *dout, *dqkv, *work;
    float *lse, *slopes;
    int32_t *starts;
} buffers;

static double now(int cores) {
    struct timespec t;
    clock_gettime(cores == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *filled(int64_t n, oc_dtype t) {
    float *x = malloc((size_t)n * sizeof *x);
    void *p = malloc((size_t)n * oc_dtype_bytes(t));
    uint32_t state = 1;
    if (!x || !p) exit(1);
    for (int64_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
    }
    oc_convert(p, t, x, OC_F32, (size_t)n);
    free(x);
    return p;
}

static oc_attention prepare(buffers *b, const setting *s, oc_dtype t, const oc_pool *pool,
                            oc_attention_passes passes) {
    int64_t rows = s->batch * s->seq, q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    int64_t ld = q + 2 * kv;
    size_t size = oc_dtype_bytes(t);
    b->qkv = filled(rows * ld, t);
    b->dqkv = filled(rows * ld, t);
    b->out = filled(rows * q, t);
    b->dout = filled(rows * q, t);
    b->lse = calloc((size_t)(rows * s->heads), sizeof *b->lse);
    b->starts = calloc((size_t)rows, sizeof *b->starts);
    b->slopes = filled(s->heads, OC_F32);
    char *in = b->qkv, *grad = b->dqkv;
    oc_attention a = {.dtype = t, .batch = s->batch, .seq = s->seq, .heads = s->heads};
    a.kv_heads = s->kv_heads;
    a.head_dim = s->head_dim;
    a.scale = 0.125f;
    a.soft_cap = s->soft_cap;
    a.slopes = s->alibi ? b->slopes : NULL;
    a.window = s->window;
    a.doc_start = b->starts;
    a.q = in;
    a.k = in + (size_t)q * size;
    a.v = in + (size_t)(q + kv) * size;
    a.dq = grad;
    a.dk = grad + (size_t)q * size;
    a.dv = grad + (size_t)(q + kv) * size;
    a.q_ld = a.k_ld = a.v_ld = ld;
    a.out = b->out;
    a.dout = b->dout;
    a.out_ld = q;
    a.lse = b->lse;
    uint64_t bytes = oc_attention_work_bytes_for(&a, oc_pool_slots(pool), passes);
    b->work = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
    if (!b->work || !b->lse || !b->starts) exit(1);
    a.work = b->work;
    return a;
}

static void release(buffers *b) {
    free(b->qkv);
    free(b->dqkv);
    free(b->out);
    free(b->dout);
    free(b->lse);
    free(b->starts);
    free(b->slopes);
    free(b->work);
}

static double pairs(const setting *s) {
    double n = 0;
    for (int64_t t = 0; t < s->seq; t++)
        n += (double)(s->window > 0 && t + 1 > s->window ? s->window : t + 1);
    return n * (double)(s->batch * s->heads);
}

static void measure(const setting *s, oc_dtype t, const oc_attention_kernels *k, oc_pool *pool,
                    int rounds) {
    double best[3] = {1e30, 1e30, 1e30}, ops = pairs(s) * (double)s->head_dim;
    int cores = oc_pool_cores(pool);
    buffers b;
    oc_attention a = prepare(&b, s, t, pool, OC_ATTENTION_ONE_PASS);
    for (int r = 0; r <= rounds; r++) {
        for (int what = 0; what < 3; what++) {
            double start = now(cores);
            if (what == 0)
                oc_attention_forward_run(k, pool, &a);
            else
                oc_attention_backward_run_for(k, pool, &a, (oc_attention_passes)what);
            double took = now(cores) - start;
            if (r > 0 && took < best[what]) best[what] = took;
        }
    }
    release(&b);
    printf("%3lld x %5lld  heads %2d/%2d  dim %3d  window %4lld%s%s  %s %-7s", (long long)s->batch,
           (long long)s->seq, s->heads, s->kv_heads, s->head_dim, (long long)s->window,
           s->soft_cap > 0 ? "  capped" : "", s->alibi ? "  alibi" : "", oc_dtype_name(t), k->name);
    printf("  forward %6.1f  backward, one pass %6.1f, two %6.1f GF/s  (%.2f %.2f %.2f ms)\n",
           4.0 * ops / best[0] / 1e9, 10.0 * ops / best[1] / 1e9, 10.0 * ops / best[2] / 1e9,
           best[0] * 1e3, best[1] * 1e3, best[2] * 1e3);
}

int main(int argc, char **argv) {
    int cores = argc > 1 ? atoi(argv[1]) : 1, rounds = argc > 2 ? atoi(argv[2]) : 5;
    const oc_attention_kernels *k = &oc_attention_plain;
    oc_pool *pool;
    oc_error err;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) k = &oc_attention_avx2;
    if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        k = &oc_attention_avx512;
#endif
    if (oc_pool_open(&pool, cores, &err) != OC_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    for (size_t i = 0; i < sizeof SETTINGS / sizeof *SETTINGS; i++) {
        measure(&SETTINGS[i], OC_F32, k, pool, rounds);
        measure(&SETTINGS[i], OC_BF16, k, pool, rounds);
    }
    oc_pool_close(pool);
    return 0;
}
