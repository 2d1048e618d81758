/* results.h - answers into a file, in the order of their rows, and which of them are there already.
 *
 * Rows are appended whole, one line each, in input order: an answer that is done early waits
 * (bounded by the batch). The file grows in place: a killed run leaves finished rows and at most
 * one torn line, which the next run cuts off before it goes on after the last whole row. */
#ifndef OC_RESULTS_H
#define OC_RESULTS_H

#include "infer/requests.h"

typedef struct oc_results oc_results;

typedef struct oc_answer {
    const char *text; /* UTF-8, n bytes, may hold U+0000 */
    size_t n_text;
    const char *finish_reason; /* "stop", "length", "error" */
    int32_t prompt_tokens, completion_tokens;
    /* with logprobs: completion_tokens entries, and `alternatives` for each */
    const int32_t *ids;
    const float *logprobs;
    const oc_sampled *top;
    int32_t alternatives;
} oc_answer;

typedef struct oc_results_spec {
    const char *path;       /* "-": standard output */
    bool overwrite, resume; /* neither: a file that is there is refused */
    const char *key;   /* what the run is (model, sampling, input): kept beside the file until it
                          ends, so that a resumed run is known to be the same */
    const char *model; /* as OpenAI's form names it */
    const oc_tokenizer *tokenizer; /* texts of single tokens, for logprobs */
} oc_results_spec;

/* *done: rows that are there already. */
OC_NODISCARD oc_status oc_results_open(oc_results **out, const oc_results_spec *spec,
                                       uint64_t *done, oc_error *err);
/* An answer to a request (or its error, when request->error is set; answer NULL then). In any
 * order; each index once. Copies what must wait. */
OC_NODISCARD oc_status oc_results_put(oc_results *r, const oc_request *request,
                                      const oc_answer *answer, oc_error *err);
/* Bytes that wait for an earlier row. */
uint64_t oc_results_waiting(const oc_results *r);
/* whole: all rows are there: the file is synced and what lay beside it removed. */
OC_NODISCARD oc_status oc_results_close(oc_results *r, bool whole, oc_error *err);

#endif
