/* test_run_queues.c - lanes with queues: what is issued when, what is done when, pacing, the trace.
 * What goes wrong: test_run_queue_faults.c. */
#include "queue_case.h"

#include <jansson.h>
#include <malloc.h>
#include <unistd.h>

/* ---- issue and completion ---- */

/* Op 0 holds the first lane at a gate, op 1 on the second lane needs it. */
static void make_two(const char *kinds) {
    begin(kinds);
    d->rig.bodies[BODY_OWN] = issue_body;
    oc_buffer_id c = rig_home(&d->rig, "c", 64);
    rig_plan(&d->rig, "p");
    rig_count(&d->rig, rig_op(lanes[0], BODY_GATE), c, 0, 2);
    rig_count(&d->rig, rig_op(lanes[1], BODY_OWN), c, 1, 2);
    finish();
    rig_open(&d->rig);
    rig_submit(&d->rig, 0);
    wait_on(&d->rig.probe.entered);
}

static void end_two(void) {
    sem_post(&d->rig.probe.open);
    assert_int_equal(oc_run_drain(d->rig.run, &d->rig.err), OC_OK);
    assert_int_equal(count_of(0), 2);
    assert_int_equal(d->rig.probe.log[1], 1);
    end();
}

static void test_streams_of_a_family_wait_without_the_host(void **state) {
    (void)state;
    make_two("ss");
    wait_issued(1); /* although op 0 has not ended */
    assert_int_equal(atomic_load(&d->rig.probe.n_log), 0);
    end_two();
    assert_int_equal(d->streams[1].n_waits, 1);
}

static void test_all_other_lanes_wait_until_an_op_is_done(void **state) {
    (void)state;
    static const char *const kinds[] = {"st", "so", "sr", "ts", "tr", "rs", "rt"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        make_two(kinds[i]);
        wait_ms(10);
        assert_int_equal(atomic_load(&d->issued), 0);
        end_two();
    }
}

/* Both ops on one ring. */
static void test_an_op_of_a_ring_may_wait_for_its_own_lane(void **state) {
    (void)state;
    begin("r");
    d->rig.bodies[BODY_OWN] = issue_body;
    oc_buffer_id c = rig_home(&d->rig, "c", 64);
    rig_plan(&d->rig, "p");
    rig_count(&d->rig, rig_op(lanes[0], BODY_GATE), c, 0, 2);
    rig_count(&d->rig, rig_op(lanes[0], BODY_OWN), c, 1, 2);
    finish();
    rig_open(&d->rig);
    rig_submit(&d->rig, 0);
    wait_on(&d->rig.probe.entered);
    wait_ms(10);
    assert_int_equal(atomic_load(&d->issued), 0);
    end_two();
}

static void test_a_stream_has_half_its_marks_in_ops_that_are_not_done(void **state) {
    (void)state;
    begin("s");
    d->marks = 8;
    make_many(12);
    finish();
    rig_open(&d->rig);
    rig_submit(&d->rig, 0);
    wait_on(&d->rig.probe.entered);
    wait_issued(3); /* and the one at the gate */
    wait_ms(10);
    assert_int_equal(atomic_load(&d->issued), 3);
    sem_post(&d->rig.probe.open);
    assert_int_equal(oc_run_drain(d->rig.run, &d->rig.err), OC_OK);
    end();
    assert_true(d->streams[0].most_unreached <= 8);
}

/* One op of a ring is held. Others overtake it, depth at a time, up to four times the depth; who
 * waits for a later one waits for it too, since `done` counts from the first. */
static void test_a_ring_is_full_at_its_depth_and_lets_ops_overtake(void **state) {
    (void)state;
    begin("rt");
    d->depth = 3;
    enum { N = 14 };
    make_many(N);
    rig_count(&d->rig, rig_op(lanes[1], BODY_COUNT), N, 0, 1);
    oc_plan_access(d->rig.b, OC_ROLE_IN, OC_READ, 5, 0, 1, rp_home(5, 0), rp_none);
    finish();
    rig_open(&d->rig);
    rig_submit(&d->rig, 0);
    wait_on(&d->rig.probe.entered);
    wait_issued(11);
    for (int i = 0; i < 20000 && atomic_load(&d->rig.probe.n_log) < 11; i++)
        wait_ms(1);
    wait_ms(10);
    assert_int_equal(atomic_load(&d->issued), 11);
    assert_int_equal(atomic_load(&d->rig.probe.n_log), 11);
    assert_int_equal(count_of(N), 0);
    sem_post(&d->rig.probe.open);
    assert_int_equal(oc_run_drain(d->rig.run, &d->rig.err), OC_OK);
    assert_int_equal(count_of(N), 1);
    end();
    assert_int_equal(d->rings[0].most_in_flight, 3);
    assert_true(d->rings[0].n_overtaken > 0);
}

static void open_gate_and_linger(void *user) {
    sem_post(&((rig *)user)->probe.open);
    wait_ms(30);
}

/* The second stream looks at the end mark of an op which is not done. While it asks for it, the op
 * ends, and the first stream, which remembers no more than one op's marks, wants to go on. */
static void test_a_mark_is_remembered_while_another_lane_asks_for_it(void **state) {
    (void)state;
    begin("ss");
    d->marks = 2;
    oc_buffer_id c = rig_home(&d->rig, "c", 64), e = rig_home(&d->rig, "e", 64);
    rig_plan(&d->rig, "p");
    rig_count(&d->rig, rig_op(lanes[0], BODY_GATE), c, 0, 2);
    rig_count(&d->rig, rig_op(lanes[1], BODY_COUNT), c, 1, 2);
    for (uint32_t i = 0; i < 8; i++)
        rig_count(&d->rig, rig_op(lanes[0], BODY_COUNT), e, i, 8);
    finish();
    d->streams[1].before_wait = open_gate_and_linger;
    d->streams[1].user = &d->rig;
    run_once();
    assert_int_equal(count_of(c), 2);
    end();
    assert_int_equal(d->streams[1].n_waits, 1);
}

static void test_close_waits_for_queues(void **state) {
    (void)state;
    begin("srs");
    oc_buffer_id c = rig_home(&d->rig, "c", 64);
    rig_plan(&d->rig, "p");
    for (uint32_t i = 0; i < 30; i++)
        rig_count(&d->rig, rig_op(lanes[i % 3], BODY_COUNT), c, i, 30);
    finish();
    d->rig.spec.delay_seed = 5;
    rig_open(&d->rig);
    rig_submit(&d->rig, 0);
    oc_run_close(d->rig.run);
    d->rig.run = NULL;
    assert_int_equal(count_of(c), 30);
    end();
}

/* ---- predicates ---- */

static oc_status raise_flag_now(const oc_task *t, oc_error *err) {
    wait_on(&((probe *)t->user)->open);
    *(uint32_t *)oc_task_role(t, OC_ROLE_CELLS_OUT) = 1;
    (void)err;
    return OC_OK;
}

static oc_status raise_flag_body(const oc_task *t, oc_error *err) {
    sem_post(&((probe *)t->user)->entered);
    return toy_issue(t, raise_flag_now, err);
}

static void read_flag(oc_buffer_id flag) {
    oc_plan_access(d->rig.b, OC_ROLE_CELLS_IN, OC_READ, flag, 0, 1, rp_home(flag, 0), rp_none);
}

/* One stream raises the flag late; an op of another has it as its predicate. With `implied` that op
 * has no wait of its own, for the op before it in its lane has waited already. */
static void make_flagged(bool implied) {
    begin("ss");
    d->rig.bodies[BODY_OWN] = raise_flag_body;
    oc_buffer_id flag = rig_home(&d->rig, "flag", 64), c = rig_home(&d->rig, "c", 64);
    oc_buffer_id e = rig_home(&d->rig, "e", 64);
    rig_plan(&d->rig, "p");
    oc_op op = rig_op(lanes[0], BODY_OWN);
    oc_plan_op(d->rig.b, &op);
    oc_plan_access(d->rig.b, OC_ROLE_CELLS_OUT, OC_FOLD, flag, 0, 1, rp_home(flag, 0),
                   rp_home(flag, 0));
    if (implied) {
        rig_count(&d->rig, rig_op(lanes[1], BODY_COUNT), e, 0, 1);
        read_flag(flag);
    }
    op = rig_op(lanes[1], BODY_COUNT);
    op.pred = flag;
    rig_count(&d->rig, op, c, 0, 1);
    read_flag(flag);
    finish();
    assert_int_equal(d->rig.set->plans[0].n_waits, 1);
}

static void test_a_predicate_is_read_when_its_writer_is_done(void **state) {
    (void)state;
    for (int implied = 0; implied < 2; implied++) {
        make_flagged(implied);
        rig_open(&d->rig);
        rig_submit(&d->rig, 0);
        wait_on(&d->rig.probe.entered);
        wait_ms(10); /* the reader is at its predicate */
        sem_post(&d->rig.probe.open);
        assert_int_equal(oc_run_drain(d->rig.run, &d->rig.err), OC_OK);
        assert_int_equal(count_of(1), 1);
        end();
    }
}

/* ---- time ---- */

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void test_paced_queues_take_bytes_over_rate_asleep(void **state) {
    (void)state;
    enum { N = 20, EACH = 10000 };
    static const char *const kinds[] = {"s", "r"};
    for (size_t k = 0; k < 2; k++) {
        begin(kinds[k]);
        oc_buffer_id c[N];
        for (uint32_t i = 0; i < N; i++)
            c[i] = rig_home(&d->rig, "c", 64);
        rig_plan(&d->rig, "p");
        for (uint32_t i = 0; i < N; i++) {
            oc_op op = rig_op(lanes[0], BODY_COUNT);
            op.demand.bytes = EACH;
            rig_count(&d->rig, op, c[i], 0, 1);
        }
        finish();
        d->rig.spec.pace_bytes_per_second[lanes[0]] = 1e6;
        double cpu = cpu_seconds();
        int64_t start = oc_clock_ns();
        run_once();
        double took = 1e-9 * (double)(oc_clock_ns() - start), want = (double)N * EACH / 1e6;
        cpu = cpu_seconds() - cpu;
        oc_lane_stats stats[OC_LANE_COUNT];
        oc_run_stats(d->rig.run, stats);
        assert_true(took >= want);
        assert_true(cpu < took / 2);
        assert_int_equal(stats[lanes[0]].bytes, N * EACH);
        assert_int_equal(stats[lanes[0]].ops, N);
        assert_true(stats[lanes[0]].busy_ns > 0); /* how much depends on who else runs */
        end();
    }
}

static oc_status sleep_now(const oc_task *t, oc_error *err) {
    wait_ms(10);
    return count_now(t, err);
}

static oc_status sleep_body(const oc_task *t, oc_error *err) {
    return toy_issue(t, sleep_now, err);
}

/* However many of its ops are in flight. */
static void test_busy_time_of_a_ring_is_not_counted_twice(void **state) {
    (void)state;
    begin("r");
    make_many(8);
    d->rig.bodies[BODY_OWN] = sleep_body;
    d->rig.bodies[BODY_GATE] = sleep_body;
    finish();
    int64_t start = oc_clock_ns();
    run_once();
    uint64_t took = (uint64_t)(oc_clock_ns() - start);
    oc_lane_stats stats[OC_LANE_COUNT];
    oc_run_stats(d->rig.run, stats);
    assert_true(stats[lanes[0]].busy_ns <= took);
    assert_true(stats[lanes[0]].busy_ns >= (uint64_t)8 / TOY_THREADS * TEN_MS);
    end();
}

static void test_serial_mode_runs_one_op_at_a_time_on_queues_too(void **state) {
    (void)state;
    begin("srto");
    oc_buffer_id c[LANES];
    for (uint32_t i = 0; i < LANES; i++)
        c[i] = rig_home(&d->rig, "c", 64);
    rig_plan(&d->rig, "p");
    for (uint32_t i = 0; i < 12; i++)
        rig_count(&d->rig, rig_op(lanes[i % LANES], BODY_COUNT), c[i % LANES], i / LANES, 3);
    finish();
    d->rig.spec.serial = true;
    d->rig.spec.delay_seed = 3;
    rig_open(&d->rig);
    for (uint32_t k = 0; k < 3; k++)
        rig_submit(&d->rig, 0);
    assert_int_equal(oc_run_drain(d->rig.run, &d->rig.err), OC_OK);
    assert_int_equal(atomic_load(&d->rig.probe.n_log), 36);
    assert_int_equal(atomic_load(&d->rig.probe.most_inside), 1);
    for (uint32_t i = 0; i < 36; i++)
        assert_int_equal(d->rig.probe.log[i], i % 12);
    end();
}

/* ---- memory and trace ---- */

static size_t heap_bytes(void) {
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

static void make_paths(void) {
    begin("ssro");
    oc_buffer_id c = rig_home(&d->rig, "c", 64);
    rig_plan(&d->rig, "p");
    for (uint32_t i = 0; i < 24; i++)
        rig_count(&d->rig, rig_op(lanes[i % LANES], BODY_COUNT), c, i, 24);
    finish();
}

static void test_nothing_is_allocated_after_open(void **state) {
    (void)state;
#ifdef SANITIZED
    skip(); /* their allocators keep no such count */
#endif
    make_paths();
    uint64_t measured = oc_run_measure(&d->rig.spec);
    size_t before = heap_bytes();
    rig_open(&d->rig);
    size_t opened = heap_bytes();
    assert_int_equal(oc_run_host_bytes(d->rig.run), measured);
    assert_true(opened - before >= measured);
    assert_true(opened - before <= measured + PAGE + 512);
    for (uint32_t k = 0; k < 20; k++)
        rig_submit(&d->rig, 0);
    assert_int_equal(oc_run_drain(d->rig.run, &d->rig.err), OC_OK);
    assert_int_equal(heap_bytes(), opened);
    end();
}

/* Events of all lanes, by op: ops of a chain follow each other by the queues' own times. */
static void test_the_trace_tells_when_queues_began_and_ended(void **state) {
    (void)state;
    const char *path = "run_queues_trace.json";
    make_paths();
    d->rig.spec.trace_path = path;
    d->rig.spec.trace_bytes = 100000;
    d->rig.bodies[BODY_COUNT] = sleep_body;
    run_once();
    assert_int_equal(oc_run_write_trace(d->rig.run, &d->rig.err), OC_OK);
    json_error_t e;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &e);
    assert_non_null(root);
    double start[24], stop[24];
    uint32_t n = 0;
    size_t i;
    const json_t *x;
    json_array_foreach(json_object_get(root, "traceEvents"), i, x) {
        if (strcmp(json_string_value(json_object_get(x, "ph")), "X") != 0) continue;
        json_int_t op = json_integer_value(json_object_get(json_object_get(x, "args"), "op"));
        assert_true(op >= 0 && op < 24);
        start[op] = json_number_value(json_object_get(x, "ts"));
        stop[op] = start[op] + json_number_value(json_object_get(x, "dur"));
        n++;
    }
    assert_int_equal(n, 24);
    for (uint32_t k = 0; k < n; k++) {
        assert_true(stop[k] - start[k] >= 10000); /* us: what the body slept */
        if (k) assert_true(start[k] + 0.01 >= stop[k - 1]);
    }
    json_decref(root);
    end();
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams_of_a_family_wait_without_the_host),
        cmocka_unit_test(test_all_other_lanes_wait_until_an_op_is_done),
        cmocka_unit_test(test_an_op_of_a_ring_may_wait_for_its_own_lane),
        cmocka_unit_test(test_a_stream_has_half_its_marks_in_ops_that_are_not_done),
        cmocka_unit_test(test_a_ring_is_full_at_its_depth_and_lets_ops_overtake),
        cmocka_unit_test(test_a_mark_is_remembered_while_another_lane_asks_for_it),
        cmocka_unit_test(test_close_waits_for_queues),
        cmocka_unit_test(test_a_predicate_is_read_when_its_writer_is_done),
        cmocka_unit_test(test_paced_queues_take_bytes_over_rate_asleep),
        cmocka_unit_test(test_busy_time_of_a_ring_is_not_counted_twice),
        cmocka_unit_test(test_serial_mode_runs_one_op_at_a_time_on_queues_too),
        cmocka_unit_test(test_nothing_is_allocated_after_open),
        cmocka_unit_test(test_the_trace_tells_when_queues_began_and_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
