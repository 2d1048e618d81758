/* plan_order.h - which ops of a plan set are certainly done when another starts, the slow and
 * obvious way: what derive and verify are compared with. */
#ifndef PLAN_ORDER_H
#define PLAN_ORDER_H

#include "plan/plan.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { PO_MAX_NODES = 512 };

/* Two plans, one right after the other; the second may be empty. Nodes: the ops of the first, then
 * of the second. */
typedef struct po_pair {
    const oc_plan_set *s;
    const oc_plan *plans[2];
    const oc_wait *waits; /* of the second for the first */
    uint32_t n_waits;
    uint64_t before[PO_MAX_NODES][PO_MAX_NODES / 64]; /* bits of the nodes done when one starts */
} po_pair;

static inline uint32_t po_base(const po_pair *o, uint32_t k) { return k ? o->plans[0]->n_ops : 0; }

/* What is done when `from` starts is done when `to` does. */
static inline void po_inherit(po_pair *o, uint32_t from, uint32_t to) {
    for (uint32_t w = 0; w < PO_MAX_NODES / 64; w++)
        o->before[to][w] |= o->before[from][w];
}

static inline void po_edge(po_pair *o, uint32_t from, uint32_t to) {
    po_inherit(o, from, to);
    o->before[to][from / 64] |= 1ull << (from % 64);
}

static inline bool po_is_before(const po_pair *o, uint32_t from, uint32_t to) {
    return o->before[to][from / 64] >> (from % 64) & 1;
}

/* Node `to` waits for the first `seq` ops of a lane of plan k. */
static inline bool po_wait(po_pair *o, uint32_t k, uint32_t lane, uint32_t seq, uint32_t to) {
    const oc_plan *p = o->plans[k];
    uint32_t n = 0, base = po_base(o, k);
    for (uint32_t i = 0; i < p->n_ops && base + i < to && n < seq; i++) {
        if (p->ops[i].lane != lane) continue;
        po_edge(o, base + i, to);
        n++;
    }
    return n == seq;
}

static inline bool po_waits(po_pair *o, uint32_t k, uint32_t i) {
    const oc_op *op = &o->plans[k]->ops[i];
    uint32_t node = po_base(o, k) + i;
    for (uint32_t w = 0; w < op->n_waits; w++) {
        const oc_wait *x = &o->plans[k]->waits[op->first_wait + w];
        if (x->seq == 0 || !po_wait(o, k, x->lane, x->seq, node)) return false;
        /* so that lane has finished the plan before */
        if (k) (void)po_wait(o, 0, x->lane, o->plans[0]->lane_ops[x->lane], node);
    }
    for (uint32_t w = 0; k && w < o->n_waits; w++) {
        const oc_wait *x = &o->waits[w];
        if (x->op == i && (x->seq == 0 || !po_wait(o, 0, x->lane, x->seq, node))) return false;
    }
    return true;
}

/* The next op of a lane knows what the one before it was issued with, and where the lane keeps
 * order that it is done. False: a wait points nowhere. */
static inline bool po_build(po_pair *o) {
    uint32_t last[OC_LANE_COUNT];
    memset(o->before, 0, sizeof o->before);
    memset(last, 0xff, sizeof last);
    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t i = 0; i < o->plans[k]->n_ops; i++) {
            uint32_t lane = o->plans[k]->ops[i].lane, node = po_base(o, k) + i;
            if (last[lane] != UINT32_MAX) {
                po_inherit(o, last[lane], node);
                if (!o->s->unordered[lane]) po_edge(o, last[lane], node);
            }
            last[lane] = node;
            if (!po_waits(o, k, i)) return false;
        }
    return true;
}

static inline bool po_conflict(const oc_plan_set *s, const oc_access *a, const oc_access *b,
                               bool other_plan) {
    if (a->mode == OC_READ && b->mode == OC_READ) return false;
    const oc_buffer *x = &s->buffers[a->buffer], *y = &s->buffers[b->buffer];
    if (x->alias && x->alias == y->alias) return true;
    if (a->buffer != b->buffer) return false;
    if (other_plan && x->life == OC_LIFE_SUBMISSION) return false;
    return a->first < b->first + b->count && b->first < a->first + a->count;
}

static inline bool po_ops_conflict(const po_pair *o, uint32_t i, uint32_t j) {
    uint32_t n = o->plans[0]->n_ops;
    const oc_plan *pi = o->plans[i >= n], *pj = o->plans[j >= n];
    bool cross = (i >= n) != (j >= n);
    const oc_op *a = &pi->ops[i >= n ? i - n : i], *b = &pj->ops[j >= n ? j - n : j];
    for (uint32_t x = 0; x < a->n_accesses; x++)
        for (uint32_t y = 0; y < b->n_accesses; y++)
            if (po_conflict(o->s, &pi->accesses[a->first_access + x],
                            &pj->accesses[b->first_access + y], cross))
                return true;
    return false;
}

static inline bool po_ordered(po_pair *o) {
    if (!po_build(o)) return false;
    uint32_t n = o->plans[0]->n_ops + o->plans[1]->n_ops;
    for (uint32_t j = 0; j < n; j++)
        for (uint32_t i = 0; i < j; i++)
            if (!po_is_before(o, i, j) && po_ops_conflict(o, i, j)) return false;
    return true;
}

/* Is every pair of conflicting accesses ordered, in every plan and every succession? */
static inline bool po_all_ordered(const oc_plan_set *s) {
    static po_pair o;
    static const oc_plan nothing;
    for (uint32_t a = 0; a < s->n_plans; a++) {
        o.s = s;
        o.plans[0] = &s->plans[a];
        o.plans[1] = &nothing;
        o.n_waits = 0;
        if (!po_ordered(&o)) return false;
        for (uint32_t b = 0; b < s->n_plans; b++) {
            if (!s->follows[a][b]) continue;
            o.plans[1] = &s->plans[b];
            o.waits = s->pairs[a][b];
            o.n_waits = s->n_pairs[a][b];
            if (!po_ordered(&o)) return false;
        }
    }
    return true;
}

#endif
