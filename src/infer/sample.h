/* sample.h - from a row of logits to the next token, as transformers does it: repetition penalty,
 * presence and frequency penalties, tokens that may not come, then temperature, top-k, top-p and
 * min-p, in the order of its logits processors; then the largest, or a draw.
 *
 * A row has a stream of random numbers of its own, a function of (seed, the row's number) alone:
 * the same text whatever else is in the batch, and on every machine the same of the same logits. */
#ifndef OC_SAMPLE_H
#define OC_SAMPLE_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct oc_sampling {
    double temperature;        /* 0: greedy, and the next three do not count */
    int32_t top_k;             /* 0: all; ties with the last one stay too */
    double top_p;              /* 1: all; the token that crosses it stays; of equal ones the largest
                                  ids */
    double min_p;              /* 0: all; relative to the most probable */
    double repetition_penalty; /* 1: none; of all tokens of the row so far, its prompt too */
    double presence_penalty, frequency_penalty; /* 0: none; as OpenAI's, of generated tokens */
    uint64_t seed;
    const int32_t *suppressed; /* ids that never come; others than the vocabulary's are ignored */
    int32_t n_suppressed;
    const int32_t *ends; /* ids that do not come among the first `least` tokens of an answer; as
                            suppressed ones */
    int32_t n_ends, least;
} oc_sampling;

/* Nothing changed, greedy. */
oc_sampling oc_sampling_greedy(void);
/* Names the first value that is out of range, as transformers (and OpenAI for the penalties) would
 * refuse it. */
OC_NODISCARD oc_status oc_sampling_check(const oc_sampling *s, oc_error *err);

/* What one row needs between its tokens; the caller's. */
typedef struct oc_sample_row {
    uint64_t row;       /* its number: picks the stream */
    uint64_t drawn;     /* draws so far: the place in the stream */
    const int32_t *ids; /* prompt, then what was generated; borrowed. Ids in [0, vocab) */
    int32_t n_ids, n_prompt;
} oc_sample_row;

/* Scratch of one thread: about 36 bytes a token of the vocabulary. */
typedef struct oc_sampler oc_sampler;
uint64_t oc_sampler_bytes(int32_t vocab);
OC_NODISCARD oc_status oc_sampler_open(oc_sampler **out, int32_t vocab, oc_error *err);
void oc_sampler_close(oc_sampler *s);

typedef struct oc_sampled {
    int32_t id;
    float logprob; /* of id, under the model's own distribution: before penalties and temperature */
} oc_sampled;

/* logits: [vocab] fp32. how: one that oc_sampling_check() takes. Greedy ties: the smallest id.
 * want_logprob false: logprob is 0. A logit that is NaN or +infinity, or none that is finite, is
 * OC_E_INVALID. Allocates nothing. */
OC_NODISCARD oc_status oc_sample(oc_sampler *s, const oc_sampling *how, oc_sample_row *row,
                                 const float *logits, bool want_logprob, oc_sampled *out,
                                 oc_error *err);
/* The filtered probabilities that oc_sample() draws from, for tests: out [vocab]. temperature > 0.
 */
OC_NODISCARD oc_status oc_sample_probabilities(oc_sampler *s, const oc_sampling *how,
                                               const oc_sample_row *row, const float *logits,
                                               double *out, oc_error *err);
enum { OC_SAMPLE_TOP = 20 };
/* The n most probable ids with log-probabilities (before penalties), falling, of equal ones the
 * smallest ids first; n in [0, min(vocab, OC_SAMPLE_TOP)]. Of logits that oc_sample() took. */
void oc_sample_top(oc_sampler *s, const float *logits, int32_t n, oc_sampled *out);

#endif
