/* What is trained in conversations, against other libraries: transformers' assistant masks under
 * the chat templates of TRL's package (tools/make_mask_expected.py), its training templates and
 * those as models ship them; and axolotl's labels (tools/make_turn_expected.py). */
#include "base/json.h"
#include "cmocka_all.h"
#include "data/chat.h"

#include <string.h>

static json_t *all; /* the file of expected spans */

static const char *text_of(const json_t *object, const char *key) {
    const char *s = json_string_value(json_object_get(object, key));
    if (s == NULL) fail_msg("no %s", key);
    return s;
}

static json_t *load(const char *name) {
    char path[512];
    json_t *v = NULL;
    oc_error err;
    snprintf(path, sizeof path, OC_TEST_DATA "/%s", name);
    if (oc_json_load(&v, path, OC_JSON_ALLOW_NUL, &err) != OC_OK) fail_msg("%s", err.message);
    return v;
}

static oc_tokenizer *open_with(const char *template) {
    oc_tokenizer *t = NULL;
    oc_error err;
    const json_t *root = json_object_get(all, "tokenizer");
    json_t *config = json_copy(json_object_get(all, "names"));
    json_object_set_new(config, "chat_template", json_string(template));
    char *a = json_dumps(root, 0), *b = json_dumps(config, 0);
    if (oc_tokenizer_parse(&t, a, strlen(a), b, strlen(b), "bytes", &err) != OC_OK)
        fail_msg("%s", err.message);
    free(a);
    free(b);
    json_decref(config);
    return t;
}

static size_t number(const json_t *list, size_t i) {
    return (size_t)json_integer_value(json_array_get(list, i));
}

static void check_spans(const char *name, const char *where, const oc_chat_text *got,
                        const json_t *want) {
    const json_t *spans = json_object_get(want, "trained");
    if (got->rendered.n != (size_t)json_integer_value(json_object_get(want, "bytes")))
        fail_msg("%s, %s: %zu bytes", name, where, got->rendered.n);
    if (got->n_trained != json_array_size(spans))
        fail_msg("%s, %s: %zu spans, not %zu", name, where, got->n_trained, json_array_size(spans));
    for (size_t i = 0; i < got->n_trained; i++) {
        const json_t *span = json_array_get(spans, i);
        if (got->trained[i].begin != number(span, 0) || got->trained[i].end != number(span, 1))
            fail_msg("%s, %s: span %zu is [%zu, %zu), not [%zu, %zu)", name, where, i,
                     got->trained[i].begin, got->trained[i].end, number(span, 0), number(span, 1));
    }
}

static void check_case(const oc_chat *c, const char *name, const char *where, const json_t *want) {
    json_t *talk = json_object_get(json_object_get(all, "conversations"), where);
    json_t *tools = json_object_get(talk, "tools");
    const oc_conversation x = {.messages = json_object_get(talk, "messages"),
                               .tools = json_is_null(tools) ? NULL : tools};
    oc_chat_text text;
    oc_error err;
    if (oc_chat_mark(c, &x, 0, &text, &err) != OC_OK)
        fail_msg("%s, %s: %s", name, where, err.message);
    check_spans(name, where, &text, want);
    oc_chat_text_free(&text);
}

/* TRL's copies with {% generation %} blocks are marked. */
static size_t check_templates(const char *file, bool marked) {
    json_t *one, *want;
    const char *where;
    size_t i, n = 0;
    all = load(file);
    json_array_foreach(json_object_get(all, "templates"), i, one) {
        const char *name = text_of(one, "name");
        if ((strstr(name, "_training") != NULL) != marked) continue;
        oc_tokenizer *t = open_with(text_of(one, "template"));
        oc_chat *c = NULL;
        oc_error err;
        if (oc_chat_open(&c, t, &err) != OC_OK) fail_msg("%s: %s", name, err.message);
        json_object_foreach(json_object_get(one, "cases"), where, want) {
            check_case(c, name, where, want);
            n++;
        }
        oc_chat_close(c);
        oc_tokenizer_close(t);
    }
    json_decref(all);
    return n;
}

static void training_templates_train_what_transformers_masks_mark(void **state) {
    (void)state;
    assert_true(check_templates("templates/trl_masks.json", true) > 140);
}

static void templates_as_shipped_train_what_their_marked_copies_do(void **state) {
    (void)state;
    assert_true(check_templates("templates/trl_masks.json", false) > 80);
}

/* Of any role; axolotl's own labels (tools/make_turn_expected.py). */
static void turns_that_ask_to_be_trained_are_as_in_axolotl(void **state) {
    (void)state;
    assert_true(check_templates("templates/axolotl_turns.json", false) > 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_templates_train_what_transformers_masks_mark),
        cmocka_unit_test(templates_as_shipped_train_what_their_marked_copies_do),
        cmocka_unit_test(turns_that_ask_to_be_trained_are_as_in_axolotl),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
