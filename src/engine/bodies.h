/* bodies.h - what the ops of a training plan do: the table that the executor runs.
 *
 * A body reads its memory through its accesses, and what is constant for a run from
 * oc_step_context. */
#ifndef OC_BODIES_H
#define OC_BODIES_H

#include "build/build.h"
#include "build/cells.h"
#include "model/program.h"
#include "optim/schedule.h"
#include "run/run.h"

/* Generation: what a pass leaves for whoever says what the next one takes. Cells as in cells.h, of
 * all groups; a group's logits by sample and chunk of the head, fp32, as many as the chunk has
 * rows. */
typedef struct oc_pass_cells {
    oc_control_cell *control;
    int32_t *batch; /* pieces of 4 arrays of T, aligned as buffers are */
    void *pages;
    const oc_task *task; /* NULL: before the first pass; there are no logits */
} oc_pass_cells;
const float *oc_pass_logits(const oc_pass_cells *x, int32_t group, int32_t sample, int32_t chunk);

/* Called on a lane's thread, once a pass: reads the logits of what the cells asked for, and fills
 * the cells anew. */
typedef oc_status oc_pass_next(void *user, const oc_pass_cells *x, oc_error *err);

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

    oc_pass_next *next; /* generation */
    void *next_user;
} oc_step_context;

/* What the sum of losses is multiplied by, at a loss scale. */
double oc_step_loss_scale(const oc_step_context *c, double scale);

extern oc_body *const oc_step_bodies[OC_BODY_COUNT];
/* Of these, what a pass alone has (bodies_pass.c). */
oc_body oc_body_part_paged, oc_body_final_sampled, oc_body_head_logits, oc_body_next,
    oc_body_fetch_pages, oc_body_store_pages;

#endif
