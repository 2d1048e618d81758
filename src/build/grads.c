/* grads.c - gradients from where a backward leaves them to the update: retire, fold, norm partials,
 * update; rows of embeddings likewise. */
#include "build/internal.h"

#include "base/checked.h"

#include <stddef.h>

static const oc_value none = {0};

/* ---- questions ---- */

static bool is_rows(const oc_model *m, uint32_t block) {
    return m->blocks[block].kind == OC_BLOCK_TABLE || m->blocks[block].kind == OC_BLOCK_POSITION;
}

/* A table chunk that the head computes with as well: dense gradients first, then rows. */
static bool is_tied(const oc_model *m, uint32_t block) {
    return m->tied && m->blocks[block].kind == OC_BLOCK_TABLE;
}

oc_dtype oc_build_grad_dtype(const oc_build_spec *s, int32_t block) {
    return is_rows(s->model, (uint32_t)block) || s->micros > 1 ? OC_F32 : s->dtype;
}

bool oc_build_has_grad_home(const oc_build_spec *s, uint32_t block) {
    return oc_build_trains(s, block) && (!s->place.early || is_tied(s->model, block));
}

/* The place of a micro-batch in the order of folds of this plan, and how many there are. */
static uint32_t turn_of(const build *b, uint32_t micro, uint32_t *of) {
    bool alone = b->kind.part == PART_TURN || b->kind.part == PART_CLOSE;
    *of = alone ? 1 : b->micros;
    return alone ? 0 : micro;
}

typedef struct fold_place {
    bool opens, closes; /* the first, the last of the step */
    uint32_t before, after;
} fold_place;

static fold_place place_of(const build *b, uint32_t block, uint32_t micro) {
    uint32_t n, i = turn_of(b, micro, &n);
    fold_place p = {.opens = b->kind.first && i == 0, .closes = b->kind.last && i + 1 == n};
    p.before = i == 0 ? OC_STAGE_SOME : OC_STAGE_LOCAL + i - 1;
    p.after = i + 1 < n                        ? OC_STAGE_LOCAL + i
              : !b->kind.last                  ? OC_STAGE_SOME
              : is_tied(b->spec->model, block) ? OC_STAGE_DENSE
                                               : OC_STAGE_ALL;
    return p;
}

/* The first micro-batch's gradient can be written straight to its home when nothing is lost by it.
 */
static bool straight(const build *b, uint32_t block, uint32_t micro) {
    return oc_build_has_grad_home(b->spec, block) && place_of(b, block, micro).opens &&
           oc_build_grad_dtype(b->spec, (int32_t)block) == b->spec->dtype;
}

/* ---- norm partials ---- */

static void partials(build *b, uint32_t block, uint32_t piece, uint32_t count) {
    bool there = oc_build_updates_there(b->spec, block);
    oc_value v = oc_value_of(OC_V_PARTIALS, block, 0, 0);
    v.piece = piece;
    oc_emit_access(b, OC_ROLE_PARTIALS, OC_WRITE,
                   there ? b->device_partials[block] : b->partials[block], piece, count, v, none);
}

/* ---- updates ---- */

static void update_state(build *b, oc_role role, oc_what what, oc_buffer_id id, uint32_t block,
                         uint32_t k) {
    if (id == OC_NO_BUFFER) return;
    oc_value was = oc_state_value(b->spec, what, block, k), next = was;
    next.version = 1;
    oc_emit_access(b, role, OC_FOLD, id, k, 1, was, next);
}

static oc_value result_value(uint32_t stage) { return oc_value_of(OC_V_RESULT, 0, 0, stage); }

void oc_grads_if_finite(build *b) {
    oc_emit_pred(b, b->ids->result, (uint32_t)(offsetof(oc_result_cell, finite) / 4));
}

void oc_grads_read_result(build *b) {
    oc_emit_read(b, OC_ROLE_CELLS_IN, b->ids->result, 1, result_value(1));
}

/* Bodies of both kinds have one for a device of its own behind them. */
static oc_body_id there_or(const build *b, uint32_t block, oc_body_id body) {
    return oc_build_updates_there(b->spec, block) ? (oc_body_id)(body + 1) : body;
}

/* In fp32 the master is the weight, unless they have different homes. */
static bool has_copy(const build *b, uint32_t block) {
    return b->ids->master[block] != b->ids->weight[block];
}

/* Where an update leaves the weights: at home, or where they are published from. */
static oc_buffer_id update_copy(build *b, uint32_t block, uint32_t k) {
    oc_buffer_id home = b->ids->weight[block];
    if (!oc_build_publishes(b->spec, block)) {
        update_state(b, OC_ROLE_COPY, OC_V_WEIGHT, home, block, k);
        return home;
    }
    oc_tier tier = oc_build_homes(b->spec, block).optimizer;
    oc_buffer_id at = b->published[b->next_published++ % PUBLISH_STAGES][tier];
    oc_value v = oc_state_value(b->spec, OC_V_WEIGHT, block, k);
    v.version = 1;
    oc_emit_write(b, OC_ROLE_COPY, at, 1, v);
    return at;
}

/* Accesses but for the gradient follow. Returns where the new weights are. */
static oc_buffer_id begin_update(build *b, oc_body_id body, uint32_t block, uint32_t k) {
    oc_emit_begin(b, OC_OP_UPDATE, oc_build_home_lane(b->spec, block), there_or(b, block, body),
                  block, 0);
    oc_emit_run(b, k, 1);
    oc_grads_if_finite(b);
    oc_emit_op(b);
    oc_grads_read_result(b);
    if (oc_build_updates_there(b->spec, block))
        oc_emit_read(b, OC_ROLE_STATE, b->scalars_copy, 1, result_value(1));
    bool copies = has_copy(b, block);
    for (int i = 0; i < STATE_ROWS; i++) {
        const state_row *r = &oc_state_rows[i];
        oc_what what = i == 0 && !copies ? OC_V_WEIGHT : r->what;
        update_state(b, r->role, what, oc_state_ids(b->ids, r)[block], block, k);
    }
    return copies ? update_copy(b, block, k) : OC_NO_BUFFER;
}

/* New weights go to their home, if the update was elsewhere. */
static void publish(build *b, uint32_t block, uint32_t k, oc_buffer_id from) {
    if (!oc_build_publishes(b->spec, block)) return;
    oc_route_publish(b, from, b->ids->weight[block], k,
                     oc_state_value(b->spec, OC_V_WEIGHT, block, k));
}

static void update(build *b, uint32_t block, uint32_t k) {
    oc_buffer_id grad = b->spec->place.early && !is_tied(b->spec->model, block)
                            ? b->row_grads
                            : b->ids->grad[block];
    oc_buffer_id at = begin_update(b, OC_BODY_UPDATE, block, k);
    oc_emit_access(b, OC_ROLE_GRAD, OC_READ, grad, k, 1,
                   oc_grad_home(b->spec, block, OC_STAGE_ALL, k), none);
    publish(b, block, k, at);
}

/* Of a block, in pieces. */
static double pieces_worth(const build *b, uint32_t block) {
    uint64_t elements = b->spec->model->blocks[block].elements;
    return (double)elements / (double)oc_min_u64(elements, b->spec->place.piece_elements);
}

static void update_block(build *b, uint32_t block) {
    if (!oc_build_trains(b->spec, block)) return;
    uint32_t pieces = oc_build_pieces(b->spec, block);
    emit_count before = oc_emit_count(b);
    for (uint32_t k = 0; k < (b->counting ? 1 : pieces); k++)
        update(b, block, k);
    oc_emit_times(b, before, pieces, pieces_worth(b, block));
}

/* From wherever the piece of the gradient lies. */
static void update_early(build *b, uint32_t block, uint32_t micro, uint32_t k, oc_buffer_id at,
                         uint32_t at_piece) {
    oc_value raw = oc_grad_raw(b->spec, block, micro, k), used = raw;
    used.stage = OC_STAGE_ALL;
    oc_buffer_id new = begin_update(b, OC_BODY_UPDATE_EARLY, block, k);
    oc_emit_access(b, OC_ROLE_GRAD, OC_FOLD, at, at_piece, 1, raw, used);
    partials(b, block, k, 1);
    publish(b, block, k, new);
}

/* What updates read, where they read it. */
static void fetch_scalars(build *b) {
    if (b->scalars_copy == OC_NO_BUFFER) return;
    oc_route_copy(b, b->ids->result, 0, b->scalars_copy, 0, sizeof(oc_update_scalars),
                  result_value(1), -1);
}

void oc_grads_begin_early(build *b) {
    oc_emit_begin(b, OC_OP_NORM, OC_LANE_OPTIM, OC_BODY_BEGIN, 0, 0);
    oc_emit_op(b);
    oc_emit_cell(b, OC_ROLE_CELLS_IN, b->ids->control);
    oc_emit_cell(b, OC_ROLE_CARRY, b->ids->carry);
    oc_emit_write(b, OC_ROLE_CELLS_OUT, b->ids->result, 1, result_value(1));
    fetch_scalars(b);
}

/* ---- dense gradients ---- */

oc_buffer_id oc_grads_make(build *b, uint32_t block, uint32_t micro) {
    if (!oc_build_trains(b->spec, block)) return OC_NO_BUFFER;
    if (!oc_build_retires(b->spec, block) && straight(b, block, micro)) return b->ids->grad[block];
    oc_buffer_id id = b->slabs[b->next_slab % (uint32_t)b->spec->place.slabs];
    b->next_slab++;
    return id;
}

/* Pieces k .. k + n - 1 to the host; returns where the first of them is then. */
static oc_buffer_id retire(build *b, uint32_t block, uint32_t micro, uint32_t k, uint32_t n,
                           oc_buffer_id from, uint32_t *at) {
    bool home = straight(b, block, micro);
    oc_value raw = oc_grad_raw(b->spec, block, micro, k);
    oc_buffer_id to = home ? b->ids->grad[block] : b->stages[b->next_stage++ % b->n_stages];
    *at = home ? k : 0;
    oc_route_pieces(b, &(state_move){.value = raw,
                                     .pieces = n,
                                     .from = from,
                                     .from_piece = k,
                                     .to = to,
                                     .to_piece = *at,
                                     .micro = (int32_t)micro});
    return to;
}

static oc_body_id fold_body(const build *b, uint32_t block, uint32_t micro, bool *finishes) {
    fold_place p = place_of(b, block, micro);
    *finishes = p.closes && !is_tied(b->spec->model, block);
    if (straight(b, block, micro)) return OC_BODY_FOLD_IN_PLACE;
    if (p.opens) return OC_BODY_FOLD_FIRST;
    return *finishes ? OC_BODY_FOLD_LAST : OC_BODY_FOLD;
}

/* One piece reaches its home. */
static void fold(build *b, uint32_t block, uint32_t micro, uint32_t k, oc_buffer_id src,
                 uint32_t src_piece) {
    const oc_build_spec *s = b->spec;
    bool finishes;
    oc_body_id body = fold_body(b, block, micro, &finishes);
    fold_place p = place_of(b, block, micro);
    oc_value raw = oc_grad_raw(s, block, micro, k), done = oc_grad_home(s, block, p.after, k);
    oc_emit_begin(b, OC_OP_FOLD, oc_build_home_lane(s, block), body, block, micro);
    oc_emit_run(b, k, 1);
    if (body == OC_BODY_FOLD) oc_emit_if_live(b, micro);
    oc_emit_op(b);
    if (body == OC_BODY_FOLD_LAST) oc_emit_cell(b, OC_ROLE_CELLS_IN, b->ids->control);
    oc_buffer_id home = b->ids->grad[block];
    if (body == OC_BODY_FOLD_IN_PLACE) {
        oc_emit_access(b, OC_ROLE_GRAD, OC_FOLD, home, k, 1, raw, done);
    } else {
        oc_emit_access(b, OC_ROLE_SRC, OC_READ, src, src_piece, 1, raw, none);
        if (p.opens)
            oc_emit_access(b, OC_ROLE_GRAD, OC_WRITE, home, k, 1, done, none);
        else
            oc_emit_access(b, OC_ROLE_GRAD, OC_FOLD, home, k, 1,
                           oc_grad_home(s, block, p.before, k), done);
    }
    if (finishes) partials(b, block, k, 1);
}

static void settle_piece(build *b, uint32_t block, uint32_t micro, uint32_t k, oc_buffer_id at,
                         uint32_t at_piece) {
    if (oc_build_has_grad_home(b->spec, block))
        fold(b, block, micro, k, at, at_piece);
    else
        update_early(b, block, micro, k, at, at_piece);
}

/* All pieces are alike: count one. */
static void count_settled(build *b, uint32_t block, uint32_t micro, uint32_t pieces, uint32_t runs,
                          oc_buffer_id from) {
    uint32_t at = 0;
    oc_buffer_id there = from;
    emit_count before = oc_emit_count(b);
    if (oc_build_retires(b->spec, block)) there = retire(b, block, micro, 0, pieces, from, &at);
    oc_emit_times(b, before, runs, 1);
    before = oc_emit_count(b);
    settle_piece(b, block, micro, 0, there, 0);
    oc_emit_times(b, before, pieces, pieces_worth(b, block));
}

void oc_grads_settle(build *b, uint32_t block, uint32_t micro, oc_buffer_id from) {
    const oc_build_spec *s = b->spec;
    uint32_t pieces = oc_build_pieces(s, block), run = oc_build_retire_run(s);
    if (b->counting) count_settled(b, block, micro, pieces, (pieces + run - 1) / run, from);
    if (b->counting || oc_dry(b)) return;
    for (uint32_t k = 0; k < pieces; k += run) {
        uint32_t n = (uint32_t)oc_min_u64(run, pieces - k), at = k;
        oc_buffer_id there = from;
        if (oc_build_retires(s, block)) there = retire(b, block, micro, k, n, from, &at);
        for (uint32_t i = 0; i < n; i++)
            settle_piece(b, block, micro, k + i, there, at + i);
    }
}

/* ---- rows ---- */

/* What the backward of the layers leaves is the gradient of position rows; that of token rows only
 * where nothing stands between them and the first layer. */
oc_value oc_position_gradient(uint32_t micro) { return oc_value_of(OC_V_DACT, 0, micro, 0); }

bool oc_build_rows_differ(const oc_model *m) {
    return m->front_block >= 0 || m->embedding_scale != 1.0f;
}

oc_value oc_row_gradient(const oc_model *m, uint32_t micro) {
    return oc_value_of(OC_V_DACT, 0, micro, oc_build_rows_differ(m) ? 1 : 0);
}

/* Rows that wait for the end of the step, as a whole: how many micro-batches' are there. */
static oc_value late_rows(uint32_t stage) { return oc_value_of(OC_V_ROWS, UINT32_MAX, 0, stage); }

static void retire_late(build *b, uint32_t micro, oc_buffer_id from, oc_buffer_id to,
                        uint64_t bytes, oc_value v) {
    fold_place p = place_of(b, 0, micro);
    uint32_t after = p.closes ? OC_STAGE_ALL : p.after;
    if (oc_dry(b)) return;
    oc_route_begin(b, OC_BODY_COPY_ROWS, from, to, 0, micro);
    b->op.index = b->ids->control;
    b->op.demand.bytes = bytes;
    oc_emit_if_live(b, micro);
    oc_emit_op(b);
    if (micro < b->kind.pred_from) oc_emit_cell(b, OC_ROLE_CELLS_IN, b->ids->control);
    oc_emit_read(b, OC_ROLE_SRC, from, 1, v);
    if (p.opens)
        oc_emit_write(b, OC_ROLE_DST, to, UINT32_MAX, late_rows(after));
    else
        oc_emit_access(b, OC_ROLE_DST, OC_FOLD, to, 0, UINT32_MAX, late_rows(p.before),
                       late_rows(after));
}

/* Rows leave the device: into the piece of the plan's micro-batch, or of the step's. */
void oc_grads_retire_rows(build *b, uint32_t micro, oc_buffer_id from, bool positions) {
    const oc_model *m = b->spec->model;
    oc_value v = positions ? oc_position_gradient(micro) : oc_row_gradient(m, micro);
    oc_buffer_id to = positions ? b->dpositions : b->drows;
    uint64_t bytes = positions ? b->position_bytes : b->row_bytes;
    if (oc_build_rows_late(b->spec)) {
        retire_late(b, micro, from, to, bytes, v);
        return;
    }
    uint32_t of, piece = turn_of(b, micro, &of);
    oc_route_copy(b, from, 0, to, piece, bytes, v, (int32_t)micro);
}

static void read_rows(build *b, bool positions) {
    oc_buffer_id from = positions ? b->dpositions : b->drows;
    if (oc_build_rows_late(b->spec)) {
        oc_emit_read(b, OC_ROLE_SRC, from, UINT32_MAX, late_rows(OC_STAGE_ALL));
        return;
    }
    bool alone = b->kind.part == PART_TURN || b->kind.part == PART_CLOSE;
    uint32_t micro = alone ? b->kind.parity : OC_EACH_MICRO;
    oc_emit_read(b, OC_ROLE_SRC, from, UINT32_MAX,
                 positions ? oc_position_gradient(micro) : oc_row_gradient(b->spec->model, micro));
}

/* The rows of the plan's (or the step's) micro-batches into one chunk of a table. */
static void fold_rows(build *b, uint32_t block) {
    const oc_build_spec *s = b->spec;
    const oc_model *m = s->model;
    /* late rows are folded once, all of the step's */
    bool tied = is_tied(m, block), first = !tied && (b->kind.first || oc_build_rows_late(s));
    bool own = !oc_build_has_grad_home(s, block);
    uint32_t pieces = oc_build_pieces(s, block);
    if (!oc_build_trains(s, block)) return;
    oc_buffer_id order = b->order_copy != OC_NO_BUFFER ? b->order_copy : b->ids->order;
    oc_buffer_id grad = own ? b->row_grads : b->ids->grad[block];
    oc_emit_begin(b, OC_OP_FOLD, oc_build_home_lane(s, block),
                  first ? OC_BODY_FOLD_ROWS_FIRST : OC_BODY_FOLD_ROWS, block, 0);
    b->op.index = order;
    oc_emit_op(b);
    read_rows(b, m->blocks[block].kind == OC_BLOCK_POSITION);
    oc_emit_read(b, OC_ROLE_BATCH, order, UINT32_MAX, oc_value_of(OC_V_ORDER, 0, 0, 0));
    oc_value after = oc_grad_home(s, block, b->kind.last ? OC_STAGE_ALL : OC_STAGE_SOME, 0);
    oc_value before = oc_grad_home(s, block, tied ? OC_STAGE_DENSE : OC_STAGE_SOME, 0);
    if (first)
        oc_emit_write(b, OC_ROLE_GRAD, grad, pieces, after);
    else
        oc_emit_access(b, OC_ROLE_GRAD, OC_FOLD, grad, 0, pieces, before, after);
    if (b->kind.last) partials(b, block, 0, pieces);
    if (own) update_block(b, block);
}

static void fetch_order(build *b) {
    if (b->order_copy == OC_NO_BUFFER) return;
    oc_route_copy(b, b->ids->order, 0, b->order_copy, 0,
                  oc_plan_buffer_at(b->pb, b->ids->order)->bytes, oc_value_of(OC_V_ORDER, 0, 0, 0),
                  -1);
}

void oc_grads_fold_rows(build *b) {
    const oc_model *m = b->spec->model;
    if (oc_dry(b) || (oc_build_rows_late(b->spec) && !b->kind.last)) return;
    fetch_order(b);
    for (uint32_t c = 0; c < (uint32_t)m->n_table; c++)
        fold_rows(b, (uint32_t)m->first_table + c);
    if (m->position_block >= 0) fold_rows(b, (uint32_t)m->position_block);
}

/* ---- the end of a step ---- */

static void retire_partials(build *b, uint32_t block) {
    if (b->device_partials[block] == OC_NO_BUFFER) return;
    oc_value v = oc_value_of(OC_V_PARTIALS, block, 0, 0);
    uint32_t pieces = oc_build_pieces(b->spec, block);
    oc_route_begin(b, OC_BODY_COPY_PARTIALS, b->device_partials[block], b->partials[block], block,
                   0);
    b->op.demand.bytes = oc_plan_buffer_at(b->pb, b->partials[block])->bytes;
    oc_emit_op(b);
    oc_emit_read(b, OC_ROLE_SRC, b->device_partials[block], pieces, v);
    oc_emit_write(b, OC_ROLE_DST, b->partials[block], pieces, v);
}

static void norm(build *b) {
    bool early = b->spec->place.early;
    uint32_t blocks = (uint32_t)b->spec->model->n_blocks;
    for (uint32_t i = 0; i < blocks; i++)
        retire_partials(b, i);
    oc_emit_begin(b, OC_OP_NORM, OC_LANE_OPTIM, early ? OC_BODY_NORM_EARLY : OC_BODY_NORM, 0, 0);
    b->op.blocks = blocks;
    oc_emit_op(b);
    for (uint32_t i = 0; i < blocks; i++)
        if (oc_build_trains(b->spec, i))
            oc_emit_read(b, OC_ROLE_PARTIALS, b->partials[i], UINT32_MAX,
                         oc_value_of(OC_V_PARTIALS, i, 0, 0));
    oc_emit_cell(b, OC_ROLE_CELLS_IN, b->ids->control);
    oc_emit_read(b, OC_ROLE_STATE, b->loss, 1, oc_value_of(OC_V_LOSS, 0, 0, OC_STAGE_ALL));
    oc_value carry = oc_value_of(OC_V_CARRY, 0, 0, 0), next = carry;
    next.version = 1;
    oc_emit_access(b, OC_ROLE_CARRY, OC_FOLD, b->ids->carry, 0, 1, carry, next);
    if (early)
        oc_emit_access(b, OC_ROLE_CELLS_OUT, OC_FOLD, b->ids->result, 0, 1, result_value(1),
                       result_value(2));
    else
        oc_emit_write(b, OC_ROLE_CELLS_OUT, b->ids->result, 1, result_value(1));
}

void oc_grads_end_step(build *b) {
    const oc_build_spec *s = b->spec;
    bool early = s->place.early;
    if (oc_dry(b)) return;
    for (uint32_t i = 0; early && i < (uint32_t)s->model->n_blocks; i++)
        if (is_tied(s->model, i)) update_block(b, i);
    norm(b);
    if (early) return;
    fetch_scalars(b);
    for (uint32_t i = 0; i < (uint32_t)s->model->n_blocks; i++)
        update_block(b, i);
}

/* The losses of the plan's micro-batches join the step's. */
void oc_grads_fold_loss(build *b) {
    bool first = b->kind.first;
    oc_value after = oc_value_of(OC_V_LOSS, 0, 0, b->kind.last ? OC_STAGE_ALL : OC_STAGE_SOME);
    oc_emit_begin(b, OC_OP_FOLD, OC_LANE_OPTIM, first ? OC_BODY_FOLD_LOSS_FIRST : OC_BODY_FOLD_LOSS,
                  0, 0);
    oc_emit_op(b);
    bool alone = b->kind.part == PART_TURN || b->kind.part == PART_CLOSE;
    uint32_t piece = alone ? b->kind.parity : 0, n = alone ? 1 : b->micros;
    oc_value v = oc_value_of(OC_V_LOSSES, 0, alone ? piece : OC_EACH_MICRO, 1);
    oc_emit_access(b, OC_ROLE_SRC, OC_READ, b->ids->losses, piece, n, v, none);
    if (first)
        oc_emit_write(b, OC_ROLE_STATE, b->loss, 1, after);
    else
        oc_emit_access(b, OC_ROLE_STATE, OC_FOLD, b->loss, 0, 1,
                       oc_value_of(OC_V_LOSS, 0, 0, OC_STAGE_SOME), after);
}
