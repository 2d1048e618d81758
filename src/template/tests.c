/* tests.c - the tests after "is". */
#include "template/internal.h"

#include <string.h>

#define TEST(name)                                                                                 \
    static bool name(oc_tpl *x, const oc_tpl_value *args, const oc_tpl_call *call,                 \
                     oc_tpl_value *out)
/* A test of the value alone. */
#define SIMPLE_TEST(name, condition)                                                               \
    TEST(name) {                                                                                   \
        const oc_tpl_value *v = args;                                                              \
        (void)call, (void)x;                                                                       \
        *out = oc_tpl_bool(condition);                                                             \
        return true;                                                                               \
    }
#define COMPARING_TEST(name, op)                                                                   \
    TEST(name) {                                                                                   \
        bool b;                                                                                    \
        (void)call;                                                                                \
        if (!oc_tpl_compare(x, op, &args[0], &args[1], &b)) return false;                          \
        *out = oc_tpl_bool(b);                                                                     \
        return true;                                                                               \
    }

SIMPLE_TEST(t_defined, v->kind != TV_UNDEFINED)
SIMPLE_TEST(t_undefined, v->kind == TV_UNDEFINED)
SIMPLE_TEST(t_none, v->kind == TV_NONE)
SIMPLE_TEST(t_boolean, v->kind == TV_BOOL)
SIMPLE_TEST(t_true, v->kind == TV_BOOL && v->u.truth)
SIMPLE_TEST(t_false, v->kind == TV_BOOL && !v->u.truth)
SIMPLE_TEST(t_integer, v->kind == TV_INT)
SIMPLE_TEST(t_float, v->kind == TV_FLOAT)
SIMPLE_TEST(t_number, oc_tpl_is_number(v))
SIMPLE_TEST(t_string, v->kind == TV_STRING)
SIMPLE_TEST(t_mapping, v->kind == TV_DICT)
SIMPLE_TEST(t_iterable, oc_tpl_iterable(v) || v->kind == TV_LOOP)
SIMPLE_TEST(t_sequence, oc_tpl_iterable(v) && v->kind != TV_ITERATOR && v->kind != TV_VIEW)
SIMPLE_TEST(t_callable, v->kind == TV_FUNCTION || v->kind == TV_METHOD || v->kind == TV_MACRO ||
                            v->kind == TV_JOINER || v->kind == TV_LOOP || v->kind == TV_UNDEFINED)
SIMPLE_TEST(t_escaped, v->kind == TV_STRING && v->flag)
SIMPLE_TEST(t_sameas, oc_tpl_same(v, &args[1]))
COMPARING_TEST(t_eq, OP_EQ)
COMPARING_TEST(t_ne, OP_NE)
COMPARING_TEST(t_lt, OP_LT)
COMPARING_TEST(t_le, OP_LE)
COMPARING_TEST(t_gt, OP_GT)
COMPARING_TEST(t_ge, OP_GE)
COMPARING_TEST(t_in, OP_IN)

static bool rest_is(oc_tpl *x, const oc_tpl_value *v, const oc_tpl_value *divisor, int64_t wanted,
                    oc_tpl_value *out) {
    oc_tpl_value rest;
    const oc_tpl_value want = oc_tpl_int(wanted);
    bool equal;
    if (!oc_tpl_binary(x, OP_MOD, v, divisor, &rest) || !oc_tpl_equal(x, &rest, &want, &equal))
        return false;
    *out = oc_tpl_bool(equal);
    return true;
}

TEST(t_odd) {
    (void)call;
    return rest_is(x, args, &(oc_tpl_value){.kind = TV_INT, .u.integer = 2}, 1, out);
}
TEST(t_even) {
    (void)call;
    return rest_is(x, args, &(oc_tpl_value){.kind = TV_INT, .u.integer = 2}, 0, out);
}
TEST(t_divisibleby) {
    (void)call;
    return rest_is(x, args, &args[1], 0, out);
}

static bool has_case(oc_tpl *x, const oc_tpl_value *v, bool upper, oc_tpl_value *out) {
    oc_tpl_value text;
    if (!oc_tpl_str_of(x, v, &text)) return false;
    *out = oc_tpl_bool(oc_tpl_has_case(text.u.string, upper));
    return true;
}

TEST(t_lower) {
    (void)call;
    return has_case(x, args, false, out);
}
TEST(t_upper) {
    (void)call;
    return has_case(x, args, true, out);
}

TEST(t_filter) {
    (void)call, (void)x;
    const oc_tpl_str *s = args[0].kind == TV_STRING ? args[0].u.string : NULL;
    *out =
        oc_tpl_bool(s && (oc_tpl_find_filter(s->at, s->n) || oc_tpl_refused_filter(s->at, s->n)));
    return true;
}

TEST(t_test) {
    (void)call, (void)x;
    const oc_tpl_str *s = args[0].kind == TV_STRING ? args[0].u.string : NULL;
    *out = oc_tpl_bool(s && oc_tpl_find_test(s->at, s->n));
    return true;
}

const oc_tpl_entry_point oc_tpl_tests[] = {
    {"defined", t_defined, "value", 1, false},
    {"undefined", t_undefined, "value", 1, false},
    {"none", t_none, "value", 1, false},
    {"boolean", t_boolean, "value", 1, false},
    {"true", t_true, "value", 1, false},
    {"false", t_false, "value", 1, false},
    {"integer", t_integer, "value", 1, false},
    {"float", t_float, "value", 1, false},
    {"number", t_number, "value", 1, false},
    {"string", t_string, "value", 1, false},
    {"mapping", t_mapping, "value", 1, false},
    {"iterable", t_iterable, "value", 1, false},
    {"sequence", t_sequence, "value", 1, false},
    {"callable", t_callable, "value", 1, false},
    {"escaped", t_escaped, "value", 1, false},
    {"sameas", t_sameas, "value,other", 2, false},
    {"odd", t_odd, "value", 1, false},
    {"even", t_even, "value", 1, false},
    {"divisibleby", t_divisibleby, "value,num", 2, false},
    {"lower", t_lower, "value", 1, false},
    {"upper", t_upper, "value", 1, false},
    {"filter", t_filter, "value", 1, false},
    {"test", t_test, "value", 1, false},
    {"in", t_in, "value,seq", 2, false},
    {"==", t_eq, "a,b", 2, false},
    {"eq", t_eq, "a,b", 2, false},
    {"equalto", t_eq, "a,b", 2, false},
    {"!=", t_ne, "a,b", 2, false},
    {"ne", t_ne, "a,b", 2, false},
    {">", t_gt, "a,b", 2, false},
    {"gt", t_gt, "a,b", 2, false},
    {"greaterthan", t_gt, "a,b", 2, false},
    {">=", t_ge, "a,b", 2, false},
    {"ge", t_ge, "a,b", 2, false},
    {"<", t_lt, "a,b", 2, false},
    {"lt", t_lt, "a,b", 2, false},
    {"lessthan", t_lt, "a,b", 2, false},
    {"<=", t_le, "a,b", 2, false},
    {"le", t_le, "a,b", 2, false},
    {0},
};

static const oc_tpl_entry_point *const tables[] = {oc_tpl_tests, NULL};

const oc_tpl_entry_point *oc_tpl_find_test(const char *name, size_t n) {
    return oc_tpl_find_entry(tables, name, n);
}

const char *oc_tpl_nearest_test(const char *name, size_t n) {
    return oc_tpl_nearest_entry(tables, name, n);
}

bool oc_tpl_test_name(oc_tpl *x, const oc_tpl_value *name, const oc_tpl_entry_point **out) {
    const oc_tpl_str *s;
    if (!oc_tpl_need_string(x, name, "the name of a test", &s)) return false;
    *out = oc_tpl_find_test(s->at, s->n);
    if (*out) return true;
    const char *near = oc_tpl_nearest_test(s->at, s->n);
    return oc_tpl_fail(x, OC_E_INVALID, "no test is named '%.*s'%s%s%s",
                       s->n < 100 ? (int)s->n : 100, s->at, near ? "; did you mean '" : "",
                       near ? near : "", near ? "'?" : "");
}
