/* The backward of every op of the reference against central differences of its forward, and the
 * identities that ops without a derivative of their own must fulfil. */
#include "cmocka_all.h"

#include "device_case.inc"

#include <math.h>

static oc_device *device;

static int set_up(void **state) {
    (void)state;
    return oc_device_open_reference(&device, NULL) == OC_OK ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    oc_device_close(device);
    return 0;
}

/* A forward as a function of one of its inputs: the sum of dy[i] y[i]. */
typedef double loss_fn(void *ctx);

static double weighted_sum(const float *y, const float *dy, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)y[i] * (double)dy[i];
    return sum;
}

/* Values are of order 1 and fp64 inside; outputs are rounded to fp32. With a step of 2^-6 both the
 * truncation and the rounding error stay below 1e-3, and a wrong formula does not. */
static void check_gradient(const char *what, float *x, int64_t n, const float *got, loss_fn *loss,
                           void *ctx) {
    const float step = 0x1p-6f;
    for (int64_t i = 0; i < n; i++) {
        float keep = x[i];
        x[i] = keep + step;
        double up = loss(ctx), width = (double)x[i];
        x[i] = keep - step;
        double down = loss(ctx);
        width -= (double)x[i];
        x[i] = keep;
        double want = (up - down) / width;
        if (fabs(want - (double)got[i]) > 1e-3 * (1 + fabs(want))) {
            fail_msg("%s: gradient %lld is %g, differences say %g", what, (long long)i,
                     (double)got[i], want);
        }
    }
}

static void *values(case_run *r, int64_t n) { return case_input(r, OC_F32, n, 1); }

/* ---- norms ---- */

enum { ROWS = 3, COLS = 7, N = ROWS * COLS };

enum { GROUPS = 2, BEFORE = 2, LD = BEFORE + GROUPS * COLS + 3 };

static double norm_loss(void *ctx) {
    oc_norm *n = ctx;
    device->ops->norm_forward(device, n);
    return weighted_sum(n->y, n->dy, N);
}

static void check_norm(bool rms, bool plus_one, bool add) {
    case_run r = {.seed = 3};
    float *x = values(&r, N), *w = values(&r, COLS), *b = values(&r, COLS);
    float *extra = values(&r, N), *dx = values(&r, N), *dw = values(&r, COLS);
    float *db = values(&r, COLS);
    oc_norm n = {.dtype = OC_F32, .rows = ROWS, .cols = COLS, .rms = rms, .plus_one = plus_one};
    n.eps = 1e-3f;
    n.x = x;
    n.w = w;
    n.b = rms ? NULL : b;
    n.y = values(&r, N);
    n.mean = rms ? NULL : values(&r, ROWS);
    n.rstd = values(&r, ROWS);
    n.dy = values(&r, N);
    n.add = add ? extra : NULL;
    n.dx = dx;
    n.dw = dw;
    n.db = rms ? NULL : db;
    norm_loss(&n);
    device->ops->norm_backward(device, &n);
    for (int i = 0; add && i < N; i++)
        dx[i] -= extra[i];
    check_gradient("norm dx", x, N, dx, norm_loss, &n);
    check_gradient("norm dw", w, COLS, dw, norm_loss, &n);
    if (!rms) check_gradient("norm db", b, COLS, db, norm_loss, &n);
    case_free(&r);
}

/* Only y of the vectors counts, and dy outside them stays what it was: dx is written over it. */
static double heads_loss(void *ctx) {
    oc_norm *n = ctx;
    double sum = 0;
    device->ops->norm_forward(device, n);
    for (int row = 0; row < ROWS; row++)
        sum +=
            weighted_sum((float *)n->y + row * LD, (const float *)n->dy + row * LD, GROUPS * COLS);
    return sum;
}

static void check_norm_of_heads(bool rms, bool plus_one) {
    case_run r = {.seed = 4};
    float *x = values(&r, ROWS * LD), *w = values(&r, COLS), *b = values(&r, COLS);
    float *dw = values(&r, COLS), *db = values(&r, COLS), *dy = values(&r, ROWS * LD);
    float *dx = values(&r, ROWS * LD), *y = values(&r, ROWS * LD), y_before[ROWS * LD];
    oc_norm n = {.dtype = OC_F32, .rows = ROWS, .cols = COLS, .groups = GROUPS, .ld = LD};
    n.rms = rms;
    n.plus_one = plus_one;
    n.eps = 1e-3f;
    n.x = x + BEFORE;
    n.w = w;
    n.b = rms ? NULL : b;
    n.y = y + BEFORE;
    n.mean = rms ? NULL : values(&r, ROWS * GROUPS);
    n.rstd = values(&r, ROWS * GROUPS);
    n.dw = dw;
    n.db = rms ? NULL : db;
    n.dx = dx + BEFORE;
    n.dy = dx + BEFORE;
    memcpy(dx, dy, ROWS * LD * sizeof *dx);
    memcpy(y_before, y, sizeof y_before);
    device->ops->norm_forward(device, &n);
    device->ops->norm_backward(device, &n);
    n.dy = dy + BEFORE;
    for (int i = 0; i < ROWS * LD; i++) {
        bool inside = i % LD >= BEFORE && i % LD < BEFORE + GROUPS * COLS;
        if (inside) continue;
        assert_true(dx[i] == dy[i] && y[i] == y_before[i]);
        dx[i] = 0; /* what no head holds has no gradient */
    }
    check_gradient("norm of heads dx", x, ROWS * LD, dx, heads_loss, &n);
    check_gradient("norm of heads dw", w, COLS, dw, heads_loss, &n);
    if (!rms) check_gradient("norm of heads db", b, COLS, db, heads_loss, &n);
    case_free(&r);
}

static void norm_gradients(void **state) {
    (void)state;
    for (int bits = 0; bits < 8; bits++)
        check_norm(bits & 1, bits & 2, bits & 4);
    for (int bits = 0; bits < 4; bits++)
        check_norm_of_heads(bits & 1, bits & 2);
}

/* ---- activations ---- */

typedef struct act_case {
    oc_act act;
    bool gated;
    const float *x, *dy;
    float *y;
} act_case;

static double act_loss(void *ctx) {
    act_case *c = ctx;
    device->ops->act_forward(device, c->act, c->gated, OC_F32, ROWS, COLS, c->x, c->y);
    return weighted_sum(c->y, c->dy, N);
}

static void activation_gradients(void **state) {
    (void)state;
    for (int act = 0; act < OC_ACT_COUNT; act++) {
        for (int gated = 0; gated < 2; gated++) {
            case_run r = {.seed = 5};
            int64_t n = gated ? 2 * N : N;
            float *x = case_input(&r, OC_F32, n, 3), *dx = values(&r, n);
            for (int64_t i = 0; i < n; i++) { /* away from the kink of relu */
                if (fabsf(x[i]) < 0.1f) x[i] += 0.3f;
            }
            act_case c = {(oc_act)act, gated != 0, x, values(&r, N), values(&r, N)};
            device->ops->act_backward(device, c.act, c.gated, OC_F32, ROWS, COLS, x, c.dy, dx);
            check_gradient("activation", x, n, dx, act_loss, &c);
            case_free(&r);
        }
    }
}

/* ---- cross-entropy ---- */

enum { CLASSES = 9, TILE = 4 };

typedef struct ce_case {
    const float *logits; /* tile after tile */
    float cap, capped[ROWS * CLASSES];
    const int32_t *labels;
    float max[ROWS], sum[ROWS], target[ROWS], lse[ROWS];
} ce_case;

static int tile_width(int v0) { return CLASSES - v0 < TILE ? CLASSES - v0 : TILE; }

static double ce_loss(void *ctx) {
    ce_case *c = ctx;
    const oc_device_ops *ops = device->ops;
    memcpy(c->capped, c->logits, sizeof c->capped);
    if (c->cap > 0) ops->soft_cap(device, ROWS * CLASSES, c->cap, c->capped);
    ops->ce_init(device, ROWS, c->max, c->sum, c->target);
    for (int v = 0; v < CLASSES; v += TILE) {
        ops->ce_update(device, ROWS, tile_width(v), v, c->capped + v * ROWS, c->labels, c->max,
                       c->sum, c->target);
    }
    double loss;
    ops->ce_loss(device, ROWS, c->labels, c->max, c->sum, c->target, c->lse, &loss);
    return loss;
}

static void check_cross_entropy(float cap) {
    case_run r = {.seed = 7};
    float *logits = case_input(&r, OC_F32, ROWS * CLASSES, 4);
    float *grad = values(&r, ROWS * CLASSES);
    const int32_t labels[ROWS] = {8, -100, 2};
    const float dscale = 1;
    ce_case c = {.logits = logits, .labels = labels, .cap = cap};
    ce_loss(&c);
    for (int v = 0; v < CLASSES; v += TILE) {
        device->ops->ce_grad(device, ROWS, tile_width(v), v, c.capped + v * ROWS, labels, c.lse,
                             &dscale, cap, OC_F32, grad + v * ROWS);
    }
    check_gradient("cross-entropy", logits, ROWS * CLASSES, grad, ce_loss, &c);
    case_free(&r);
}

static void cross_entropy_gradients(void **state) {
    (void)state;
    check_cross_entropy(0);
    check_cross_entropy(2.5f);
}

/* ---- attention ---- */

enum { BATCH = 2, SEQ = 6, HEADS = 4, KV_HEADS = 2, DIM = 3, TOKENS = BATCH * SEQ };

static double attention_loss(void *ctx) {
    oc_attention *a = ctx;
    device->ops->attention_forward(device, a);
    return weighted_sum(a->out, a->dout, TOKENS * HEADS * DIM);
}

static void check_attention(int64_t window, const int32_t *doc_start, float soft_cap,
                            const float *slopes) {
    case_run r = {.seed = 11};
    int64_t wide = TOKENS * HEADS * DIM, narrow = TOKENS * KV_HEADS * DIM;
    float *q = values(&r, wide), *k = values(&r, narrow), *v = values(&r, narrow);
    oc_attention a = {.dtype = OC_F32, .batch = BATCH, .seq = SEQ, .heads = HEADS};
    a.kv_heads = KV_HEADS;
    a.head_dim = DIM;
    a.scale = 0.6f;
    a.window = window;
    a.doc_start = doc_start;
    a.soft_cap = soft_cap;
    a.slopes = slopes;
    a.q = q;
    a.k = k;
    a.v = v;
    a.q_ld = a.out_ld = HEADS * DIM;
    a.k_ld = a.v_ld = KV_HEADS * DIM;
    a.out = values(&r, wide);
    a.lse = values(&r, TOKENS * HEADS);
    a.dout = values(&r, wide);
    a.dq = values(&r, wide);
    a.dk = values(&r, narrow);
    a.dv = values(&r, narrow);
    attention_loss(&a);
    device->ops->attention_backward(device, &a);
    check_gradient("attention dq", q, wide, a.dq, attention_loss, &a);
    check_gradient("attention dk", k, narrow, a.dk, attention_loss, &a);
    check_gradient("attention dv", v, narrow, a.dv, attention_loss, &a);
    case_free(&r);
}

static void attention_gradients(void **state) {
    (void)state;
    const int32_t whole[TOKENS] = {0}, packed[TOKENS] = {0, 0, 2, 2, 2, 5, 0, 1, 1, 1, 1, 1};
    const float slopes[HEADS] = {0.5f, 0.25f, 1.5f, 0};
    for (int bits = 0; bits < 4; bits++) {
        float cap = bits & 1 ? 0.4f : 0;
        const float *alibi = bits & 2 ? slopes : NULL;
        check_attention(0, whole, cap, alibi);
        check_attention(2, whole, cap, alibi);
        check_attention(0, packed, cap, alibi);
        check_attention(3, packed, cap, alibi);
    }
}

/* A token sees the documents and the window it should: with v one-hot per token, out is the weight
 * of each token. */
static void attention_sees_its_document_and_window_only(void **state) {
    (void)state;
    enum { S = 6 };
    const int32_t start[S] = {0, 0, 2, 2, 2, 2};
    float q[S * S] = {0}, k[S * S] = {0}, v[S * S] = {0}, out[S * S], lse[S];
    for (int i = 0; i < S; i++)
        v[i * S + i] = 1;
    oc_attention a = {.dtype = OC_F32, .batch = 1, .seq = S, .heads = 1, .kv_heads = 1};
    a.head_dim = S;
    a.scale = 1;
    a.window = 3;
    a.doc_start = start;
    a.q = q;
    a.k = k;
    a.v = v;
    a.q_ld = a.k_ld = a.v_ld = a.out_ld = S;
    a.out = out;
    a.lse = lse;
    device->ops->attention_forward(device, &a);
    const int first[S] = {0, 0, 2, 2, 2, 3};
    for (int t = 0; t < S; t++) {
        for (int s = 0; s < S; s++) {
            double want = s >= first[t] && s <= t ? 1.0 / (t - first[t] + 1) : 0;
            assert_true(fabs((double)out[t * S + s] - want) < 1e-6);
        }
    }
}

/* ---- identities ---- */

/* Turning and turning back is the identity; with a scaling s it is s^2 times it, and "back" is the
 * transpose, which is what the backward needs. */
static void rope_inverse_is_the_transpose(void **state) {
    (void)state;
    case_run r = {.seed = 13};
    enum { R = 4, H = 2, D = 10, ROT = 6, TOTAL = R * H * D };
    const int32_t positions[R] = {0, 1, 17, 4000};
    const float inv_freq[ROT / 2] = {1, 0.25f, 0.01f};
    float *x = values(&r, TOTAL), *y = values(&r, TOTAL), turned[TOTAL], back[TOTAL];
    memcpy(turned, x, sizeof turned);
    memcpy(back, y, sizeof back);
    oc_rope p = {.dtype = OC_F32, .rows = R, .heads = H, .head_dim = D, .rot_dim = ROT};
    p.positions = positions;
    p.inv_freq = inv_freq;
    p.scaling = 1.5f;
    p.ld = H * D;
    p.x = turned;
    device->ops->rope(device, &p);
    p.x = back;
    p.inverse = true;
    device->ops->rope(device, &p);
    double forward = weighted_sum(turned, y, TOTAL), backward = weighted_sum(x, back, TOTAL);
    assert_true(fabs(forward - backward) < 1e-5);
    p.x = turned;
    device->ops->rope(device, &p);
    for (int i = 0; i < TOTAL; i++) {
        float want = i % D < ROT ? 2.25f * x[i] : x[i];
        assert_true(fabsf(turned[i] - want) < 1e-5f);
    }
    case_free(&r);
}

/* Position 1, frequency pi/2: a quarter turn takes (1, 0) to (0, 1). */
static void rope_turns_pairs_half_a_head_apart(void **state) {
    (void)state;
    float x[4] = {1, 2, 0, 0};
    const int32_t position = 1;
    const float inv_freq[2] = {1.57079633f, 0};
    oc_rope p = {.dtype = OC_F32, .rows = 1, .heads = 1, .head_dim = 4, .rot_dim = 4};
    p.positions = &position;
    p.inv_freq = inv_freq;
    p.scaling = 1;
    p.x = x;
    p.ld = 4;
    device->ops->rope(device, &p);
    const float want[4] = {0, 2, 1, 0};
    for (int i = 0; i < 4; i++)
        assert_true(fabsf(x[i] - want[i]) < 1e-6f);
}

/* <gather(table), y> = <table, scatter(y)>: each is the other's backward. */
static void scatter_is_the_transpose_of_gather(void **state) {
    (void)state;
    case_run r = {.seed = 17};
    enum { ROW0 = 10, TABLE = 4, C = 3, TOKENS_ = 6 };
    const int32_t index[TOKENS_] = {12, 10, 99, 12, 9, 13}, order[TOKENS_] = {4, 1, 0, 3, 5, 2};
    float *table = values(&r, TABLE * C), *y = values(&r, TOKENS_ * C);
    float out[TOKENS_ * C] = {0}, acc[TABLE * C] = {0};
    const oc_device_ops *ops = device->ops;
    ops->rows_gather(device, OC_F32, TOKENS_, C, index, ROW0, TABLE, table, out);
    ops->rows_scatter(device, OC_F32, TOKENS_, C, index, order, ROW0, TABLE, y, acc);
    assert_memory_equal(out, table + 2 * C, C * sizeof *out); /* index 12 is row 2 */
    double forward = weighted_sum(out, y, TOKENS_ * C), back = weighted_sum(table, acc, TABLE * C);
    assert_true(fabs(forward - back) < 1e-5);
    for (int i = 0; i < C; i++) {
        assert_true(out[2 * C + i] == 0 && out[4 * C + i] == 0); /* 99 and 9 are elsewhere */
        assert_true(acc[1 * C + i] == 0);                        /* nobody asked for row 11 */
    }
    case_free(&r);
}

/* [[1 2 3] [4 5 6]] [[1 2] [3 4] [5 6]] = [[22 28] [49 64]], stored either way round. */
static void gemm_multiplies_and_adds_what_it_is_told(void **state) {
    (void)state;
    const float a[6] = {1, 2, 3, 4, 5, 6}, a_t[6] = {1, 4, 2, 5, 3, 6};
    const float b[6] = {1, 2, 3, 4, 5, 6}, b_t[6] = {1, 3, 5, 2, 4, 6};
    const float bias[2] = {100, 200}, residual[4] = {0.5f, 0.25f, 0.125f, 0.0625f};
    for (int bits = 0; bits < 4; bits++) {
        float c[4] = {1000, 2000, 3000, 4000};
        oc_gemm g = {.trans_a = bits & 1, .trans_b = bits & 2, .accumulate = true};
        g.a = bits & 1 ? oc_mat_of(a_t, OC_F32, 3, 2, 2) : oc_mat_of(a, OC_F32, 2, 3, 3);
        g.b = bits & 2 ? oc_mat_of(b_t, OC_F32, 2, 3, 3) : oc_mat_of(b, OC_F32, 3, 2, 2);
        g.c = oc_mat_of(c, OC_F32, 2, 2, 2);
        g.bias = bias;
        g.residual = residual;
        device->ops->gemm(device, &g);
        const float want[4] = {1122.5f, 2228.25f, 3149.125f, 4264.0625f};
        assert_memory_equal(c, want, sizeof want);
    }
}

static void fold_adds_and_sums_squares(void **state) {
    (void)state;
    enum { COUNT = OC_NORM_CHUNK + 2 };
    uint16_t *g = malloc(COUNT * sizeof *g);
    float *acc = malloc(COUNT * sizeof *acc);
    assert_non_null(g);
    assert_non_null(acc);
    for (int i = 0; i < COUNT; i++) {
        g[i] = oc_f32_to_bf16(3);
        acc[i] = 77;
    }
    double partials[2];
    device->ops->fold(device, COUNT, g, OC_BF16, acc, OC_F32, true, partials);
    assert_true(acc[0] == 3 && acc[COUNT - 1] == 3);
    assert_true(partials[0] == 9.0 * OC_NORM_CHUNK && partials[1] == 18);
    device->ops->fold(device, COUNT, g, OC_BF16, acc, OC_F32, false, partials);
    assert_true(acc[0] == 6 && acc[COUNT - 1] == 6);
    assert_true(partials[0] == 36.0 * OC_NORM_CHUNK && partials[1] == 72);
    free(g);
    free(acc);
}

static void bias_grad_and_scale_add_sum(void **state) {
    (void)state;
    const float dy[6] = {1, 2, -9, 4, 5, -9}; /* 2 x 2 with ld 3 */
    float db[2], out[6];
    device->ops->bias_grad(device, OC_F32, 2, 2, dy, 3, db);
    assert_true(db[0] == 5 && db[1] == 7);
    device->ops->scale_add(device, OC_F32, 6, dy, 2, dy, out);
    assert_true(out[0] == 3 && out[2] == -27);
    device->ops->scale_add(device, OC_F32, 6, dy, 2, NULL, out);
    assert_true(out[0] == 2 && out[2] == -18);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norm_gradients),
        cmocka_unit_test(activation_gradients),
        cmocka_unit_test(cross_entropy_gradients),
        cmocka_unit_test(attention_gradients),
        cmocka_unit_test(attention_sees_its_document_and_window_only),
        cmocka_unit_test(rope_inverse_is_the_transpose),
        cmocka_unit_test(rope_turns_pairs_half_a_head_apart),
        cmocka_unit_test(scatter_is_the_transpose_of_gather),
        cmocka_unit_test(gemm_multiplies_and_adds_what_it_is_told),
        cmocka_unit_test(fold_adds_and_sums_squares),
        cmocka_unit_test(bias_grad_and_scale_add_sum),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
