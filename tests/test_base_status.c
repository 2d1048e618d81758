/* Errors say what was asked of them, in one line that fits, and name every status. */
#include "cmocka_all.h"

#include "base/checked.h"
#include "base/status.h"
#include "outcore/outcore.h"

#include <errno.h>
#include <string.h>

static void names_and_sentences_of_every_status(void **state) {
    (void)state;
    assert_string_equal(oc_status_name(OC_OK), "OC_OK");
    assert_string_equal(oc_status_name(OC_E_IO), "OC_E_IO");
    assert_string_equal(oc_status_name(OC_E_SYSTEM), "OC_E_SYSTEM");
    assert_string_equal(oc_status_sentence(OC_E_STOPPED), "stopped on request");
    assert_non_null(oc_status_name((oc_status)77));
    assert_non_null(oc_status_sentence((oc_status)77));
}

static void fail_fills_and_returns(void **state) {
    (void)state;
    oc_error err;
    assert_int_equal(oc_fail(&err, OC_E_FORMAT, "%s: tensor %d", "a.bin", 7), OC_E_FORMAT);
    assert_int_equal(err.status, OC_E_FORMAT);
    assert_string_equal(err.message, "a.bin: tensor 7");
    assert_int_equal(oc_fail(NULL, OC_E_IO, "nobody listens"), OC_E_IO);
    assert_int_equal(oc_fail_errno(NULL, OC_E_IO, EIO, "nobody listens"), OC_E_IO);
    assert_int_equal(oc_error_prefix(NULL, OC_E_IO, "nobody"), OC_E_IO);
}

static void errno_is_appended(void **state) {
    (void)state;
    oc_error err;
    oc_fail_errno(&err, OC_E_IO, ENOSPC, "%s", "x");
    assert_string_equal(err.message, "x: No space left on device");
}

static void prefix_keeps_the_message(void **state) {
    (void)state;
    oc_error err;
    oc_fail(&err, OC_E_FORMAT, "line 3");
    assert_int_equal(oc_error_prefix(&err, OC_E_FORMAT, "file %s", "q"), OC_E_FORMAT);
    assert_string_equal(err.message, "file q: line 3");
}

static void a_message_is_one_line(void **state) {
    (void)state;
    oc_error err;
    oc_fail(&err, OC_E_FORMAT,
            "a\nb\tc\x7f"
            "d");
    assert_string_equal(err.message, "a b c d");
}

/* 1023 bytes fit. Two-byte characters from an odd offset leave one byte that must go. */
static void a_long_message_is_cut_between_characters(void **state) {
    (void)state;
    static char text[4000];
    for (size_t i = 0; i + 1 < sizeof text; i += 2)
        memcpy(text + i, "\xc3\xa9", 2);
    text[sizeof text - 2] = '\0';
    oc_error err;
    oc_fail(&err, OC_E_FORMAT, "%s", text);
    assert_int_equal(strlen(err.message), 1022);
    oc_fail(&err, OC_E_FORMAT, "x%s", text);
    assert_int_equal(strlen(err.message), 1023);
    oc_error_prefix(&err, OC_E_FORMAT, "%s", "yy");
    assert_int_equal(strlen(err.message), 1023);
    assert_memory_equal(err.message, "yy: x\xc3\xa9", 7);
    for (size_t i = 0; i < 1100; i++)
        text[i] = 'a';
    oc_fail(&err, OC_E_FORMAT, "%s", text);
    assert_int_equal(strlen(err.message), 1023);
}

static oc_status forwards(oc_status inner, int *reached) {
    OC_TRY(inner);
    *reached = 1;
    return OC_OK;
}

static void try_forwards_failures_only(void **state) {
    (void)state;
    int reached = 0;
    assert_int_equal(forwards(OC_E_AGAIN, &reached), OC_E_AGAIN);
    assert_int_equal(reached, 0);
    assert_int_equal(forwards(OC_OK, &reached), OC_OK);
    assert_int_equal(reached, 1);
}

static void overflow_leaves_the_output(void **state) {
    (void)state;
    uint64_t out = 5;
    assert_false(oc_mul_u64(UINT64_C(1) << 32, UINT64_C(1) << 32, &out));
    assert_false(oc_add_u64(UINT64_MAX, 1, &out));
    assert_int_equal(out, 5);
    assert_true(oc_mul_u64(UINT64_C(0xffffffff), UINT64_C(0x100000001), &out));
    assert_true(out == UINT64_MAX);
    assert_true(oc_add_u64(UINT64_MAX - 1, 1, &out));
    assert_true(out == UINT64_MAX);
    assert_int_equal(oc_align_up(4097, 4096), 8192);
    assert_int_equal(oc_align_up(4096, 4096), 4096);
    assert_int_equal(oc_ceil_div(7, 3), 3);
}

static void version_agrees_with_the_header(void **state) {
    (void)state;
    int major = 0, minor = 0, patch = 0;
    assert_int_equal(sscanf(oc_version_string(), "%d.%d.%d", &major, &minor, &patch), 3);
    assert_int_equal(major, OUTCORE_VERSION_MAJOR);
    assert_int_equal(minor, OUTCORE_VERSION_MINOR);
    assert_int_equal(patch, OUTCORE_VERSION_PATCH);
    assert_int_equal(oc_version_number(), major * 10000 + minor * 100 + patch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_sentences_of_every_status),
        cmocka_unit_test(fail_fills_and_returns),
        cmocka_unit_test(errno_is_appended),
        cmocka_unit_test(prefix_keeps_the_message),
        cmocka_unit_test(a_message_is_one_line),
        cmocka_unit_test(a_long_message_is_cut_between_characters),
        cmocka_unit_test(try_forwards_failures_only),
        cmocka_unit_test(overflow_leaves_the_output),
        cmocka_unit_test(version_agrees_with_the_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
