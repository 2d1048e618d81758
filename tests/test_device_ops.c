/* Every op of every runnable instruction set against the reference: one table of ops, dtypes and
 * odd shapes. Also: no bit depends on the number of threads or on where the arrays lie. */
#include "cmocka_all.h"

#include "device_ops.inc"

static oc_device *open_with_scratch(oc_pool *pool, oc_isa isa, void **scratch) {
    oc_device *d;
    oc_error err;
    oc_status s = oc_device_open_cpu(&d, pool, isa, &err);
    if (s == OC_E_UNSUPPORTED) return NULL;
    if (s != OC_OK) fail_msg("%s", err.message);
    *scratch = aligned_alloc(64, (d->ops->scratch_bytes(d) + 63) / 64 * 64);
    assert_non_null(*scratch);
    d->ops->lend_scratch(d, *scratch);
    return d;
}

enum { POOLS = 3 };

typedef struct fixture {
    oc_device *reference;
    oc_pool *pool[POOLS]; /* of 1, 2 and 3 threads */
} fixture;

static int set_up(void **state) {
    static fixture f;
    assert_int_equal(oc_device_open_reference(&f.reference, NULL), OC_OK);
    for (int i = 0; i < POOLS; i++)
        assert_int_equal(oc_pool_open(&f.pool[i], i + 1, NULL), OC_OK);
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    oc_device_close(f->reference);
    for (int i = 0; i < POOLS; i++)
        oc_pool_close(f->pool[i]);
    return 0;
}

static int report(const char *message, int c, oc_dtype t, int threads) {
    if (!message) return 0;
    print_error("%s (case %d, %s, %d threads): %s\n", op_cases[c].name, c, oc_dtype_name(t),
                threads, message);
    return 1;
}

/* Returns the number of differences, each printed. */
OC_NODISCARD static int compare_case(fixture *f, oc_device *const *devices, int c, oc_dtype t) {
    case_run want, first, other;
    int bad = report(run_case(f->reference, c, t, 0, &want), c, t, 0);
    bad += report(run_case(devices[0], c, t, 0, &first), c, t, 1);
    bad += report(case_values_differ(&first, &want), c, t, 1);
    for (int i = 1; i < POOLS; i++) {
        bad += report(run_case(devices[i], c, t, i == 2 ? 3 : 0, &other), c, t, i + 1);
        bad += report(case_bits_differ(&other, &first), c, t, i + 1);
        case_free(&other);
    }
    case_free(&first);
    case_free(&want);
    return bad;
}

static void compare_isa(void **state, oc_isa isa) {
    fixture *f = *state;
    oc_device *devices[POOLS];
    void *scratch[POOLS];
    for (int i = 0; i < POOLS; i++) {
        devices[i] = open_with_scratch(f->pool[i], isa, &scratch[i]);
        if (!devices[i]) skip();
    }
    int bad = 0;
    for (int c = 0; c < OP_CASES; c++) {
        for (int t = 0; t < OC_DTYPE_COUNT; t++)
            bad += compare_case(f, devices, c, (oc_dtype)t);
    }
    for (int i = 0; i < POOLS; i++) {
        oc_device_close(devices[i]);
        free(scratch[i]);
    }
    assert_int_equal(bad, 0);
}

static void plain_matches_reference(void **state) { compare_isa(state, OC_ISA_PLAIN); }
static void avx2_matches_reference(void **state) { compare_isa(state, OC_ISA_AVX2); }
static void avx512_matches_reference(void **state) { compare_isa(state, OC_ISA_AVX512); }

/* A piece may be updated whole or in parts: parts end in short vectors, which compute the same. */
static void update_in_parts_changes_no_bit(void **state) {
    fixture *f = *state;
    oc_device *d;
    assert_int_equal(oc_device_open_cpu(&d, f->pool[0], OC_ISA_BEST, NULL), OC_OK);
    enum { N = 203 };
    float p[2][N], m[2][N], v[2][N], g[N];
    uint16_t copy[2][N];
    for (int i = 0; i < N; i++) {
        p[0][i] = p[1][i] = sinf((float)i);
        m[0][i] = m[1][i] = cosf((float)i);
        v[0][i] = v[1][i] = 1 + sinf(3 * (float)i);
        g[i] = sinf(5 * (float)i);
    }
    const oc_update_scalars scalars = {.lr = 0.1f, .bias1 = 0.1, .bias2 = 0.1, .coef = 1};
    oc_update u = {.kind = OC_ADAMW, .copy_dtype = OC_BF16, .scalars = &scalars};
    u.beta1 = u.beta2 = 0.9f;
    u.weight_decay = 0.1f;
    u.eps = 1e-8f;
    const int cut[2][3] = {{N, N, N}, {21, 90, N}};
    for (int way = 0; way < 2; way++) {
        int at = 0;
        for (int i = 0; i < 3; i++) {
            u.n = cut[way][i] - at;
            u.p = p[way] + at;
            u.m = m[way] + at;
            u.v = v[way] + at;
            u.g = g + at;
            u.copy = copy[way] + at;
            d->ops->update(d, &u);
            at = cut[way][i];
        }
    }
    assert_memory_equal(p[0], p[1], sizeof p[0]);
    assert_memory_equal(m[0], m[1], sizeof m[0]);
    assert_memory_equal(v[0], v[1], sizeof v[0]);
    assert_memory_equal(copy[0], copy[1], sizeof copy[0]);
    oc_device_close(d);
}

/* From the smallest numbers, where the cap is the identity, to where it is flat, and not finite
 * ones. */
static void soft_cap_is_right_to_one_part_in_a_million(void **state) {
    fixture *f = *state;
    enum { COUNT = 2001 };
    static float x[COUNT], y[COUNT + 3];
    const float cap = 30.0f;
    for (int i = 0; i < COUNT; i++) {
        float magnitude = (float)pow(10, -30 + 33.0 * (i / 2) / (COUNT / 2));
        x[i] = i % 2 ? magnitude : -magnitude;
    }
    for (int isa = OC_ISA_PLAIN; isa <= OC_ISA_AVX512; isa++) {
        oc_device *d;
        if (oc_device_open_cpu(&d, f->pool[1], (oc_isa)isa, NULL) != OC_OK) continue;
        memcpy(y, x, sizeof x);
        y[COUNT] = -INFINITY;
        y[COUNT + 1] = INFINITY;
        y[COUNT + 2] = NAN;
        d->ops->soft_cap(d, COUNT + 3, cap, y);
        for (int i = 0; i < COUNT; i++) {
            double want = (double)cap * tanh((double)x[i] / (double)cap);
            if (fabs((double)y[i] - want) > 1e-6 * fabs(want))
                fail_msg("isa %d: cap of %g is %.9g, want %.9g", isa, (double)x[i], (double)y[i],
                         want);
        }
        assert_true(y[COUNT] == -cap && y[COUNT + 1] == cap && isnan(y[COUNT + 2]));
        oc_device_close(d);
    }
}

/* As PyTorch: no slope at zero, and a NaN is not swept under it. */
static void relu_at_zero_is_flat_and_nan_stays(void **state) {
    fixture *f = *state;
    const float x[4] = {0.0f, -0.0f, NAN, 2}, dy[4] = {1, 1, 1, 1};
    for (int isa = OC_ISA_PLAIN - 1; isa <= OC_ISA_AVX512; isa++) {
        oc_device *d = f->reference;
        if (isa >= OC_ISA_PLAIN && oc_device_open_cpu(&d, f->pool[0], (oc_isa)isa, NULL) != OC_OK)
            continue;
        float y[4], dx[4];
        d->ops->act_forward(d, OC_ACT_RELU, false, OC_F32, 1, 4, x, y);
        d->ops->act_backward(d, OC_ACT_RELU, false, OC_F32, 1, 4, x, dy, dx);
        assert_true(y[0] == 0 && y[1] == 0 && isnan(y[2]) && y[3] == 2);
        assert_true(dx[0] == 0 && dx[1] == 0 && dx[2] == 1 && dx[3] == 1);
        if (d != f->reference) oc_device_close(d);
    }
}

static void gemm_of_wrong_shapes_is_a_sticky_failure(void **state) {
    fixture *f = *state;
    oc_device *d;
    assert_int_equal(oc_device_open_cpu(&d, f->pool[0], OC_ISA_PLAIN, NULL), OC_OK);
    assert_int_equal(oc_device_status(d), OC_OK);
    float x[4] = {0};
    oc_gemm g = {.a = oc_mat_of(x, OC_F32, 1, 2, 2), .b = oc_mat_of(x, OC_F32, 3, 1, 1)};
    g.c = oc_mat_of(x, OC_F32, 1, 1, 1);
    d->ops->gemm(d, &g);
    assert_int_equal(oc_device_status(d), OC_E_INVALID);
    d->ops->zero(d, x, sizeof x);
    assert_int_equal(oc_device_status(d), OC_E_INVALID);
    oc_device_close(d);
}

static void best_isa_opens_and_names_its_kernels(void **state) {
    fixture *f = *state;
    oc_device *d;
    assert_int_equal(oc_device_open_cpu(&d, f->pool[0], OC_ISA_BEST, NULL), OC_OK);
    assert_true(strlen(oc_device_kernels(d)) > 0);
    assert_string_equal(d->ops->name, "cpu");
    oc_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_matches_reference),
        cmocka_unit_test(avx2_matches_reference),
        cmocka_unit_test(avx512_matches_reference),
        cmocka_unit_test(update_in_parts_changes_no_bit),
        cmocka_unit_test(soft_cap_is_right_to_one_part_in_a_million),
        cmocka_unit_test(relu_at_zero_is_flat_and_nan_stays),
        cmocka_unit_test(gemm_of_wrong_shapes_is_a_sticky_failure),
        cmocka_unit_test(best_isa_opens_and_names_its_kernels),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
