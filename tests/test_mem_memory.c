/* Host memory behind the table: an arena whose base is its address, whose bounds are checked, and
 * whose pages are measured. */
#include "cmocka_all.h"

#include "mem/memory.h"

#include <string.h>

static oc_memory *open_memory(uint64_t bytes, bool touch) {
    oc_arena_spec spec = {OC_TIER_HOST, bytes, false, touch};
    oc_error err;
    oc_memory *m = NULL;
    if (oc_memory_open_host(&m, &spec, &err) != OC_OK) fail_msg("%s", err.message);
    return m;
}

static void what_goes_up_is_at_the_base_and_comes_down(void **state) {
    (void)state;
    oc_memory *m = open_memory(10000, false);
    const unsigned char *base = m->base;
    char text[8] = "outcore", back[8];
    assert_true(m->ops->is_host && m->bytes >= 10000);
    assert_int_equal(m->ops->upload(m, 4093, text, 8, NULL), OC_OK);
    assert_memory_equal(base + 4093, text, 8);
    assert_int_equal(m->ops->download(m, back, 4093, 8, NULL), OC_OK);
    assert_memory_equal(back, text, 8);
    assert_int_equal(m->ops->fill(m, 4094, 0x5a, 3, NULL), OC_OK);
    assert_memory_equal(base + 4092, "\0oZZZore", 8);
    oc_memory_close(m);
    oc_memory_close(NULL);
}

static void bytes_outside_are_refused_by_name(void **state) {
    (void)state;
    oc_memory *m = open_memory(4096, false);
    char byte = 0;
    oc_error err = {0};
    const uint64_t at[] = {m->bytes, m->bytes + 1, 1, UINT64_MAX};
    const uint64_t bytes[] = {1, 0, m->bytes, 2};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(m->ops->upload(m, at[i], &byte, bytes[i], &err), OC_E_INVALID);
        assert_non_null(strstr(err.message, "host tier"));
        assert_int_equal(m->ops->download(m, &byte, at[i], bytes[i], NULL), OC_E_INVALID);
        assert_int_equal(m->ops->fill(m, at[i], 0, bytes[i], NULL), OC_E_INVALID);
    }
    assert_int_equal(m->ops->upload(m, m->bytes, NULL, 0, NULL), OC_OK);
    oc_memory_close(m);
}

static void empty_memory_has_no_address(void **state) {
    (void)state;
    oc_memory *m = open_memory(0, true);
    assert_null(m->base);
    assert_int_equal(m->bytes, 0);
    assert_int_equal(m->ops->fill(m, 0, 1, 0, NULL), OC_OK);
    assert_int_equal(m->ops->resident(m, NULL), 0);
    oc_memory_close(m);
}

static void resident_is_measured(void **state) {
    (void)state;
    oc_memory *m = open_memory(1 << 20, true);
    assert_int_equal(m->ops->resident(m, NULL), 1 << 20);
    oc_memory_close(m);
}

static void what_the_machine_lacks_is_refused(void **state) {
    (void)state;
    oc_arena_spec spec = {OC_TIER_HOST, UINT64_C(1) << 45, false, true};
    oc_memory *m = (oc_memory *)&spec;
    assert_int_equal(oc_memory_open_host(&m, &spec, NULL), OC_E_MEMORY);
    assert_null(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_goes_up_is_at_the_base_and_comes_down),
        cmocka_unit_test(bytes_outside_are_refused_by_name),
        cmocka_unit_test(empty_memory_has_no_address),
        cmocka_unit_test(resident_is_measured),
        cmocka_unit_test(what_the_machine_lacks_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
