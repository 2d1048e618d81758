/* sample.c - see sample.h. Each step is a few lines over the row; what is filtered becomes -inf. */
#include "infer/sample.h"

#include "base/heap.h"
#include "model/philox.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct candidate {
    float logit;
    int32_t id;
} candidate;

struct oc_sampler {
    int32_t vocab;
    int32_t *counts;   /* how often an id was generated, or seen: 0 between calls */
    candidate *chosen; /* [vocab] */
    float *changed;    /* [vocab]: logits with penalties */
};

oc_status oc_sampling_check(const oc_sampling *s, oc_error *err) {
    if (!(s->temperature >= 0) || isinf(s->temperature))
        return oc_fail(err, OC_E_INVALID, "temperature %g: it is 0 or a positive number",
                       s->temperature);
    if (s->top_k < 0) return oc_fail(err, OC_E_INVALID, "top_k %d: it is 0 or more", s->top_k);
    if (!(s->top_p >= 0 && s->top_p <= 1))
        return oc_fail(err, OC_E_INVALID, "top_p %g: it is between 0 and 1", s->top_p);
    if (!(s->min_p >= 0 && s->min_p <= 1))
        return oc_fail(err, OC_E_INVALID, "min_p %g: it is between 0 and 1", s->min_p);
    if (!(s->repetition_penalty > 0) || isinf(s->repetition_penalty))
        return oc_fail(err, OC_E_INVALID, "repetition_penalty %g: it is a positive number",
                       s->repetition_penalty);
    if (!isfinite(s->presence_penalty) || !isfinite(s->frequency_penalty))
        return oc_fail(err, OC_E_INVALID, "presence_penalty and frequency_penalty are numbers");
    return OC_OK;
}

uint64_t oc_sampler_bytes(int32_t vocab) {
    uint64_t n = (uint64_t)vocab;
    return oc_heap_bytes(sizeof(oc_sampler)) + oc_heap_bytes(n * sizeof(int32_t)) +
           oc_heap_bytes(n * sizeof(candidate)) + oc_heap_bytes(n * sizeof(float));
}

oc_status oc_sampler_open(oc_sampler **out, int32_t vocab, oc_error *err) {
    oc_sampler *s = calloc(1, sizeof *s);
    if (s) {
        s->vocab = vocab;
        s->counts = calloc((size_t)vocab, sizeof *s->counts);
        s->chosen = calloc((size_t)vocab, sizeof *s->chosen);
        s->changed = calloc((size_t)vocab, sizeof *s->changed);
    }
    if (!s || !s->counts || !s->chosen || !s->changed) {
        oc_sampler_close(s);
        return oc_fail(err, OC_E_MEMORY, "no memory to draw tokens");
    }
    *out = s;
    return OC_OK;
}

void oc_sampler_close(oc_sampler *s) {
    if (!s) return;
    free(s->counts);
    free(s->chosen);
    free(s->changed);
    free(s);
}

/* ---- penalties ---- */

/* Each id once, whatever it is counted for. */
static void repeat_penalty(oc_sampler *s, double penalty, const oc_sample_row *row, float *x) {
    for (int32_t i = 0; i < row->n_ids; i++) {
        int32_t id = row->ids[i];
        if (id < 0 || id >= s->vocab || s->counts[id]) continue;
        s->counts[id] = 1;
        x[id] = x[id] < 0 ? x[id] * (float)penalty : x[id] / (float)penalty;
    }
    for (int32_t i = 0; i < row->n_ids; i++)
        if (row->ids[i] >= 0 && row->ids[i] < s->vocab) s->counts[row->ids[i]] = 0;
}

static void answer_penalties(oc_sampler *s, const oc_sampling *how, const oc_sample_row *row,
                             float *x) {
    for (int32_t i = row->n_prompt; i < row->n_ids; i++)
        s->counts[row->ids[i]]++;
    for (int32_t i = row->n_prompt; i < row->n_ids; i++) {
        int32_t id = row->ids[i], n = s->counts[id];
        if (n == 0) continue;
        x[id] -= (float)(how->presence_penalty + n * how->frequency_penalty);
        s->counts[id] = 0;
    }
}

static const float *penalized(oc_sampler *s, const oc_sampling *how, const oc_sample_row *row,
                              const float *logits) {
    bool repeats = how->repetition_penalty != 1;
    bool answers = how->presence_penalty != 0 || how->frequency_penalty != 0;
    if (!repeats && !answers) return logits;
    memcpy(s->changed, logits, (size_t)s->vocab * sizeof *logits);
    if (repeats) repeat_penalty(s, how->repetition_penalty, row, s->changed);
    if (answers) answer_penalties(s, how, row, s->changed);
    return s->changed;
}

/* ---- filters: candidates, the most probable first as far as it matters ---- */

static void swap(candidate *a, candidate *b) {
    candidate t = *a;
    *a = *b;
    *b = t;
}

/* Larger logits first; of equal ones the smaller id. */
static bool before(const candidate *a, const candidate *b) {
    return a->logit != b->logit ? a->logit > b->logit : a->id < b->id;
}

static int compare(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    return before(x, y) ? -1 : before(y, x);
}

/* The first k of n are those that come before all others, in any order. */
static void select_first(candidate *c, int32_t n, int32_t k) {
    int32_t lo = 0, hi = n - 1;
    while (lo < hi) {
        candidate pivot = c[lo + (hi - lo) / 2];
        int32_t i = lo, j = hi;
        while (i <= j) {
            while (before(&c[i], &pivot))
                i++;
            while (before(&pivot, &c[j]))
                j--;
            if (i <= j) swap(&c[i++], &c[j--]);
        }
        if (k - 1 <= j)
            hi = j;
        else if (k - 1 >= i)
            lo = i;
        else
            return;
    }
}

static int32_t collect(oc_sampler *s, const float *x, double temperature) {
    int32_t n = 0;
    float t = (float)temperature;
    for (int32_t i = 0; i < s->vocab; i++)
        if (x[i] > -INFINITY) s->chosen[n++] = (candidate){x[i] / t, i};
    return n;
}

/* Those as large as the k-th stay, too. */
static int32_t keep_top_k(candidate *c, int32_t n, int32_t k) {
    if (k <= 0 || k >= n) return n;
    select_first(c, n, k);
    float least = c[0].logit;
    for (int32_t i = 1; i < k; i++)
        if (c[i].logit < least) least = c[i].logit;
    int32_t kept = k;
    for (int32_t i = k; i < n; i++)
        if (c[i].logit >= least) swap(&c[kept++], &c[i]);
    return kept;
}

static float largest(const candidate *c, int32_t n) {
    float top = -INFINITY;
    for (int32_t i = 0; i < n; i++)
        if (c[i].logit > top) top = c[i].logit;
    return top;
}

static double weight(const candidate *c, float top) { return exp((double)c->logit - (double)top); }

/* A token stays when those before it have less than p together: the one that crosses stays. Few
 * usually do, so that no more are sorted than must be. */
static int32_t keep_top_p(candidate *c, int32_t n, double p) {
    enum { FIRST = 256 };
    float top = largest(c, n);
    double all = 0, sum = 0;
    if (p >= 1) return n;
    for (int32_t i = 0; i < n; i++)
        all += weight(&c[i], top);
    int32_t sorted = 0;
    for (int32_t i = 0; i < n; i++) {
        if (i == sorted) {
            sorted = sorted ? 4 * sorted : FIRST;
            if (sorted > n) sorted = n;
            select_first(c + i, n - i, sorted - i);
            qsort(c + i, (size_t)(sorted - i), sizeof *c, compare);
        }
        if (i > 0 && sum >= p * all) return i;
        sum += weight(&c[i], top);
    }
    return n;
}

static int32_t keep_min_p(candidate *c, int32_t n, double p) {
    float top = largest(c, n);
    int32_t kept = 0;
    if (p <= 0) return n;
    for (int32_t i = 0; i < n; i++)
        if (weight(&c[i], top) >= p) swap(&c[kept++], &c[i]);
    return kept;
}

static int by_id(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* What is left to draw from, in order of ids. */
static int32_t filter(oc_sampler *s, const oc_sampling *how, const float *x) {
    candidate *c = s->chosen;
    int32_t n = collect(s, x, how->temperature);
    bool all = how->top_k <= 0 && how->top_p >= 1 && how->min_p <= 0;
    n = keep_top_k(c, n, how->top_k);
    n = keep_top_p(c, n, how->top_p);
    n = keep_min_p(c, n, how->min_p);
    if (!all) qsort(c, (size_t)n, sizeof *c, by_id);
    return n;
}

/* ---- drawing ---- */

/* In [0, 1), of 53 bits. */
static double next_uniform(const oc_sampling *how, oc_sample_row *row) {
    uint64_t n = row->drawn++;
    oc_philox_block c = {
        {(uint32_t)n, (uint32_t)(n >> 32), (uint32_t)row->row, (uint32_t)(row->row >> 32)}};
    c = oc_philox(c, (uint32_t)how->seed, (uint32_t)(how->seed >> 32) ^ 0x6f637361u);
    uint64_t bits = (uint64_t)c.v[0] << 32 | c.v[1];
    return (double)(bits >> 11) * 0x1p-53;
}

static int32_t draw(const candidate *c, int32_t n, double u) {
    float top = largest(c, n);
    double all = 0, sum = 0;
    for (int32_t i = 0; i < n; i++)
        all += weight(&c[i], top);
    for (int32_t i = 0; i < n; i++) {
        sum += weight(&c[i], top);
        if (u * all < sum) return c[i].id;
    }
    return c[n - 1].id;
}

static int32_t argmax(const float *x, int32_t n) {
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

static double log_sum(const float *x, int32_t n) {
    float top = x[argmax(x, n)];
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += exp((double)x[i] - (double)top);
    return (double)top + log(sum);
}

static oc_status check_row(const float *x, int32_t n, oc_error *err) {
    bool some = false;
    for (int32_t i = 0; i < n; i++) {
        if (isnan(x[i]))
            return oc_fail(err, OC_E_INVALID,
                           "the logit of token %d is not a number: the weights overflow %s", i,
                           "in this dtype, or are damaged; try --dtype fp32 or bf16");
        some = some || x[i] > -INFINITY;
    }
    if (some) return OC_OK;
    return oc_fail(err, OC_E_INVALID, "every logit is -inf: there is no token to take");
}

oc_status oc_sample(oc_sampler *s, const oc_sampling *how, oc_sample_row *row, const float *logits,
                    bool want_logprob, oc_sampled *out, oc_error *err) {
    OC_TRY(check_row(logits, s->vocab, err));
    const float *x = penalized(s, how, row, logits);
    if (how->temperature == 0) {
        out->id = argmax(x, s->vocab);
    } else {
        int32_t n = filter(s, how, x);
        out->id = draw(s->chosen, n, next_uniform(how, row));
    }
    double own = (double)logits[out->id];
    out->logprob = want_logprob ? (float)(own - log_sum(logits, s->vocab)) : 0;
    return OC_OK;
}

oc_status oc_sample_probabilities(oc_sampler *s, const oc_sampling *how, const oc_sample_row *row,
                                  const float *logits, double *out, oc_error *err) {
    OC_TRY(check_row(logits, s->vocab, err));
    int32_t n = filter(s, how, penalized(s, how, row, logits));
    float top = largest(s->chosen, n);
    double all = 0;
    memset(out, 0, (size_t)s->vocab * sizeof *out);
    for (int32_t i = 0; i < n; i++)
        all += weight(&s->chosen[i], top);
    for (int32_t i = 0; i < n; i++)
        out[s->chosen[i].id] = weight(&s->chosen[i], top) / all;
    return OC_OK;
}

void oc_sample_top(oc_sampler *s, const float *logits, int32_t n, oc_sampled *out) {
    double all = log_sum(logits, s->vocab);
    int32_t m = collect(s, logits, 1);
    select_first(s->chosen, m, n < m ? n : m);
    qsort(s->chosen, (size_t)(n < m ? n : m), sizeof *s->chosen, compare);
    for (int32_t i = 0; i < n; i++)
        out[i] = i < m ? (oc_sampled){s->chosen[i].id, (float)((double)s->chosen[i].logit - all)}
                       : (oc_sampled){-1, -INFINITY};
}
