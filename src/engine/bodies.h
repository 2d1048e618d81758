/* bodies.h - what the ops of a training plan do: the table that the executor runs.
 *
 * A body reads its memory through its accesses, and what is constant for a run from
 * oc_step_context. */
#ifndef OC_BODIES_H
#define OC_BODIES_H

#include "build/build.h"
#include "model/program.h"
#include "optim/schedule.h"
#include "run/run.h"

typedef struct oc_step_context {
    oc_program_shape shape; /* its device is the compute lane's */
    /* the back end that a lane's ops run on: a stream of the device, or the host's own */
    oc_device *devices[OC_LANE_COUNT];
    const oc_build_spec *build;
    int32_t sets; /* oc_build_sets() */

    oc_optimizer_kind optimizer;
    double lr, beta1, beta2, eps, weight_decay, momentum, clip;
    oc_schedule_spec schedule;
    bool scaling; /* fp16: dynamic or static loss scale */
    oc_scaler_spec scaler;
    /* The loss is summed, not averaged: fp16 gradients are scaled by loss_scale / nominal, a power
     * of two that depends on the capacity of a whole batch only, so that their range is that of a
     * mean. */
    double nominal;
} oc_step_context;

/* What the sum of losses is multiplied by, at a loss scale. */
double oc_step_loss_scale(const oc_step_context *c, double scale);

extern oc_body *const oc_step_bodies[OC_BODY_COUNT];

#endif
