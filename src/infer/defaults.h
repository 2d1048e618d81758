/* defaults.h - how a model wants to be asked: generation_config.json, as transformers follows it.
 *
 * do_sample false or not said: greedy, and what is said of sampling holds once a temperature is
 * asked for. do_sample true, here or beside the file: what is not said is transformers' own
 * (temperature 1, top_k 50). Every value that counts is told in a line, and what would change the
 * text and is not followed in a warning. */
#ifndef OC_DEFAULTS_H
#define OC_DEFAULTS_H

#include "infer/sample.h"

typedef struct oc_defaults_line {
    bool warning;
    char *text; /* for people, of the log */
} oc_defaults_line;

typedef struct oc_defaults {
    oc_sampling sampling;               /* its suppressed ids are owned by this */
    oc_sampling drawn;                  /* the same where do_sample is asked for beside the file */
    int32_t max_new_tokens, max_length; /* of the answer; of prompt and answer. -1: not said */
    oc_defaults_line *lines;
    int32_t n_lines;
} oc_defaults;

/* No generation_config.json: greedy, no limits, no lines. A value that is out of range is
 * OC_E_INVALID or OC_E_FORMAT and names file and key. */
OC_NODISCARD oc_status oc_defaults_open(oc_defaults **out, const char *model_dir, oc_error *err);
void oc_defaults_close(oc_defaults *d);

#endif
