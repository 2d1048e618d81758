/* run.c - the session's side of the executor: open, submit, wait, close. */
#include "run/inner.h"

#include "base/checked.h"
#include "base/clock.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- tasks ---- */

static uint8_t *buffer_address(const oc_plan_set *set, void *const *bases, oc_buffer_id id,
                               uint32_t copy) {
    const oc_buffer *b = &set->buffers[id];
    uint64_t at = b->offset;
    if (b->life == OC_LIFE_SUBMISSION) at += copy * oc_align_up(b->bytes, 64);
    return (uint8_t *)bases[b->tier] + at;
}

void *oc_task_address(const oc_task *t, const oc_access *a) {
    return buffer_address(t->set, t->bases, a->buffer, t->copy) +
           a->first * t->set->buffers[a->buffer].piece_bytes;
}

uint64_t oc_task_bytes(const oc_task *t, const oc_access *a) {
    const oc_buffer *b = &t->set->buffers[a->buffer];
    uint64_t from = a->first * b->piece_bytes;
    uint64_t to = oc_min_u64(from + a->count * b->piece_bytes, b->bytes);
    return to > from ? to - from : 0;
}

const oc_access *oc_task_access(const oc_task *t, oc_role role) {
    for (uint32_t i = 0; i < t->op->n_accesses; i++)
        if (t->accesses[i].role == role) return &t->accesses[i];
    return NULL;
}

void *oc_task_role(const oc_task *t, oc_role role) {
    const oc_access *a = oc_task_access(t, role);
    return a ? oc_task_address(t, a) : NULL;
}

/* ---- errors ---- */

void oc_run_poison(oc_run *r, const oc_task *t, oc_status s, const oc_error *e) {
    pthread_mutex_lock(&r->error_lock);
    if (!atomic_load(&r->failed)) {
        const char *text = e->message[0] ? e->message : oc_status_sentence(s);
        oc_fail(&r->error, s, "%s: %s", oc_op_kind_name((oc_op_kind)t->op->kind), text);
        atomic_store_explicit(&r->failed, true, memory_order_release);
    }
    pthread_mutex_unlock(&r->error_lock);
}

static oc_status first_error(oc_run *r, oc_error *err) {
    if (!atomic_load_explicit(&r->failed, memory_order_acquire)) return OC_OK;
    /* Written before the flag was set, never after. */
    if (err) *err = r->error;
    return r->error.status;
}

/* ---- open ---- */

static oc_status check_plan(const oc_run_spec *spec, const oc_plan *p, oc_error *err) {
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const oc_op *o = &p->ops[i];
        if (o->lane >= OC_LANE_COUNT)
            return oc_fail(err, OC_E_INVALID, "plan %.16s, op %u: lane %u does not exist", p->name,
                           i, (unsigned)o->lane);
        if (o->body >= spec->n_bodies || !spec->bodies[o->body])
            return oc_fail(err, OC_E_INVALID, "plan %.16s, op %u (%s): there is no body %u",
                           p->name, i, oc_op_kind_name((oc_op_kind)o->kind), (unsigned)o->body);
    }
    return OC_OK;
}

static oc_status check_spec(const oc_run_spec *spec, oc_error *err) {
    if (!spec->set || spec->set->n_plans == 0)
        return oc_fail(err, OC_E_INVALID, "the executor needs a plan set with at least one plan");
    for (int t = 0; t < OC_TIER_COUNT; t++)
        if (spec->set->arena_bytes[t] && !spec->bases[t])
            return oc_fail(err, OC_E_INVALID, "the plan uses the %s tier, but it has no arena",
                           oc_tier_name((oc_tier)t));
    for (int l = 0; l < OC_LANE_COUNT; l++) {
        double rate = spec->pace_bytes_per_second[l];
        if (!isfinite(rate) || rate < 0)
            return oc_fail(err, OC_E_INVALID, "the pace of lane %s must be a rate above 0",
                           oc_lane_name((oc_lane)l));
    }
    for (uint32_t p = 0; p < spec->set->n_plans; p++)
        OC_TRY(check_plan(spec, &spec->set->plans[p], err));
    return OC_OK;
}

static bool lane_used(const oc_plan_set *set, int lane) {
    for (uint32_t p = 0; p < set->n_plans; p++)
        for (uint32_t i = 0; i < set->plans[p].n_ops; i++)
            if (set->plans[p].ops[i].lane == lane) return true;
    return false;
}

/* One block holds all that the executor needs: the first pass (base NULL) measures it, the second
 * hands out the parts. */
typedef struct oc_carver {
    uint8_t *base;
    size_t used;
} oc_carver;

static void *carve(oc_carver *c, uint64_t count, size_t each) {
    c->used = (size_t)oc_align_up(c->used, 64);
    void *part = c->base ? c->base + c->used : NULL;
    c->used += (size_t)count * each;
    return part;
}

static void carve_ops(oc_run *r, oc_carver *c, oc_worker *w, int lane) {
    for (uint32_t p = 0; p < r->set->n_plans; p++) {
        const oc_plan *plan = &r->set->plans[p];
        uint32_t n = 0;
        for (uint32_t i = 0; i < plan->n_ops; i++)
            n += plan->ops[i].lane == lane;
        uint32_t *ops = carve(c, n, sizeof *ops);
        if (!ops) continue;
        w->ops[p] = ops;
        w->n_ops[p] = n;
        for (uint32_t i = 0; i < plan->n_ops; i++)
            if (plan->ops[i].lane == lane) *ops++ = i;
    }
}

static void carve_worker(oc_run *r, oc_carver *c, int lane) {
    if (r->workers) {
        oc_worker *w = &r->workers[r->n_workers];
        w->run = r;
        w->paced = r->spec.pace_bytes_per_second[lane] > 0;
        snprintf(w->name, sizeof w->name, "oc-%s", oc_lane_name((oc_lane)lane));
        carve_ops(r, c, w, lane);
    } else {
        oc_worker none;
        carve_ops(r, c, &none, lane);
    }
    r->n_workers++;
}

static void carve_serial_worker(oc_run *r) {
    r->n_workers = 1;
    if (!r->workers) return;
    oc_worker *w = &r->workers[0];
    w->run = r;
    snprintf(w->name, sizeof w->name, "oc-serial");
    for (int l = 0; l < OC_LANE_COUNT; l++)
        w->paced |= r->spec.pace_bytes_per_second[l] > 0;
    for (uint32_t p = 0; p < r->set->n_plans; p++)
        w->n_ops[p] = r->set->plans[p].n_ops;
}

static void carve_all(oc_run *r, oc_carver *c) {
    r->lanes = carve(c, OC_LANE_COUNT, sizeof *r->lanes);
    r->workers = carve(c, OC_LANE_COUNT, sizeof *r->workers);
    if (r->spec.protect) r->guards = carve(c, r->set->n_buffers, sizeof *r->guards);
    r->n_workers = 0;
    for (int lane = 0; lane < OC_LANE_COUNT; lane++) {
        if (!lane_used(r->set, lane)) continue;
        if (!r->spec.serial) carve_worker(r, c, lane);
        if (!r->spec.trace_path) continue;
        oc_trace_event *events = carve(c, OC_TRACE_EVENTS, sizeof *events);
        if (r->lanes) r->lanes[lane].ring.events = events;
    }
    if (r->spec.serial) carve_serial_worker(r);
}

static oc_status allocate(oc_run *r, oc_error *err) {
    oc_carver measure = {NULL, 0};
    carve_all(r, &measure);
    uint64_t bytes = oc_align_up(measure.used, 64);
    r->block = aligned_alloc(64, (size_t)bytes);
    if (!r->block)
        return oc_fail(err, OC_E_MEMORY, "no memory for the executor: %llu bytes",
                       (unsigned long long)bytes);
    memset(r->block, 0, (size_t)bytes);
    r->host_bytes = sizeof *r + bytes;
    oc_carver hand_out = {r->block, 0};
    carve_all(r, &hand_out);
    return OC_OK;
}

static void prepare_lanes(oc_run *r) {
    for (int l = 0; l < OC_LANE_COUNT; l++) {
        oc_lane_state *lane = &r->lanes[l];
        double rate = r->spec.pace_bytes_per_second[l];
        lane->ns_per_byte = rate > 0 ? 1e9 / rate : 0;
        if (r->spec.delay_seed) /* odd, hence never the generator's fixed point 0 */
            lane->random =
                (r->spec.delay_seed * 0x9e3779b97f4a7c15u) ^ ((uint64_t)(l + 1) << 33) ^ 1u;
        if (r->spec.delay_seed && !lane->random) lane->random = 1;
    }
}

/* The locks of the run, all or none. */
static oc_status init_locks(oc_run *r, oc_error *err) {
    int e, lanes = 0;
    for (; lanes < OC_LANE_COUNT; lanes++)
        if ((e = oc_gate_init(&r->lanes[lanes].done)) != 0) goto release_lanes;
    if ((e = oc_gate_init(&r->submitted)) != 0) goto release_lanes;
    if ((e = oc_gate_init(&r->completed)) != 0) goto release_submitted;
    if ((e = pthread_mutex_init(&r->error_lock, NULL)) != 0) goto release_completed;
    if ((e = pthread_mutex_init(&r->guard_lock, NULL)) != 0) goto release_error_lock;
    return OC_OK;
release_error_lock:
    pthread_mutex_destroy(&r->error_lock);
release_completed:
    oc_gate_release(&r->completed);
release_submitted:
    oc_gate_release(&r->submitted);
release_lanes:
    while (lanes-- > 0)
        oc_gate_release(&r->lanes[lanes].done);
    return oc_fail_errno(err, OC_E_SYSTEM, e, "cannot create the locks of the executor");
}

static void release_locks(oc_run *r) {
    pthread_mutex_destroy(&r->guard_lock);
    pthread_mutex_destroy(&r->error_lock);
    oc_gate_release(&r->completed);
    oc_gate_release(&r->submitted);
    for (int l = 0; l < OC_LANE_COUNT; l++)
        oc_gate_release(&r->lanes[l].done);
}

static void stop_workers(oc_run *r) {
    oc_gate_raise(&r->submitted, OC_RUN_STOP);
    for (uint32_t i = 0; i < r->n_workers; i++)
        if (r->workers[i].started) pthread_join(r->workers[i].thread, NULL);
}

/* Lane threads take no signals: SIGINT is the session's, whichever thread it would have hit. */
static oc_status start_workers(oc_run *r, oc_error *err) {
    sigset_t block, before;
    sigfillset(&block);
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&block, faults[i]);
    pthread_sigmask(SIG_SETMASK, &block, &before);
    int e = 0;
    for (uint32_t i = 0; i < r->n_workers && !e; i++) {
        oc_worker *w = &r->workers[i];
        e = pthread_create(&w->thread, NULL, oc_run_worker_main, w);
        w->started = !e;
        if (!e) pthread_setname_np(w->thread, w->name);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!e) return OC_OK;
    stop_workers(r);
    return oc_fail_errno(err, OC_E_SYSTEM, e, "cannot start the threads of the lanes");
}

oc_status oc_run_open(oc_run **out, const oc_run_spec *spec, oc_error *err) {
    *out = NULL;
    OC_TRY(check_spec(spec, err));
    oc_run *r = aligned_alloc(_Alignof(oc_run), sizeof *r);
    if (!r) return oc_fail(err, OC_E_MEMORY, "no memory for the executor");
    memset(r, 0, sizeof *r);
    r->spec = *spec;
    r->set = spec->set;
    r->trace_fd = -1;
    r->opened_ns = (uint64_t)oc_clock_ns();
    oc_status s = allocate(r, err);
    if (s != OC_OK) goto free_run;
    prepare_lanes(r);
    if ((s = init_locks(r, err)) != OC_OK) goto free_block;
    if (spec->trace_path && (s = oc_trace_open(r, err)) != OC_OK) goto drop_locks;
    if (r->guards) oc_guard_setup(r);
    if ((s = start_workers(r, err)) != OC_OK) goto close_trace;
    *out = r;
    return OC_OK;
close_trace:
    if (r->trace_fd >= 0) close(r->trace_fd);
drop_locks:
    release_locks(r);
free_block:
    free(r->block);
free_run:
    free(r);
    return s;
}

void oc_run_close(oc_run *r) {
    if (!r) return;
    oc_gate_wait(&r->completed, r->n_submitted);
    oc_guard_open_all(r);
    stop_workers(r);
    oc_error ignored; /* who wants to know calls oc_run_write_trace first */
    (void)!oc_trace_write(r, &ignored);
    release_locks(r);
    free(r->block);
    free(r);
}

oc_status oc_run_write_trace(oc_run *r, oc_error *err) {
    oc_gate_wait(&r->completed, r->n_submitted);
    return oc_trace_write(r, err);
}

/* ---- submissions ---- */

oc_status oc_run_begin(oc_run *r, uint32_t *copy, oc_error *err) {
    if (r->n_submitted >= 1) oc_gate_wait(&r->completed, r->n_submitted - 1);
    if (oc_gate_value(&r->completed) == r->n_submitted) oc_guard_open_all(r);
    OC_TRY(first_error(r, err));
    r->begun = true;
    *copy = (uint32_t)(r->n_submitted % 2);
    return OC_OK;
}

oc_status oc_run_submit(oc_run *r, uint32_t plan, uint64_t *ticket, oc_error *err) {
    if (plan >= r->set->n_plans)
        return oc_fail(err, OC_E_INVALID, "there is no plan %u in a set of %u", plan,
                       r->set->n_plans);
    if (!r->begun)
        return oc_fail(err, OC_E_INVALID, "a plan was submitted without oc_run_begin before it");
    OC_TRY(first_error(r, err));
    OC_TRY(oc_guard_close_all(r, err));
    uint64_t step = r->n_submitted + 1;
    const oc_submission *before = &r->slots[r->n_submitted % 2];
    oc_submission *s = &r->slots[step % 2];
    s->plan = plan;
    s->before = r->n_submitted ? r->last_plan : OC_NO_BUFFER;
    s->copy = (uint32_t)(r->n_submitted % 2);
    s->submitted_ns = (uint64_t)oc_clock_ns();
    for (int l = 0; l < OC_LANE_COUNT; l++) {
        s->base_before[l] = before->base[l];
        s->base[l] = r->total[l];
        r->total[l] += r->set->plans[plan].lane_ops[l];
    }
    atomic_store(&s->workers_left, r->n_workers);
    r->last_plan = plan;
    r->n_submitted = step;
    r->begun = false;
    oc_gate_raise(&r->submitted, step);
    *ticket = step;
    return OC_OK;
}

oc_status oc_run_wait(oc_run *r, uint64_t ticket, oc_error *err) {
    if (ticket == 0 || ticket > r->n_submitted)
        return oc_fail(err, OC_E_INVALID, "ticket %llu was never issued",
                       (unsigned long long)ticket);
    oc_gate_wait(&r->completed, ticket);
    if (oc_gate_value(&r->completed) == r->n_submitted) oc_guard_open_all(r);
    return first_error(r, err);
}

oc_status oc_run_drain(oc_run *r, oc_error *err) {
    if (r->n_submitted) return oc_run_wait(r, r->n_submitted, err);
    return OC_OK;
}

/* ---- questions ---- */

void *oc_run_buffer(const oc_run *r, oc_buffer_id id, uint32_t copy) {
    return buffer_address(r->set, r->spec.bases, id, copy);
}

void oc_run_stats(const oc_run *r, oc_lane_stats out[OC_LANE_COUNT]) {
    for (int l = 0; l < OC_LANE_COUNT; l++) {
        const oc_lane_state *s = &r->lanes[l];
        out[l].busy_ns = atomic_load_explicit(&s->busy_ns, memory_order_relaxed);
        out[l].ops = atomic_load_explicit(&s->ops, memory_order_relaxed);
        out[l].bytes = atomic_load_explicit(&s->bytes, memory_order_relaxed);
    }
}

uint64_t oc_run_host_bytes(const oc_run *r) { return r->host_bytes; }
