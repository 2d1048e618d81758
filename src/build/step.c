/* step.c - the ops of a plan: forward and backward of its micro-batches, block by block. */
#include "build/internal.h"

static const oc_value none = {0};

oc_value oc_step_scratch(void) { return oc_value_of(OC_V_SCRATCH, 0, 0, 0); }
static oc_value batch_value(uint32_t micro) { return oc_value_of(OC_V_BATCH, 0, micro, 0); }

/* ---- cells on the device ---- */

/* On a device of its own the batch is read from a copy there. */
static oc_buffer_id batch_at(const build *b) {
    return oc_build_away(b) ? b->batch_copy : b->ids->batch;
}

void oc_step_reads_batch(build *b, uint32_t micro) {
    oc_emit_access(b, OC_ROLE_BATCH, OC_READ, batch_at(b), micro, 1, batch_value(micro), none);
}

static void fetch_batch(build *b, uint32_t micro) {
    if (!oc_build_away(b)) return;
    uint64_t bytes = oc_dry(b) ? 0 : oc_plan_buffer_at(b->pb, b->ids->batch)->piece_bytes;
    oc_route_copy(b, b->ids->batch, micro, b->batch_copy, micro, bytes, batch_value(micro),
                  (int32_t)micro);
}

static oc_value carry_value(void) { return oc_value_of(OC_V_CARRY, 0, 0, 0); }

static void fetch_scale(build *b) {
    if (!oc_build_away(b)) return;
    oc_route_copy(b, b->ids->carry, 0, b->scale_copy, 0, sizeof(float), carry_value(), -1);
}

void oc_step_reads_table(build *b) {
    if (b->ids->table != OC_NO_BUFFER) oc_emit_cell(b, OC_ROLE_TABLE, b->ids->table);
}

/* ---- embedding ---- */

/* Rows come from homes: where these are away from the device, its link reads them by the batch that
 * lies beside them. */
static void fetch_rows(build *b, uint32_t micro, uint32_t block, uint32_t blocks, oc_buffer_id to) {
    bool away = oc_build_streams(b->spec, block);
    oc_buffer_id index = away ? b->ids->batch : batch_at(b);
    if (oc_dry(b)) return;
    oc_route_begin(b, OC_BODY_FETCH_ROWS, b->ids->weight[block], to, block, micro);
    b->op.kind = OC_OP_FETCH_ROWS;
    b->op.blocks = blocks;
    b->op.index = index;
    oc_emit_if_live(b, micro);
    oc_emit_op(b);
    for (uint32_t i = block; i < block + blocks; i++)
        oc_emit_read(b, OC_ROLE_SRC, b->ids->weight[i], UINT32_MAX,
                     oc_state_value(b->spec, OC_V_WEIGHT, i, 0));
    oc_emit_access(b, OC_ROLE_BATCH, OC_READ, index, micro, 1, batch_value(micro), none);
    oc_emit_write(b, OC_ROLE_ROWS, to, 1, oc_value_of(OC_V_ROWS, block, micro, 0));
}

static void fetch_token_rows(build *b, uint32_t micro) {
    const oc_model *m = b->spec->model;
    fetch_rows(b, micro, (uint32_t)m->first_table, (uint32_t)m->n_table, b->rows);
}

static void reads_token_rows(build *b, uint32_t micro) {
    uint32_t table = (uint32_t)b->spec->model->first_table;
    oc_emit_read(b, OC_ROLE_ROWS, b->rows, 1, oc_value_of(OC_V_ROWS, table, micro, 0));
}

static void embed(build *b, uint32_t micro) {
    const oc_model *m = b->spec->model;
    bool positions = m->position_block >= 0, front = m->front_block >= 0;
    oc_body_id body = front       ? positions ? OC_BODY_FRONT_POSITIONS : OC_BODY_FRONT_FORWARD
                      : positions ? OC_BODY_EMBED_POSITIONS
                                  : OC_BODY_EMBED;
    uint32_t block = (uint32_t)(front ? m->front_block : m->first_table);
    oc_buffer_id w = front ? oc_weights_use(b, block) : OC_NO_BUFFER;
    fetch_token_rows(b, micro);
    if (positions) fetch_rows(b, micro, (uint32_t)m->position_block, 1, b->position_rows);
    oc_buffer_id out = oc_acts_make(b, 0, micro);
    oc_emit_begin(b, OC_OP_FORWARD, OC_LANE_COMPUTE, body, block, micro);
    oc_emit_if_live(b, micro);
    oc_emit_op(b);
    if (front) oc_weights_read(b, block, w);
    reads_token_rows(b, micro);
    if (positions)
        oc_emit_read(b, OC_ROLE_POSITION_ROWS, b->position_rows, 1,
                     oc_value_of(OC_V_ROWS, (uint32_t)m->position_block, micro, 0));
    oc_emit_write(b, OC_ROLE_OUT, out, 1, oc_act_value(0, micro));
    if (front) oc_emit_write(b, OC_ROLE_WORK, b->work, 1, oc_step_scratch());
    oc_acts_retire(b, 0, micro, out);
}

/* ---- forward ---- */

static oc_value state_value(uint32_t micro, uint32_t stage) {
    return oc_value_of(OC_V_HEAD_STATE, 0, micro, stage);
}

static void final_forward(build *b, uint32_t micro) {
    const oc_model *m = b->spec->model;
    uint32_t block = (uint32_t)m->final_norm_block, layers = (uint32_t)m->n_layers;
    oc_buffer_id w = oc_weights_use(b, block);
    oc_buffer_id in = oc_acts_use(b, layers, micro);
    oc_emit_begin(b, OC_OP_FORWARD, OC_LANE_COMPUTE, OC_BODY_FINAL_FORWARD, block, micro);
    oc_emit_if_live(b, micro);
    oc_emit_op(b);
    oc_weights_read(b, block, w);
    oc_emit_read(b, OC_ROLE_IN, in, 1, oc_act_value(layers, micro));
    oc_emit_write(b, OC_ROLE_STATE, b->states[micro], 1, state_value(micro, 0));
    b->head_stage[micro] = 0;
}

static void fold_state(build *b, uint32_t micro) {
    uint32_t stage = b->head_stage[micro]++;
    oc_emit_access(b, OC_ROLE_STATE, OC_FOLD, b->states[micro], 0, 1, state_value(micro, stage),
                   state_value(micro, stage + 1));
}

/* Turns take a micro-batch through the head one after the other, and share its place. */
static oc_buffer_id logits_at(const build *b, uint32_t index, uint32_t micro) {
    uint32_t set = b->spec->place.interleave ? 0 : micro;
    return b->logits[set * (uint32_t)b->spec->place.kept_logits + index];
}

static oc_value logits_value(uint32_t block, uint32_t micro) {
    return oc_value_of(OC_V_LOGITS, block, micro, 0);
}

static bool keeps_logits(const build *b, uint32_t block, uint32_t *index) {
    return b->kind.part != PART_EVAL && oc_build_keeps_logits(b->spec, block, index);
}

static void head_forward(build *b, uint32_t block, uint32_t micro) {
    uint32_t kept;
    oc_buffer_id w = oc_weights_use(b, block);
    oc_emit_begin(b, OC_OP_FORWARD, OC_LANE_COMPUTE, OC_BODY_HEAD_FORWARD, block, micro);
    oc_emit_if_live(b, micro);
    oc_emit_op(b);
    oc_weights_read(b, block, w);
    oc_step_reads_batch(b, micro);
    fold_state(b, micro);
    oc_emit_write(b, OC_ROLE_WORK, b->head_work, 1, oc_step_scratch());
    if (keeps_logits(b, block, &kept))
        oc_emit_write(b, OC_ROLE_LOGITS, logits_at(b, kept, micro), 1, logits_value(block, micro));
}

/* Where the session and the step's sum read it. */
static void loss(build *b, uint32_t micro) {
    bool away = oc_build_away(b);
    oc_buffer_id to = away ? b->losses_copy : b->ids->losses;
    oc_value v = oc_value_of(OC_V_LOSSES, 0, micro, 1);
    oc_emit_begin(b, OC_OP_LOSS, OC_LANE_COMPUTE, OC_BODY_LOSS, 0, micro);
    oc_emit_if_live(b, micro);
    oc_emit_op(b);
    oc_step_reads_batch(b, micro);
    fold_state(b, micro);
    oc_emit_access(b, OC_ROLE_CELLS_OUT, OC_WRITE, to, micro, 1, v, none);
    if (away)
        oc_route_copy(b, to, micro, b->ids->losses, micro, oc_build_loss_bytes(b->spec), v,
                      (int32_t)micro);
}

static void begin_group(build *b, uint32_t lo, uint32_t hi) {
    for (uint32_t a = lo; a < hi; a++) {
        fetch_batch(b, a);
        if (oc_build_passes(b->spec)) oc_pass_begin_group(b, a);
    }
    for (uint32_t a = lo; a < hi; a++)
        embed(b, a);
}

static void head_forward_group(build *b, uint32_t lo, uint32_t hi) {
    const oc_model *m = b->spec->model;
    for (uint32_t a = lo; a < hi; a++)
        final_forward(b, a);
    for (uint32_t c = 0; c < (uint32_t)m->n_head; c++)
        for (uint32_t a = lo; a < hi; a++)
            head_forward(b, (uint32_t)m->first_head + c, a);
    for (uint32_t a = lo; a < hi; a++)
        loss(b, a);
}

/* ---- backward ---- */

static void reads_scale(build *b) {
    oc_emit_read(b, OC_ROLE_CARRY, oc_build_away(b) ? b->scale_copy : b->ids->carry, 1,
                 carry_value());
}

/* Nothing of a frozen block. */
void oc_step_writes_grad(build *b, oc_buffer_id g, uint32_t block, uint32_t micro) {
    if (g == OC_NO_BUFFER) return;
    oc_emit_write(b, OC_ROLE_GRAD_OUT, g, oc_build_pieces(b->spec, block),
                  oc_grad_raw(b->spec, block, micro, 0));
    oc_grads_settle(b, block, micro, g);
}

static void head_backward(build *b, uint32_t block, uint32_t micro) {
    uint32_t kept = 0;
    bool there = keeps_logits(b, block, &kept);
    oc_buffer_id w = oc_weights_use(b, block);
    oc_buffer_id g = oc_grads_make(b, block, micro);
    oc_emit_begin(b, OC_OP_BACKWARD, OC_LANE_COMPUTE,
                  there ? OC_BODY_HEAD_BACKWARD_KEPT : OC_BODY_HEAD_BACKWARD, block, micro);
    oc_emit_if_live(b, micro);
    oc_emit_op(b);
    oc_weights_read(b, block, w);
    oc_step_reads_batch(b, micro);
    reads_scale(b);
    if (there)
        oc_emit_read(b, OC_ROLE_LOGITS, logits_at(b, kept, micro), 1, logits_value(block, micro));
    fold_state(b, micro);
    oc_emit_write(b, OC_ROLE_WORK, b->head_work, 1, oc_step_scratch());
    oc_step_writes_grad(b, g, block, micro);
}

oc_value oc_step_d_value(uint32_t layer, uint32_t micro) {
    return oc_value_of(OC_V_DACT, layer, micro, 0);
}

static void final_backward(build *b, uint32_t micro) {
    const oc_model *m = b->spec->model;
    uint32_t block = (uint32_t)m->final_norm_block, layers = (uint32_t)m->n_layers;
    oc_buffer_id w = oc_weights_use(b, block);
    oc_buffer_id in = oc_acts_use(b, layers, micro);
    oc_buffer_id g = oc_grads_make(b, block, micro);
    oc_emit_begin(b, OC_OP_BACKWARD, OC_LANE_COMPUTE, OC_BODY_FINAL_BACKWARD, block, micro);
    oc_emit_if_live(b, micro);
    oc_emit_op(b);
    oc_weights_read(b, block, w);
    oc_emit_read(b, OC_ROLE_IN, in, 1, oc_act_value(layers, micro));
    fold_state(b, micro);
    oc_emit_write(b, OC_ROLE_D, b->ds[micro], 1, oc_step_d_value(layers, micro));
    oc_step_writes_grad(b, g, block, micro);
}

static void front_backward(build *b, uint32_t micro) {
    uint32_t block = (uint32_t)b->spec->model->front_block;
    oc_buffer_id w = oc_weights_use(b, block);
    fetch_token_rows(b, micro);
    oc_buffer_id g = oc_grads_make(b, block, micro);
    oc_emit_begin(b, OC_OP_BACKWARD, OC_LANE_COMPUTE, OC_BODY_FRONT_BACKWARD, block, micro);
    oc_emit_if_live(b, micro);
    oc_emit_op(b);
    oc_weights_read(b, block, w);
    reads_token_rows(b, micro);
    oc_emit_read(b, OC_ROLE_D, b->ds[micro], 1, oc_step_d_value(0, micro));
    oc_emit_write(b, OC_ROLE_OUT, b->front_drows, 1, oc_row_gradient(b->spec->model, micro));
    oc_emit_write(b, OC_ROLE_WORK, b->work, 1, oc_step_scratch());
    oc_step_writes_grad(b, g, block, micro);
}

static void scale_rows(build *b, uint32_t micro) {
    const oc_model *m = b->spec->model;
    oc_emit_begin(b, OC_OP_BACKWARD, OC_LANE_COMPUTE, OC_BODY_SCALE_ROWS, (uint32_t)m->first_table,
                  micro);
    oc_emit_if_live(b, micro);
    oc_emit_op(b);
    oc_emit_access(b, OC_ROLE_D, OC_FOLD, b->ds[micro], 0, 1, oc_step_d_value(0, micro),
                   oc_row_gradient(m, micro));
}

/* The gradients of the embedding's and the positions' rows leave as rows. */
static void embed_backward(build *b, uint32_t micro) {
    const oc_build_spec *s = b->spec;
    const oc_model *m = s->model;
    oc_buffer_id d = b->ds[micro];
    bool rows = oc_build_trains_rows(s), positions = oc_build_trains_positions(s);
    if (positions && b->dpositions != b->drows) oc_grads_retire_rows(b, micro, d, true);
    if (m->front_block >= 0) {
        if (rows || oc_build_trains_front(s)) front_backward(b, micro);
        d = b->front_drows;
    } else if (rows && oc_build_rows_differ(m)) {
        scale_rows(b, micro);
    }
    if (rows || (positions && b->dpositions == b->drows)) oc_grads_retire_rows(b, micro, d, false);
}

/* Whether a backward has to reach so far down: something there or below is trained. */
static bool reaches(const build *b, uint32_t layer) { return (int32_t)layer >= b->lowest; }

static bool reaches_final(const build *b) {
    const oc_build_spec *s = b->spec;
    uint32_t final = (uint32_t)s->model->final_norm_block;
    return oc_build_trains(s, final) || b->lowest < s->model->n_layers;
}

static bool reaches_rows(const build *b) {
    const oc_build_spec *s = b->spec;
    return oc_build_trains_rows(s) || oc_build_trains_positions(s) || oc_build_trains_front(s);
}

static void head_backward_group(build *b, uint32_t lo, uint32_t hi) {
    const oc_model *m = b->spec->model;
    for (uint32_t c = (uint32_t)m->n_head; c-- > 0;)
        for (uint32_t a = lo; a < hi; a++)
            head_backward(b, (uint32_t)m->first_head + c, a);
    for (uint32_t a = lo; a < hi && reaches_final(b); a++)
        final_backward(b, a);
}

/* Layer by layer: the backward of micro-batches [lo, hi), if any, and the forward of [next, end).
 */
static void layers(build *b, uint32_t lo, uint32_t hi, uint32_t next, uint32_t end) {
    uint32_t n = (uint32_t)b->spec->model->n_layers;
    for (uint32_t l = 0; l < n; l++) {
        for (uint32_t a = lo; a < hi && reaches(b, n - 1 - l); a++)
            oc_layer_backward(b, n - 1 - l, a);
        for (uint32_t a = next; a < end; a++)
            oc_layer_forward(b, l, a);
    }
    for (uint32_t a = lo; a < hi && reaches_rows(b); a++)
        embed_backward(b, a);
}

static void forward(build *b, uint32_t lo, uint32_t hi) {
    begin_group(b, lo, hi);
    layers(b, 0, 0, lo, hi);
}

/* The backward of [lo, hi) beside the forward of [next, end), and what its gradients become. */
static void backward(build *b, uint32_t lo, uint32_t hi, uint32_t next, uint32_t end) {
    fetch_scale(b);
    head_backward_group(b, lo, hi);
    if (next < end) begin_group(b, next, end);
    layers(b, lo, hi, next, end);
    oc_grads_fold_rows(b);
    oc_grads_fold_loss(b);
}

void oc_step_ops(build *b) {
    uint32_t n = b->micros, p = b->kind.parity, other = 1 - p;
    switch (b->kind.part) {
    case PART_STEP:
        oc_grads_begin_early(b);
        /* fall through */
    case PART_GROUP:
        forward(b, 0, n);
        head_forward_group(b, 0, n);
        backward(b, 0, n, 0, 0);
        if (b->kind.part == PART_STEP) oc_grads_end_step(b);
        break;
    case PART_OPEN:
        forward(b, 0, 1);
        break;
    case PART_TURN:
    case PART_CLOSE:
        head_forward_group(b, p, p + 1);
        backward(b, p, p + 1, other, b->kind.part == PART_TURN ? other + 1 : other);
        break;
    case PART_UPDATE:
        oc_grads_end_step(b);
        break;
    case PART_PASS:
        forward(b, 0, n);
        oc_pass_head(b);
        break;
    case PART_EVAL:
        forward(b, 0, n);
        head_forward_group(b, 0, n);
        break;
    }
}
