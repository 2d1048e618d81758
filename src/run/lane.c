/* lane.c - what issuers and completers share: time, statistics, and the counting of what is done.
 */
#include "run/inner.h"

#include "base/clock.h"

#include <errno.h>
#include <sys/prctl.h>
#include <time.h>

oc_task oc_lane_task(const oc_run *r, const oc_submission *s, uint32_t op) {
    const oc_plan *plan = &r->set->plans[s->plan];
    const oc_op *o = &plan->ops[op];
    return (oc_task){.user = r->spec.user,
                     .set = r->set,
                     .plan = plan,
                     .op = o,
                     .accesses = plan->accesses + o->first_access,
                     .bases = r->spec.bases,
                     .copy = s->copy,
                     .queue = r->lanes[o->lane].queue};
}

void oc_lane_sleep_until(uint64_t ns) {
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {
    }
}

/* Half of the time nothing, else up to 300 us, short ones more often: enough to turn every order of
 * ops that the waits leave open. */
void oc_lane_delay(uint64_t *random) {
    if (!*random) return;
    uint64_t x = *random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *random = x;
    uint64_t pick = (x >> 32) % 1000;
    if (pick < 500) return;
    uint64_t most = pick < 900 ? 40000 : 300000;
    oc_lane_sleep_until((uint64_t)oc_clock_ns() + (x & 0xffffffffu) % most);
}

void oc_lane_account(oc_run *r, const oc_submission *s, const oc_flight *f, uint64_t end_ns,
                     uint64_t busy_ns) {
    const oc_op *o = &r->set->plans[s->plan].ops[f->op];
    oc_lane_state *l = &r->lanes[o->lane];
    if (f->ran) {
        atomic_fetch_add_explicit(&l->busy_ns, busy_ns, memory_order_relaxed);
        atomic_fetch_add_explicit(&l->ops, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&l->bytes, f->moved, memory_order_relaxed);
    }
    if (!l->ring.events) return;
    oc_trace_put(&l->ring, &(oc_trace_event){.start_ns = f->start_ns,
                                             .end_ns = end_ns,
                                             .step = f->step,
                                             .op = f->op,
                                             .plan = (uint16_t)s->plan,
                                             .skipped = !f->ran});
}

void oc_lane_advance(oc_lane_state *l, uint64_t end_ns) {
    l->completed++;
    atomic_store_explicit(&l->ended_ns[l->completed % OC_LANE_ENDS], end_ns, memory_order_relaxed);
    oc_gate_raise(&l->done, l->completed);
}

bool oc_lane_enter(const oc_worker *w, uint64_t step) {
#ifdef PR_SET_TIMERSLACK
    /* The default slack of 50 us would be lateness of every paced op. */
    if (w->paced && step == 1) prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
#endif
    oc_gate_wait(&w->run->submitted, step);
    return oc_gate_value(&w->run->submitted) != OC_RUN_STOP;
}

/* Every worker is done with a submission before it begins the next, so the last one out of
 * submission n raises n before anyone can raise n + 1. */
void oc_lane_leave(oc_run *r, oc_submission *s, uint64_t step) {
    if (atomic_fetch_sub(&s->workers_left, 1) == 1) oc_gate_raise(&r->completed, step);
}
