/* The rotary embedding of every instruction set against libm in double. */
#include "cmocka_all.h"

#include "base/pool.h"
#include "device/cpu/rope.h"

#include <math.h>
#include <string.h>

enum { ROWS = 37, HEADS = 3, GAP = 5 };

typedef struct shape {
    int32_t head_dim, rot_dim;
} shape;

static const shape SHAPES[] = {{2, 2},   {8, 8},   {20, 20}, {64, 64}, {80, 32},   {24, 6},
                               {20, 10}, {21, 10}, {5, 2},   {96, 24}, {128, 128}, {300, 296}};
enum { SHAPE_COUNT = sizeof SHAPES / sizeof *SHAPES };

static const oc_rope_kernels *const *kernels(int *count) {
    static const oc_rope_kernels *list[3];
    int n = 0;
    list[n++] = &oc_rope_plain;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) list[n++] = &oc_rope_avx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        list[n++] = &oc_rope_avx512;
#endif
    *count = n;
    return list;
}

typedef struct problem {
    oc_rope r;
    int32_t positions[ROWS];
    float inv_freq[256];
    void *x;
    size_t bytes;
} problem;

static void problem_init(problem *p, const shape *s, oc_dtype t, bool inverse) {
    uint32_t state = 5;
    int64_t ld = HEADS * s->head_dim + GAP;
    memset(p, 0, sizeof *p);
    for (int i = 0; i < s->rot_dim / 2; i++)
        p->inv_freq[i] = (float)pow(10000.0, -2.0 * i / s->rot_dim);
    for (int32_t i = 0; i < ROWS; i++)
        p->positions[i] = i < 30 ? i : (i * 7919) << (i - 30);
    p->bytes = (size_t)(ROWS * ld) * oc_dtype_bytes(t);
    p->x = malloc(p->bytes);
    assert_non_null(p->x);
    for (int64_t i = 0; i < ROWS * ld; i++) {
        state = state * 1664525u + 1013904223u;
        float v = (float)(state >> 8) / 8388608.0f - 1.0f;
        oc_convert((char *)p->x + (size_t)i * oc_dtype_bytes(t), t, &v, OC_F32, 1);
    }
    p->r = (oc_rope){.dtype = t,
                     .rows = ROWS,
                     .heads = HEADS,
                     .head_dim = s->head_dim,
                     .rot_dim = s->rot_dim,
                     .inverse = inverse,
                     .positions = p->positions,
                     .inv_freq = p->inv_freq,
                     .scaling = 1.25f,
                     .x = p->x,
                     .ld = ld};
}

static double get(const void *x, oc_dtype t, int64_t i) {
    float v;
    oc_convert(&v, OC_F32, (const char *)x + (size_t)i * oc_dtype_bytes(t), t, 1);
    return (double)v;
}

/* What element i of a row must be, and the size of its terms; before is the untouched row. */
static double want(const problem *p, const void *before, int64_t row, int64_t column,
                   double *size) {
    const oc_rope *r = &p->r;
    int64_t at = row * r->ld + column, i = column % r->head_dim, half = r->rot_dim / 2;
    double x = get(before, r->dtype, at);
    *size = fabs(x);
    if (column >= HEADS * r->head_dim || i >= r->rot_dim) return x;
    bool low = i < half;
    float angle = (float)p->positions[row] * p->inv_freq[i % half];
    double c = cos((double)angle) * (double)r->scaling, s = sin((double)angle) * (double)r->scaling;
    double other = get(before, r->dtype, low ? at + half : at - half);
    if (r->inverse) s = -s;
    *size = fabs(c * x) + fabs(s * other);
    return low ? c * x - s * other : c * x + s * other;
}

static void check(const shape *s, oc_dtype t, bool inverse, const oc_rope_kernels *k,
                  oc_pool *pool) {
    const double eps[] = {0x1p-24, 0x1p-8, 0x1p-11};
    problem p;
    problem_init(&p, s, t, inverse);
    void *before = malloc(p.bytes);
    assert_non_null(before);
    memcpy(before, p.x, p.bytes);
    oc_rope_run(k, pool, &p.r);
    for (int64_t row = 0; row < ROWS; row++) {
        for (int64_t column = 0; column < p.r.ld; column++) {
            double size, w = want(&p, before, row, column, &size);
            double g = get(p.x, t, row * p.r.ld + column);
            /* cosine, sine, scaling and two products are rounded to fp32 */
            if (fabs(g - w) > eps[t] * fabs(w) + 4 * 0x1p-24 * size + 0x1p-25)
                fail_msg("%s %s dim %d/%d [%d][%d]: %.9g, want %.9g", k->name, oc_dtype_name(t),
                         (int)s->rot_dim, (int)s->head_dim, (int)row, (int)column, g, w);
        }
    }
    free(before);
    free(p.x);
}

static void test_pairs_turn_by_position_times_frequency_and_the_rest_stays(void **state) {
    (void)state;
    int count;
    const oc_rope_kernels *const *k = kernels(&count);
    oc_pool *pool;
    assert_int_equal(oc_pool_open(&pool, 2, NULL), OC_OK);
    for (int i = 0; i < count; i++)
        for (int s = 0; s < SHAPE_COUNT; s++)
            for (int t = 0; t < OC_DTYPE_COUNT; t++)
                for (int inverse = 0; inverse < 2; inverse++)
                    check(&SHAPES[s], (oc_dtype)t, inverse, k[i], pool);
    oc_pool_close(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs_turn_by_position_times_frequency_and_the_rest_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
