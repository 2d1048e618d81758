/* internal.h - what the ways to generate share. Nobody else includes it.
 *
 *   generate.c   the set-up, and what is asked for
 *   prompts.c    --prompt
 *   report.c     what a run was like */
#ifndef OC_INFER_INTERNAL_H
#define OC_INFER_INTERNAL_H

#include "infer/generate.h"

struct oc_asked {
    oc_generator generator;
    oc_generation_defaults *defaults;
    oc_sampling sampling; /* of whoever says nothing */
    int64_t positions;    /* tokens of a sequence at most */
    int32_t answer;       /* tokens of an answer at most */
    oc_job **jobs;        /* --prompt */
    int32_t n_jobs, n_shown;
    FILE *out; /* for answers */
};

/* What the command line and the model's files say of a job. */
void oc_generate_ask(const oc_generate_setup *s, oc_job *j, uint64_t row);

/* Answers on standard output; *failed: jobs that ended in an error. */
OC_NODISCARD oc_status oc_generate_prompts(const oc_generate_setup *s, oc_runner *r,
                                           const volatile sig_atomic_t *stop, int32_t *failed,
                                           oc_error *err);
void oc_generate_report(const oc_generate_setup *s, oc_runner *r);

#endif
