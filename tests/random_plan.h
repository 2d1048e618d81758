/* random_plan.h - random correct plan sets for tests, bodies that expose any wrong order, and a
 * sequential reference.
 *
 * A set is built by playing a random program: the generator knows the value in every piece, so each
 * read names what is there. Bodies hash every byte they read into every byte they write; two orders
 * of conflicting ops cannot end in the same bytes.
 *
 * Contracts: homes are there at the start and the end of every plan; a plan may also take over, or
 * leave, the content of one transient buffer (rp_builder.kept). Which plan follows which is chosen
 * among those that fit. */
#ifndef RANDOM_PLAN_H
#define RANDOM_PLAN_H

#include "base/checked.h"
#include "plan/plan.h"
#include "run/run.h"
#include "toy_queues.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RP_MAX_BUFFERS = 24, RP_MAX_PIECES = 5, RP_MAX_SUBMISSIONS = 6, RP_MAX_PLANS = 4 };
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

static inline oc_status rp_mix_now(const oc_task *t, oc_error *err) {
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
static inline oc_status rp_flags_now(const oc_task *t, oc_error *err) {
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

static inline oc_status rp_poison_now(const oc_task *t, oc_error *err) {
    (void)err;
    for (uint32_t i = 0; i < t->op->n_accesses; i++)
        memset(oc_task_address(t, &t->accesses[i]), 0xdb, oc_task_bytes(t, &t->accesses[i]));
    return OC_OK;
}

static inline oc_status rp_mix(const oc_task *t, oc_error *err) {
    return toy_issue(t, rp_mix_now, err);
}
static inline oc_status rp_flags(const oc_task *t, oc_error *err) {
    return toy_issue(t, rp_flags_now, err);
}
static inline oc_status rp_poison(const oc_task *t, oc_error *err) {
    return toy_issue(t, rp_poison_now, err);
}

static oc_body *const rp_bodies[RP_BODIES] = {rp_mix, rp_flags, rp_poison};

/* ---- generator ---- */

typedef struct rp_limits {
    uint32_t max_plans, min_ops, max_ops, max_lanes;
    uint32_t piece_bytes; /* multiple of 64; flags have one piece of 64 */
} rp_limits;

/* Kinds of values. Homes are of two kinds, which a plan may move by different numbers of versions.
 */
enum { RP_FRESH = OC_V_USER, RP_HOME, RP_OTHER_HOME, RP_KEPT };

typedef struct rp_builder {
    rp_rng *rng;
    oc_plan_builder *b;
    uint32_t n_buffers;
    oc_value now[RP_MAX_BUFFERS][RP_MAX_PIECES];
    bool maybe[RP_MAX_BUFFERS][RP_MAX_PIECES]; /* a predicate may have kept it from being written */
    bool may_skip;                             /* of the op at hand */
    uint32_t flags[RP_MAX_BUFFERS], n_flags;   /* buffers of words that are 0 or 1 */
    uint32_t kept;                             /* the transient buffer that contracts may name */
    uint8_t advance[OC_V_COUNT];               /* of the plan at hand */
    uint32_t fresh;
    uint16_t lanes[OC_LANE_COUNT];
    uint32_t n_lanes, piece_bytes;
} rp_builder;

static const oc_value rp_none;

/* What piece 0 of a home holds. */
static inline oc_value rp_home(uint32_t buffer, uint16_t version) {
    return (oc_value){
        .what = buffer % 2 ? RP_HOME : RP_OTHER_HOME, .version = version, .block = buffer};
}

static inline oc_value rp_fresh(rp_builder *x, uint32_t buffer) {
    x->fresh++;
    return (oc_value){.what = RP_FRESH,
                      .micro = (uint16_t)x->fresh,
                      .block = buffer,
                      .piece = rp_below(x->rng, 3)};
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
    x->kept = x->n_buffers;
    for (uint32_t i = 0, n = 1 + rp_below(g, 4); i < n; i++)
        rp_add_buffer(x, OC_LIFE_TRANSIENT, 0, false);
    if (rp_chance(g, 50))
        for (uint32_t i = 0, n = 2 + rp_below(g, 2); i < n; i++)
            rp_add_buffer(x, OC_LIFE_TRANSIENT, 7, false);
    for (uint32_t i = 0, n = 1 + rp_below(g, 2); i < n; i++)
        rp_add_buffer(x, OC_LIFE_SUBMISSION, 0, true);
    if (rp_chance(g, 60)) rp_add_buffer(x, OC_LIFE_CARRIED, 0, true);
}

/* A range of pieces whose values are one access's. */
static inline void rp_same_range(rp_builder *x, uint32_t id, uint32_t *first, uint32_t *count) {
    uint32_t pieces = oc_plan_buffer_at(x->b, id)->pieces;
    *first = rp_below(x->rng, pieces);
    uint32_t most = 1 + rp_below(x->rng, pieces);
    oc_value v = x->now[id][*first];
    *count = 1;
    while (*count < most && *first + *count < pieces &&
           oc_value_equal(oc_value_at(v, *first, *first + *count), x->now[id][*first + *count]))
        ++*count;
}

static inline void rp_set(rp_builder *x, uint32_t id, uint32_t first, uint32_t count, oc_value v) {
    uint32_t alias = oc_plan_buffer_at(x->b, id)->alias;
    for (uint32_t j = 0; alias && j < x->n_buffers; j++)
        if (j != id && oc_plan_buffer_at(x->b, j)->alias == alias)
            for (uint32_t p = 0; p < RP_MAX_PIECES; p++)
                x->now[j][p] = rp_none;
    for (uint32_t p = first; p < first + count; p++)
        x->now[id][p] = oc_value_at(v, first, p);
}

static inline void rp_write(rp_builder *x, oc_role role, uint32_t id, uint32_t first,
                            uint32_t count, oc_value v) {
    oc_plan_access(x->b, role, OC_WRITE, id, first, count, v, rp_none);
    rp_set(x, id, first, count, v);
    for (uint32_t p = first; p < first + count; p++)
        x->maybe[id][p] = x->may_skip;
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
        rp_write(x, role, id, first, count, v);
        return;
    }
    oc_value v = rp_fresh(x, id);
    if (readable && rp_chance(g, 40)) {
        oc_plan_access(x->b, role, OC_FOLD, id, first, count, was, v);
        rp_set(x, id, first, count, v);
        return;
    }
    rp_write(x, role, id, first, 1 + rp_below(g, b->pieces - first), v);
}

static inline oc_op rp_blank_op(rp_builder *x) {
    return (oc_op){.kind = (uint16_t)rp_below(x->rng, OC_OP_UPDATE),
                   .lane = x->lanes[rp_below(x->rng, x->n_lanes)],
                   .always = rp_chance(x->rng, 10),
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
    uint32_t flags = x->flags[rp_below(g, x->n_flags)];
    if (rp_chance(g, 8)) {
        rp_flag_op(x, flags, rp_fresh(x, flags));
        return;
    }
    oc_op op = rp_blank_op(x);
    bool used[RP_MAX_BUFFERS] = {false};
    if (rp_chance(g, 25)) {
        op.pred = x->flags[rp_below(g, x->n_flags)];
        op.pred_index = rp_below(g, 16);
    }
    x->may_skip = op.pred != OC_NO_BUFFER;
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

/* Every piece of a buffer comes to hold what a contract says: `goal` for piece 0. */
static inline void rp_settle(rp_builder *x, uint32_t id, oc_value goal) {
    const oc_buffer *b = oc_plan_buffer_at(x->b, id);
    for (uint32_t p = 0; p < b->pieces; p++) {
        oc_value want = oc_value_at(goal, 0, p), was = x->now[id][p];
        if (oc_value_equal(was, want)) continue;
        if (rp_is_flags(x, id)) {
            rp_flag_op(x, id, want);
            continue;
        }
        oc_op op = rp_blank_op(x);
        x->may_skip = false;
        oc_plan_op(x->b, &op);
        if (was.what == OC_V_NONE || x->maybe[id][p] || rp_chance(x->rng, 20)) {
            rp_write(x, OC_ROLE_DST, id, p, 1, want);
            continue;
        }
        oc_plan_access(x->b, OC_ROLE_DST, OC_FOLD, id, p, 1, was, want);
        rp_set(x, id, p, 1, want);
    }
}

static inline oc_value rp_kept(const rp_builder *x, uint16_t version) {
    return (oc_value){.what = RP_KEPT, .version = version, .block = x->kept};
}

static inline bool rp_is_home(const rp_builder *x, uint32_t id) {
    return oc_plan_buffer_at(x->b, id)->life == OC_LIFE_CARRIED;
}

/* What the plan finds: into the contract, and into `now`. */
static inline void rp_start(rp_builder *x, bool keeps) {
    x->fresh = 0;
    memset(x->now, 0, sizeof x->now);
    memset(x->maybe, 0, sizeof x->maybe);
    for (uint32_t id = 0; id < x->n_buffers; id++) {
        const oc_buffer *b = oc_plan_buffer_at(x->b, id);
        if (b->life == OC_LIFE_TRANSIENT) continue;
        rp_set(x, id, 0, b->pieces, b->initial);
        if (rp_is_home(x, id)) oc_plan_starts(x->b, id, 0, UINT32_MAX, b->initial);
    }
    if (!keeps) return;
    rp_set(x, x->kept, 0, oc_plan_buffer_at(x->b, x->kept)->pieces, rp_kept(x, 0));
    oc_plan_starts(x->b, x->kept, 0, UINT32_MAX, rp_kept(x, 0));
}

static inline void rp_end(rp_builder *x, bool keeps) {
    for (uint32_t id = 0; id < x->n_buffers; id++) {
        if (!rp_is_home(x, id)) continue;
        oc_value v = rp_home(id, x->advance[rp_home(id, 0).what]);
        rp_settle(x, id, v);
        oc_plan_ends(x->b, id, 0, UINT32_MAX, v);
    }
    if (!keeps) return;
    rp_settle(x, x->kept, rp_kept(x, x->advance[RP_KEPT]));
    oc_plan_ends(x->b, x->kept, 0, UINT32_MAX, rp_kept(x, x->advance[RP_KEPT]));
}

static inline void rp_add_plan(rp_builder *x, uint32_t n_ops, const char *name, bool starts_kept,
                               bool ends_kept) {
    oc_plan_begin(x->b, name);
    for (uint32_t w = RP_HOME; w <= RP_KEPT; w++) {
        x->advance[w] = (uint8_t)rp_below(x->rng, 3);
        oc_plan_advances(x->b, (oc_what)w, x->advance[w]);
    }
    rp_start(x, starts_kept);
    for (uint32_t i = 0; i < n_ops; i++)
        rp_random_op(x);
    rp_end(x, ends_kept);
}

/* Plans that fit one behind the other, most of them. */
static inline void rp_add_plans(rp_builder *x, const rp_limits *lim) {
    static const char *const names[RP_MAX_PLANS] = {"p0", "p1", "p2", "p3"};
    bool starts[RP_MAX_PLANS], ends[RP_MAX_PLANS];
    uint32_t n = 1 + rp_below(x->rng, lim->max_plans);
    for (uint32_t p = 0; p < n; p++) {
        starts[p] = p && rp_chance(x->rng, 40);
        ends[p] = rp_chance(x->rng, 40);
        uint32_t n_ops = lim->min_ops + rp_below(x->rng, lim->max_ops - lim->min_ops + 1);
        rp_add_plan(x, n_ops, names[p], starts[p], ends[p]);
    }
    for (uint32_t a = 0; a < n; a++) {
        if (!starts[a] && (a == 0 || rp_chance(x->rng, 70))) oc_plan_follows(x->b, OC_NO_PLAN, a);
        for (uint32_t b = 0; b < n; b++)
            if ((!starts[b] || ends[a]) && rp_chance(x->rng, 85)) oc_plan_follows(x->b, a, b);
    }
}

static inline void rp_choose_lanes(rp_builder *x, uint32_t max_lanes) {
    for (uint16_t l = 0; l < OC_LANE_COUNT; l++) {
        uint32_t at = rp_below(x->rng, l + 1u); /* a random permutation */
        x->lanes[l] = x->lanes[at];
        x->lanes[at] = l;
        if (rp_chance(x->rng, 35)) oc_plan_unordered(x->b, (oc_lane)l);
    }
    x->n_lanes = 2 + rp_below(x->rng, max_lanes - 1);
}

/* NULL and *err on failure. */
static inline oc_plan_set *rp_make(rp_rng *g, const rp_limits *lim, oc_error *err) {
    rp_builder x;
    memset(&x, 0, sizeof x);
    x.rng = g;
    x.piece_bytes = lim->piece_bytes;
    if (oc_plan_builder_new(&x.b, err) != OC_OK) return NULL;
    rp_choose_lanes(&x, lim->max_lanes);
    rp_add_buffers(&x);
    rp_add_plans(&x, lim);
    oc_plan_set *s = NULL;
    if (oc_plan_finish(x.b, &s, err) != OC_OK) s = NULL;
    oc_plan_builder_free(x.b);
    return s;
}

/* A random walk over the successions that the set lists; returns its length. */
static inline uint32_t rp_walk(rp_rng *g, const oc_plan_set *s,
                               uint32_t order[RP_MAX_SUBMISSIONS]) {
    uint32_t n = 0, most = 1 + rp_below(g, RP_MAX_SUBMISSIONS);
    while (n < most) {
        uint32_t legal[OC_MAX_PLANS], n_legal = 0;
        for (uint32_t p = 0; p < s->n_plans; p++)
            if (n ? s->follows[order[n - 1]][p] : s->opens[p]) legal[n_legal++] = p;
        if (n_legal == 0) break;
        order[n++] = legal[rp_below(g, n_legal)];
    }
    return n;
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

#endif
