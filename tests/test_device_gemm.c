/* Matrix products against a triple loop in double, for every kernel set that this machine runs. */
#include "base/checked.h"
#include "base/pool.h"
#include "device/cpu/gemm.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BLOCK = 256 }; /* terms of K the kernels add in one chain */

static const oc_gemm_kernels *const all_kernels[] = {&oc_gemm_plain,
#if defined(__x86_64__)
                                                     &oc_gemm_avx2, &oc_gemm_avx512,
#endif
                                                     &oc_gemm_onednn};
enum { KERNEL_SETS = sizeof all_kernels / sizeof all_kernels[0] };

/* ---- a problem: buffers of exactly the bytes a product may touch ---- */

typedef struct problem {
    int64_t m, n, k;
    oc_gemm g;
    void *bias, *residual, *c_before;
    size_t c_bytes;
} problem;

static uint64_t random_state = 1;

static float random_float(void) { /* [-1, 1) */
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (float)(random_state >> 40) / (float)(1 << 23) - 1.0f;
}

static float get(const void *p, oc_dtype t, int64_t i) {
    if (t == OC_F32) return ((const float *)p)[i];
    uint16_t h = ((const uint16_t *)p)[i];
    return t == OC_BF16 ? oc_bf16_to_f32(h) : oc_f16_to_f32(h);
}

static void put(void *p, oc_dtype t, int64_t i, float v) {
    if (t == OC_F32)
        ((float *)p)[i] = v;
    else
        ((uint16_t *)p)[i] = t == OC_BF16 ? oc_f32_to_bf16(v) : oc_f32_to_f16(v);
}

/* rows x cols random values; what lies between the rows is NaN, and nothing follows the last. */
static oc_mat random_mat(oc_dtype t, int64_t rows, int64_t cols, int64_t gap) {
    int64_t ld = cols + gap;
    int64_t n = rows > 0 ? (rows - 1) * ld + cols : 0;
    void *p = malloc((size_t)n * oc_dtype_bytes(t) + (n == 0));
    assert_non_null(p);
    for (int64_t i = 0; i < n; i++)
        put(p, t, i, i % ld < cols ? random_float() : NAN);
    return oc_mat_of(p, t, rows, cols, ld);
}

typedef struct options {
    oc_dtype a, b, c;
    bool trans_a, trans_b, bias, residual, alias, accumulate;
    int64_t gap;
} options;

static problem problem_new(int64_t m, int64_t n, int64_t k, const options *o) {
    problem p = {.m = m, .n = n, .k = k};
    p.g.a = o->trans_a ? random_mat(o->a, k, m, o->gap) : random_mat(o->a, m, k, o->gap);
    p.g.b = o->trans_b ? random_mat(o->b, n, k, 2 * o->gap) : random_mat(o->b, k, n, 2 * o->gap);
    p.g.c = random_mat(o->c, m, n, 3 * o->gap);
    p.g.trans_a = o->trans_a;
    p.g.trans_b = o->trans_b;
    p.g.accumulate = o->accumulate;
    p.c_bytes = m > 0 ? (size_t)((m - 1) * p.g.c.ld + n) * oc_dtype_bytes(o->c) : 0;
    p.c_before = malloc(p.c_bytes + 1);
    assert_non_null(p.c_before);
    memcpy(p.c_before, p.g.c.data, p.c_bytes);
    p.g.bias_dtype = o->a;
    if (o->bias) p.g.bias = p.bias = random_mat(o->a, 1, n, 0).data;
    if (o->residual) p.g.residual = p.residual = random_mat(o->c, m, n, 3 * o->gap).data;
    if (o->alias) p.g.residual = p.g.c.data;
    return p;
}

static void problem_free(problem *p) {
    free(p->g.a.data);
    free(p->g.b.data);
    free(p->g.c.data);
    free(p->bias);
    free(p->residual);
    free(p->c_before);
}

/* Lent to every product: NaN at first, then what the last one left. */
static void *scratch;
enum { CORES_MAX = 3 };

static int scratch_new(void **state) {
    (void)state;
    uint64_t bytes = oc_align_up(oc_gemm_scratch_bytes(CORES_MAX - 1 + OC_POOL_CALLERS), 64);
    scratch = aligned_alloc(64, bytes);
    if (!scratch) return -1;
    memset(scratch, 0xff, bytes);
    return 0;
}

static int scratch_free(void **state) {
    (void)state;
    free(scratch);
    return 0;
}

/* ---- the reference ---- */

static double unit_roundoff(oc_dtype t) {
    return t == OC_F32 ? 0x1p-24 : t == OC_BF16 ? 0x1p-8 : 0x1p-11;
}

/* Element (i, j) in double, and how far a kernel may be from it. */
static double want(const problem *p, int64_t i, int64_t j, double *bound) {
    const oc_gemm *g = &p->g;
    double sum = 0, size = 0;
    for (int64_t q = 0; q < p->k; q++) {
        double a = get(g->a.data, g->a.dtype, g->trans_a ? q * g->a.ld + i : i * g->a.ld + q);
        double b = get(g->b.data, g->b.dtype, g->trans_b ? j * g->b.ld + q : q * g->b.ld + j);
        sum += a * b;
        size += fabs(a * b);
    }
    int64_t at = i * g->c.ld + j;
    const void *residual = g->residual == g->c.data ? p->c_before : g->residual;
    double extra[3] = {g->bias ? get(g->bias, g->bias_dtype, j) : 0.0,
                       residual ? get(residual, g->c.dtype, at) : 0.0,
                       g->accumulate ? get(p->c_before, g->c.dtype, at) : 0.0};
    for (int e = 0; e < 3; e++) {
        sum += extra[e];
        size += fabs(extra[e]);
    }
    /* Higham's bound for chains of BLOCK terms, block sums, and the three additions. */
    double chain = (double)(p->k < BLOCK ? p->k : BLOCK) + (double)p->k / BLOCK + 4;
    *bound = chain * 0x1p-24 * size + unit_roundoff(g->c.dtype) * fabs(sum) * 1.01 + 0x1p-25;
    return sum;
}

typedef struct expected {
    int64_t at; /* in c */
    double value, bound;
} expected;

/* Every element when there are few; otherwise the last row and column and a sample. */
static int64_t expect(const problem *p, expected *e) {
    int64_t step = p->m * p->n * p->k > 1000000 ? 7 : 1, n = 0;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++)
            if ((i * p->n + j) % step == 0 || i == p->m - 1 || j == p->n - 1) {
                e[n].at = i * p->g.c.ld + j;
                e[n].value = want(p, i, j, &e[n].bound);
                n++;
            }
    return n;
}

static void check_gaps(const problem *p) { /* between the rows of c nothing was written */
    size_t e = oc_dtype_bytes(p->g.c.dtype);
    for (int64_t i = 0; i + 1 < p->m; i++) {
        size_t from = (size_t)(i * p->g.c.ld + p->n) * e, bytes = (size_t)(p->g.c.ld - p->n) * e;
        assert_memory_equal((char *)p->g.c.data + from, (char *)p->c_before + from, bytes);
    }
}

static void check_elements(const problem *p, const oc_gemm_kernels *k, const expected *e,
                           int64_t count) {
    const oc_gemm *g = &p->g;
    check_gaps(p);
    for (int64_t x = 0; x < count; x++) {
        double got = get(g->c.data, g->c.dtype, e[x].at);
        if (fabs(got - e[x].value) <= e[x].bound) continue;
        fail_msg("%s: %ld x %ld x %ld, types %d %d %d, trans %d %d, kernel %d, c[%ld]: %.9g, not "
                 "%.9g +- %.2g",
                 oc_gemm_name(k), (long)p->m, (long)p->n, (long)p->k, (int)g->a.dtype,
                 (int)g->b.dtype, (int)g->c.dtype, g->trans_a, g->trans_b, (int)g->kernel,
                 (long)e[x].at, got, e[x].value, e[x].bound);
    }
}

static void run(problem *p, const oc_gemm_kernels *k, oc_pool *pool, oc_gemm_kernel kernel) {
    p->g.kernel = kernel;
    memcpy(p->g.c.data, p->c_before, p->c_bytes);
    oc_gemm_run(k, pool, scratch, &p->g);
}

static bool takes_pairs(const oc_gemm_kernels *k, const oc_gemm *g) {
    return g->a.dtype == OC_BF16 && g->b.dtype == OC_BF16 && oc_gemm_takes_pairs(k);
}

/* With either kernel; to the bit the same but for pairs. */
static void check_kernels(problem *p, const oc_gemm_kernels *k, oc_pool *pool, const expected *e,
                          int64_t count) {
    void *tiled = malloc(p->c_bytes + 1);
    assert_non_null(tiled);
    run(p, k, pool, OC_GEMM_TILED);
    check_elements(p, k, e, count);
    memcpy(tiled, p->g.c.data, p->c_bytes);
    run(p, k, pool, OC_GEMM_FEW);
    check_elements(p, k, e, count);
    if (!takes_pairs(k, &p->g)) assert_memory_equal(tiled, p->g.c.data, p->c_bytes);
    free(tiled);
}

static void check(int64_t m, int64_t n, int64_t k, const options *o, oc_pool *pool) {
    problem p = problem_new(m, n, k, o);
    expected *e = malloc((size_t)(m * n) * sizeof *e);
    assert_non_null(e);
    int64_t count = expect(&p, e);
    for (int s = 0; s < KERNEL_SETS; s++)
        if (oc_gemm_runs_here(all_kernels[s])) check_kernels(&p, all_kernels[s], pool, e, count);
    free(e);
    problem_free(&p);
}

static oc_pool *pool_of(int cores) {
    oc_pool *pool = NULL;
    assert_int_equal(oc_pool_open(&pool, cores, NULL), OC_OK);
    return pool;
}

/* ---- tests ---- */

static void products_of_all_dtypes_transposes_and_epilogues_match_double(void **state) {
    (void)state;
    static const int64_t shape[][3] = {{1, 1, 1},     {1, 1, 0},   {3, 5, 0},    {1, 37, 64},
                                       {17, 1, 33},   {5, 7, 9},   {14, 32, 16}, {15, 33, 31},
                                       {30, 20, 257}, {2, 18, 520}};
    for (size_t s = 0; s < sizeof shape / sizeof shape[0]; s++)
        for (unsigned v = 0; v < 27u * 4 * 5; v++) {
            unsigned extra = v / 108;
            options o = {.a = v % 3, .b = v / 3 % 3, .c = v / 9 % 3};
            o.trans_a = v / 27 % 2;
            o.trans_b = v / 54 % 2;
            o.bias = extra == 1 || extra == 4;
            o.residual = extra == 2;
            o.alias = extra == 3;
            o.accumulate = extra == 4 && o.c == OC_F32;
            o.gap = (int64_t)(v % 4);
            check(shape[s][0], shape[s][1], shape[s][2], &o, NULL);
        }
}

/* For the kernels of few rows: every number of rows that they have, and whole lines and rests. */
static void products_of_few_rows_match_double(void **state) {
    (void)state;
    oc_pool *pool = pool_of(2);
    for (int64_t m = 1; m <= 33; m++)
        for (unsigned v = 0; v < 9; v++) {
            options o = {.a = v % 3, .b = v / 3, .trans_b = true, .gap = m % 3};
            o.c = (v + (unsigned)m) % 3;
            o.bias = m % 2;
            check(m, 29 + 17 * (m % 5), 512 + 17 * (m % 7), &o, m % 4 ? pool : NULL);
        }
    oc_pool_close(pool);
}

static void products_of_many_tiles_and_k_blocks_match_double(void **state) {
    (void)state;
    static const int64_t shape[][3] = {{700, 40, 20},  {20, 1100, 30}, {100, 90, 1030},
                                       {300, 260, 64}, {8, 512, 700},  {677, 515, 300},
                                       {200, 40, 9000}};
    oc_pool *pool = pool_of(2);
    for (size_t s = 0; s < sizeof shape / sizeof shape[0]; s++)
        for (unsigned v = 0; v < 12; v++) {
            options o = {.a = v % 3, .b = (v + v / 4) % 3, .c = (v + 1) % 3, .gap = v % 3};
            o.trans_a = v / 2 % 2;
            o.trans_b = v % 2;
            o.bias = v % 5 == 0;
            o.alias = v % 4 == 1;
            o.residual = v % 4 == 2;
            o.accumulate = o.c == OC_F32 && v % 3 == 2;
            check(shape[s][0], shape[s][1], shape[s][2], &o, pool);
        }
    oc_pool_close(pool);
}

/* Rows of c as computed with m rows only, by `cores` threads (0: no pool), equal those in `all`. */
static void check_rows(const oc_gemm_kernels *k, int cores, const problem *all, int64_t m) {
    oc_gemm g = all->g;
    g.c.rows = m;
    if (g.trans_a)
        g.a.cols = m;
    else
        g.a.rows = m;
    g.c.data = malloc(all->c_bytes);
    assert_non_null(g.c.data);
    memcpy(g.c.data, all->c_before, all->c_bytes);
    oc_pool *pool = cores ? pool_of(cores) : NULL;
    oc_gemm_run(k, pool, scratch, &g);
    oc_pool_close(pool);
    size_t e = oc_dtype_bytes(g.c.dtype);
    for (int64_t i = 0; i < m; i++) {
        size_t at = (size_t)(i * g.c.ld) * e;
        if (memcmp((char *)g.c.data + at, (char *)all->g.c.data + at, (size_t)g.c.cols * e) != 0)
            fail_msg("%s: row %ld of %ld by %d threads differs", oc_gemm_name(k), (long)i, (long)m,
                     cores);
    }
    free(g.c.data);
}

static void check_threads_and_rows(const oc_gemm_kernels *k, problem *all) {
    static const int64_t rows[] = {1, 2, 3, 7, 13, 15, 24, 25, 100, 256, 300, 673};
    for (int kernel = OC_GEMM_TILED; kernel <= OC_GEMM_AUTO; kernel++) {
        run(all, k, NULL, (oc_gemm_kernel)kernel);
        for (int cores = 1; cores <= CORES_MAX; cores++)
            check_rows(k, cores, all, 700);
        for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
            check_rows(k, (int)(r % 3), all, rows[r]);
    }
}

static void bits_depend_neither_on_threads_nor_on_rows(void **state) {
    (void)state;
    for (int s = 0; s < KERNEL_SETS; s++) {
        if (!oc_gemm_runs_here(all_kernels[s])) continue;
        for (unsigned v = 0; v < 9; v++) {
            options o = {.a = v % 3, .b = v / 3 % 3, .c = v & 1 ? OC_BF16 : OC_F32, .gap = 1};
            o.trans_a = v / 2 % 2;
            o.trans_b = v / 4 % 2;
            o.bias = true;
            problem all = problem_new(700, 150, 600, &o);
            check_threads_and_rows(all_kernels[s], &all);
            problem_free(&all);
        }
    }
}

static void a_row_that_is_not_finite_spoils_no_other(void **state) {
    (void)state;
    for (int s = 0; s < KERNEL_SETS; s++) {
        if (!oc_gemm_runs_here(all_kernels[s])) continue;
        options o = {.a = OC_F32, .b = OC_BF16, .c = OC_BF16};
        problem p = problem_new(20, 35, 40, &o);
        for (int64_t k = 0; k < 40; k++)
            put(p.g.a.data, OC_F32, 3 * p.g.a.ld + k, NAN);
        put(p.g.a.data, OC_F32, 5 * p.g.a.ld, INFINITY);
        oc_gemm_run(all_kernels[s], NULL, scratch, &p.g);
        for (int64_t i = 0; i < 20; i++)
            for (int64_t j = 0; j < 35; j++) {
                float v = get(p.g.c.data, OC_BF16, i * p.g.c.ld + j);
                assert_int_equal(isnan(v) != 0, i == 3);
                assert_int_equal(isinf(v) != 0, i == 5);
            }
        problem_free(&p);
    }
}

static void sixteen_bit_results_are_rounded_to_nearest_even(void **state) {
    (void)state;
    /* 1 x the value: bf16 has 8 significant bits, fp16 11. */
    static const struct {
        oc_dtype t;
        float in, out;
    } row[] = {{OC_BF16, 0x1.01p0f, 0x1.00p0f},     {OC_BF16, 0x1.03p0f, 0x1.04p0f},
               {OC_BF16, 0x1.010002p0f, 0x1.02p0f}, {OC_BF16, -0x1.ffp127f, -INFINITY},
               {OC_F16, 0x1.002p0f, 0x1.000p0f},    {OC_F16, 0x1.006p0f, 0x1.008p0f},
               {OC_F16, 65520.0f, INFINITY},        {OC_F16, 65519.0f, 65504.0f},
               {OC_F16, 0x1.8p-24f, 0x1p-23f}};
    for (int s = 0; s < KERNEL_SETS; s++) {
        if (!oc_gemm_runs_here(all_kernels[s])) continue;
        for (size_t r = 0; r < sizeof row / sizeof row[0]; r++) {
            float one = 1.0f, b[40];
            uint16_t c[40];
            for (int j = 0; j < 40; j++)
                b[j] = row[r].in;
            oc_gemm g = {.a = oc_mat_of(&one, OC_F32, 1, 1, 1),
                         .b = oc_mat_of(b, OC_F32, 1, 40, 40),
                         .c = oc_mat_of(c, row[r].t, 1, 40, 40)};
            oc_gemm_run(all_kernels[s], NULL, scratch, &g);
            for (int j = 0; j < 40; j++)
                assert_true(get(c, row[r].t, j) == row[r].out);
        }
    }
}

static void the_default_is_a_set_this_machine_runs(void **state) {
    (void)state;
    const oc_gemm_kernels *best = oc_gemm_default(OC_ISA_BEST);
    assert_non_null(best);
    assert_true(oc_gemm_runs_here(best));
    assert_ptr_equal(oc_gemm_default(OC_ISA_PLAIN), &oc_gemm_plain);
#if defined(__x86_64__)
    assert_int_equal(oc_gemm_default(OC_ISA_AVX512) != NULL, oc_gemm_runs_here(&oc_gemm_avx512));
    assert_int_equal(oc_gemm_default(OC_ISA_AVX2) != NULL, oc_gemm_runs_here(&oc_gemm_avx2));
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_all_dtypes_transposes_and_epilogues_match_double),
        cmocka_unit_test(products_of_few_rows_match_double),
        cmocka_unit_test(products_of_many_tiles_and_k_blocks_match_double),
        cmocka_unit_test(bits_depend_neither_on_threads_nor_on_rows),
        cmocka_unit_test(a_row_that_is_not_finite_spoils_no_other),
        cmocka_unit_test(sixteen_bit_results_are_rounded_to_nearest_even),
        cmocka_unit_test(the_default_is_a_set_this_machine_runs),
    };
    return cmocka_run_group_tests(tests, scratch_new, scratch_free);
}
