/* The plain kernels under many threads: two lanes compute on one device at once, each its own
 * memory, on a pool that both share; every bit is as if they had been alone. The thread sanitizer
 * watches this program. */
#include "cmocka_all.h"

#include "device_ops.inc"

#include <pthread.h>

enum { THREADS = 4, LANES = 2 };

typedef struct lane {
    oc_device *alone, *shared; /* pools of one thread and of THREADS */
    int first, step;
    char message[512]; /* empty: no difference */
} lane;

static bool is_gemm(int c) { return op_cases[c].run == run_gemm; }

static void compare(lane *l, int c, oc_dtype t) {
    case_run want, got;
    const char *message = run_case(l->alone, c, t, 0, &want);
    if (!message) {
        message = run_case(l->shared, c, t, 0, &got);
        if (!message) message = case_bits_differ(&got, &want);
        if (message) {
            snprintf(l->message, sizeof l->message, "%s (case %d, %s): %s", op_cases[c].name, c,
                     oc_dtype_name(t), message);
        }
        case_free(&got);
    }
    case_free(&want);
}

/* gemm works in the device's scratch, so one lane alone may call it. */
static void *run_lane(void *arg) {
    lane *l = arg;
    for (int c = l->first; c < OP_CASES && !l->message[0]; c += l->step) {
        if (is_gemm(c)) continue;
        for (int t = 0; t < OC_DTYPE_COUNT; t++)
            compare(l, c, (oc_dtype)t);
    }
    return NULL;
}

static void lanes_on_one_device_change_no_bit(void **state) {
    (void)state;
    oc_pool *one, *many;
    assert_int_equal(oc_pool_open(&one, 1, NULL), OC_OK);
    assert_int_equal(oc_pool_open(&many, THREADS, NULL), OC_OK);
    oc_device *alone, *shared;
    assert_int_equal(oc_device_open_cpu(&alone, one, OC_ISA_PLAIN, NULL), OC_OK);
    assert_int_equal(oc_device_open_cpu(&shared, many, OC_ISA_PLAIN, NULL), OC_OK);
    lane lanes[LANES] = {{alone, shared, 0, LANES, ""}, {alone, shared, 1, LANES, ""}};
    pthread_t threads[LANES];
    for (int i = 0; i < LANES; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, run_lane, &lanes[i]), 0);
    }
    for (int i = 0; i < LANES; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < LANES; i++)
        assert_string_equal(lanes[i].message, "");
    oc_device_close(alone);
    oc_device_close(shared);
    oc_pool_close(one);
    oc_pool_close(many);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lanes_on_one_device_change_no_bit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
