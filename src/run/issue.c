/* issue.c - the issuing threads: for each submission, each op in its lane's order: wait for what it
 * needs, then run its body (no queue) or put it into the queue. */
#include "run/inner.h"

#include "base/checked.h"
#include "base/clock.h"

#include <sched.h>
#include <string.h>

/* An op of a lane that another op waits for. */
typedef struct target {
    uint32_t lane;
    uint64_t number;
} target;

/* One wait a lane in the plan, and one in the pair. */
enum { MAX_TARGETS = 2 * OC_LANE_COUNT };

/* The op at hand. */
typedef struct issue {
    oc_run *run;
    oc_lane_state *lane;
    oc_task task;
    uint64_t step, number;
    uint32_t index; /* of the op in its plan */
    uint32_t n_targets;
    target targets[MAX_TARGETS];
} issue;

static void find_targets(issue *x, const oc_submission *s, uint32_t *pair_at) {
    const oc_op *o = x->task.op;
    x->n_targets = 0;
    for (uint32_t i = 0; i < o->n_waits; i++) {
        const oc_wait *w = &x->task.plan->waits[o->first_wait + i];
        x->targets[x->n_targets++] = (target){w->lane, s->base[w->lane] + w->seq};
    }
    if (s->before == OC_NO_PLAN) return;
    const oc_wait *pairs = x->run->set->pairs[s->before][s->plan];
    uint32_t n = x->run->set->n_pairs[s->before][s->plan];
    while (*pair_at < n && pairs[*pair_at].op < x->index)
        ++*pair_at;
    for (; *pair_at < n && pairs[*pair_at].op == x->index; ++*pair_at) {
        const oc_wait *w = &pairs[*pair_at];
        x->targets[x->n_targets++] = (target){w->lane, s->base_before[w->lane] + w->seq};
    }
}

/* ---- waits ---- */

/* Returns when that op ended, or a later time when its lane is far ahead. */
static uint64_t wait_done(oc_run *r, const target *t) {
    oc_lane_state *l = &r->lanes[t->lane];
    oc_gate_wait(&l->done, t->number);
    return atomic_load_explicit(&l->ended_ns[t->number % OC_LANE_ENDS], memory_order_relaxed);
}

/* Returns when the last of the inputs was there. */
static uint64_t wait_all_done(issue *x, uint64_t submitted_ns) {
    uint64_t ready = submitted_ns;
    for (uint32_t i = 0; i < x->n_targets; i++)
        ready = oc_max_u64(ready, wait_done(x->run, &x->targets[i]));
    return ready;
}

/* Have the stream wait for a mark of another one, unless that op is done: then its mark may be
 * forgotten already (see inner.h). */
static oc_status wait_mark(issue *x, oc_lane_state *other, uint64_t number) {
    oc_queue *q = x->lane->queue;
    atomic_store(&other->claims[x->task.op->lane], number);
    oc_status s = OC_OK;
    if (atomic_load(&other->done.value) < number)
        s = q->ops->wait_mark(q, other->queue, 2 * number);
    atomic_store(&other->claims[x->task.op->lane], 0);
    return s;
}

static bool same_family(const oc_lane_state *a, const oc_lane_state *b) {
    return a->stream && b->stream && a->queue->family == b->queue->family;
}

/* A stream's wait for one op: by a mark where there is one, else by this thread. */
static void wait_in_stream(issue *x, const target *t) {
    oc_lane_state *other = &x->run->lanes[t->lane];
    if (other == x->lane) return; /* in order */
    if (same_family(x->lane, other)) {
        oc_gate_wait(&other->issued, t->number);
        if (t->number < atomic_load(&other->unmarked_from)) {
            oc_status s = wait_mark(x, other, t->number);
            if (s == OC_OK) return;
            oc_run_poison_queue(x->run, x->task.op, s);
        }
    }
    wait_done(x->run, t);
}

/* The host reads the predicate's cell when it issues, so whoever writes the cell must be done, not
 * only issued. That op may be waited for by way of others, those of the own lane included. */
static void wait_for_predicate(issue *x) {
    const oc_op *o = x->task.op;
    if (o->pred == OC_NO_BUFFER || x->run->session_only[o->pred]) return;
    oc_gate_wait(&x->lane->done, x->number - 1);
    wait_all_done(x, 0);
}

/* ---- bodies ---- */

static bool predicate_holds(const oc_run *r, const oc_task *t) {
    if (t->op->pred == OC_NO_BUFFER) return true;
    const uint8_t *cell = oc_run_buffer(r, t->op->pred, t->copy);
    uint32_t word;
    memcpy(&word, cell + (size_t)t->op->pred_index * sizeof word, sizeof word);
    return word != 0;
}

/* Returns whether the body was called; then the guards are left by whoever sees the op end. */
static bool run_body(issue *x, oc_flight *f, oc_status *status) {
    oc_run *r = x->run;
    oc_task *t = &x->task;
    *status = OC_OK;
    f->moved = t->op->demand.bytes;
    t->failed = atomic_load_explicit(&r->failed, memory_order_acquire);
    if (t->failed && !t->op->always) return false;
    oc_error e;
    e.status = OC_OK;
    e.message[0] = '\0';
    bool ran = false;
    *status = oc_guard_enter(r, t, &e);
    if (*status == OC_OK) {
        ran = predicate_holds(r, t);
        t->moved = &f->moved;
        if (ran)
            *status = r->spec.bodies[t->op->body](t, &e);
        else
            oc_guard_leave(r, t);
        t->moved = NULL;
    }
    if (*status != OC_OK) oc_run_poison(r, t->op, *status, &e);
    return ran;
}

/* ---- no queue: the body is the op ---- */

/* The model of a link that moves bytes at a rate. On the link an op begins when its inputs
 * are there and its predecessor has ideally ended, not when this thread came to it: so lateness of
 * sleeps and of the scheduler does not add up. An op takes longer only when its body does. Returns
 * how long it kept the link. */
static uint64_t hold_to_pace(oc_lane_state *l, const oc_flight *f) {
    uint64_t link_ns = (uint64_t)((double)f->moved * l->ns_per_byte);
    uint64_t now = (uint64_t)oc_clock_ns();
    uint64_t from = oc_max_u64(l->paced_until, f->ready_ns);
    uint64_t took = oc_max_u64(link_ns, now - f->start_ns);
    l->paced_until = from + took;
    if (l->paced_until > now) oc_lane_sleep_until(l->paced_until);
    return took;
}

/* Returns when the op ended, ideally. */
static uint64_t compute(issue *x, const oc_submission *s, oc_flight *f) {
    oc_lane_state *l = x->lane;
    oc_status status; /* known to the run */
    oc_lane_delay(&l->random);
    f->start_ns = (uint64_t)oc_clock_ns();
    f->ran = run_body(x, f, &status);
    if (f->ran) oc_guard_leave(x->run, &x->task);
    bool paced = f->ran && l->ns_per_byte > 0;
    uint64_t took = paced ? hold_to_pace(l, f) : 0;
    oc_lane_delay(&l->random);
    uint64_t end = (uint64_t)oc_clock_ns();
    oc_lane_account(x->run, s, f, end, paced ? took : end - f->start_ns);
    oc_lane_advance(l, end);
    return paced ? l->paced_until : end;
}

/* ---- streams ---- */

/* Of a stream whose window has room: are there waits about for the marks that will be replaced?
 * They last for one call of another thread. */
static void wait_for_claims(issue *x) {
    oc_lane_state *l = x->lane;
    if (x->number <= l->window) return;
    uint64_t forgotten = x->number - l->window;
    (void)atomic_load(&l->done.value); /* the first of the two looks of inner.h */
    for (int i = 0; i < OC_LANE_COUNT; i++)
        for (uint64_t c; (c = atomic_load(&l->claims[i])) != 0 && c <= forgotten;)
            sched_yield();
}

/* After a mark that was refused there are no more: nobody may wait for one that is not there. */
static void mark(issue *x, uint64_t number) {
    oc_lane_state *l = x->lane;
    if (atomic_load_explicit(&l->unmarked_from, memory_order_relaxed) <= x->number) return;
    oc_status s = l->queue->ops->mark(l->queue, number);
    if (s == OC_OK) return;
    atomic_store(&l->unmarked_from, x->number);
    oc_run_poison_queue(x->run, x->task.op, s);
}

static void put_in_stream(issue *x, oc_flight *f) {
    oc_lane_state *l = x->lane;
    wait_for_claims(x);
    wait_for_predicate(x);
    for (uint32_t i = 0; i < x->n_targets; i++)
        wait_in_stream(x, &x->targets[i]);
    oc_lane_delay(&l->random);
    oc_status status; /* known to the run */
    mark(x, 2 * x->number - 1);
    f->ran = run_body(x, f, &status);
    if (f->ran && l->ns_per_byte > 0) {
        double link_ns = (double)f->moved * l->ns_per_byte;
        status = l->queue->ops->hold(l->queue, 2 * x->number - 1, (uint64_t)link_ns);
        if (status != OC_OK) oc_run_poison_queue(x->run, x->task.op, status);
    }
    mark(x, 2 * x->number);
}

/* ---- rings ---- */

static void put_in_ring(issue *x, const oc_submission *s, oc_flight *f) {
    oc_lane_state *l = x->lane;
    f->ready_ns = oc_max_u64(f->ready_ns, wait_all_done(x, s->submitted_ns));
    uint32_t depth = l->queue->depth;
    if (l->n_queued >= depth) oc_gate_wait(&l->reaped, l->n_queued + 1 - depth);
    oc_lane_delay(&l->random);
    x->task.token = x->number;
    oc_status status;
    f->start_ns = (uint64_t)oc_clock_ns();
    f->ran = run_body(x, f, &status);
    f->queued = f->ran && status == OC_OK;
    l->n_queued += f->queued;
}

/* ---- submissions ---- */

static void issue_to_queue(issue *x, const oc_submission *s, uint64_t ready_ns) {
    oc_lane_state *l = x->lane;
    if (x->number > l->window) oc_gate_wait(&l->done, x->number - l->window);
    oc_flight *f = oc_lane_flight(l, x->number);
    *f = (oc_flight){.step = x->step, .op = x->index, .ready_ns = ready_ns};
    if (l->stream)
        put_in_stream(x, f);
    else
        put_in_ring(x, s, f);
    oc_lane_delay(&l->random);
    oc_gate_raise(&l->issued, x->number);
}

/* One at a time: an op is not ready before the one before it ended, on whatever lane. Returns when
 * this one did. */
static uint64_t issue_op(issue *x, const oc_submission *s, uint64_t last_end_ns, bool serial) {
    if (!x->lane->queue) {
        uint64_t ready = oc_max_u64(last_end_ns, wait_all_done(x, s->submitted_ns));
        oc_flight f = {.step = x->step, .op = x->index, .ready_ns = ready};
        return compute(x, s, &f);
    }
    issue_to_queue(x, s, last_end_ns);
    if (!serial) return 0;
    return wait_done(x->run, &(target){x->task.op->lane, x->number});
}

static void run_submission(oc_worker *w, oc_submission *s, uint64_t step) {
    oc_run *r = w->run;
    bool serial = r->spec.serial;
    uint32_t pair_at = 0;
    for (uint32_t i = 0; i < w->n_ops[s->plan]; i++) {
        issue x = {.run = r, .step = step, .index = serial ? i : w->ops[s->plan][i]};
        x.task = oc_lane_task(r, s, x.index);
        x.lane = &r->lanes[x.task.op->lane];
        x.number = ++x.lane->n_issued;
        find_targets(&x, s, &pair_at);
        uint64_t end = issue_op(&x, s, w->last_end_ns, serial);
        if (serial) w->last_end_ns = end;
    }
    oc_lane_leave(r, s, step);
}

void *oc_issuer_main(void *worker) {
    oc_worker *w = worker;
    for (uint64_t step = 1; oc_lane_enter(w, step); step++)
        run_submission(w, &w->run->slots[step % 2], step);
    return NULL;
}
