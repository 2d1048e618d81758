/* What a chat template may not do is refused by name and line, and what it may do is bounded. */
#include "cmocka_all.h"

#include "template/template.h"

#include <string.h>
#include <time.h>

static const char *const variables_text =
    "{\"s\": \"text\", \"l\": [3, 1, 2], \"d\": {\"a\": 1}, \"messages\": [{\"role\": \"user\", "
    "\"content\": \"hi\"}]}";

static oc_status attempt(const char *text, size_t n, const oc_template_limits *limits,
                         oc_rendered *r, oc_error *err) {
    oc_template *t;
    memset(r, 0, sizeof *r);
    memset(err, 0, sizeof *err);
    oc_status s = oc_template_parse(&t, text, n, "model/chat", err);
    if (s != OC_OK) {
        assert_null(t);
        return s;
    }
    json_t *v = json_loads(variables_text, 0, NULL);
    assert_non_null(v);
    s = oc_template_render(t, v, limits, NULL, r, err);
    json_decref(v);
    oc_template_close(t);
    return s;
}

static void expect_refused(const char *text, size_t n, const oc_template_limits *limits,
                           oc_status status, const char *message) {
    oc_rendered r;
    oc_error err;
    oc_status s = attempt(text, n, limits, &r, &err);
    if (s != status || !strstr(err.message, message))
        fail_msg("%.200s\n  want %s: %s\n  got  %s: %s", text, oc_status_name(status), message,
                 oc_status_name(s), s == OC_OK ? r.text : err.message);
    if (strncmp(err.message, "model/chat:", 11) != 0) fail_msg("no place: %s", err.message);
    assert_null(r.text);
    assert_null(r.runs);
    assert_int_equal(r.n, 0);
}

static void refused(const char *text, oc_status status, const char *message) {
    expect_refused(text, strlen(text), NULL, status, message);
}

static void renders(const char *text, const oc_template_limits *limits, const char *expected) {
    oc_rendered r;
    oc_error err;
    if (attempt(text, strlen(text), limits, &r, &err) != OC_OK)
        fail_msg("%.200s: %s", text, err.message);
    if (expected) assert_string_equal(r.text, expected);
    oc_rendered_free(&r);
}

/* before, then `unit` times `count`, then after. */
static char *repeated(const char *before, const char *unit, size_t count, const char *after) {
    size_t n = strlen(before) + strlen(unit) * count + strlen(after) + 1, used = 0;
    char *text = malloc(n);
    assert_non_null(text);
    used += (size_t)snprintf(text, n, "%s", before);
    for (size_t i = 0; i < count; i++, used += strlen(unit))
        memcpy(text + used, unit, strlen(unit));
    snprintf(text + used, n - used, "%s", after);
    return text;
}

static void what_is_not_supported_is_named(void **state) {
    (void)state;
    refused("a\n{% include 'x' %}", OC_E_UNSUPPORTED, "model/chat:2: the tag 'include'");
    refused("{% import 'x' as y %}", OC_E_UNSUPPORTED, ":1: the tag 'import'");
    refused("{% from 'x' import y %}", OC_E_UNSUPPORTED, "'from'");
    refused("{% extends 'x' %}", OC_E_UNSUPPORTED, "'extends'");
    refused("{% block x %}{% endblock %}", OC_E_UNSUPPORTED, "'block'");
    refused("{% autoescape true %}{% endautoescape %}", OC_E_UNSUPPORTED, "'autoescape'");
    refused("{% do l.append(1) %}", OC_E_UNSUPPORTED, "'do'");
    refused("{% for x in l recursive %}{% endfor %}", OC_E_UNSUPPORTED, "recursive loops");
    refused("{{ s|pprint }}", OC_E_UNSUPPORTED, "the filter 'pprint' is not supported");
    refused("{{ l|map('urlize')|list }}", OC_E_UNSUPPORTED, "the filter 'urlize' is not supported");
    refused("\n\n{{ s.format(1) }}", OC_E_UNSUPPORTED, ":3: the method 'format' of a str");
    refused("{{ d.fromkeys(l) }}", OC_E_UNSUPPORTED, "the method 'fromkeys' of a dict");
    refused("{{ lipsum() }}", OC_E_UNSUPPORTED, "lipsum()");
    refused("{{ strftime_now('%q') }}", OC_E_UNSUPPORTED, "'%q'");
    refused("{{ '\\N{DASH}' }}", OC_E_UNSUPPORTED, "\\N escapes");
    refused("{{ l[1:, 2] }}", OC_E_UNSUPPORTED, "a slice among several subscripts");
    refused("{{ '%v' % 1 }}", OC_E_UNSUPPORTED, "the format %v");
    refused("{{ '%.101f' % 1 }}", OC_E_UNSUPPORTED, "not supported");
    refused("{{ '%.101d' % 1 }}", OC_E_UNSUPPORTED, "precision above 100");
}

static void what_is_not_known_is_named_with_the_nearest(void **state) {
    (void)state;
    refused("x\n\n{{ s|lenght }}", OC_E_INVALID,
            ":3: no filter is named 'lenght'; did you mean 'length'?");
    refused("{{ s is defned }}", OC_E_INVALID,
            "no test is named 'defned'; did you mean 'defined'?");
    refused("{{ l|map('uper')|list }}", OC_E_INVALID,
            "no filter is named 'uper'; did you mean 'upper'?");
    refused("{{ l|select('od')|list }}", OC_E_INVALID, "no test is named 'od'");
    refused("{% if s %}{{ s|lenght }}{% endif %}", OC_E_INVALID, "no filter is named 'lenght'");
    refused("{% if s is sting %}{% endif %}{{ s is qqq }}", OC_E_INVALID, "no test is named 'qqq'");
    refused("{% fro x in l %}{% endfor %}", OC_E_FORMAT, "unknown tag 'fro'; did you mean 'for'?");
    refused("{% endif %}", OC_E_FORMAT, "the tag 'endif' does not belong here");
    refused("{% for x in l %}\n{% if s %}\n{% endfor %}", OC_E_FORMAT,
            ":3: the tag 'endfor' does not");
    refused("a\n{% if s %}\nb\n", OC_E_FORMAT,
            ":2: the block that begins here lacks its {% endif %}");
    refused("{{ s|tojson(ident=2) }}", OC_E_INVALID, "the filter 'tojson' has no argument 'ident'");
    refused("{{ s|replace('a') }}", OC_E_INVALID, "the filter 'replace' needs the argument 'new'");
    refused("{{ s|upper(1) }}", OC_E_INVALID, "too many arguments for the filter 'upper'");
    refused("{{ s|trim('x', chars='y') }}", OC_E_INVALID, "gets 'chars' twice");
    refused("{{ unknown_name.x }}", OC_E_INVALID, "'unknown_name' is undefined");
    refused("{{ messages[0].tool.name }}", OC_E_INVALID,
            "a dict has no attribute or element 'tool'");
    refused("{{ l[7].x }}", OC_E_INVALID, "a list has no attribute or element '7'");
    refused("{{ unknown() }}", OC_E_INVALID, "'unknown' is undefined");
    refused("{{ (s if none).x }}", OC_E_INVALID, "the condition of an 'if' without 'else'");
    refused("{{ raise_exception('line\none') }}", OC_E_INVALID, "model/chat:1: line one");
}

static void the_sandbox_holds(void **state) {
    (void)state;
    refused("{{ l.append(4) }}", OC_E_INVALID, "'append' of a list may not be used");
    refused("{{ d.update({}) }}", OC_E_INVALID, "'update' of a dict may not be used");
    refused("{{ d['pop']('a') }}", OC_E_INVALID, "'pop' of a dict");
    refused("{{ ''.__class__.__mro__ }}", OC_E_INVALID, "'__class__' of a str may not be used");
    refused("{{ d.__init__.x }}", OC_E_INVALID, "'__init__' of a dict");
    refused("{% set ns = namespace(_x=1) %}", OC_E_INVALID, "underscore");
    refused("{% set ns = namespace() %}{% set ns._x = 1 %}", OC_E_INVALID, "underscore");
    refused("{% set d.x = 1 %}", OC_E_INVALID,
            "only a namespace's attributes can be set, not a dict's");
    renders("{{ l.append is defined }}{{ l._x }}{{ s.__len__ }}", NULL, "False");
}

static void integers_do_not_wrap(void **state) {
    (void)state;
    refused("{{ 9223372036854775807 + 1 }}", OC_E_OVERFLOW, "the result of + does not fit 64 bits");
    refused("{{ -9223372036854775807 - 2 }}", OC_E_OVERFLOW, "the result of -");
    refused("{{ 4611686018427387904 * 2 }}", OC_E_OVERFLOW, "the result of *");
    refused("{{ 10 ** 19 }}", OC_E_OVERFLOW, "the result of **");
    refused("{{ 10 ** 9 ** 9 }}", OC_E_OVERFLOW, "the result of **");
    refused("{{ 9223372036854775808 }}", OC_E_OVERFLOW, "the integer 9223372036854775808");
    refused("{{ (-9223372036854775807 - 1) // -1 }}", OC_E_OVERFLOW, "the result of //");
    refused("{{ -(-9223372036854775807 - 1) }}", OC_E_OVERFLOW, "the result of -");
    refused("{{ (-9223372036854775807 - 1)|abs }}", OC_E_OVERFLOW, "abs");
    refused("{{ 9223372036854775807|round(-1) }}", OC_E_OVERFLOW, "round");
    refused("{{ 1e30|int }}", OC_E_OVERFLOW, "int: the number does not fit 64 bits");
    refused("{{ '%d' % 1e30 }}", OC_E_OVERFLOW, "64 bits");
    refused("{{ 10.0 ** 400 }}", OC_E_OVERFLOW, "too large");
    refused("{{ (-8) ** 0.5 }}", OC_E_INVALID, "no real number");
    renders("{{ 9223372036854775807 }} {{ (-9223372036854775807 - 1) % -1 }} {{ "
            "9223372036854775806 + 1 }}",
            NULL, "9223372036854775807 0 9223372036854775807");
}

static void values_are_bounded(void **state) {
    (void)state;
    static const char double_it[] =
        "{% set ns = namespace(s='0123456789') %}{% for i in range(60) %}"
        "{% set ns.s = ns.s ~ ns.s %}{% endfor %}";
    refused("{{ 'x' * 1000000000 }}", OC_E_OVERFLOW, "longer than the limit of 67108864 bytes");
    refused("{{ 'x' * 9223372036854775807 }}", OC_E_OVERFLOW, "longer than the limit");
    refused("{{ [1, 2] * 1000000000 }}", OC_E_OVERFLOW, "longer than the limit");
    refused("{{ ([0] * 100000 * 100000)|length }}", OC_E_OVERFLOW, "longer than the limit");
    refused("{{ range(10 ** 9) }}", OC_E_OVERFLOW, "range() would have more than 100000");
    refused("{{ range(-9223372036854775807, 9223372036854775807) }}", OC_E_OVERFLOW, "range()");
    refused("{% set x = 'x' * 1000000 %}{{ ([x] * 100)|join }}", OC_E_OVERFLOW,
            "the text would be longer");
    refused("{% set x = 'x' * 60000000 %}{{ x }}{{ x }}", OC_E_OVERFLOW,
            "the text would be longer");
    refused("{% set x = 'x' * 10000 %}{{ x|replace('', x) }}", OC_E_OVERFLOW,
            "the text would be longer");
    refused("{{ s.center(10 ** 12) }}", OC_E_OVERFLOW, "longer than the limit");
    refused("{{ s|center(10 ** 12) }}", OC_E_OVERFLOW, "longer than the limit");
    refused("{{ '%1000000000s' % 1 }}", OC_E_OVERFLOW, "longer than the limit");
    refused("{{ '%*d' % (-9223372036854775807 - 1, 1) }}", OC_E_OVERFLOW, "longer than the limit");
    refused("{{ l|tojson(indent=10 ** 12) }}", OC_E_OVERFLOW, "longer than the limit");
    refused("{{ s|indent(10 ** 12) }}", OC_E_OVERFLOW, "longer than the limit");
    refused("{{ l|batch(10 ** 12, 0)|list }}", OC_E_OVERFLOW, "longer than the limit");
    refused("{{ l|slice(10 ** 12)|list }}", OC_E_OVERFLOW, "");
    refused(double_it, OC_E_OVERFLOW, "longer");
    refused("{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}{% "
            "endfor %}",
            OC_E_OVERFLOW, "longer");
    refused("{% for i in range(100000) %}{% set x = 'y' * 60000000 %}{% endfor %}", OC_E_OVERFLOW,
            "");
}

static void work_is_bounded(void **state) {
    (void)state;
    refused("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
            OC_E_OVERFLOW, "more than 10000000 steps");
    refused("{% set x = range(100000)|list %}{% for a in x %}{{ x == x }}{% endfor %}",
            OC_E_OVERFLOW, "steps");
    refused("{% set x = 'a' * 1000000 %}{% for i in range(100000) %}{% if 'b' in x %}{% endif %}{% "
            "endfor %}",
            OC_E_OVERFLOW, "steps");
    refused("{% set x = 'a' * 1000000 %}{{ x.rfind('a' * 500000 + 'b') }}", OC_E_OVERFLOW, "steps");
    refused("{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}", OC_E_OVERFLOW,
            "macros call each other more than 100 deep");
    refused("{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ "
            "m(60) }}",
            OC_E_OVERFLOW, "steps");
    renders("{% macro m(n) %}{% if n %}{% for x in [1] %}{{ m(n - 1) }}{% endfor %}{% else %}end{% "
            "endif %}"
            "{% endmacro %}{{ m(99) }}",
            NULL, "end");
}

static void limits_are_those_given(void **state) {
    (void)state;
    oc_template_limits limits = oc_template_default_limits;
    limits.output = 5;
    renders("abc{{ 'de' }}", &limits, "abcde");
    expect_refused("abc{{ 'def' }}", 14, &limits, OC_E_OVERFLOW, "limit of 5 bytes");
    limits = oc_template_default_limits;
    limits.steps = 50;
    renders("{% for x in range(3) %}{{ x }}{% endfor %}", &limits, "012");
    expect_refused("{% for x in range(30) %}{{ x }}{% endfor %}", 43, &limits, OC_E_OVERFLOW,
                   "more than 50 steps");
    limits = (oc_template_limits){1000000000, 1 << 20, 100};
    static const char waste[] = "{% for i in range(100) %}{% set x = 'y' * 1000000 %}{% endfor %}";
    expect_refused(waste, sizeof waste - 1, &limits, OC_E_OVERFLOW,
                   "the values of the template need");
    limits = oc_template_default_limits;
    limits.depth = 3;
    static const char calls[] = "{% macro m(n) %}{{ m(n - 1) if n else 'x' }}{% endmacro %}{{ m(";
    char text[100];
    snprintf(text, sizeof text, "%s2) }}", calls);
    renders(text, &limits, "x");
    snprintf(text, sizeof text, "%s3) }}", calls);
    expect_refused(text, strlen(text), &limits, OC_E_OVERFLOW, "more than 3 deep");
    limits.depth = 0;
    oc_rendered r;
    oc_error err;
    assert_int_equal(attempt("a", 1, &limits, &r, &err), OC_E_INVALID);
    limits.depth = 101;
    assert_int_equal(attempt("a", 1, &limits, &r, &err), OC_E_INVALID);
}

static void too_deep(const char *before, const char *unit, const char *after, const char *message) {
    char *text = repeated(before, unit, 20000, after);
    expect_refused(text, strlen(text), NULL, OC_E_OVERFLOW, message);
    free(text);
}

static void nesting_is_bounded(void **state) {
    (void)state;
    too_deep("{{ ", "(", "", "nested more than 100 deep");
    too_deep("{{ ", "[", "", "nested more than 100 deep");
    too_deep("{{ ", "{1:", "", "nested more than 100 deep");
    too_deep("{{ ", "l[", "", "nested more than 100 deep");
    too_deep("{{ ", "f(", "", "nested more than 100 deep");
    too_deep("{{ ", "not ", "1 }}", "nested more than 100 deep");
    too_deep("{{ ", "-", "1 }}", "nested more than 100 deep");
    too_deep("{{ ", "1 if 0 else ", "1 }}", "nested more than 100 deep");
    too_deep("", "{% if 1 %}", "", "nested more than 100 deep");
    too_deep("", "{% for x in l %}", "", "nested more than 100 deep");
    too_deep("", "{% macro m() %}", "", "nested more than 100 deep");
    too_deep("", "{% set x %}", "", "nested more than 100 deep");
    too_deep("{{ 1", " if 1", " }}", "nested too deep");
}

static void long_is_not_deep(void **state) {
    (void)state;
    char *text = repeated("{{ 0", " + 1", 20000, " }}");
    renders(text, NULL, "20000");
    free(text);
    text = repeated("{{ 'x'", "|trim", 20000, " }}");
    renders(text, NULL, "x");
    free(text);
    text = repeated("{{ s", ".strip()", 20000, " }}");
    renders(text, NULL, "text");
    free(text);
    text = repeated("{{ 0", " or 0", 20000, " or 'y' }}");
    renders(text, NULL, "y");
    free(text);
    text = repeated("{{ s", "[:]", 20000, "|length ~ 1 < 2 }}");
    refused(text, OC_E_INVALID, "have no order");
    free(text);
    text = repeated("{% if 0 %}", "{% elif 0 %}", 5000, "{% else %}z{% endif %}");
    renders(text, NULL, "z");
    free(text);
    text = repeated("{{ ''", " ~ 'a'", 20000, "|length }}");
    renders(text, NULL, NULL);
    free(text);
}

static void values_nest_only_so_deep(void **state) {
    (void)state;
    static const char nest[] = "{% set ns = namespace(l=[]) %}{% for i in range(5000) %}"
                               "{% set ns.l = [ns.l] %}{% endfor %}";
    static const char *const uses[] = {"{{ ns.l }}", "{{ ns.l|tojson }}", "{{ ns.l == [ns.l] }}",
                                       "{{ ns.l < [ns.l] }}", "{{ [ns.l]|string }}"};
    char text[300];
    for (size_t i = 0; i < sizeof uses / sizeof uses[0]; i++) {
        snprintf(text, sizeof text, "%s%s", nest, uses[i]);
        /* A list equals itself at once in the reference, where identity is looked at first. */
        refused(text, OC_E_OVERFLOW, "nested too deep");
    }
    refused("{% set ns = namespace(t=()) %}{% for i in range(5000) %}{% set ns.t = (ns.t,) %}{% "
            "endfor %}"
            "{{ {ns.t: 1} }}",
            OC_E_OVERFLOW, "nested too deep");
    refused("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}", OC_E_OVERFLOW,
            "nested too deep");
}

static void texts_that_are_no_templates(void **state) {
    (void)state;
    expect_refused("a\n\xff", 3, NULL, OC_E_FORMAT, ":2: the template is not valid UTF-8");
    refused("{{ '\\ud800' }}", OC_E_FORMAT, "U+D800");
    refused("{{ '\\U00110000' }}", OC_E_FORMAT, "no character");
    refused("{# x", OC_E_FORMAT, "lacks its end, #}");
    refused("a\n{% raw %}\n", OC_E_FORMAT, ":2: the raw block lacks its {% endraw %}");
    refused("{{ 'x }}", OC_E_FORMAT, "a string lacks its closing '");
    refused("{{ s", OC_E_FORMAT, "lacks }}");
    refused("{{ (s] }}", OC_E_FORMAT, "unexpected ']', expected ')'");
    refused("{{ s) }}", OC_E_FORMAT, "unexpected ')'");
    refused("{{ \xc3\xa9 }}", OC_E_FORMAT, "not ASCII");
    refused("{{ s ? 1 }}", OC_E_FORMAT, "unexpected character '?'");
    refused("{% break %}", OC_E_FORMAT, "'break' outside of a loop");
    refused("{{ 1 + }}", OC_E_FORMAT, "expected an expression, found '}}'");
    refused("{{ s s }}", OC_E_FORMAT, "expected '}}', found 's'");
    refused("{% set 1 = 2 %}", OC_E_FORMAT, "cannot be assigned to");
    char *digits = repeated("{{ ", "1", 400, " }}");
    refused(digits, OC_E_OVERFLOW, "too many digits");
    free(digits);
    refused("{% for x of l %}{% endfor %}", OC_E_FORMAT, "expected 'in'");
    char *text = repeated("", "{{ x }}", 150000, "");
    refused(text, OC_E_OVERFLOW, "longer than 1048576 bytes");
    free(text);
    text = malloc(1 << 17);
    assert_non_null(text);
    size_t n = 0;
    for (int i = 0; i < 5000; i++)
        n += (size_t)snprintf(text + n, (1u << 17) - n, "{{ name%d }}", i);
    refused(text, OC_E_OVERFLOW, "more than 4096 different names");
    free(text);
    oc_rendered r;
    oc_error err;
    assert_int_equal(attempt("a\0b{{ 'c' }}", 12, NULL, &r, &err), OC_OK);
    assert_int_equal(r.n, 4);
    assert_memory_equal(r.text, "a\0bc", 5);
    oc_rendered_free(&r);
}

static void the_time_is_the_callers_or_the_clocks(void **state) {
    (void)state;
    static const char text[] = "{{ strftime_now('%Y-%m-%d') }}";
    oc_template *t;
    oc_rendered r;
    const int64_t then = -1, absurd = INT64_MAX;
    json_t *v = json_object();
    assert_int_equal(oc_template_parse(&t, text, sizeof text - 1, "t", NULL), OC_OK);
    assert_int_equal(oc_template_render(t, v, NULL, &then, &r, NULL), OC_OK);
    assert_string_equal(r.text, "1969-12-31");
    oc_rendered_free(&r);
    time_t before = time(NULL);
    assert_int_equal(oc_template_render(t, v, NULL, NULL, &r, NULL), OC_OK);
    time_t after = time(NULL);
    char days[2][32];
    struct tm tm;
    strftime(days[0], sizeof days[0], "%Y-%m-%d", gmtime_r(&before, &tm));
    strftime(days[1], sizeof days[1], "%Y-%m-%d", gmtime_r(&after, &tm));
    assert_true(strcmp(r.text, days[0]) == 0 || strcmp(r.text, days[1]) == 0);
    oc_rendered_free(&r);
    assert_int_equal(oc_template_render(t, v, NULL, &absurd, &r, NULL), OC_E_OVERFLOW);
    oc_template_close(t);
    json_decref(v);
}

static void variables_are_an_object_and_win_over_functions(void **state) {
    (void)state;
    oc_template *t;
    oc_rendered r;
    oc_error err = {0};
    assert_int_equal(oc_template_parse(&t, "{{ range }}", 11, "t", NULL), OC_OK);
    json_t *v = json_array();
    assert_int_equal(oc_template_render(t, v, NULL, NULL, &r, &err), OC_E_INVALID);
    assert_non_null(strstr(err.message, "must be an object"));
    json_decref(v);
    v = json_pack("{s:s}", "range", "mine");
    assert_int_equal(oc_template_render(t, v, NULL, NULL, &r, &err), OC_OK);
    assert_string_equal(r.text, "mine");
    oc_rendered_free(&r);
    oc_rendered_free(&r); /* is empty now */
    oc_rendered_free(NULL);
    json_decref(v);
    oc_template_close(t);
    oc_template_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_supported_is_named),
        cmocka_unit_test(what_is_not_known_is_named_with_the_nearest),
        cmocka_unit_test(the_sandbox_holds),
        cmocka_unit_test(integers_do_not_wrap),
        cmocka_unit_test(values_are_bounded),
        cmocka_unit_test(work_is_bounded),
        cmocka_unit_test(limits_are_those_given),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(long_is_not_deep),
        cmocka_unit_test(values_nest_only_so_deep),
        cmocka_unit_test(texts_that_are_no_templates),
        cmocka_unit_test(the_time_is_the_callers_or_the_clocks),
        cmocka_unit_test(variables_are_an_object_and_win_over_functions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
