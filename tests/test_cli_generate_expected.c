/* outcore generate goes on with conversations through a chat template as transformers does: the
 * same ids in, the same text out, ended by the same token. */
#include "cli_case.h"

#define MODELS OC_TEST_DATA "/generate/"

static json_t *load(const char *path) {
    oc_error err;
    json_t *root;
    if (oc_json_load(&root, path, OC_JSON_ALLOW_NUL, &err) != OC_OK) fail_msg("%s", err.message);
    return root;
}

/* in.jsonl: a row each. */
static void write_rows(const json_t *chats) {
    FILE *f = fopen("in.jsonl", "w");
    size_t i;
    json_t *chat;
    json_array_foreach(chats, i, chat) {
        json_t *row = json_pack("{s:O}", "messages", json_object_get(chat, "messages"));
        assert_int_equal(json_dumpf(row, f, JSON_COMPACT), 0);
        fputc('\n', f);
        json_decref(row);
    }
    assert_int_equal(fclose(f), 0);
}

static void check_ids(const char *model, const json_t *chat) {
    char line[512];
    json_error_t e;
    assert_int_equal(json_dump_file(json_object_get(chat, "messages"), "m.json", 0), 0);
    snprintf(line, sizeof line, "tokenize --model " MODELS "%s --messages m.json %s", model,
             "--generation-prompt");
    cli_result *r = cli_run(line);
    assert_int_equal(r->code, 0);
    json_t *got = json_loads(r->out, 0, &e);
    assert_true(json_equal(json_object_get(got, "ids"), json_object_get(chat, "ids")));
    json_decref(got);
}

static void check_answer(const json_t *chat, const char *line) {
    json_error_t e;
    json_t *got = json_loads(line, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, &e);
    json_t *usage = json_object_get(got, "usage");
    /* any bytes, NUL among them */
    assert_true(json_equal(json_object_get(got, "text"), json_object_get(chat, "text")));
    assert_string_equal(json_string_value(json_object_get(got, "finish_reason")),
                        json_string_value(json_object_get(chat, "finish")));
    assert_int_equal(json_integer_value(json_object_get(usage, "prompt_tokens")),
                     json_array_size(json_object_get(chat, "ids")));
    json_decref(got);
}

static void check_model(const char *model) {
    char line[512], path[256];
    static char out[CLI_TEXT_BYTES];
    snprintf(path, sizeof path, MODELS "%s/expected.json", model);
    json_t *root = load(path), *chats = json_object_get(root, "chats"), *chat;
    size_t i;
    assert_int_equal(json_array_size(chats), 3);
    write_rows(chats);
    snprintf(line, sizeof line,
             "generate --model " MODELS "%s --dtype fp32 --input in.jsonl --output out.jsonl "
             "--overwrite --max-new-tokens 48 --quiet",
             model);
    cli_expect(line, 0, "");
    cli_read("out.jsonl", out);
    const char *row = out;
    json_array_foreach(chats, i, chat) {
        assert_non_null(row);
        check_answer(chat, row);
        check_ids(model, chat);
        row = strchr(row, '\n');
        if (row) row++;
    }
    json_decref(root);
}

static void conversations_go_on_as_with_transformers(void **state) {
    (void)state;
    check_model("llama");
    check_model("mistral");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversations_go_on_as_with_transformers),
    };
    return cmocka_run_group_tests(tests, cli_setup, cli_teardown);
}
