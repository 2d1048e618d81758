/* step.c - the ops of a plan: forward and backward of its micro-batches, block by block. */
#include "build/internal.h"

static const oc_value none = {0};

static oc_value scratch(void) { return oc_value_of(OC_V_SCRATCH, 0, 0, 0); }
static oc_value batch_value(uint32_t micro) { return oc_value_of(OC_V_BATCH, 0, micro, 0); }

/* ---- cells on the device ---- */

/* On a device of its own the batch is read from a copy there. */
static oc_buffer_id batch_at(const build *b) {
    return oc_build_away(b) ? b->batch_copy : b->ids->batch;
}

static void reads_batch(build *b, uint32_t micro) {
    oc_emit_access(b, OC_ROLE_BATCH, OC_READ, batch_at(b), micro, 1, batch_value(micro), none);
}

static void fetch_batch(build *b, uint32_t micro) {
    if (!oc_build_away(b)) return;
    uint64_t bytes = oc_dry(b) ? 0 : oc_plan_buffer_at(b->pb, b->ids->batch)->piece_bytes;
    oc_emit_copy(b, OC_OP_FETCH, OC_LANE_H2D, b->ids->batch, micro, b->batch_copy, micro, bytes,
                 batch_value(micro), (int32_t)micro);
}

static oc_value carry_value(void) { return oc_value_of(OC_V_CARRY, 0, 0, 0); }

static void fetch_scale(build *b) {
    if (!oc_build_away(b)) return;
    oc_emit_copy(b, OC_OP_FETCH, OC_LANE_H2D, b->ids->carry, 0, b->scale_copy, 0, sizeof(float),
                 carry_value(), -1);
}

static void reads_table(build *b) {
    if (b->ids->table != OC_NO_BUFFER) oc_emit_cell(b, OC_ROLE_TABLE, b->ids->table);
}

/* ---- embedding ---- */

/* Rows come from homes: where these are away from the device, its link reads them by the batch that
 * lies beside them. */
static void fetch_rows(build *b, uint32_t micro, uint32_t block, uint32_t blocks, oc_buffer_id to) {
    bool resident = b->spec->place.resident;
    oc_buffer_id index = resident ? batch_at(b) : b->ids->batch;
    oc_emit_begin(b, OC_OP_FETCH_ROWS, resident ? OC_LANE_COMPUTE : OC_LANE_H2D, OC_BODY_FETCH_ROWS,
                  block, micro);
    b->op.blocks = blocks;
    b->op.index = index;
    bool positions = b->spec->model->blocks[block].kind == OC_BLOCK_POSITION;
    b->op.demand.bytes = positions ? b->spec->sizes.act_bytes : b->spec->sizes.row_bytes;
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
    if (front) oc_emit_write(b, OC_ROLE_WORK, b->work, 1, scratch());
    oc_acts_retire(b, 0, micro, out);
}

/* ---- forward ---- */

static bool keeps(const build *b, uint32_t layer) {
    bool trains = b->kind.part != PART_EVAL;
    return trains && (int32_t)layer >= b->spec->model->n_layers - b->spec->place.kept_layers;
}

static oc_buffer_id save_of(const build *b, uint32_t layer, uint32_t micro) {
    uint32_t kept = (uint32_t)b->spec->place.kept_layers;
    return b->saves[micro * kept + layer - ((uint32_t)b->spec->model->n_layers - kept)];
}

static oc_value save_value(uint32_t layer, uint32_t micro) {
    return oc_value_of(OC_V_SAVE, layer, micro, 0);
}

static void layer_forward(build *b, uint32_t layer, uint32_t micro) {
    uint32_t block = (uint32_t)b->spec->model->first_layer + layer;
    oc_buffer_id w = oc_weights_use(b, block);
    oc_buffer_id in = oc_acts_use(b, layer, micro);
    oc_buffer_id out = oc_acts_make(b, layer + 1, micro);
    oc_emit_begin(b, OC_OP_FORWARD, OC_LANE_COMPUTE, OC_BODY_LAYER_FORWARD, block, micro);
    b->op.demand.flops = b->spec->sizes.layer_flops;
    oc_emit_if_live(b, micro);
    oc_emit_op(b);
    oc_weights_read(b, block, w);
    oc_emit_read(b, OC_ROLE_IN, in, 1, oc_act_value(layer, micro));
    reads_batch(b, micro);
    reads_table(b);
    oc_emit_write(b, OC_ROLE_OUT, out, 1, oc_act_value(layer + 1, micro));
    if (keeps(b, layer))
        oc_emit_write(b, OC_ROLE_SAVE, save_of(b, layer, micro), 1, save_value(layer, micro));
    else
        oc_emit_write(b, OC_ROLE_SAVE, b->save_scratch, 1, scratch());
    oc_emit_write(b, OC_ROLE_WORK, b->work, 1, scratch());
    oc_acts_retire(b, layer + 1, micro, out);
}

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

static void head_forward(build *b, uint32_t block, uint32_t micro) {
    oc_buffer_id w = oc_weights_use(b, block);
    oc_emit_begin(b, OC_OP_FORWARD, OC_LANE_COMPUTE, OC_BODY_HEAD_FORWARD, block, micro);
    b->op.demand.flops = b->spec->sizes.head_row_flops * (double)b->spec->model->blocks[block].rows;
    oc_emit_if_live(b, micro);
    oc_emit_op(b);
    oc_weights_read(b, block, w);
    reads_batch(b, micro);
    fold_state(b, micro);
    oc_emit_write(b, OC_ROLE_WORK, b->head_work, 1, scratch());
}

/* Where the session and the step's sum read it. */
static void loss(build *b, uint32_t micro) {
    bool away = oc_build_away(b);
    oc_buffer_id to = away ? b->losses_copy : b->ids->losses;
    oc_value v = oc_value_of(OC_V_LOSSES, 0, micro, 1);
    oc_emit_begin(b, OC_OP_LOSS, OC_LANE_COMPUTE, OC_BODY_LOSS, 0, micro);
    oc_emit_if_live(b, micro);
    oc_emit_op(b);
    reads_batch(b, micro);
    fold_state(b, micro);
    oc_emit_access(b, OC_ROLE_CELLS_OUT, OC_WRITE, to, micro, 1, v, none);
    if (away)
        oc_emit_copy(b, OC_OP_RETIRE, OC_LANE_D2H, to, micro, b->ids->losses, micro, 8, v,
                     (int32_t)micro);
}

static void begin_group(build *b, uint32_t lo, uint32_t hi) {
    for (uint32_t a = lo; a < hi; a++)
        fetch_batch(b, a);
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

static void writes_grad(build *b, oc_buffer_id g, uint32_t block, uint32_t micro) {
    oc_emit_write(b, OC_ROLE_GRAD_OUT, g, oc_build_pieces(b->spec, block),
                  oc_grad_raw(b->spec, block, micro, 0));
    oc_grads_settle(b, block, micro, g);
}

static void head_backward(build *b, uint32_t block, uint32_t micro) {
    oc_buffer_id w = oc_weights_use(b, block);
    oc_buffer_id g = oc_grads_make(b, block, micro);
    oc_emit_begin(b, OC_OP_BACKWARD, OC_LANE_COMPUTE, OC_BODY_HEAD_BACKWARD, block, micro);
    b->op.demand.flops =
        3 * b->spec->sizes.head_row_flops * (double)b->spec->model->blocks[block].rows;
    oc_emit_if_live(b, micro);
    oc_emit_op(b);
    oc_weights_read(b, block, w);
    reads_batch(b, micro);
    reads_scale(b);
    fold_state(b, micro);
    oc_emit_write(b, OC_ROLE_WORK, b->head_work, 1, scratch());
    writes_grad(b, g, block, micro);
}

static oc_value d_value(uint32_t layer, uint32_t micro) {
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
    oc_emit_write(b, OC_ROLE_D, b->ds[micro], 1, d_value(layers, micro));
    writes_grad(b, g, block, micro);
}

static void layer_backward(build *b, uint32_t layer, uint32_t micro) {
    uint32_t block = (uint32_t)b->spec->model->first_layer + layer;
    bool kept = keeps(b, layer);
    oc_buffer_id w = oc_weights_use(b, block);
    oc_buffer_id in = oc_acts_use(b, layer, micro);
    oc_buffer_id g = oc_grads_make(b, block, micro);
    oc_emit_begin(b, OC_OP_BACKWARD, OC_LANE_COMPUTE,
                  kept ? OC_BODY_LAYER_BACKWARD : OC_BODY_LAYER_RECOMPUTE, block, micro);
    b->op.demand.flops = (kept ? 2 : 3) * b->spec->sizes.layer_flops;
    oc_emit_if_live(b, micro);
    oc_emit_op(b);
    oc_weights_read(b, block, w);
    oc_emit_read(b, OC_ROLE_IN, in, 1, oc_act_value(layer, micro));
    reads_batch(b, micro);
    reads_table(b);
    oc_emit_access(b, OC_ROLE_D, OC_FOLD, b->ds[micro], 0, 1, d_value(layer + 1, micro),
                   d_value(layer, micro));
    if (kept)
        oc_emit_access(b, OC_ROLE_SAVE, OC_FOLD, save_of(b, layer, micro), 0, 1,
                       save_value(layer, micro), scratch());
    else
        oc_emit_write(b, OC_ROLE_SAVE, b->save_scratch, 1, scratch());
    oc_emit_write(b, OC_ROLE_WORK, b->work, 1, scratch());
    writes_grad(b, g, block, micro);
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
    oc_emit_read(b, OC_ROLE_D, b->ds[micro], 1, d_value(0, micro));
    oc_emit_write(b, OC_ROLE_OUT, b->front_drows, 1, oc_row_gradient(b->spec->model, micro));
    oc_emit_write(b, OC_ROLE_WORK, b->work, 1, scratch());
    writes_grad(b, g, block, micro);
}

static void scale_rows(build *b, uint32_t micro) {
    const oc_model *m = b->spec->model;
    oc_emit_begin(b, OC_OP_BACKWARD, OC_LANE_COMPUTE, OC_BODY_SCALE_ROWS, (uint32_t)m->first_table,
                  micro);
    oc_emit_if_live(b, micro);
    oc_emit_op(b);
    oc_emit_access(b, OC_ROLE_D, OC_FOLD, b->ds[micro], 0, 1, d_value(0, micro),
                   oc_row_gradient(m, micro));
}

/* The gradients of the embedding's and the positions' rows leave as rows. */
static void embed_backward(build *b, uint32_t micro) {
    const oc_model *m = b->spec->model;
    oc_buffer_id d = b->ds[micro];
    if (b->dpositions != b->drows) oc_grads_retire_rows(b, micro, d, true);
    if (m->front_block >= 0) {
        front_backward(b, micro);
        d = b->front_drows;
    } else if (oc_build_rows_differ(m)) {
        scale_rows(b, micro);
    }
    oc_grads_retire_rows(b, micro, d, false);
}

static void head_backward_group(build *b, uint32_t lo, uint32_t hi) {
    const oc_model *m = b->spec->model;
    for (uint32_t c = (uint32_t)m->n_head; c-- > 0;)
        for (uint32_t a = lo; a < hi; a++)
            head_backward(b, (uint32_t)m->first_head + c, a);
    for (uint32_t a = lo; a < hi; a++)
        final_backward(b, a);
}

/* Layer by layer: the backward of micro-batches [lo, hi), if any, and the forward of [next, end).
 */
static void layers(build *b, uint32_t lo, uint32_t hi, uint32_t next, uint32_t end) {
    uint32_t n = (uint32_t)b->spec->model->n_layers;
    for (uint32_t l = 0; l < n; l++) {
        for (uint32_t a = lo; a < hi; a++)
            layer_backward(b, n - 1 - l, a);
        for (uint32_t a = next; a < end; a++)
            layer_forward(b, l, a);
    }
    for (uint32_t a = lo; a < hi; a++)
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
    case PART_EVAL:
        forward(b, 0, n);
        head_forward_group(b, 0, n);
        break;
    }
}
