/* From logits to the next token: penalties on a copy, filters that keep fewer and fewer candidates
 * (in the order of their ids), a draw. */
#include "infer/sample.h"

#include "base/heap.h"
#include "infer/weights.h"
#include "model/philox.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct oc_sampler {
    size_t vocab, n; /* n: candidates */
    float largest;   /* of y */
    bool some;       /* ids counts; else candidate i is the id i */
    double *e;       /* [vocab] exp(y - largest) */
    double *sums;    /* of blocks of e */
    uint64_t *pairs; /* [2 vocab] to sort */
    float *y;        /* [vocab] the logits as they are changed; then of candidates */
    int32_t *ids;    /* [vocab] of candidates, ascending */
    int32_t *counts; /* [vocab] of tokens; 0 between calls */
};

/* --- Life */

static uint64_t scratch_bytes(int32_t vocab) {
    uint64_t n = (uint64_t)vocab;
    return sizeof(oc_sampler) + n * (sizeof(double) + 2 * sizeof(uint64_t) + 3 * sizeof(float)) +
           oc_draw_weights_blocks(n) * sizeof(double);
}

uint64_t oc_sampler_bytes(int32_t vocab) { return oc_heap_bytes(scratch_bytes(vocab)); }

oc_status oc_sampler_open(oc_sampler **out, int32_t vocab, oc_error *err) {
    *out = NULL;
    if (vocab <= 0) return oc_fail(err, OC_E_INVALID, "a vocabulary of %d tokens", (int)vocab);
    oc_sampler *s = calloc(1, scratch_bytes(vocab));
    if (s == NULL) return oc_fail(err, OC_E_MEMORY, "no memory to choose tokens with");
    s->vocab = (size_t)vocab;
    s->e = (double *)(s + 1);
    s->sums = s->e + s->vocab;
    s->pairs = (uint64_t *)(s->sums + oc_draw_weights_blocks(s->vocab));
    s->y = (float *)(s->pairs + 2 * s->vocab);
    s->ids = (int32_t *)(s->y + s->vocab);
    s->counts = s->ids + s->vocab;
    *out = s;
    return OC_OK;
}

void oc_sampler_close(oc_sampler *s) { free(s); }

/* --- What was asked for */

oc_sampling oc_sampling_greedy(void) { return (oc_sampling){.top_p = 1, .repetition_penalty = 1}; }

static oc_status within(const char *name, double v, double least, double most, oc_error *err) {
    if (v >= least && v <= most) return OC_OK;
    return oc_fail(err, OC_E_INVALID, "%s %g: it must be from %g to %g", name, v, least, most);
}

oc_status oc_sampling_check(const oc_sampling *s, oc_error *err) {
    if (!(s->temperature >= 0) || !isfinite(s->temperature))
        return oc_fail(err, OC_E_INVALID,
                       "temperature %g: it must be above 0, or 0 for the most probable token",
                       s->temperature);
    if (s->top_k < 0)
        return oc_fail(err, OC_E_INVALID, "top_k %d: it must be above 0, or 0 for all tokens",
                       (int)s->top_k);
    if (s->least < 0)
        return oc_fail(err, OC_E_INVALID, "min_tokens %d: it must be 0 or more", (int)s->least);
    OC_TRY(within("top_p", s->top_p, 0, 1, err));
    OC_TRY(within("min_p", s->min_p, 0, 1, err));
    if (!(s->repetition_penalty > 0) || !isfinite(s->repetition_penalty))
        return oc_fail(err, OC_E_INVALID, "repetition_penalty %g: it must be above 0; 1 is none",
                       s->repetition_penalty);
    OC_TRY(within("presence_penalty", s->presence_penalty, -2, 2, err));
    return within("frequency_penalty", s->frequency_penalty, -2, 2, err);
}

/* --- Penalties */

static oc_status check_ids(const oc_sampler *s, const oc_sample_row *row, oc_error *err) {
    for (int32_t i = 0; i < row->n_ids; i++)
        if (row->ids[i] < 0 || (size_t)row->ids[i] >= s->vocab)
            return oc_fail(err, OC_E_INVALID, "the id %d is not in [0, %zu)", (int)row->ids[i],
                           s->vocab);
    return OC_OK;
}

static void penalize_repetition(oc_sampler *s, float penalty, const oc_sample_row *row) {
    for (int32_t i = 0; i < row->n_ids; i++) {
        int32_t id = row->ids[i];
        if (s->counts[id]++ > 0) continue;
        s->y[id] = s->y[id] < 0 ? s->y[id] * penalty : s->y[id] / penalty;
    }
    for (int32_t i = 0; i < row->n_ids; i++)
        s->counts[row->ids[i]] = 0;
}

static void penalize_presence(oc_sampler *s, const oc_sampling *how, const oc_sample_row *row) {
    for (int32_t i = row->n_prompt; i < row->n_ids; i++)
        s->counts[row->ids[i]]++;
    for (int32_t i = row->n_prompt; i < row->n_ids; i++) {
        int32_t id = row->ids[i], count = s->counts[id];
        if (count == 0) continue;
        s->y[id] = (float)(s->y[id] - (count * how->frequency_penalty + how->presence_penalty));
        s->counts[id] = 0;
    }
}

static void suppress(oc_sampler *s, const int32_t *ids, int32_t n) {
    for (int32_t i = 0; i < n; i++)
        if (ids[i] >= 0 && (size_t)ids[i] < s->vocab) s->y[ids[i]] = -INFINITY;
}

/* An end would come too early. */
static bool too_short(const oc_sampling *how, const oc_sample_row *row) {
    return how->n_ends > 0 && row->n_ids - row->n_prompt < how->least;
}

static oc_status change(oc_sampler *s, const oc_sampling *how, const oc_sample_row *row,
                        const float *logits, oc_error *err) {
    bool repetition = how->repetition_penalty != 1;
    bool presence = how->presence_penalty != 0 || how->frequency_penalty != 0;
    if (repetition || presence) OC_TRY(check_ids(s, row, err));
    memcpy(s->y, logits, s->vocab * sizeof *s->y);
    if (repetition) penalize_repetition(s, (float)how->repetition_penalty, row);
    if (presence) penalize_presence(s, how, row);
    suppress(s, how->suppressed, how->n_suppressed);
    if (too_short(how, row)) suppress(s, how->ends, how->n_ends);
    return OC_OK;
}

static bool changes(const oc_sampling *how, const oc_sample_row *row) {
    return how->repetition_penalty != 1 || how->presence_penalty != 0 ||
           how->frequency_penalty != 0 || how->n_suppressed > 0 || too_short(how, row);
}

static oc_status find_largest(const float *y, size_t n, float *out, oc_error *err) {
    if (!oc_draw_weights_largest(y, n, out))
        return oc_fail(err, OC_E_INVALID, "a logit is not a number: the model's output is broken");
    if (!isfinite(*out))
        return oc_fail(err, OC_E_INVALID,
                       *out > 0 ? "a logit is infinite: the model's output is broken"
                                : "no token is left to choose: all logits are -infinity");
    return OC_OK;
}

/* --- Filters */

static int32_t id_of(const oc_sampler *s, size_t i) { return s->some ? s->ids[i] : (int32_t)i; }

/* Candidate i becomes candidate k <= i. */
static void keep(oc_sampler *s, size_t i, size_t k) {
    s->ids[k] = id_of(s, i);
    s->y[k] = s->y[i];
    s->e[k] = s->e[i];
}

static void kept(oc_sampler *s, size_t k) {
    s->n = k;
    s->some = true;
}

/* One so small that quotients overflow leaves the largest alone. */
static void apply_temperature(oc_sampler *s, double temperature) {
    float t = (float)temperature, largest = s->largest / t;
    if (temperature == 1) return;
    if (!isfinite(largest)) {
        for (size_t i = 0; i < s->n; i++)
            s->y[i] = s->y[i] < s->largest ? -INFINITY : 0;
        s->largest = 0;
        return;
    }
    for (size_t i = 0; i < s->n; i++)
        s->y[i] /= t;
    s->largest = largest;
}

static void keep_top_k(oc_sampler *s, int32_t top_k) {
    if (top_k == 0 || (size_t)top_k >= s->n) return;
    float least = oc_draw_weights_kth(s->y, s->n, (size_t)top_k, s->pairs);
    size_t k = 0;
    for (size_t i = 0; i < s->n; i++)
        if (s->y[i] >= least) keep(s, i, k++);
    kept(s, k);
}

/* Candidates that top-p may keep, in order: those below a share of what it takes away that all
 * could have at once go in any case. */
static const uint64_t *sort_probable(oc_sampler *s, double away, double sum, size_t *n) {
    double least = 0.999 * away * sum / (double)s->n;
    size_t k = 0;
    for (size_t i = 0; i < s->n; i++)
        if (s->e[i] >= least) s->pairs[k++] = oc_draw_weights_pair(s->y[i], (uint32_t)i);
    *n = k;
    return oc_draw_weights_sort(s->pairs, k);
}

/* Of the ascending order of values, and of ids among equal ones, goes what sums up to 1 - top_p at
 * most. Compared in fp32, as transformers does: there a tenth is 1 - 0.9. */
static void keep_top_p(oc_sampler *s, double top_p) {
    if (!(top_p < 1)) return;
    double sum = oc_draw_weights_sum(s->e, s->n, s->sums), above = 0;
    float away = (float)(1 - top_p);
    size_t n, k = 0;
    const uint64_t *order = sort_probable(s, 1 - top_p, sum, &n);
    uint32_t last = oc_draw_weights_index(order[n - 1]);
    for (size_t i = n; i > 0; i--) {
        uint32_t at = oc_draw_weights_index(order[i - 1]);
        if (i < n && (float)((sum - above) / sum) <= away) break;
        above += s->e[at];
        last = at;
    }
    float least = s->y[last];
    for (size_t i = 0; i < s->n; i++)
        if (s->y[i] > least || (s->y[i] == least && i >= last)) keep(s, i, k++);
    kept(s, k);
}

static void keep_min_p(oc_sampler *s, double min_p) {
    float least = (float)min_p;
    size_t k = 0;
    if (min_p == 0) return;
    for (size_t i = 0; i < s->n; i++)
        if ((float)s->e[i] >= least) keep(s, i, k++);
    kept(s, k);
}

/* Leaves candidates, their weights and sums of them; *sum: of all. */
static oc_status filter(oc_sampler *s, const oc_sampling *how, const oc_sample_row *row,
                        const float *logits, double *sum, oc_error *err) {
    s->n = s->vocab;
    s->some = false;
    OC_TRY(change(s, how, row, logits, err));
    OC_TRY(find_largest(s->y, s->n, &s->largest, err));
    apply_temperature(s, how->temperature);
    keep_top_k(s, how->top_k);
    oc_draw_weights_fill(s->y, s->n, s->largest, s->e);
    keep_top_p(s, how->top_p);
    keep_min_p(s, how->min_p);
    *sum = oc_draw_weights_sum(s->e, s->n, s->sums);
    return OC_OK;
}

/* --- The next token */

/* In [0, 1), by 53 bits. */
static double uniform(const oc_sampling *how, const oc_sample_row *row) {
    oc_philox_block c = {{(uint32_t)row->drawn, (uint32_t)(row->drawn >> 32), (uint32_t)row->row,
                          (uint32_t)(row->row >> 32)}};
    c = oc_philox(c, (uint32_t)how->seed, (uint32_t)(how->seed >> 32));
    return (double)(((uint64_t)c.v[0] << 32 | c.v[1]) >> 11) * 0x1p-53;
}

/* The first candidate up to which weights sum up to more than `target`. Rounding may leave none:
 * then the last that has a weight. */
static size_t find_weight(const oc_sampler *s, double target) {
    size_t b = 0, i;
    double sum = 0;
    while (b + 1 < oc_draw_weights_blocks(s->n) && sum + s->sums[b] <= target)
        sum += s->sums[b++];
    for (i = b * OC_WEIGHTS_BLOCK; i < s->n; i++) {
        sum += s->e[i];
        if (sum > target) return i;
    }
    while (s->e[--i] == 0)
        ;
    return i;
}

static oc_status choose_largest(oc_sampler *s, const oc_sampling *how, const oc_sample_row *row,
                                const float *logits, int32_t *id, oc_error *err) {
    const float *y = logits;
    float largest;
    if (changes(how, row)) {
        OC_TRY(change(s, how, row, logits, err));
        y = s->y;
    }
    OC_TRY(find_largest(y, s->vocab, &largest, err));
    *id = (int32_t)oc_draw_weights_find(y, s->vocab, largest);
    return OC_OK;
}

static oc_status choose(oc_sampler *s, const oc_sampling *how, oc_sample_row *row,
                        const float *logits, int32_t *id, oc_error *err) {
    double sum;
    if (how->temperature == 0) return choose_largest(s, how, row, logits, id, err);
    OC_TRY(filter(s, how, row, logits, &sum, err));
    *id = id_of(s, find_weight(s, uniform(how, row) * sum));
    row->drawn++;
    return OC_OK;
}

/* log(sum of exp(logits)) */
static double log_sum(oc_sampler *s, const float *logits) {
    float largest;
    (void)oc_draw_weights_largest(logits, s->vocab, &largest);
    oc_draw_weights_fill(logits, s->vocab, largest, s->e);
    return (double)largest + oc_draw_weights_log(oc_draw_weights_sum(s->e, s->vocab, s->sums));
}

oc_status oc_sample(oc_sampler *s, const oc_sampling *how, oc_sample_row *row, const float *logits,
                    bool want_logprob, oc_sampled *out, oc_error *err) {
    oc_sampled x = {0};
    OC_TRY(choose(s, how, row, logits, &x.id, err));
    if (want_logprob) x.logprob = (float)((double)logits[x.id] - log_sum(s, logits));
    *out = x;
    return OC_OK;
}

oc_status oc_sample_probabilities(oc_sampler *s, const oc_sampling *how, const oc_sample_row *row,
                                  const float *logits, double *out, oc_error *err) {
    double sum;
    OC_TRY(filter(s, how, row, logits, &sum, err));
    memset(out, 0, s->vocab * sizeof *out);
    for (size_t i = 0; i < s->n; i++)
        out[id_of(s, i)] = s->e[i] / sum;
    return OC_OK;
}

/* Put (id, value) into the falling list of n, of which k are there; equal ones stay in order. */
static int32_t insert(oc_sampled *out, int32_t k, int32_t n, int32_t id, float value) {
    int32_t i = k < n ? k : n - 1;
    for (; i > 0 && out[i - 1].logprob < value; i--)
        out[i] = out[i - 1];
    out[i] = (oc_sampled){id, value};
    return k < n ? k + 1 : n;
}

void oc_sample_top(oc_sampler *s, const float *logits, int32_t n, oc_sampled *out) {
    int32_t k = 0;
    if (n <= 0) return;
    double all = log_sum(s, logits);
    float least = oc_draw_weights_kth(logits, s->vocab, (size_t)n, s->pairs);
    for (size_t i = 0; i < s->vocab; i++)
        if (logits[i] >= least && (k < n || logits[i] > out[n - 1].logprob))
            k = insert(out, k, n, (int32_t)i, logits[i]);
    for (int32_t i = 0; i < n; i++)
        out[i].logprob = (float)((double)out[i].logprob - all);
}
