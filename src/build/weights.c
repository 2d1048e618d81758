/* weights.c - weights from their homes, through slots where these are away from the device. */
#include "build/internal.h"

#include "base/checked.h"

static const oc_value none = {0};

/* ---- sizes of slots ---- */

/* Blocks that a compute op reads whole; rows of an embedding are looked up at home. */
static bool passes(const oc_build_spec *s, uint32_t block) {
    oc_block_kind kind = s->model->blocks[block].kind;
    bool rows = kind == OC_BLOCK_POSITION || (kind == OC_BLOCK_TABLE && !s->model->tied);
    return !rows && oc_build_streams(s, block);
}

uint64_t oc_weights_largest(const oc_build_spec *s) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < (uint32_t)s->model->n_blocks; i++)
        if (passes(s, i)) most = oc_max_u64(most, s->model->blocks[i].elements);
    return most;
}

/* Each class is for blocks of at most an eighth of the one before. */
int oc_weights_class(const build *b, uint32_t block) {
    uint64_t most = b->largest_moved / 8, elements = b->spec->model->blocks[block].elements;
    int k = 0;
    for (; k + 1 < SIZE_CLASSES && elements <= most; k++)
        most /= 8;
    return k;
}

int32_t oc_weights_slots(const build *b, int size_class, uint64_t *elements) {
    const oc_build_spec *s = b->spec;
    int32_t n = 0;
    *elements = 0;
    for (uint32_t i = 0; i < (uint32_t)s->model->n_blocks; i++) {
        if (!passes(s, i) || oc_weights_class(b, i) != size_class) continue;
        *elements = oc_max_u64(*elements, s->model->blocks[i].elements);
        n++;
    }
    return size_class > 0 && n < s->place.slots ? n : n ? s->place.slots : 0;
}

/* ---- fetches ---- */

/* Pieces that the transfer from piece k on covers: of a layer no more than the part there needs, so
 * that its arithmetic starts when its own weights are there. */
static uint32_t transfer(const build *b, uint32_t block, uint32_t pieces, uint32_t k,
                         uint32_t run) {
    uint32_t end = (uint32_t)oc_min_u64(k + run, pieces);
    bool layer = b->spec->model->blocks[block].kind == OC_BLOCK_LAYER;
    for (int p = 0; p < OC_PART_COUNT && layer; p++) {
        uint32_t behind = b->parts[p].first + b->parts[p].count;
        if (behind > k && behind < end) end = behind;
    }
    return end - k;
}

static void fetch(build *b, uint32_t block, oc_buffer_id to) {
    const oc_build_spec *s = b->spec;
    uint32_t pieces = oc_build_pieces(s, block), run = oc_build_fetch_run(s);
    if (oc_dry(b)) return;
    for (uint32_t k = 0, n; k < pieces; k += n) {
        n = transfer(b, block, pieces, k, run);
        oc_route_pieces(b, &(state_move){.value = oc_state_value(s, OC_V_WEIGHT, block, k),
                                         .pieces = n,
                                         .from = b->ids->weight[block],
                                         .from_piece = k,
                                         .to = to,
                                         .to_piece = k,
                                         .micro = -1});
    }
}

/* The buffer a block's weights can be computed from; fetches them if need be. */
oc_buffer_id oc_weights_use(build *b, uint32_t block) {
    if (!oc_build_streams(b->spec, block)) return b->ids->weight[block];
    slot_pool *w = &b->weights[oc_weights_class(b, block)];
    bool there;
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

/* Of a layer: the pieces that a part computes from. */
void oc_weights_read_part(build *b, uint32_t block, oc_part p, oc_buffer_id at) {
    piece_run r = b->parts[p];
    if (r.count == 0) return;
    oc_emit_access(b, OC_ROLE_WEIGHT, OC_READ, at, r.first, r.count,
                   oc_state_value(b->spec, OC_V_WEIGHT, block, r.first), none);
}
