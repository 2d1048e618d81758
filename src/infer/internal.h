/* internal.h - what the ways to generate share. Nobody else includes it.
 *
 *   generate.c   the set-up, and what is asked for
 *   prompts.c    --prompt
 *   chat.c       --chat
 *   batch.c      --input, --output
 *   report.c     what a run was like */
#ifndef OC_INFER_INTERNAL_H
#define OC_INFER_INTERNAL_H

#include "infer/generate.h"

struct oc_asked {
    oc_generator generator;
    oc_generate_setup *setup; /* what the model's files say is put there */
    oc_sampling sampling;     /* of whoever says nothing */
    int64_t positions;        /* tokens of a sequence at most */
    int32_t answer;           /* tokens of an answer at most */
    oc_job **jobs;            /* --prompt */
    int32_t n_jobs, n_shown;
    FILE *out;     /* for answers */
    uint64_t rows; /* --input: of the file, errors too; 0: not known */
};

/* What the command line and the model's files say of a job. */
void oc_generate_ask(const oc_generate_setup *s, oc_job *j, uint64_t row);

/* Answers on standard output; *failed: jobs that ended in an error. */
OC_NODISCARD oc_status oc_generate_prompts(const oc_generate_setup *s, oc_runner *r,
                                           const volatile sig_atomic_t *stop, int32_t *failed,
                                           oc_error *err);
/* A conversation over `in`; an interrupt ends an answer and is taken back. */
OC_NODISCARD oc_status oc_generate_chat(const oc_generate_setup *s, oc_runner *r, FILE *in,
                                        volatile sig_atomic_t *stop, oc_error *err);
/* Lengths, from a first look at the file. */
OC_NODISCARD oc_status oc_generate_survey(oc_asked *a, const oc_setup *s, oc_pass_wish *out,
                                          oc_error *err);
/* A file of answers; opened before weights are read, so that what is refused is refused at once.
 * Rows that are errors are in it, and counted. Jobs that are under way at the end are the runner's
 * to free, their requests are lost with the process. */
typedef struct oc_generate_batch oc_generate_batch;
OC_NODISCARD oc_status oc_generate_open_batch(oc_generate_batch **out, const oc_generate_setup *s,
                                              oc_error *err);
OC_NODISCARD oc_status oc_generate_run_batch(oc_generate_batch *b, oc_runner *r,
                                             const volatile sig_atomic_t *stop, int32_t *failed,
                                             oc_error *err);
OC_NODISCARD oc_status oc_generate_close_batch(oc_generate_batch *b, oc_error *err);
void oc_generate_report(const oc_generate_setup *s, oc_runner *r);

#endif
