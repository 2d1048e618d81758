/* Every allocation fails once, while a template is read and rendered and while rows become ids: the
 * call fails and says so, or it did not matter and the result is the same. Not under sanitizers,
 * which bring allocators of their own. */
#include "base/json.h"
#include "base/log.h"
#include "cmocka_all.h"
#include "data/dataset.h"
#include "template/template.h"
#include "text_util.h"
#include "tokenizer/tokenizer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define FAILS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define FAILS 0
#endif
#endif
#ifndef FAILS
#define FAILS 1
#endif

static long calls, fail_at; /* 0: none fails */

#if FAILS
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t each);
void *__libc_realloc(void *p, size_t n);

static bool fails(void) {
    if (fail_at == 0 || ++calls != fail_at) return false;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t n) { return fails() ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t each) { return fails() ? NULL : __libc_calloc(n, each); }
void *realloc(void *p, size_t n) { return fails() ? NULL : __libc_realloc(p, n); }
#endif

static const char template[] =
    "{% macro show(m, tag='x') %}<{{ tag }} {{ m.content|trim|replace('a', 'bb') }}>{% endmacro %}"
    "{% set ns = namespace(n=0) %}{% if tools %}{{ tools|tojson(indent=2) }}{% endif %}"
    "{% for m in messages %}{% set ns.n = ns.n + 1 %}({{ m.role }}){{ show(m, tag=loop.index) }}"
    "{% for c in m.tool_calls or [] %}[{{ c.function.name ~ c.function.arguments|tojson }}]{% "
    "endfor %}"
    "{% filter upper %}{{ m.content.split()|join('-') }}{% endfilter %}{% set b %}{{ m.role }}"
    "{% endset %}{{ b }}{{ '%s %5d' % (b, ns.n) }}{{ {'k': m.role, 'l': [1, 2]}['k'] }}{% endfor %}"
    "{% for r, g in messages|groupby('role') %}{{ r }}{{ g|length }}{% endfor %}"
    "{{ many|map('length')|sum }}{% if add_generation_prompt %}(assistant){% endif %}";

/* Without escapes: where its buffer does not grow, jansson leaves a byte out and asserts there. */
static const char rows[] =
    "{\"id\":1,\"system\":\"s\",\"messages\":[{\"role\":\"user\",\"content\":\"voil\xc3\xa0 a\"},"
    "{\"role\":\"assistant\",\"content\":\"\",\"function_call\":{\"name\":\"w\",\"arguments\":{"
    "\"a\":1}}},"
    "{\"role\":\"tool\",\"content\":\"5\"},{\"role\":\"assistant\",\"content\":\"five\"}],"
    "\"functions\":[{\"name\":\"w\"}],\"score\":NaN}\n";
static const char ids[] =
    "{\"input_ids\":[1,2,3,4],\"seq_lengths\":[2,2],\"loss_mask\":[0,1,1,1]}\n";
static const char pairs[] = "{\"prompt\":\"the lazy \",\"completion\":\"dog\"}\n";
static const char shared[] =
    "{\"conversations\":[{\"from\":\"human\",\"value\":\"q\"},{\"from\":\"gpt\",\"value\":\"\","
    "\"tool_calls\":[{\"function\":{\"name\":\"w\",\"arguments\":1}}]},"
    "{\"from\":\"observation\",\"value\":\"5\"},"
    "{\"from\":\"gpt\",\"value\":\"five\",\"train\":true}]}\n";

/* ---- a template ---- */

static json_t *variables(void) {
    json_t *v = json_loads("{\"messages\":[{\"role\":\"user\",\"content\":\" a b "
                           "\"},{\"role\":\"assistant\",\"content\":"
                           "\"c\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{"
                           "\"x\":[1,2.5,null]}}}]}],"
                           "\"tools\":[{\"name\":\"f\"}]}",
                           0, NULL);
    json_t *many = json_array(); /* so that some chunk of memory begins with a dict */
    for (int i = 0; i < 2000; i++)
        assert_int_equal(json_array_append_new(many, json_object()), 0);
    assert_non_null(v);
    assert_int_equal(json_object_set_new(v, "many", many), 0);
    return v;
}

static oc_status render(const json_t *v, oc_rendered *r, oc_error *err) {
    oc_template *t = NULL;
    *r = (oc_rendered){.text = NULL};
    oc_status s = oc_template_parse(&t, template, sizeof template - 1, "t", err);
    if (s == OC_OK) s = oc_template_render(t, v, NULL, NULL, r, err);
    oc_template_close(t);
    return s;
}

static void a_template_survives_every_failing_allocation(void **state) {
    (void)state;
    if (!FAILS) skip();
    json_t *v = variables();
    oc_rendered want, got;
    oc_error err;
    if (render(v, &want, &err) != OC_OK) fail_msg("%s", err.message);
    for (long i = 1;; i++) {
        err = (oc_error){OC_OK, ""};
        calls = 0;
        fail_at = i;
        oc_status s = render(v, &got, &err);
        fail_at = 0;
        if (s == OC_OK) assert_string_equal(got.text, want.text);
        if (s != OC_OK && (s != OC_E_MEMORY || strstr(err.message, "memory") == NULL))
            fail_msg("%ld: %s", i, err.message);
        oc_rendered_free(&got);
        if (calls < i) break;
        assert_true(i < 100000);
    }
    oc_rendered_free(&want);
    json_decref(v);
}

/* ---- rows ---- */

typedef struct sum {
    uint64_t hash;
    size_t rows;
} sum;

static oc_status add(void *arg, const oc_row *row, oc_error *err) {
    sum *x = arg;
    (void)err;
    x->rows++;
    for (size_t i = 0; i < row->n; i++)
        x->hash = x->hash * 31 + (uint64_t)row->ids[i] * 7 + (uint64_t)row->labels[i];
    return OC_OK;
}

static oc_tokenizer *open_tokenizer(void) {
    oc_tokenizer *t = NULL;
    json_t *root = NULL, *config = json_pack("{s:s}", "chat_template", template);
    oc_error err;
    if (oc_json_load(&root, OC_TEST_DATA "/data/bytelevel/tokenizer.json", OC_JSON_ALLOW_NUL,
                     &err) != OC_OK)
        fail_msg("%s", err.message);
    char *a = json_dumps(root, 0), *b = json_dumps(config, 0);
    if (oc_tokenizer_parse(&t, a, strlen(a), b, strlen(b), "fixture", &err) != OC_OK)
        fail_msg("%s", err.message);
    free(a);
    free(b);
    json_decref(root);
    json_decref(config);
    return t;
}

static void ignore(void *arg, oc_log_level level, const char *line) {
    (void)arg;
    (void)level;
    (void)line;
}

static oc_status visit(const oc_tokenizer *t, const char *name, const char *info_dir, sum *out,
                       oc_error *err) {
    oc_data_files files;
    OC_TRY(oc_data_files_find(&files, &name, 1, info_dir, err));
    const oc_dataset_spec spec = {.paths = (const char *const *)files.paths,
                                  .columns = files.columns,
                                  .n_paths = files.n,
                                  .tokenizer = t,
                                  .vocab = oc_tokenizer_vocab(t)};
    oc_status s = oc_dataset_visit(&spec, add, out, err);
    oc_data_files_release(&files);
    return s;
}

static void sweep(const oc_tokenizer *t, const char *name, const char *info_dir) {
    oc_error err;
    sum want = {0, 0};
    if (visit(t, name, info_dir, &want, &err) != OC_OK) fail_msg("%s", err.message);
    for (long i = 1;; i++) {
        sum got = {0, 0};
        err = (oc_error){OC_OK, ""};
        calls = 0;
        fail_at = i;
        oc_status s = visit(t, name, info_dir, &got, &err);
        fail_at = 0;
        if (s == OC_OK && (got.hash != want.hash || got.rows != want.rows))
            fail_msg("%s, %ld: another result", name, i);
        if (s != OC_OK && *err.message == 0) fail_msg("%s, %ld: fails in silence", name, i);
        if (calls < i) break;
        assert_true(i < 100000);
    }
}

static void sweep_text(const oc_tokenizer *t, const char *text) {
    text_dir d;
    text_dir_init(&d);
    sweep(t, text_dir_put(&d, "x.jsonl", text, strlen(text)), NULL);
    text_dir_release(&d);
}

static void rows_survive_every_failing_allocation(void **state) {
    (void)state;
    if (!FAILS) skip();
    oc_tokenizer *t = open_tokenizer();
    oc_log_set_sink(ignore, NULL);
    sweep_text(t, rows);
    sweep_text(t, ids);
    sweep_text(t, pairs);
    sweep_text(t, shared);
    oc_log_set_sink(NULL, NULL);
    oc_tokenizer_close(t);
}

static void names_of_data_sets_survive_every_failing_allocation(void **state) {
    (void)state;
    if (!FAILS) skip();
    oc_tokenizer *t = open_tokenizer();
    oc_log_set_sink(ignore, NULL);
    sweep(t, "good_plain,good_tags", OC_TEST_DATA "/data/info");
    sweep(t, "good_columns", OC_TEST_DATA "/data/info");
    sweep(t, "good_sharegpt", OC_TEST_DATA "/data/info");
    oc_log_set_sink(NULL, NULL);
    oc_tokenizer_close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_template_survives_every_failing_allocation),
        cmocka_unit_test(rows_survive_every_failing_allocation),
        cmocka_unit_test(names_of_data_sets_survive_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
