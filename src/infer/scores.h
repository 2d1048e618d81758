/* scores.h - outcore eval --scores: the log-likelihood of each row's completion.
 *
 * Rows as in requests.h (pairs), side by side in the sequences of an evaluation, each where
 * attention begins anew and blind to the others; results as in results.h, in order of the rows. A
 * row's score depends on neither its neighbours nor the batch, to the bit. */
#ifndef OC_SCORES_H
#define OC_SCORES_H

#include "config/config.h"

#include <signal.h>

/* Of all rows in the file, those of an earlier run too. */
typedef struct oc_score_sum {
    double nll;
    uint64_t tokens; /* that were scored */
    uint64_t failed; /* rows of this run that are errors: each says why in the file */
    bool begun;      /* weights were read: what fails after that is a run that failed */
} oc_score_sum;

/* stop: set by a signal handler; rows that are under way are still written. */
OC_NODISCARD oc_status oc_score(const oc_config *c, oc_score_sum *out,
                                const volatile sig_atomic_t *stop, oc_error *err);

#endif
