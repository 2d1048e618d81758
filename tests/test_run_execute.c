/* test_run_execute.c - what the executor promises beyond right bytes: errors, predicates, pacing,
 * serial order, overlap of two plans, the trace, page protection, no allocation in a step. On
 * queues: test_run_queues.c. */
#include "run_case.h"

#include <jansson.h>
#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Declared: reads SRC, writes DST. Buffer 2 is none of its business. */
static oc_status stray_body(const oc_task *t, oc_error *err) {
    (void)err;
    volatile uint8_t *src = oc_task_role(t, OC_ROLE_SRC), *dst = oc_task_role(t, OC_ROLE_DST);
    volatile uint8_t *other = rp_copy_at(t->set, t->bases, 2, 0);
    dst[0] = src[0];
    switch (((probe *)t->user)->stray) {
    case 1:
        src[1] = 7;
        break;
    case 2:
        other[1] = 7;
        break;
    case 3:
        dst[2] = other[1];
        break;
    default:
        break;
    }
    return OC_OK;
}

/* A chain over three lanes: op i adds one; the first waits for the gate. */
static void make_chain(rig *x, uint32_t n_ops) {
    static const oc_lane lanes[] = {OC_LANE_COMPUTE, OC_LANE_D2H, OC_LANE_OPTIM};
    rig_begin(x);
    oc_buffer_id c = rig_home(x, "c", 64);
    rig_plan(x, "chain");
    for (uint32_t i = 0; i < n_ops; i++)
        rig_count(x, rig_op(lanes[i % 3], i ? BODY_COUNT : BODY_GATE), c, i, n_ops);
    rig_finish(x);
}

static void test_first_error_poisons_both_plans_in_flight(void **state) {
    (void)state;
    rig x;
    make_chain(&x, 6);
    x.probe.fail_from = 2;
    rig_open(&x);
    uint64_t first = rig_submit(&x, 0), second = rig_submit(&x, 0);
    sem_post(&x.probe.open);
    sem_post(&x.probe.open);
    assert_int_equal(oc_run_wait(x.run, first, &x.err), OC_E_IO);
    assert_non_null(strstr(x.err.message, "disk gone at op 2"));
    assert_int_equal(oc_run_wait(x.run, second, &x.err), OC_E_IO);
    assert_int_equal(oc_run_drain(x.run, NULL), OC_E_IO);
    assert_int_equal(counter(&x, 0), 3); /* ops 0, 1 and the failed 2: nothing after */
    uint32_t copy;
    assert_int_equal(oc_run_begin(x.run, &copy, &x.err), OC_E_IO);
    assert_non_null(strstr(x.err.message, "disk gone at op 2"));
    rig_end(&x);
}

/* Op 1 has failed for certain (begin says so) before op 0, in flight, fails too. */
static void test_a_later_error_does_not_replace_the_first(void **state) {
    (void)state;
    rig x;
    rig_begin(&x);
    oc_buffer_id c = rig_home(&x, "c", 64), d = rig_home(&x, "d", 64);
    rig_plan(&x, "p");
    rig_count(&x, rig_op(OC_LANE_COMPUTE, BODY_GATE), c, 0, 1);
    rig_count(&x, rig_op(OC_LANE_WRITE, BODY_AFTER), d, 0, 1);
    rig_finish(&x);
    x.probe.fail_from = 0;
    rig_open(&x);
    rig_submit(&x, 0);
    uint32_t copy;
    while (oc_run_begin(x.run, &copy, &x.err) == OC_OK)
        sched_yield();
    sem_post(&x.probe.open);
    assert_int_equal(oc_run_drain(x.run, &x.err), OC_E_IO);
    assert_non_null(strstr(x.err.message, "disk gone at op 1"));
    assert_int_equal(counter(&x, c), 1); /* op 0 did fail as well */
    rig_end(&x);
}

static void test_close_waits_for_what_is_in_flight(void **state) {
    (void)state;
    rig x;
    make_chain(&x, 30);
    x.spec.delay_seed = 5;
    rig_open(&x);
    sem_post(&x.probe.open);
    rig_submit(&x, 0);
    oc_run_close(x.run);
    x.run = NULL;
    assert_int_equal(*(uint64_t *)x.mem.bases[OC_TIER_HOST], 30);
    rig_end(&x);
}

static void test_wrong_calls_are_refused(void **state) {
    (void)state;
    rig x;
    make_chain(&x, 3);
    oc_run *none;
    oc_run_spec bad = x.spec;
    bad.n_bodies = 1; /* the chain uses body 1 */
    assert_int_equal(oc_run_open(&none, &bad, &x.err), OC_E_INVALID);
    assert_null(none);
    bad = x.spec;
    bad.bases[OC_TIER_HOST] = NULL;
    assert_int_equal(oc_run_open(&none, &bad, &x.err), OC_E_INVALID);
    bad = x.spec;
    bad.pace_bytes_per_second[OC_LANE_H2D] = -1;
    assert_int_equal(oc_run_open(&none, &bad, &x.err), OC_E_INVALID);
    bad = x.spec;
    bad.trace_path = "/nonexistent/t.json";
    assert_int_equal(oc_run_open(&none, &bad, &x.err), OC_E_IO);
    assert_non_null(strstr(x.err.message, "/nonexistent/t.json"));
    bad = x.spec;
    bad.set = NULL;
    assert_int_equal(oc_run_open(&none, &bad, &x.err), OC_E_INVALID);
    oc_plan_set idle = *x.set;
    idle.plans[0].n_ops = 0;
    bad.set = &idle;
    assert_int_equal(oc_run_open(&none, &bad, &x.err), OC_E_INVALID);
    rig_open(&x);
    uint32_t copy;
    uint64_t ticket = 77;
    assert_int_equal(oc_run_submit(x.run, 0, &ticket, &x.err), OC_E_INVALID);
    assert_int_equal(oc_run_begin(x.run, &copy, &x.err), OC_OK);
    assert_int_equal(oc_run_submit(x.run, 1, &ticket, &x.err), OC_E_INVALID);
    assert_int_equal(ticket, 77);
    assert_int_equal(oc_run_wait(x.run, 1, &x.err), OC_E_INVALID);
    assert_int_equal(oc_run_wait(x.run, 0, &x.err), OC_E_INVALID);
    assert_int_equal(oc_run_drain(x.run, &x.err), OC_OK);
    rig_end(&x);
}

/* Waits are derived for listed successions only, so others are refused, by the plans' names. */
static void test_unlisted_successions_are_refused(void **state) {
    (void)state;
    rig x;
    rig_begin(&x);
    oc_buffer_id c = rig_home(&x, "c", 64);
    rig_plan(&x, "first");
    rig_count(&x, rig_op(OC_LANE_COMPUTE, BODY_COUNT), c, 0, 1);
    rig_plan(&x, "update");
    rig_count(&x, rig_op(OC_LANE_COMPUTE, BODY_COUNT), c, 0, 1);
    x.listed = true;
    oc_plan_follows(x.b, OC_NO_PLAN, 0);
    oc_plan_follows(x.b, 0, 1);
    oc_plan_follows(x.b, 1, 0);
    rig_finish(&x);
    rig_open(&x);
    uint32_t copy;
    uint64_t ticket = 77;
    assert_int_equal(oc_run_begin(x.run, &copy, &x.err), OC_OK);
    assert_int_equal(oc_run_submit(x.run, 1, &ticket, &x.err), OC_E_INVALID);
    assert_non_null(strstr(x.err.message, "plan update cannot be the first"));
    assert_int_equal(oc_run_submit(x.run, 0, &ticket, &x.err), OC_OK);
    assert_int_equal(oc_run_begin(x.run, &copy, &x.err), OC_OK);
    assert_int_equal(oc_run_submit(x.run, 0, &ticket, &x.err), OC_E_INVALID);
    assert_non_null(strstr(x.err.message, "plan first cannot follow plan first"));
    assert_int_equal(ticket, 1);
    assert_int_equal(oc_run_submit(x.run, 1, &ticket, &x.err), OC_OK);
    rig_submit(&x, 0);
    assert_int_equal(oc_run_drain(x.run, &x.err), OC_OK);
    assert_int_equal(counter(&x, c), 3);
    rig_end(&x);
}

/* Ops 2 and 4 of six are always entered, in both plans in flight; the others after op 0 are not. */
static void test_always_ops_are_entered_after_an_error_and_know_it(void **state) {
    (void)state;
    rig x;
    rig_begin(&x);
    oc_buffer_id c = rig_home(&x, "c", 64);
    rig_plan(&x, "p");
    for (uint32_t i = 0; i < 6; i++) {
        oc_op op = rig_op(i % 2 ? OC_LANE_COMM : OC_LANE_COMPUTE, i ? BODY_COUNT : BODY_GATE);
        op.always = i == 2 || i == 4;
        rig_count(&x, op, c, i, 6);
    }
    rig_finish(&x);
    x.probe.fail_from = 0;
    rig_open(&x);
    rig_submit(&x, 0);
    rig_submit(&x, 0);
    sem_post(&x.probe.open);
    assert_int_equal(oc_run_drain(x.run, &x.err), OC_E_IO);
    assert_non_null(strstr(x.err.message, "disk gone at op 0"));
    assert_int_equal(atomic_load(&x.probe.n_log), 5);
    assert_int_equal(atomic_load(&x.probe.n_failed_tasks), 4);
    assert_int_equal(x.probe.log[1], 2);
    assert_int_equal(x.probe.log[2], 4);
    rig_end(&x);
}

static oc_buffer_id add_cell(rig *x) {
    return oc_plan_buffer(x->b, "cell", OC_TIER_HOST, OC_USE_TEXT, OC_LIFE_SUBMISSION, 100, 0, 0,
                          rp_home(9, 0));
}

static void test_predicates_in_a_tier_that_the_host_cannot_read_are_refused(void **state) {
    (void)state;
    rig x;
    rig_begin(&x);
    oc_buffer_id c = rig_home(&x, "c", 64), cell = add_cell(&x);
    rig_plan(&x, "p");
    oc_op op = rig_op(OC_LANE_COMPUTE, BODY_COUNT);
    op.pred = cell;
    rig_count(&x, op, c, 0, 1);
    oc_plan_access(x.b, OC_ROLE_CELLS_IN, OC_READ, cell, 0, 1, rp_home(9, 0), rp_none);
    rig_finish(&x);
    x.spec.opaque[OC_TIER_DEVICE] = true;
    rig_open(&x);
    oc_run_close(x.run);
    x.spec.opaque[OC_TIER_HOST] = true;
    assert_int_equal(oc_run_open(&x.run, &x.spec, &x.err), OC_E_INVALID);
    assert_non_null(strstr(x.err.message, "predicate is cell in the host tier"));
    rig_end(&x);
}

static void test_false_predicate_skips_the_body_only(void **state) {
    (void)state;
    rig x;
    rig_begin(&x);
    oc_buffer_id c = rig_home(&x, "c", 64);
    oc_buffer_id cell = add_cell(&x);
    rig_plan(&x, "p");
    oc_op op = rig_op(OC_LANE_COMPUTE, BODY_COUNT);
    op.pred = cell;
    op.pred_index = 3;
    rig_count(&x, op, c, 0, 1);
    oc_plan_access(x.b, OC_ROLE_CELLS_IN, OC_READ, cell, 0, 1, rp_home(9, 0), rp_none);
    rig_finish(&x);
    rig_open(&x);
    static const uint32_t words[] = {1, 0, 0, 5, 0, 1, 1};
    for (uint32_t k = 0; k < 7; k++) {
        uint32_t copy;
        uint64_t ticket;
        assert_int_equal(oc_run_begin(x.run, &copy, &x.err), OC_OK);
        assert_int_equal(copy, k % 2);
        uint32_t *w = oc_run_buffer(x.run, cell, copy);
        memset(w, words[k] ? 0 : 0xff, 100); /* neighbours say the opposite */
        w[3] = words[k];
        assert_int_equal(oc_run_submit(x.run, 0, &ticket, &x.err), OC_OK);
    }
    assert_int_equal(oc_run_drain(x.run, &x.err), OC_OK);
    assert_int_equal(counter(&x, c), 4);
    oc_lane_stats stats[OC_LANE_COUNT];
    oc_run_stats(x.run, stats);
    assert_int_equal(stats[OC_LANE_COMPUTE].ops, 4);
    rig_end(&x);
}

/* ---- time ---- */

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void test_paced_lane_takes_bytes_over_rate_asleep(void **state) {
    (void)state;
    rig x;
    rig_begin(&x);
    oc_buffer_id c = rig_home(&x, "c", 64);
    oc_buffer_id d = rig_home(&x, "d", 64);
    rig_plan(&x, "p");
    enum { N = 20, EACH = 10000 };
    for (uint32_t i = 0; i < N; i++) {
        oc_op op = rig_op(OC_LANE_H2D, BODY_COUNT);
        op.demand.bytes = EACH;
        rig_count(&x, op, c, i, N);
    }
    /* Waits for all of it on another lane: its thread has to sleep too. */
    rig_count(&x, rig_op(OC_LANE_COMPUTE, BODY_COUNT), d, 0, 1);
    oc_plan_access(x.b, OC_ROLE_IN, OC_READ, c, 0, 1, rp_home(c, 0), rp_none);
    rig_finish(&x);
    x.spec.pace_bytes_per_second[OC_LANE_H2D] = 1e6;
    rig_open(&x);
    double cpu = cpu_seconds();
    int64_t start = oc_clock_ns();
    rig_submit(&x, 0);
    assert_int_equal(oc_run_drain(x.run, &x.err), OC_OK);
    double took = 1e-9 * (double)(oc_clock_ns() - start);
    cpu = cpu_seconds() - cpu;
    oc_lane_stats stats[OC_LANE_COUNT];
    oc_run_stats(x.run, stats);
    assert_true(took >= (double)N * EACH / 1e6);
    assert_true(cpu < took / 2);
    assert_int_equal(stats[OC_LANE_H2D].bytes, N * EACH);
    assert_int_equal(stats[OC_LANE_H2D].ops, N);
    assert_true((double)stats[OC_LANE_H2D].busy_ns >= 0.999e9 * N * EACH / 1e6);
    assert_int_equal(counter(&x, c), N);
    rig_end(&x);
}

static void make_independent(rig *x) {
    rig_begin(x);
    oc_buffer_id c[3];
    for (uint32_t i = 0; i < 3; i++)
        c[i] = rig_home(x, "c", 64);
    rig_plan(x, "p");
    for (uint32_t i = 0; i < 12; i++)
        rig_count(x, rig_op((oc_lane)(i % 3), BODY_COUNT), c[i % 3], i / 3, 4);
    rig_finish(x);
}

static void test_serial_runs_one_op_at_a_time_in_program_order(void **state) {
    (void)state;
    rig x;
    make_independent(&x);
    x.spec.serial = true;
    x.spec.delay_seed = 3;
    rig_open(&x);
    for (uint32_t k = 0; k < 3; k++)
        rig_submit(&x, 0);
    assert_int_equal(oc_run_drain(x.run, &x.err), OC_OK);
    assert_int_equal(atomic_load(&x.probe.n_log), 36);
    assert_int_equal(atomic_load(&x.probe.most_inside), 1);
    for (uint32_t i = 0; i < 36; i++)
        assert_int_equal(x.probe.log[i], i % 12);
    rig_end(&x);
}

/* Paced lanes do not overlap in serial mode: the sum of all bytes / rate, whatever the lane. */
static void test_serial_paces_add_up(void **state) {
    (void)state;
    rig x;
    rig_begin(&x);
    oc_buffer_id c[2] = {rig_home(&x, "c", 64), rig_home(&x, "d", 64)};
    rig_plan(&x, "p");
    for (uint32_t i = 0; i < 8; i++) {
        oc_op op = rig_op(i % 2 ? OC_LANE_H2D : OC_LANE_D2H, BODY_COUNT);
        op.demand.bytes = 10000;
        rig_count(&x, op, c[i % 2], i / 2, 4);
    }
    rig_finish(&x);
    x.spec.serial = true;
    x.spec.pace_bytes_per_second[OC_LANE_H2D] = 1e6;
    x.spec.pace_bytes_per_second[OC_LANE_D2H] = 2e6;
    rig_open(&x);
    int64_t start = oc_clock_ns();
    rig_submit(&x, 0);
    assert_int_equal(oc_run_drain(x.run, &x.err), OC_OK);
    assert_true(1e-9 * (double)(oc_clock_ns() - start) >= 4 * 0.010 + 4 * 0.005);
    rig_end(&x);
}

static void wait_reached(rig *x) {
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 20;
    assert_int_equal(sem_timedwait(&x->probe.reached, &limit), 0);
}

static atomic_int gate_opened;

static void *open_gate_later(void *arg) {
    rig *x = arg;
    struct timespec t = {0, 30000000};
    nanosleep(&t, NULL);
    atomic_store(&gate_opened, 1);
    sem_post(&x->probe.open);
    return NULL;
}

/* Plan 0 holds lane compute at the gate; plan 1 uses what plan 0 does not need. */
static void test_two_plans_overlap_and_a_third_waits(void **state) {
    (void)state;
    rig x;
    rig_begin(&x);
    oc_buffer_id c = rig_home(&x, "c", 64), d = rig_home(&x, "d", 64);
    rig_plan(&x, "gate");
    rig_count(&x, rig_op(OC_LANE_COMPUTE, BODY_GATE), c, 0, 1);
    rig_plan(&x, "free");
    rig_count(&x, rig_op(OC_LANE_WRITE, BODY_SIGNAL), d, 0, 1);
    rig_finish(&x);
    rig_open(&x);
    atomic_store(&gate_opened, 0);
    rig_submit(&x, 0);
    rig_submit(&x, 1);
    wait_reached(&x); /* plan 1 ran although plan 0 has not */
    pthread_t helper;
    assert_int_equal(pthread_create(&helper, NULL, open_gate_later, &x), 0);
    uint32_t copy;
    assert_int_equal(oc_run_begin(x.run, &copy, &x.err), OC_OK);
    assert_int_equal(atomic_load(&gate_opened), 1);
    pthread_join(helper, NULL);
    assert_int_equal(copy, 0);
    rig_end(&x);
}

/* ---- memory ---- */

static size_t heap_bytes(void) {
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

static void test_nothing_is_allocated_after_open(void **state) {
    (void)state;
#ifdef SANITIZED
    skip(); /* their allocators keep no such count */
#endif
    rig x;
    make_independent(&x);
    x.spec.trace_path = "run_execute_heap.json";
    x.spec.trace_bytes = 100000;
    uint64_t measured = oc_run_measure(&x.spec);
    size_t before = heap_bytes();
    rig_open(&x);
    size_t opened = heap_bytes();
    uint64_t said = oc_run_host_bytes(x.run);
    assert_int_equal(said, measured);
    assert_true(said > 100000);
    assert_true(opened - before >= said);
    /* malloc rounds a large block to pages; a few words of its own */
    assert_true(opened - before <= said + PAGE + 512);
    for (uint32_t k = 0; k < 50; k++)
        rig_submit(&x, 0);
    assert_int_equal(oc_run_drain(x.run, &x.err), OC_OK);
    assert_int_equal(heap_bytes(), opened);
    rig_end(&x);
    unlink("run_execute_heap.json");
}

static void make_stray(rig *x) {
    rig_begin(x);
    rig_home(x, "src", 4 * PAGE);
    rig_home(x, "dst", 4 * PAGE);
    rig_home(x, "other", 4 * PAGE + 64);
    rig_plan(x, "p");
    oc_op op = rig_op(OC_LANE_COMPUTE, BODY_OWN);
    oc_plan_op(x->b, &op);
    oc_plan_access(x->b, OC_ROLE_SRC, OC_READ, 0, 0, 1, rp_home(0, 0), rp_none);
    oc_plan_access(x->b, OC_ROLE_DST, OC_WRITE, 1, 0, 1, rp_home(1, 0), rp_none);
    x->bodies[BODY_OWN] = stray_body;
    rig_finish(x);
    x->spec.protect = true;
}

/* How the child ended: 0, or the signal. The session writes everywhere before and after. */
static int run_stray(int stray) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGSEGV, SIG_DFL);
        rig x;
        make_stray(&x);
        x.probe.stray = stray;
        rig_open(&x);
        bool ok = true;
        for (uint32_t k = 1; k <= 2; k++) {
            for (uint32_t i = 0; i < 3; i++)
                memset(oc_run_buffer(x.run, i, 0), (int)(k + i), 4 * PAGE);
            rig_submit(&x, 0);
            ok &= oc_run_drain(x.run, &x.err) == OC_OK;
            ok &= *(uint8_t *)oc_run_buffer(x.run, 1, 0) == k; /* copied from src */
        }
        rig_end(&x);
        _exit(ok ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) return WTERMSIG(status);
    return WEXITSTATUS(status) ? -1 : 0;
}

static void test_protection_stops_stray_accesses(void **state) {
    (void)state;
    assert_int_equal(run_stray(0), 0);
    assert_int_equal(run_stray(1), SIGSEGV); /* writes what it only reads */
    assert_int_equal(run_stray(2), SIGSEGV); /* writes what it does not name */
    assert_int_equal(run_stray(3), SIGSEGV); /* reads what it does not name */
}

/* ---- trace ---- */

static uint32_t count_track(const json_t *events, const char *lane, const char *kind) {
    json_int_t tid = -1;
    uint32_t n = 0, tracks = 0;
    size_t i;
    const json_t *e;
    json_array_foreach(events, i, e) {
        if (strcmp(json_string_value(json_object_get(e, "name")), "thread_name") != 0) continue;
        const json_t *args = json_object_get(e, "args");
        if (strcmp(json_string_value(json_object_get(args, "name")), lane) != 0) continue;
        tid = json_integer_value(json_object_get(e, "tid"));
        tracks++;
    }
    if (tracks != 1) return UINT32_MAX;
    json_array_foreach(events, i, e) {
        if (json_integer_value(json_object_get(e, "tid")) != tid) continue;
        if (strcmp(json_string_value(json_object_get(e, "ph")), "X") != 0) continue;
        assert_string_equal(json_string_value(json_object_get(e, "name")), kind);
        assert_true(json_number_value(json_object_get(e, "ts")) >= 0);
        assert_true(json_number_value(json_object_get(e, "dur")) >= 0);
        const json_t *args = json_object_get(e, "args");
        assert_int_equal(json_integer_value(json_object_get(args, "micro")), 3);
        assert_true(json_integer_value(json_object_get(args, "step")) >= 1);
        n++;
    }
    return n;
}

static json_t *load_trace(const char *path) {
    json_error_t e;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &e);
    if (!root) fail_msg("line %d: %s", e.line, e.text);
    return root;
}

enum { EVENT_BYTES = 32 }; /* of the executor */

static int64_t dropped(const json_t *root) {
    return json_integer_value(
        json_object_get(json_object_get(root, "otherData"), "dropped_events"));
}

static void test_trace_is_json_with_a_track_a_lane(void **state) {
    (void)state;
    const char *path = "run_execute_trace.json";
    enum { OLD_BYTES = 1 << 20 };
    rig x;
    FILE *old = fopen(path, "w"); /* a longer trace of an earlier run */
    assert_non_null(old);
    for (int i = 0; i < OLD_BYTES; i++)
        (void)fputc('x', old);
    assert_int_equal(fclose(old), 0);
    make_independent(&x);
    x.spec.trace_path = path;
    x.spec.trace_bytes = 60 * EVENT_BYTES;
    rig_open(&x);
    struct stat before;
    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(before.st_size, OLD_BYTES); /* there until something is written */
    for (uint32_t k = 0; k < 5; k++)
        rig_submit(&x, 0);
    rig_end(&x);
    json_t *root = load_trace(path);
    const json_t *events = json_object_get(root, "traceEvents");
    assert_int_equal(count_track(events, "compute", "forward b5"), 20);
    assert_int_equal(count_track(events, "h2d", "forward b5"), 20);
    assert_int_equal(count_track(events, "d2h", "forward b5"), 20);
    assert_int_equal(count_track(events, "optim", ""), UINT32_MAX); /* has no ops: no track */
    assert_int_equal(dropped(root), 0);
    json_decref(root);
    unlink(path);
}

static void test_full_trace_keeps_the_newest_and_says_so(void **state) {
    (void)state;
    const char *path = "run_execute_full.json";
    enum { OPS = 400, STEPS = 9, KEPT = 3000 };
    rig x;
    rig_begin(&x);
    oc_buffer_id c = rig_home(&x, "c", 64);
    rig_plan(&x, "p");
    for (uint32_t i = 0; i < OPS; i++)
        rig_count(&x, rig_op(OC_LANE_COMPUTE, BODY_COUNT), c, i, OPS);
    rig_finish(&x);
    x.spec.trace_path = path;
    x.spec.trace_bytes = KEPT * EVENT_BYTES;
    rig_open(&x);
    for (uint32_t k = 0; k < STEPS; k++)
        rig_submit(&x, 0);
    assert_int_equal(oc_run_write_trace(x.run, &x.err), OC_OK);
    json_t *root = load_trace(path);
    const json_t *events = json_object_get(root, "traceEvents");
    assert_int_equal(count_track(events, "compute", "forward b5"), KEPT);
    assert_int_equal(dropped(root), OPS * STEPS - KEPT);
    assert_int_equal(oc_run_trace_left_out(x.run), OPS * STEPS - KEPT);
    const json_t *last = json_array_get(events, json_array_size(events) - 1);
    const json_t *args = json_object_get(last, "args");
    assert_int_equal(json_integer_value(json_object_get(args, "step")), STEPS);
    assert_int_equal(json_integer_value(json_object_get(args, "op")), OPS - 1);
    json_decref(root);
    rig_end(&x); /* closing does not write again */
    unlink(path);
}

/* 90 and 10 ops in a trace for 100 events: 16 for each lane, and of the other 68 nine tenths and
 * one tenth. Less room than for 16 is not given. */
static void test_trace_is_divided_by_how_many_ops_a_lane_has(void **state) {
    (void)state;
    const char *path = "run_execute_divided.json";
    static const uint32_t room[] = {100, 0}, compute[] = {77, 16}, h2d[] = {22, 16};
    for (int i = 0; i < 2; i++) {
        rig x;
        rig_begin(&x);
        oc_buffer_id c = rig_home(&x, "c", 64), d = rig_home(&x, "d", 64);
        rig_plan(&x, "p");
        for (uint32_t k = 0; k < 90; k++)
            rig_count(&x, rig_op(OC_LANE_COMPUTE, BODY_COUNT), c, k, 90);
        for (uint32_t k = 0; k < 10; k++)
            rig_count(&x, rig_op(OC_LANE_H2D, BODY_COUNT), d, k, 10);
        rig_finish(&x);
        x.spec.trace_path = path;
        x.spec.trace_bytes = room[i] * EVENT_BYTES;
        rig_open(&x);
        for (uint32_t k = 0; k < 3; k++)
            rig_submit(&x, 0);
        assert_int_equal(oc_run_write_trace(x.run, &x.err), OC_OK);
        assert_int_equal(oc_run_trace_left_out(x.run), 300 - compute[i] - h2d[i]);
        json_t *root = load_trace(path);
        const json_t *events = json_object_get(root, "traceEvents");
        assert_int_equal(count_track(events, "compute", "forward b5"), compute[i]);
        assert_int_equal(count_track(events, "h2d", "forward b5"), h2d[i]);
        json_decref(root);
        rig_end(&x);
    }
    unlink(path);
}

static void test_trace_that_cannot_be_written_is_an_error(void **state) {
    (void)state;
    if (access("/dev/full", W_OK) != 0) skip();
    rig x;
    make_independent(&x);
    x.spec.trace_path = "/dev/full";
    rig_open(&x);
    rig_submit(&x, 0);
    assert_int_equal(oc_run_write_trace(x.run, &x.err), OC_E_IO);
    assert_non_null(strstr(x.err.message, "/dev/full"));
    rig_end(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_error_poisons_both_plans_in_flight),
        cmocka_unit_test(test_a_later_error_does_not_replace_the_first),
        cmocka_unit_test(test_close_waits_for_what_is_in_flight),
        cmocka_unit_test(test_wrong_calls_are_refused),
        cmocka_unit_test(test_unlisted_successions_are_refused),
        cmocka_unit_test(test_always_ops_are_entered_after_an_error_and_know_it),
        cmocka_unit_test(test_predicates_in_a_tier_that_the_host_cannot_read_are_refused),
        cmocka_unit_test(test_false_predicate_skips_the_body_only),
        cmocka_unit_test(test_paced_lane_takes_bytes_over_rate_asleep),
        cmocka_unit_test(test_serial_runs_one_op_at_a_time_in_program_order),
        cmocka_unit_test(test_serial_paces_add_up),
        cmocka_unit_test(test_two_plans_overlap_and_a_third_waits),
        cmocka_unit_test(test_nothing_is_allocated_after_open),
        cmocka_unit_test(test_protection_stops_stray_accesses),
        cmocka_unit_test(test_trace_is_json_with_a_track_a_lane),
        cmocka_unit_test(test_full_trace_keeps_the_newest_and_says_so),
        cmocka_unit_test(test_trace_is_divided_by_how_many_ops_a_lane_has),
        cmocka_unit_test(test_trace_that_cannot_be_written_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
