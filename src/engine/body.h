/* body.h - what bodies share: their op's block, device, batch and weights. Only bodies*.c include
 * it. */
#ifndef OC_BODY_H
#define OC_BODY_H

#include "build/cells.h"
#include "engine/bodies.h"

static inline const oc_step_context *oc_body_context(const oc_task *t) { return t->user; }

static inline const oc_block *oc_body_block(const oc_task *t) {
    return &oc_body_context(t)->shape.model->blocks[t->op->block];
}

static inline oc_device *oc_body_device(const oc_task *t) {
    return oc_body_context(t)->devices[t->op->lane];
}

static inline oc_program_batch oc_body_batch(const oc_task *t) {
    const oc_step_context *c = oc_body_context(t);
    const int32_t *p = oc_task_role(t, OC_ROLE_BATCH);
    int64_t n = c->shape.batch * c->shape.seq;
    oc_program_batch b = {p + OC_BATCH_TOKENS * n, p + OC_BATCH_LABELS * n,
                          p + OC_BATCH_POSITIONS * n, p + OC_BATCH_DOC_START * n};
    return b;
}

/* Of a pass: a count of the op's group, in order as the control cell has them. */
static inline int64_t oc_body_count(const oc_task *t, int32_t which) {
    const oc_control_cell *c = oc_task_role(t, OC_ROLE_CELLS_IN);
    return c->live[which * oc_body_context(t)->sets + t->op->micro];
}

/* What the op's programs work on: a micro-batch, or of a pass the tokens that it has. */
static inline oc_program_shape oc_body_shape(const oc_task *t) {
    const oc_step_context *c = oc_body_context(t);
    oc_program_shape s = c->shape;
    if (c->build->pass.rows > 0) s.seq = oc_body_count(t, 0);
    return s;
}

/* After device work: its first failure so far, if any. */
static inline oc_status oc_body_done(const oc_task *t, oc_error *err) {
    oc_status st = oc_device_status(oc_body_device(t));
    if (st == OC_OK) return OC_OK;
    return oc_fail(err, st, "the device failed in %s of block %u",
                   oc_op_kind_name((oc_op_kind)t->op->kind), t->op->block);
}

/* Where the block begins, of which the access is a run of pieces that stand in their places. */
static inline const void *oc_body_weights(const oc_task *t) {
    const oc_access *a = oc_task_access(t, OC_ROLE_WEIGHT);
    if (!a) return NULL;
    const char *at = oc_task_address(t, a);
    return at - a->first * t->set->buffers[a->buffer].piece_bytes;
}

static inline oc_layer_call oc_body_layer_call(const oc_task *t, const oc_program_shape *shape,
                                               const oc_program_batch *b) {
    oc_layer_call c = {.shape = shape,
                       .block = oc_body_block(t),
                       .weights = oc_body_weights(t),
                       .inv_freq = oc_task_role(t, OC_ROLE_TABLE),
                       .batch = b,
                       .work = oc_task_role(t, OC_ROLE_WORK)};
    for (int v = 0; v < OC_SAVED_COUNT; v++)
        c.saved[v] = oc_task_role(t, (oc_role)(OC_ROLE_QKV + v));
    return c;
}

#endif
