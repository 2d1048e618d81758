/* verify_ops.c - an op alone: the accesses that its body cannot do without, their pieces, sizes and
 * values, its predicate. */
#include "plan/verify.h"

#include "base/checked.h"

const oc_signature *oc_verify_signature(const oc_verifier *v, const oc_op *op) {
    if (op->body >= OC_MAX_BODIES || !v->s->has_signature[op->body]) return NULL;
    return &v->s->signatures[op->body];
}

uint64_t oc_verify_bytes(const oc_verifier *v, const oc_access *a) {
    const oc_buffer *b = &v->s->buffers[a->buffer];
    uint64_t from = a->first * b->piece_bytes;
    return oc_min_u64((uint64_t)(a->first + a->count) * b->piece_bytes, b->bytes) - from;
}

static uint32_t pieces_of(const oc_verifier *v, uint32_t block) {
    if (block >= v->s->n_blocks || v->s->piece_elements == 0) return 0;
    return (uint32_t)oc_ceil_div(v->s->blocks[block].elements, v->s->piece_elements);
}

/* ---- ranges ---- */

/* A block's chunk of many: all its pieces, wherever they lie. */
static bool names_block(const oc_verifier *v, const oc_access *a, uint32_t block) {
    return a->value.block == block && a->count == v->s->buffers[a->buffer].pieces;
}

/* Past blocks that have no gradient, where it is these that an op is about. */
static uint32_t skip_frozen(const oc_verifier *v, const oc_signature *g, uint32_t role,
                            uint32_t next, uint32_t end) {
    if (g->what[role] != OC_V_PARTIALS) return next;
    while (next < end && next < v->s->n_blocks && v->s->blocks[next].frozen)
        next++;
    return next;
}

/* Once for each of the op's blocks, in their order. */
static oc_status check_many(const oc_verifier *v, const oc_plan *p, const oc_op *op,
                            const oc_signature *g, uint32_t role) {
    uint32_t end = op->block + op->blocks, next = skip_frozen(v, g, role, op->block, end);
    for (uint32_t k = 0; k < op->n_accesses; k++) {
        const oc_access *a = &p->accesses[op->first_access + k];
        if (a->role != role) continue;
        if (next == end || !names_block(v, a, next))
            return oc_verify_refuse(v, p, op, a, "is not of the op's next block");
        next = skip_frozen(v, g, role, next + 1, end);
    }
    if (next == end) return OC_OK;
    return oc_verify_refuse(v, p, op, NULL, "lacks an access for one of its blocks");
}

/* All pieces of the block, from the first. */
static bool is_whole(const oc_verifier *v, const oc_op *op, const oc_access *a) {
    return a->first == 0 && a->value.piece == 0 && a->count == pieces_of(v, op->block);
}

/* Those pieces of the block, where they stand in it. */
static bool is_part(const oc_access *a, const oc_signature *g) {
    return a->first == g->part_first && a->value.piece == g->part_first &&
           a->count == g->part_count;
}

static bool is_run(const oc_op *op, const oc_access *a) {
    return op->piece == UINT32_MAX || (a->value.piece == op->piece && a->count == op->pieces);
}

static bool is_state(const oc_value *x) {
    return x->what == OC_V_WEIGHT || x->what == OC_V_FROZEN || x->what == OC_V_GRAD ||
           x->what == OC_V_MASTER || x->what == OC_V_M || x->what == OC_V_V;
}

/* Frozen weights serve as well as others. */
static bool is_kind(uint16_t wanted, uint16_t what) {
    if (wanted == OC_V_WEIGHT && what == OC_V_FROZEN) return true;
    return wanted == OC_V_NONE || what == wanted;
}

/* The pieces and the value an access must name. */
static oc_status check_range(const oc_verifier *v, const oc_plan *p, const oc_op *op,
                             const oc_access *a, const oc_signature *g) {
    uint32_t bit = 1u << a->role;
    const char *why = NULL;
    if ((g->whole & bit) && !is_whole(v, op, a)) why = "does not name the whole block";
    if ((g->part & bit) && !is_part(a, g)) why = "does not name the part's pieces";
    if ((g->full & bit) && (a->first || a->count != v->s->buffers[a->buffer].pieces))
        why = "does not name the whole buffer";
    if (((g->single | g->run) & bit) && !is_run(op, a)) why = "does not name the op's pieces";
    if ((g->single & bit) && op->piece != UINT32_MAX && a->first != op->piece)
        why = "does not lie where the op's pieces are";
    if ((g->own_block & bit) && a->value.block != op->block) why = "names a value of another block";
    if ((g->own_micro & bit) && a->value.micro != op->micro)
        why = "names a value of another micro-batch";
    if ((g->own_micro & bit) && a->count != 1 && !is_state(&a->value))
        why = "spans more than the micro-batch's piece";
    if (!is_kind(g->what[a->role], a->value.what)) why = "names another kind of value";
    if (oc_verify_bytes(v, a) < g->bytes[a->role]) why = "has no room for what the body does";
    return why ? oc_verify_refuse(v, p, op, a, why) : OC_OK;
}

/* ---- sizes of values ---- */

/* Pieces of a state are as long as the block, the piece and the format say, and lie one behind the
 * other. */
static oc_status check_size(const oc_verifier *v, const oc_plan *p, const oc_op *op,
                            const oc_access *a) {
    const oc_value *x = &a->value;
    if (!is_state(x) || v->s->piece_elements == 0) return OC_OK;
    uint64_t bits = oc_format_bits((oc_format)x->format), piece = v->s->piece_elements;
    if (bits == 0) return oc_verify_refuse(v, p, op, a, "names a state without its format");
    uint32_t all = pieces_of(v, x->block);
    if (x->piece >= all || a->count > all - x->piece)
        return oc_verify_refuse(v, p, op, a, "names pieces that the block does not have");
    uint64_t first = x->piece * piece;
    uint64_t end = oc_min_u64((x->piece + a->count) * piece, v->s->blocks[x->block].elements);
    if (oc_verify_bytes(v, a) < (end - first) * bits / 8)
        return oc_verify_refuse(v, p, op, a, "has no room for the value");
    if (a->count > 1 && v->s->buffers[a->buffer].piece_bytes != piece * bits / 8)
        return oc_verify_refuse(v, p, op, a, "has pieces of another size than the value's");
    return OC_OK;
}

/* ---- predicates and cells ---- */

static oc_status check_pred(const oc_verifier *v, const oc_plan *p, const oc_op *op,
                            const oc_signature *g) {
    bool has = op->pred != OC_NO_BUFFER, wants = false, may_die = op->micro >= p->pred_from;
    uint32_t index = g->pred_base;
    switch (g->pred) {
    case OC_PRED_ANY:
        return OC_OK;
    case OC_PRED_NEVER:
        break;
    case OC_PRED_ALWAYS:
        wants = true;
        break;
    case OC_PRED_MICRO:
    case OC_PRED_MICRO_MAY:
        wants = may_die && (has || g->pred == OC_PRED_MICRO);
        index += op->micro;
        break;
    }
    if (has != wants)
        return oc_verify_refuse(v, p, op, NULL, has ? "has a predicate" : "has no predicate");
    if (has && (op->pred != g->pred_buffer || op->pred_index != index))
        return oc_verify_refuse(v, p, op, NULL, "has another predicate than its own");
    return OC_OK;
}

/* Predicate and index are read like any other value. */
static oc_status check_cells(const oc_verifier *v, const oc_plan *p, const oc_op *op) {
    bool pred_read = op->pred == OC_NO_BUFFER, index_read = op->index == OC_NO_BUFFER;
    for (uint32_t k = 0; k < op->n_accesses; k++) {
        const oc_access *a = &p->accesses[op->first_access + k];
        if (a->buffer == op->pred && a->mode == OC_READ) pred_read = true;
        if (a->buffer == op->index && a->mode == OC_READ) index_read = true;
    }
    if (!pred_read) return oc_verify_refuse(v, p, op, NULL, "does not read its predicate");
    if (!index_read) return oc_verify_refuse(v, p, op, NULL, "does not read its index");
    return OC_OK;
}

/* ---- signatures ---- */

static oc_status check_accesses(const oc_verifier *v, const oc_plan *p, const oc_op *op,
                                const oc_signature *g) {
    uint32_t have[3] = {0, 0, 0};
    const uint32_t want[3] = {g->reads, g->writes, g->folds};
    for (uint32_t k = 0; k < op->n_accesses; k++) {
        const oc_access *a = &p->accesses[op->first_access + k];
        uint32_t bit = 1u << a->role;
        if (!((want[a->mode] | g->optional) & bit))
            return oc_verify_refuse(v, p, op, a, "not in the body's signature");
        if ((have[a->mode] & bit) && !((g->many | g->repeated) & bit))
            return oc_verify_refuse(v, p, op, a, "stands twice");
        OC_TRY(check_range(v, p, op, a, g));
        have[a->mode] |= bit;
    }
    for (int m = 0; m < 3; m++)
        if (want[m] & ~have[m])
            return oc_verify_refuse(v, p, op, NULL, "lacks an access that its body needs");
    return OC_OK;
}

static oc_status check_signature(const oc_verifier *v, const oc_plan *p, const oc_op *op) {
    const oc_signature *g = oc_verify_signature(v, op);
    if (!g) return OC_OK;
    OC_TRY(check_accesses(v, p, op, g));
    for (uint32_t r = 0; r < OC_ROLE_COUNT; r++)
        if (g->many & (1u << r)) OC_TRY(check_many(v, p, op, g, r));
    OC_TRY(check_pred(v, p, op, g));
    return check_cells(v, p, op);
}

/* ---- meaning ---- */

/* A fold makes more of what was there: the same pieces of the same block in the same form. */
static bool folds_in_place(const oc_access *a) {
    oc_value x = a->value;
    x.stage = a->result.stage;
    x.micro = a->result.micro;
    return a->value.what != OC_V_GRAD || oc_value_equal(x, a->result);
}

/* Copies keep values and fit. What is published takes the place of the version before it. */
static oc_status check_copy(const oc_verifier *v, const oc_plan *p, const oc_op *op,
                            const oc_access *src, const oc_access *dst, bool appends) {
    oc_value there = dst->value, was = dst->value;
    was.version++;
    if (op->kind == OC_OP_PUBLISH && dst->mode == OC_FOLD && oc_value_equal(was, dst->result))
        there = dst->result;
    bool same = oc_value_equal(src->value, there) && src->count == dst->count;
    if (!appends && !same) return oc_verify_refuse(v, p, op, dst, "does not hold what was read");
    if (oc_verify_bytes(v, src) < op->demand.bytes || oc_verify_bytes(v, dst) < op->demand.bytes)
        return oc_verify_refuse(v, p, op, dst, "has no room for what is moved");
    return OC_OK;
}

/* What an op's kind means for its values: an update makes the next version. */
static oc_status check_meaning(const oc_verifier *v, const oc_plan *p, const oc_op *op) {
    const oc_access *src = NULL, *dst = NULL;
    for (uint32_t k = 0; k < op->n_accesses; k++) {
        const oc_access *a = &p->accesses[op->first_access + k];
        if (a->role == OC_ROLE_SRC && a->mode == OC_READ) src = a;
        if (a->role == OC_ROLE_DST && a->mode != OC_READ) dst = a;
        if (a->mode == OC_FOLD && !folds_in_place(a))
            return oc_verify_refuse(v, p, op, a, "becomes a value of another place");
        if (op->kind != OC_OP_UPDATE || a->mode != OC_FOLD) continue;
        oc_value next = a->value;
        next.version++;
        if (a->role != OC_ROLE_GRAD && !oc_value_equal(next, a->result))
            return oc_verify_refuse(v, p, op, a, "is not the next version");
    }
    bool copies = op->kind == OC_OP_FETCH || op->kind == OC_OP_RETIRE || op->kind == OC_OP_PUBLISH;
    const oc_signature *g = oc_verify_signature(v, op);
    if (!copies || !g) return OC_OK;
    if (!src || !dst)
        return oc_verify_refuse(v, p, op, NULL, "lacks an access that its body needs");
    return check_copy(v, p, op, src, dst, g->appends);
}

/* ---- bytes ---- */

static bool share_bytes(const oc_verifier *v, const oc_access *x, const oc_access *y) {
    const oc_buffer *a = &v->s->buffers[x->buffer], *b = &v->s->buffers[y->buffer];
    uint64_t at = a->offset + x->first * a->piece_bytes, to = b->offset + y->first * b->piece_bytes;
    return a->tier == b->tier && at < to + oc_verify_bytes(v, y) && to < at + oc_verify_bytes(v, x);
}

/* Bodies do not expect that what they write is what they read, unless one access says both. */
static oc_status check_apart(const oc_verifier *v, const oc_plan *p, const oc_op *op) {
    const oc_access *a = &p->accesses[op->first_access];
    if (!oc_verify_signature(v, op)) return OC_OK;
    for (uint32_t i = 0; i < op->n_accesses; i++)
        for (uint32_t k = 0; k < op->n_accesses && a[i].mode != OC_READ; k++)
            if (k != i && share_bytes(v, &a[i], &a[k]))
                return oc_verify_refuse(v, p, op, &a[i],
                                        "shares bytes with another of its accesses");
    return OC_OK;
}

oc_status oc_verify_op(const oc_verifier *v, const oc_plan *p, const oc_op *op) {
    OC_TRY(check_signature(v, p, op));
    OC_TRY(check_apart(v, p, op));
    for (uint32_t k = 0; k < op->n_accesses; k++)
        OC_TRY(check_size(v, p, op, &p->accesses[op->first_access + k]));
    return check_meaning(v, p, op);
}
