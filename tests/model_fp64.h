/* model_fp64.h - a small model of any kind, and the same model in plain fp64 with none of the block
 * programs' code. */
#ifndef OC_TEST_MODEL_FP64_H
#define OC_TEST_MODEL_FP64_H

#include "cmocka_all.h"
#include "model/program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BATCH = 2,
    SEQ = 7,
    T = BATCH * SEQ,
    HIDDEN = 24,
    LAYERS = 2,
    CHUNKS = 2,
    BLOCKS = LAYERS + 1 + CHUNKS + 1,
    FINAL = LAYERS,
    CHUNK0 = LAYERS + 1,
    FRONT = CHUNK0 + CHUNKS,
    VOCAB = OC_HEAD_TILE + 100, /* two chunks: whole tiles, and a short one */
    MAX_RANGES = 80,
    MOST_WIDE = 96 /* of any activation, elements a token */
};

typedef struct range { /* a part of a block whose gradient is checked on its own */
    int block;
    const char *name;
    int64_t first, n;
} range;

typedef struct rig {
    oc_model model;
    oc_block blocks[BLOCKS];
    int n_blocks; /* without FRONT when there is none */
    oc_program_shape shape;
    oc_program_batch batch;
    int32_t tokens[T], labels[T], positions[T], doc_start[T];
    float inv_freq[8];
    range ranges[MAX_RANGES];
    int n_ranges;
    double *w64[BLOCKS];                       /* weights as the device's dtype holds them */
    double x0[T * HIDDEN], places[T * HIDDEN]; /* rows in, position rows */
    void *weights[BLOCKS], *grads[BLOCKS];
    void *rows, *d_rows, *position_rows; /* FRONT */
    void *act[LAYERS + 1], *saved[LAYERS][OC_SAVED_COUNT];
    void *d, *work, *head_work, *state;
    float *logits[CHUNKS]; /* NULL: not kept */
    bool frozen;           /* no gradients of weights */
    double loss;
} rig;

/* NULL when the block lacks it; OC_W_COUNT: none. */
static const double *plain_weight(const rig *r, int block, oc_weight k) {
    int64_t o = k == OC_W_COUNT ? -1 : r->blocks[block].offset[k];
    return o < 0 ? NULL : r->w64[block] + o;
}

/* Vectors of cols, `step` apart. y may be x. */
static void plain_norm(const rig *r, const double *w, const double *b, const double *x, double *y,
                       int64_t n, int64_t cols, int64_t step) {
    const oc_decoder_spec *d = &r->model.decoder;
    for (int64_t v = 0; v < n; v++) {
        const double *from = x + v * step;
        double mean = 0, var = 0;
        for (int64_t i = 0; i < cols; i++)
            mean += from[i] / (double)cols;
        if (d->norm == OC_NORM_RMS) mean = 0;
        for (int64_t i = 0; i < cols; i++)
            var += pow(from[i] - mean, 2) / (double)cols;
        for (int64_t i = 0; i < cols; i++)
            y[v * step + i] = (from[i] - mean) / sqrt(var + (double)d->norm_eps) *
                                  ((d->norm_plus_one ? 1 : 0) + w[i]) +
                              (b ? b[i] : 0);
    }
}

static void plain_block_norm(const rig *r, int block, oc_weight k, oc_weight bias, const double *x,
                             double *y) {
    plain_norm(r, plain_weight(r, block, k), plain_weight(r, block, bias), x, y, T, HIDDEN, HIDDEN);
}

/* y[T, out] = x[T, in] w[out, in]^T (+ b) */
static void plain_linear(const double *x, int64_t in, const double *w, const double *b, double *y,
                         int64_t out) {
    for (int t = 0; t < T; t++) {
        for (int64_t o = 0; o < out; o++) {
            double sum = b ? b[o] : 0;
            for (int64_t i = 0; i < in; i++)
                sum += x[t * in + i] * w[o * in + i];
            y[t * out + o] = sum;
        }
    }
}

/* One head of one token, its first rot_dim turned as complex numbers (x_i + j x_{i + rot/2}). */
static void plain_rope(const rig *r, const oc_layer_variant *v, double *head, int t) {
    int half = r->model.decoder.rot_dim / 2;
    for (int i = 0; i < half; i++) {
        double angle = r->positions[t] * (double)r->inv_freq[v->rope * half + i];
        double re = head[i], im = head[i + half];
        double c = cos(angle) * (double)v->rope_scaling, s = sin(angle) * (double)v->rope_scaling;
        head[i] = re * c - im * s;
        head[i + half] = re * s + im * c;
    }
}

/* q and k of [T, ld], normed and turned in place. */
static void plain_turn(const rig *r, int l, double *qkv) {
    const oc_decoder_spec *d = &r->model.decoder;
    const oc_layer_variant *v = &d->variants[r->blocks[l].variant];
    int H = d->heads, KV = d->kv_heads, D = d->head_dim, ld = (H + 2 * KV) * D;
    for (int t = 0; t < T; t++) {
        double *row = qkv + t * ld;
        if (d->qk_norm) {
            plain_norm(r, plain_weight(r, l, OC_W_QNORM), NULL, row, row, H, D, D);
            plain_norm(r, plain_weight(r, l, OC_W_KNORM), NULL, row + H * D, row + H * D, KV, D, D);
        }
        for (int h = 0; h < H + KV && d->position == OC_POS_ROPE; h++)
            plain_rope(r, v, row + h * D, t);
    }
}

static double plain_score(const rig *r, const double *q, const double *k, int head, int distance) {
    const oc_decoder_spec *d = &r->model.decoder;
    double dot = 0, cap = (double)d->attention_cap;
    for (int i = 0; i < d->head_dim; i++)
        dot += q[i] * k[i];
    dot *= (double)d->attention_scale;
    if (cap > 0) dot = cap * tanh(dot / cap);
    if (d->position == OC_POS_ALIBI) dot -= (double)r->inv_freq[head] * distance;
    return dot;
}

static void plain_attention(const rig *r, int l, double *qkv, double *o) {
    const oc_decoder_spec *d = &r->model.decoder;
    int H = d->heads, KV = d->kv_heads, D = d->head_dim, ld = (H + 2 * KV) * D;
    int window = (int)d->variants[r->blocks[l].variant].window;
    plain_turn(r, l, qkv);
    for (int t = 0; t < T; t++) {
        for (int h = 0; h < H; h++) {
            const double *q = qkv + t * ld + h * D;
            double p[SEQ], total = 0;
            int row0 = t / SEQ * SEQ, first = row0 + r->doc_start[t], kv = h / (H / KV);
            if (window > 0 && first < t - window + 1) first = t - window + 1;
            for (int s = first; s <= t; s++)
                total += p[s - row0] =
                    exp(plain_score(r, q, qkv + s * ld + (H + kv) * D, h, t - s));
            for (int i = 0; i < D; i++) {
                double sum = 0;
                for (int s = first; s <= t; s++)
                    sum += p[s - row0] / total * qkv[s * ld + (H + KV + kv) * D + i];
                o[(t * H + h) * D + i] = sum;
            }
        }
    }
}

/* y = out(attention(n)) */
static void plain_attend(const rig *r, int l, const double *n, double *y) {
    const oc_decoder_spec *d = &r->model.decoder;
    static double qkv[T * MOST_WIDE], o[T * MOST_WIDE];
    int64_t q = d->heads * d->head_dim;
    plain_linear(n, HIDDEN, plain_weight(r, l, OC_W_QKV), plain_weight(r, l, OC_W_QKV_BIAS), qkv,
                 q + 2 * d->kv_heads * d->head_dim);
    plain_attention(r, l, qkv, o);
    plain_linear(o, q, plain_weight(r, l, OC_W_OUT), plain_weight(r, l, OC_W_OUT_BIAS), y, HIDDEN);
}

static double plain_act(oc_act act, double x) {
    if (act == OC_ACT_SILU) return x / (1 + exp(-x));
    if (act == OC_ACT_GELU) return 0.5 * x * (1 + erf(x / sqrt(2)));
    return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

/* y = mlp(n) */
static void plain_mlp(const rig *r, int l, const double *n, double *y) {
    const oc_decoder_spec *d = &r->model.decoder;
    static double u[T * MOST_WIDE], a[T * MOST_WIDE];
    int64_t f = d->intermediate, up = d->gated ? 2 * f : f;
    plain_linear(n, HIDDEN, plain_weight(r, l, OC_W_UP), plain_weight(r, l, OC_W_UP_BIAS), u, up);
    for (int t = 0; t < T; t++)
        for (int64_t i = 0; i < f; i++)
            a[t * f + i] = plain_act(d->act, u[t * up + i]) * (d->gated ? u[t * up + f + i] : 1.0);
    plain_linear(a, f, plain_weight(r, l, OC_W_DOWN), plain_weight(r, l, OC_W_DOWN_BIAS), y,
                 HIDDEN);
}

static void plain_add(double *x, const double *y) {
    for (int i = 0; i < T * HIDDEN; i++)
        x[i] += y[i];
}

/* x[T, HIDDEN] in place */
static void plain_layer(const rig *r, int l, double *x) {
    oc_norm_placement place = r->model.decoder.placement;
    bool post = place == OC_PLACE_POST, sandwich = place == OC_PLACE_SANDWICH;
    static double n[T * HIDDEN], n2[T * HIDDEN], y[T * HIDDEN];
    if (place == OC_PLACE_PARALLEL) plain_block_norm(r, l, OC_W_NORM2, OC_W_NORM2_BIAS, x, n2);
    if (!post) plain_block_norm(r, l, OC_W_NORM1, OC_W_NORM1_BIAS, x, n);
    plain_attend(r, l, post ? x : n, y);
    if (sandwich) plain_block_norm(r, l, OC_W_POST1, OC_W_COUNT, y, y);
    plain_add(x, y);
    if (post) plain_block_norm(r, l, OC_W_NORM1, OC_W_NORM1_BIAS, x, x);
    if (!post && place != OC_PLACE_PARALLEL)
        plain_block_norm(r, l, OC_W_NORM2, OC_W_NORM2_BIAS, x, n2);
    plain_mlp(r, l, post ? x : n2, y);
    if (sandwich) plain_block_norm(r, l, OC_W_POST2, OC_W_COUNT, y, y);
    plain_add(x, y);
    if (post) plain_block_norm(r, l, OC_W_NORM2, OC_W_NORM2_BIAS, x, x);
}

/* The rows into the first layer. */
static void plain_front(const rig *r, double *x) {
    int64_t embed = r->model.embed_dim;
    memcpy(x, r->x0, sizeof r->x0);
    if (r->model.front_block < 0) return;
    const double *project = plain_weight(r, FRONT, OC_W_PROJECT_IN);
    if (project)
        plain_linear(r->x0, embed, project, NULL, x, HIDDEN);
    else
        plain_block_norm(r, FRONT, OC_W_EMBED_NORM, OC_W_EMBED_NORM_BIAS, r->x0, x);
    plain_add(x, r->places);
}

/* n[T, embed] = what the head reads, from x, which is spent. */
static void plain_final(const rig *r, double *x, double *n) {
    const double *project = plain_weight(r, FINAL, OC_W_PROJECT_OUT);
    if (plain_weight(r, FINAL, OC_W_FINAL_NORM))
        plain_block_norm(r, FINAL, OC_W_FINAL_NORM, OC_W_FINAL_NORM_BIAS, x, x);
    if (project)
        plain_linear(x, HIDDEN, project, NULL, n, r->model.embed_dim);
    else
        memcpy(n, x, sizeof(double) * T * HIDDEN);
}

static double plain_loss(const rig *r) {
    static double x[T * HIDDEN], n[T * HIDDEN];
    int64_t embed = r->model.embed_dim;
    double loss = 0, cap = (double)r->model.decoder.logit_cap;
    plain_front(r, x);
    for (int l = 0; l < LAYERS; l++)
        plain_layer(r, l, x);
    plain_final(r, x, n);
    for (int t = 0; t < T; t++) {
        if (r->labels[t] < 0) continue;
        double total = 0, target = 0;
        for (int v = 0; v < VOCAB; v++) {
            int chunk = CHUNK0 + v / OC_HEAD_TILE;
            const double *w =
                plain_weight(r, chunk, OC_W_TABLE) + (v - r->blocks[chunk].row0) * embed;
            double logit = 0;
            for (int64_t i = 0; i < embed; i++)
                logit += n[t * embed + i] * w[i];
            if (cap > 0) logit = cap * tanh(logit / cap);
            total += exp(logit);
            if (v == r->labels[t]) target = logit;
        }
        loss += log(total) - target;
    }
    return loss;
}

#endif
