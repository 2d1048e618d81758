/* train.h - the training run and the evaluation, start to end. */
#ifndef OC_TRAIN_H
#define OC_TRAIN_H

#include "config/config.h"

/* How a run ended. The exit code follows: 0; 2 when refused before step 1; 1 when it failed later;
 * 128 + signal when it was stopped and has saved. */
typedef struct oc_outcome {
    oc_status status;
    bool started; /* step 1 was begun */
    int signal;   /* that stopped it; 0: none */
    uint64_t steps, skipped, tokens;
    double loss; /* of the last step; NaN: there was none */
} oc_outcome;

oc_outcome oc_train(const oc_config *c, oc_error *err);

typedef struct oc_eval_result {
    double loss, perplexity;
    uint64_t tokens;
} oc_eval_result;

OC_NODISCARD oc_status oc_evaluate(const oc_config *c, oc_eval_result *out, oc_error *err);

#endif
