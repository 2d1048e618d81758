/* runner.h - answers to many requests at a time: passes one after the other, sequences coming and
 * going between them.
 *
 * One thread owns a runner: it queues jobs, waits for passes, and takes what is done. Between
 * passes a lane's thread looks at the logits, takes the next token of every sequence, and lets
 * waiting jobs in; the next pass is submitted before that, so that its first blocks are fetched
 * meanwhile. */
#ifndef OC_RUNNER_H
#define OC_RUNNER_H

#include "engine/session.h"
#include "infer/sample.h"

typedef struct oc_runner oc_runner;

typedef enum oc_finish {
    OC_FINISH_NOT,
    OC_FINISH_STOP,
    OC_FINISH_LENGTH,
    OC_FINISH_ERROR
} oc_finish;
const char *oc_finish_name(oc_finish f); /* "stop", "length", "error" */

/* A request on its way, and its answer. Made by oc_job_new(); the caller's but between
 * oc_runner_queue() and oc_runner_done(). */
typedef struct oc_job {
    /* asked for */
    int32_t *ids; /* [most]: the prompt, then the answer */
    int32_t n_prompt, n_ids, most;
    oc_sampling sampling; /* its ends are the runner's */
    uint64_t row;         /* picks the stream of random numbers */
    char *const *stops;   /* borrowed */
    int32_t n_stops;
    int32_t logprobs; /* -1: none; else alternatives a token */
    bool ignore_eos;
    void *user;
    void (*free_user)(void *user); /* with the job; NULL: it is not the job's */
    /* answered */
    oc_finish finish;
    char *text; /* UTF-8, n_text bytes and a NUL */
    size_t n_text;
    oc_sampled *tokens; /* with logprobs: of each token of the answer, */
    oc_sampled *top;    /* and `logprobs` alternatives of each */
    int32_t shared;     /* tokens of the prompt that were found in pages */
    oc_error error;     /* of OC_FINISH_ERROR */
    /* the runner's */
    struct oc_text_stream *stream;
    struct oc_job *next;
    size_t room, shown;
    uint64_t drawn;
    bool cancelled;
} oc_job;

/* ids are copied. most_answer: tokens; n_prompt + most_answer fits the setup's longest sequence. */
OC_NODISCARD oc_status oc_job_new(oc_job **out, const int32_t *ids, int32_t n_prompt,
                                  int32_t most_answer, oc_error *err);
void oc_job_free(oc_job *j);
/* Tokens of the answer; one that ended it is the last of them. */
static inline int32_t oc_job_answered(const oc_job *j) { return j->n_ids - j->n_prompt; }

typedef struct oc_runner_spec {
    oc_setup *setup;    /* borrowed; of oc_setup_open_generate() */
    const int32_t *eos; /* borrowed */
    int32_t n_eos;
    /* NULL or, for tests, told of each token's logits [vocab] before it is taken; on several
     * threads */
    void (*watch)(void *user, const oc_job *j, int32_t n_ids, const float *logits);
    void *watch_user;
} oc_runner_spec;

/* Host bytes beside the arenas: what oc_generator.beside is to tell, jobs and texts left out. */
uint64_t oc_runner_bytes(const oc_setup *s, const oc_build_spec *build);

OC_NODISCARD oc_status oc_runner_open(oc_runner **out, const oc_runner_spec *spec, oc_error *err);
void oc_runner_close(oc_runner *r); /* waits for passes under way; jobs that are queued are freed */

/* The runner has it until oc_runner_done() gives it back. */
void oc_runner_queue(oc_runner *r, oc_job *j);
int32_t oc_runner_waiting(oc_runner *r); /* queued, not let in yet */
/* Wait for one pass. *idle: nothing is queued and nothing is being answered. */
OC_NODISCARD oc_status oc_runner_turn(oc_runner *r, bool *idle, oc_error *err);
/* One that is over, in the order in which they ended; NULL: none now. */
oc_job *oc_runner_done(oc_runner *r);
/* Whether a job is among those that oc_runner_done() gives back. */
bool oc_runner_is_over(oc_runner *r, const oc_job *j);
/* Text of a job since the last such call, at most n - 1 bytes and a NUL, whole characters; returns
 * how many. */
size_t oc_runner_text(oc_runner *r, oc_job *j, char *buf, size_t n);
/* Let it end with what it has, at the next pass. */
void oc_runner_cancel(oc_runner *r, oc_job *j);

typedef struct oc_runner_stats {
    uint64_t passes, prompt_tokens, shared_tokens, answer_tokens, sequences;
    uint64_t decode_tokens; /* in passes without prompts, */
    double decode_seconds;
    double prefill_seconds; /* of passes with some */
    oc_lane_stats lanes[OC_LANE_COUNT];
} oc_runner_stats;
void oc_runner_stats_of(oc_runner *r, oc_runner_stats *out);
oc_session *oc_runner_session(oc_runner *r);

#endif
