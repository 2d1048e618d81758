/* test_run_queue_faults.c - queues that fail, refuse, lose or do not fit, and pages that are
 * touched when their op is done. */
#include "queue_case.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- errors ---- */

/* A chain of six over the first two lanes. */
static void make_chain(const char *kinds, bool always) {
    begin(kinds);
    oc_buffer_id c = rig_home(&d->rig, "c", 64);
    rig_plan(&d->rig, "p");
    for (uint32_t i = 0; i < 6; i++) {
        oc_op op = rig_op(lanes[i % 2], BODY_COUNT);
        op.always = always;
        rig_count(&d->rig, op, c, i, 6);
    }
    finish();
}

static void run_to_failure(oc_status status, const char *text) {
    rig_open(&d->rig);
    uint32_t copy;
    uint64_t ticket;
    for (int k = 0; k < 2; k++) /* the second may come too late */
        if (oc_run_begin(d->rig.run, &copy, NULL) == OC_OK)
            (void)!oc_run_submit(d->rig.run, 0, &ticket, NULL);
    assert_int_equal(oc_run_drain(d->rig.run, &d->rig.err), status);
    if (!strstr(d->rig.err.message, text)) fail_msg("%s", d->rig.err.message);
}

static void test_what_fails_in_a_queue_poisons_the_run(void **state) {
    (void)state;
    static const char *const kinds[] = {"ss", "rr", "sr", "so"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        make_chain(kinds[i], false);
        d->rig.probe.fail_from = 2;
        run_to_failure(OC_E_IO,
                       kinds[i][0] == 's' ? "the toy stream of lane" : "the toy ring of lane");
        assert_true(count_of(0) >= 3); /* streams had more of them issued */
        end();
    }
}

/* Whichever of its first marks a stream refuses: the run ends, and nobody waits for what is not
 * there, which a toy stream would call invalid. */
static void test_a_refused_mark_ends_the_run(void **state) {
    (void)state;
    for (uint64_t mark = 1; mark <= 6; mark++) {
        make_chain("ss", false);
        d->streams[0].refuse_mark = mark;
        run_to_failure(OC_E_DEVICE, "toy stream of lane compute");
        end();
    }
}

static void test_always_ops_are_entered_on_a_stream_that_broke(void **state) {
    (void)state;
    begin("s");
    for (uint32_t i = 0; i < 6; i++)
        rig_home(&d->rig, "c", 64);
    rig_plan(&d->rig, "p");
    for (uint32_t i = 0; i < 6; i++) {
        oc_op op = rig_op(lanes[0], BODY_COUNT);
        op.always = i % 2;
        rig_count(&d->rig, op, i, 0, 1);
    }
    finish();
    d->streams[0].refuse_mark = 1;
    run_to_failure(OC_E_DEVICE, "toy stream of lane compute");
    end();
    assert_true(atomic_load(&d->rig.probe.n_log) >= 3);
    assert_int_equal(atomic_load(&d->rig.probe.n_log), atomic_load(&d->rig.probe.n_failed_tasks));
}

/* The host waits then, so that an op which is entered nevertheless keeps its order. */
static void test_a_refused_wait_fails_the_run_and_keeps_its_order(void **state) {
    (void)state;
    begin("ss");
    d->rig.bodies[BODY_OWN] = issue_body;
    oc_buffer_id c = rig_home(&d->rig, "c", 64);
    rig_plan(&d->rig, "p");
    rig_count(&d->rig, rig_op(lanes[0], BODY_GATE), c, 0, 2);
    oc_op op = rig_op(lanes[1], BODY_OWN);
    op.always = 1;
    rig_count(&d->rig, op, c, 1, 2);
    finish();
    d->streams[1].refuse_wait = 1;
    rig_open(&d->rig);
    rig_submit(&d->rig, 0);
    wait_on(&d->rig.probe.entered);
    wait_ms(10);
    assert_int_equal(atomic_load(&d->issued), 0);
    sem_post(&d->rig.probe.open);
    assert_int_equal(oc_run_drain(d->rig.run, &d->rig.err), OC_E_DEVICE);
    assert_non_null(strstr(d->rig.err.message, "toy stream of lane h2d"));
    assert_int_equal(count_of(c), 2);
    end();
}

static oc_status refuse_body(const oc_task *t, oc_error *err) {
    (void)t;
    return oc_fail(err, OC_E_IO, "not even issued");
}

static void test_a_body_that_fails_to_issue_has_nothing_in_flight(void **state) {
    (void)state;
    static const char *const kinds[] = {"s", "r"};
    for (size_t i = 0; i < 2; i++) {
        begin(kinds[i]);
        make_many(8);
        d->rig.bodies[BODY_GATE] = count_body;
        d->rig.bodies[BODY_OWN] = refuse_body;
        finish();
        run_to_failure(OC_E_IO, "forward: not even issued");
        assert_int_equal(count_of(0), 1);
        end();
    }
}

static void test_a_ring_that_loses_an_op_does_not_hang_the_run(void **state) {
    (void)state;
    begin("r");
    make_many(12);
    d->rig.bodies[BODY_GATE] = count_body;
    finish();
    d->rings[0].lose_token = 3;
    run_to_failure(OC_E_INVALID, "toy ring of lane compute");
    end();
}

/* ---- specs ---- */

static void refused(oc_run_spec spec, const char *text) {
    oc_run *none;
    assert_int_equal(oc_run_open(&none, &spec, &d->rig.err), OC_E_INVALID);
    assert_null(none);
    if (!strstr(d->rig.err.message, text)) fail_msg("%s", d->rig.err.message);
}

static void test_queues_that_do_not_fit_are_refused(void **state) {
    (void)state;
    begin("sr");
    oc_buffer_id c = rig_home(&d->rig, "c", 64);
    rig_plan(&d->rig, "p");
    rig_count(&d->rig, rig_op(lanes[0], BODY_COUNT), c, 0, 2);
    rig_count(&d->rig, rig_op(lanes[1], BODY_COUNT), c, 1, 2);
    finish();
    oc_run_spec bad = d->rig.spec;
    bad.queues[lanes[2]] = &d->rings[1].q;
    bad.queues[lanes[1]] = NULL;
    refused(bad, "any order");
    bad = d->rig.spec;
    bad.queues[lanes[2]] = &d->streams[0].q;
    refused(bad, "share a queue");
    oc_queue_ops ops = toy_stream_ops;
    oc_queue q = d->streams[0].q;
    q.ops = &ops;
    bad = d->rig.spec;
    bad.queues[lanes[0]] = &q;
    ops.hold = NULL;
    bad.pace_bytes_per_second[lanes[0]] = 1e9;
    refused(bad, "cannot be paced");
    q.marks = 1;
    refused(bad, "remembers 1 marks");
    ops.await = NULL;
    refused(bad, "has no marks");
    oc_queue r = d->rings[1].q;
    r.depth = 0;
    bad = d->rig.spec;
    bad.queues[lanes[1]] = &r;
    refused(bad, "cannot hold 0 ops");
    end();
}

/* ---- protection ---- */

/* After it, and so after the op of the queue: writes where that one wrote. */
static oc_status stray_body(const oc_task *t, oc_error *err) {
    volatile uint8_t *other = rp_copy_at(t->set, t->bases, 0, 0);
    if (((probe *)t->user)->stray) *other = 7;
    return count_now(t, err);
}

static int run_stray(const char *kinds, bool stray) {
    begin(kinds);
    d->rig.bodies[BODY_OWN] = stray_body;
    oc_buffer_id home = rig_home(&d->rig, "home", 4 * PAGE), c = rig_home(&d->rig, "c", 64);
    rig_plan(&d->rig, "p");
    rig_count(&d->rig, rig_op(lanes[0], BODY_COUNT), home, 0, 1);
    oc_plan_access(d->rig.b, OC_ROLE_IN, OC_READ, c, 0, 1, rp_home(c, 0), rp_none);
    rig_count(&d->rig, rig_op(lanes[1], BODY_OWN), c, 0, 1);
    finish();
    d->rig.spec.protect = true;
    d->rig.probe.stray = stray;
    run_once();
    uint64_t n = count_of(home);
    end();
    return n == 1 ? 0 : 1;
}

static int in_child(const char *kinds, bool stray) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGSEGV, SIG_DFL);
        _exit(run_stray(kinds, stray));
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

static void test_homes_are_protected_again_when_a_queue_is_done_with_them(void **state) {
    (void)state;
    assert_int_equal(in_child("st", false), 0);
    assert_int_equal(in_child("rt", false), 0);
    assert_int_equal(in_child("st", true), SIGSEGV);
    assert_int_equal(in_child("rt", true), SIGSEGV);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_fails_in_a_queue_poisons_the_run),
        cmocka_unit_test(test_a_refused_mark_ends_the_run),
        cmocka_unit_test(test_always_ops_are_entered_on_a_stream_that_broke),
        cmocka_unit_test(test_a_refused_wait_fails_the_run_and_keeps_its_order),
        cmocka_unit_test(test_a_body_that_fails_to_issue_has_nothing_in_flight),
        cmocka_unit_test(test_a_ring_that_loses_an_op_does_not_hang_the_run),
        cmocka_unit_test(test_queues_that_do_not_fit_are_refused),
        cmocka_unit_test(test_homes_are_protected_again_when_a_queue_is_done_with_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
