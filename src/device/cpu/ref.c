/* ref.c - the reference back end: what every op means, in plain C on one thread.
 *
 * Inputs and outputs have the dtypes of the table; in between everything is fp64 unless the op's
 * own definition is a sequence of fp32 steps (update, fold), so that an output is the exact result
 * rounded once and any other back end can be measured against it. Slow by design. */
#include "device/device.h"

#include "device/impl.h"

#include <math.h>
#include <stdlib.h>

static double load(const void *data, oc_dtype t, int64_t i) {
    switch (t) {
    case OC_BF16:
        return (double)oc_bf16_to_f32(((const uint16_t *)data)[i]);
    case OC_F16:
        return (double)oc_f16_to_f32(((const uint16_t *)data)[i]);
    default:
        return (double)((const float *)data)[i];
    }
}

static void store(void *data, oc_dtype t, int64_t i, double x) {
    switch (t) {
    case OC_BF16:
        ((uint16_t *)data)[i] = oc_f32_to_bf16((float)x);
        break;
    case OC_F16:
        ((uint16_t *)data)[i] = oc_f32_to_f16((float)x);
        break;
    default:
        ((float *)data)[i] = (float)x;
    }
}

static uint64_t ref_scratch_bytes(const oc_device *d) {
    (void)d;
    return 0;
}

static void ref_lend_scratch(oc_device *d, void *scratch) {
    (void)d;
    (void)scratch;
}

/* --- gemm ------------------------------------------------------------------------------------- */

static bool gemm_shapes_fit(const oc_gemm *g) {
    int64_t m = g->trans_a ? g->a.cols : g->a.rows;
    int64_t ka = g->trans_a ? g->a.rows : g->a.cols;
    int64_t kb = g->trans_b ? g->b.cols : g->b.rows;
    int64_t n = g->trans_b ? g->b.rows : g->b.cols;
    return m == g->c.rows && n == g->c.cols && ka == kb && !(g->accumulate && g->c.dtype != OC_F32);
}

static void ref_gemm(oc_device *d, const oc_gemm *g) {
    if (!gemm_shapes_fit(g)) {
        oc_device_set_failed(d, OC_E_INVALID);
        return;
    }
    int64_t depth = g->trans_a ? g->a.rows : g->a.cols;
    for (int64_t i = 0; i < g->c.rows; i++) {
        for (int64_t j = 0; j < g->c.cols; j++) {
            double sum = 0;
            for (int64_t k = 0; k < depth; k++) {
                int64_t ia = g->trans_a ? k * g->a.ld + i : i * g->a.ld + k;
                int64_t ib = g->trans_b ? j * g->b.ld + k : k * g->b.ld + j;
                sum += load(g->a.data, g->a.dtype, ia) * load(g->b.data, g->b.dtype, ib);
            }
            int64_t ic = i * g->c.ld + j;
            if (g->bias) sum += load(g->bias, g->bias_dtype, j);
            if (g->residual) sum += load(g->residual, g->c.dtype, ic);
            if (g->accumulate) sum += load(g->c.data, g->c.dtype, ic);
            store(g->c.data, g->c.dtype, ic, sum);
        }
    }
}

/* --- attention -------------------------------------------------------------------------------- */

enum { CHUNK = 64 }; /* components of a head that are summed side by side */

/* One head of one sequence: x(t, i) is at data[t * ld + i]. */
typedef struct view {
    const void *data;
    oc_dtype dtype;
    int64_t origin, ld;
} view;

static view view_of(const void *data, const oc_attention *a, int64_t b, int64_t head, int64_t ld) {
    view v = {data, a->dtype, b * a->seq * ld + head * a->head_dim, ld};
    return v;
}

static double at(view v, int64_t t, int64_t i) {
    return load(v.data, v.dtype, v.origin + t * v.ld + i);
}

static double dot(view x, int64_t tx, view y, int64_t ty, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += at(x, tx, i) * at(y, ty, i);
    return sum;
}

/* The first key that token t of sequence b may look at. */
static int64_t first_key(const oc_attention *a, int64_t b, int64_t t) {
    int64_t lo = a->doc_start[b * a->seq + t];
    if (a->window > 0 && t - a->window + 1 > lo) lo = t - a->window + 1;
    return lo;
}

/* The score of query t of head h and key s; *slope is its derivative by scale q.k. */
static double score_of(const oc_attention *a, int64_t h, view q, view k, int64_t t, int64_t s,
                       double *slope) {
    double x = a->scale * dot(q, t, k, s, a->head_dim);
    *slope = 1;
    if (a->soft_cap > 0) {
        double c = tanh(x / a->soft_cap);
        x = a->soft_cap * c;
        *slope = 1 - c * c;
    }
    if (a->slopes) x += (double)a->slopes[h] * (double)(s - t);
    return x;
}

static double log_sum_exp(const oc_attention *a, int64_t h, view q, view k, int64_t t, int64_t lo) {
    double top = -INFINITY, sum = 0, slope;
    for (int64_t s = lo; s <= t; s++)
        top = fmax(top, score_of(a, h, q, k, t, s, &slope));
    for (int64_t s = lo; s <= t; s++)
        sum += exp(score_of(a, h, q, k, t, s, &slope) - top);
    return top + log(sum);
}

static void attend(const oc_attention *a, int64_t b, int64_t h, int64_t t) {
    int64_t kv = h / (a->heads / a->kv_heads), lo = first_key(a, b, t);
    view q = view_of(a->q, a, b, h, a->q_ld);
    view k = view_of(a->k, a, b, kv, a->k_ld), v = view_of(a->v, a, b, kv, a->v_ld);
    double slope, lse = log_sum_exp(a, h, q, k, t, lo);
    a->lse[(b * a->seq + t) * a->heads + h] = (float)lse;
    for (int64_t i0 = 0; i0 < a->head_dim; i0 += CHUNK) {
        int64_t n = a->head_dim - i0 < CHUNK ? a->head_dim - i0 : CHUNK;
        double sum[CHUNK] = {0};
        for (int64_t s = lo; s <= t; s++) {
            double p = exp(score_of(a, h, q, k, t, s, &slope) - lse);
            for (int64_t i = 0; i < n; i++)
                sum[i] += p * at(v, s, i0 + i);
        }
        int64_t o = (b * a->seq + t) * a->out_ld + h * a->head_dim + i0;
        for (int64_t i = 0; i < n; i++)
            store(a->out, a->dtype, o + i, sum[i]);
    }
}

static uint64_t ref_attention_work_bytes(const oc_device *d, const oc_attention *a) {
    (void)d;
    (void)a;
    return 0;
}

static void ref_attention_forward(oc_device *d, const oc_attention *a) {
    (void)d;
    for (int64_t b = 0; b < a->batch; b++) {
        for (int64_t h = 0; h < a->heads; h++) {
            for (int64_t t = 0; t < a->seq; t++)
                attend(a, b, h, t);
        }
    }
}

/* p = exp(score - lse); ds = p (dout.v - dout.out) slope, the gradient of scale q.k. */
typedef struct weight {
    double p, ds;
} weight;

static weight weight_of(const oc_attention *a, int64_t b, int64_t h, int64_t t, int64_t s) {
    int64_t kv = h / (a->heads / a->kv_heads), dim = a->head_dim;
    view q = view_of(a->q, a, b, h, a->q_ld);
    view k = view_of(a->k, a, b, kv, a->k_ld), v = view_of(a->v, a, b, kv, a->v_ld);
    view out = view_of(a->out, a, b, h, a->out_ld), dout = view_of(a->dout, a, b, h, a->out_ld);
    double lse = (double)a->lse[(b * a->seq + t) * a->heads + h];
    double slope, p = exp(score_of(a, h, q, k, t, s, &slope) - lse);
    weight w = {p, p * (dot(dout, t, v, s, dim) - dot(dout, t, out, t, dim)) * slope};
    return w;
}

static void query_grad(const oc_attention *a, int64_t b, int64_t h, int64_t t) {
    view k = view_of(a->k, a, b, h / (a->heads / a->kv_heads), a->k_ld);
    for (int64_t i0 = 0; i0 < a->head_dim; i0 += CHUNK) {
        int64_t n = a->head_dim - i0 < CHUNK ? a->head_dim - i0 : CHUNK;
        double sum[CHUNK] = {0};
        for (int64_t s = first_key(a, b, t); s <= t; s++) {
            weight w = weight_of(a, b, h, t, s);
            for (int64_t i = 0; i < n; i++)
                sum[i] += w.ds * at(k, s, i0 + i);
        }
        int64_t o = (b * a->seq + t) * a->q_ld + h * a->head_dim + i0;
        for (int64_t i = 0; i < n; i++)
            store(a->dq, a->dtype, o + i, a->scale * sum[i]);
    }
}

static void key_value_grad(const oc_attention *a, int64_t b, int64_t kv, int64_t s) {
    int64_t group = a->heads / a->kv_heads;
    for (int64_t i0 = 0; i0 < a->head_dim; i0 += CHUNK) {
        int64_t n = a->head_dim - i0 < CHUNK ? a->head_dim - i0 : CHUNK;
        double dk[CHUNK] = {0}, dv[CHUNK] = {0};
        for (int64_t h = kv * group; h < (kv + 1) * group; h++) {
            view q = view_of(a->q, a, b, h, a->q_ld);
            view dout = view_of(a->dout, a, b, h, a->out_ld);
            for (int64_t t = s; t < a->seq; t++) {
                if (s < first_key(a, b, t)) continue;
                weight w = weight_of(a, b, h, t, s);
                for (int64_t i = 0; i < n; i++) {
                    dk[i] += w.ds * at(q, t, i0 + i);
                    dv[i] += w.p * at(dout, t, i0 + i);
                }
            }
        }
        int64_t row = b * a->seq + s, column = kv * a->head_dim + i0;
        for (int64_t i = 0; i < n; i++) {
            store(a->dk, a->dtype, row * a->k_ld + column + i, a->scale * dk[i]);
            store(a->dv, a->dtype, row * a->v_ld + column + i, dv[i]);
        }
    }
}

static void ref_attention_backward(oc_device *d, const oc_attention *a) {
    (void)d;
    for (int64_t b = 0; b < a->batch; b++) {
        for (int64_t t = 0; t < a->seq; t++) {
            for (int64_t h = 0; h < a->heads; h++)
                query_grad(a, b, h, t);
            for (int64_t h = 0; h < a->kv_heads; h++)
                key_value_grad(a, b, h, t);
        }
    }
}

/* The element of kv at which the key, or value, of a token begins. */
static int64_t paged_at(const oc_paged_attention *a, int64_t row, int64_t place, bool value,
                        int64_t head) {
    int64_t page = a->pages[row * a->pages_ld + place / a->page_tokens];
    int64_t run = (page * 2 + value) * a->kv_heads + head;
    return (run * a->page_tokens + place % a->page_tokens) * a->head_dim;
}

static void append_token(const oc_paged_attention *a, int64_t row, int64_t j) {
    int64_t t = a->row[row].first + j, place = a->row[row].context + j;
    for (int64_t h = 0; h < a->kv_heads; h++)
        for (int64_t i = 0; i < a->head_dim; i++) {
            int64_t from = h * a->head_dim + i;
            store(a->kv, a->dtype, paged_at(a, row, place, false, h) + i,
                  load(a->k, a->dtype, t * a->k_ld + from));
            store(a->kv, a->dtype, paged_at(a, row, place, true, h) + i,
                  load(a->v, a->dtype, t * a->v_ld + from));
        }
}

static void ref_pages_append(oc_device *d, const oc_paged_attention *a) {
    (void)d;
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t j = 0; j < a->row[r].tokens; j++)
            append_token(a, r, j);
}

static double paged_score(const oc_paged_attention *a, int64_t row, int64_t t, int64_t h,
                          int64_t place, int64_t key) {
    int64_t at = paged_at(a, row, key, false, h / (a->heads / a->kv_heads));
    double x = 0;
    for (int64_t i = 0; i < a->head_dim; i++)
        x +=
            load(a->q, a->dtype, t * a->q_ld + h * a->head_dim + i) * load(a->kv, a->dtype, at + i);
    x *= a->scale;
    if (a->soft_cap > 0) x = a->soft_cap * tanh(x / a->soft_cap);
    if (a->slopes) x += (double)a->slopes[h] * (double)(key - place);
    return x;
}

/* One query: token t of the pass, at `place` in its sequence. */
static void attend_paged(const oc_paged_attention *a, int64_t row, int64_t t, int64_t h,
                         int64_t place) {
    int64_t lo = a->window > 0 && place - a->window + 1 > 0 ? place - a->window + 1 : 0;
    int64_t kv = h / (a->heads / a->kv_heads), to = t * a->out_ld + h * a->head_dim;
    double top = -INFINITY, sum = 0;
    for (int64_t k = lo; k <= place; k++)
        top = fmax(top, paged_score(a, row, t, h, place, k));
    for (int64_t k = lo; k <= place; k++)
        sum += exp(paged_score(a, row, t, h, place, k) - top);
    for (int64_t i = 0; i < a->head_dim; i++) {
        double x = 0;
        for (int64_t k = lo; k <= place; k++)
            x += exp(paged_score(a, row, t, h, place, k) - top) *
                 load(a->kv, a->dtype, paged_at(a, row, k, true, kv) + i);
        store(a->out, a->dtype, to + i, x / sum);
    }
}

static uint64_t ref_attention_paged_work_bytes(const oc_device *d, const oc_paged_attention *a) {
    (void)d;
    (void)a;
    return 0;
}

static void ref_attention_paged(oc_device *d, const oc_paged_attention *a) {
    ref_pages_append(d, a);
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t j = 0; j < a->row[r].tokens; j++)
            for (int64_t h = 0; h < a->heads; h++)
                attend_paged(a, r, a->row[r].first + j, h, a->row[r].context + j);
}

/* The angle is an fp32 product, as in every published model; cos and sin of it are exact. */
static void ref_rope(oc_device *d, const oc_rope *r) {
    (void)d;
    int64_t half = r->rot_dim / 2;
    for (int64_t row = 0; row < r->rows; row++) {
        for (int64_t i = 0; i < half; i++) {
            float angle = (float)r->positions[row] * r->inv_freq[i];
            double c = cos((double)angle) * r->scaling, s = sin((double)angle) * r->scaling;
            if (r->inverse) s = -s;
            for (int64_t h = 0; h < r->heads; h++) {
                int64_t i1 = row * r->ld + h * r->head_dim + i, i2 = i1 + half;
                double x1 = load(r->x, r->dtype, i1), x2 = load(r->x, r->dtype, i2);
                store(r->x, r->dtype, i1, x1 * c - x2 * s);
                store(r->x, r->dtype, i2, x2 * c + x1 * s);
            }
        }
    }
}

/* --- norms ------------------------------------------------------------------------------------ */

static double norm_weight(const oc_norm *n, int64_t j) {
    return load(n->w, n->dtype, j) + (n->plus_one ? 1 : 0);
}

static int64_t norm_groups(const oc_norm *n) { return n->groups > 0 ? n->groups : 1; }

/* Where vector i, one of rows * groups, begins. */
static int64_t norm_at(const oc_norm *n, int64_t i) {
    int64_t groups = norm_groups(n), ld = n->ld > 0 ? n->ld : groups * n->cols;
    return i / groups * ld + i % groups * n->cols;
}

static void ref_norm_forward(oc_device *d, const oc_norm *n) {
    (void)d;
    for (int64_t i = 0; i < n->rows * norm_groups(n); i++) {
        int64_t o = norm_at(n, i);
        double mean = 0, var = 0;
        if (!n->rms) {
            for (int64_t j = 0; j < n->cols; j++)
                mean += load(n->x, n->dtype, o + j);
            mean /= (double)n->cols;
        }
        for (int64_t j = 0; j < n->cols; j++) {
            double c = load(n->x, n->dtype, o + j) - mean;
            var += c * c;
        }
        double rstd = 1 / sqrt(var / (double)n->cols + n->eps);
        if (!n->rms) n->mean[i] = (float)mean;
        n->rstd[i] = (float)rstd;
        for (int64_t j = 0; j < n->cols; j++) {
            double y = (load(n->x, n->dtype, o + j) - mean) * rstd * norm_weight(n, j);
            if (n->b) y += load(n->b, n->dtype, j);
            store(n->y, n->dtype, o + j, y);
        }
    }
}

/* The normalised input, (x - mean) rstd. */
static double norm_xhat(const oc_norm *n, int64_t i, int64_t j) {
    double mean = n->rms ? 0 : (double)n->mean[i];
    return (load(n->x, n->dtype, norm_at(n, i) + j) - mean) * n->rstd[i];
}

static double norm_dy(const oc_norm *n, int64_t i, int64_t j) {
    return load(n->dy, n->dy_dtype, norm_at(n, i) + j);
}

/* dx of vector i. Its sums first: dx may stand where dy, add or x stood. */
static void norm_dx(const oc_norm *n, int64_t i) {
    double mean_g = 0, mean_gx = 0; /* of g = dy w and of g xhat */
    for (int64_t j = 0; j < n->cols; j++) {
        double g = norm_dy(n, i, j) * norm_weight(n, j);
        if (!n->rms) mean_g += g;
        mean_gx += g * norm_xhat(n, i, j);
    }
    mean_g /= (double)n->cols;
    mean_gx /= (double)n->cols;
    for (int64_t j = 0; j < n->cols; j++) {
        double g = norm_dy(n, i, j) * norm_weight(n, j);
        double dx = n->rstd[i] * (g - mean_g - norm_xhat(n, i, j) * mean_gx);
        if (n->add) dx += load(n->add, n->dtype, norm_at(n, i) + j);
        store(n->dx, n->dtype, norm_at(n, i) + j, dx);
    }
}

static void ref_norm_backward(oc_device *d, const oc_norm *n) {
    (void)d;
    int64_t vectors = n->rows * norm_groups(n);
    for (int64_t j = 0; j < n->cols; j++) {
        double dw = 0, db = 0;
        for (int64_t i = 0; i < vectors; i++) {
            dw += norm_dy(n, i, j) * norm_xhat(n, i, j);
            db += norm_dy(n, i, j);
        }
        if (n->dw) store(n->dw, n->dtype, j, dw);
        if (n->db) store(n->db, n->dtype, j, db);
    }
    for (int64_t i = 0; i < vectors; i++)
        norm_dx(n, i);
}

/* --- activations ------------------------------------------------------------------------------ */

#define SQRT_2_OVER_PI 0.79788456080286535588
#define SQRT_HALF 0.70710678118654752440
#define INV_SQRT_2PI 0.39894228040143267794

/* act(x) and its derivative. GELU (tanh): Hendrycks and Gimpel, arXiv 1606.08415. */
static double activate(oc_act act, double x, double *slope) {
    switch (act) {
    case OC_ACT_SILU: {
        double s = 1 / (1 + exp(-x));
        *slope = s * (1 + x * (1 - s));
        return x * s;
    }
    case OC_ACT_GELU_TANH: {
        double t = tanh(SQRT_2_OVER_PI * (x + 0.044715 * x * x * x));
        double inner = SQRT_2_OVER_PI * (1 + 3 * 0.044715 * x * x);
        *slope = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner;
        return 0.5 * x * (1 + t);
    }
    case OC_ACT_GELU: {
        double phi = 0.5 * (1 + erf(x * SQRT_HALF));
        *slope = phi + x * INV_SQRT_2PI * exp(-0.5 * x * x);
        return x * phi;
    }
    default: /* NaN stays NaN */
        *slope = x <= 0 ? 0 : 1;
        return x <= 0 ? 0 : x;
    }
}

static void ref_act_forward(oc_device *d, oc_act act, bool gated, oc_dtype t, int64_t rows,
                            int64_t cols, const void *x, void *y) {
    (void)d;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < cols; j++) {
            double slope;
            double v = activate(act, load(x, t, i * (gated ? 2 * cols : cols) + j), &slope);
            if (gated) v *= load(x, t, i * 2 * cols + cols + j);
            store(y, t, i * cols + j, v);
        }
    }
}

static void ref_act_backward(oc_device *d, oc_act act, bool gated, oc_dtype t, int64_t rows,
                             int64_t cols, const void *x, const void *dy, void *dx) {
    (void)d;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < cols; j++) {
            int64_t gate = i * (gated ? 2 * cols : cols) + j, up = gate + cols;
            double g = load(dy, t, i * cols + j), slope;
            double v = activate(act, load(x, t, gate), &slope);
            double u = gated ? load(x, t, up) : 1;
            store(dx, t, gate, g * u * slope);
            if (gated) store(dx, t, up, g * v);
        }
    }
}

static void ref_bias_grad(oc_device *d, oc_dtype t, int64_t rows, int64_t cols, const void *dy,
                          int64_t ld, void *db) {
    (void)d;
    for (int64_t j = 0; j < cols; j++) {
        double sum = 0;
        for (int64_t i = 0; i < rows; i++)
            sum += load(dy, t, i * ld + j);
        store(db, t, j, sum);
    }
}

static void ref_scale_add(oc_device *d, oc_dtype t, int64_t n, const void *a, float scale,
                          const void *b, void *out) {
    (void)d;
    for (int64_t i = 0; i < n; i++) {
        store(out, t, i, (double)scale * load(a, t, i) + (b ? load(b, t, i) : 0));
    }
}

/* --- cross-entropy ---------------------------------------------------------------------------- */

enum { IGNORED = -100 };

static void ref_ce_init(oc_device *d, int64_t rows, float *max, float *sum, float *target) {
    (void)d;
    for (int64_t i = 0; i < rows; i++) {
        max[i] = -INFINITY;
        sum[i] = 0;
        target[i] = 0;
    }
}

static void ref_ce_update(oc_device *d, int64_t rows, int64_t n, int64_t v0, const float *logits,
                          const int32_t *labels, float *max, float *sum, float *target) {
    (void)d;
    for (int64_t i = 0; i < rows; i++) {
        const float *x = logits + i * n;
        float top = max[i];
        for (int64_t j = 0; j < n; j++)
            top = x[j] > top ? x[j] : top;
        double s = max[i] == top ? (double)sum[i] : sum[i] * exp((double)max[i] - (double)top);
        for (int64_t j = 0; j < n; j++)
            s += exp((double)x[j] - (double)top);
        max[i] = top;
        sum[i] = (float)s;
        if (labels[i] >= v0 && labels[i] < v0 + n) target[i] = x[labels[i] - v0];
    }
}

static void ref_ce_loss(oc_device *d, int64_t rows, const int32_t *labels, const float *max,
                        const float *sum, const float *target, float *lse, double *loss_sum) {
    (void)d;
    double loss = 0;
    for (int64_t i = 0; i < rows; i++) {
        lse[i] = (float)((double)max[i] + log((double)sum[i]));
        if (labels[i] != IGNORED) loss += (double)lse[i] - (double)target[i];
    }
    *loss_sum = loss;
}

static void ref_ce_scores(oc_device *d, int64_t rows, const int32_t *labels, const float *max,
                          const float *target, const float *lse, oc_token_score *scores) {
    (void)d;
    for (int64_t i = 0; i < rows; i++) {
        oc_token_score s = {0, 0};
        if (labels[i] != IGNORED) s.nll = (double)lse[i] - (double)target[i];
        if (labels[i] != IGNORED && target[i] >= max[i]) s.likeliest = 1;
        scores[i] = s;
    }
}

static void ref_ce_grad(oc_device *d, int64_t rows, int64_t n, int64_t v0, const float *logits,
                        const int32_t *labels, const float *lse, const float *dscale, float cap,
                        oc_dtype t, void *dlogits) {
    (void)d;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < n; j++) {
            double x = (double)logits[i * n + j], p = exp(x - (double)lse[i]);
            double g = (p - (labels[i] == v0 + j ? 1 : 0)) * *dscale;
            if (cap > 0) g *= 1 - (x / cap) * (x / cap);
            store(dlogits, t, i * n + j, labels[i] == IGNORED ? 0 : g);
        }
    }
}

static void ref_soft_cap(oc_device *d, int64_t n, float cap, float *x) {
    (void)d;
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(cap * tanh((double)x[i] / cap));
}

/* --- rows of a table -------------------------------------------------------------------------- */

static void ref_rows_gather(oc_device *d, oc_dtype t, int64_t n, int64_t cols, const int32_t *index,
                            int64_t row0, int64_t table_rows, const void *table, void *out) {
    (void)d;
    for (int64_t i = 0; i < n; i++) {
        int64_t row = index[i] - row0;
        if (row < 0 || row >= table_rows) continue;
        for (int64_t j = 0; j < cols; j++) {
            store(out, t, i * cols + j, load(table, t, row * cols + j));
        }
    }
}

static void ref_rows_scatter(oc_device *d, oc_dtype t, int64_t n, int64_t cols,
                             const int32_t *index, const int32_t *order, int64_t row0,
                             int64_t table_rows, const void *src, float *acc) {
    (void)d;
    for (int64_t k = 0; k < n; k++) {
        int64_t i = order[k], row = index[i] - row0;
        if (row < 0 || row >= table_rows) continue;
        for (int64_t j = 0; j < cols; j++)
            acc[row * cols + j] += (float)load(src, t, i * cols + j);
    }
}

/* --- gradients and parameters ----------------------------------------------------------------- */

static void ref_fold(oc_device *d, int64_t n, const void *g, oc_dtype g_dtype, void *acc,
                     oc_dtype acc_dtype, bool first, double *partials) {
    (void)d;
    for (int64_t c = 0; c * OC_NORM_CHUNK < n; c++) {
        int64_t end = (c + 1) * OC_NORM_CHUNK < n ? (c + 1) * OC_NORM_CHUNK : n;
        double squares = 0;
        for (int64_t i = c * OC_NORM_CHUNK; i < end; i++) {
            float sum = (float)load(g, g_dtype, i);
            if (!first) sum += (float)load(acc, acc_dtype, i);
            store(acc, acc_dtype, i, (double)sum);
            double stored = load(acc, acc_dtype, i);
            squares += stored * stored;
        }
        if (partials) partials[c] = squares;
    }
}

static float adam_step(const oc_update *u, const oc_update_scalars *s, int64_t i, float p,
                       float g) {
    float m = (float)u->beta1 * u->m[i] + (float)(1 - u->beta1) * g;
    float v = (float)u->beta2 * u->v[i] + (float)(1 - u->beta2) * g * g;
    float denom = sqrtf(v) / (float)sqrt(s->bias2) + (float)u->eps;
    u->m[i] = m;
    u->v[i] = v;
    return p - (float)(s->lr / s->bias1) * (m / denom);
}

static void ref_update(oc_device *d, const oc_update *u) {
    (void)d;
    const oc_update_scalars s = *u->scalars;
    for (int64_t i = 0; i < u->n; i++) {
        float p = u->p[i], g = (float)load(u->g, u->g_dtype, i) * s.coef;
        if (u->kind == OC_ADAMW) {
            p *= (float)(1 - s.lr * u->weight_decay);
        } else {
            g += (float)u->weight_decay * p;
        }
        if (u->kind == OC_SGD) {
            if (u->m) g = u->m[i] = (float)u->momentum * u->m[i] + g;
            p -= (float)s.lr * g;
        } else {
            p = adam_step(u, &s, i, p, g);
        }
        u->p[i] = p;
        if (u->copy) store(u->copy, u->copy_dtype, i, (double)p);
    }
}

static void ref_copy(oc_device *d, void *dst, const void *src, uint64_t bytes) {
    (void)d;
    memcpy(dst, src, bytes);
}

static void ref_fill(oc_device *d, void *dst, uint8_t value, uint64_t bytes) {
    (void)d;
    memset(dst, value, bytes);
}

static void ref_zero(oc_device *d, void *dst, uint64_t bytes) { ref_fill(d, dst, 0, bytes); }

/* --- the table -------------------------------------------------------------------------------- */

static const oc_device_ops reference_ops = {
    .name = "reference",
    OC_DEVICE_ENTRIES(ref_),
    .open_memory = oc_device_open_host_memory,
};

typedef struct reference {
    oc_device_impl impl;
    oc_device device;
} reference;

static void reference_close(oc_device *d) { free(d->impl); }

oc_status oc_device_open_reference(oc_device **out, oc_error *err) {
    *out = NULL;
    reference *r = calloc(1, sizeof *r);
    if (!r) return oc_fail(err, OC_E_MEMORY, "no memory for the reference device");
    r->impl.close = reference_close;
    r->impl.kernels = "reference";
    atomic_init(&r->impl.failed, OC_OK);
    r->device.ops = &reference_ops;
    r->device.impl = &r->impl;
    *out = &r->device;
    return OC_OK;
}
