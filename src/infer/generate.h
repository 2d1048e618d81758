/* generate.h - outcore generate: prompts, a conversation or a file of requests in, text out.
 *
 * What is asked for is settled in this order: a request's own keys, the command line, the model's
 * generation_config.json, the default. */
#ifndef OC_GENERATE_H
#define OC_GENERATE_H

#include "engine/setup.h"
#include "infer/defaults.h"
#include "infer/runner.h"
#include "infer/stop_ids.h"

#include <signal.h>

/* The set-up of generation with all that it needs to know before: prompts as ids, lengths,
 * defaults. Also for `plan generate`, which knows no prompts and takes --prompt-tokens. */
typedef struct oc_asked oc_asked;

typedef struct oc_generate_setup {
    oc_setup *setup;
    oc_asked *asked;
    oc_defaults *defaults;
    oc_stop_ids *ends;
} oc_generate_setup;

OC_NODISCARD oc_status oc_generate_setup_open(oc_generate_setup *out, const oc_config *c,
                                              FILE *notes, oc_error *err);
void oc_generate_setup_close(oc_generate_setup *s);

/* Everything else: opens the set-up, runs, prints the report. Returns the process's exit code.
 * stop: set by a signal handler. */
int oc_generate(const oc_config *c, FILE *out, volatile sig_atomic_t *stop);

#endif
