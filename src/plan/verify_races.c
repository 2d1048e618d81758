/* verify_races.c - every two conflicting accesses are ordered. Per entity and lane: the number of
 * the last write and of the last read; an access must know, by lane order and waits, of every
 * earlier conflicting one. Each plan is played, and after it each that may follow. */
#include "plan/verify.h"

#include <stdlib.h>
#include <string.h>

typedef uint32_t clock_row[OC_LANE_COUNT];

typedef struct cell_clock {
    clock_row write, read;
} cell_clock;

typedef struct player {
    const oc_verifier *v;
    cell_clock *cells;
    uint32_t base[OC_LANE_COUNT];   /* ops of the plan before, per lane */
    clock_row known[OC_LANE_COUNT]; /* when the lane's next op is issued */
    clock_row *done[OC_LANE_COUNT]; /* by number over both plans: what its end tells */
} player;

static void row_max(clock_row a, const clock_row b) {
    for (int l = 0; l < OC_LANE_COUNT; l++)
        if (b[l] > a[l]) a[l] = b[l];
}

/* The other copy of a SUBMISSION buffer: what the earlier plan did to it does not matter. */
static uint32_t in_this_plan(const player *r, uint32_t lane, uint32_t number) {
    return number > r->base[lane] ? number : 0;
}

static bool ordered(const player *r, const oc_access *a, const cell_clock *c,
                    const clock_row known) {
    bool fresh = r->v->s->buffers[a->buffer].life == OC_LIFE_SUBMISSION;
    for (uint32_t l = 0; l < OC_LANE_COUNT; l++) {
        uint32_t w = c->write[l], d = a->mode == OC_READ ? 0 : c->read[l];
        if (fresh) {
            w = in_this_plan(r, l, w);
            d = in_this_plan(r, l, d);
        }
        if (w > known[l] || d > known[l]) return false;
    }
    return true;
}

static oc_status check(const player *r, const oc_plan *p, const oc_op *op, const clock_row known) {
    const oc_entities *e = &r->v->e;
    for (uint32_t k = 0; k < op->n_accesses; k++) {
        const oc_access *a = &p->accesses[op->first_access + k];
        uint32_t n = e->grouped[a->buffer] ? 1 : a->count;
        uint32_t first = e->base[a->buffer] + (e->grouped[a->buffer] ? 0 : a->first);
        for (uint32_t i = first; i < first + n; i++)
            if (!ordered(r, a, &r->cells[i], known))
                return oc_verify_refuse(r->v, p, op, a, "races with an earlier access");
    }
    return OC_OK;
}

static void note(const player *r, const oc_plan *p, const oc_op *op, uint32_t number) {
    const oc_entities *e = &r->v->e;
    for (uint32_t k = 0; k < op->n_accesses; k++) {
        const oc_access *a = &p->accesses[op->first_access + k];
        uint32_t n = e->grouped[a->buffer] ? 1 : a->count;
        uint32_t first = e->base[a->buffer] + (e->grouped[a->buffer] ? 0 : a->first);
        for (uint32_t i = first; i < first + n; i++)
            (a->mode == OC_READ ? r->cells[i].read : r->cells[i].write)[op->lane] = number;
    }
}

static oc_status play(player *r, const oc_plan *p, const oc_wait *cross, uint32_t n_cross) {
    uint32_t c = 0;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const oc_op *op = &p->ops[i];
        uint32_t *known = r->known[op->lane];
        for (uint32_t k = 0; k < op->n_waits; k++) {
            const oc_wait *w = &p->waits[op->first_wait + k];
            row_max(known, r->done[w->lane][r->base[w->lane] + w->seq - 1]);
        }
        for (; c < n_cross && cross[c].op == i; c++) {
            if (cross[c].lane >= OC_LANE_COUNT || cross[c].seq == 0 ||
                cross[c].seq > r->base[cross[c].lane])
                return oc_verify_refuse(r->v, p, op, NULL,
                                        "waits for an op the plan before does not have");
            row_max(known, r->done[cross[c].lane][cross[c].seq - 1]);
        }
        OC_TRY(check(r, p, op, known));
        uint32_t number = r->base[op->lane] + op->seq;
        note(r, p, op, number);
        uint32_t *done = r->done[op->lane][number - 1];
        memcpy(done, known, sizeof(clock_row));
        done[op->lane] = number;
        if (!r->v->s->unordered[op->lane]) known[op->lane] = number;
    }
    if (c != n_cross)
        return oc_fail(r->v->err, OC_E_PLAN, "plan %s: pair waits out of order", p->name);
    return OC_OK;
}

/* The most ops of a lane in any plan that may follow a. */
static uint32_t most_after(const oc_plan_set *s, uint32_t a, int lane) {
    uint32_t most = 0;
    for (uint32_t b = 0; b < s->n_plans; b++)
        if (s->follows[a][b] && s->plans[b].lane_ops[lane] > most)
            most = s->plans[b].lane_ops[lane];
    return most;
}

static oc_status play_successors(player *r, uint32_t a, cell_clock *after) {
    const oc_plan_set *s = r->v->s;
    size_t bytes = r->v->e.count * sizeof *after;
    clock_row known[OC_LANE_COUNT];
    memcpy(known, r->known, sizeof known);
    memcpy(after, r->cells, bytes);
    memcpy(r->base, s->plans[a].lane_ops, sizeof r->base);
    for (uint32_t b = 0; b < s->n_plans; b++) {
        if (!s->follows[a][b]) continue;
        memcpy(r->known, known, sizeof known);
        memcpy(r->cells, after, bytes);
        OC_TRY(play(r, &s->plans[b], s->pairs[a][b], s->n_pairs[a][b]));
    }
    return OC_OK;
}

static oc_status play_from(const oc_verifier *v, uint32_t a, cell_clock *cells, cell_clock *after) {
    const oc_plan *p = &v->s->plans[a];
    player r = {.v = v, .cells = cells};
    oc_status st = OC_OK;
    memset(cells, 0, v->e.count * sizeof *cells);
    for (int l = 0; l < OC_LANE_COUNT; l++) {
        r.done[l] = calloc(p->lane_ops[l] + most_after(v->s, a, l) + 1u, sizeof *r.done[l]);
        if (!r.done[l]) st = oc_fail(v->err, OC_E_MEMORY, "no memory to verify the plan");
    }
    if (st == OC_OK) st = play(&r, p, NULL, 0);
    if (st == OC_OK) st = play_successors(&r, a, after);
    for (int l = 0; l < OC_LANE_COUNT; l++)
        free(r.done[l]);
    return st;
}

oc_status oc_verify_races(const oc_verifier *v) {
    cell_clock *cells = calloc(v->e.count + 1u, sizeof *cells);
    cell_clock *after = calloc(v->e.count + 1u, sizeof *after);
    oc_status st = OC_OK;
    if (!cells || !after) st = oc_fail(v->err, OC_E_MEMORY, "no memory to verify the plan");
    for (uint32_t a = 0; st == OC_OK && a < v->s->n_plans; a++)
        st = play_from(v, a, cells, after);
    free(after);
    free(cells);
    return st;
}
