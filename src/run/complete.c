/* complete.c - the second thread of a lane with a queue: it learns from the queue when ops are
 * done, takes their errors, and counts. */
#include "run/inner.h"

#include "base/checked.h"
#include "base/clock.h"

typedef struct completer {
    oc_run *run;
    oc_lane_state *lane;
    uint32_t number; /* of the lane */
} completer;

static const oc_submission *submission_of(const completer *c, const oc_flight *f) {
    return &c->run->slots[f->step % 2];
}

static const oc_op *op_of(const completer *c, const oc_flight *f) {
    return &c->run->set->plans[submission_of(c, f)->plan].ops[f->op];
}

/* The op has ended: nothing touches its memory any more. */
static void end_op(const completer *c, oc_flight *f, uint64_t end_ns, uint64_t busy_ns) {
    const oc_submission *s = submission_of(c, f);
    if (f->ran) {
        oc_task t = oc_lane_task(c->run, s, f->op);
        oc_guard_leave(c->run, &t);
    }
    oc_lane_delay(&c->lane->completer_random);
    oc_lane_account(c->run, s, f, end_ns, busy_ns);
}

/* ---- streams ---- */

/* When the op began and ended, by its marks. The end first: the begin costs no sleep then. An op
 * without marks is in a stream that broke: nobody can tell, and the run has failed. */
static uint64_t await_op(const completer *c, oc_flight *f, uint64_t number) {
    oc_lane_state *l = c->lane;
    uint64_t end = (uint64_t)oc_clock_ns();
    f->start_ns = end;
    if (number >= atomic_load(&l->unmarked_from)) return end;
    oc_queue *q = l->queue;
    oc_status s = q->ops->await(q, 2 * number, &end);
    oc_status begin = q->ops->await(q, 2 * number - 1, &f->start_ns);
    if (s == OC_OK) s = begin;
    if (s != OC_OK) oc_run_poison_queue(c->run, op_of(c, f), s);
    f->start_ns = oc_min_u64(f->start_ns, end);
    return end;
}

static void complete_next(completer *c) {
    oc_lane_state *l = c->lane;
    uint64_t number = l->completed + 1;
    oc_gate_wait(&l->issued, number);
    oc_flight *f = oc_lane_flight(l, number);
    uint64_t end = await_op(c, f, number);
    end_op(c, f, end, end - f->start_ns);
    oc_lane_advance(l, end);
}

/* ---- rings ---- */

/* Raise `done` over all that have ended, the first of them on. */
static void advance(oc_lane_state *l, uint64_t end_ns) {
    while (l->completed < l->seen && oc_lane_flight(l, l->completed + 1)->ended)
        oc_lane_advance(l, end_ns);
}

/* Take note of ops that were issued. Those that are not in the ring have ended. */
static void see_issued(completer *c) {
    oc_lane_state *l = c->lane;
    uint64_t issued = oc_gate_value(&l->issued);
    while (l->seen < issued) {
        oc_flight *f = oc_lane_flight(l, ++l->seen);
        if (f->queued) {
            l->in_flight++;
            continue;
        }
        end_op(c, f, f->start_ns, 0);
        f->ended = true;
    }
    advance(l, (uint64_t)oc_clock_ns());
}

/* The model of a link, as in issue.c; but several ops may be on their way when it is slow, so that
 * an op's own time says nothing. */
static uint64_t hold_to_pace(oc_lane_state *l, const oc_flight *f) {
    uint64_t now = (uint64_t)oc_clock_ns();
    if (l->ns_per_byte <= 0) return now;
    uint64_t from = oc_max_u64(l->paced_until, f->ready_ns);
    l->paced_until = from + (uint64_t)((double)f->moved * l->ns_per_byte);
    if (l->paced_until <= now) return now;
    oc_lane_sleep_until(l->paced_until);
    return (uint64_t)oc_clock_ns();
}

/* The ring is busy while anything is in flight: from when the oldest one was issued. */
static uint64_t busy_since_last(oc_lane_state *l, uint64_t end_ns) {
    uint64_t from = oc_lane_flight(l, l->completed + 1)->start_ns;
    from = oc_max_u64(from, l->busy_until);
    if (end_ns <= from) return 0;
    l->busy_until = end_ns;
    return end_ns - from;
}

static void end_reaped(completer *c, oc_flight *f) {
    oc_lane_state *l = c->lane;
    uint64_t end = hold_to_pace(l, f);
    end_op(c, f, end, busy_since_last(l, end));
    f->ended = true;
    l->in_flight--;
    oc_gate_raise(&l->reaped, ++l->n_reaped);
    advance(l, end);
}

/* The op of a token; NULL: the ring told of what is not in flight. The issuer may not have come to
 * say that it issued this one. */
static oc_flight *find_reaped(completer *c, uint64_t token) {
    oc_lane_state *l = c->lane;
    if (token <= l->completed || token > oc_gate_value(&l->issued) + 1) return NULL;
    oc_gate_wait(&l->issued, token);
    see_issued(c);
    oc_flight *f = oc_lane_flight(l, token);
    return f->queued && !f->ended ? f : NULL;
}

/* A ring that does not know its ops is lost, and with it all word of those in flight: the run has
 * failed, and must not hang. */
static void give_up_in_flight(completer *c, oc_status s) {
    oc_lane_state *l = c->lane;
    const oc_flight *first = oc_lane_flight(l, l->completed + 1);
    oc_run_poison_queue(c->run, op_of(c, first), s == OC_OK ? OC_E_INVALID : s);
    for (uint64_t last = l->seen; l->completed < last;)
        end_reaped(c, oc_lane_flight(l, l->completed + 1));
}

static void reap_one(completer *c) {
    oc_queue *q = c->lane->queue;
    uint64_t token = 0;
    oc_status s = q->ops->reap(q, &token);
    oc_flight *f = find_reaped(c, token);
    if (!f) {
        give_up_in_flight(c, s);
        return;
    }
    if (s != OC_OK) oc_run_poison_queue(c->run, op_of(c, f), s);
    end_reaped(c, f);
}

/* Some progress: something was issued, or something ended. */
static void complete_some(completer *c, uint64_t until) {
    oc_lane_state *l = c->lane;
    see_issued(c);
    if (l->completed >= until) return;
    if (l->in_flight == 0)
        oc_gate_wait(&l->issued, l->seen + 1);
    else
        reap_one(c);
}

/* ---- submissions ---- */

static void complete_submission(completer *c, oc_submission *s, uint64_t step) {
    oc_lane_state *l = c->lane;
    uint64_t until = s->base[c->number] + c->run->set->plans[s->plan].lane_ops[c->number];
    while (l->completed < until) { /* of a ring, ops of the next submission may be among them */
        if (l->stream)
            complete_next(c);
        else
            complete_some(c, until);
    }
    oc_lane_leave(c->run, s, step);
}

void *oc_completer_main(void *worker) {
    oc_worker *w = worker;
    completer c = {w->run, &w->run->lanes[w->lane], w->lane};
    for (uint64_t step = 1; oc_lane_enter(w, step); step++)
        complete_submission(&c, &w->run->slots[step % 2], step);
    return NULL;
}
