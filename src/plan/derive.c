/* derive.c - which op waits for which: the hazards of the accesses, in program order.
 *
 * Per entity: the last writer, and per lane the last reader since. A read waits for the writer; a
 * write or a fold waits for the writer and the readers. Lanes run in order, so a wait is "lane L
 * has finished its op number s", and one wait a lane suffices. Waits that others imply are left out
 * by means of a clock per op: clock[L] = how many ops of lane L are known to be done when the op
 * starts. */
#include "plan/internal.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

oc_status oc_entities_init(oc_entities *e, const oc_plan_set *s, oc_error *err) {
    memset(e, 0, sizeof *e);
    e->base = calloc(s->n_buffers + 1u, sizeof *e->base);
    e->grouped = calloc(s->n_buffers + 1u, sizeof *e->grouped);
    if (!e->base || !e->grouped) {
        oc_entities_release(e);
        return oc_fail(err, OC_E_MEMORY, "no memory to derive the plan's waits");
    }
    for (uint32_t i = 0; i < s->n_buffers; i++) {
        const oc_buffer *x = &s->buffers[i];
        e->grouped[i] = x->alias != 0;
        bool seen = false;
        for (uint32_t j = 0; x->alias && j < i && !seen; j++) {
            if (s->buffers[j].alias != x->alias) continue;
            e->base[i] = e->base[j];
            seen = true;
        }
        if (seen) continue;
        e->base[i] = e->count;
        e->count += x->alias ? 1 : x->pieces;
    }
    return OC_OK;
}

void oc_entities_release(oc_entities *e) {
    free(e->base);
    free(e->grouped);
    memset(e, 0, sizeof *e);
}

typedef struct clock_row {
    uint32_t of[OC_LANE_COUNT];
} clock_row;

/* Numbers of the last accesses; 0: none. In a pair, accesses of the earlier plan are kept apart. */
typedef struct hazard {
    uint32_t write_lane, write_seq;
    uint32_t read_seq[OC_LANE_COUNT];
} hazard;

typedef struct deriver {
    oc_plan_set *s;
    oc_entities e;
    hazard *now;  /* accesses of this plan */
    hazard *past; /* accesses of the plan before, still in force */
} deriver;

static void row_max(clock_row *a, const clock_row *b) {
    for (int l = 0; l < OC_LANE_COUNT; l++)
        if (b->of[l] > a->of[l]) a->of[l] = b->of[l];
}

static void need(clock_row *r, uint32_t lane, uint32_t seq) {
    if (seq > r->of[lane]) r->of[lane] = seq;
}

static void need_of(const hazard *h, bool writes, clock_row *r) {
    if (h->write_seq) need(r, h->write_lane, h->write_seq);
    if (!writes) return;
    for (uint32_t l = 0; l < OC_LANE_COUNT; l++)
        if (h->read_seq[l]) need(r, l, h->read_seq[l]);
}

/* The raw needs of one op, on its own plan and on the plan before; then its accesses take effect.
 */
static void visit(deriver *d, const oc_plan *p, const oc_op *op, clock_row *own, clock_row *cross) {
    memset(own, 0, sizeof *own);
    memset(cross, 0, sizeof *cross);
    for (uint32_t k = 0; k < op->n_accesses; k++) {
        const oc_access *a = &p->accesses[op->first_access + k];
        uint32_t n = d->e.grouped[a->buffer] ? 1 : a->count;
        uint32_t first = d->e.base[a->buffer] + (d->e.grouped[a->buffer] ? 0 : a->first);
        bool other_copy = d->s->buffers[a->buffer].life == OC_LIFE_SUBMISSION;
        for (uint32_t i = first; i < first + n; i++) {
            need_of(&d->now[i], a->mode != OC_READ, own);
            if (!other_copy) need_of(&d->past[i], a->mode != OC_READ, cross);
        }
    }
    for (uint32_t k = 0; k < op->n_accesses; k++) {
        const oc_access *a = &p->accesses[op->first_access + k];
        uint32_t n = d->e.grouped[a->buffer] ? 1 : a->count;
        uint32_t first = d->e.base[a->buffer] + (d->e.grouped[a->buffer] ? 0 : a->first);
        for (uint32_t i = first; i < first + n; i++) {
            if (a->mode == OC_READ) {
                d->now[i].read_seq[op->lane] = op->seq;
                continue;
            }
            memset(&d->now[i], 0, sizeof d->now[i]);
            memset(&d->past[i], 0, sizeof d->past[i]);
            d->now[i].write_lane = op->lane;
            d->now[i].write_seq = op->seq;
        }
    }
}

static void number(oc_plan *p) {
    memset(p->lane_ops, 0, sizeof p->lane_ops);
    for (uint32_t i = 0; i < p->n_ops; i++)
        p->ops[i].seq = ++p->lane_ops[p->ops[i].lane];
}

/* op index by lane and seq, to look up clocks of waited-for ops */
static uint32_t **lane_index(const oc_plan *p) {
    uint32_t **by = calloc(OC_LANE_COUNT + 1, sizeof *by);
    uint32_t *all = calloc(p->n_ops + 1u, sizeof *all);
    if (!by || !all) {
        free(by);
        free(all);
        return NULL;
    }
    uint32_t at = 0;
    for (int l = 0; l < OC_LANE_COUNT; l++) {
        by[l] = all + at;
        at += p->lane_ops[l];
    }
    by[OC_LANE_COUNT] = all;
    for (uint32_t i = 0; i < p->n_ops; i++)
        by[p->ops[i].lane][p->ops[i].seq - 1] = i;
    return by;
}

static void lane_index_free(uint32_t **by) {
    if (!by) return;
    free(by[OC_LANE_COUNT]);
    free(by);
}

/* Append the waits of `want` that neither `known` nor another wait implies; known grows by all that
 * follows. done[i] is the clock of op i including itself. */
static uint32_t reduce(const clock_row *want, clock_row *known, uint32_t *const *by,
                       const clock_row *done, oc_wait *waits) {
    uint32_t n = 0;
    for (uint32_t l = 0; l < OC_LANE_COUNT; l++) {
        if (want->of[l] <= known->of[l]) continue;
        bool implied = false;
        for (uint32_t o = 0; o < OC_LANE_COUNT && !implied; o++) {
            if (o == l || want->of[o] <= known->of[o]) continue;
            const clock_row *c = &done[by[o][want->of[o] - 1]];
            /* two waits cannot imply each other: that would be a cycle */
            implied = c->of[l] >= want->of[l];
        }
        if (implied) continue;
        waits[n++] = (oc_wait){0, (uint16_t)l, want->of[l]};
    }
    clock_row grown = *known;
    for (uint32_t l = 0; l < OC_LANE_COUNT; l++)
        if (want->of[l] > known->of[l]) row_max(&grown, &done[by[l][want->of[l] - 1]]);
    *known = grown;
    return n;
}

/* Waits within plan p; done (n_ops rows) receives the clocks. */
static oc_status derive_own(deriver *d, oc_plan *p, uint32_t *const *by, clock_row *done,
                            oc_error *err) {
    uint32_t capacity = p->n_ops * 2 + OC_LANE_COUNT, n = 0;
    oc_wait *waits = malloc((size_t)capacity * sizeof *waits);
    clock_row lane_known[OC_LANE_COUNT];
    memset(lane_known, 0, sizeof lane_known);
    for (uint32_t i = 0; waits && i < p->n_ops; i++) {
        oc_op *op = &p->ops[i];
        clock_row own, cross, *known = &lane_known[op->lane];
        visit(d, p, op, &own, &cross);
        if (n + OC_LANE_COUNT > capacity) {
            capacity *= 2;
            oc_wait *more = realloc(waits, (size_t)capacity * sizeof *waits);
            if (!more) {
                free(waits);
                waits = NULL;
                break;
            }
            waits = more;
        }
        op->first_wait = n;
        op->n_waits = reduce(&own, known, by, done, waits + n);
        for (uint32_t k = 0; k < op->n_waits; k++)
            waits[n + k].op = i;
        n += op->n_waits;
        need(known, op->lane, op->seq);
        done[i] = *known;
    }
    if (!waits) return oc_fail(err, OC_E_MEMORY, "no memory for the plan's waits");
    free(p->waits);
    p->waits = waits;
    p->n_waits = n;
    return OC_OK;
}

/* Waits of b's ops for a's ops, when b runs right after a. d->past holds a's last accesses. */
static oc_status derive_pair(deriver *d, const oc_plan *a, const clock_row *a_done,
                             uint32_t *const *a_by, const oc_plan *b, oc_wait **out,
                             uint32_t *n_out, oc_error *err) {
    oc_wait *waits = malloc(((size_t)b->n_ops * OC_LANE_COUNT + 1) * sizeof *waits);
    clock_row *known = calloc(b->n_ops + 1u, sizeof *known); /* of a's ops, per op of b */
    uint32_t **by = lane_index(b);
    uint32_t n = 0;
    clock_row lane[OC_LANE_COUNT];
    memset(lane, 0, sizeof lane);
    for (uint32_t l = 0; l < OC_LANE_COUNT; l++)
        if (a->lane_ops[l]) lane[l] = a_done[a_by[l][a->lane_ops[l] - 1]];
    for (uint32_t i = 0; waits && known && by && i < b->n_ops; i++) {
        const oc_op *op = &b->ops[i];
        clock_row own, cross;
        visit(d, b, op, &own, &cross);
        clock_row k = lane[op->lane];
        for (uint32_t w = 0; w < op->n_waits; w++) {
            const oc_wait *x = &b->waits[op->first_wait + w];
            row_max(&k, &known[by[x->lane][x->seq - 1]]);
        }
        uint32_t m = reduce(&cross, &k, a_by, a_done, waits + n);
        for (uint32_t w = 0; w < m; w++)
            waits[n + w].op = i;
        n += m;
        known[i] = k;
        lane[op->lane] = k;
    }
    bool ok = waits && known && by;
    free(known);
    lane_index_free(by);
    if (!ok) {
        free(waits);
        return oc_fail(err, OC_E_MEMORY, "no memory for the plans' pair waits");
    }
    free(*out);
    *out = waits;
    *n_out = n;
    return OC_OK;
}

static oc_status derive_plan(deriver *d, uint32_t a, oc_error *err) {
    oc_plan *p = &d->s->plans[a];
    size_t row_bytes = d->e.count * sizeof(hazard);
    clock_row *done = calloc(p->n_ops + 1u, sizeof *done);
    uint32_t **by = lane_index(p);
    hazard *after = malloc(row_bytes + 1);
    oc_status st = OC_OK;
    if (!done || !by || !after) st = oc_fail(err, OC_E_MEMORY, "no memory to derive waits");
    if (st == OC_OK) {
        memset(d->now, 0, row_bytes);
        memset(d->past, 0, row_bytes);
        st = derive_own(d, p, by, done, err);
    }
    if (st == OC_OK) memcpy(after, d->now, row_bytes);
    for (uint32_t b = 0; st == OC_OK && b < d->s->n_plans; b++) {
        memset(d->now, 0, row_bytes);
        memcpy(d->past, after, row_bytes);
        st = derive_pair(d, p, done, by, &d->s->plans[b], &d->s->pairs[a][b], &d->s->n_pairs[a][b],
                         err);
    }
    free(after);
    lane_index_free(by);
    free(done);
    return st;
}

oc_status oc_plan_derive(oc_plan_set *s, oc_error *err) {
    deriver d = {s, {0}, NULL, NULL};
    OC_TRY(oc_entities_init(&d.e, s, err));
    d.now = calloc(d.e.count + 1u, sizeof *d.now);
    d.past = calloc(d.e.count + 1u, sizeof *d.past);
    oc_status st = OC_OK;
    if (!d.now || !d.past) st = oc_fail(err, OC_E_MEMORY, "no memory to derive waits");
    for (uint32_t p = 0; p < s->n_plans; p++)
        number(&s->plans[p]);
    /* own waits of every plan first: a pair reads those of its later plan */
    for (uint32_t p = 0; st == OC_OK && p < s->n_plans; p++) {
        uint32_t **by = lane_index(&s->plans[p]);
        clock_row *done = calloc(s->plans[p].n_ops + 1u, sizeof *done);
        memset(d.now, 0, d.e.count * sizeof *d.now);
        memset(d.past, 0, d.e.count * sizeof *d.past);
        if (!by || !done) st = oc_fail(err, OC_E_MEMORY, "no memory to derive waits");
        if (st == OC_OK) st = derive_own(&d, &s->plans[p], by, done, err);
        lane_index_free(by);
        free(done);
    }
    for (uint32_t p = 0; st == OC_OK && p < s->n_plans; p++)
        st = derive_plan(&d, p, err);
    free(d.now);
    free(d.past);
    oc_entities_release(&d.e);
    return st;
}
