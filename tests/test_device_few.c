/* What a row comes to does not depend on the company it keeps: products of few rows, and attention
 * over pages however a sequence is cut into passes; for every instruction set that this machine
 * runs. */
#include "cmocka_all.h"
#include "device/device.h"

#include <math.h>
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
    TOKENS = 700, /* more than a span of the keys that are taken at once */
    HEADS = 6,
    KV = 2,
    DIM = 20,
    PAGE = 16,
    PAGES = 44,
    LD = (HEADS + 2 * KV) * DIM
};

typedef struct sequence {
    oc_dtype t;
    char *qkv, *out; /* [TOKENS] */
    int64_t window;
    const float *slopes;
    int32_t pages[PAGES];
} sequence;

static oc_paged_attention attention_of(bench *b, const sequence *x, char *kv, void **work) {
    oc_paged_attention a = {.dtype = x->t,
                            .heads = HEADS,
                            .kv_heads = KV,
                            .head_dim = DIM,
                            .scale = 0.3f,
                            .window = x->window,
                            .slopes = x->slopes,
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

/* Tokens [from, to) of the sequence as a row, behind a row of `beside` tokens of another's. */
static void pass(bench *b, const sequence *x, const sequence *other, int beside, char *kv, int from,
                 int to) {
    size_t e = oc_dtype_bytes(x->t), before = (size_t)beside, n = (size_t)(to - from);
    oc_paged_row rows[2] = {{.first = 0, .tokens = beside},
                            {.first = beside, .tokens = to - from, .context = from}};
    int32_t pages[2 * PAGES];
    char *qkv = malloc((before + n) * LD * e), *out = malloc((before + n) * HEADS * DIM * e);
    void *work;
    oc_paged_attention a = attention_of(b, x, kv, &work);
    memcpy(pages, other->pages, sizeof other->pages);
    memcpy(pages + PAGES, x->pages, sizeof x->pages);
    memcpy(qkv, other->qkv, before * LD * e);
    memcpy(qkv + before * LD * e, x->qkv + (size_t)from * LD * e, n * LD * e);
    a.rows = beside ? 2 : 1;
    a.row = beside ? rows : rows + 1;
    a.pages = beside ? pages : pages + PAGES;
    a.tokens = beside + to - from;
    a.q = qkv;
    a.k = qkv + HEADS * DIM * e;
    a.v = qkv + (HEADS + KV) * DIM * e;
    a.out = out;
    b->device->ops->attention_paged(b->device, &a);
    memcpy(x->out + (size_t)from * HEADS * DIM * e, out + before * HEADS * DIM * e,
           n * HEADS * DIM * e);
    free(work);
    free(qkv);
    free(out);
}

static sequence sequence_of(bench *b, oc_dtype t, int32_t first_page) {
    sequence x = {.t = t};
    x.qkv = values(b, t, TOKENS * LD);
    x.out = calloc(TOKENS * HEADS * DIM, 4);
    for (int i = 0; i < PAGES; i++)
        x.pages[i] = first_page + i * 7 % PAGES;
    return x;
}

/* Passes of `step` tokens, from token `single` on of one, beside so many of another sequence. */
typedef struct cut {
    int step, single, beside;
} cut;

static void run(bench *b, const sequence *x, const sequence *other, const cut *c) {
    char *kv = calloc(2 * PAGES * 2 * PAGE * KV * DIM, 4);
    for (int at = 0, n; at < TOKENS; at += n) {
        n = at >= c->single ? 1 : at + c->step > c->single ? c->single - at : c->step;
        pass(b, x, other, c->beside, kv, at, at + n);
    }
    free(kv);
}

static void check_cuts(bench *b, oc_dtype t, int64_t window) {
    static const cut whole = {TOKENS, TOKENS, 5};
    static const cut cuts[] = {{7, 100, 5}, {16, TOKENS, 0}, {64, 650, 0}, {100, 500, 1}};
    sequence x = sequence_of(b, t, 0), other = sequence_of(b, t, PAGES);
    size_t bytes = TOKENS * HEADS * DIM * oc_dtype_bytes(t);
    char *first = malloc(bytes);
    x.window = window;
    run(b, &x, &other, &whole);
    memcpy(first, x.out, bytes);
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        run(b, &x, &other, &cuts[i]);
        assert_memory_equal(x.out, first, bytes);
    }
    free(first);
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
                check_cuts(&b, (oc_dtype)t, t == OC_F16 ? 0 : cores == 1 ? 90 : 600);
            bench_close(&b);
        }
}

/* ---- the reference's pages against its attention in one piece, which PyTorch's numbers hold ----
 */

static void reference_in_one_piece(oc_device *d, const sequence *x, const float *slopes,
                                   float *out) {
    int32_t starts[TOKENS] = {0};
    float *lse = calloc(TOKENS * HEADS, sizeof *lse);
    const float *qkv = (const void *)x->qkv;
    oc_attention a = {.dtype = OC_F32, .batch = 1, .seq = TOKENS, .heads = HEADS, .kv_heads = KV};
    a.head_dim = DIM;
    a.scale = 0.3f;
    a.soft_cap = 5;
    a.slopes = slopes;
    a.window = x->window;
    a.doc_start = starts;
    a.q = qkv;
    a.k = qkv + HEADS * DIM;
    a.v = qkv + (HEADS + KV) * DIM;
    a.q_ld = a.k_ld = a.v_ld = LD;
    a.out = out;
    a.out_ld = HEADS * DIM;
    a.lse = lse;
    void *work = malloc(d->ops->attention_work_bytes(d, &a) + 1);
    a.work = work;
    d->ops->attention_forward(d, &a);
    free(work);
    free(lse);
}

static void the_reference_finds_in_pages_what_it_finds_in_one_piece(void **state) {
    (void)state;
    oc_error err;
    bench b = {.seed = 9};
    static const float slopes[HEADS] = {0.5f, 0.25f, 0.125f, 0.0625f, 0.03f, 0.01f};
    assert_int_equal(oc_device_open_reference(&b.device, &err), OC_OK);
    sequence x = sequence_of(&b, OC_F32, 0), other = sequence_of(&b, OC_F32, PAGES);
    float *out = calloc(TOKENS * HEADS * DIM, sizeof *out);
    const float *paged = (const void *)x.out;
    x.window = 90;
    x.slopes = slopes;
    run(&b, &x, &other, &(cut){200, 600, 3});
    reference_in_one_piece(b.device, &x, slopes, out);
    for (int i = 0; i < TOKENS * HEADS * DIM; i++)
        if (fabsf(out[i] - paged[i]) > 1e-6f) fail_msg("%d: %.8g, not %.8g", i, paged[i], out[i]);
    free(out);
    free(x.qkv);
    free(x.out);
    free(other.qkv);
    free(other.out);
    oc_device_close(b.device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_of_a_product_does_not_depend_on_the_others),
        cmocka_unit_test(a_token_does_not_depend_on_how_its_sequence_was_cut),
        cmocka_unit_test(the_reference_finds_in_pages_what_it_finds_in_one_piece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
