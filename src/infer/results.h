/* results.h - answers into a file, in the order of their rows, and which of them are there already.
 *
 * Rows are appended whole, one line each, in input order: an answer that is done early waits
 * (bounded by the batch). The file grows in place: a killed run leaves finished rows and at most
 * one torn line, which the next run cuts off before it goes on after the last whole row. While it
 * is not whole, PATH.run beside it says what run it is of.
 *
 * One thread owns it. Rows are ours, {"custom_id"?, "index", "text", "finish_reason", "usage",
 * "logprobs"?}, {"custom_id"?, "index", "log_likelihood", "tokens", "is_greedy"} or {"custom_id"?,
 * "index", "error": {"message"}}, or lines of an OpenAI batch's output, as the request was. */
#ifndef OC_RESULTS_H
#define OC_RESULTS_H

#include "infer/requests.h"

typedef struct oc_results oc_results;

typedef struct oc_answer {
    bool scored; /* a completion that was there, not an answer: */
    double log_likelihood;
    bool greedy;      /* each of its tokens was the likeliest; then the two counts of tokens */
    const char *text; /* UTF-8, n_text bytes, may hold U+0000 */
    size_t n_text;
    const char *finish_reason; /* "stop", "length" */
    int32_t prompt_tokens, completion_tokens;
    /* with logprobs: completion_tokens entries, and `alternatives` of each, one after the other */
    const oc_sampled *tokens, *top;
    int32_t alternatives;
} oc_answer;

typedef struct oc_results_spec {
    const char *path;  /* "-": standard output. A device or FIFO is written as it is */
    const char *input; /* what is read: never overwritten; NULL: none */
    const char *option, *input_option; /* that name the two; NULL: output, input */
    bool overwrite, resume;            /* neither: a file that holds something is refused */
    /* What the run is: a JSON object of what an answer depends on (model, sampling, input). A
     * resumed run has the same, or the member that differs is named. */
    const char *key;
    const char *model;             /* as OpenAI's form names it */
    const oc_tokenizer *tokenizer; /* borrowed: texts of single tokens, for logprobs; NULL: ids */
    int64_t created;               /* seconds since 1970, of OpenAI's form; 0: now */
} oc_results_spec;

/* *done: rows that are there already. OC_E_EXISTS: the file is there, or another run has it. On
 * failure nothing has changed. */
OC_NODISCARD oc_status oc_results_open(oc_results **out, const oc_results_spec *spec,
                                       uint64_t *done, oc_error *err);
/* An answer to a request, or its error when request->error is set (answer NULL then). In any
 * order; each index once, from *done on. Copies what must wait. After a failed write the file ends
 * with its last whole row, and every further call fails. */
OC_NODISCARD oc_status oc_results_put(oc_results *r, const oc_request *request,
                                      const oc_answer *answer, oc_error *err);
/* Makes rows survive a power cut that are older than two seconds. oc_results_put() does, too. */
OC_NODISCARD oc_status oc_results_sync(oc_results *r, oc_error *err);
uint64_t oc_results_written(const oc_results *r); /* rows in the file, those before too */
/* Bytes that wait for an earlier row. */
uint64_t oc_results_waiting(const oc_results *r);
/* whole: all rows are there: the file is synced and PATH.run removed. Otherwise it stays, for
 * --resume, unless no row was written: then what the run made goes. Ends r in any case; NULL is
 * fine. */
OC_NODISCARD oc_status oc_results_close(oc_results *r, bool whole, oc_error *err);

#endif
