/* emit.c - one op and its accesses; the values that ops of a step speak of. */
#include "build/internal.h"

#include "base/checked.h"

#include <stddef.h>
#include <string.h>

static const oc_value none = {0};

/* ---- values ---- */

oc_format oc_build_format(oc_dtype t) {
    return t == OC_F32 ? OC_FORMAT_F32 : t == OC_BF16 ? OC_FORMAT_BF16 : OC_FORMAT_F16;
}

oc_value oc_value_of(oc_what what, uint32_t block, uint32_t micro, uint32_t stage) {
    return (oc_value){
        .block = block, .what = (uint16_t)what, .micro = (uint16_t)micro, .stage = (uint16_t)stage};
}

oc_value oc_state_value(const oc_build_spec *s, oc_what what, uint32_t block, uint32_t piece) {
    bool weight = what == OC_V_WEIGHT;
    if (weight && !oc_build_trains(s, block)) what = OC_V_FROZEN;
    oc_value v = oc_value_of(what, block, 0, 0);
    v.piece = piece;
    v.format = (uint16_t)(weight ? oc_build_format(s->dtype) : OC_FORMAT_F32);
    return v;
}

oc_value oc_grad_raw(const oc_build_spec *s, uint32_t block, uint32_t micro, uint32_t piece) {
    oc_value v = oc_value_of(OC_V_GRAD, block, micro, OC_STAGE_RAW);
    v.piece = piece;
    v.format = (uint16_t)oc_build_format(s->dtype);
    return v;
}

oc_value oc_grad_home(const oc_build_spec *s, uint32_t block, uint32_t stage, uint32_t piece) {
    oc_value v = oc_value_of(OC_V_GRAD, block, 0, stage);
    v.piece = piece;
    v.format = (uint16_t)oc_build_format(oc_build_grad_dtype(s, (int32_t)block));
    return v;
}

/* ---- ops ---- */

void oc_emit_begin(build *b, oc_op_kind kind, oc_lane lane, oc_body_id body, uint32_t block,
                   uint32_t micro) {
    b->op = (oc_op){.kind = (uint16_t)kind,
                    .lane = (uint16_t)lane,
                    .body = (uint16_t)body,
                    .micro = (uint16_t)micro,
                    .block = block,
                    .piece = UINT32_MAX,
                    .pieces = 1,
                    .blocks = 1,
                    .pred = OC_NO_BUFFER,
                    .index = OC_NO_BUFFER};
}

void oc_emit_run(build *b, uint32_t piece, uint32_t pieces) {
    b->op.piece = piece;
    b->op.pieces = pieces;
}

void oc_emit_pred(build *b, oc_buffer_id cell, uint32_t at) {
    b->op.pred = cell;
    b->op.pred_index = at;
}

void oc_emit_if_live(build *b, uint32_t micro) {
    if (micro < b->kind.pred_from) return;
    oc_emit_pred(b, b->ids->control, (uint32_t)(offsetof(oc_control_cell, live) / 4) + micro);
}

/* What the op's demand is now beyond what it was. */
static void count_work(build *b, oc_demand was) {
    const oc_op *op = &b->op;
    bool computes =
        op->kind == OC_OP_FORWARD || op->kind == OC_OP_BACKWARD || op->kind == OC_OP_LOSS;
    if (computes)
        b->lanes[op->lane].flops += op->demand.flops - was.flops;
    else
        b->lanes[op->lane].bytes += (double)(op->demand.bytes - was.bytes);
}

void oc_emit_op(build *b) {
    if (oc_dry(b)) return;
    b->n_ops++;
    b->op.demand = oc_demand_of_op(b->spec, &b->op);
    count_work(b, (oc_demand){0});
    if (!b->counting) oc_plan_op(b->pb, &b->op);
    if (b->op.pred == b->ids->control && b->op.pred != OC_NO_BUFFER)
        oc_emit_cell(b, OC_ROLE_CELLS_IN, b->op.pred);
}

void oc_emit_access(build *b, oc_role role, oc_access_mode mode, oc_buffer_id buffer,
                    uint32_t first, uint32_t count, oc_value value, oc_value result) {
    if (oc_dry(b)) return;
    b->n_accesses++;
    oc_access a = {.buffer = buffer,
                   .first = first,
                   .count = count,
                   .mode = (uint8_t)mode,
                   .role = (uint8_t)role,
                   .value = value};
    oc_demand was = b->op.demand;
    oc_demand_add_access(b, &b->op, &a);
    count_work(b, was);
    if (b->counting) return;
    oc_plan_access(b->pb, role, mode, buffer, first, count, value, result);
    oc_plan_demand(b->pb, b->op.demand);
}

void oc_emit_read(build *b, oc_role role, oc_buffer_id buffer, uint32_t count, oc_value v) {
    oc_emit_access(b, role, OC_READ, buffer, 0, count, v, none);
}

void oc_emit_write(build *b, oc_role role, oc_buffer_id buffer, uint32_t count, oc_value v) {
    oc_emit_access(b, role, OC_WRITE, buffer, 0, count, v, none);
}

void oc_emit_cell(build *b, oc_role role, oc_buffer_id cell) {
    if (!oc_dry(b))
        oc_emit_read(b, role, cell, UINT32_MAX, oc_plan_buffer_at(b->pb, cell)->initial);
}

emit_count oc_emit_count(const build *b) {
    emit_count c = {.ops = b->n_ops, .accesses = b->n_accesses};
    memcpy(c.work, b->lanes, sizeof c.work);
    return c;
}

void oc_emit_times(build *b, emit_count before, uint64_t times, double work) {
    if (!b->counting) return;
    for (int l = 0; l < OC_LANE_COUNT; l++) {
        oc_work *now = &b->lanes[l], was = before.work[l];
        now->bytes = was.bytes + (now->bytes - was.bytes) * work;
        now->flops = was.flops + (now->flops - was.flops) * work;
    }
    b->n_ops = before.ops + (b->n_ops - before.ops) * times;
    b->n_accesses = before.accesses + (b->n_accesses - before.accesses) * times;
}
