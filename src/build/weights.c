/* weights.c - weights from their homes, through slots where these are away from the device. */
#include "build/internal.h"

#include "base/checked.h"

static const oc_value none = {0};

static void fetch(build *b, uint32_t block, oc_buffer_id to) {
    const oc_build_spec *s = b->spec;
    uint32_t pieces = oc_build_pieces(s, block), run = oc_build_fetch_run(s);
    if (oc_dry(b)) return;
    for (uint32_t k = 0; k < pieces; k += run) {
        uint32_t n = (uint32_t)oc_min_u64(run, pieces - k);
        oc_value v = oc_state_value(s, OC_V_WEIGHT, block, k);
        oc_emit_begin(b, OC_OP_FETCH, OC_LANE_H2D, OC_BODY_COPY, block, 0);
        oc_emit_run(b, k, n);
        b->op.demand.bytes = oc_build_run_bytes(b, block, k, n, oc_dtype_bytes(s->dtype));
        oc_emit_op(b);
        oc_emit_access(b, OC_ROLE_SRC, OC_READ, b->ids->weight[block], k, n, v, none);
        oc_emit_access(b, OC_ROLE_DST, OC_WRITE, to, k, n, v, none);
    }
}

static oc_buffer_id use_norm(build *b, uint32_t block) {
    if (!b->norm_there) fetch(b, block, b->norm_slot);
    b->norm_there = true;
    return b->norm_slot;
}

/* The buffer a block's weights can be computed from; fetches them if need be. */
oc_buffer_id oc_weights_use(build *b, uint32_t block) {
    slot_pool *w = &b->weights;
    bool there;
    if (b->spec->place.resident) return b->ids->weight[block];
    if ((int32_t)block == b->spec->model->final_norm_block) return use_norm(b, block);
    if (b->walk == WALK_RECORD || b->walk == WALK_AHEAD) {
        if (!oc_slots_record(w, block)) b->failed = true;
        return 0;
    }
    int32_t i = oc_slots_turn(w, block, false, &there);
    if (!there) fetch(b, block, w->slots[i]);
    return w->slots[i];
}

void oc_weights_read(build *b, uint32_t block, oc_buffer_id at) {
    oc_emit_read(b, OC_ROLE_WEIGHT, at, oc_build_pieces(b->spec, block),
                 oc_state_value(b->spec, OC_V_WEIGHT, block, 0));
}
