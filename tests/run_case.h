/* run_case.h - small plans of counting ops for the tests of the executor: bodies that count, and a
 * rig that builds, opens, submits and ends. */
#ifndef RUN_CASE_H
#define RUN_CASE_H

#include "random_plan.h"

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#endif

enum { PAGE = 4096, MAX_LOG = 64 };
enum { BODY_COUNT, BODY_GATE, BODY_AFTER, BODY_SIGNAL, BODY_OWN, N_BODIES };

typedef struct probe {
    uint32_t fail_from; /* ops with this index and above fail */
    sem_t open;         /* BODY_GATE waits for it */
    sem_t entered;      /* BODY_GATE posts it first; BODY_AFTER waits for it */
    sem_t reached;      /* BODY_SIGNAL posts it */
    atomic_int inside, most_inside;
    atomic_uint n_log, n_failed_tasks; /* calls; those that were told that the run has failed */
    uint32_t log[MAX_LOG];
    int stray;
} probe;

static inline void wait_on(sem_t *s) {
    while (sem_wait(s) != 0) {
    }
}

static inline oc_status count_now(const oc_task *t, oc_error *err) {
    probe *p = t->user;
    uint32_t index = (uint32_t)(t->op - t->plan->ops);
    int in = atomic_fetch_add(&p->inside, 1) + 1;
    if (in > atomic_load(&p->most_inside)) atomic_store(&p->most_inside, in);
    unsigned at = atomic_fetch_add(&p->n_log, 1);
    if (at < MAX_LOG) p->log[at] = index;
    atomic_fetch_add(&p->n_failed_tasks, t->failed);
    uint64_t *counter = oc_task_role(t, OC_ROLE_GRAD);
    if (counter) ++*counter;
    atomic_fetch_sub(&p->inside, 1);
    if (index >= p->fail_from) return oc_fail(err, OC_E_IO, "disk gone at op %u", index);
    return OC_OK;
}

static inline oc_status gate_now(const oc_task *t, oc_error *err) {
    probe *p = t->user;
    sem_post(&p->entered);
    wait_on(&p->open);
    return count_now(t, err);
}

static inline oc_status after_now(const oc_task *t, oc_error *err) {
    wait_on(&((probe *)t->user)->entered);
    return count_now(t, err);
}

static inline oc_status signal_now(const oc_task *t, oc_error *err) {
    oc_status s = count_now(t, err);
    sem_post(&((probe *)t->user)->reached);
    return s;
}

/* Done by the lane's queue, or at once. */
static inline oc_status count_body(const oc_task *t, oc_error *err) {
    return toy_issue(t, count_now, err);
}
static inline oc_status gate_body(const oc_task *t, oc_error *err) {
    return toy_issue(t, gate_now, err);
}
static inline oc_status after_body(const oc_task *t, oc_error *err) {
    return toy_issue(t, after_now, err);
}
static inline oc_status signal_body(const oc_task *t, oc_error *err) {
    return toy_issue(t, signal_now, err);
}

typedef struct rig {
    oc_body *bodies[N_BODIES]; /* BODY_OWN: the test's */
    uint32_t n_homes, n_plans;
    bool listed; /* the test lists successions itself */
    oc_plan_builder *b;
    oc_plan_set *set;
    rp_memory mem;
    probe probe;
    oc_run_spec spec;
    oc_run *run;
    oc_error err;
} rig;

static inline void rig_begin(rig *x) {
    memset(x, 0, sizeof *x);
    x->probe.fail_from = UINT32_MAX;
    x->bodies[BODY_COUNT] = count_body;
    x->bodies[BODY_GATE] = gate_body;
    x->bodies[BODY_AFTER] = after_body;
    x->bodies[BODY_SIGNAL] = signal_body;
    assert_int_equal(sem_init(&x->probe.open, 0, 0), 0);
    assert_int_equal(sem_init(&x->probe.entered, 0, 0), 0);
    assert_int_equal(sem_init(&x->probe.reached, 0, 0), 0);
    assert_int_equal(oc_plan_builder_new(&x->b, &x->err), OC_OK);
}

/* Buffer number `id`; it holds rp_home(id, 0) at the start and the end of every plan. */
static inline oc_buffer_id rig_home(rig *x, const char *name, uint64_t bytes) {
    uint32_t id = x->n_homes++;
    oc_buffer_id b = oc_plan_buffer(x->b, name, OC_TIER_HOST, OC_USE_WEIGHTS, OC_LIFE_CARRIED,
                                    bytes, 0, 0, rp_home(id, 0));
    assert_int_equal(b, id);
    return b;
}

/* After all homes are there. */
static inline void rig_plan(rig *x, const char *name) {
    oc_plan_begin(x->b, name);
    for (uint32_t i = 0; i < x->n_homes; i++) {
        oc_plan_starts(x->b, i, 0, UINT32_MAX, rp_home(i, 0));
        oc_plan_ends(x->b, i, 0, UINT32_MAX, rp_home(i, 0));
    }
    x->n_plans++;
}

static inline oc_op rig_op(oc_lane lane, uint16_t body) {
    return (oc_op){.kind = OC_OP_FORWARD,
                   .lane = (uint16_t)lane,
                   .body = body,
                   .micro = 3,
                   .block = 5,
                   .piece = UINT32_MAX,
                   .blocks = 1,
                   .pred = OC_NO_BUFFER,
                   .index = OC_NO_BUFFER};
}

/* Adds one to the counter in buffer id, step `at` of `of` in its plan. */
static inline void rig_count(rig *x, oc_op op, oc_buffer_id id, uint32_t at, uint32_t of) {
    oc_value from = rp_home(id, 0), to = rp_home(id, 0);
    from.stage = (uint16_t)at;
    to.stage = (uint16_t)((at + 1) % of);
    oc_plan_op(x->b, &op);
    oc_plan_access(x->b, OC_ROLE_GRAD, OC_FOLD, id, 0, UINT32_MAX, from, to);
}

/* Any plan may follow any, unless the test said otherwise. */
static inline void rig_follow_all(rig *x) {
    for (uint32_t a = 0; a < x->n_plans; a++) {
        oc_plan_follows(x->b, OC_NO_PLAN, a);
        for (uint32_t b = 0; b < x->n_plans; b++)
            oc_plan_follows(x->b, a, b);
    }
}

static inline void rig_finish(rig *x) {
    if (!x->listed) rig_follow_all(x);
    oc_status s = oc_plan_finish(x->b, &x->set, &x->err);
    oc_plan_builder_free(x->b);
    if (s == OC_OK) s = oc_plan_verify(x->set, &x->err);
    if (s != OC_OK) fail_msg("%s", x->err.message);
    rp_memory_init(&x->mem, x->set, 1);
    for (int t = 0; t < OC_TIER_COUNT; t++)
        memset(x->mem.bases[t], 0, (size_t)x->mem.bytes[t]);
    x->spec =
        (oc_run_spec){.set = x->set, .bodies = x->bodies, .n_bodies = N_BODIES, .user = &x->probe};
    memcpy(x->spec.bases, x->mem.bases, sizeof x->spec.bases);
}

static inline void rig_open(rig *x) {
    if (oc_run_open(&x->run, &x->spec, &x->err) != OC_OK) fail_msg("%s", x->err.message);
}

static inline uint64_t rig_submit(rig *x, uint32_t plan) {
    uint32_t copy;
    uint64_t ticket;
    assert_int_equal(oc_run_begin(x->run, &copy, &x->err), OC_OK);
    assert_int_equal(oc_run_submit(x->run, plan, &ticket, &x->err), OC_OK);
    return ticket;
}

static inline void rig_end(rig *x) {
    oc_run_close(x->run);
    oc_plan_set_free(x->set);
    rp_memory_release(&x->mem);
    sem_destroy(&x->probe.open);
    sem_destroy(&x->probe.entered);
    sem_destroy(&x->probe.reached);
}

static inline uint64_t counter(const rig *x, uint32_t id) {
    uint64_t v;
    memcpy(&v, oc_run_buffer(x->run, id, 0), sizeof v);
    return v;
}

#endif
