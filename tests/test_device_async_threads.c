/* Streams of the asynchronous device and the threads that issue into them and wait for them: what
 * marks order is ordered, and nothing else is. The thread sanitizer watches this program: it has no
 * race that a mark, an await or the issuing itself does not order. */
#include "device_async.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { MILLISECOND = 1000000 };

static void streams_without_marks_run_in_either_order(void **state) {
    (void)state;
    enum { ROUNDS = 300 };
    async_rig a = async_open(1, 5, 4096);
    oc_device *b = async_stream(&a);
    int first[2] = {0};
    for (uint64_t n = 1; n <= ROUNDS; n++) {
        a.device->ops->fill(a.device, async_at(&a, 0), 1, 1);
        assert_int_equal(async_mark(a.device, n), OC_OK);
        b->ops->fill(b, async_at(&a, 64), 1, 1);
        assert_int_equal(async_mark(b, n), OC_OK);
        first[async_reached(b, n) < async_reached(a.device, n)]++;
    }
    assert_true(first[0] > ROUNDS / 20 && first[1] > ROUNDS / 20);
    async_close(&a);
}

static void a_stream_does_not_wait_for_another_unasked(void **state) {
    (void)state;
    async_rig a = async_open(1, 0, 4096);
    oc_device *b = async_stream(&a), *c = async_stream(&a);
    assert_int_equal(async_mark(a.device, 1), OC_OK);
    assert_int_equal(async_hold(a.device, 1, 300 * MILLISECOND), OC_OK);
    assert_int_equal(async_mark(a.device, 2), OC_OK);
    assert_int_equal(async_mark(b, 1), OC_OK);
    assert_int_equal(async_wait(c, a.device, 2), OC_OK);
    assert_int_equal(async_mark(c, 1), OC_OK);
    uint64_t held = async_reached(a.device, 2);
    assert_true(async_reached(b, 1) < held);
    assert_true(async_reached(c, 1) >= held);
    async_close(&a);
}

/* One stream fills, the other copies, both in one buffer, each round after the other's: all issued
 * before any is awaited. */
static void marks_order_streams_both_ways(void **state) {
    (void)state;
    enum { ROUNDS = 200, BYTES = 3000 };
    static unsigned char seen[ROUNDS][BYTES];
    for (uint32_t seed = 1; seed <= 3; seed++) {
        async_rig a = async_open(2, seed, BYTES);
        oc_device *b = async_stream(&a);
        for (uint64_t n = 1; n <= ROUNDS; n++) {
            if (n > 1) assert_int_equal(async_wait(a.device, b, n - 1), OC_OK);
            a.device->ops->fill(a.device, async_at(&a, 0), (uint8_t)(n * seed), BYTES);
            assert_int_equal(async_mark(a.device, n), OC_OK);
            assert_int_equal(async_wait(b, a.device, n), OC_OK);
            b->ops->copy(b, seen[n - 1], async_at(&a, 0), BYTES);
            assert_int_equal(async_mark(b, n), OC_OK);
        }
        async_reached(b, ROUNDS);
        for (uint64_t n = 1; n <= ROUNDS; n++) {
            assert_int_equal(seen[n - 1][0], (uint8_t)(n * seed));
            assert_memory_equal(seen[n - 1], seen[n - 1] + 1, BYTES - 1);
            assert_true(async_reached(a.device, n) <= async_reached(b, n));
            if (n > 1) assert_true(async_reached(b, n - 1) <= async_reached(a.device, n));
        }
        async_close(&a);
    }
}

/* Two streams write the same byte, the second after the first if it waits. Exits. */
static void write_twice(bool waits) {
    if (!freopen("/dev/null", "w", stderr)) exit(1);
    async_rig a = async_open(0, 0, 4096);
    oc_device *b = async_stream(&a);
    a.device->ops->fill(a.device, async_at(&a, 0), 1, 1);
    oc_status s = async_mark(a.device, 1);
    if (s == OC_OK && waits) s = async_wait(b, a.device, 1);
    b->ops->fill(b, async_at(&a, 0), 2, 1);
    async_close(&a);
    exit(s == OC_OK ? 0 : 1);
}

/* Without a pool the device adds no order of its own: the sanitizer, whose mark is its exit status,
 * sees a missing wait whichever stream came first. */
static void the_thread_sanitizer_sees_a_forgotten_wait(void **state) {
    (void)state;
    if (!RACES_ARE_WATCHED) skip();
    for (int waits = 0; waits < 2; waits++) {
        pid_t child = fork();
        if (child == 0) write_twice(waits);
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 0) == waits);
    }
}

/* ---- many streams, each with a thread that issues and one that awaits ---- */

enum { STREAMS = 4, STEPS = 150, VALUES = 40 };

/* Value n of a stream, n from 0 on: 0.5 x its value n - 1 + value `number` of stream `other`. */
typedef struct step {
    int other;
    uint64_t number;
} step;

typedef struct lane {
    oc_device *device;
    struct lane *all;
    float *values[STEPS + 1]; /* in the device's memory */
    step steps[STEPS + 1];
    uint64_t random;
    _Atomic uint64_t issued, awaited;
    uint64_t reached_ns;
    atomic_int status;
} lane;

static uint64_t random_below(lane *l, uint64_t n) {
    l->random = l->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (l->random >> 33) % n;
}

static void *issue_all(void *arg) {
    lane *l = arg;
    oc_status bad = OC_OK;
    for (uint64_t n = 1; n <= STEPS; n++) {
        step *s = &l->steps[n];
        s->other = (int)random_below(l, STREAMS);
        lane *o = &l->all[s->other];
        uint64_t newest = atomic_load(&o->issued); /* its mark is recorded */
        s->number = newest - (newest ? random_below(l, newest < 3 ? newest : 3) : 0);
        if (s->number) {
            oc_status status = async_wait(l->device, o->device, s->number);
            bad = bad == OC_OK ? status : bad;
        }
        l->device->ops->scale_add(l->device, OC_F32, VALUES, l->values[n - 1], 0.5f,
                                  o->values[s->number], l->values[n]);
        oc_status status = async_mark(l->device, n);
        bad = bad == OC_OK ? status : bad;
        atomic_store(&l->issued, n);
    }
    if (bad != OC_OK) atomic_store(&l->status, bad);
    return NULL;
}

static void *await_all(void *arg) {
    lane *l = arg;
    for (uint64_t n = 1; n <= STEPS; n++) {
        while (atomic_load(&l->issued) < n) {
            struct timespec t = {0, 20000};
            nanosleep(&t, NULL);
        }
        oc_status status;
        uint64_t ns = async_await(l->device, n, &status);
        if (ns < l->reached_ns) status = OC_E_DEVICE;
        if (status != OC_OK) atomic_store(&l->status, status);
        l->reached_ns = ns;
    }
    return NULL;
}

static uint64_t place_of(int stream, uint64_t n) {
    return ((uint64_t)stream * (STEPS + 1) + n) * VALUES * sizeof(float);
}

static void open_lanes(async_rig *a, lane *lanes) {
    for (int i = 0; i < STREAMS; i++) {
        lanes[i] = (lane){.device = i ? async_stream(a) : a->device, .all = lanes};
        lanes[i].random = (uint64_t)i + 17;
        for (uint64_t n = 0; n <= STEPS; n++)
            lanes[i].values[n] = async_at(a, place_of(i, n));
        float start[VALUES];
        for (int k = 0; k < VALUES; k++)
            start[k] = (float)(i * VALUES + k) / 7;
        assert_int_equal(
            a->memory->ops->upload(a->memory, place_of(i, 0), start, sizeof start, NULL), OC_OK);
    }
}

/* The same steps one by one, in an order in which each finds what it reads. */
static void compute_again(oc_device *cpu, const lane *lanes, float *values) {
    uint64_t done[STREAMS] = {0};
    for (uint64_t left = STREAMS * STEPS; left;) {
        for (int i = 0; i < STREAMS; i++) {
            uint64_t n = done[i] + 1;
            if (n > STEPS || lanes[i].steps[n].number > done[lanes[i].steps[n].other]) continue;
            const step *s = &lanes[i].steps[n];
            cpu->ops->scale_add(cpu, OC_F32, VALUES, values + place_of(i, n - 1) / 4, 0.5f,
                                values + place_of(s->other, s->number) / 4,
                                values + place_of(i, n) / 4);
            done[i] = n;
            left--;
        }
    }
}

static void random_waits_give_the_values_of_one_thread(void **state) {
    (void)state;
    enum { BYTES = STREAMS * (STEPS + 1) * VALUES * sizeof(float) };
    static lane lanes[STREAMS];
    static float got[BYTES / sizeof(float)], want[BYTES / sizeof(float)];
    oc_pool *one;
    assert_int_equal(oc_pool_open(&one, 1, NULL), OC_OK);
    for (uint32_t seed = 0; seed < 3; seed++) {
        async_rig a = async_open(seed == 2 ? 0 : 3, seed, BYTES);
        pthread_t issuers[STREAMS], awaiters[STREAMS];
        open_lanes(&a, lanes);
        assert_int_equal(a.memory->ops->download(a.memory, want, 0, BYTES, NULL), OC_OK);
        for (int i = 0; i < STREAMS; i++) {
            assert_int_equal(pthread_create(&issuers[i], NULL, issue_all, &lanes[i]), 0);
            assert_int_equal(pthread_create(&awaiters[i], NULL, await_all, &lanes[i]), 0);
        }
        for (int i = 0; i < STREAMS; i++) {
            pthread_join(issuers[i], NULL);
            pthread_join(awaiters[i], NULL);
            assert_int_equal(atomic_load(&lanes[i].status), OC_OK);
        }
        assert_int_equal(a.memory->ops->download(a.memory, got, 0, BYTES, NULL), OC_OK);
        oc_device *cpu;
        assert_int_equal(oc_device_open_cpu(&cpu, one, OC_ISA_BEST, NULL), OC_OK);
        compute_again(cpu, lanes, want);
        assert_memory_equal(got, want, BYTES);
        oc_device_close(cpu);
        async_close(&a);
    }
    oc_pool_close(one);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_without_marks_run_in_either_order),
        cmocka_unit_test(a_stream_does_not_wait_for_another_unasked),
        cmocka_unit_test(marks_order_streams_both_ways),
        cmocka_unit_test(the_thread_sanitizer_sees_a_forgotten_wait),
        cmocka_unit_test(random_waits_give_the_values_of_one_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
