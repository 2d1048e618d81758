/* routes.c - how bytes get from where they live to where they are used, and back. Between two tiers
 * lies a hop (its lane, its kind of op), or another tier where bytes stop over in a stage: a table.
 * The files of this room say what moves from which buffer to which, and never on which lane. */
#include "build/internal.h"

#include "base/checked.h"

typedef struct hop {
    oc_lane lane;
    oc_op_kind kind;
    bool stops; /* there is no direct way: bytes stop over on the host */
} hop;

/* From a tier (row) to a tier (column). Within a tier bytes move where its ops run. */
static const hop hops[OC_TIER_COUNT][OC_TIER_COUNT] = {
    [OC_TIER_DEVICE] = {[OC_TIER_DEVICE] = {OC_LANE_COMPUTE, OC_OP_RETIRE, false},
                        [OC_TIER_HOST] = {OC_LANE_D2H, OC_OP_RETIRE, false},
                        [OC_TIER_NVME] = {.stops = true}},
    [OC_TIER_HOST] = {[OC_TIER_DEVICE] = {OC_LANE_H2D, OC_OP_FETCH, false},
                      [OC_TIER_HOST] = {OC_LANE_COMPUTE, OC_OP_RETIRE, false},
                      [OC_TIER_NVME] = {OC_LANE_WRITE, OC_OP_RETIRE, false}},
    [OC_TIER_NVME] = {[OC_TIER_DEVICE] = {.stops = true},
                      [OC_TIER_HOST] = {OC_LANE_READ, OC_OP_FETCH, false},
                      [OC_TIER_NVME] = {.stops = true}},
};

bool oc_route_is_direct(oc_tier from, oc_tier to) { return !hops[from][to].stops; }

static const hop *hop_between(const build *b, oc_buffer_id from, oc_buffer_id to) {
    oc_tier here = oc_plan_buffer_at(b->pb, from)->tier, there = oc_plan_buffer_at(b->pb, to)->tier;
    return &hops[here][there];
}

void oc_route_begin(build *b, oc_body_id body, oc_buffer_id from, oc_buffer_id to, uint32_t block,
                    uint32_t micro) {
    const hop *h = hop_between(b, from, to);
    oc_emit_begin(b, h->kind, h->lane, body, block, micro);
}

void oc_route_copy(build *b, oc_buffer_id from, uint32_t from_piece, oc_buffer_id to,
                   uint32_t to_piece, uint64_t bytes, oc_value v, int32_t micro) {
    if (oc_dry(b)) return;
    oc_route_begin(b, OC_BODY_COPY, from, to, v.block, micro < 0 ? 0 : (uint32_t)micro);
    b->op.demand.bytes = bytes;
    if (micro >= 0) oc_emit_if_live(b, (uint32_t)micro);
    oc_emit_op(b);
    oc_emit_access(b, OC_ROLE_SRC, OC_READ, from, from_piece, 1, v, (oc_value){0});
    oc_emit_access(b, OC_ROLE_DST, OC_WRITE, to, to_piece, 1, v, (oc_value){0});
}

static void hop_pieces(build *b, const state_move *m) {
    uint32_t block = m->value.block, k = m->value.piece;
    uint64_t width = oc_format_bits((oc_format)m->value.format) / 8;
    oc_route_begin(b, OC_BODY_COPY, m->from, m->to, block, m->micro < 0 ? 0 : (uint32_t)m->micro);
    oc_emit_run(b, k, m->pieces);
    b->op.demand.bytes = oc_build_run_bytes(b, block, k, m->pieces, width);
    if (m->micro >= 0) oc_emit_if_live(b, (uint32_t)m->micro);
    oc_emit_op(b);
    oc_emit_access(b, OC_ROLE_SRC, OC_READ, m->from, m->from_piece, m->pieces, m->value,
                   (oc_value){0});
    oc_emit_access(b, OC_ROLE_DST, OC_WRITE, m->to, m->to_piece, m->pieces, m->value,
                   (oc_value){0});
}

void oc_route_pieces(build *b, const state_move *m) {
    state_move first = *m, second = *m;
    if (oc_dry(b)) return;
    if (!hop_between(b, m->from, m->to)->stops) {
        hop_pieces(b, m);
        return;
    }
    first.to = second.from = b->stops[b->next_stop++ % ROUTE_STOPS];
    first.to_piece = second.from_piece = 0;
    hop_pieces(b, &first);
    hop_pieces(b, &second);
}

/* What the update left elsewhere becomes the version at home; skipped together with the update. */
void oc_route_publish(build *b, oc_buffer_id from, oc_buffer_id to, uint32_t to_piece,
                      oc_value was) {
    oc_value next = was;
    uint64_t width = oc_format_bits((oc_format)was.format) / 8;
    next.version = 1;
    if (oc_dry(b)) return;
    oc_route_begin(b, OC_BODY_PUBLISH, from, to, was.block, 0);
    b->op.kind = OC_OP_PUBLISH;
    oc_emit_run(b, was.piece, 1);
    b->op.demand.bytes = oc_build_run_bytes(b, was.block, was.piece, 1, width);
    oc_grads_if_finite(b);
    oc_emit_op(b);
    oc_grads_read_result(b);
    oc_emit_read(b, OC_ROLE_SRC, from, 1, next);
    oc_emit_access(b, OC_ROLE_DST, OC_FOLD, to, to_piece, 1, was, next);
}
