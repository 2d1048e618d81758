/* bodies.c - the ops of a training plan, each a few lines over the device table and block programs;
 * those that a pass of generation alone has: bodies_pass.c. */
#include "engine/bodies.h"

#include "base/checked.h"
#include "engine/body.h"

#include <math.h>
#include <string.h>

/* ---- movement ---- */

/* Between homes and slots: exactly the bytes that verify found room for. On the CPU device through
 * its pool: a lane that copies then counts among the active cores, and a worker makes place for it.
 */
static oc_status copy(const oc_task *t, oc_error *err) {
    oc_device *d = oc_body_device(t);
    d->ops->copy(d, oc_task_role(t, OC_ROLE_DST), oc_task_role(t, OC_ROLE_SRC),
                 t->op->demand.bytes);
    return oc_body_done(t, err);
}

/* The op's micro-batch of the step: the plan's number 0 is the cell's first. */
static int32_t micro_of_step(const oc_task *t, const oc_control_cell *control) {
    int32_t first = (int32_t)control->first_micro, sets = oc_body_context(t)->sets;
    return first + (t->op->micro + sets - first % sets) % sets;
}

/* Rows that wait for the end of the step lie one micro-batch behind the other. */
static oc_status copy_rows(const oc_task *t, oc_error *err) {
    oc_device *d = oc_body_device(t);
    int32_t micro = micro_of_step(t, oc_task_role(t, OC_ROLE_CELLS_IN));
    char *rows = oc_task_role(t, OC_ROLE_DST);
    d->ops->copy(d, rows + (uint64_t)micro * t->op->demand.bytes, oc_task_role(t, OC_ROLE_SRC),
                 t->op->demand.bytes);
    return oc_body_done(t, err);
}

static int64_t row_width(const oc_model *m, const oc_block *x) {
    return x->kind == OC_BLOCK_POSITION ? m->hidden : m->embed_dim;
}

static oc_status fetch_rows(const oc_task *t, oc_error *err) {
    const oc_step_context *c = oc_body_context(t);
    oc_program_batch b = oc_body_batch(t);
    const oc_model *m = c->shape.model;
    bool positions = oc_body_block(t)->kind == OC_BLOCK_POSITION;
    const int32_t *index = positions ? b.positions : b.tokens;
    oc_program_shape shape = oc_body_shape(t);
    int64_t n = shape.batch * shape.seq, shift = positions ? m->position_offset : 0;
    void *out = oc_task_role(t, OC_ROLE_ROWS);
    for (uint32_t k = 0; k < t->op->n_accesses; k++) {
        const oc_access *a = &t->accesses[k];
        if (a->role != OC_ROLE_SRC) continue;
        const oc_block *x = &m->blocks[a->value.block];
        oc_body_device(t)->ops->rows_gather(oc_body_device(t), c->shape.dtype, n, row_width(m, x),
                                            index, x->row0 - shift, x->rows, oc_task_address(t, a),
                                            out);
    }
    return oc_body_done(t, err);
}

/* ---- forward ---- */

static oc_status embed(const oc_task *t, oc_error *err) {
    oc_program_shape shape = oc_body_shape(t);
    oc_program_embed(&shape, oc_task_role(t, OC_ROLE_ROWS), oc_task_role(t, OC_ROLE_POSITION_ROWS),
                     oc_task_role(t, OC_ROLE_OUT));
    return oc_body_done(t, err);
}

static oc_status front_forward(const oc_task *t, oc_error *err) {
    oc_program_shape shape = oc_body_shape(t);
    oc_program_front_forward(&shape, oc_body_block(t), oc_task_role(t, OC_ROLE_WEIGHT),
                             oc_task_role(t, OC_ROLE_ROWS), oc_task_role(t, OC_ROLE_POSITION_ROWS),
                             oc_task_role(t, OC_ROLE_OUT), oc_task_role(t, OC_ROLE_WORK));
    return oc_body_done(t, err);
}

static oc_status run_part(const oc_task *t, const oc_program_batch *b, oc_error *err) {
    oc_program_shape shape = oc_body_shape(t);
    oc_layer_call c = oc_body_layer_call(t, &shape, b);
    oc_program_part_forward(&c, (oc_part)(t->op->body - OC_BODY_PART_IN),
                            oc_task_role(t, OC_ROLE_IN), oc_task_role(t, OC_ROLE_OUT));
    return oc_body_done(t, err);
}

/* Parts that know of positions and documents, */
static oc_status batch_part(const oc_task *t, oc_error *err) {
    oc_program_batch b = oc_body_batch(t);
    return run_part(t, &b, err);
}

/* and those that do not. */
static oc_status row_part(const oc_task *t, oc_error *err) { return run_part(t, NULL, err); }

static oc_status final_forward(const oc_task *t, oc_error *err) {
    oc_program_final_forward(&oc_body_context(t)->shape, oc_body_block(t),
                             oc_task_role(t, OC_ROLE_WEIGHT), oc_task_role(t, OC_ROLE_IN),
                             oc_task_role(t, OC_ROLE_STATE));
    return oc_body_done(t, err);
}

static oc_status head_forward(const oc_task *t, oc_error *err) {
    oc_program_batch b = oc_body_batch(t);
    oc_program_head_forward(&oc_body_context(t)->shape, oc_body_block(t),
                            oc_task_role(t, OC_ROLE_WEIGHT), &b, oc_task_role(t, OC_ROLE_STATE),
                            oc_task_role(t, OC_ROLE_LOGITS), oc_task_role(t, OC_ROLE_WORK));
    return oc_body_done(t, err);
}

static oc_status loss(const oc_task *t, oc_error *err) {
    oc_program_batch b = oc_body_batch(t);
    oc_program_loss(&oc_body_context(t)->shape, &b, oc_task_role(t, OC_ROLE_STATE),
                    oc_task_role(t, OC_ROLE_CELLS_OUT));
    if (oc_body_context(t)->build->scores)
        oc_program_scores(&oc_body_context(t)->shape, &b, oc_task_role(t, OC_ROLE_STATE),
                          (void *)((double *)oc_task_role(t, OC_ROLE_CELLS_OUT) + 1));
    return oc_body_done(t, err);
}

/* ---- backward ---- */

/* Of what the block's gradient program has written: before the norm, and before an update. */
static void leave_frozen(const oc_task *t) {
    const oc_program_shape *s = &oc_body_context(t)->shape;
    void *grads = oc_task_role(t, OC_ROLE_GRAD_OUT);
    if (grads) oc_model_zero_frozen(s->model, oc_body_block(t), oc_body_device(t), s->dtype, grads);
}

static oc_status head_backward(const oc_task *t, oc_error *err) {
    oc_program_batch b = oc_body_batch(t);
    oc_program_head_backward(&oc_body_context(t)->shape, oc_body_block(t),
                             oc_task_role(t, OC_ROLE_WEIGHT), &b, oc_task_role(t, OC_ROLE_CARRY),
                             oc_task_role(t, OC_ROLE_GRAD_OUT), oc_task_role(t, OC_ROLE_STATE),
                             oc_task_role(t, OC_ROLE_LOGITS), oc_task_role(t, OC_ROLE_WORK));
    leave_frozen(t);
    return oc_body_done(t, err);
}

static oc_status final_backward(const oc_task *t, oc_error *err) {
    oc_program_final_backward(&oc_body_context(t)->shape, oc_body_block(t),
                              oc_task_role(t, OC_ROLE_WEIGHT), oc_task_role(t, OC_ROLE_IN),
                              oc_task_role(t, OC_ROLE_D), oc_task_role(t, OC_ROLE_GRAD_OUT),
                              oc_task_role(t, OC_ROLE_STATE));
    leave_frozen(t);
    return oc_body_done(t, err);
}

static oc_status layer_backward(const oc_task *t, oc_error *err) {
    oc_program_batch b = oc_body_batch(t);
    oc_layer_call c = oc_body_layer_call(t, &oc_body_context(t)->shape, &b);
    oc_program_layer_backward(&c, oc_task_role(t, OC_ROLE_IN), oc_task_role(t, OC_ROLE_D),
                              oc_task_role(t, OC_ROLE_GRAD_OUT));
    leave_frozen(t);
    return oc_body_done(t, err);
}

static oc_status front_backward(const oc_task *t, oc_error *err) {
    oc_program_front_backward(&oc_body_context(t)->shape, oc_body_block(t),
                              oc_task_role(t, OC_ROLE_WEIGHT), oc_task_role(t, OC_ROLE_ROWS),
                              oc_task_role(t, OC_ROLE_D), oc_task_role(t, OC_ROLE_OUT),
                              oc_task_role(t, OC_ROLE_GRAD_OUT), oc_task_role(t, OC_ROLE_WORK));
    leave_frozen(t);
    return oc_body_done(t, err);
}

static oc_status scale_rows(const oc_task *t, oc_error *err) {
    const oc_program_shape *s = &oc_body_context(t)->shape;
    void *d = oc_task_role(t, OC_ROLE_D);
    s->device->ops->scale_add(s->device, s->dtype, s->batch * s->seq * s->model->hidden, d,
                              oc_program_embedding_scale(s), NULL, d);
    return oc_body_done(t, err);
}

/* ---- folds ---- */

/* Elements of piece k of the op's block. */
static int64_t piece_elements(const oc_task *t) {
    uint64_t piece = oc_body_context(t)->build->place.piece_elements;
    return (int64_t)oc_min_u64(piece, oc_body_block(t)->elements - t->op->piece * piece);
}

/* The last micro-batch's fold runs even when that has no rows: then it only measures what is there.
 */
static bool has_share(const oc_task *t) {
    const oc_control_cell *control = oc_task_role(t, OC_ROLE_CELLS_IN);
    return t->op->body != OC_BODY_FOLD_LAST || control->live[t->op->micro];
}

static oc_status fold(const oc_task *t, oc_error *err) {
    const oc_step_context *c = oc_body_context(t);
    oc_dtype home = oc_build_grad_dtype(c->build, (int32_t)t->op->block), dtype = c->shape.dtype;
    void *acc = oc_task_role(t, OC_ROLE_GRAD), *src = oc_task_role(t, OC_ROLE_SRC);
    bool first = t->op->body == OC_BODY_FOLD_FIRST;
    if (t->op->body == OC_BODY_FOLD_IN_PLACE || !has_share(t)) {
        src = acc;
        dtype = home;
        first = true;
    }
    oc_body_device(t)->ops->fold(oc_body_device(t), piece_elements(t), src, dtype, acc, home, first,
                                 oc_task_role(t, OC_ROLE_PARTIALS));
    return oc_body_done(t, err);
}

/* The order cell's arrays have an entry for each token of the micro-batches that it covers. */
static oc_status fold_rows(const oc_task *t, oc_error *err) {
    const oc_step_context *c = oc_body_context(t);
    const oc_model *m = c->shape.model;
    oc_device *d = oc_body_device(t);
    const oc_block *x = oc_body_block(t);
    bool positions = x->kind == OC_BLOCK_POSITION;
    int64_t n = c->shape.batch * c->shape.seq * oc_build_order_micros(c->build);
    const int32_t *arrays = oc_task_role(t, OC_ROLE_BATCH);
    const int32_t *index = arrays + n * (positions ? OC_ORDER_POSITIONS : OC_ORDER_TOKENS);
    int64_t row0 = x->row0 - (positions ? m->position_offset : 0);
    float *acc = oc_task_role(t, OC_ROLE_GRAD);
    double *partials = oc_task_role(t, OC_ROLE_PARTIALS);
    if (t->op->body == OC_BODY_FOLD_ROWS_FIRST) d->ops->zero(d, acc, x->elements * 4);
    if (x->trained) /* a table is one tensor */
        d->ops->rows_scatter(d, c->shape.dtype, n, row_width(m, x), index, index + n, row0, x->rows,
                             oc_task_role(t, OC_ROLE_SRC), acc);
    if (partials) d->ops->fold(d, (int64_t)x->elements, acc, OC_F32, acc, OC_F32, true, partials);
    return oc_body_done(t, err);
}

/* One micro-batch after the other, so that the sum does not depend on how many a plan has. */
static oc_status fold_loss(const oc_task *t, oc_error *err) {
    const double *losses = oc_task_role(t, OC_ROLE_SRC);
    double *sum = oc_task_role(t, OC_ROLE_STATE);
    (void)err;
    if (t->op->body == OC_BODY_FOLD_LOSS_FIRST) *sum = 0;
    for (uint32_t i = 0; i < oc_task_access(t, OC_ROLE_SRC)->count; i++)
        *sum += losses[i];
    return OC_OK;
}

/* ---- the end of a step ---- */

/* Partials in block order, chunk order: the grid is fixed, so the norm is. */
static double squared_norm(const oc_task *t) {
    double sum = 0;
    for (uint32_t k = 0; k < t->op->n_accesses; k++) {
        const oc_access *a = &t->accesses[k];
        if (a->role != OC_ROLE_PARTIALS) continue;
        const double *p = oc_task_address(t, a);
        uint64_t n = t->set->buffers[a->buffer].bytes / sizeof *p;
        for (uint64_t i = 0; i < n; i++)
            sum += p[i];
    }
    return sum;
}

double oc_step_loss_scale(const oc_step_context *c, double scale) {
    return c->scaling ? scale / c->nominal : 1.0;
}

static void scale_after(const oc_step_context *c, oc_carry_cell *carry, bool overflow) {
    oc_scaler s = {carry->loss_scale, carry->scale_since_overflow, carry->scale_hysteresis};
    if (!oc_scaler_update(&s, &c->scaler, overflow)) carry->scale_exhausted = 1;
    carry->loss_scale = s.scale;
    carry->scale_since_overflow = s.since_overflow;
    carry->scale_hysteresis = s.hysteresis_left;
    carry->dscale = (float)oc_step_loss_scale(c, s.scale);
}

/* Gradients are of the sum over targets, times the loss scale. */
static double unit_of(const oc_step_context *c, const oc_carry_cell *carry, double targets) {
    return 1.0 / (oc_step_loss_scale(c, carry->loss_scale) * targets);
}

/* Of the update that comes after `updates` others. */
static void fill_scalars(const oc_step_context *c, oc_update_scalars *s, uint64_t updates) {
    double step = (double)updates + 1;
    s->lr = oc_schedule_lr(&c->schedule, c->lr, (int64_t)updates);
    s->bias1 = 1 - pow(c->beta1, step);
    s->bias2 = 1 - pow(c->beta2, step);
}

/* What the step was like, whatever becomes of it. */
static void report(const oc_task *t, oc_result_cell *r, double sum, double targets) {
    const oc_carry_cell *carry = oc_task_role(t, OC_ROLE_CARRY);
    const double *loss = oc_task_role(t, OC_ROLE_STATE);
    bool some = targets > 0;
    r->loss_scale = carry->loss_scale;
    r->loss = some ? *loss / targets : 0;
    r->grad_norm = some ? sqrt(sum) * unit_of(oc_body_context(t), carry, targets) : 0;
}

static oc_status norm(const oc_task *t, oc_error *err) {
    const oc_step_context *c = oc_body_context(t);
    const oc_control_cell *control = oc_task_role(t, OC_ROLE_CELLS_IN);
    oc_carry_cell *carry = oc_task_role(t, OC_ROLE_CARRY);
    oc_result_cell *r = oc_task_role(t, OC_ROLE_CELLS_OUT);
    double targets = (double)control->targets, unit = unit_of(c, carry, targets);
    double sum = squared_norm(t);
    bool some = control->targets > 0, finite = isfinite(sum) != 0;
    (void)err;
    memset(r, 0, sizeof *r);
    report(t, r, sum, targets);
    r->overflow = some && !finite;
    r->finite = some && finite;
    double clip = 1.0;
    if (c->clip > 0) {
        clip = c->clip / (r->grad_norm + 1e-6); /* as torch.nn.utils.clip_grad_norm_ */
        if (clip > 1) clip = 1;
    }
    fill_scalars(c, &r->scalars, carry->updates);
    r->scalars.coef = (float)(unit * clip);
    r->lr_used = r->scalars.lr;
    if (c->scaling && some) scale_after(c, carry, !finite);
    r->scale_exhausted = (uint32_t)carry->scale_exhausted;
    if (r->finite) carry->updates++;
    return OC_OK;
}

/* Early: all that an update needs is known before the step; without targets there is none. */
static oc_status begin(const oc_task *t, oc_error *err) {
    const oc_step_context *c = oc_body_context(t);
    const oc_control_cell *control = oc_task_role(t, OC_ROLE_CELLS_IN);
    const oc_carry_cell *carry = oc_task_role(t, OC_ROLE_CARRY);
    oc_result_cell *r = oc_task_role(t, OC_ROLE_CELLS_OUT);
    (void)err;
    memset(r, 0, sizeof *r);
    r->finite = control->targets > 0;
    fill_scalars(c, &r->scalars, carry->updates);
    r->scalars.coef = (float)(unit_of(c, carry, (double)control->targets) * 1.0);
    r->lr_used = r->scalars.lr;
    return OC_OK;
}

/* Partials of a step without targets were not written. */
static oc_status norm_early(const oc_task *t, oc_error *err) {
    const oc_control_cell *control = oc_task_role(t, OC_ROLE_CELLS_IN);
    oc_carry_cell *carry = oc_task_role(t, OC_ROLE_CARRY);
    oc_result_cell *r = oc_task_role(t, OC_ROLE_CELLS_OUT);
    double sum = r->finite ? squared_norm(t) : 0;
    report(t, r, sum, (double)control->targets);
    if (!r->finite) return OC_OK;
    carry->updates++;
    if (isfinite(sum)) return OC_OK;
    r->overflow = 1;
    return oc_fail(
        err, OC_E_INVALID,
        "the gradients of step %llu are not finite, and with early updates a step cannot "
        "be taken back; --early-updates off (or a --clip-grad-norm above 0) skips such "
        "steps",
        (unsigned long long)control->step);
}

/* ---- updates ---- */

static const oc_update_scalars *scalars_of(const oc_task *t) {
    const void *there = oc_task_role(t, OC_ROLE_STATE); /* a copy on the device */
    if (there) return there;
    const oc_result_cell *r = oc_task_role(t, OC_ROLE_CELLS_IN);
    return &r->scalars;
}

static oc_dtype grad_dtype(const oc_task *t) {
    const oc_step_context *c = oc_body_context(t);
    bool early = t->op->body == OC_BODY_UPDATE_EARLY || t->op->body == OC_BODY_UPDATE_EARLY_THERE;
    if (early) return c->shape.dtype;
    return oc_build_grad_dtype(c->build, (int32_t)t->op->block);
}

/* What an update does to a tensor. */
typedef enum treatment { PLAIN, DECAYED, FROZEN } treatment;

static treatment treatment_of(const oc_tensor_spec *x) {
    return x->frozen ? FROZEN : x->decay ? DECAYED : PLAIN;
}

/* What is not updated is published with the rest of its piece. */
static void pass_on(const oc_task *t, int64_t lo, int64_t hi) {
    const oc_access *copy = oc_task_access(t, OC_ROLE_COPY);
    if (!copy || copy->mode != OC_WRITE) return;
    oc_dtype dtype = oc_body_context(t)->shape.dtype;
    const float *p = oc_task_role(t, OC_ROLE_MASTER);
    char *to = oc_task_role(t, OC_ROLE_COPY);
    oc_body_device(t)->ops->fold(oc_body_device(t), hi - lo, p + lo, OC_F32,
                                 to + (uint64_t)lo * oc_dtype_bytes(dtype), dtype, true, NULL);
}

/* Elements [lo, hi) of the piece, all treated alike. */
static void update_range(const oc_task *t, int64_t lo, int64_t hi, treatment how) {
    const oc_step_context *c = oc_body_context(t);
    if (how == FROZEN) {
        pass_on(t, lo, hi);
        return;
    }
    oc_dtype g = grad_dtype(t);
    float *p = oc_task_role(t, OC_ROLE_MASTER), *m = oc_task_role(t, OC_ROLE_M);
    float *v = oc_task_role(t, OC_ROLE_V);
    char *copy_to = oc_task_role(t, OC_ROLE_COPY);
    const char *grad = oc_task_role(t, OC_ROLE_GRAD);
    oc_update u = {.kind = c->optimizer,
                   .n = hi - lo,
                   .p = p + lo,
                   .m = m ? m + lo : NULL,
                   .v = v ? v + lo : NULL,
                   .g = grad + (uint64_t)lo * oc_dtype_bytes(g),
                   .g_dtype = g,
                   .copy = copy_to ? copy_to + (uint64_t)lo * oc_dtype_bytes(c->shape.dtype) : NULL,
                   .copy_dtype = c->shape.dtype,
                   .scalars = scalars_of(t),
                   .beta1 = c->beta1,
                   .beta2 = c->beta2,
                   .eps = c->eps,
                   .weight_decay = how == DECAYED ? c->weight_decay : 0,
                   .momentum = c->momentum};
    oc_body_device(t)->ops->update(oc_body_device(t), &u);
}

/* Ranges of equal treatment within the piece; alignment gaps go with the tensor before them. */
static oc_status update(const oc_task *t, oc_error *err) {
    const oc_step_context *c = oc_body_context(t);
    const oc_block *x = oc_body_block(t);
    const oc_tensor_spec *tensors = &c->shape.model->tensors[x->first_tensor];
    int64_t n = piece_elements(t);
    int64_t base = (int64_t)(t->op->piece * c->build->place.piece_elements), lo = 0;
    treatment how = PLAIN;
    for (int32_t i = 0; i < x->n_tensors; i++) {
        int64_t at = (int64_t)tensors[i].offset - base;
        if (at >= n) break;
        if (at > lo && treatment_of(&tensors[i]) != how) {
            update_range(t, lo, at, how);
            lo = at;
        }
        how = treatment_of(&tensors[i]);
    }
    update_range(t, lo, n, how);
    return oc_body_done(t, err);
}

static oc_status update_early(const oc_task *t, oc_error *err) {
    oc_device *d = oc_body_device(t);
    void *grad = oc_task_role(t, OC_ROLE_GRAD);
    oc_dtype g = grad_dtype(t);
    d->ops->fold(d, piece_elements(t), grad, g, grad, g, true, oc_task_role(t, OC_ROLE_PARTIALS));
    return update(t, err);
}

/* NaN in every dtype. */
static oc_status poison(const oc_task *t, oc_error *err) {
    for (uint32_t k = 0; k < t->op->n_accesses; k++)
        oc_body_device(t)->ops->fill(oc_body_device(t), oc_task_address(t, &t->accesses[k]), 0xff,
                                     oc_task_bytes(t, &t->accesses[k]));
    return oc_body_done(t, err);
}

oc_body *const oc_step_bodies[OC_BODY_COUNT] = {
    [OC_BODY_COPY] = copy,
    [OC_BODY_COPY_ROWS] = copy_rows,
    [OC_BODY_COPY_PARTIALS] = copy,
    [OC_BODY_FETCH_ROWS] = fetch_rows,
    [OC_BODY_EMBED] = embed,
    [OC_BODY_EMBED_POSITIONS] = embed,
    [OC_BODY_FRONT_FORWARD] = front_forward,
    [OC_BODY_FRONT_POSITIONS] = front_forward,
    [OC_BODY_PART_IN] = batch_part,
    [OC_BODY_PART_ATTENTION] = batch_part,
    [OC_BODY_PART_OUT] = row_part,
    [OC_BODY_PART_MLP] = row_part,
    [OC_BODY_FINAL_FORWARD] = final_forward,
    [OC_BODY_HEAD_FORWARD] = head_forward,
    [OC_BODY_LOSS] = loss,
    [OC_BODY_HEAD_BACKWARD] = head_backward,
    [OC_BODY_HEAD_BACKWARD_KEPT] = head_backward,
    [OC_BODY_FINAL_BACKWARD] = final_backward,
    [OC_BODY_LAYER_BACKWARD] = layer_backward,
    [OC_BODY_LAYER_BACKWARD_UP] = layer_backward,
    [OC_BODY_FRONT_BACKWARD] = front_backward,
    [OC_BODY_SCALE_ROWS] = scale_rows,
    [OC_BODY_FOLD] = fold,
    [OC_BODY_FOLD_LAST] = fold,
    [OC_BODY_FOLD_FIRST] = fold,
    [OC_BODY_FOLD_IN_PLACE] = fold,
    [OC_BODY_FOLD_ROWS] = fold_rows,
    [OC_BODY_FOLD_ROWS_FIRST] = fold_rows,
    [OC_BODY_FOLD_LOSS] = fold_loss,
    [OC_BODY_FOLD_LOSS_FIRST] = fold_loss,
    [OC_BODY_BEGIN] = begin,
    [OC_BODY_NORM] = norm,
    [OC_BODY_NORM_EARLY] = norm_early,
    [OC_BODY_UPDATE] = update,
    [OC_BODY_UPDATE_THERE] = update,
    [OC_BODY_UPDATE_EARLY] = update_early,
    [OC_BODY_UPDATE_EARLY_THERE] = update_early,
    [OC_BODY_PUBLISH] = copy,
    [OC_BODY_POISON] = poison,
    [OC_BODY_PART_PAGED] = oc_body_part_paged,
    [OC_BODY_FINAL_SAMPLED] = oc_body_final_sampled,
    [OC_BODY_HEAD_LOGITS] = oc_body_head_logits,
    [OC_BODY_NEXT] = oc_body_next,
    [OC_BODY_FETCH_PAGES] = oc_body_fetch_pages,
    [OC_BODY_STORE_PAGES] = oc_body_store_pages,
};
