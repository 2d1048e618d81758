/* Ops and optimizers of the reference and of the best kernels of this machine against PyTorch's
 * numbers: tests/data/device_ops.json, written by tools/make_device_expected.py. */
#include "cmocka_all.h"

#include "device/device.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

static json_t *expected;
static oc_pool *pool;
static oc_device *devices[2];

static int set_up(void **state) {
    (void)state;
    json_error_t err;
    expected = json_load_file(OC_TEST_DATA "/device_ops.json", 0, &err);
    if (!expected) {
        print_error("device_ops.json: %s\n", err.text);
        return -1;
    }
    if (oc_pool_open(&pool, 2, NULL) != OC_OK) return -1;
    if (oc_device_open_reference(&devices[0], NULL) != OC_OK) return -1;
    return oc_device_open_cpu(&devices[1], pool, OC_ISA_BEST, NULL) == OC_OK ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++)
        oc_device_close(devices[i]);
    oc_pool_close(pool);
    json_decref(expected);
    return 0;
}

enum { MOST = 512 };

typedef struct numbers {
    int64_t n;
    float x[MOST];
    double exact[MOST];
} numbers;

static numbers from_array(const json_t *a, const char *name) {
    numbers v = {.n = (int64_t)json_array_size(a)};
    if (v.n < 1 || v.n > MOST) fail_msg("%s is not an array of 1 to %d numbers", name, MOST);
    for (int64_t i = 0; i < v.n; i++) {
        v.exact[i] = json_number_value(json_array_get(a, (size_t)i));
        v.x[i] = (float)v.exact[i];
    }
    return v;
}

static numbers get(const json_t *o, const char *name) {
    return from_array(json_object_get(o, name), name);
}
static double get_number(const json_t *o, const char *name) {
    const json_t *x = json_object_get(o, name);
    if (!json_is_number(x)) fail_msg("%s is not a number", name);
    return json_number_value(x);
}

static void check(const char *what, const float *got, const numbers *want, double relative,
                  double absolute) {
    for (int64_t i = 0; i < want->n; i++) {
        double g = (double)got[i], w = want->exact[i];
        if (fabs(g - w) > relative * fabs(w) + absolute) {
            fail_msg("%s[%lld]: got %.9g, PyTorch says %.9g", what, (long long)i, g, w);
        }
    }
}

static void check_optimizer(const oc_device *d, const json_t *o) {
    const json_t *grads = json_object_get(o, "grads");
    numbers p = get(o, "p0"), want = get(o, "p");
    float m[MOST] = {0}, v[MOST] = {0};
    oc_update u = {.kind = (oc_optimizer_kind)get_number(o, "kind"), .n = p.n};
    oc_update_scalars scalars = {.lr = get_number(o, "lr"), .coef = 1};
    u.scalars = &scalars;
    u.beta1 = get_number(o, "beta1");
    u.beta2 = get_number(o, "beta2");
    u.eps = get_number(o, "eps");
    u.weight_decay = get_number(o, "weight_decay");
    u.momentum = get_number(o, "momentum");
    u.p = p.x;
    if (u.kind != OC_SGD || u.momentum > 0) u.m = m;
    if (u.kind != OC_SGD) u.v = v;
    for (size_t t = 0; t < json_array_size(grads); t++) {
        numbers g = from_array(json_array_get(grads, t), "grads");
        u.g = g.x;
        scalars.bias1 = 1 - pow(get_number(o, "beta1"), (double)t + 1);
        scalars.bias2 = 1 - pow(get_number(o, "beta2"), (double)t + 1);
        d->ops->update((oc_device *)(uintptr_t)d, &u);
    }
    /* A few fp32 roundings of p, and of each step, which is about lr. */
    double step = scalars.lr * (double)json_array_size(grads);
    check(json_string_value(json_object_get(o, "name")), p.x, &want, 3e-7, 2e-6 * step);
}

static void optimizers_match(void **state) {
    (void)state;
    const json_t *cases = json_object_get(expected, "optimizers");
    assert_true(json_array_size(cases) >= 5);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        for (int d = 0; d < 2; d++)
            check_optimizer(devices[d], json_array_get(cases, i));
    }
}

static void activations_match(void **state) {
    (void)state;
    static const char *const names[OC_ACT_COUNT] = {"silu", "gelu tanh", "gelu", "relu"};
    const json_t *o = json_object_get(expected, "activations");
    numbers x = get(o, "x"), dy = get(o, "dy");
    float y[MOST], dx[MOST];
    for (int act = 0; act < OC_ACT_COUNT; act++) {
        numbers want_y = from_array(json_array_get(json_object_get(o, "y"), (size_t)act), "y");
        numbers want_dx = from_array(json_array_get(json_object_get(o, "dx"), (size_t)act), "dx");
        for (int i = 0; i < 2; i++) {
            oc_device *d = devices[i];
            d->ops->act_forward(d, (oc_act)act, false, OC_F32, 1, x.n, x.x, y);
            check(names[act], y, &want_y, 1e-6, 1e-6);
            d->ops->act_backward(d, (oc_act)act, false, OC_F32, 1, x.n, x.x, dy.x, dx);
            check(names[act], dx, &want_dx, 1e-6, 1e-6);
        }
    }
}

static void check_norm(oc_device *d, const json_t *o, bool rms) {
    numbers x = get(o, "x"), w = get(o, "w"), dy = get(o, "dy"), b = {0}, want;
    if (!rms) b = get(o, "b");
    float y[MOST], mean[MOST], rstd[MOST], dx[MOST], dw[MOST], db[MOST];
    oc_norm n = {.dtype = OC_F32, .rms = rms, .x = x.x, .w = w.x, .y = y, .rstd = rstd};
    n.rows = (int64_t)get_number(o, "rows");
    n.cols = (int64_t)get_number(o, "cols");
    n.eps = (float)get_number(o, "eps");
    n.b = rms ? NULL : b.x;
    n.mean = rms ? NULL : mean;
    n.dy = dy.x;
    n.dx = dx;
    n.dw = dw;
    n.db = rms ? NULL : db;
    d->ops->norm_forward(d, &n);
    d->ops->norm_backward(d, &n);
    want = get(o, "y");
    check("norm y", y, &want, 1e-6, 1e-6);
    want = get(o, "dx");
    check("norm dx", dx, &want, 1e-6, 2e-6);
    want = get(o, "dw");
    check("norm dw", dw, &want, 1e-6, 2e-6);
    if (rms) return;
    want = get(o, "db");
    check("norm db", db, &want, 1e-6, 2e-6);
}

/* What lies in the views of a buffer of rows, one after the other. */
static void view(const float *rows, const oc_norm *n, float *out) {
    int64_t width = n->groups * n->cols;
    for (int64_t i = 0; i < n->rows; i++)
        memcpy(out + i * width, rows + i * n->ld, (size_t)width * sizeof *out);
}

static void check_norm_of_heads(oc_device *d, const json_t *o, bool rms) {
    numbers x = get(o, "x"), w = get(o, "w"), dy = get(o, "dy"), b = {0}, want;
    if (!rms) b = get(o, "b");
    int64_t before = (int64_t)get_number(o, "before");
    float y[MOST], mean[MOST], rstd[MOST], dw[MOST], db[MOST], seen[MOST];
    oc_norm n = {.dtype = OC_F32, .rms = rms, .w = w.x, .rstd = rstd, .dw = dw};
    n.x = x.x + before;
    n.y = y + before;
    n.rows = (int64_t)get_number(o, "rows");
    n.groups = (int64_t)get_number(o, "groups");
    n.cols = (int64_t)get_number(o, "cols");
    n.ld = (int64_t)get_number(o, "ld");
    n.eps = (float)get_number(o, "eps");
    n.b = rms ? NULL : b.x;
    n.mean = rms ? NULL : mean;
    n.dy = n.dx = dy.x + before;
    n.db = rms ? NULL : db;
    d->ops->norm_forward(d, &n);
    d->ops->norm_backward(d, &n);
    want = get(o, "y");
    view(n.y, &n, seen);
    check("norm of heads y", seen, &want, 1e-6, 1e-6);
    want = get(o, "dx");
    view(n.dx, &n, seen);
    check("norm of heads dx", seen, &want, 1e-6, 4e-6);
    want = get(o, "dw");
    check("norm of heads dw", dw, &want, 1e-6, 4e-6);
    if (rms) return;
    want = get(o, "db");
    check("norm of heads db", db, &want, 1e-6, 4e-6);
}

static void norms_match(void **state) {
    (void)state;
    for (int d = 0; d < 2; d++) {
        check_norm(devices[d], json_object_get(expected, "rms_norm"), true);
        check_norm(devices[d], json_object_get(expected, "layer_norm"), false);
        check_norm_of_heads(devices[d], json_object_get(expected, "rms_norm_heads"), true);
        check_norm_of_heads(devices[d], json_object_get(expected, "layer_norm_heads"), false);
    }
}

static void check_cross_entropy(oc_device *d, const json_t *o, float cap) {
    numbers logits = get(o, "logits"), labels = get(o, "labels"), want = get(o, "dlogits");
    int64_t rows = (int64_t)get_number(o, "rows"), classes = (int64_t)get_number(o, "classes");
    int32_t label[MOST];
    for (int64_t i = 0; i < rows; i++)
        label[i] = (int32_t)labels.exact[i];
    float max[MOST], sum[MOST], target[MOST], lse[MOST], grad[MOST];
    double loss;
    const float dscale = 1;
    if (cap > 0) {
        numbers capped = get(o, "capped");
        d->ops->soft_cap(d, rows * classes, cap, logits.x);
        check("capped", logits.x, &capped, 1e-6, 0);
    }
    d->ops->ce_init(d, rows, max, sum, target);
    d->ops->ce_update(d, rows, classes, 0, logits.x, label, max, sum, target);
    d->ops->ce_loss(d, rows, label, max, sum, target, lse, &loss);
    d->ops->ce_grad(d, rows, classes, 0, logits.x, label, lse, &dscale, cap, OC_F32, grad);
    assert_true(fabs(loss - get_number(o, "loss_sum")) < 1e-5);
    check("dlogits", grad, &want, 2e-6, 2e-6);
}

static void cross_entropy_matches(void **state) {
    (void)state;
    const json_t *capped = json_object_get(expected, "cross_entropy_capped");
    for (int i = 0; i < 2; i++) {
        check_cross_entropy(devices[i], json_object_get(expected, "cross_entropy"), 0);
        check_cross_entropy(devices[i], capped, (float)get_number(capped, "cap"));
    }
}

static void check_attention(oc_device *d, const json_t *o) {
    numbers q = get(o, "q"), k = get(o, "k"), v = get(o, "v"), dout = get(o, "dout"), want;
    float out[MOST], lse[MOST], dq[MOST], dk[MOST], dv[MOST];
    int32_t doc_start[MOST] = {0};
    numbers slopes = {0};
    oc_attention a = {.dtype = OC_F32, .q = q.x, .k = k.x, .v = v.x, .out = out, .lse = lse};
    a.batch = (int64_t)get_number(o, "batch");
    a.seq = (int64_t)get_number(o, "seq");
    a.heads = (int32_t)get_number(o, "heads");
    a.kv_heads = (int32_t)get_number(o, "kv_heads");
    a.head_dim = (int32_t)get_number(o, "head_dim");
    a.scale = (float)(1 / sqrt((double)a.head_dim));
    if (json_object_get(o, "cap")) { /* a shaped one */
        a.scale = (float)get_number(o, "scale");
        a.soft_cap = (float)get_number(o, "cap");
        a.window = (int64_t)get_number(o, "window");
        if (json_is_array(json_object_get(o, "slopes"))) {
            slopes = get(o, "slopes");
            a.slopes = slopes.x;
        }
    }
    a.doc_start = doc_start;
    a.q_ld = a.out_ld = (int64_t)a.heads * a.head_dim;
    a.k_ld = a.v_ld = (int64_t)a.kv_heads * a.head_dim;
    a.dout = dout.x;
    a.dq = dq;
    a.dk = dk;
    a.dv = dv;
    uint64_t bytes = (d->ops->attention_work_bytes(d, &a) + 63) / 64 * 64 + 64;
    a.work = aligned_alloc(64, bytes);
    assert_non_null(a.work);
    d->ops->attention_forward(d, &a);
    d->ops->attention_backward(d, &a);
    want = get(o, "out");
    check("attention out", out, &want, 1e-6, 2e-6);
    want = get(o, "dq");
    check("attention dq", dq, &want, 1e-6, 4e-6);
    want = get(o, "dk");
    check("attention dk", dk, &want, 1e-6, 4e-6);
    want = get(o, "dv");
    check("attention dv", dv, &want, 1e-6, 4e-6);
    free(a.work);
}

static void attention_matches(void **state) {
    (void)state;
    const json_t *shaped = json_object_get(expected, "attention_shaped");
    assert_int_equal(json_array_size(shaped), 3);
    for (int d = 0; d < 2; d++) {
        check_attention(devices[d], json_object_get(expected, "attention"));
        for (size_t i = 0; i < json_array_size(shaped); i++)
            check_attention(devices[d], json_array_get(shaped, i));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimizers_match),  cmocka_unit_test(activations_match),
        cmocka_unit_test(norms_match),       cmocka_unit_test(cross_entropy_matches),
        cmocka_unit_test(attention_matches),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
