/* The asynchronous device computes what the CPU device computes, bit for bit, in memory that nobody
 * but its streams can follow; its queue refuses what a CUDA stream would let pass unnoticed; its
 * errors reach who waits; what was issued is done before it is closed. */
#include "device_async.h"

#include "device_ops.inc"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MILLISECOND = 1000000 };

/* ---- results ---- */

static int report(const char *message, int c, oc_dtype t) {
    if (!message) return 0;
    print_error("%s (case %d, %s): %s\n", op_cases[c].name, c, oc_dtype_name(t), message);
    return 1;
}

OC_NODISCARD static int compare_case(oc_device *cpu, async_rig *a, case_place *place, int c,
                                     oc_dtype t) {
    case_run want, got;
    int64_t skew = c % 2 ? 3 : 0;
    int bad = report(run_case(cpu, c, t, skew, &want), c, t);
    bad += report(run_case_in(place, a->device, c, t, skew, &got), c, t);
    bad += report(case_bits_differ(&got, &want), c, t);
    case_free(&got);
    case_free(&want);
    return bad;
}

static int compare_all(oc_device *cpu, int cores, uint32_t delay_seed) {
    async_rig a = async_open(cores, delay_seed, 32 << 20);
    case_place place = {a.memory, 0};
    int bad = 0;
    for (int c = 0; c < OP_CASES; c++) {
        for (int t = 0; t < OC_DTYPE_COUNT; t++)
            bad += compare_case(cpu, &a, &place, c, (oc_dtype)t);
    }
    async_close(&a);
    return bad;
}

static void every_op_gives_the_bits_of_the_cpu_device(void **state) {
    (void)state;
    async_rig scratch = async_open(2, 0, 0);
    oc_device *cpu;
    assert_int_equal(oc_device_open_cpu(&cpu, scratch.pool, OC_ISA_BEST, NULL), OC_OK);
    cpu->ops->lend_scratch(cpu, scratch.scratch);
    assert_int_equal(compare_all(cpu, 2, 0), 0);
    assert_int_equal(compare_all(cpu, 0, 7), 0);
    oc_device_close(cpu);
    async_close(&scratch);
}

static void it_names_itself_and_its_kernels(void **state) {
    (void)state;
    async_rig a = async_open(1, 0, 4096);
    oc_device *cpu, *stream = async_stream(&a);
    char want[128];
    assert_int_equal(oc_device_open_cpu(&cpu, a.pool, OC_ISA_BEST, NULL), OC_OK);
    snprintf(want, sizeof want, "async %s", oc_device_kernels(cpu));
    assert_string_equal(oc_device_kernels(a.device), want);
    assert_string_equal(oc_device_kernels(stream), want);
    assert_string_equal(a.device->ops->name, "async");
    assert_int_equal(async_queue(stream)->ops->kind, OC_QUEUE_STREAM);
    assert_ptr_equal(async_queue(stream)->family, async_queue(a.device)->family);
    assert_true(async_queue(stream)->marks >= 256);
    oc_device_close(cpu);
    async_close(&a);
}

/* ---- memory ---- */

static void memory_goes_up_and_comes_down(void **state) {
    (void)state;
    async_rig a = async_open(1, 0, 10000);
    oc_memory *m = a.memory;
    char text[8] = "outcore", back[9] = "";
    assert_true(!m->ops->is_host && m->base && m->bytes >= 10000);
    assert_int_equal(m->ops->upload(m, 4093, text, 8, NULL), OC_OK);
    assert_int_equal(m->ops->fill(m, 4095, '-', 2, NULL), OC_OK);
    assert_int_equal(m->ops->download(m, back, 4092, 9, NULL), OC_OK);
    assert_memory_equal(back, "\0ou--ore", 9);
    oc_error err = {0};
    assert_int_equal(m->ops->upload(m, m->bytes - 3, text, 4, &err), OC_E_INVALID);
    assert_non_null(strstr(err.message, "device tier"));
    assert_int_equal(m->ops->download(m, back, UINT64_MAX, 2, NULL), OC_E_INVALID);
    assert_int_equal(m->ops->fill(m, m->bytes + 1, 0, 0, NULL), OC_E_INVALID);
    async_close(&a);
}

static void resident_counts_the_bytes_not_the_addresses(void **state) {
    (void)state;
    async_rig a = async_open(1, 0, 8 << 20);
    assert_int_equal(a.memory->ops->resident(a.memory, NULL), 0);
    oc_arena_spec spec = {OC_TIER_DEVICE, 8 << 20, false, true};
    oc_memory *touched, *none;
    assert_int_equal(a.device->ops->open_memory(a.device, &touched, &spec, NULL), OC_OK);
    assert_int_equal(touched->ops->resident(touched, NULL), 8 << 20);
    spec.bytes = 0;
    assert_int_equal(a.device->ops->open_memory(a.device, &none, &spec, NULL), OC_OK);
    assert_true(none->base == NULL && none->ops->resident(none, NULL) == 0);
    oc_memory_close(touched);
    oc_memory_close(none);
    async_close(&a);
}

static void memory_that_is_not_there_is_refused(void **state) {
    (void)state;
    async_rig a = async_open(1, 0, 4096);
    oc_arena_spec spec = {OC_TIER_DEVICE, UINT64_C(1) << 45, false, true};
    oc_error err = {0};
    oc_memory *m = a.memory;
    assert_int_equal(a.device->ops->open_memory(a.device, &m, &spec, &err), OC_E_MEMORY);
    assert_non_null(strstr(err.message, "device"));
    assert_null(m);
    async_close(&a);
}

/* Host memory has its own address for the device; several memories are told apart. */
static void copies_go_between_host_and_memories(void **state) {
    (void)state;
    async_rig a = async_open(1, 0, 1 << 20);
    oc_arena_spec spec = {OC_TIER_DEVICE, 1 << 20, false, false};
    oc_memory *other;
    assert_int_equal(a.device->ops->open_memory(a.device, &other, &spec, NULL), OC_OK);
    static unsigned char from[5000], to[5000];
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (unsigned char)(i * 7);
    unsigned char *there = (unsigned char *)other->base + 333;
    a.device->ops->copy(a.device, async_at(&a, 77), from, sizeof from);
    a.device->ops->copy(a.device, there, async_at(&a, 77), sizeof from);
    a.device->ops->copy(a.device, to, there, sizeof from);
    assert_int_equal(async_mark(a.device, 1), OC_OK);
    async_reached(a.device, 1);
    assert_memory_equal(from, to, sizeof from);
    oc_memory_close(other);
    async_close(&a);
}

typedef enum touch { TOUCH_READ, TOUCH_WRITE, TOUCH_LAST, TOUCH_NOT } touch;

static void touch_and_exit(const async_rig *a, touch how) {
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    signal(SIGSEGV, SIG_DFL); /* not the test library's or a sanitizer's */
    volatile unsigned char *p = a->memory->base;
    if (how == TOUCH_READ) (void)*p;
    if (how == TOUCH_WRITE) *p = 1;
    if (how == TOUCH_LAST) (void)p[a->memory->bytes - 1];
    _exit(0);
}

static void a_stray_access_of_device_memory_faults(void **state) {
    (void)state;
    async_rig a = async_open(1, 0, 100000);
    assert_int_equal(a.memory->ops->fill(a.memory, 0, 1, a.memory->bytes, NULL), OC_OK);
    for (touch how = TOUCH_READ; how <= TOUCH_NOT; how++) {
        pid_t child = fork();
        if (child == 0) touch_and_exit(&a, how);
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (how == TOUCH_NOT)
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        else
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    }
    async_close(&a);
}

/* ---- the queue ---- */

static void an_op_is_not_done_when_it_is_issued(void **state) {
    (void)state;
    async_rig a = async_open(1, 0, 4096);
    assert_int_equal(async_mark(a.device, 1), OC_OK);
    assert_int_equal(async_hold(a.device, 1, 300 * MILLISECOND), OC_OK);
    a.device->ops->fill(a.device, async_at(&a, 0), 9, 1);
    assert_int_equal(async_mark(a.device, 2), OC_OK);
    uint64_t issued = (uint64_t)oc_clock_ns();
    uint64_t reached = async_reached(a.device, 2);
    assert_true(reached > issued && reached <= (uint64_t)oc_clock_ns());
    assert_int_equal(async_byte(&a, 0), 9);
    async_close(&a);
}

static void marks_are_recorded_in_order(void **state) {
    (void)state;
    async_rig a = async_open(1, 0, 4096);
    assert_int_equal(async_mark(a.device, 2), OC_E_INVALID);
    assert_int_equal(async_mark(a.device, 0), OC_E_INVALID);
    assert_int_equal(async_mark(a.device, 1), OC_OK);
    assert_int_equal(async_mark(a.device, 1), OC_E_INVALID);
    assert_int_equal(async_mark(a.device, 2), OC_OK);
    async_reached(a.device, 2);
    async_reached(a.device, 1);
    async_close(&a);
}

static void a_mark_that_was_not_recorded_is_no_wait(void **state) {
    (void)state;
    async_rig a = async_open(1, 0, 4096), foreign = async_open(1, 0, 4096);
    oc_device *b = async_stream(&a);
    oc_status status;
    assert_int_equal(async_wait(b, a.device, 1), OC_E_INVALID);
    assert_int_equal(async_wait(b, a.device, 0), OC_E_INVALID);
    assert_int_equal(async_hold(b, 1, 1), OC_E_INVALID);
    async_await(a.device, 1, &status);
    assert_int_equal(status, OC_E_INVALID);
    assert_int_equal(async_mark(a.device, 1), OC_OK);
    assert_int_equal(async_wait(b, a.device, 1), OC_OK);
    assert_int_equal(async_wait(a.device, a.device, 1), OC_OK);
    assert_int_equal(async_wait(b, a.device, 2), OC_E_INVALID);
    /* Streams of another device are strangers. */
    assert_int_equal(async_wait(foreign.device, a.device, 1), OC_E_INVALID);
    async_close(&a);
    async_close(&foreign);
}

static void the_newest_marks_are_kept(void **state) {
    (void)state;
    async_rig a = async_open(1, 0, 4096);
    oc_device *b = async_stream(&a);
    uint64_t kept = async_queue(a.device)->marks, last = 3 * kept + 5, before = 0;
    for (uint64_t n = 1; n <= last; n++)
        assert_int_equal(async_mark(a.device, n), OC_OK);
    async_reached(a.device, last);
    for (uint64_t n = last - kept + 1; n <= last; n++) {
        uint64_t ns = async_reached(a.device, n);
        assert_true(ns >= before);
        before = ns;
    }
    oc_status status;
    async_await(a.device, last - kept, &status);
    assert_int_equal(status, OC_E_INVALID);
    assert_int_equal(async_wait(b, a.device, last - kept), OC_E_INVALID);
    assert_int_equal(async_wait(b, a.device, last - kept + 1), OC_OK);
    async_close(&a);
}

static uint64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Ten ops, 10 ms apart on the link: back to back, whenever the thread wakes. */
static void a_hold_takes_its_time_asleep(void **state) {
    (void)state;
    async_rig a = async_open(1, 0, 4096);
    assert_int_equal(async_mark(a.device, 1), OC_OK);
    uint64_t start = async_reached(a.device, 1), cpu = cpu_ns();
    for (uint64_t n = 2; n <= 11; n++) {
        a.device->ops->fill(a.device, async_at(&a, 0), 1, 1);
        assert_int_equal(async_hold(a.device, 1, 10 * MILLISECOND), OC_OK);
        assert_int_equal(async_mark(a.device, n), OC_OK);
    }
    for (uint64_t n = 2; n <= 11; n++)
        assert_true(async_reached(a.device, n) >= start + (n - 1) * 10 * MILLISECOND);
    assert_true(cpu_ns() - cpu < 50 * MILLISECOND);
    /* A mark that came later than the last hold ended counts instead of it. */
    struct timespec pause = {0, 30 * MILLISECOND};
    nanosleep(&pause, NULL);
    assert_int_equal(async_mark(a.device, 12), OC_OK);
    assert_int_equal(async_hold(a.device, 12, 10 * MILLISECOND), OC_OK);
    assert_int_equal(async_mark(a.device, 13), OC_OK);
    assert_true(async_reached(a.device, 13) >= async_reached(a.device, 12) + 10 * MILLISECOND);
    async_close(&a);
}

static void issuing_blocks_while_the_ring_is_full(void **state) {
    (void)state;
    async_rig a = async_open(1, 0, 1 << 20);
    assert_int_equal(async_hold(a.device, 0, 100 * MILLISECOND), OC_OK);
    assert_int_equal(async_mark(a.device, 1), OC_OK);
    for (uint64_t i = 0; i < 5000; i++)
        a.device->ops->fill(a.device, async_at(&a, i), (uint8_t)(i * 13), 2);
    uint64_t issued = (uint64_t)oc_clock_ns();
    assert_true(issued >= async_reached(a.device, 1)); /* there was no room before */
    assert_int_equal(async_mark(a.device, 2), OC_OK);
    async_reached(a.device, 2);
    for (uint64_t i = 0; i < 5000; i += 7)
        assert_int_equal(async_byte(&a, i), (uint8_t)(i * 13));
    async_close(&a);
}

/* A program that forgets a wait goes wrong here, not only on a GPU: the second stream copies what
 * the first fills. */
static int wrong_copies(uint32_t seed, bool waits) {
    enum { ROUNDS = 30 };
    async_rig a = async_open(1, seed, 1 << 16);
    oc_device *b = async_stream(&a);
    for (uint64_t n = 1; n <= ROUNDS; n++) {
        a.device->ops->fill(a.device, async_at(&a, n), (uint8_t)n, 1);
        assert_int_equal(async_mark(a.device, n), OC_OK);
        if (waits) assert_int_equal(async_wait(b, a.device, n), OC_OK);
        b->ops->copy(b, async_at(&a, 4096 + n), async_at(&a, n), 1);
        assert_int_equal(async_mark(b, n), OC_OK);
    }
    int wrong = 0;
    async_reached(b, ROUNDS);
    for (uint64_t n = 1; n <= ROUNDS; n++)
        wrong += async_byte(&a, 4096 + n) != n;
    async_close(&a);
    return wrong;
}

static void a_forgotten_wait_shows(void **state) {
    (void)state;
    int without = 0;
    for (uint32_t seed = 1; seed <= 20; seed++) {
        assert_int_equal(wrong_copies(seed, true), 0);
        if (!RACES_ARE_WATCHED) without += wrong_copies(seed, false);
    }
    if (RACES_ARE_WATCHED) skip(); /* test_device_async_threads tells */
    assert_true(without > 0);
}

/* ---- errors and the end ---- */

static void bad_gemm(oc_device *d, void *x) {
    oc_gemm g = {.a = oc_mat_of(x, OC_F32, 1, 2, 2), .b = oc_mat_of(x, OC_F32, 3, 1, 1)};
    g.c = oc_mat_of(x, OC_F32, 1, 1, 1);
    d->ops->gemm(d, &g);
}

static void an_error_reaches_who_waits_and_stays(void **state) {
    (void)state;
    async_rig a = async_open(1, 0, 4096);
    oc_device *b = async_stream(&a);
    oc_status status;
    assert_int_equal(async_mark(b, 1), OC_OK);
    bad_gemm(b, async_at(&a, 0));
    assert_int_equal(async_mark(b, 2), OC_OK);
    b->ops->fill(b, async_at(&a, 64), 1, 1);
    assert_int_equal(async_mark(b, 3), OC_OK);
    async_await(b, 3, &status);
    assert_int_equal(status, OC_E_INVALID);
    async_await(b, 2, &status);
    assert_int_equal(status, OC_E_INVALID);
    async_reached(b, 1);
    assert_int_equal(oc_device_status(b), OC_E_INVALID);
    assert_int_equal(oc_device_status(a.device), OC_E_INVALID);
    assert_int_equal(async_byte(&a, 64), 0); /* nothing runs after a failure */
    /* The other stream did nothing wrong, and goes on. */
    assert_int_equal(async_wait(a.device, b, 3), OC_OK);
    a.device->ops->fill(a.device, async_at(&a, 65), 1, 1);
    assert_int_equal(async_mark(a.device, 1), OC_OK);
    async_reached(a.device, 1);
    assert_int_equal(async_byte(&a, 65), 1);
    async_close(&a);
}

/* They would work in the same scratch. */
static void products_in_two_streams_at_once_are_refused(void **state) {
    (void)state;
    enum { N = 256, ROUNDS = 2000 };
    async_rig a = async_open(2, 0, 3 * N * N * sizeof(float));
    oc_device *b = async_stream(&a);
    oc_gemm g = {.a = oc_mat_of(async_at(&a, 0), OC_F32, N, N, N)};
    g.b = g.a;
    oc_gemm h = g;
    g.c = oc_mat_of(async_at(&a, N * N * sizeof(float)), OC_F32, N, N, N);
    h.c = oc_mat_of(async_at(&a, 2 * N * N * sizeof(float)), OC_F32, N, N, N);
    for (int i = 0; i < ROUNDS && oc_device_status(a.device) == OC_OK; i++) {
        a.device->ops->gemm(a.device, &g);
        b->ops->gemm(b, &h);
    }
    oc_status status;
    assert_int_equal(async_mark(b, 1), OC_OK);
    async_await(b, 1, &status);
    assert_int_equal(oc_device_status(a.device), OC_E_INVALID);
    async_close(&a);
}

static void closing_finishes_what_was_issued(void **state) {
    (void)state;
    async_rig a = async_open(1, 0, 4096);
    oc_device *b = async_stream(&a);
    static unsigned char host[3000];
    memset(host, 0, sizeof host);
    assert_int_equal(async_hold(a.device, 0, 30 * MILLISECOND), OC_OK);
    a.device->ops->fill(a.device, async_at(&a, 0), 0x77, sizeof host);
    assert_int_equal(async_mark(a.device, 1), OC_OK);
    assert_int_equal(async_wait(b, a.device, 1), OC_OK);
    b->ops->copy(b, host, async_at(&a, 0), sizeof host);
    oc_device_close(a.device);
    for (size_t i = 0; i < sizeof host; i++)
        assert_int_equal(host[i], 0x77);
    assert_int_equal(async_byte(&a, 0), 0x77); /* memory may outlive the device */
    oc_memory_close(a.memory);
    oc_pool_close(a.pool);
    free(a.scratch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_gives_the_bits_of_the_cpu_device),
        cmocka_unit_test(it_names_itself_and_its_kernels),
        cmocka_unit_test(memory_goes_up_and_comes_down),
        cmocka_unit_test(resident_counts_the_bytes_not_the_addresses),
        cmocka_unit_test(memory_that_is_not_there_is_refused),
        cmocka_unit_test(copies_go_between_host_and_memories),
        cmocka_unit_test(a_stray_access_of_device_memory_faults),
        cmocka_unit_test(an_op_is_not_done_when_it_is_issued),
        cmocka_unit_test(marks_are_recorded_in_order),
        cmocka_unit_test(a_mark_that_was_not_recorded_is_no_wait),
        cmocka_unit_test(the_newest_marks_are_kept),
        cmocka_unit_test(a_hold_takes_its_time_asleep),
        cmocka_unit_test(issuing_blocks_while_the_ring_is_full),
        cmocka_unit_test(a_forgotten_wait_shows),
        cmocka_unit_test(an_error_reaches_who_waits_and_stays),
        cmocka_unit_test(products_in_two_streams_at_once_are_refused),
        cmocka_unit_test(closing_finishes_what_was_issued),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
