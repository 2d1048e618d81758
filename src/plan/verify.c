/* verify.c - proves a plan set right, by a method that shares nothing with derive.c.
 *
 * Each plan alone: its ops keep to their bodies' signatures; played in program order from what its
 * contract says is there, each read finds the value it names, and what the contract promises is
 * there at the end. Each succession: what the later plan relies on is what the earlier promises.
 * Races: verify_races.c. */
#include "plan/verify.h"

#include "base/checked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *mode_name(uint8_t mode) {
    return mode == OC_READ ? "read" : mode == OC_WRITE ? "write" : "fold";
}

oc_status oc_verify_refuse(const oc_verifier *v, const oc_plan *p, const oc_op *op,
                           const oc_access *a, const char *why) {
    char text[160];
    (void)snprintf(text, sizeof text, "plan %s, op %td (%s, block %u, micro-batch %u, lane %s)",
                   p->name, op - p->ops, oc_op_kind_name((oc_op_kind)op->kind), op->block,
                   op->micro, oc_lane_name((oc_lane)op->lane));
    if (!a) return oc_fail(v->err, OC_E_PLAN, "%s: %s", text, why);
    return oc_fail(v->err, OC_E_PLAN, "%s: %s of %s (%s): %s", text, mode_name(a->mode),
                   a->buffer < v->s->n_buffers ? v->s->buffers[a->buffer].name : "?",
                   oc_role_name((oc_role)a->role), why);
}

/* ---- shape: ranges, lanes, waits backwards ---- */

static bool has_pieces(const oc_verifier *v, oc_buffer_id buffer, uint32_t first, uint32_t count) {
    uint32_t pieces = v->s->buffers[buffer].pieces;
    return count > 0 && first <= pieces && count <= pieces - first;
}

static oc_status check_op_shape(const oc_verifier *v, const oc_plan *p, const oc_op *op,
                                uint32_t seen[OC_LANE_COUNT]) {
    if (op->lane >= OC_LANE_COUNT) return oc_verify_refuse(v, p, op, NULL, "no such lane");
    if (op->seq != seen[op->lane] + 1)
        return oc_verify_refuse(v, p, op, NULL, "out of order in its lane");
    if (op->first_access + op->n_accesses > p->n_accesses ||
        op->first_wait + op->n_waits > p->n_waits)
        return oc_verify_refuse(v, p, op, NULL, "points outside the plan");
    for (uint32_t k = 0; k < op->n_accesses; k++) {
        const oc_access *a = &p->accesses[op->first_access + k];
        if (a->buffer >= v->s->n_buffers || a->role >= OC_ROLE_COUNT || a->mode > OC_FOLD)
            return oc_verify_refuse(v, p, op, a, "no such buffer, role or mode");
        if (!has_pieces(v, a->buffer, a->first, a->count))
            return oc_verify_refuse(v, p, op, a, "pieces outside the buffer");
    }
    for (uint32_t k = 0; k < op->n_waits; k++) {
        const oc_wait *w = &p->waits[op->first_wait + k];
        if (w->lane >= OC_LANE_COUNT || w->seq == 0 || w->seq > seen[w->lane])
            return oc_verify_refuse(v, p, op, NULL, "waits for an op that does not come before it");
    }
    seen[op->lane]++;
    return OC_OK;
}

static oc_status check_holdings(const oc_verifier *v, const oc_plan *p, const oc_holding *h,
                                uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (h[i].buffer >= v->s->n_buffers || !has_pieces(v, h[i].buffer, h[i].first, h[i].count))
            return oc_fail(v->err, OC_E_PLAN, "plan %s: its contract names pieces outside a buffer",
                           p->name);
    return OC_OK;
}

static oc_status check_shape(const oc_verifier *v, const oc_plan *p) {
    uint32_t seen[OC_LANE_COUNT] = {0};
    for (uint32_t i = 0; i < p->n_ops; i++)
        OC_TRY(check_op_shape(v, p, &p->ops[i], seen));
    OC_TRY(check_holdings(v, p, p->starts, p->n_starts));
    return check_holdings(v, p, p->ends, p->n_ends);
}

/* ---- addresses ---- */

typedef struct extent {
    uint64_t start, end;
    uint32_t tier, alias;
    oc_buffer_id id;
} extent;

static int by_address(const void *a, const void *b) {
    const extent *x = a, *y = b;
    if (x->tier != y->tier) return x->tier < y->tier ? -1 : 1;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static extent extent_of(const oc_plan_set *s, oc_buffer_id id) {
    const oc_buffer *x = &s->buffers[id];
    uint64_t copies = x->life == OC_LIFE_SUBMISSION ? 2 : 1;
    return (extent){.start = x->offset,
                    .end = x->offset + copies * oc_align_up(x->bytes, OC_PLAN_ALIGN),
                    .tier = x->tier,
                    .alias = x->alias,
                    .id = id};
}

/* In order of address, each may only reach into the next of its own group: the furthest end so far,
 * and the furthest of another group, are all that is to be remembered. */
static oc_status check_overlaps(const oc_verifier *v, const extent *x, uint32_t n) {
    extent far = {0}, other = {0};
    for (uint32_t i = 0; i < n; i++) {
        if (i == 0 || x[i].tier != x[i - 1].tier) far = other = (extent){0};
        bool same = far.end > 0 && x[i].alias && x[i].alias == far.alias;
        const extent *hit = same ? &other : &far;
        if (hit->end > x[i].start && x[i].end > x[i].start)
            return oc_fail(v->err, OC_E_PLAN, "buffers %s and %s share bytes",
                           v->s->buffers[hit->id].name, v->s->buffers[x[i].id].name);
        if (x[i].end <= far.end) continue;
        if (!same) other = far;
        far = x[i];
    }
    return OC_OK;
}

static oc_status check_addresses(const oc_verifier *v) {
    const oc_plan_set *s = v->s;
    extent *x = calloc(s->n_buffers + 1u, sizeof *x);
    if (!x) return oc_fail(v->err, OC_E_MEMORY, "no memory to verify the plan");
    oc_status st = OC_OK;
    for (uint32_t i = 0; i < s->n_buffers && st == OC_OK; i++) {
        x[i] = extent_of(s, i);
        if (x[i].start % OC_PLAN_ALIGN || x[i].end > s->arena_bytes[x[i].tier])
            st = oc_fail(v->err, OC_E_PLAN, "buffer %s lies outside its arena", s->buffers[i].name);
    }
    if (st == OC_OK) {
        qsort(x, s->n_buffers, sizeof *x, by_address);
        st = check_overlaps(v, x, s->n_buffers);
    }
    free(x);
    return st;
}

/* ---- values ---- */

static uint32_t place(const oc_verifier *v, uint32_t buffer, uint32_t k) {
    return v->value_base[buffer] + k;
}

static void fill(const oc_verifier *v, uint32_t buffer, uint32_t first, uint32_t count, oc_value x,
                 uint64_t condition) {
    for (uint32_t k = first; k < first + count; k++) {
        v->values[place(v, buffer, k)] = oc_value_at(x, first, k);
        v->conditions[place(v, buffer, k)] = condition;
    }
}

/* The pieces of y that share bytes with [lo, hi) of the arena lose their content. */
static void clobber_buffer(const oc_verifier *v, uint32_t id, uint64_t lo, uint64_t hi) {
    const oc_buffer *y = &v->s->buffers[id];
    if (hi <= y->offset || lo >= y->offset + y->bytes || y->piece_bytes == 0) return;
    uint64_t from = lo > y->offset ? lo - y->offset : 0;
    uint64_t to = oc_min_u64(hi - y->offset, y->bytes);
    uint32_t first = (uint32_t)(from / y->piece_bytes);
    uint32_t end = (uint32_t)oc_ceil_div(to, y->piece_bytes);
    fill(v, id, first, end - first, (oc_value){0}, 0);
}

static void clobber(const oc_verifier *v, const oc_access *a) {
    const oc_buffer *b = &v->s->buffers[a->buffer];
    if (!b->alias) return;
    uint64_t lo = b->offset + a->first * b->piece_bytes, hi = lo + oc_verify_bytes(v, a);
    for (uint32_t j = v->next_alias[a->buffer]; j != a->buffer; j = v->next_alias[j])
        clobber_buffer(v, j, lo, hi);
}

static uint64_t condition(uint32_t pred, uint32_t index) {
    return pred == OC_NO_BUFFER ? 0 : ((uint64_t)pred << 32 | index) + 1;
}

/* Both ways of a predicate: a value that may not have been written is only for readers with the
 * same predicate, or for bodies that cope. A fold that is skipped leaves what was there, which
 * stands. */
static bool may_be_missing(const oc_verifier *v, const oc_op *op, const oc_access *a,
                           uint64_t written) {
    if (written == 0 || written == condition(op->pred, op->pred_index)) return false;
    const oc_signature *g = oc_verify_signature(v, op);
    return g && !(g->tolerant & (1u << a->role));
}

static oc_status replay_reads(const oc_verifier *v, const oc_plan *p, const oc_op *op,
                              const oc_access *a) {
    for (uint32_t q = a->first; q < a->first + a->count; q++) {
        uint32_t at = place(v, a->buffer, q);
        if (!oc_value_equal(v->values[at], oc_value_at(a->value, a->first, q)))
            return oc_verify_refuse(v, p, op, a, "the value it names is not there at that point");
        if (may_be_missing(v, op, a, v->conditions[at]))
            return oc_verify_refuse(v, p, op, a, "a predicate may have kept it from being written");
    }
    return OC_OK;
}

static void replay_write(const oc_verifier *v, const oc_op *op, const oc_access *a) {
    clobber(v, a);
    if (a->mode == OC_WRITE) {
        fill(v, a->buffer, a->first, a->count, a->value, condition(op->pred, op->pred_index));
        return;
    }
    for (uint32_t q = a->first; q < a->first + a->count; q++)
        v->values[place(v, a->buffer, q)] = oc_value_at(a->result, a->first, q);
}

static oc_status replay(const oc_verifier *v, const oc_plan *p) {
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const oc_op *op = &p->ops[i];
        const oc_access *acc = &p->accesses[op->first_access];
        for (uint32_t k = 0; k < op->n_accesses; k++)
            if (acc[k].mode != OC_WRITE) OC_TRY(replay_reads(v, p, op, &acc[k]));
        for (uint32_t k = 0; k < op->n_accesses; k++)
            if (acc[k].mode != OC_READ) replay_write(v, op, &acc[k]);
    }
    return OC_OK;
}

/* ---- contracts ---- */

static void empty(const oc_verifier *v) {
    memset(v->values, 0, v->n_values * sizeof *v->values);
    memset(v->conditions, 0, v->n_values * sizeof *v->conditions);
}

static void fill_life(const oc_verifier *v, oc_buffer_life life) {
    for (uint32_t i = 0; i < v->s->n_buffers; i++) {
        const oc_buffer *b = &v->s->buffers[i];
        if (b->life == life) fill(v, i, 0, b->pieces, b->initial, 0);
    }
}

static void fill_holdings(const oc_verifier *v, const oc_holding *h, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        fill(v, h[i].buffer, h[i].first, h[i].count, h[i].value,
             condition(h[i].pred, h[i].pred_index));
}

/* Whether the pieces hold it; `advance` versions of each kind are taken off what is there (what
 * would fall below 0 is out of date, and equals nothing). */
static bool holds(const oc_verifier *v, const oc_holding *h, const uint8_t *advance) {
    uint64_t own = condition(h->pred, h->pred_index);
    for (uint32_t k = h->first; k < h->first + h->count; k++) {
        uint32_t at = place(v, h->buffer, k);
        oc_value want = oc_value_at(h->value, h->first, k);
        if (advance && want.what < OC_V_COUNT)
            want.version = (uint16_t)(want.version + advance[want.what]);
        if (!oc_value_equal(v->values[at], want)) return false;
        if (v->conditions[at] && v->conditions[at] != own) return false;
    }
    return true;
}

static oc_status check_promises(const oc_verifier *v, const oc_plan *p) {
    for (uint32_t i = 0; i < p->n_ends; i++)
        if (!holds(v, &p->ends[i], NULL))
            return oc_fail(v->err, OC_E_PLAN,
                           "plan %s does not leave what its contract promises in %s", p->name,
                           v->s->buffers[p->ends[i].buffer].name);
    return OC_OK;
}

static oc_status check_alone(const oc_verifier *v, const oc_plan *p) {
    OC_TRY(check_shape(v, p));
    for (uint32_t i = 0; i < p->n_ops; i++)
        OC_TRY(oc_verify_op(v, p, &p->ops[i]));
    empty(v);
    fill_life(v, OC_LIFE_SUBMISSION);
    fill_holdings(v, p->starts, p->n_starts);
    OC_TRY(replay(v, p));
    return check_promises(v, p);
}

/* What is there must be what b relies on. a NULL: nothing came before. */
static oc_status check_start(const oc_verifier *v, const oc_plan *a, const oc_plan *b) {
    for (uint32_t i = 0; i < b->n_starts; i++) {
        const oc_holding *h = &b->starts[i];
        if (holds(v, h, a ? a->advance : NULL)) continue;
        return oc_fail(v->err, OC_E_PLAN, "plan %s relies on %s, which %s does not leave as it is",
                       b->name, v->s->buffers[h->buffer].name, a ? a->name : "the start of a run");
    }
    return OC_OK;
}

static oc_status check_successions(const oc_verifier *v) {
    const oc_plan_set *s = v->s;
    for (uint32_t a = 0; a < s->n_plans; a++) {
        empty(v);
        fill_holdings(v, s->plans[a].ends, s->plans[a].n_ends);
        for (uint32_t b = 0; b < s->n_plans; b++)
            if (s->follows[a][b]) OC_TRY(check_start(v, &s->plans[a], &s->plans[b]));
    }
    empty(v);
    fill_life(v, OC_LIFE_CARRIED);
    for (uint32_t b = 0; b < s->n_plans; b++)
        if (s->opens[b]) OC_TRY(check_start(v, NULL, &s->plans[b]));
    return OC_OK;
}

static oc_status verify_all(const oc_verifier *v) {
    OC_TRY(check_addresses(v));
    for (uint32_t a = 0; a < v->s->n_plans; a++)
        OC_TRY(check_alone(v, &v->s->plans[a]));
    OC_TRY(check_successions(v));
    return oc_verify_races(v);
}

/* ---- life ---- */

/* The members of a group in a ring. */
static void link_aliases(const oc_verifier *v, uint32_t *last) {
    memset(last, 0xff, v->e.count * sizeof *last);
    for (uint32_t i = 0; i < v->s->n_buffers; i++) {
        v->next_alias[i] = i;
        if (!v->e.grouped[i]) continue;
        uint32_t *l = &last[v->e.base[i]];
        if (*l != UINT32_MAX) {
            v->next_alias[i] = v->next_alias[*l];
            v->next_alias[*l] = i;
        }
        *l = i;
    }
}

static oc_status allocate(oc_verifier *v) {
    const oc_plan_set *s = v->s;
    v->value_base = calloc(s->n_buffers + 1u, sizeof *v->value_base);
    v->next_alias = calloc(s->n_buffers + 1u, sizeof *v->next_alias);
    uint32_t *last = calloc(v->e.count + 1u, sizeof *last);
    if (v->value_base && v->next_alias && last) {
        for (uint32_t i = 0; i < s->n_buffers; i++) {
            v->value_base[i] = v->n_values;
            v->n_values += s->buffers[i].pieces;
        }
        link_aliases(v, last);
        v->values = calloc(v->n_values + 1u, sizeof *v->values);
        v->conditions = calloc(v->n_values + 1u, sizeof *v->conditions);
    }
    free(last);
    if (v->values && v->conditions) return OC_OK;
    return oc_fail(v->err, OC_E_MEMORY, "no memory to verify the plan");
}

oc_status oc_plan_verify(const oc_plan_set *s, oc_error *err) {
    oc_verifier v = {.s = s, .err = err};
    OC_TRY(oc_entities_init(&v.e, s, err));
    oc_status st = allocate(&v);
    if (st == OC_OK) st = verify_all(&v);
    free(v.values);
    free(v.conditions);
    free(v.value_base);
    free(v.next_alias);
    oc_entities_release(&v.e);
    return st;
}
