/* open.c - a run comes to life and ends: its memory, its locks, its threads. */
#include "run/inner.h"

#include "base/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What no op writes is there before a plan starts. */
static void find_session_only(oc_run *r) {
    for (uint32_t i = 0; i < r->set->n_buffers; i++)
        r->session_only[i] = r->set->buffers[i].alias == 0;
    for (uint32_t p = 0; p < r->set->n_plans; p++) {
        const oc_plan *plan = &r->set->plans[p];
        for (uint32_t i = 0; i < plan->n_accesses; i++)
            if (plan->accesses[i].mode != OC_READ)
                r->session_only[plan->accesses[i].buffer] = false;
    }
}

static uint64_t random_state(uint32_t seed, uint64_t stream) {
    if (!seed) return 0;
    uint64_t x = (seed * 0x9e3779b97f4a7c15u) ^ (stream << 33);
    return x ? x : 1; /* 0 is where the generator stays */
}

static void prepare_lanes(oc_run *r) {
    for (uint32_t i = 0; i < OC_LANE_COUNT; i++) {
        oc_lane_state *l = &r->lanes[i];
        double rate = r->spec.pace_bytes_per_second[i];
        l->ns_per_byte = rate > 0 ? 1e9 / rate : 0;
        l->random = random_state(r->spec.delay_seed, 2 * i + 1);
        l->completer_random = random_state(r->spec.delay_seed, 2 * i + 2);
        atomic_init(&l->unmarked_from, UINT64_MAX);
    }
}

enum { GATES_A_LANE = 3, GATES = GATES_A_LANE * OC_LANE_COUNT + 2 };

static oc_gate *gate_at(oc_run *r, int i) {
    if (i == GATES - 1) return &r->submitted;
    if (i == GATES - 2) return &r->completed;
    oc_lane_state *l = &r->lanes[i / GATES_A_LANE];
    return (oc_gate *[]){&l->done, &l->issued, &l->reaped}[i % GATES_A_LANE];
}

/* The locks of the run, all or none. */
static oc_status init_locks(oc_run *r, oc_error *err) {
    int e, gates = 0;
    for (; gates < GATES; gates++)
        if ((e = oc_gate_init(gate_at(r, gates))) != 0) goto release_gates;
    if ((e = pthread_mutex_init(&r->error_lock, NULL)) != 0) goto release_gates;
    if ((e = pthread_mutex_init(&r->guard_lock, NULL)) != 0) goto release_error_lock;
    return OC_OK;
release_error_lock:
    pthread_mutex_destroy(&r->error_lock);
release_gates:
    while (gates-- > 0)
        oc_gate_release(gate_at(r, gates));
    return oc_fail_errno(err, OC_E_SYSTEM, e, "cannot create the locks of the executor");
}

static void release_locks(oc_run *r) {
    pthread_mutex_destroy(&r->guard_lock);
    pthread_mutex_destroy(&r->error_lock);
    for (int i = 0; i < GATES; i++)
        oc_gate_release(gate_at(r, i));
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
        e = pthread_create(&w->thread, NULL, w->main, w);
        w->started = !e;
        if (!e) pthread_setname_np(w->thread, w->name);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!e) return OC_OK;
    stop_workers(r);
    return oc_fail_errno(err, OC_E_SYSTEM, e,
                         "cannot start the threads of the lanes (no memory for them, or too many)");
}

static oc_run *make(const oc_run_spec *spec, oc_error *err) {
    uint64_t bytes = oc_layout_bytes(spec);
    void *block = aligned_alloc(64, (size_t)bytes);
    if (!block) {
        oc_fail(err, OC_E_MEMORY, "no memory for the executor: %llu bytes",
                (unsigned long long)bytes);
        return NULL;
    }
    memset(block, 0, (size_t)bytes);
    oc_run *r = oc_layout_make(block, spec);
    r->trace_fd = -1;
    r->last_plan = OC_NO_PLAN;
    r->opened_ns = (uint64_t)oc_clock_ns();
    find_session_only(r);
    prepare_lanes(r);
    return r;
}

oc_status oc_run_open(oc_run **out, const oc_run_spec *spec, oc_error *err) {
    *out = NULL;
    OC_TRY(oc_run_check(spec, err));
    oc_run *r = make(spec, err);
    if (!r) return OC_E_MEMORY;
    oc_status s;
    if ((s = init_locks(r, err)) != OC_OK) goto free_run;
    if (spec->trace_path && (s = oc_trace_open(r, err)) != OC_OK) goto drop_locks;
    if (r->guards) oc_guard_setup(r);
    if ((s = start_workers(r, err)) != OC_OK) goto close_trace;
    *out = r;
    return OC_OK;
close_trace:
    if (r->trace_fd >= 0) close(r->trace_fd);
drop_locks:
    release_locks(r);
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
    free(r);
}
