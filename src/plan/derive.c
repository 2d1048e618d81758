/* derive.c - which op waits for which: the hazards of the accesses, in program order.
 *
 * Per entity: the last writer, and per lane the last reader since. A read waits for the writer; a
 * write or a fold waits for the writer and the readers. A wait is "lane L has finished its ops up
 * to number s", and one wait a lane suffices. Waits that others imply are left out by means of a
 * clock per op: clock[L] = how many ops of lane L are known to be done when the op starts. What an
 * op knows its successors in the lane know too; that the op itself is done, only where the lane
 * keeps order. */
#include "plan/internal.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

/* ---- entities ---- */

typedef struct grouped {
    uint32_t alias;
    oc_buffer_id id;
} grouped;

static int by_alias(const void *a, const void *b) {
    const grouped *x = a, *y = b;
    if (x->alias != y->alias) return x->alias < y->alias ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Members of a group share the entity of its first. */
static void number_entities(oc_entities *e, const oc_plan_set *s, grouped *g) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_buffers; i++) {
        const oc_buffer *x = &s->buffers[i];
        e->grouped[i] = x->alias != 0;
        if (x->alias) {
            g[n++] = (grouped){x->alias, i};
            continue;
        }
        e->base[i] = e->count;
        e->count += x->pieces;
    }
    qsort(g, n, sizeof *g, by_alias);
    for (uint32_t i = 0; i < n; i++) {
        bool first = i == 0 || g[i].alias != g[i - 1].alias;
        e->base[g[i].id] = first ? e->count++ : e->base[g[i - 1].id];
    }
}

oc_status oc_entities_init(oc_entities *e, const oc_plan_set *s, oc_error *err) {
    memset(e, 0, sizeof *e);
    e->base = calloc(s->n_buffers + 1u, sizeof *e->base);
    e->grouped = calloc(s->n_buffers + 1u, sizeof *e->grouped);
    grouped *g = calloc(s->n_buffers + 1u, sizeof *g);
    bool ok = e->base && e->grouped && g;
    if (ok) number_entities(e, s, g);
    free(g);
    if (ok) return OC_OK;
    oc_entities_release(e);
    return oc_fail(err, OC_E_MEMORY, "no memory to derive the plan's waits");
}

void oc_entities_release(oc_entities *e) {
    free(e->base);
    free(e->grouped);
    memset(e, 0, sizeof *e);
}

/* ---- hazards ---- */

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
    hazard *now;                   /* accesses of this plan */
    hazard *past;                  /* accesses of the plan before, still in force */
    clock_row ends[OC_LANE_COUNT]; /* what is known when the last op of each lane is issued; itself
                                      too, where the lane keeps order */
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
 * follows. done[i]: what is known once op i is done, itself included. */
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

/* ---- waits ---- */

typedef struct wait_list {
    oc_wait *data;
    uint32_t n, capacity;
} wait_list;

/* Room for the waits of one more op. */
static bool reserve(wait_list *w) {
    if (w->n + OC_LANE_COUNT <= w->capacity) return true;
    uint32_t capacity = w->capacity + w->capacity / 2 + 256;
    oc_wait *more = realloc(w->data, (size_t)capacity * sizeof *more);
    if (!more) return false;
    w->data = more;
    w->capacity = capacity;
    return true;
}

/* Exactly as long as it is; what was there before is gone. */
static void keep(wait_list *w, oc_wait **out, uint32_t *n_out) {
    oc_wait *less = realloc(w->data, (size_t)w->n * sizeof *less + 1);
    free(*out);
    *out = less ? less : w->data;
    *n_out = w->n;
}

static bool keeps_order(const deriver *d, uint32_t lane) { return !d->s->unordered[lane]; }

/* Waits within plan p; done (n_ops rows) receives the clocks. */
static oc_status derive_own(deriver *d, oc_plan *p, uint32_t *const *by, clock_row *done,
                            oc_error *err) {
    wait_list w = {NULL, 0, 0};
    memset(d->ends, 0, sizeof d->ends);
    for (uint32_t i = 0; i < p->n_ops; i++) {
        oc_op *op = &p->ops[i];
        clock_row own, cross, *known = &d->ends[op->lane];
        if (!reserve(&w)) {
            free(w.data);
            return oc_fail(err, OC_E_MEMORY, "no memory for the plan's waits");
        }
        visit(d, p, op, &own, &cross);
        op->first_wait = w.n;
        op->n_waits = reduce(&own, known, by, done, w.data + w.n);
        for (uint32_t k = 0; k < op->n_waits; k++)
            w.data[w.n + k].op = i;
        w.n += op->n_waits;
        done[i] = *known;
        need(&done[i], op->lane, op->seq);
        if (keeps_order(d, op->lane)) *known = done[i];
    }
    keep(&w, &p->waits, &p->n_waits);
    return OC_OK;
}

/* Waits of b's ops for a's ops, when b runs right after a. d->past holds a's last accesses, d->ends
 * what its lanes know; known has a row for each op of b. */
static oc_status derive_pair(deriver *d, const clock_row *a_done, uint32_t *const *a_by,
                             const oc_plan *b, clock_row *known, uint32_t *const *by, wait_list *w,
                             oc_error *err) {
    clock_row lane[OC_LANE_COUNT];
    memcpy(lane, d->ends, sizeof lane); /* of plan a: lanes issue in order */
    for (uint32_t i = 0; i < b->n_ops; i++) {
        const oc_op *op = &b->ops[i];
        clock_row own, cross;
        if (!reserve(w)) return oc_fail(err, OC_E_MEMORY, "no memory for the plans' pair waits");
        visit(d, b, op, &own, &cross);
        clock_row k = lane[op->lane];
        for (uint32_t n = 0; n < op->n_waits; n++) {
            const oc_wait *x = &b->waits[op->first_wait + n];
            row_max(&k, &known[by[x->lane][x->seq - 1]]);
        }
        uint32_t m = reduce(&cross, &k, a_by, a_done, w->data + w->n);
        for (uint32_t n = 0; n < m; n++)
            w->data[w->n + n].op = i;
        w->n += m;
        known[i] = k;
        lane[op->lane] = k;
    }
    return OC_OK;
}

static oc_status derive_succession(deriver *d, uint32_t a, const clock_row *a_done,
                                   uint32_t *const *a_by, uint32_t b, oc_error *err) {
    oc_plan_set *s = d->s;
    const oc_plan *next = &s->plans[b];
    clock_row *known = calloc(next->n_ops + 1u, sizeof *known); /* of a's ops, per op of b */
    uint32_t **by = lane_index(next);
    wait_list w = {NULL, 0, 0};
    oc_status st = known && by ? derive_pair(d, a_done, a_by, next, known, by, &w, err)
                               : oc_fail(err, OC_E_MEMORY, "no memory for the plans' pair waits");
    free(known);
    lane_index_free(by);
    if (st == OC_OK)
        keep(&w, &s->pairs[a][b], &s->n_pairs[a][b]);
    else
        free(w.data);
    return st;
}

/* Own waits of plan a, and when `pairs`, those of what may follow it. */
static oc_status derive_plan(deriver *d, uint32_t a, bool pairs, oc_error *err) {
    oc_plan *p = &d->s->plans[a];
    size_t row_bytes = d->e.count * sizeof(hazard);
    clock_row *done = calloc(p->n_ops + 1u, sizeof *done);
    uint32_t **by = lane_index(p);
    hazard *after = pairs ? malloc(row_bytes + 1) : NULL;
    oc_status st = OC_OK;
    if (!done || !by || (pairs && !after))
        st = oc_fail(err, OC_E_MEMORY, "no memory to derive waits");
    if (st == OC_OK) {
        memset(d->now, 0, row_bytes);
        memset(d->past, 0, row_bytes);
        st = derive_own(d, p, by, done, err);
    }
    if (st == OC_OK && pairs) memcpy(after, d->now, row_bytes);
    for (uint32_t b = 0; st == OC_OK && pairs && b < d->s->n_plans; b++) {
        if (!d->s->follows[a][b]) continue;
        memset(d->now, 0, row_bytes);
        memcpy(d->past, after, row_bytes);
        st = derive_succession(d, a, done, by, b, err);
    }
    free(after);
    lane_index_free(by);
    free(done);
    return st;
}

static bool is_followed(const oc_plan_set *s, uint32_t a) {
    for (uint32_t b = 0; b < s->n_plans; b++)
        if (s->follows[a][b]) return true;
    return false;
}

oc_status oc_plan_derive(oc_plan_set *s, oc_error *err) {
    deriver d = {.s = s};
    OC_TRY(oc_entities_init(&d.e, s, err));
    d.now = calloc(d.e.count + 1u, sizeof *d.now);
    d.past = calloc(d.e.count + 1u, sizeof *d.past);
    oc_status st = OC_OK;
    if (!d.now || !d.past) st = oc_fail(err, OC_E_MEMORY, "no memory to derive waits");
    for (uint32_t p = 0; p < s->n_plans; p++)
        number(&s->plans[p]);
    /* own waits of every plan first: a pair reads those of its later plan */
    for (uint32_t p = 0; st == OC_OK && p < s->n_plans; p++)
        st = derive_plan(&d, p, false, err);
    for (uint32_t p = 0; st == OC_OK && p < s->n_plans; p++)
        if (is_followed(s, p)) st = derive_plan(&d, p, true, err);
    free(d.now);
    free(d.past);
    oc_entities_release(&d.e);
    return st;
}
