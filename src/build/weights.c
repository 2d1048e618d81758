/* weights.c - weight slots. Layers and head chunks are used in one order by a forward and in the
 * reverse by a backward. Some blocks, spread evenly, have a slot of their own; the others take the
 * remaining slots in turn, each always the same one, neighbours different ones. So the blocks used
 * last before a turning point are there after it, and what lies in the slots at the end of a
 * micro-batch is what the next one begins with. */
#include "build/internal.h"

#include "base/checked.h"

static const oc_value none = {0};

/* Half of the slots take turns: with fewer than three the link waits whenever an op takes longer
 * than its share, and more than five gain nothing. */
static int32_t taking_turns(const oc_placement *p) {
    int32_t turns = p->slots < 8 ? p->slots / 2 + 1 : 5;
    if (p->interleave && turns % 2 && turns < p->slots) turns++; /* two streams, half each */
    return turns < p->slots ? turns : p->slots;
}

/* Blocks that pass through slots, in the order of a forward; the final norm has its own. */
static int32_t list_moved(const oc_model *m, int32_t *out) {
    int32_t n = 0;
    if (m->front_block >= 0) out[n++] = m->front_block;
    for (int32_t l = 0; l < m->n_layers; l++)
        out[n++] = m->first_layer + l;
    for (int32_t c = 0; c < m->n_head; c++)
        out[n++] = m->first_head + c;
    return n;
}

void oc_weights_place(build *b) {
    const oc_placement *p = &b->spec->place;
    weight_slots *w = &b->weights;
    if (p->resident) return;
    int32_t n = list_moved(b->spec->model, w->moved);
    int64_t turns = p->slots >= n ? 1 : taking_turns(p); /* 1: nobody takes it */
    int64_t own = p->slots >= n ? n : p->slots - turns, owners = 0, turn = 0;
    bool two = p->interleave && turns >= 2;
    int64_t ahead = two ? (turns + 1) / 2 : turns, back = two ? turns / 2 : turns;
    for (int64_t j = 0; j < n; j++) {
        bool has_own = (j + 1) * own / n > j * own / n;
        int64_t forward = has_own ? owners++ : own + turn % ahead;
        int64_t backward = has_own || !two ? forward : own + ahead + turn % back;
        if (!has_own) turn++;
        w->forward[w->moved[j]] = (int32_t)forward;
        w->backward[w->moved[j]] = (int32_t)backward;
    }
}

static void fetch(build *b, uint32_t block, oc_buffer_id to) {
    const oc_build_spec *s = b->spec;
    uint32_t pieces = oc_build_pieces(s, block), run = oc_build_fetch_run(s);
    if (b->dry) return;
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

/* The slot where a block is, or where it is to be. */
static int32_t slot_for(const weight_slots *w, uint32_t block, bool backward) {
    int32_t first = backward ? w->backward[block] : w->forward[block];
    int32_t other = backward ? w->forward[block] : w->backward[block];
    return w->content[other] == block ? other : first;
}

/* The buffer a block's weights can be computed from; fetches them if need be. */
oc_buffer_id oc_weights_use(build *b, uint32_t block, bool backward) {
    weight_slots *w = &b->weights;
    if (b->spec->place.resident) return b->ids->weight[block];
    if ((int32_t)block == b->spec->model->final_norm_block) {
        if (!w->norm_there) fetch(b, block, b->norm_slot);
        w->norm_there = true;
        return b->norm_slot;
    }
    int32_t i = slot_for(w, block, backward);
    if (w->content[i] != block) fetch(b, block, w->slots[i]);
    w->content[i] = block;
    return w->slots[i];
}

void oc_weights_read(build *b, uint32_t block, oc_buffer_id at) {
    oc_emit_read(b, OC_ROLE_WEIGHT, at, oc_build_pieces(b->spec, block),
                 oc_state_value(b->spec, OC_V_WEIGHT, block, 0));
}
