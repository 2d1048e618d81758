/* random_plan.h - random correct plan sets for tests, bodies that expose any wrong order, and a
 * sequential reference.
 *
 * A set is built by playing a random program: the generator knows the value in every piece, so each
 * read names what is there. Bodies hash every byte they read into every byte they write; two orders
 * of conflicting ops cannot end in the same bytes. */
#ifndef RANDOM_PLAN_H
#define RANDOM_PLAN_H

#include "base/checked.h"
#include "plan/plan.h"
#include "run/run.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RP_MAX_BUFFERS = 24, RP_MAX_PIECES = 5, RP_MAX_SUBMISSIONS = 4 };
enum { RP_BODY_MIX, RP_BODY_FLAGS, RP_BODY_POISON, RP_BODIES };

typedef struct rp_rng {
    uint64_t s;
} rp_rng;

static inline uint64_t rp_next(rp_rng *r) { /* splitmix64 */
    uint64_t z = (r->s += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
static inline uint32_t rp_below(rp_rng *r, uint32_t n) { return (uint32_t)(rp_next(r) % n); }
static inline bool rp_chance(rp_rng *r, uint32_t percent) { return rp_below(r, 100) < percent; }

/* ---- bodies ---- */

static inline uint64_t rp_hash(uint64_t h, const void *p, uint64_t n) {
    const uint8_t *b = p;
    for (uint64_t i = 0; i < n; i++)
        h = (h ^ b[i]) * 0x100000001b3u;
    return h ^ (h >> 29);
}

static inline uint64_t rp_hash_inputs(const oc_task *t) {
    uint64_t h = 0xcbf29ce484222325u ^ ((uint64_t)(t->op - t->plan->ops) << 8);
    for (uint32_t i = 0; i < t->op->n_accesses; i++) {
        const oc_access *a = &t->accesses[i];
        if (a->mode != OC_WRITE) h = rp_hash(h, oc_task_address(t, a), oc_task_bytes(t, a));
    }
    return h;
}

static inline oc_status rp_mix(const oc_task *t, oc_error *err) {
    (void)err;
    rp_rng g = {rp_hash_inputs(t)};
    for (uint32_t i = 0; i < t->op->n_accesses; i++) {
        const oc_access *a = &t->accesses[i];
        if (a->mode == OC_READ) continue;
        uint8_t *p = oc_task_address(t, a);
        for (uint64_t k = 0, n = oc_task_bytes(t, a); k < n; k++)
            p[k] = (uint8_t)rp_next(&g);
    }
    return OC_OK;
}

/* Writes words that are 0 or 1: what predicates read. */
static inline oc_status rp_flags(const oc_task *t, oc_error *err) {
    (void)err;
    rp_rng g = {rp_hash_inputs(t)};
    for (uint32_t i = 0; i < t->op->n_accesses; i++) {
        const oc_access *a = &t->accesses[i];
        if (a->mode == OC_READ) continue;
        uint32_t *p = oc_task_address(t, a);
        for (uint64_t k = 0, n = oc_task_bytes(t, a) / 4; k < n; k++)
            p[k] = (uint32_t)(rp_next(&g) & 1);
    }
    return OC_OK;
}

static inline oc_status rp_poison(const oc_task *t, oc_error *err) {
    (void)err;
    for (uint32_t i = 0; i < t->op->n_accesses; i++)
        memset(oc_task_address(t, &t->accesses[i]), 0xdb, oc_task_bytes(t, &t->accesses[i]));
    return OC_OK;
}

static oc_body *const rp_bodies[RP_BODIES] = {rp_mix, rp_flags, rp_poison};

/* ---- generator ---- */

typedef struct rp_limits {
    uint32_t max_plans, min_ops, max_ops, max_lanes;
    uint32_t piece_bytes; /* multiple of 64; flags have one piece of 64 */
} rp_limits;

typedef struct rp_builder {
    rp_rng *rng;
    oc_plan_builder *b;
    uint32_t n_buffers;
    oc_value now[RP_MAX_BUFFERS][RP_MAX_PIECES];
    uint32_t flags[RP_MAX_BUFFERS], n_flags; /* buffers of words that are 0 or 1 */
    uint32_t fresh;
    uint16_t lanes[OC_LANE_COUNT];
    uint32_t n_lanes, piece_bytes;
} rp_builder;

static const oc_value rp_none = {0, 0, 0, 0, 0};

static inline oc_value rp_home(uint32_t buffer, uint16_t version) {
    return (oc_value){.what = OC_V_USER, .version = version, .block = buffer};
}

static inline oc_value rp_fresh(rp_builder *x, uint32_t buffer) {
    x->fresh++;
    return (oc_value){.what = OC_V_USER + 1, .micro = (uint16_t)x->fresh, .block = buffer};
}

static inline uint32_t rp_add_buffer(rp_builder *x, oc_buffer_life life, uint32_t alias,
                                     bool flags) {
    rp_rng *g = x->rng;
    uint32_t id = x->n_buffers++;
    uint32_t pieces = flags ? 1 : 1 + rp_below(g, RP_MAX_PIECES);
    uint32_t piece = flags ? 64 : x->piece_bytes;
    uint64_t bytes = pieces * piece - (pieces > 1 ? 8u * rp_below(g, 8) : 0);
    char name[24];
    snprintf(name, sizeof name, "b%u", id);
    oc_tier tier = alias ? OC_TIER_DEVICE : rp_chance(g, 50) ? OC_TIER_DEVICE : OC_TIER_HOST;
    oc_value initial = life == OC_LIFE_TRANSIENT ? rp_none : rp_home(id, 0);
    oc_plan_buffer(x->b, name, tier, OC_USE_WORKSPACE, life, bytes, piece, alias, initial);
    if (flags) x->flags[x->n_flags++] = id;
    return id;
}

static inline bool rp_is_flags(const rp_builder *x, uint32_t id) {
    for (uint32_t i = 0; i < x->n_flags; i++)
        if (x->flags[i] == id) return true;
    return false;
}

static inline void rp_add_buffers(rp_builder *x) {
    rp_rng *g = x->rng;
    for (uint32_t i = 0, n = 1 + rp_below(g, 4); i < n; i++)
        rp_add_buffer(x, OC_LIFE_CARRIED, 0, false);
    for (uint32_t i = 0, n = 1 + rp_below(g, 4); i < n; i++)
        rp_add_buffer(x, OC_LIFE_TRANSIENT, 0, false);
    if (rp_chance(g, 50))
        for (uint32_t i = 0, n = 2 + rp_below(g, 2); i < n; i++)
            rp_add_buffer(x, OC_LIFE_TRANSIENT, 7, false);
    for (uint32_t i = 0, n = 1 + rp_below(g, 2); i < n; i++)
        rp_add_buffer(x, OC_LIFE_SUBMISSION, 0, true);
    if (rp_chance(g, 60)) rp_add_buffer(x, OC_LIFE_CARRIED, 0, true);
}

/* A range of pieces that all hold one value. */
static inline void rp_same_range(rp_builder *x, uint32_t id, uint32_t *first, uint32_t *count) {
    uint32_t pieces = oc_plan_buffer_at(x->b, id)->pieces;
    *first = rp_below(x->rng, pieces);
    uint32_t most = 1 + rp_below(x->rng, pieces);
    *count = 1;
    while (*count < most && *first + *count < pieces &&
           oc_value_equal(x->now[id][*first], x->now[id][*first + *count]))
        ++*count;
}

static inline void rp_set(rp_builder *x, uint32_t id, uint32_t first, uint32_t count, oc_value v) {
    uint32_t alias = oc_plan_buffer_at(x->b, id)->alias;
    for (uint32_t j = 0; alias && j < x->n_buffers; j++)
        if (j != id && oc_plan_buffer_at(x->b, j)->alias == alias)
            for (uint32_t p = 0; p < RP_MAX_PIECES; p++)
                x->now[j][p] = rp_none;
    for (uint32_t p = first; p < first + count; p++)
        x->now[id][p] = v;
}

static inline void rp_random_access(rp_builder *x, uint32_t id, oc_role role) {
    rp_rng *g = x->rng;
    const oc_buffer *b = oc_plan_buffer_at(x->b, id);
    uint32_t first, count;
    rp_same_range(x, id, &first, &count);
    oc_value was = x->now[id][first];
    bool readable = was.what != OC_V_NONE;
    bool writable = b->life != OC_LIFE_SUBMISSION;
    if (readable && (!writable || rp_chance(g, 50))) {
        oc_plan_access(x->b, role, OC_READ, id, first, count, was, rp_none);
        if (!writable || !rp_chance(g, 20)) return;
        oc_value v = rp_fresh(x, id); /* read, then overwritten by the same op */
        oc_plan_access(x->b, role, OC_WRITE, id, first, count, v, rp_none);
        rp_set(x, id, first, count, v);
        return;
    }
    oc_value v = rp_fresh(x, id);
    if (readable && rp_chance(g, 40)) {
        oc_plan_access(x->b, role, OC_FOLD, id, first, count, was, v);
    } else {
        count = 1 + rp_below(g, b->pieces - first);
        oc_plan_access(x->b, role, OC_WRITE, id, first, count, v, rp_none);
    }
    rp_set(x, id, first, count, v);
}

static inline oc_op rp_blank_op(rp_builder *x) {
    return (oc_op){.kind = (uint16_t)rp_below(x->rng, OC_OP_UPDATE),
                   .lane = x->lanes[rp_below(x->rng, x->n_lanes)],
                   .piece = UINT32_MAX,
                   .blocks = 1,
                   .pred = OC_NO_BUFFER,
                   .index = OC_NO_BUFFER,
                   .demand = {.bytes = 64}};
}

static inline void rp_flag_op(rp_builder *x, uint32_t id, oc_value v) {
    oc_op op = rp_blank_op(x);
    op.body = RP_BODY_FLAGS;
    oc_plan_op(x->b, &op);
    oc_plan_access(x->b, OC_ROLE_CELLS_OUT, OC_FOLD, id, 0, 1, x->now[id][0], v);
    rp_set(x, id, 0, 1, v);
}

static inline void rp_random_op(rp_builder *x) {
    rp_rng *g = x->rng;
    uint32_t last_flags = x->flags[x->n_flags - 1];
    if (oc_plan_buffer_at(x->b, last_flags)->life == OC_LIFE_CARRIED && rp_chance(g, 10)) {
        rp_flag_op(x, last_flags, rp_fresh(x, last_flags));
        return;
    }
    oc_op op = rp_blank_op(x);
    bool used[RP_MAX_BUFFERS] = {false};
    if (rp_chance(g, 25)) {
        op.pred = x->flags[rp_below(g, x->n_flags)];
        op.pred_index = rp_below(g, 16);
    }
    oc_plan_op(x->b, &op);
    if (op.pred != OC_NO_BUFFER) {
        oc_plan_access(x->b, OC_ROLE_CELLS_IN, OC_READ, op.pred, 0, 1, x->now[op.pred][0], rp_none);
        used[op.pred] = true;
    }
    for (uint32_t i = 0, n = 1 + rp_below(g, 3); i < n; i++) {
        uint32_t id = rp_below(g, x->n_buffers);
        uint32_t alias = oc_plan_buffer_at(x->b, id)->alias;
        bool busy = used[id];
        for (uint32_t j = 0; alias && j < x->n_buffers; j++)
            busy |= used[j] && oc_plan_buffer_at(x->b, j)->alias == alias;
        if (busy) continue;
        used[id] = true;
        if (rp_is_flags(x, id))
            oc_plan_access(x->b, OC_ROLE_CELLS_IN, OC_READ, id, 0, 1, x->now[id][0], rp_none);
        else
            rp_random_access(x, id, (oc_role)(OC_ROLE_SRC + rp_below(g, 5)));
    }
}

/* Homes that were changed end at version 1, as a plan's must. */
static inline void rp_settle(rp_builder *x) {
    for (uint32_t id = 0; id < x->n_buffers; id++) {
        const oc_buffer *b = oc_plan_buffer_at(x->b, id);
        if (b->life != OC_LIFE_CARRIED) continue;
        bool dirty = false;
        for (uint32_t p = 0; p < b->pieces; p++)
            dirty |= !oc_value_equal(x->now[id][p], rp_home(id, 0));
        if (!dirty) continue;
        if (rp_is_flags(x, id)) {
            rp_flag_op(x, id, rp_home(id, 1));
            continue;
        }
        for (uint32_t p = 0; p < b->pieces; p++) {
            oc_op op = rp_blank_op(x);
            oc_plan_op(x->b, &op);
            oc_plan_access(x->b, OC_ROLE_DST, OC_FOLD, id, p, 1, x->now[id][p], rp_home(id, 1));
            rp_set(x, id, p, 1, rp_home(id, 1));
        }
    }
}

static inline void rp_add_plan(rp_builder *x, uint32_t n_ops, const char *name) {
    oc_plan_begin(x->b, name);
    x->fresh = 0;
    for (uint32_t id = 0; id < x->n_buffers; id++)
        for (uint32_t p = 0; p < RP_MAX_PIECES; p++)
            x->now[id][p] = oc_plan_buffer_at(x->b, id)->initial;
    for (uint32_t i = 0; i < n_ops; i++)
        rp_random_op(x);
    rp_settle(x);
}

/* NULL and *err on failure. */
static inline oc_plan_set *rp_make(rp_rng *g, const rp_limits *lim, oc_error *err) {
    rp_builder x;
    memset(&x, 0, sizeof x);
    x.rng = g;
    x.piece_bytes = lim->piece_bytes;
    if (oc_plan_builder_new(&x.b, err) != OC_OK) return NULL;
    for (uint16_t l = 0; l < OC_LANE_COUNT; l++) {
        uint32_t at = rp_below(g, l + 1u); /* a random permutation */
        x.lanes[l] = x.lanes[at];
        x.lanes[at] = l;
    }
    x.n_lanes = 2 + rp_below(g, lim->max_lanes - 1);
    rp_add_buffers(&x);
    static const char *const names[] = {"p0", "p1", "p2", "p3"};
    for (uint32_t p = 0, n = 1 + rp_below(g, lim->max_plans); p < n; p++)
        rp_add_plan(&x, lim->min_ops + rp_below(g, lim->max_ops - lim->min_ops + 1), names[p]);
    oc_plan_set *s = NULL;
    if (oc_plan_finish(x.b, &s, err) != OC_OK) s = NULL;
    oc_plan_builder_free(x.b);
    return s;
}

/* ---- memory and the sequential reference ---- */

typedef struct rp_memory {
    void *bases[OC_TIER_COUNT];
    uint64_t bytes[OC_TIER_COUNT];
} rp_memory;

static inline void rp_memory_init(rp_memory *m, const oc_plan_set *s, uint64_t seed) {
    rp_rng g = {seed};
    for (int t = 0; t < OC_TIER_COUNT; t++) {
        m->bytes[t] = oc_align_up(s->arena_bytes[t] + 1, 4096);
        m->bases[t] = aligned_alloc(4096, (size_t)m->bytes[t]);
        uint64_t *p = m->bases[t];
        for (uint64_t i = 0; p && i < m->bytes[t] / 8; i++)
            p[i] = rp_next(&g);
    }
}

static inline void rp_memory_release(rp_memory *m) {
    for (int t = 0; t < OC_TIER_COUNT; t++)
        free(m->bases[t]);
}

static inline bool rp_memory_equal(const rp_memory *a, const rp_memory *b) {
    for (int t = 0; t < OC_TIER_COUNT; t++)
        if (memcmp(a->bases[t], b->bases[t], (size_t)a->bytes[t]) != 0) return false;
    return true;
}

static inline void *rp_copy_at(const oc_plan_set *s, void *const *bases, uint32_t id,
                               uint32_t copy) {
    const oc_buffer *b = &s->buffers[id];
    uint64_t at = b->offset;
    if (b->life == OC_LIFE_SUBMISSION) at += copy * oc_align_up(b->bytes, 64);
    return (uint8_t *)bases[b->tier] + at;
}

static inline void rp_fill_words(uint32_t *p, uint64_t bytes, uint64_t seed) {
    rp_rng g = {seed};
    for (uint64_t i = 0; i < bytes / 4; i++)
        p[i] = (uint32_t)(rp_next(&g) & 1);
}

/* What the session writes into the SUBMISSION cells before submission `n`. */
static inline void rp_fill_cells(const oc_plan_set *s, void *const *bases, uint32_t copy,
                                 uint64_t seed, uint32_t n) {
    for (uint32_t id = 0; id < s->n_buffers; id++)
        if (s->buffers[id].life == OC_LIFE_SUBMISSION)
            rp_fill_words(rp_copy_at(s, bases, id, copy), s->buffers[id].bytes,
                          seed * 31 + n * 7 + id);
}

/* Run the plans one after another, op by op in program order, in this thread. */
static inline void rp_reference(const oc_plan_set *s, void *const *bases, const uint32_t *order,
                                uint32_t n, uint64_t seed) {
    for (uint32_t k = 0; k < n; k++) {
        const oc_plan *p = &s->plans[order[k]];
        uint32_t copy = k % 2;
        rp_fill_cells(s, bases, copy, seed, k);
        for (uint32_t i = 0; i < p->n_ops; i++) {
            const oc_op *o = &p->ops[i];
            if (o->pred != OC_NO_BUFFER) {
                const uint32_t *cell = rp_copy_at(s, bases, o->pred, copy);
                if (!cell[o->pred_index]) continue;
            }
            oc_task t = {.set = s,
                         .plan = p,
                         .op = o,
                         .accesses = p->accesses + o->first_access,
                         .bases = bases,
                         .copy = copy};
            oc_error e;
            (void)!rp_bodies[o->body](&t, &e);
        }
    }
}

/* ---- happens-before, the slow and obvious way ---- */

enum { RP_MAX_NODES = 512 };

typedef struct rp_order { /* before[i]: bits of the ops that are certainly done when i starts */
    uint64_t before[RP_MAX_NODES][RP_MAX_NODES / 64];
} rp_order;

static inline void rp_edge(rp_order *o, uint32_t from, uint32_t to) {
    for (uint32_t w = 0; w < RP_MAX_NODES / 64; w++)
        o->before[to][w] |= o->before[from][w];
    o->before[to][from / 64] |= 1ull << (from % 64);
}

static inline bool rp_is_before(const rp_order *o, uint32_t from, uint32_t to) {
    return o->before[to][from / 64] >> (from % 64) & 1;
}

static inline uint32_t rp_find(const oc_plan *p, uint32_t lane, uint32_t seq) {
    for (uint32_t i = 0, n = 0; i < p->n_ops; i++)
        if (p->ops[i].lane == lane && ++n == seq) return i;
    return UINT32_MAX;
}

static inline bool rp_conflict(const oc_plan_set *s, const oc_access *a, const oc_access *b,
                               bool other_plan) {
    if (a->mode == OC_READ && b->mode == OC_READ) return false;
    const oc_buffer *x = &s->buffers[a->buffer], *y = &s->buffers[b->buffer];
    if (x->alias && x->alias == y->alias) return true;
    if (a->buffer != b->buffer) return false;
    if (other_plan && x->life == OC_LIFE_SUBMISSION) return false;
    return a->first < b->first + b->count && b->first < a->first + a->count;
}

/* Nodes: a's ops, then b's. */
static inline bool rp_build_order(const oc_plan_set *s, uint32_t ia, uint32_t ib, rp_order *o) {
    const oc_plan *plans[2] = {&s->plans[ia], &s->plans[ib]};
    uint32_t n_a = plans[0]->n_ops, last[OC_LANE_COUNT];
    memset(o, 0, sizeof *o);
    memset(last, 0xff, sizeof last);
    for (uint32_t k = 0; k < 2; k++) {
        const oc_plan *p = plans[k];
        uint32_t base = k ? n_a : 0;
        for (uint32_t i = 0; i < p->n_ops; i++) {
            const oc_op *op = &p->ops[i];
            if (last[op->lane] != UINT32_MAX) rp_edge(o, last[op->lane], base + i);
            last[op->lane] = base + i;
            for (uint32_t w = 0; w < op->n_waits; w++) {
                const oc_wait *x = &p->waits[op->first_wait + w];
                uint32_t from = rp_find(p, x->lane, x->seq);
                if (from == UINT32_MAX || from >= i) return false;
                rp_edge(o, base + from, base + i);
            }
            for (uint32_t w = 0; k && w < s->n_pairs[ia][ib]; w++) {
                const oc_wait *x = &s->pairs[ia][ib][w];
                if (x->op != i) continue;
                uint32_t from = rp_find(plans[0], x->lane, x->seq);
                if (from == UINT32_MAX) return false;
                rp_edge(o, from, base + i);
            }
        }
    }
    return true;
}

static inline bool rp_pair_ordered(const oc_plan_set *s, uint32_t ia, uint32_t ib, rp_order *o) {
    if (!rp_build_order(s, ia, ib, o)) return false;
    const oc_plan *a = &s->plans[ia], *b = &s->plans[ib];
    uint32_t n = a->n_ops + b->n_ops;
    for (uint32_t j = 0; j < n; j++) {
        const oc_plan *pj = j < a->n_ops ? a : b;
        const oc_op *oj = &pj->ops[j < a->n_ops ? j : j - a->n_ops];
        for (uint32_t i = 0; i < j; i++) {
            if (rp_is_before(o, i, j)) continue;
            const oc_plan *pi = i < a->n_ops ? a : b;
            const oc_op *oi = &pi->ops[i < a->n_ops ? i : i - a->n_ops];
            bool cross = (i < a->n_ops) != (j < a->n_ops);
            for (uint32_t x = 0; x < oi->n_accesses; x++)
                for (uint32_t y = 0; y < oj->n_accesses; y++)
                    if (rp_conflict(s, &pi->accesses[oi->first_access + x],
                                    &pj->accesses[oj->first_access + y], cross))
                        return false;
        }
    }
    return true;
}

/* Is every pair of conflicting accesses ordered, in every plan and every ordered pair of plans? */
static inline bool rp_all_ordered(const oc_plan_set *s) {
    static rp_order o;
    for (uint32_t a = 0; a < s->n_plans; a++)
        for (uint32_t b = 0; b < s->n_plans; b++)
            if (!rp_pair_ordered(s, a, b, &o)) return false;
    return true;
}

#endif
