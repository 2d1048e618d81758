/* Between opening and closing, the asynchronous device allocates nothing: not to issue, not to run,
 * not to wait, not to move bytes; nor when its rings are full. */
#include "device_async.h"

#include "alloc_watch.h"

enum { ROWS = 48, COLS = 64, BYTES = ROWS * COLS * 4 };

static void issue_some(async_rig *a, oc_device *d, uint64_t at) {
    float *x = async_at(a, at), *y = async_at(a, at + BYTES);
    oc_gemm g = {.a = oc_mat_of(x, OC_F32, ROWS, COLS, COLS), .trans_b = true};
    g.b = g.a;
    g.c = oc_mat_of(y, OC_F32, ROWS, ROWS, ROWS);
    if (d == a->device) d->ops->gemm(d, &g);
    oc_norm n = {.dtype = OC_F32, .rows = ROWS, .cols = COLS, .rms = true, .eps = 1e-5f};
    n.x = x;
    n.w = async_at(a, at + 2 * BYTES);
    n.y = y;
    n.rstd = async_at(a, at + 3 * BYTES);
    d->ops->norm_forward(d, &n);
    d->ops->scale_add(d, OC_F32, ROWS * COLS, x, 0.5f, y, x);
    d->ops->fill(d, y, 3, BYTES);
    d->ops->copy(d, y, x, BYTES);
}

static void work(async_rig *a, oc_device *b, uint64_t *marks) {
    static float host[ROWS * COLS];
    assert_int_equal(a->memory->ops->upload(a->memory, 0, host, BYTES, NULL), OC_OK);
    assert_int_equal(a->memory->ops->fill(a->memory, BYTES, 0, BYTES, NULL), OC_OK);
    for (int i = 0; i < 300; i++) {
        issue_some(a, a->device, 0);
        assert_int_equal(async_mark(a->device, ++*marks), OC_OK);
        assert_int_equal(async_wait(b, a->device, *marks), OC_OK);
        issue_some(a, b, 4 * BYTES);
        assert_int_equal(async_hold(b, 0, 1000), OC_OK);
        assert_int_equal(async_mark(b, *marks), OC_OK);
    }
    async_reached(a->device, *marks);
    async_reached(b, *marks);
    assert_int_equal(a->memory->ops->download(a->memory, host, 0, BYTES, NULL), OC_OK);
}

static void nothing_allocates_after_opening(void **state) {
    (void)state;
    if (!ALLOC_WATCHED) skip();
    alloc_watch();
    char *volatile p = malloc(100);
    free(p);
    assert_int_equal(alloc_unwatch(), 2); /* counting works */
    async_rig a = async_open(2, 3, 8 * BYTES);
    oc_device *b = async_stream(&a);
    uint64_t marks = 0;
    alloc_watch();
    work(&a, b, &marks);
    if (alloc_unwatch()) {
        alloc_print_first();
        fail_msg("%llu calls of the allocator", (unsigned long long)alloc_calls);
    }
    async_close(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_allocates_after_opening)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
