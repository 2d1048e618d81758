/* passes.c - rewrites of a plan set, and questions about its memory. */
#include "plan/internal.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

/* ---- poison: after the last reader of a transient value that nobody was promised, an op that
 * destroys it ---- */

typedef struct grave {
    uint32_t next; /* of the same op; UINT32_MAX: none */
    oc_buffer_id buffer;
    uint32_t piece;
} grave;

typedef struct last_use {
    uint32_t op; /* index + 1; 0: none yet */
    bool read;   /* the value there has had a reader */
    bool promised;
} last_use;

typedef struct graveyard {
    const oc_plan_set *s;
    const oc_plan *p;
    uint32_t *base; /* per buffer: its first piece in uses */
    last_use *uses;
    uint32_t *head; /* per op */
    grave *graves;
    uint32_t n, capacity;
} graveyard;

static bool bury(graveyard *g, uint32_t op, oc_buffer_id buffer, uint32_t piece) {
    if (g->n == g->capacity) {
        uint32_t capacity = g->capacity ? 2 * g->capacity : 256;
        grave *more = realloc(g->graves, capacity * sizeof *more);
        if (!more) return false;
        g->graves = more;
        g->capacity = capacity;
    }
    g->graves[g->n] = (grave){g->head[op], buffer, piece};
    g->head[op] = g->n++;
    return true;
}

/* Grouped buffers are left alone: a group's members take turns in the same bytes. */
static bool dies(const oc_buffer *b) { return b->life == OC_LIFE_TRANSIENT && !b->alias; }

static bool collect_access(graveyard *g, uint32_t op, const oc_access *a) {
    if (!dies(&g->s->buffers[a->buffer])) return true;
    for (uint32_t q = a->first; q < a->first + a->count; q++) {
        last_use *u = &g->uses[g->base[a->buffer] + q];
        bool ends = a->mode == OC_WRITE && u->op && u->read && u->op - 1 != op;
        if (ends && !bury(g, u->op - 1, a->buffer, q)) return false;
        u->op = op + 1;
        u->read = a->mode != OC_WRITE;
    }
    return true;
}

static void mark_promises(graveyard *g) {
    for (uint32_t i = 0; i < g->p->n_ends; i++) {
        const oc_holding *h = &g->p->ends[i];
        for (uint32_t q = h->first; q < h->first + h->count; q++)
            g->uses[g->base[h->buffer] + q].promised = true;
    }
}

static bool collect(graveyard *g) {
    mark_promises(g);
    for (uint32_t i = 0; i < g->p->n_ops; i++) {
        const oc_op *op = &g->p->ops[i];
        g->head[i] = UINT32_MAX;
        for (uint32_t k = 0; k < op->n_accesses; k++)
            if (!collect_access(g, i, &g->p->accesses[op->first_access + k])) return false;
    }
    for (uint32_t b = 0; b < g->s->n_buffers; b++)
        for (uint32_t q = 0; q < g->s->buffers[b].pieces; q++) {
            const last_use *u = &g->uses[g->base[b] + q];
            bool dead = u->op && u->read && !u->promised;
            if (dead && !bury(g, u->op - 1, b, q)) return false;
        }
    return true;
}

/* The plan again, each op followed by the poison op of what dies with it (one op, an access a
 * piece). */
static oc_status rewrite(const graveyard *g, oc_plan *p, uint16_t body, oc_error *err) {
    oc_op *ops = malloc((2 * (size_t)p->n_ops + 1) * sizeof *ops);
    oc_access *acc = malloc(((size_t)p->n_accesses + g->n + 1) * sizeof *acc);
    if (!ops || !acc) {
        free(ops);
        free(acc);
        return oc_fail(err, OC_E_MEMORY, "no memory for the poison pass");
    }
    uint32_t n_ops = 0, n_acc = 0;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const oc_op *op = &p->ops[i];
        ops[n_ops] = *op;
        ops[n_ops++].first_access = n_acc;
        memcpy(acc + n_acc, p->accesses + op->first_access, op->n_accesses * sizeof *acc);
        n_acc += op->n_accesses;
        if (g->head[i] == UINT32_MAX) continue;
        oc_op *poison = &ops[n_ops++];
        *poison = (oc_op){.kind = OC_OP_POISON,
                          .lane = op->lane,
                          .body = body,
                          .micro = op->micro,
                          .block = op->block,
                          .piece = UINT32_MAX,
                          .pieces = 1,
                          .blocks = 1,
                          .pred = OC_NO_BUFFER,
                          .index = OC_NO_BUFFER,
                          .first_access = n_acc};
        for (uint32_t k = g->head[i]; k != UINT32_MAX; k = g->graves[k].next) {
            acc[n_acc++] = (oc_access){g->graves[k].buffer, g->graves[k].piece,    1,  OC_WRITE,
                                       OC_ROLE_DST,         {.what = OC_V_POISON}, {0}};
            poison->n_accesses++;
        }
    }
    free(p->ops);
    free(p->accesses);
    p->ops = ops;
    p->n_ops = n_ops;
    p->accesses = acc;
    p->n_accesses = n_acc;
    return OC_OK;
}

static oc_status poison_plan(const oc_plan_set *s, oc_plan *p, uint16_t body, oc_error *err) {
    graveyard g = {.s = s, .p = p};
    uint32_t pieces = 0;
    g.base = calloc(s->n_buffers + 1u, sizeof *g.base);
    for (uint32_t b = 0; g.base && b < s->n_buffers; b++) {
        g.base[b] = pieces;
        pieces += s->buffers[b].pieces;
    }
    g.uses = calloc(pieces + 1u, sizeof *g.uses);
    g.head = calloc(p->n_ops + 1u, sizeof *g.head);
    bool ok = g.base && g.uses && g.head && collect(&g);
    oc_status st =
        ok ? rewrite(&g, p, body, err) : oc_fail(err, OC_E_MEMORY, "no memory for the poison pass");
    free(g.graves);
    free(g.head);
    free(g.uses);
    free(g.base);
    return st;
}

oc_status oc_plan_add_poison(oc_plan_set *s, uint16_t poison_body, oc_error *err) {
    for (uint32_t i = 0; i < s->n_plans; i++)
        OC_TRY(poison_plan(s, &s->plans[i], poison_body, err));
    return oc_plan_derive(s, err);
}

/* ---- lower bound ---- */

/* A value of a transient buffer lives from the op that writes it to its last reader. Slots, slabs
 * and stages are held throughout on purpose (so that transfers run ahead), and what no op of any
 * plan touches is lent. */
static bool held(const oc_buffer *b, bool used) {
    if (b->life != OC_LIFE_TRANSIENT || !used) return true;
    bool pool = b->use == OC_USE_WEIGHTS || b->use == OC_USE_GRADIENTS || b->use == OC_USE_STAGING;
    return pool && !b->alias;
}

typedef struct lifetime {
    uint32_t start, last; /* op indices of the value that is there now */
    bool touched;
} lifetime;

/* Bytes live at each op, as differences. */
static void end_life(const oc_buffer *b, const lifetime *x, int64_t *delta) {
    if (!x->touched) return;
    delta[x->start] += (int64_t)b->bytes;
    delta[x->last + 1] -= (int64_t)b->bytes;
}

static void live_bytes(const oc_plan_set *s, const oc_plan *p, oc_tier tier, lifetime *lives,
                       int64_t *delta) {
    for (uint32_t i = 0; i < p->n_ops; i++)
        for (uint32_t k = 0; k < p->ops[i].n_accesses; k++) {
            const oc_access *a = &p->accesses[p->ops[i].first_access + k];
            const oc_buffer *b = &s->buffers[a->buffer];
            lifetime *x = &lives[a->buffer];
            if (b->tier != tier) continue;
            if (!held(b, true) && a->mode == OC_WRITE && b->pieces == 1) {
                end_life(b, x, delta);
                x->start = i;
            } else if (!x->touched) {
                x->start = i;
            }
            x->touched = true;
            x->last = i;
        }
}

static void mark_used(const oc_plan_set *s, bool *used) {
    for (uint32_t p = 0; p < s->n_plans; p++)
        for (uint32_t i = 0; i < s->plans[p].n_accesses; i++)
            used[s->plans[p].accesses[i].buffer] = true;
}

static uint64_t peak_of(const oc_plan_set *s, const oc_plan *p, oc_tier tier, const bool *used,
                        lifetime *lives, int64_t *delta) {
    memset(lives, 0, s->n_buffers * sizeof *lives);
    memset(delta, 0, (p->n_ops + 2u) * sizeof *delta);
    for (uint32_t i = 0; i < p->n_starts; i++)
        lives[p->starts[i].buffer].touched = true;
    live_bytes(s, p, tier, lives, delta);
    for (uint32_t i = 0; i < p->n_ends && p->n_ops; i++)
        lives[p->ends[i].buffer].last = p->n_ops - 1;
    int64_t always = 0;
    for (uint32_t b = 0; b < s->n_buffers; b++) {
        const oc_buffer *x = &s->buffers[b];
        if (x->tier != tier) continue;
        int64_t copies = x->life == OC_LIFE_SUBMISSION ? 2 : 1;
        if (held(x, used[b]))
            always += copies * (int64_t)x->bytes;
        else
            end_life(x, &lives[b], delta);
    }
    int64_t now = 0, peak = 0;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        now += delta[i];
        if (now > peak) peak = now;
    }
    return (uint64_t)(always + peak);
}

uint64_t oc_plan_lower_bound(const oc_plan_set *s, oc_tier tier) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < s->n_plans; i++)
        if (s->plans[i].n_ops > most) most = s->plans[i].n_ops;
    lifetime *lives = calloc(s->n_buffers + 1u, sizeof *lives);
    int64_t *delta = calloc(most + 2u, sizeof *delta);
    bool *used = calloc(s->n_buffers + 1u, sizeof *used);
    uint64_t peak = 0;
    bool starved = !lives || !delta || !used;
    if (used) mark_used(s, used);
    for (uint32_t i = 0; lives && delta && used && i < s->n_plans; i++)
        peak = oc_max_u64(peak, peak_of(s, &s->plans[i], tier, used, lives, delta));
    free(used);
    free(lives);
    free(delta);
    return starved ? UINT64_MAX : peak;
}
