/* Chat templates render as the reference library renders them: hundreds of snippets, and templates
 * in the style of the model families over many conversations. The expected text is that library's;
 * tools/make_template_expected.py wrote it. */
#include "cmocka_all.h"

#include "template/template.h"

#include <string.h>

static json_t *load_as(const char *path, bool reals) {
    json_error_t e;
    json_t *j = json_load_file(path, JSON_ALLOW_NUL | (reals ? JSON_DECODE_INT_AS_REAL : 0), &e);
    if (!j) fail_msg("%s:%d: %s", path, e.line, e.text);
    return j;
}

static json_t *load(const char *path) { return load_as(path, false); }

static char *read_text(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s is missing", path);
    char *text = malloc(1 << 20);
    assert_non_null(text);
    *n = fread(text, 1, 1 << 20, f);
    fclose(f);
    return text;
}

/* Renders; on failure out is zero and err has the message. */
static bool render(const char *text, size_t n, const json_t *variables, int64_t now,
                   oc_rendered *out, oc_error *err) {
    oc_template *t;
    memset(out, 0, sizeof *out);
    if (oc_template_parse(&t, text, n, "template", err) != OC_OK) {
        assert_null(t);
        return false;
    }
    oc_status s = oc_template_render(t, variables, NULL, &now, out, err);
    oc_template_close(t);
    if (s != OC_OK) assert_null(out->text);
    return s == OC_OK;
}

/* expected: the text, or {"error": message} where an empty message stands for any. Messages are one
 * line here. */
static bool as_expected(const json_t *expected, bool rendered, const oc_rendered *r,
                        const oc_error *err) {
    if (json_is_string(expected))
        return rendered && r->n == json_string_length(expected) &&
               memcmp(r->text, json_string_value(expected), r->n) == 0;
    if (rendered || strncmp(err->message, "template:", 9) != 0) return false;
    char flat[512];
    snprintf(flat, sizeof flat, "%s", json_string_value(json_object_get(expected, "error")));
    for (char *c = flat; *c; c++)
        if (*c == '\n') *c = ' ';
    return strstr(err->message, flat) != NULL;
}

static void report(const char *what, const json_t *expected, bool rendered, const oc_rendered *r,
                   const oc_error *err) {
    char *wanted = json_dumps(expected, JSON_ENCODE_ANY);
    print_message("%s\n  want %s\n  got  %s\n", what, wanted, rendered ? r->text : err->message);
    free(wanted);
}

static const int64_t NOW = 1721997296; /* 2024-07-26 12:34:56 */

static void snippets_render_as_the_reference(void **state) {
    (void)state;
    json_t *file = load(OC_TEST_DATA "/templates/snippets.json"), *c;
    size_t i, bad = 0;
    assert_true(json_array_size(json_object_get(file, "cases")) > 300);
    json_array_foreach(json_object_get(file, "cases"), i, c) {
        const json_t *source = json_array_get(c, 0), *expected = json_array_get(c, 1);
        oc_rendered r;
        oc_error err = {0};
        bool ok = render(json_string_value(source), json_string_length(source),
                         json_object_get(file, "variables"), NOW, &r, &err);
        if (!as_expected(expected, ok, &r, &err)) {
            report(json_string_value(source), expected, ok, &r, &err);
            bad++;
        }
        oc_rendered_free(&r);
    }
    json_decref(file);
    assert_int_equal(bad, 0);
}

/* --- Families */

static json_t *variables_of(json_t *file, const json_t *c) {
    json_t *v = json_pack("{s:O, s:s, s:s, s:b}", "messages",
                          json_object_get(json_object_get(file, "conversations"),
                                          json_string_value(json_object_get(c, "c"))),
                          "bos_token", "<s>", "eos_token", "</s>", "add_generation_prompt", 0);
    json_object_update(v, json_object_get(json_object_get(file, "variants"),
                                          json_string_value(json_object_get(c, "v"))));
    return v;
}

static bool runs_as_expected(const json_t *runs, const oc_rendered *r) {
    if (!runs) return true;
    bool same = json_array_size(runs) == r->n_runs;
    for (size_t i = 0; same && i < r->n_runs; i++) {
        const json_t *e = json_array_get(runs, i);
        same = (json_int_t)r->runs[i].begin == json_integer_value(json_array_get(e, 0)) &&
               (json_int_t)r->runs[i].end == json_integer_value(json_array_get(e, 1)) &&
               (json_int_t)r->runs[i].message == json_integer_value(json_array_get(e, 2));
    }
    return same;
}

/* A byte is generated in a run so marked, and in a span of the reference's tracker. */
static bool generation_as_expected(const json_t *spans, const oc_rendered *r) {
    if (!spans) return true;
    for (size_t byte = 0; byte < r->n; byte++) {
        bool ours = false, theirs = false;
        for (size_t i = 0; i < r->n_runs; i++)
            ours |= r->runs[i].generation && byte >= r->runs[i].begin && byte < r->runs[i].end;
        for (size_t i = 0; i < json_array_size(spans); i++) {
            const json_t *s = json_array_get(spans, i);
            theirs |= (json_int_t)byte >= json_integer_value(json_array_get(s, 0)) &&
                      (json_int_t)byte < json_integer_value(json_array_get(s, 1));
        }
        if (ours != theirs) return false;
    }
    return r->has_generation;
}

/* Promises of any runs: in order, within the text, apart, and merged where they could be. */
static bool runs_are_sound(const oc_rendered *r, size_t messages) {
    for (size_t i = 0; i < r->n_runs; i++) {
        const oc_render_run *u = &r->runs[i], *before = i ? u - 1 : NULL;
        if (u->begin >= u->end || u->end > r->n || u->message >= messages) return false;
        if (before && before->end > u->begin) return false;
        if (before && before->end == u->begin && before->message == u->message &&
            before->generation == u->generation)
            return false;
    }
    return true;
}

static size_t check_family(json_t *file, const json_t *c) {
    const char *name = json_string_value(json_object_get(c, "t"));
    char path[512], what[256];
    size_t n;
    oc_rendered r;
    oc_error err = {0};
    snprintf(path, sizeof path, "%s/templates/%s.jinja", OC_TEST_DATA, name);
    char *text = read_text(path, &n);
    json_t *v = variables_of(file, c);
    const json_t *expected = json_object_get(c, "r");
    bool rendered = render(text, n, v, NOW, &r, &err);
    bool good =
        as_expected(expected, rendered, &r, &err) &&
        (!rendered || (runs_as_expected(json_object_get(c, "runs"), &r) &&
                       generation_as_expected(json_object_get(c, "generated"), &r) &&
                       runs_are_sound(&r, json_array_size(json_object_get(v, "messages")))));
    snprintf(what, sizeof what, "%s, conversation %s, variant \"%s\"", name,
             json_string_value(json_object_get(c, "c")),
             json_string_value(json_object_get(c, "v")));
    if (!good) {
        report(what, expected, rendered, &r, &err);
        for (size_t i = 0; i < r.n_runs; i++)
            print_message("  run %zu-%zu message %zu %d\n", r.runs[i].begin, r.runs[i].end,
                          r.runs[i].message, r.runs[i].generation);
    }
    oc_rendered_free(&r);
    json_decref(v);
    free(text);
    return !good;
}

static void families_render_as_the_reference(void **state) {
    (void)state;
    json_t *file = load(OC_TEST_DATA "/templates/families.json"), *c;
    size_t i, bad = 0, with_runs = 0, with_generation = 0;
    json_array_foreach(json_object_get(file, "cases"), i, c) {
        bad += check_family(file, c);
        with_runs += json_object_get(c, "runs") != NULL;
        with_generation += json_object_get(c, "generated") != NULL;
    }
    json_decref(file);
    assert_int_equal(bad, 0);
    assert_true(i > 300 && with_runs > 10 && with_generation > 10);
}

/* --- Who wrote what */

/* Messages 0 .. 2 have the contents S, U and A. */
static void wrote(const char *template, const char *text, const char *owners) {
    oc_rendered r;
    oc_error err = {0};
    json_t *v =
        json_pack("{s:[{s:s,s:s},{s:s,s:s},{s:s,s:s}]}", "messages", "role", "system", "content",
                  "S", "role", "user", "content", "U", "role", "assistant", "content", "A");
    if (!render(template, strlen(template), v, NOW, &r, &err)) fail_msg("%s", err.message);
    assert_string_equal(r.text, text);
    char got[256];
    assert_true(r.n < sizeof got);
    memset(got, '.', sizeof got);
    got[r.n] = '\0';
    for (size_t i = 0; i < r.n_runs; i++)
        for (size_t b = r.runs[i].begin; b < r.runs[i].end; b++)
            got[b] = r.runs[i].message == OC_RENDER_NOBODY
                         ? '*'
                         : (char)((r.runs[i].generation ? 'a' : '0') + (char)r.runs[i].message);
    assert_string_equal(got, owners);
    oc_rendered_free(&r);
    json_decref(v);
}

static void text_belongs_to_the_message_of_the_innermost_loop(void **state) {
    (void)state;
    wrote("<{% for m in messages %}[{{ m.content }}]{% endfor %}>", "<[S][U][A]>", ".000111222.");
    wrote("{% for m in messages[1:] %}{{ m.content }}{% endfor %}!", "UA!", "12.");
    wrote("{% set x = messages[::-1] %}{% for m in x %}{{ m.content }}{% endfor %}", "AUS", "210");
    wrote("{% for m in messages if m.role != 'user' %}{{ m.content }}{% endfor %}", "SA", "02");
    wrote("{% for m in messages|selectattr('role', 'eq', 'user') %}{{ m.role }}{% endfor %}",
          "user", "1111");
    wrote("{% for m in messages %}{% for c in 'xy' %}{{ c }}{% endfor %}{% endfor %}", "xyxyxy",
          "001122");
    wrote("{% for m in messages[:2] %}{% for k in messages[2:] %}{{ k.content }}{% endfor %}-{% "
          "endfor %}",
          "A-A-", "2021");
    wrote("{% for i, m in [(0, messages[2])] %}{{ m.content }}{% endfor %}", "A", "2");
    wrote("{% for m in messages %}{% if m.role == 'user' %}{% continue %}{% endif %}{{ m.content }}"
          "{% endfor %}.",
          "SA.", "02.");
    wrote("{% for m in messages %}a{% break %}{% endfor %}b", "ab", "0.");
    wrote("{{ messages[0].content }}{% set m = messages[1] %}{{ m.content }}", "SU", "..");
    wrote("{% for x in messages|map(attribute='content') %}{{ x }}{% endfor %}", "SUA", "...");
}

static void captured_text_keeps_who_wrote_it(void **state) {
    (void)state;
    wrote("{% macro t(m) %}<{{ m.content }}>{% endmacro %}{% for m in messages %}{{ t(m) }}{% "
          "endfor %}",
          "<S><U><A>", "000111222");
    wrote("{% macro all() %}{% for m in messages %}{{ m.content }}{% endfor %}!{% endmacro %}[{{ "
          "all() }}]",
          "[SUA!]", ".012..");
    wrote(
        "{% set b %}({% for m in messages %}{{ m.content }}{% endfor %}){% endset %}{{ b }}{{ b }}",
        "(SUA)(SUA)", ".012..012.");
    wrote("{% set b %}{% for m in messages %}{{ m.content }}{% endfor %}{% endset %}{{ '<' + b ~ "
          "'>' }}",
          "<SUA>", ".012.");
    wrote("{% set b %} {% for m in messages %}{{ m.content }}{% endfor %}\n{% endset %}{{ b|trim }}"
          "{{ b.strip()[1:] }}",
          "SUAUA", "01212");
    wrote("{% set b %}x{% endset %}{% for m in messages %}{{ b }}{% endfor %}", "xxx", "012");
    wrote("{% macro w() %}{{ caller() }}{% endmacro %}{% for m in messages %}{% call w() %}"
          "{{ m.content }}{% endcall %}{% endfor %}",
          "SUA", "012");
    wrote("{% for m in messages %}{% filter lower %}{{ m.content }}{% endfilter %}{% endfor %}",
          "sua", "012");
}

static void a_turn_by_number_is_the_message_that_it_names(void **state) {
    (void)state;
    wrote("{% for i in range(messages|length) %}<{% set m = messages[i] %}[{{ m.content }}]"
          "{% endfor %}.",
          "<[S]<[U]<[A].", ".000.111.222.");
    wrote(
        "{% for i in range(3) %}{% set m = messages[i] %}{{ m.content }}{% set n = messages[0] %}!"
        "{% endfor %}",
        "S!U!A!", "001122");
    wrote("{% set m = messages[2] %}{{ m.role[:1] }}{% for i in range(2) %}-{% endfor %}", "a--",
          "...");
    wrote("{% for i in range(2) %}{% set x = i %}({{ messages[i].content }}){% endfor %}", "(S)(U)",
          "......");
}

static void generation_blocks_are_marked(void **state) {
    (void)state;
    wrote("{% for m in messages %}{{ m.content }}{% generation %}g{% endgeneration %}{% endfor %}",
          "SgUgAg", "0a1b2c");
    wrote("{% macro t(m) %}<{% generation %}{{ m.content }}{% endgeneration %}>{% endmacro %}"
          "{% for m in messages[2:] %}{{ t(m) }}{% endfor %}",
          "<A>", "2c2");
    wrote("{% set b %}{% generation %}x{% endgeneration %}y{% endset %}{% for m in messages[:1] %}"
          "{{ b }}{% endfor %}",
          "xy", "a0");
    wrote("{% generation %}{% for m in messages %}{{ m.content }}{% endfor %}z{% endgeneration %}",
          "SUAz", "abc*");
    wrote("{% for m in messages %}{{ m.content }}{% endfor %}{% generation %}e{% endgeneration %}.",
          "SUAe.", "012*.");
}

/* What an answer quotes of a message that is none is not the answer's, whatever was done to it. */
static void quotations_in_an_answer_belong_to_whom_they_quote(void **state) {
    (void)state;
    wrote("{% for m in messages[2:] %}<{{ messages[1].content }}>{% endfor %}", "<U>", "212");
    wrote("{% for m in messages[2:] %}<{{ (messages[1].content ~ 'x')|trim }}>{% endfor %}", "<Ux>",
          "2122");
    wrote("{% for m in messages[2:] %}{{ messages[1].content|lower|replace('u', 'vv') }}"
          "{{ messages[1].content|tojson }}{{ messages[1].content.split('x')[0] }}"
          "{{ '%s' % messages[1].content }}{% endfor %}",
          "vv\"U\"UU", "1111112");
    wrote("{% set q = messages[1].content %}{% for m in messages %}{{ q }}{% endfor %}", "UUU",
          "011");
    wrote("{% for m in messages[2:] %}{% set b %}({{ messages[1].content }}){% endset %}{{ b }}"
          "{% endfor %}",
          "(U)", "212");
    /* a turn of an inner loop that quotes is a quotation, with what stands around it */
    wrote("{% for m in messages[2:] %}a{% for k in range(1, 3) %}<{{ messages[k].content }}>"
          "{% endfor %}b{% endfor %}",
          "a<U><A>b", "21112222");
    /* and so is a branch that quotes behind an answer's own words, with none of them in it */
    wrote("{% for m in messages[2:] %}a{{ m.content }}{% if true %}<{{ messages[1].content }}>"
          "{% endif %}b{% endfor %}",
          "aA<U>b", "221112");
    wrote("{% for m in messages[2:] %}{{ m.role[:1] }}{% if false %}x{% elif m %}<"
          "{{ messages[1].content|lower }}{% if m %}>{% endif %}{% else %}y{% endif %}{% endfor %}",
          "a<u>", "2111");
    wrote("{% for m in messages[2:] %}{% if m %}<{{ m.content }}{{ messages[1].content }}>"
          "{% endif %}{% endfor %}",
          "<AU>", "2212");
    wrote("{% for m in messages[2:] %}{% if m %}<{{ messages[1].content }}>{% endif %}{% endfor %}",
          "<U>", "212");
    wrote("{% for m in messages[2:] %}{% set b %}({{ m.content }}){% endset %}{{ m.content }}{% if "
          "m %}"
          "{{ b }}<{{ messages[1].content }}>{% endif %}{% endfor %}",
          "A(A)<U>", "2222212");
    /* in turns of others nothing changes */
    wrote(
        "{% for m in messages[:1] %}{{ messages[1].content }}{{ messages[2].content }}{% endfor %}",
        "UA", "00");
}

static void responses_that_an_answer_holds_are_not_the_answer(void **state) {
    (void)state;
    static const char template[] =
        "{% for m in messages %}({{ m.content }}{% for r in m.tool_responses %}"
        "<{{ r.name }} {{ r.response|tojson }}>{% endfor %}){% endfor %}";
    oc_rendered r;
    oc_error err = {0};
    json_t *v = json_pack("{s:[{s:s,s:s,s:[{s:s,s:s}]}]}", "messages", "role", "assistant",
                          "content", "A", "tool_responses", "name", "w", "response", "5");
    if (!render(template, strlen(template), v, NOW, &r, &err)) fail_msg("%s", err.message);
    assert_string_equal(r.text, "(A<w \"5\">)");
    assert_int_equal(r.n_runs, 2);
    assert_int_equal(r.runs[0].end, 2);
    assert_int_equal(r.runs[1].begin, 9);
    oc_rendered_free(&r);
    json_decref(v);
}

/* --- Templates of published tokenizers, where a checkout has them beside it */

static void check_tokenizer(const char *folder) {
    char path[600];
    snprintf(path, sizeof path, "%s/tokenizer_config.json", folder);
    json_t *config = load_as(path, true); /* it holds an integer of 31 digits */
    snprintf(path, sizeof path, "%s/chat.expected.json", folder);
    json_t *cases = load(path), *c;
    const json_t *template = json_object_get(config, "chat_template");
    json_t *bos = json_object_get(config, "bos_token");
    if (json_is_object(bos)) bos = json_object_get(bos, "content");
    size_t i;
    assert_true(json_array_size(cases) > 0);
    json_array_foreach(cases, i, c) {
        json_object_set(c, "bos_token", bos ? bos : json_null());
        oc_rendered r;
        oc_error err = {0};
        bool ok =
            render(json_string_value(template), json_string_length(template), c, NOW, &r, &err);
        if (!as_expected(json_object_get(c, "rendered"), ok, &r, &err)) {
            report(folder, json_object_get(c, "rendered"), ok, &r, &err);
            fail();
        }
        oc_rendered_free(&r);
    }
    json_decref(cases);
    json_decref(config);
}

static void published_templates_render_as_the_reference(void **state) {
    (void)state;
    static const char *const names[] = {"llama3_1", "qwen3"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char folder[500], probe[600];
        snprintf(folder, sizeof folder, OC_TEST_DATA "/../../../shared/data/tokenizers/%s",
                 names[i]);
        snprintf(probe, sizeof probe, "%s/chat.expected.json", folder);
        FILE *f = fopen(probe, "rb");
        if (!f) {
            print_message("skipped: %s is not there\n", folder);
            skip();
        }
        fclose(f);
        check_tokenizer(folder);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(snippets_render_as_the_reference),
        cmocka_unit_test(families_render_as_the_reference),
        cmocka_unit_test(text_belongs_to_the_message_of_the_innermost_loop),
        cmocka_unit_test(captured_text_keeps_who_wrote_it),
        cmocka_unit_test(a_turn_by_number_is_the_message_that_it_names),
        cmocka_unit_test(generation_blocks_are_marked),
        cmocka_unit_test(quotations_in_an_answer_belong_to_whom_they_quote),
        cmocka_unit_test(responses_that_an_answer_holds_are_not_the_answer),
        cmocka_unit_test(published_templates_render_as_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
