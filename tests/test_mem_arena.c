/* Arenas: whole pages, resident when asked, counted exactly, refused rather than killed. */
#include "cmocka_all.h"

#include "mem/mem.h"

#include <string.h>
#include <unistd.h>

static uint64_t page(void) { return (uint64_t)sysconf(_SC_PAGESIZE); }

static oc_arena *open_arena(uint64_t bytes, bool huge, bool touch) {
    oc_arena_spec spec = {OC_TIER_HOST, bytes, huge, touch};
    oc_error err;
    oc_arena *a = NULL;
    if (oc_arena_open(&a, &spec, &err) != OC_OK) fail_msg("%s", err.message);
    return a;
}

static void tiers_have_names(void **state) {
    (void)state;
    assert_string_equal(oc_tier_name(OC_TIER_DEVICE), "device");
    assert_string_equal(oc_tier_name(OC_TIER_HOST), "host");
    assert_string_equal(oc_tier_name(OC_TIER_NVME), "nvme");
}

static void bytes_are_whole_zeroed_pages(void **state) {
    (void)state;
    const uint64_t asked[] = {1, page(), page() + 1, 5 * page() - 1, (3u << 20) + 5};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        for (int huge = 0; huge < 2; huge++) {
            oc_arena *a = open_arena(asked[i], huge, false);
            uint64_t bytes = oc_arena_bytes(a);
            assert_true(bytes >= asked[i] && bytes < asked[i] + page() && bytes % page() == 0);
            unsigned char *p = oc_arena_base(a);
            assert_int_equal((uintptr_t)p % page(), 0);
            for (uint64_t k = 0; k < bytes; k += 513)
                assert_int_equal(p[k], 0);
            memset(p, 0xa5, bytes);
            oc_arena_close(a);
        }
    }
    oc_arena_close(NULL);
}

static void an_empty_arena_maps_nothing(void **state) {
    (void)state;
    oc_arena *a = open_arena(0, true, true);
    assert_null(oc_arena_base(a));
    assert_int_equal(oc_arena_bytes(a), 0);
    assert_int_equal(oc_arena_resident(a, NULL), 0);
    oc_arena_close(a);
}

static void resident_counts_touched_pages(void **state) {
    (void)state;
    oc_arena *a = open_arena(512 * page(), false, false);
    oc_error err;
    /* Before anything is written; the system may still hand out huge pages as soon as it is. */
    assert_int_equal(oc_arena_resident(a, &err), 0);
    unsigned char *p = oc_arena_base(a);
    for (uint64_t i = 0; i < 10; i++)
        p[50 * i * page()] = 1;
    uint64_t resident = oc_arena_resident(a, &err);
    assert_true(resident >= 10 * page() && resident <= oc_arena_bytes(a));
    oc_arena_close(a);
}

/* More than one block of mincore(): 80 MiB. What is reserved is resident, and the process grows by
 * it and shrinks again. */
static void touched_arenas_are_resident_and_no_more(void **state) {
    (void)state;
    const uint64_t bytes = 80u << 20, slack = 4u << 20;
    for (int huge = 0; huge < 2; huge++) {
        uint64_t before = oc_mem_rss();
        oc_arena *a = open_arena(bytes, huge, true);
        assert_int_equal(oc_arena_resident(a, NULL), bytes);
        uint64_t during = oc_mem_rss();
        oc_arena_close(a);
        uint64_t after = oc_mem_rss();
        if (before == 0) skip(); /* this kernel does not tell */
        assert_true(during >= before + bytes - slack && during <= before + bytes + slack);
        assert_true(after <= before + slack);
    }
}

static void too_much_is_refused_by_name(void **state) {
    (void)state;
    oc_arena_spec spec = {OC_TIER_DEVICE, UINT64_C(1) << 45, false, true};
    oc_error err = {0};
    oc_arena *a = (oc_arena *)&spec;
    assert_int_equal(oc_arena_open(&a, &spec, &err), OC_E_MEMORY);
    assert_null(a);
    assert_non_null(strstr(err.message, "device"));
    assert_non_null(strstr(err.message, "35184372088832"));
    /* A size at which rounding up would wrap around. */
    spec.bytes = UINT64_MAX - 5;
    assert_int_equal(oc_arena_open(&a, &spec, &err), OC_E_OVERFLOW);
    /* Fits in 64 bits, but in no address space. */
    spec.bytes = UINT64_C(1) << 62;
    spec.touch = false;
    assert_int_equal(oc_arena_open(&a, &spec, &err), OC_E_MEMORY);
    assert_null(a);
}

/* Just above what is available: the check, not the kernel, must say no. */
static void slightly_too_much_is_refused_before_touching(void **state) {
    (void)state;
    uint64_t before = oc_mem_rss();
    oc_arena_spec spec = {OC_TIER_HOST, oc_mem_available() + (UINT64_C(1) << 30), false, true};
    oc_arena *a;
    assert_int_equal(oc_arena_open(&a, &spec, NULL), OC_E_MEMORY);
    assert_true(oc_mem_rss() < before + (64u << 20));
}

static void available_is_plausible(void **state) {
    (void)state;
    uint64_t total = (uint64_t)sysconf(_SC_PHYS_PAGES) * page();
    uint64_t available = oc_mem_available();
    assert_true(available > (16u << 20));
    assert_true(available <= total);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiers_have_names),
        cmocka_unit_test(bytes_are_whole_zeroed_pages),
        cmocka_unit_test(an_empty_arena_maps_nothing),
        cmocka_unit_test(resident_counts_touched_pages),
        cmocka_unit_test(touched_arenas_are_resident_and_no_more),
        cmocka_unit_test(too_much_is_refused_by_name),
        cmocka_unit_test(slightly_too_much_is_refused_before_touching),
        cmocka_unit_test(available_is_plausible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
