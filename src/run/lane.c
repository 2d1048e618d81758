/* lane.c - the threads: for each submission, each op in its lane's order: wait, run, pace, done. */
#include "run/inner.h"

#include "base/checked.h"
#include "base/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

typedef struct oc_span_ns {
    uint64_t start, end; /* of the clock */
    uint64_t busy;       /* of the lane */
    uint64_t ideal_end;  /* on the link, when paced; else as end */
} oc_span_ns;

static void sleep_until(uint64_t ns) {
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {
    }
}

/* Half of the time nothing, else up to 300 us, short ones more often: enough to turn every order of
 * ops that the waits leave open. */
static void random_delay(oc_lane_state *l) {
    if (!l->random) return;
    uint64_t x = l->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    l->random = x;
    uint64_t pick = (x >> 32) % 1000;
    if (pick < 500) return;
    uint64_t most = pick < 900 ? 40000 : 300000;
    sleep_until((uint64_t)oc_clock_ns() + (x & 0xffffffffu) % most);
}

/* Wait for an op of a lane and tell when it ended, or a later time when the lane is far ahead. */
static uint64_t wait_for(oc_run *r, uint32_t lane, uint64_t number) {
    oc_lane_state *l = &r->lanes[lane];
    oc_gate_wait(&l->done, number);
    return atomic_load_explicit(&l->ended_ns[number % OC_LANE_ENDS], memory_order_relaxed);
}

/* Returns when the last of the inputs was there. */
static uint64_t wait_for_inputs(oc_run *r, const oc_submission *s, const oc_plan *plan, uint32_t op,
                                uint32_t *pair_at) {
    uint64_t ready = s->submitted_ns;
    const oc_op *o = &plan->ops[op];
    for (uint32_t i = 0; i < o->n_waits; i++) {
        const oc_wait *w = &plan->waits[o->first_wait + i];
        ready = oc_max_u64(ready, wait_for(r, w->lane, s->base[w->lane] + w->seq));
    }
    if (s->before == OC_NO_BUFFER) return ready;
    const oc_wait *pairs = r->set->pairs[s->before][s->plan];
    uint32_t n = r->set->n_pairs[s->before][s->plan];
    while (*pair_at < n && pairs[*pair_at].op < op)
        ++*pair_at;
    for (; *pair_at < n && pairs[*pair_at].op == op; ++*pair_at) {
        const oc_wait *w = &pairs[*pair_at];
        ready = oc_max_u64(ready, wait_for(r, w->lane, s->base_before[w->lane] + w->seq));
    }
    return ready;
}

static bool predicate_holds(const oc_run *r, const oc_op *o, uint32_t copy) {
    if (o->pred == OC_NO_BUFFER) return true;
    const uint8_t *cell = oc_run_buffer(r, o->pred, copy);
    uint32_t word;
    memcpy(&word, cell + (size_t)o->pred_index * sizeof word, sizeof word);
    return word != 0;
}

/* Returns whether the body ran. */
static bool run_body(oc_run *r, const oc_task *t) {
    if (atomic_load_explicit(&r->failed, memory_order_acquire)) return false;
    oc_error e;
    e.status = OC_OK;
    e.message[0] = '\0';
    oc_status status = oc_guard_enter(r, t, &e);
    bool ran = false;
    if (status == OC_OK) {
        if (predicate_holds(r, t->op, t->copy)) {
            ran = true;
            status = r->spec.bodies[t->op->body](t, &e);
        }
        oc_guard_leave(r, t);
    }
    if (status != OC_OK) oc_run_poison(r, t, status, &e);
    return ran;
}

/* The model of a link that moves demand.bytes at a rate. On the link an op begins when its inputs
 * are there and its predecessor has ideally ended, not when this thread came to it: so lateness of
 * sleeps and of the scheduler does not add up. An op takes longer only when its body does. */
static void hold_to_pace(oc_lane_state *l, const oc_op *o, uint64_t ready_ns, oc_span_ns *span) {
    uint64_t link_ns = (uint64_t)((double)o->demand.bytes * l->ns_per_byte);
    uint64_t now = (uint64_t)oc_clock_ns();
    uint64_t from = oc_max_u64(l->paced_until, ready_ns);
    uint64_t took = oc_max_u64(link_ns, now - span->start);
    l->paced_until = from + took;
    if (l->paced_until > now) sleep_until(l->paced_until);
    span->busy = took;
    span->ideal_end = l->paced_until;
}

static void account(oc_lane_state *l, const oc_op *o, const oc_span_ns *span) {
    atomic_fetch_add_explicit(&l->busy_ns, span->busy, memory_order_relaxed);
    atomic_fetch_add_explicit(&l->ops, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&l->bytes, o->demand.bytes, memory_order_relaxed);
}

/* Returns when the op ended, ideally. */
static uint64_t run_op(oc_run *r, const oc_submission *s, uint64_t step, uint32_t op,
                       uint64_t ready_ns) {
    const oc_plan *plan = &r->set->plans[s->plan];
    const oc_op *o = &plan->ops[op];
    oc_lane_state *l = &r->lanes[o->lane];
    oc_task t = {.user = r->spec.user,
                 .set = r->set,
                 .plan = plan,
                 .op = o,
                 .accesses = plan->accesses + o->first_access,
                 .bases = r->spec.bases,
                 .copy = s->copy};
    random_delay(l);
    oc_span_ns span = {.start = (uint64_t)oc_clock_ns()};
    bool ran = run_body(r, &t);
    bool paced = ran && l->ns_per_byte > 0;
    if (paced) hold_to_pace(l, o, ready_ns, &span);
    random_delay(l);
    span.end = (uint64_t)oc_clock_ns();
    if (!paced) {
        span.busy = span.end - span.start;
        span.ideal_end = span.end;
    }
    if (ran) account(l, o, &span);
    if (l->ring.events)
        oc_trace_put(&l->ring, &(oc_trace_event){.start_ns = span.start,
                                                 .end_ns = span.end,
                                                 .step = step,
                                                 .op = op,
                                                 .plan = (uint16_t)s->plan,
                                                 .skipped = !ran});
    l->completed++;
    atomic_store_explicit(&l->ended_ns[l->completed % OC_LANE_ENDS], span.end,
                          memory_order_relaxed);
    oc_gate_raise(&l->done, l->completed);
    return span.ideal_end;
}

static void run_submission(oc_worker *w, oc_submission *s, uint64_t step) {
    oc_run *r = w->run;
    const oc_plan *plan = &r->set->plans[s->plan];
    uint32_t pair_at = 0;
    for (uint32_t i = 0; i < w->n_ops[s->plan]; i++) {
        uint32_t op = w->ops[s->plan] ? w->ops[s->plan][i] : i;
        uint64_t ready_ns = wait_for_inputs(r, s, plan, op, &pair_at);
        /* One at a time: an op is not ready before the one before it ended, on whatever lane. */
        if (r->spec.serial) ready_ns = oc_max_u64(ready_ns, w->last_end_ns);
        w->last_end_ns = run_op(r, s, step, op, ready_ns);
    }
    /* Every worker is done with a submission before it begins the next, so the last one out of
     * submission n raises n before anyone can raise n + 1. */
    if (atomic_fetch_sub(&s->workers_left, 1) == 1) oc_gate_raise(&r->completed, step);
}

void *oc_run_worker_main(void *worker) {
    oc_worker *w = worker;
    oc_run *r = w->run;
#ifdef PR_SET_TIMERSLACK
    /* The default slack of 50 us would be lateness of every paced op. */
    if (w->paced) prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
#endif
    for (uint64_t step = 1;; step++) {
        oc_gate_wait(&r->submitted, step);
        if (oc_gate_value(&r->submitted) == OC_RUN_STOP) return NULL;
        run_submission(w, &r->slots[step % 2], step);
    }
}
