/* What keys of rows and of messages do, for those who come from TRL, axolotl, ms-swift and
 * LLaMA-Factory: each is followed, or refused by its name; and what is said once of all rows. */
#include "base/json.h"
#include "base/log.h"
#include "cmocka_all.h"
#include "data/dataset.h"
#include "text_util.h"
#include "tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

static bool needs_tokenizer(const char *path) {
    oc_error e;
    bool needs = false;
    assert_int_equal(oc_dataset_needs_tokenizer(path, &needs, &e), OC_OK);
    return needs;
}

#define FIXTURE OC_TEST_DATA "/data/bytelevel/tokenizer.json"

static const char template[] =
    "{% if tools %}{{ tools|length }} {{ tools[0].function.name }};{% endif %}"
    "{% for m in messages %}{% if m.role in ['system', 'user', 'assistant', 'tool'] %}"
    "({{ m.role }}){{ m.content }}{% for c in m.tool_calls or [] %}"
    "[{{ c.function.name }} {{ c.function.arguments|tojson }}]{% endfor %}/"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}(assistant){% endif %}";

static oc_tokenizer *open_tokenizer(void) {
    json_error_t e;
    oc_error err;
    oc_tokenizer *t = NULL;
    json_t *root = json_load_file(FIXTURE, JSON_ALLOW_NUL, &e);
    assert_non_null(root);
    json_t *config = json_pack("{s:s, s:s, s:s}", "bos_token", "<|begin|>", "eos_token",
                               "<|im_end|>", "chat_template", template);
    char *a = json_dumps(root, 0), *b = json_dumps(config, 0);
    if (oc_tokenizer_parse(&t, a, strlen(a), b, strlen(b), "fixture", &err) != OC_OK)
        fail_msg("%s", err.message);
    free(a);
    free(b);
    json_decref(root);
    json_decref(config);
    return t;
}

/* ---- a row as "-context+trained", or ids and labels where the row has ids ---- */

enum { SHOWN = 8192 };
static oc_tokenizer *tokenizer;
static char shown[SHOWN], logged[SHOWN];

__attribute__((format(printf, 1, 2))) static void show(const char *format, ...) {
    size_t n = strlen(shown);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(shown + n, SHOWN - n, format, args);
    va_end(args);
}

static void show_run(const oc_row *row, size_t begin, size_t end) {
    char *text = NULL;
    size_t n = 0;
    assert_int_equal(
        oc_tokenizer_decode(tokenizer, row->ids + begin, end - begin, false, &text, &n, NULL),
        OC_OK);
    show("%c%s", row->labels[begin] >= 0 ? '+' : '-', text);
    free(text);
}

static oc_status take(void *arg, const oc_row *row, oc_error *err) {
    (void)arg;
    (void)err;
    if (strcmp(row->form, "input_ids") == 0) {
        for (size_t i = 0; i < row->n; i++)
            show("%d%s ", row->ids[i], row->labels[i] == row->ids[i] ? "" : "-");
        for (size_t i = 0; i < row->n_starts; i++)
            show("@%zu", row->starts[i]);
    } else {
        for (size_t i = 0, end; i < row->n; i = end) {
            end = i + 1;
            while (end < row->n && (row->labels[end] >= 0) == (row->labels[i] >= 0))
                end++;
            show_run(row, i, end);
        }
    }
    show("\n");
    return OC_OK;
}

static void keep_log(void *arg, oc_log_level level, const char *text) {
    (void)arg;
    (void)level;
    size_t n = strlen(logged);
    (void)snprintf(logged + n, SHOWN - n, "%s\n", text);
}

/* Of all rows of a file, a line each; or "!" and the error. */
static const char *rows_of(const char *text, bool drop_lost) {
    text_dir d;
    oc_error err = {OC_OK, ""};
    text_dir_init(&d);
    const char *path = text_dir_put(&d, "x.jsonl", text, strlen(text));
    const oc_dataset_spec spec = {.paths = &path,
                                  .n_paths = 1,
                                  .tokenizer = tokenizer,
                                  .vocab = oc_tokenizer_vocab(tokenizer),
                                  .drop_lost = drop_lost};
    shown[0] = logged[0] = 0;
    oc_log_set_sink(keep_log, NULL);
    if (oc_dataset_visit(&spec, take, NULL, &err) != OC_OK)
        (void)snprintf(shown, SHOWN, "!%s", err.message);
    oc_log_set_sink(NULL, NULL);
    text_dir_release(&d);
    return shown;
}

typedef struct expectation {
    const char *row, *want; /* all of it; after "!" and "?": words of the error, of the log */
} expectation;

static void check(const expectation *e, size_t n) {
    tokenizer = open_tokenizer();
    for (size_t i = 0; i < n; i++) {
        const char *got = rows_of(e[i].row, false), *want = e[i].want;
        size_t m = strcspn(want, "?");
        const char *line = strstr(got, "x.jsonl:1");
        bool good = *want == '!' ? *got == '!' && line && strstr(got, want + 1)
                                 : strncmp(got, want, m) == 0 && strcmp(got + m, "\n") == 0;
        if (*want != '!' && want[m] == '?') good = good && strstr(logged, want + m + 1);
        if (!good) fail_msg("%s\n%s\nnot %s\n%s", e[i].row, got, want, logged);
    }
    oc_tokenizer_close(tokenizer);
}

#define CHECK(table) check(table, sizeof(table) / sizeof *(table))
#define UA(more)                                                                                   \
    "[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"yes\"" more "}]"
#define TALK "\"messages\":" UA("")
#define SHARED                                                                                     \
    "\"conversations\":[{\"from\":\"human\",\"value\":\"q\"},{\"from\":\"gpt\",\"value\":\"yes\"}" \
    "]"
#define PLAIN "-(user)q/(assistant)+yes/"

static void what_stands_beside_messages_is_part_of_the_conversation(void **state) {
    (void)state;
    static const expectation e[] = {
        {"{" TALK "}", PLAIN},
        {"{\"system\":\"Mind.\"," TALK "}", "-(system)Mind./(user)q/(assistant)+yes/"},
        {"{\"system_prompt\":\"Mind.\"," TALK "}", "-(system)Mind./(user)q/(assistant)+yes/"},
        {"{\"system_prompt\":\"Mind.\"," SHARED "}", "-(system)Mind./(user)q/(assistant)+yes/"},
        {"{\"system\":\"Mind.\"," SHARED "}", "-(system)Mind./(user)q/(assistant)+yes/"},
        {"{\"system\":\"a\",\"system_prompt\":\"b\"," TALK "}", "!keep one"},
        {"{\"system\":\"a\",\"system_prompt\":\"a\"," TALK "}",
         "-(system)a/(user)q/(assistant)+yes/"},
        {"{\"system\":\"\"," TALK "}", PLAIN},
        {"{\"system\":\"s\",\"messages\":[{\"role\":\"system\",\"content\":\"s\"},"
         "{\"role\":\"assistant\",\"content\":\"a\"}]}",
         "-(system)s/(assistant)+a/"},
        {"{\"system\":\"s\",\"messages\":[{\"role\":\"system\",\"content\":\"t\"}]}", "!keep one"},
        {"{\"system\":\"s\",\"prompt\":[{\"role\":\"user\",\"content\":\"q\"}],"
         "\"completion\":[{\"role\":\"assistant\",\"content\":\"a\"}]}",
         "-(system)s/(user)q/(assistant)+a/"},
        {"{\"functions\":[{\"name\":\"w\"}]," TALK "}", "-1 w;(user)q/(assistant)+yes/"},
        {"{\"functions\":\"[{\\\"name\\\":\\\"w\\\"}]\"," TALK "}",
         "-1 w;(user)q/(assistant)+yes/"},
        {"{\"functions\":[{\"name\":\"w\"}],\"tools\":[]," TALK "}",
         "!\"tools\" and \"functions\""},
        {"{\"images\":[\"a.png\"]," TALK "}", "!\"images\" (TRL, LLaMA-Factory, ms-swift)"},
        {"{\"images\":[]," TALK "}", PLAIN},
        {"{\"mask\":\"User\"," TALK "}", "!\"mask\" (NeMo): give a \"train\" to each message"},
        {"{\"loss_mask\":[1,0]," TALK "}", "!\"loss_mask\""},
        {"{\"attention_mask\":[1,0]," TALK "}", "!\"attention_mask\" need \"input_ids\""},
        {"{\"prompt\":\"a\",\"completion\":\"b\",\"system\":\"s\"}",
         "!have no place for \"system\" (LLaMA-Factory, ms-swift): turn the row"},
        {"{\"prompt\":\"a\",\"completion\":\"b\",\"history\":[[\"a\",\"b\"]]}", "!\"history\""},
        {"{\"prompt\":\"a\",\"completion\":\"b\",\"tools\":\"[{}]\"}", "!\"tools\""},
        {"{\"instruction\":\"a\",\"output\":\"b\",\"system_prompt\":\"s\"}", "!\"system_prompt\""},
    };
    CHECK(e);
}

#define FLAGGED(key, off, on)                                                                      \
    "{\"messages\":[{\"role\":\"assistant\",\"content\":\"one\",\"" key "\":" off                  \
    "},{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"two\",\"" key   \
    "\":" on "}]}"
#define SECOND "-(assistant)one/(user)q/(assistant)+two/"

static void flags_of_a_message_say_whether_it_is_trained(void **state) {
    (void)state;
    static const expectation e[] = {
        {FLAGGED("weight", "0", "1"), SECOND},
        {FLAGGED("weight", "false", "true"), SECOND},
        {FLAGGED("train", "false", "true"), SECOND},
        {FLAGGED("training", "false", "null"), SECOND},
        {FLAGGED("trainable", "0", "1"), SECOND},
        {FLAGGED("loss", "false", "true"), SECOND},
        {FLAGGED("loss_mask", "0", "1"), SECOND},
        {FLAGGED("loss_scale", "0.0", "1.0"), SECOND},
        {FLAGGED("loss_weight", "0.0", "1.0"), SECOND},
        {FLAGGED("loss_scale", "0.5", "1.0"), "!messages[0].loss_scale must be 0"},
        {FLAGGED("train", "\"no\"", "true"), "!messages[0].train must be 0"},
        {FLAGGED("mask", "true", "false"), "!messages[0].mask (in several trainers)"},
        {FLAGGED("masked", "true", "false"), "!messages[0].masked (torchtune)"},
        {FLAGGED("train_detail", "[{}]", "null"), "!messages[0].train_detail (axolotl)"},
        {FLAGGED("images", "[\"x\"]", "null"), "!messages[0].images"},
        {"{\"messages\":" UA(",\"train\":true,\"weight\":0") "}", "!messages[1].train says the"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"q\",\"train\":true},"
         "{\"role\":\"assistant\",\"content\":\"a\"}]}",
         "-(user)+q-/(assistant)+a/"},
        {"{\"system\":\"s\",\"messages\":[{\"role\":\"user\",\"content\":\"q\",\"loss\":true},"
         "{\"role\":\"assistant\",\"content\":\"a\"}]}",
         "!messages[0].loss asks"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"q\",\"train\":false},"
         "{\"role\":\"assistant\",\"content\":\"a\"}]}",
         "-(user)q/(assistant)+a/"},
        {"{\"conversations\":[{\"from\":\"gpt\",\"value\":\"one\",\"train\":false},"
         "{\"from\":\"human\",\"value\":\"q\"},{\"from\":\"gpt\",\"value\":\"two\"}]}",
         SECOND},
    };
    CHECK(e);
}

static void masks_over_ids_leave_out_what_they_say(void **state) {
    (void)state;
    static const expectation e[] = {
        {"{\"input_ids\":[10,11,12],\"assistant_masks\":[0,1,1]}", "10- 11 12 "},
        {"{\"input_ids\":[10,11,12],\"completion_mask\":[0,0,1]}", "10- 11- 12 "},
        {"{\"input_ids\":[10,11,12],\"loss_mask\":[false,true,false]}", "10- 11 12- "},
        {"{\"input_ids\":[10,11,12],\"loss_scale\":[0.0,1.0,0.0]}", "10- 11 12- "},
        {"{\"input_ids\":[10,11,12],\"loss_scale\":[0.0,0.3,0.0]}", "!loss_scale[1] is not 0 or 1"},
        {"{\"input_ids\":[10,11,12],\"assistant_masks\":[1,1,0],\"completion_mask\":[0,1,1]}",
         "10- 11 12- "},
        {"{\"input_ids\":[10,11,12],\"assistant_masks\":[1,1]}", "!not an array of 3"},
        {"{\"input_ids\":[10,11],\"labels\":[-100,11],\"assistant_masks\":[0,1]}", "10- 11 "},
        {"{\"input_ids\":[10,11],\"labels\":[10,11],\"assistant_masks\":[0,1]}",
         "!assistant_masks[0] is 0 where labels[0] is not -100"},
        {"{\"input_ids\":[9,10,11,12],\"assistant_masks\":[0,0,0,1],\"attention_mask\":[0,1,1,1]}",
         "10- 11- 12 "},
        {"{\"input_ids\":[10,11],\"token_type_ids\":[0,0]}", "10 11 "},
        {"{\"input_ids\":[10,11],\"token_type_ids\":[0,1]}", "!\"token_type_ids\" (transformers)"},
        {"{\"input_ids\":[10,11],\"pixel_values\":[[1]]}", "!\"pixel_values\""},
    };
    CHECK(e);
}

static void packed_rows_are_the_documents_they_were(void **state) {
    (void)state;
    static const expectation e[] = {
        {"{\"input_ids\":[10,11,12,13,14],\"position_ids\":[0,1,0,1,2]}", "10 11 12- 13 14 @0@2"},
        {"{\"input_ids\":[10,11,12,13,14],\"seq_lengths\":[2,3]}", "10 11 12- 13 14 @0@2"},
        {"{\"input_ids\":[10,11,12],\"position_ids\":[0,1,2]}", "10 11 12 @0"},
        {"{\"input_ids\":[10,11,12],\"position_ids\":[0,1,0],\"seq_lengths\":[2,1]}",
         "10 11 12- @0@2"},
        {"{\"input_ids\":[10,11,12],\"position_ids\":[0,1,0],\"seq_lengths\":[1,2]}", "!disagree"},
        {"{\"input_ids\":[9,10,11,12],\"position_ids\":[1,0,1,0],\"attention_mask\":[0,1,1,1]}",
         "10 11 12- @0@2"},
        {"{\"input_ids\":[10,11,12],\"position_ids\":[5,6,7]}", "!position_ids[0] neither"},
        {"{\"input_ids\":[10,11,12],\"position_ids\":[0,2,3]}", "!position_ids[1] neither"},
        {"{\"input_ids\":[10,11,12],\"seq_lengths\":[2,2]}", "!seq_lengths[1] is no part"},
        {"{\"input_ids\":[10,11,12],\"seq_lengths\":[2]}", "!add up to the row's 3 tokens"},
        {"{\"input_ids\":[10,11,12],\"seq_lengths\":3}", "!add up to the row's 3 tokens"},
        {"{\"input_ids\":[10,11,12],\"seq_lengths\":[-1,4]}", "!seq_lengths[0]"},
    };
    CHECK(e);
}

#define CALL(more)                                                                                 \
    "{\"role\":\"assistant\"" more ",\"function_call\":{\"name\":\"w\",\"arguments\":\"{}\"}}"

static void a_function_call_is_a_tool_call(void **state) {
    (void)state;
    static const expectation e[] = {
        {"{\"messages\":[" CALL("") "]}", "-(assistant)+[w \"{}\"]/"},
        {"{\"messages\":[" CALL(",\"content\":null") "]}", "-(assistant)+[w \"{}\"]/"},
        {"{\"messages\":[" CALL(",\"content\":\"so\"") "]}", "-(assistant)+so[w \"{}\"]/"},
        {"{\"messages\":[" CALL(",\"tool_calls\":[{\"function\":{\"name\":\"w\"}}]") "]}",
         "!messages[0] has a function_call beside tool_calls"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"\",\"function_call\":{\"name\":\"w\"}}]}",
         "!messages[0] has a function_call and is no assistant's"},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":\"\",\"function_call\":\"w\"}]}",
         "!messages[0].function_call is not {\"name\""},
        {"{\"conversations\":[{\"from\":\"gpt\",\"value\":\"\",\"tool_calls\":[{\"function\":"
         "{\"name\":\"w\",\"arguments\":1}}]}]}",
         "-(assistant)+[w 1]/"},
    };
    CHECK(e);
}

static void either_way_to_write_a_message_is_read_under_either_key(void **state) {
    (void)state;
    static const expectation e[] = {
        {"{\"conversations\":" UA("") "}", PLAIN},
        {"{\"conversations\":[{\"role\":\"human\",\"content\":\"q\"},{\"role\":\"gpt\","
         "\"content\":\"yes\"}]}",
         PLAIN},
        {"{\"messages\":[{\"from\":\"human\",\"value\":\"q\"},{\"from\":\"gpt\",\"value\":\"yes\"}]"
         "}",
         PLAIN},
        {"{\"messages\":[{\"from\":\"bing\",\"value\":\"q\"}]}", "!messages[0] is from \"bing\""},
        {"{\"messages\":[{\"from\":\"gpt\\u0000x\",\"value\":\"q\"}]}", "!messages[0] is from"},
        {"{\"conversations\":[{\"a\":1}]}", "!nor {\"role\", \"content\"}"},
    };
    CHECK(e);
}

static void a_role_with_a_nul_in_it_is_another_role(void **state) {
    (void)state;
    static const expectation e[] = {
        {"{\"messages\":[{\"role\":\"assistant\\u0000\",\"content\":\"a\"}]}",
         "!whose role is \"assistant\""},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\\u0000\",\"text\":\"a\"}]"
         "}]}",
         "!messages[0].content[0] is of type"},
        {"{\"system\":\"s\",\"messages\":[{\"role\":\"system\\u0000\",\"content\":\"t\"}]}",
         "!role"},
    };
    CHECK(e);
}

static void a_row_of_several_forms_is_of_the_more_specific_one(void **state) {
    (void)state;
    static const expectation e[] = {
        {"{\"text\":\"(user)q\"," TALK "}", PLAIN "?1 rows (first "},
        {"{\"text\":\"a\",\"input_ids\":[10,11]}", "10 11 ?fit several forms"},
        {"{\"messages\":[],\"prompt\":\"2+2\",\"completion\":\" is\"}",
         "-<|begin|>2+2+ is<|im_end|>?fit several forms"},
        {"{" SHARED ",\"instruction\":\"a\",\"output\":\"b\"}", PLAIN "?fit several"},
        {"{\"text\":null," TALK "}", PLAIN},
    };
    CHECK(e);
}

static void a_row_whose_text_is_null_has_nothing_to_train(void **state) {
    (void)state;
    static const char *const rows[] = {
        "{\"text\":null}",
        "{\"prompt\":\"a\",\"completion\":null}",
        "{\"prompt\":null,\"completion\":\"a\"}",
        "{\"instruction\":\"a\",\"output\":null}",
        "{\"instruction\":\"a\",\"input\":\"\",\"output\":NaN}",
        "{\"messages\":null}",
        ("{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},"
         "{\"role\":\"assistant\",\"content\":null}]}"),
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\"}]}",
        "{\"conversations\":[{\"from\":\"gpt\",\"value\":null}]}",
        "{\"conversations\":[{\"from\":\"gpt\"}]}",
        "{\"input_ids\":null}",
    };
    tokenizer = open_tokenizer();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows_of(rows[i], false), "\n") != 0) fail_msg("%s: %s", rows[i], shown);
        assert_non_null(strstr(logged, "1 rows (first"));
        assert_non_null(strstr(logged, "hold null where their text should be"));
    }
    /* they are of the form that the others are of */
    assert_string_equal(rows_of("{\"text\":null}\n{\"input_ids\":[10]}\n{\"text\":null}\n", false),
                        "\n10 \n\n");
    /* a question without an answer, among others */
    assert_string_equal(
        rows_of("{\"prompt\":\"2+2\",\"completion\":\" is\"}\n{\"prompt\":\"a\"}\n", false),
        "-<|begin|>2+2+ is<|im_end|>\n\n");
    assert_non_null(strstr(rows_of("{\"prompt\":\"a\"}\n", false), "but no \"completion\""));
    oc_tokenizer_close(tokenizer);
}

static void numbers_of_python_are_read_where_nobody_looks(void **state) {
    (void)state;
    static const expectation e[] = {
        {"{\"input_ids\":[10],\"score\":NaN}", "10 ?hold NaN"},
        {"{\"score\":-Infinity,\"input_ids\":[10],\"b\":[Infinity,{\"c\":NaN}]}", "10 ?hold NaN"},
        {"{\"id\":123456789012345678901234567890,\"input_ids\":[10]}", "10 ?hold NaN"},
        {"{\"id\":-9223372036854775809,\"x\":1e999,\"input_ids\":[10]}", "10 ?hold NaN"},
        {"{\"a\\\"b\":\"NaN\",\"c\":NaN,\"input_ids\":[10]}", "10 ?hold NaN"},
        {"{\"labels\":NaN,\"input_ids\":[10]}", "10 ?hold NaN"},
        {"{\"input_ids\":[NaN]}", "!not valid JSON"},
        {"{\"input_ids\":[123456789012345678901234567890]}", "!not valid JSON"},
        {"{\"tools\":[{\"x\":NaN}]," TALK "}", "!not valid JSON"},
        {"{\"score\":nan,\"input_ids\":[10]}", "!not valid JSON"},
        {"{\"score\":NaN,\"input_ids\":[10]", "!not valid JSON"},
        {"{\"score\":NaN,\"input_ids\":\"", "!not valid JSON"},
        {"{\"score\":NaN,\"x\":\"\\", "!not valid JSON"},
    };
    CHECK(e);
}

static void keys_without_a_meaning_are_named_once(void **state) {
    (void)state;
    tokenizer = open_tokenizer();
    (void)rows_of("{\"input_ids\":[10],\"id\":1}\n{\"input_ids\":[10],\"id\":2,\"source\":\"x\"}\n"
                  "{\"input_ids\":[10],\"id\":null}\n",
                  false);
    assert_non_null(strstr(logged, "ignored: \"id\" (2 rows), \"source\" (1 rows)"));
    (void)rows_of(
        "{\"input_ids\":[10],\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,"
        "\"i\":1,\"j\":1,\"k\":1,\"l\":1,\"m\":1,\"n\":1,\"o\":1,\"p\":1,\"q\":1}\n",
        false);
    assert_non_null(strstr(logged, "\"p\" (1 rows), ..."));
    oc_tokenizer_close(tokenizer);
}

static void a_text_that_begins_with_bos_gets_no_second_one(void **state) {
    (void)state;
    static const expectation e[] = {
        {"{\"text\":\"Hi\"}", "+<|begin|>Hi<|im_end|>"},
        {"{\"text\":\"<|begin|>Hi<|im_end|>\"}", "+<|begin|>Hi<|im_end|>?begin with the bos token"},
        {"{\"text\":\"<|begin|><|begin|>\"}", "+<|begin|><|begin|><|im_end|>?1 rows"},
        {"{\"prompt\":\"<|begin|>Hi\",\"completion\":\" you\"}",
         "-<|begin|>Hi+ you<|im_end|>?1 rows (first"},
    };
    CHECK(e);
    tokenizer = open_tokenizer();
    (void)rows_of("{\"text\":\"<|begin|>a\"}\n{\"text\":\"b\"}\n{\"text\":\"<|begin|>c\"}\n",
                  false);
    assert_non_null(strstr(logged, "data: 2 rows (first"));
    assert_null(strstr(strstr(logged, "bos token") + 1, "bos token"));
    oc_tokenizer_close(tokenizer);
}

#define LOST                                                                                       \
    "{\"messages\":[{\"role\":\"developer\",\"content\":\"Mind.\"},{\"role\":\"user\","            \
    "\"content\":"                                                                                 \
    "\"q\"},{\"role\":\"assistant\",\"content\":\"yes\"}]}"

static void messages_that_the_template_does_not_write_are_refused_or_counted(void **state) {
    (void)state;
    static const expectation e[] = {
        {LOST, "!x.jsonl:1: the chat template writes nothing of messages[0], whose role is "
               "\"developer\""},
        {"{\"system\":\"s\",\"messages\":[{\"role\":\"user\",\"content\":\"q\"},"
         "{\"role\":\"ipython\",\"content\":\"5\"}]}",
         "!messages[1], whose role is \"ipython\""},
        {"{\"messages\":[{\"role\":\"ipython\",\"content\":\" \\n\"},"
         "{\"role\":\"assistant\",\"content\":\"a\"}]}",
         "-(assistant)+a/"},
    };
    CHECK(e);
    tokenizer = open_tokenizer();
    assert_string_equal(rows_of(LOST "\n" LOST "\n", true), PLAIN "\n" PLAIN "\n");
    assert_non_null(strstr(logged, "2 rows (first"));
    assert_non_null(strstr(logged, "messages that the chat template does not write"));
    oc_tokenizer_close(tokenizer);
}

/* Not only the reader's view: each document is a row of its own when rows are packed. */
static void documents_of_a_row_are_packed_as_rows(void **state) {
    (void)state;
    static const char text[] = "{\"input_ids\":[10,11,12,13,14],\"position_ids\":[0,1,0,1,2]}\n";
    int32_t tokens[8], labels[8], positions[8], starts[8];
    text_dir d;
    oc_dataset *data;
    oc_error err;
    text_dir_init(&d);
    const char *path = text_dir_put(&d, "x.jsonl", text, strlen(text));
    const oc_dataset_spec spec = {
        .paths = &path, .n_paths = 1, .vocab = 100, .seq = 8, .packing = true};
    if (oc_dataset_open(&data, &spec, &err) != OC_OK) fail_msg("%s", err.message);
    assert_int_equal(oc_dataset_get_report(data)->rows, 2);
    assert_int_equal(oc_dataset_get_report(data)->targets, 3);
    assert_int_equal(oc_dataset_read(data, 0, tokens, labels, positions, starts, &err), OC_OK);
    static const int32_t want[] = {11, -100, 13, 14, -100}, where[] = {0, 1, 0, 1, 2};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(labels[i], want[i]);
        assert_int_equal(positions[i], where[i]);
    }
    oc_dataset_close(data);
    text_dir_release(&d);
}

static void a_row_beyond_the_memory_is_refused_by_its_size(void **state) {
    (void)state;
    enum { BYTES = 100 * 1024 };
    static const char *const names[] = {"x.jsonl", "x.json", "x.txt"};
    char *text = malloc(BYTES + 32);
    assert_non_null(text);
    for (int i = 0; i < 3; i++) {
        const char *head = i == 0 ? "{\"text\":\"" : i == 1 ? "[{\"text\":\"" : "";
        const char *tail = i == 0 ? "\"}\n" : i == 1 ? "\"}]" : "";
        text_dir d;
        oc_error err = {OC_OK, ""};
        size_t n = strlen(head);
        memcpy(text, head, n);
        memset(text + n, 'a', BYTES);
        memcpy(text + n + BYTES, tail, strlen(tail));
        text_dir_init(&d);
        const char *path = text_dir_put(&d, names[i], text, n + BYTES + strlen(tail));
        tokenizer = open_tokenizer();
        oc_dataset_spec spec = {.paths = &path,
                                .n_paths = 1,
                                .tokenizer = tokenizer,
                                .vocab = oc_tokenizer_vocab(tokenizer),
                                .memory = 1};
        shown[0] = 0;
        assert_int_equal(oc_dataset_visit(&spec, take, NULL, &err), OC_E_MEMORY);
        if (!strstr(err.message, names[i]) || !strstr(err.message, "more than 64 KiB"))
            fail_msg("%s", err.message);
        spec.memory = (uint64_t)64 * 1024 * 1024;
        assert_int_equal(oc_dataset_visit(&spec, take, NULL, &err), OC_OK);
        oc_tokenizer_close(tokenizer);
        text_dir_release(&d);
    }
    free(text);
}

/* Whether a file is text is told without reading a row of any size. */
static void a_long_first_row_is_told_by_how_it_begins(void **state) {
    (void)state;
    enum { BYTES = 2 << 20 };
    static const char *const heads[] = {"{\"text\":\"", "{\"input_ids\":[10],\"x\":\"",
                                        "[{\"text\":\"", "[{\"input_ids\":[10],\"x\":\""};
    char *text = malloc(BYTES + 64);
    assert_non_null(text);
    for (size_t i = 0; i < 4; i++) {
        text_dir d;
        size_t n = strlen(heads[i]);
        memset(text, 'a', BYTES);
        memcpy(text, heads[i], n);
        memcpy(text + BYTES, i < 2 ? "\"}\n" : "\"}]", 3);
        text_dir_init(&d);
        const char *path = text_dir_put(&d, i < 2 ? "x.jsonl" : "x.json", text, BYTES + 3);
        assert_int_equal(needs_tokenizer(path), i % 2 == 0);
        text_dir_release(&d);
    }
    free(text);
}

static void what_describes_data_is_left_out_of_a_directory(void **state) {
    (void)state;
    static const char *const others[] = {"README.txt", "dataset_info.json", "dataset_infos.json",
                                         "license.txt", "state.json"};
    text_dir d;
    oc_data_files files;
    oc_error err;
    text_dir_init(&d);
    const char *const paths[] = {d.dir};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        (void)text_dir_put(&d, others[i], "{\"a\":1}", 7);
    assert_int_not_equal(oc_data_files_find(&files, paths, 1, NULL, &err), OC_OK);
    assert_non_null(strstr(err.message, "holds no data file"));
    (void)text_dir_put(&d, "read.jsonl", "{}", 2);
    (void)text_dir_put(&d, "readme_rows.jsonl", "{}", 2);
    logged[0] = 0;
    oc_log_set_sink(keep_log, NULL);
    if (oc_data_files_find(&files, paths, 1, NULL, &err) != OC_OK) fail_msg("%s", err.message);
    oc_log_set_sink(NULL, NULL);
    assert_int_equal(files.n, 2);
    assert_non_null(strstr(logged, "5 other files are left out"));
    oc_data_files_release(&files);
    text_dir_release(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_stands_beside_messages_is_part_of_the_conversation),
        cmocka_unit_test(flags_of_a_message_say_whether_it_is_trained),
        cmocka_unit_test(masks_over_ids_leave_out_what_they_say),
        cmocka_unit_test(packed_rows_are_the_documents_they_were),
        cmocka_unit_test(a_function_call_is_a_tool_call),
        cmocka_unit_test(either_way_to_write_a_message_is_read_under_either_key),
        cmocka_unit_test(a_role_with_a_nul_in_it_is_another_role),
        cmocka_unit_test(a_row_of_several_forms_is_of_the_more_specific_one),
        cmocka_unit_test(a_row_whose_text_is_null_has_nothing_to_train),
        cmocka_unit_test(numbers_of_python_are_read_where_nobody_looks),
        cmocka_unit_test(keys_without_a_meaning_are_named_once),
        cmocka_unit_test(a_text_that_begins_with_bos_gets_no_second_one),
        cmocka_unit_test(messages_that_the_template_does_not_write_are_refused_or_counted),
        cmocka_unit_test(documents_of_a_row_are_packed_as_rows),
        cmocka_unit_test(a_row_beyond_the_memory_is_refused_by_its_size),
        cmocka_unit_test(a_long_first_row_is_told_by_how_it_begins),
        cmocka_unit_test(what_describes_data_is_left_out_of_a_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
