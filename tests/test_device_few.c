/* What a row comes to does not depend on the company it keeps: products of few rows, and attention
 * over pages however a sequence is cut into passes; for every instruction set that this machine
 * runs. */
#include "cmocka_all.h"
#include "device/device.h"

#include <stdlib.h>
#include <string.h>

enum { K = 333, N = 77, MOST = 70 };

typedef struct bench {
    oc_pool *pool;
    oc_device *device;
    void *scratch;
    uint64_t seed;
} bench;

static bool bench_open(bench *b, oc_isa isa, int cores) {
    oc_error err;
    *b = (bench){.seed = 5};
    assert_int_equal(oc_pool_open(&b->pool, cores, &err), OC_OK);
    if (oc_device_open_cpu(&b->device, b->pool, isa, &err) != OC_OK) {
        oc_pool_close(b->pool);
        return false;
    }
    b->scratch = aligned_alloc(64, b->device->ops->scratch_bytes(b->device));
    b->device->ops->lend_scratch(b->device, b->scratch);
    return true;
}

static void bench_close(bench *b) {
    assert_int_equal(oc_device_status(b->device), OC_OK);
    oc_device_close(b->device);
    oc_pool_close(b->pool);
    free(b->scratch);
}

static void *values(bench *b, oc_dtype t, size_t n) {
    float *x = calloc(n, sizeof *x);
    void *out = aligned_alloc(64, (n * sizeof *x + 63) / 64 * 64);
    for (size_t i = 0; i < n; i++) {
        b->seed = b->seed * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)(int32_t)(b->seed >> 32) * 0x1p-31f;
    }
    oc_convert(out, t, x, OC_F32, n);
    free(x);
    return out;
}

/* ---- products ---- */

static void few_rows(bench *b, oc_dtype t, const void *a, const void *w, int64_t first, int64_t n,
                     void *c) {
    oc_gemm g = {.trans_b = true, .kernel = OC_GEMM_FEW, .bias = w, .bias_dtype = t};
    g.a = oc_mat_of((const char *)a + (size_t)(first * K) * oc_dtype_bytes(t), t, n, K, K);
    g.b = oc_mat_of(w, t, N, K, K);
    g.c = oc_mat_of(c, t, n, N, N);
    b->device->ops->gemm(b->device, &g);
}

static void check_rows(bench *b, oc_dtype t) {
    void *a = values(b, t, MOST * K), *w = values(b, t, N * K);
    char *all = malloc(MOST * N * 4), *some = malloc(MOST * N * 4);
    size_t row = N * oc_dtype_bytes(t);
    few_rows(b, t, a, w, 0, MOST, all);
    for (int64_t n = 1; n <= 9; n++)
        for (int64_t first = 0; first + n <= MOST; first += n) {
            few_rows(b, t, a, w, first, n, some);
            assert_memory_equal(some, all + (size_t)first * row, (size_t)n * row);
        }
    free(a);
    free(w);
    free(all);
    free(some);
}

static void a_row_of_a_product_does_not_depend_on_the_others(void **state) {
    (void)state;
    for (int isa = OC_ISA_PLAIN; isa <= OC_ISA_AVX512; isa++)
        for (int cores = 1; cores <= 3; cores += 2) {
            bench b;
            if (!bench_open(&b, (oc_isa)isa, cores)) continue;
            for (int t = 0; t < OC_DTYPE_COUNT; t++)
                check_rows(&b, (oc_dtype)t);
            bench_close(&b);
        }
}

/* ---- attention ---- */

enum {
    TOKENS = 150,
    HEADS = 6,
    KV = 2,
    DIM = 20,
    PAGE = 16,
    PAGES = 10,
    LD = (HEADS + 2 * KV) * DIM
};

typedef struct sequence {
    oc_dtype t;
    char *qkv, *out; /* [TOKENS] */
    int32_t pages[PAGES];
} sequence;

static oc_paged_attention attention_of(bench *b, const sequence *x, char *kv, void **work) {
    oc_paged_attention a = {.dtype = x->t,
                            .heads = HEADS,
                            .kv_heads = KV,
                            .head_dim = DIM,
                            .scale = 0.3f,
                            .window = 90,
                            .soft_cap = 5,
                            .pages_ld = PAGES,
                            .page_tokens = PAGE,
                            .keys = TOKENS,
                            .kv = kv,
                            .q_ld = LD,
                            .k_ld = LD,
                            .v_ld = LD,
                            .out_ld = HEADS * DIM};
    a.tokens = 2 * TOKENS;
    a.rows = 2;
    *work = aligned_alloc(64, b->device->ops->attention_paged_work_bytes(b->device, &a));
    a.work = *work;
    return a;
}

/* Tokens [from, to) of the sequence as a row beside another sequence's. */
static void pass(bench *b, const sequence *x, const sequence *other, char *kv, int from, int to) {
    size_t e = oc_dtype_bytes(x->t);
    oc_paged_row rows[2] = {{.first = 0, .tokens = 5},
                            {.first = 5, .tokens = to - from, .context = from}};
    int32_t pages[2 * PAGES];
    char *qkv = malloc((size_t)(5 + to - from) * LD * e),
         *out = malloc((size_t)(5 + to - from) * HEADS * DIM * e);
    void *work;
    oc_paged_attention a = attention_of(b, x, kv, &work);
    memcpy(pages, other->pages, sizeof other->pages);
    memcpy(pages + PAGES, x->pages, sizeof x->pages);
    memcpy(qkv, other->qkv, 5 * LD * e);
    memcpy(qkv + 5 * LD * e, x->qkv + (size_t)from * LD * e, (size_t)(to - from) * LD * e);
    a.row = rows;
    a.pages = pages;
    a.tokens = 5 + to - from;
    a.q = qkv;
    a.k = qkv + HEADS * DIM * e;
    a.v = qkv + (HEADS + KV) * DIM * e;
    a.out = out;
    b->device->ops->attention_paged(b->device, &a);
    memcpy(x->out + (size_t)from * HEADS * DIM * e, out + 5 * HEADS * DIM * e,
           (size_t)(to - from) * HEADS * DIM * e);
    free(work);
    free(qkv);
    free(out);
}

static sequence sequence_of(bench *b, oc_dtype t, int32_t first_page) {
    sequence x = {.t = t};
    x.qkv = values(b, t, TOKENS * LD);
    x.out = calloc(TOKENS * HEADS * DIM, 4);
    for (int i = 0; i < PAGES; i++)
        x.pages[i] = first_page + (i * 7) % PAGES;
    return x;
}

/* In passes of `step` tokens, one by one behind the first hundred. */
static void run(bench *b, const sequence *x, const sequence *other, int step, bool one_by_one) {
    char *kv = calloc(2 * PAGES * 2 * PAGE * KV * DIM, 4);
    for (int at = 0, n; at < TOKENS; at += n) {
        n = one_by_one && at >= 100 ? 1 : step;
        if (at + n > TOKENS) n = TOKENS - at;
        pass(b, x, other, kv, at, at + n);
    }
    free(kv);
}

static void check_cuts(bench *b, oc_dtype t) {
    sequence x = sequence_of(b, t, 0), other = sequence_of(b, t, PAGES);
    size_t bytes = TOKENS * HEADS * DIM * oc_dtype_bytes(t);
    char *whole = malloc(bytes);
    run(b, &x, &other, TOKENS, false);
    memcpy(whole, x.out, bytes);
    static const int steps[] = {1, 7, 16, 64, 100};
    for (int i = 0; i < 5; i++) {
        run(b, &x, &other, steps[i], i % 2);
        assert_memory_equal(x.out, whole, bytes);
    }
    free(whole);
    free(x.qkv);
    free(x.out);
    free(other.qkv);
    free(other.out);
}

static void a_token_does_not_depend_on_how_its_sequence_was_cut(void **state) {
    (void)state;
    for (int isa = OC_ISA_PLAIN; isa <= OC_ISA_AVX512; isa++)
        for (int cores = 1; cores <= 3; cores += 2) {
            bench b;
            if (!bench_open(&b, (oc_isa)isa, cores)) continue;
            for (int t = 0; t < OC_DTYPE_COUNT; t++)
                check_cuts(&b, (oc_dtype)t);
            bench_close(&b);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_of_a_product_does_not_depend_on_the_others),
        cmocka_unit_test(a_token_does_not_depend_on_how_its_sequence_was_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
