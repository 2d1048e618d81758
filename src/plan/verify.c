/* verify.c - proves a plan set right, by a method that shares nothing with derive.c.
 *
 * Values: program order is replayed; each piece holds a value, each read must find the value it
 * names. Races: per entity and lane, the number of the last write and of the last read; an access
 * must know (by lane order and waits) of every earlier conflicting one. Signatures: an op has the
 * accesses that its body cannot do without. Each ordered pair of plans is replayed too, the second
 * from the state the first leaves. */
#include "plan/internal.h"

#include "base/checked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct cell_clock {
    uint32_t write[OC_LANE_COUNT], read[OC_LANE_COUNT];
} cell_clock;

typedef struct verifier {
    const oc_plan_set *s;
    oc_entities e;
    uint32_t *value_base; /* per buffer: index of its first piece in values */
    uint32_t n_values;
    oc_value *values;
    uint64_t *conditions; /* per piece: the predicate its writer had, 0: none */
    cell_clock *cells;
    uint32_t lane_base[OC_LANE_COUNT]; /* ops of the earlier plan, per lane */
    oc_error *err;
} verifier;

typedef uint32_t clock_row[OC_LANE_COUNT];

static const char *describe(const oc_plan_set *s, const oc_plan *p, const oc_op *op, char *buf,
                            size_t n) {
    (void)s;
    (void)snprintf(buf, n, "plan %s, op %td (%s, block %u, micro-batch %u, lane %s)", p->name,
                   op - p->ops, oc_op_kind_name((oc_op_kind)op->kind), op->block, op->micro,
                   oc_lane_name((oc_lane)op->lane));
    return buf;
}

static oc_status refuse(const verifier *v, const oc_plan *p, const oc_op *op, const oc_access *a,
                        const char *why) {
    char text[160];
    describe(v->s, p, op, text, sizeof text);
    if (!a) return oc_fail(v->err, OC_E_PLAN, "%s: %s", text, why);
    return oc_fail(v->err, OC_E_PLAN, "%s: %s of %s (%s): %s", text,
                   a->mode == OC_READ    ? "read"
                   : a->mode == OC_WRITE ? "write"
                                         : "fold",
                   a->buffer < v->s->n_buffers ? v->s->buffers[a->buffer].name : "?",
                   oc_role_name((oc_role)a->role), why);
}

/* ---- shape: ranges, lanes, waits backwards ---- */

static oc_status check_shape(const verifier *v, const oc_plan *p) {
    uint32_t seen[OC_LANE_COUNT] = {0};
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const oc_op *op = &p->ops[i];
        if (op->lane >= OC_LANE_COUNT) return refuse(v, p, op, NULL, "no such lane");
        if (op->seq != seen[op->lane] + 1)
            return refuse(v, p, op, NULL, "out of order in its lane");
        if (op->first_access + op->n_accesses > p->n_accesses ||
            op->first_wait + op->n_waits > p->n_waits)
            return refuse(v, p, op, NULL, "points outside the plan");
        for (uint32_t k = 0; k < op->n_accesses; k++) {
            const oc_access *a = &p->accesses[op->first_access + k];
            if (a->buffer >= v->s->n_buffers) return refuse(v, p, op, a, "no such buffer");
            const oc_buffer *b = &v->s->buffers[a->buffer];
            if (a->count == 0 || a->first > b->pieces || a->count > b->pieces - a->first)
                return refuse(v, p, op, a, "pieces outside the buffer");
        }
        for (uint32_t k = 0; k < op->n_waits; k++) {
            const oc_wait *w = &p->waits[op->first_wait + k];
            if (w->lane >= OC_LANE_COUNT || w->seq == 0 || w->seq > seen[w->lane])
                return refuse(v, p, op, NULL, "waits for an op that does not come before it");
        }
        seen[op->lane]++;
    }
    return OC_OK;
}

static oc_status check_addresses(const verifier *v) {
    const oc_plan_set *s = v->s;
    for (uint32_t i = 0; i < s->n_buffers; i++) {
        const oc_buffer *x = &s->buffers[i];
        uint64_t copies = x->life == OC_LIFE_SUBMISSION ? 2 : 1;
        uint64_t end = x->offset + copies * oc_align_up(x->bytes, OC_PLAN_ALIGN);
        if (x->offset % OC_PLAN_ALIGN || end > s->arena_bytes[x->tier])
            return oc_fail(v->err, OC_E_PLAN, "buffer %s lies outside its arena", x->name);
        for (uint32_t j = 0; j < i; j++) {
            const oc_buffer *y = &s->buffers[j];
            if (y->tier != x->tier || (x->alias && x->alias == y->alias)) continue;
            uint64_t y_copies = y->life == OC_LIFE_SUBMISSION ? 2 : 1;
            uint64_t y_end = y->offset + y_copies * oc_align_up(y->bytes, OC_PLAN_ALIGN);
            if (x->offset < y_end && y->offset < end)
                return oc_fail(v->err, OC_E_PLAN, "buffers %s and %s share bytes", x->name,
                               y->name);
        }
    }
    return OC_OK;
}

/* ---- signatures ---- */

static oc_status check_many(const verifier *v, const oc_plan *p, const oc_op *op, uint32_t role) {
    for (uint32_t b = op->block; b < op->block + op->blocks; b++) {
        bool found = false;
        for (uint32_t k = 0; k < op->n_accesses && !found; k++) {
            const oc_access *a = &p->accesses[op->first_access + k];
            found = a->role == role && a->value.block == b &&
                    a->count == v->s->buffers[a->buffer].pieces;
        }
        if (!found) return refuse(v, p, op, NULL, "lacks an access for one of its blocks");
    }
    return OC_OK;
}

/* The pieces and the value an access must name. */
static oc_status check_range(const verifier *v, const oc_plan *p, const oc_op *op,
                             const oc_access *a, const oc_signature *g) {
    uint32_t bit = 1u << a->role;
    if ((g->whole & bit) &&
        (op->block >= v->s->n_blocks || a->first != 0 || a->count != v->s->block_pieces[op->block]))
        return refuse(v, p, op, a, "does not name the whole block");
    if ((g->full & bit) && a->count != v->s->buffers[a->buffer].pieces)
        return refuse(v, p, op, a, "does not name the whole buffer");
    if ((g->single & bit) && op->piece != UINT32_MAX && (a->first != op->piece || a->count != 1))
        return refuse(v, p, op, a, "does not name the op's piece");
    if ((g->own_block & bit) && a->value.block != op->block)
        return refuse(v, p, op, a, "names a value of another block");
    if ((g->own_micro & bit) && a->value.micro != op->micro)
        return refuse(v, p, op, a, "names a value of another micro-batch");
    return OC_OK;
}

static oc_status check_pred(const verifier *v, const oc_plan *p, const oc_op *op,
                            const oc_signature *g) {
    bool has = op->pred != OC_NO_BUFFER, wants = false;
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
        wants = op->micro > 0 && (has || g->pred == OC_PRED_MICRO);
        index += op->micro;
        break;
    }
    if (has != wants) return refuse(v, p, op, NULL, has ? "has a predicate" : "has no predicate");
    if (has && (op->pred != g->pred_buffer || op->pred_index != index))
        return refuse(v, p, op, NULL, "has another predicate than its own");
    return OC_OK;
}

/* Predicate and index are read like any other value. */
static oc_status check_cells(const verifier *v, const oc_plan *p, const oc_op *op) {
    bool pred_read = op->pred == OC_NO_BUFFER, index_read = op->index == OC_NO_BUFFER;
    for (uint32_t k = 0; k < op->n_accesses; k++) {
        const oc_access *a = &p->accesses[op->first_access + k];
        if (a->buffer == op->pred && a->mode == OC_READ) pred_read = true;
        if (a->buffer == op->index && a->mode == OC_READ) index_read = true;
    }
    if (!pred_read) return refuse(v, p, op, NULL, "does not read its predicate");
    if (!index_read) return refuse(v, p, op, NULL, "does not read its index");
    return OC_OK;
}

static const oc_signature *signature_of(const verifier *v, const oc_op *op) {
    if (op->body >= OC_MAX_BODIES || !v->s->has_signature[op->body]) return NULL;
    return &v->s->signatures[op->body];
}

static oc_status check_signature(const verifier *v, const oc_plan *p, const oc_op *op) {
    const oc_signature *g = signature_of(v, op);
    if (!g) return OC_OK;
    uint32_t have[3] = {0, 0, 0};
    const uint32_t want[3] = {g->reads, g->writes, g->folds};
    for (uint32_t k = 0; k < op->n_accesses; k++) {
        const oc_access *a = &p->accesses[op->first_access + k];
        uint32_t bit = 1u << a->role;
        if (!((want[a->mode] | g->optional) & bit))
            return refuse(v, p, op, a, "not in the body's signature");
        OC_TRY(check_range(v, p, op, a, g));
        have[a->mode] |= bit;
    }
    for (int m = 0; m < 3; m++)
        if (want[m] & ~have[m])
            return refuse(v, p, op, NULL, "lacks an access that its body needs");
    for (uint32_t r = 0; r < OC_ROLE_COUNT; r++)
        if (g->many & (1u << r)) OC_TRY(check_many(v, p, op, r));
    OC_TRY(check_pred(v, p, op, g));
    return check_cells(v, p, op);
}

static uint64_t access_bytes(const verifier *v, const oc_access *a) {
    const oc_buffer *b = &v->s->buffers[a->buffer];
    uint64_t from = a->first * b->piece_bytes;
    return oc_min_u64((a->first + a->count) * b->piece_bytes, b->bytes) - from;
}

/* Copies keep values and fit; an update makes the next version. */
static oc_status check_meaning(const verifier *v, const oc_plan *p, const oc_op *op) {
    const oc_access *src = NULL, *dst = NULL;
    for (uint32_t k = 0; k < op->n_accesses; k++) {
        const oc_access *a = &p->accesses[op->first_access + k];
        if (a->role == OC_ROLE_SRC && a->mode == OC_READ) src = a;
        if (a->role == OC_ROLE_DST && a->mode == OC_WRITE) dst = a;
        if (op->kind != OC_OP_UPDATE || a->mode != OC_FOLD) continue;
        oc_value next = a->value;
        next.version++;
        if (!oc_value_equal(next, a->result)) return refuse(v, p, op, a, "is not the next version");
    }
    bool copies = op->kind == OC_OP_FETCH || op->kind == OC_OP_RETIRE || op->kind == OC_OP_PUBLISH;
    if (!copies || !signature_of(v, op)) return OC_OK;
    if (!src || !dst) return refuse(v, p, op, NULL, "lacks an access that its body needs");
    if (!oc_value_equal(src->value, dst->value) || src->count != dst->count)
        return refuse(v, p, op, dst, "does not hold what was read");
    if (access_bytes(v, src) < op->demand.bytes || access_bytes(v, dst) < op->demand.bytes)
        return refuse(v, p, op, dst, "has no room for what is moved");
    return OC_OK;
}

/* ---- values ---- */

static oc_value *piece(const verifier *v, uint32_t buffer, uint32_t k) {
    return &v->values[v->value_base[buffer] + k];
}

static oc_value value_at(oc_value x, uint32_t k) {
    if (x.micro == OC_EACH_MICRO) x.micro = (uint16_t)k;
    return x;
}

static void fill(const verifier *v, uint32_t buffer, uint32_t first, uint32_t count, oc_value x) {
    for (uint32_t k = first; k < first + count; k++)
        *piece(v, buffer, k) = value_at(x, k);
}

/* Others of the group that share bytes with the pieces written lose their content. */
static void clobber(const verifier *v, const oc_access *a) {
    const oc_buffer *b = &v->s->buffers[a->buffer];
    if (!b->alias) return;
    uint64_t lo = b->offset + a->first * b->piece_bytes;
    uint64_t hi =
        b->offset + oc_min_u64((uint64_t)(a->first + a->count) * b->piece_bytes, b->bytes);
    for (uint32_t j = 0; j < v->s->n_buffers; j++) {
        const oc_buffer *y = &v->s->buffers[j];
        if (j == a->buffer || y->alias != b->alias) continue;
        for (uint32_t k = 0; k < y->pieces; k++) {
            uint64_t y_lo = y->offset + k * y->piece_bytes;
            uint64_t y_hi = y->offset + oc_min_u64((uint64_t)(k + 1) * y->piece_bytes, y->bytes);
            if (y_lo < hi && lo < y_hi) *piece(v, j, k) = (oc_value){0};
        }
    }
}

static void start_values(const verifier *v, bool first) {
    for (uint32_t i = 0; i < v->s->n_buffers; i++) {
        const oc_buffer *b = &v->s->buffers[i];
        oc_value none = {0};
        if (b->life == OC_LIFE_TRANSIENT) {
            if (first) fill(v, i, 0, b->pieces, none);
        } else {
            fill(v, i, 0, b->pieces, b->initial);
        }
    }
}

static uint64_t condition_of(const oc_op *op) {
    return op->pred == OC_NO_BUFFER ? 0 : ((uint64_t)op->pred << 32 | op->pred_index) + 1;
}

/* Both ways of a predicate: a value that may not have been written is only for readers with the
 * same predicate, or for bodies that cope. A fold that is skipped leaves what was there, which
 * stands. */
static bool may_be_missing(const verifier *v, const oc_op *op, const oc_access *a,
                           uint64_t written) {
    if (written == 0 || written == condition_of(op)) return false;
    const oc_signature *g = signature_of(v, op);
    return g && !(g->tolerant & (1u << a->role));
}

static oc_status replay_op(const verifier *v, const oc_plan *p, const oc_op *op) {
    const oc_access *acc = &p->accesses[op->first_access];
    for (uint32_t k = 0; k < op->n_accesses; k++) {
        const oc_access *a = &acc[k];
        if (a->mode == OC_WRITE) continue;
        for (uint32_t q = a->first; q < a->first + a->count; q++) {
            if (!oc_value_equal(*piece(v, a->buffer, q), value_at(a->value, q)))
                return refuse(v, p, op, a, "the value it names is not there at that point");
            if (may_be_missing(v, op, a, v->conditions[v->value_base[a->buffer] + q]))
                return refuse(v, p, op, a, "a predicate may have kept it from being written");
        }
    }
    for (uint32_t k = 0; k < op->n_accesses; k++) {
        const oc_access *a = &acc[k];
        if (a->mode == OC_READ) continue;
        clobber(v, a);
        fill(v, a->buffer, a->first, a->count, a->mode == OC_FOLD ? a->result : a->value);
        for (uint32_t q = a->first; a->mode == OC_WRITE && q < a->first + a->count; q++)
            v->conditions[v->value_base[a->buffer] + q] = condition_of(op);
    }
    return OC_OK;
}

static oc_status replay(const verifier *v, const oc_plan *p) {
    memset(v->conditions, 0, v->n_values * sizeof *v->conditions);
    for (uint32_t i = 0; i < p->n_ops; i++)
        OC_TRY(replay_op(v, p, &p->ops[i]));
    return OC_OK;
}

/* What is carried over is whole, and all parameters' states went the same number of versions
 * forward. */
static oc_status check_end(const verifier *v, const oc_plan *p) {
    int version = -1;
    for (uint32_t i = 0; i < v->s->n_buffers; i++) {
        const oc_buffer *b = &v->s->buffers[i];
        if (b->life != OC_LIFE_CARRIED) continue;
        for (uint32_t k = 0; k < b->pieces; k++) {
            oc_value x = *piece(v, i, k), start = b->initial;
            int step = x.version - start.version;
            x.version = start.version;
            if (!oc_value_equal(x, start) || step < 0 || step > 1)
                return oc_fail(v->err, OC_E_PLAN, "plan %s leaves %s torn in piece %u", p->name,
                               b->name, k);
            bool state = start.what == OC_V_WEIGHT || start.what == OC_V_MASTER ||
                         start.what == OC_V_M || start.what == OC_V_V;
            if (!state) continue;
            if (version >= 0 && version != step)
                return oc_fail(v->err, OC_E_PLAN, "plan %s updates some states, but not %s",
                               p->name, b->name);
            version = step;
        }
    }
    return OC_OK;
}

/* ---- races ---- */

static void row_max(clock_row a, const clock_row b) {
    for (int l = 0; l < OC_LANE_COUNT; l++)
        if (b[l] > a[l]) a[l] = b[l];
}

static oc_status race_check(const verifier *v, const oc_plan *p, const oc_op *op,
                            const clock_row known, bool second) {
    for (uint32_t k = 0; k < op->n_accesses; k++) {
        const oc_access *a = &p->accesses[op->first_access + k];
        uint32_t n = v->e.grouped[a->buffer] ? 1 : a->count;
        uint32_t first = v->e.base[a->buffer] + (v->e.grouped[a->buffer] ? 0 : a->first);
        for (uint32_t i = first; i < first + n; i++)
            for (uint32_t l = 0; l < OC_LANE_COUNT; l++) {
                const cell_clock *c = &v->cells[i];
                uint32_t w = c->write[l], r = a->mode == OC_READ ? 0 : c->read[l];
                if (second && v->s->buffers[a->buffer].life == OC_LIFE_SUBMISSION) {
                    /* the other copy: what the earlier plan did does not matter */
                    w = w > v->lane_base[l] ? w : 0;
                    r = r > v->lane_base[l] ? r : 0;
                }
                if (w > known[l] || r > known[l])
                    return refuse(v, p, op, a, "races with an earlier access");
            }
    }
    return OC_OK;
}

static void race_note(const verifier *v, const oc_plan *p, const oc_op *op, uint32_t seq) {
    for (uint32_t k = 0; k < op->n_accesses; k++) {
        const oc_access *a = &p->accesses[op->first_access + k];
        uint32_t n = v->e.grouped[a->buffer] ? 1 : a->count;
        uint32_t first = v->e.base[a->buffer] + (v->e.grouped[a->buffer] ? 0 : a->first);
        for (uint32_t i = first; i < first + n; i++)
            (a->mode == OC_READ ? v->cells[i].read : v->cells[i].write)[op->lane] = seq;
    }
}

/* ops by (lane, number over both plans) */
typedef struct run_state {
    clock_row lane[OC_LANE_COUNT]; /* what the last op of each lane knows, itself included */
    clock_row *done[OC_LANE_COUNT];
} run_state;

static oc_status race_plan(verifier *v, run_state *r, const oc_plan *p, bool second,
                           const oc_wait *cross, uint32_t n_cross) {
    uint32_t c = 0;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const oc_op *op = &p->ops[i];
        clock_row known;
        memcpy(known, r->lane[op->lane], sizeof known);
        for (uint32_t k = 0; k < op->n_waits; k++) {
            const oc_wait *w = &p->waits[op->first_wait + k];
            row_max(known, r->done[w->lane][v->lane_base[w->lane] + w->seq - 1]);
        }
        for (; c < n_cross && cross[c].op == i; c++) {
            if (cross[c].lane >= OC_LANE_COUNT || cross[c].seq == 0 ||
                cross[c].seq > v->lane_base[cross[c].lane])
                return refuse(v, p, op, NULL, "waits for an op the plan before does not have");
            row_max(known, r->done[cross[c].lane][cross[c].seq - 1]);
        }
        OC_TRY(race_check(v, p, op, known, second));
        uint32_t seq = v->lane_base[op->lane] + op->seq;
        race_note(v, p, op, seq);
        known[op->lane] = seq;
        memcpy(r->done[op->lane][seq - 1], known, sizeof known);
        memcpy(r->lane[op->lane], known, sizeof known);
    }
    if (c != n_cross)
        return oc_fail(v->err, OC_E_PLAN, "plan %s: pair waits out of order", p->name);
    return OC_OK;
}

static oc_status check_races(verifier *v, uint32_t a, uint32_t b) {
    const oc_plan *pa = &v->s->plans[a], *pb = &v->s->plans[b];
    run_state r;
    memset(&r, 0, sizeof r);
    memset(v->cells, 0, v->e.count * sizeof *v->cells);
    memset(v->lane_base, 0, sizeof v->lane_base);
    oc_status st = OC_OK;
    for (int l = 0; l < OC_LANE_COUNT; l++) {
        r.done[l] = calloc(pa->lane_ops[l] + pb->lane_ops[l] + 1u, sizeof *r.done[l]);
        if (!r.done[l]) st = oc_fail(v->err, OC_E_MEMORY, "no memory to verify the plan");
    }
    if (st == OC_OK) st = race_plan(v, &r, pa, false, NULL, 0);
    if (st == OC_OK) {
        memcpy(v->lane_base, pa->lane_ops, sizeof v->lane_base);
        st = race_plan(v, &r, pb, true, v->s->pairs[a][b], v->s->n_pairs[a][b]);
    }
    for (int l = 0; l < OC_LANE_COUNT; l++)
        free(r.done[l]);
    return st;
}

static oc_status verify_all(verifier *v) {
    OC_TRY(check_addresses(v));
    for (uint32_t a = 0; a < v->s->n_plans; a++) {
        const oc_plan *p = &v->s->plans[a];
        OC_TRY(check_shape(v, p));
        for (uint32_t i = 0; i < p->n_ops; i++) {
            OC_TRY(check_signature(v, p, &p->ops[i]));
            OC_TRY(check_meaning(v, p, &p->ops[i]));
        }
    }
    for (uint32_t a = 0; a < v->s->n_plans; a++) {
        start_values(v, true);
        OC_TRY(replay(v, &v->s->plans[a]));
        OC_TRY(check_end(v, &v->s->plans[a]));
        for (uint32_t b = 0; b < v->s->n_plans; b++) {
            start_values(v, true);
            OC_TRY(replay(v, &v->s->plans[a]));
            start_values(v, false);
            OC_TRY(replay(v, &v->s->plans[b]));
            OC_TRY(check_races(v, a, b));
        }
    }
    return OC_OK;
}

oc_status oc_plan_verify(const oc_plan_set *s, oc_error *err) {
    verifier v = {.s = s, .err = err};
    OC_TRY(oc_entities_init(&v.e, s, err));
    v.value_base = calloc(s->n_buffers + 1u, sizeof *v.value_base);
    oc_status st = OC_OK;
    if (!v.value_base) st = oc_fail(err, OC_E_MEMORY, "no memory to verify the plan");
    for (uint32_t i = 0; st == OC_OK && i < s->n_buffers; i++) {
        v.value_base[i] = v.n_values;
        v.n_values += s->buffers[i].pieces;
    }
    v.values = calloc(v.n_values + 1u, sizeof *v.values);
    v.conditions = calloc(v.n_values + 1u, sizeof *v.conditions);
    v.cells = calloc(v.e.count + 1u, sizeof *v.cells);
    if (st == OC_OK && (!v.values || !v.conditions || !v.cells))
        st = oc_fail(err, OC_E_MEMORY, "no memory to verify the plan");
    if (st == OC_OK) st = verify_all(&v);
    free(v.cells);
    free(v.values);
    free(v.conditions);
    free(v.value_base);
    oc_entities_release(&v.e);
    return st;
}
