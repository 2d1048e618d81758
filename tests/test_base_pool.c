/* The pool: every task exactly once, order on one core, bounds on threads and ids, concurrent
 * callers. Also the suite that runs under the thread sanitizer. */
#include "cmocka_all.h"

#include "base/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

enum { MAX_TASKS = 5000, MAX_SLOTS = 64 };

static oc_pool *open_pool(int cores) {
    oc_error err;
    oc_pool *p = NULL;
    if (oc_pool_open(&p, cores, &err) != OC_OK) fail_msg("%s", err.message);
    return p;
}

static void nap(long ns) {
    struct timespec t = {0, ns};
    nanosleep(&t, NULL);
}

static void bad_sizes_are_refused(void **state) {
    (void)state;
    oc_error err = {0};
    oc_pool *p = (oc_pool *)&err;
    assert_int_equal(oc_pool_open(&p, 0, &err), OC_E_INVALID);
    assert_null(p);
    assert_non_null(strstr(err.message, "0 threads"));
    assert_int_equal(oc_pool_open(&p, -3, NULL), OC_E_INVALID);
    oc_pool_close(NULL);
}

static void count_task(void *arg, int64_t task, int worker) {
    (void)worker;
    atomic_fetch_add(&((atomic_int *)arg)[task], 1);
}

/* Many small jobs at once after another, so that late workers of one job meet the next. */
static void every_task_runs_once(void **state) {
    (void)state;
    static atomic_int counts[MAX_TASKS];
    static const int64_t sizes[] = {0, 1, 2, 3, 7, 64, 1000, MAX_TASKS};
    for (int cores = 1; cores <= 5; cores++) {
        oc_pool *p = open_pool(cores);
        assert_int_equal(oc_pool_cores(p), cores);
        assert_int_equal(oc_pool_slots(p), cores - 1 + OC_POOL_CALLERS);
        for (int round = 0; round < 40; round++) {
            for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
                for (int64_t i = 0; i < MAX_TASKS; i++)
                    atomic_store(&counts[i], 0);
                oc_pool_for(p, sizes[s], count_task, counts);
                for (int64_t i = 0; i < MAX_TASKS; i++)
                    if (atomic_load(&counts[i]) != (i < sizes[s])) fail_msg("task %d", (int)i);
            }
        }
        oc_pool_close(p);
    }
}

/* What tasks write, without atomics, is seen by the caller afterwards, and what the caller writes
 * before, by the tasks: the sanitizer watches. */
typedef struct plain {
    int64_t in[512], out[512];
} plain;

static void square(void *arg, int64_t task, int worker) {
    (void)worker;
    plain *a = arg;
    a->out[task] = a->in[task] * a->in[task];
}

static void plain_memory_is_handed_over(void **state) {
    (void)state;
    oc_pool *p = open_pool(3);
    plain a;
    for (int round = 0; round < 300; round++) {
        for (int i = 0; i < 512; i++)
            a.in[i] = i + round;
        oc_pool_for(p, 512, square, &a);
        int64_t sum = 0, want = 0;
        for (int i = 0; i < 512; i++)
            sum += a.out[i], want += (int64_t)(i + round) * (i + round);
        assert_true(sum == want);
    }
    oc_pool_close(p);
}

typedef struct order {
    int64_t last;
    pthread_t caller;
    bool wrong;
} order;

static void check_order(void *arg, int64_t task, int worker) {
    order *o = arg;
    if (task != o->last + 1 || worker != 0 || !pthread_equal(o->caller, pthread_self()))
        o->wrong = true;
    o->last = task;
}

static void one_core_runs_in_order_on_the_caller(void **state) {
    (void)state;
    oc_pool *p = open_pool(1);
    order o = {-1, pthread_self(), false};
    oc_pool_for(p, 1000, check_order, &o);
    assert_false(o.wrong);
    assert_int_equal(o.last, 999);
    oc_pool_close(p);
}

/* Watches who is inside tasks. */
typedef struct watch {
    oc_pool *pool;
    atomic_int inside, most, helpers_seen;
    atomic_int users[MAX_SLOTS];
    atomic_bool clash, out_of_range;
    atomic_int done;
    long nap_ns;
} watch;

static void watched(void *arg, int64_t task, int worker) {
    watch *w = arg;
    (void)task;
    int inside = atomic_fetch_add(&w->inside, 1) + 1;
    int most = atomic_load(&w->most);
    while (inside > most && !atomic_compare_exchange_weak(&w->most, &most, inside))
        continue;
    if (worker < 0 || worker >= oc_pool_slots(w->pool)) {
        atomic_store(&w->out_of_range, true);
    } else {
        if (atomic_fetch_add(&w->users[worker], 1)) atomic_store(&w->clash, true);
        if (worker < oc_pool_cores(w->pool) - 1) atomic_store(&w->helpers_seen, 1);
        if (w->nap_ns) nap(w->nap_ns);
        atomic_fetch_sub(&w->users[worker], 1);
    }
    atomic_fetch_add(&w->done, 1);
    atomic_fetch_sub(&w->inside, 1);
}

static void workers_help_and_stay_within_the_cores(void **state) {
    (void)state;
    for (int cores = 2; cores <= 4; cores++) {
        watch w = {.pool = open_pool(cores), .nap_ns = 200000};
        int rounds = 0;
        /* Tasks sleep, so even one CPU shows all threads inside at some moment; but a loaded
         * machine may take its time to run the last worker. */
        while (rounds < 5 || (rounds < 500 && atomic_load(&w.most) < cores)) {
            oc_pool_for(w.pool, 40, watched, &w);
            rounds++;
        }
        assert_false(atomic_load(&w.clash));
        assert_false(atomic_load(&w.out_of_range));
        assert_int_equal(atomic_load(&w.done), 40 * rounds);
        assert_int_equal(atomic_load(&w.most), cores);
        oc_pool_close(w.pool);
    }
}

/* A worker wakes from sleep, not only from its spin. */
static void workers_wake_after_a_pause(void **state) {
    (void)state;
    watch w = {.pool = open_pool(2), .nap_ns = 5000000};
    for (int round = 0; round < 5; round++) {
        nap(20000000);
        atomic_store(&w.helpers_seen, 0);
        oc_pool_for(w.pool, 20, watched, &w);
        assert_int_equal(atomic_load(&w.helpers_seen), 1);
    }
    oc_pool_close(w.pool);
}

typedef struct lane {
    watch *w;
    int rounds;
} lane;

static void *run_lane(void *arg) {
    lane *l = arg;
    for (int i = 0; i < l->rounds; i++)
        oc_pool_for(l->w->pool, 1 + i % 37, watched, l->w);
    return NULL;
}

static int tasks_of(int rounds) {
    int n = 0;
    for (int i = 0; i < rounds; i++)
        n += 1 + i % 37;
    return n;
}

static void run_lanes(watch *w, int lanes, int rounds) {
    pthread_t threads[OC_POOL_CALLERS];
    lane l = {w, rounds};
    for (int i = 0; i < lanes; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_lane, &l), 0);
    for (int i = 0; i < lanes; i++)
        pthread_join(threads[i], NULL);
}

/* Callers always run; workers make place: with fewer callers than cores the bound is the cores.
 * While a caller enters, a worker may still be in its last task, hence callers - 1 more. */
static void concurrent_callers_share_the_cores(void **state) {
    (void)state;
    for (int cores = 1; cores <= 4; cores += 3) {
        for (int lanes = 2; lanes <= OC_POOL_CALLERS; lanes += 3) {
            watch w = {.pool = open_pool(cores)};
            run_lanes(&w, lanes, 300);
            assert_int_equal(atomic_load(&w.done), lanes * tasks_of(300));
            assert_false(atomic_load(&w.clash));
            assert_false(atomic_load(&w.out_of_range));
            assert_true(atomic_load(&w.most) <= cores + lanes - 1);
            oc_pool_close(w.pool);
        }
    }
}

typedef struct crowd {
    oc_pool *pool;
    atomic_int second_tasks; /* tasks the second caller has begun */
    atomic_int intrusions;
} crowd;

enum { SECOND_TASKS = 40, SETTLED = 8 };

static void first_lane_task(void *arg, int64_t task, int worker) {
    crowd *c = arg;
    (void)task;
    int second = atomic_load(&c->second_tasks);
    if (worker == 0 && second >= SETTLED && second < SECOND_TASKS)
        atomic_fetch_add(&c->intrusions, 1);
    nap(1000000);
}

static void second_lane_task(void *arg, int64_t task, int worker) {
    crowd *c = arg;
    (void)task;
    int second = atomic_fetch_add(&c->second_tasks, 1) + 1;
    if (worker == 0 && second >= SETTLED && second < SECOND_TASKS)
        atomic_fetch_add(&c->intrusions, 1);
    nap(1000000);
}

static void *first_lane(void *arg) {
    crowd *c = arg;
    oc_pool_for(c->pool, 200, first_lane_task, c);
    return NULL;
}

/* A worker helps the first caller; a second caller fills the two cores, so it must leave and stay
 * away. It may be late by a task or two on a loaded machine; one that stays shows some thirty
 * times. */
static void a_worker_leaves_when_callers_fill_the_cores(void **state) {
    (void)state;
    crowd c = {.pool = open_pool(2)};
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, first_lane, &c), 0);
    nap(20000000);
    oc_pool_for(c.pool, SECOND_TASKS, second_lane_task, &c);
    pthread_join(t, NULL);
    assert_int_equal(atomic_load(&c.second_tasks), SECOND_TASKS);
    assert_true(atomic_load(&c.intrusions) <= 5);
    oc_pool_close(c.pool);
}

typedef struct mixed {
    oc_pool *pool;
    atomic_int state; /* 1: the short job is over, 2: a worker came to the long one */
} mixed;

static void long_task(void *arg, int64_t task, int worker) {
    mixed *m = arg;
    (void)task;
    if (worker == 0 && atomic_load(&m->state) == 1) atomic_store(&m->state, 2);
    nap(1000000);
}

static void hold_core(void *arg, int64_t task, int worker) {
    (void)arg;
    (void)task;
    (void)worker;
    nap(20000000);
}

static void *long_lane(void *arg) {
    mixed *m = arg;
    oc_pool_for(m->pool, 200, long_task, m);
    return NULL;
}

/* Two callers fill two cores; when one is done, the sleeping worker must come to help the other. */
static void a_core_that_falls_idle_is_used_again(void **state) {
    (void)state;
    mixed m = {.pool = open_pool(2)};
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, long_lane, &m), 0);
    oc_pool_for(m.pool, 1, hold_core, &m);
    atomic_store(&m.state, 1);
    pthread_join(t, NULL);
    assert_int_equal(atomic_load(&m.state), 2);
    oc_pool_close(m.pool);
}

static int64_t process_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void idle_workers_use_no_cpu(void **state) {
    (void)state;
    oc_pool *p = open_pool(4);
    static atomic_int counts[64];
    oc_pool_for(p, 64, count_task, counts);
    nap(10000000);
    int64_t before = process_ns();
    nap(200000000);
    /* Three spinning workers would use up to 600 ms, on one CPU 200 ms. */
    assert_true(process_ns() - before < 20000000);
    oc_pool_close(p);
}

static void open_and_close_leave_no_thread_behind(void **state) {
    (void)state;
    for (int i = 0; i < 50; i++)
        oc_pool_close(open_pool(1 + i % 6));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_sizes_are_refused),
        cmocka_unit_test(every_task_runs_once),
        cmocka_unit_test(plain_memory_is_handed_over),
        cmocka_unit_test(one_core_runs_in_order_on_the_caller),
        cmocka_unit_test(workers_help_and_stay_within_the_cores),
        cmocka_unit_test(workers_wake_after_a_pause),
        cmocka_unit_test(concurrent_callers_share_the_cores),
        cmocka_unit_test(a_worker_leaves_when_callers_fill_the_cores),
        cmocka_unit_test(a_core_that_falls_idle_is_used_again),
        cmocka_unit_test(idle_workers_use_no_cpu),
        cmocka_unit_test(open_and_close_leave_no_thread_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
