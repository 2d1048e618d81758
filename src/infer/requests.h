/* requests.h - what is to be generated: rows of a batch file, one by one, in bounded memory.
 *
 * A row is {"prompt"}, {"messages"} (through the chat template, with the generation prompt),
 * {"input_ids"}, or OpenAI's batch form {"custom_id", "method", "url", "body"}, a line each or as
 * elements of one array. A row may set max_tokens / max_new_tokens, min_tokens / min_new_tokens,
 * temperature, top_p, top_k, min_p, repetition_penalty, presence_penalty, frequency_penalty, seed,
 * stop, logprobs, ignore_eos, as OpenAI and vLLM name them; other keys with a known meaning are an
 * error of the row, unknown ones are counted, and the first is named. A bad row is a request with
 * an error, never the end of the run.
 *
 * With spec.pairs a row is to be scored: {"prompt", "completion"}, two texts or two lists of ids,
 * or
 * {"messages", "completion"}; ids are those of both, and the completion begins where these differ
 * from the prompt's own, as in training. Where nothing stands before it, the tokenizer's beginning
 * of a sequence does, or its end. Keys of sampling have no meaning then.
 *
 * One thread owns it. Memory: some times max_row_bytes, whatever the file's size or a row's. */
#ifndef OC_REQUESTS_H
#define OC_REQUESTS_H

#include "infer/sample.h"
#include "tokenizer/tokenizer.h"

typedef enum oc_request_form {
    OC_REQUEST_PLAIN,           /* result rows are ours */
    OC_REQUEST_CHAT_COMPLETION, /* OpenAI's /v1/chat/completions */
    OC_REQUEST_COMPLETION       /* OpenAI's /v1/completions */
} oc_request_form;

typedef struct oc_request {
    uint64_t index; /* row of the file, from 0; blank lines do not count */
    oc_request_form form;
    char *custom_id; /* NULL: none */
    int32_t *ids;    /* the prompt */
    int32_t n_ids;
    int32_t n_context;  /* of a pair: tokens before the completion's first */
    int32_t max_tokens; /* of the answer; with the prompt no more than max_positions */
    oc_sampling sampling;
    char **stops;
    int32_t n_stops;
    int32_t logprobs; /* -1: none; else alternatives a token, 0 .. 20 */
    bool ignore_eos;
    char *error; /* what is wrong with it, with file and line; NULL: nothing */
} oc_request;
void oc_request_release(oc_request *r); /* what it owns; not r */

typedef struct oc_requests oc_requests;

typedef struct oc_requests_spec {
    const char *path; /* "-": standard input; .gz and .zst as data files. Borrowed */
    /* borrowed, with its chat template; NULL: input_ids alone */
    const oc_tokenizer *tokenizer;
    oc_sampling sampling; /* of rows that say nothing, as all that follows */
    int32_t max_tokens;
    const char *const *stops; /* borrowed */
    int32_t n_stops;
    int32_t logprobs; /* -1: none */
    bool ignore_eos;
    int32_t vocab;         /* ids at or above it are an error of the row */
    int32_t max_positions; /* prompt + answer at most; 0: no limit. A prompt that leaves no room is
                              an error of the row; a longer answer is cut to what fits */
    bool pairs;            /* rows are to be scored: see above */
    size_t max_row_bytes;  /* a longer row is an error of the row, read past in bounded memory; 0:
                              16 MiB */
} oc_requests_spec;

OC_NODISCARD oc_status oc_requests_open(oc_requests **out, const oc_requests_spec *spec,
                                        oc_error *err);
void oc_requests_close(oc_requests *r);
/* *more false: none is left, and *out is empty. Otherwise oc_request_release() it. The file's own
 * failure (unreadable, damaged gzip, an array that breaks off) is an error, and so is memory. */
OC_NODISCARD oc_status oc_requests_next(oc_requests *r, oc_request *out, bool *more, oc_error *err);
/* Read past n rows without looking at them. Fewer: OC_E_INVALID, and how many there are. */
OC_NODISCARD oc_status oc_requests_skip(oc_requests *r, uint64_t n, oc_error *err);

/* Keys without a known meaning, so far. *first: one of them, borrowed; NULL: there was none. */
uint64_t oc_requests_unknown(const oc_requests *r, const char **first);

/* A first look at the file: rows counted (up to most) and their lengths. Standard input can be read
 * once only and is left alone: rows is 0, whole false. */
typedef struct oc_requests_survey {
    uint64_t rows, errors; /* rows: good ones and errors */
    bool whole;            /* the file has no more */
    int32_t longest_prompt,
        longest_total; /* tokens, of good rows; total: with the answer's limit */
    double mean_prompt, mean_total;
} oc_requests_survey;
OC_NODISCARD oc_status oc_requests_survey_file(const oc_requests_spec *spec, uint64_t most,
                                               oc_requests_survey *out, oc_error *err);

/* A text as a prompt: with the special tokens that the tokenizer puts around one, but for an end of
 * sequence behind it, after which nothing would follow. Replaces what `out` holds. */
OC_NODISCARD oc_status oc_request_encode(const oc_tokenizer *t, const char *text, size_t n,
                                         oc_tokens *out, oc_error *err);

#endif
