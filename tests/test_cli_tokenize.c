/* outcore tokenize: what it prints for texts, conversations and training data, against the
 * reference library's results (tools/make_data_expected.py, and those beside real tokenizers where
 * they are at hand). */
#include "base/fs.h"
#include "cli_case.h"

#define BYTELEVEL OC_TEST_DATA "/data/bytelevel"
#define SENTENCEPIECE OC_TEST_DATA "/data/sentencepiece"
#define REAL OC_TEST_DATA "/../../../shared/data/tokenizers"

static json_t *load(const char *path) {
    json_t *v = NULL;
    oc_error err;
    if (oc_json_load(&v, path, OC_JSON_ALLOW_NUL, &err) != OC_OK) fail_msg("%s", err.message);
    return v;
}

static json_t *parse(const char *text, size_t n) {
    json_error_t e;
    json_t *v = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
    if (v == NULL) fail_msg("no JSON: %s\n%.*s", e.text, (int)(n < 400 ? n : 400), text);
    return v;
}

/* Standard output, of any length; ASCII only. The program must have succeeded. */
static char *output_of(const char *line) {
    char *text = NULL;
    size_t n = 0;
    oc_error err;
    cli_expect(line, 0, "");
    if (oc_fs_read(&text, &n, "stdout", 1 << 28, &err) != OC_OK) fail_msg("%s", err.message);
    for (size_t i = 0; i < n; i++)
        assert_true((unsigned char)text[i] < 0x80);
    return text;
}

/* A JSON value a line. */
static json_t *lines_of(const char *line) {
    char *text = output_of(line);
    json_t *all = json_array();
    for (const char *at = text; *at;) {
        size_t n = strcspn(at, "\n");
        json_array_append_new(all, parse(at, n));
        at += n + (at[n] == '\n');
    }
    free(text);
    return all;
}

static void same(const char *what, size_t i, const json_t *got, const json_t *want) {
    if (json_equal(got, want)) return;
    char *a = json_dumps(got, JSON_ENCODE_ANY), *b = json_dumps(want, JSON_ENCODE_ANY);
    fail_msg("%s of %zu: %.300s\nnot %.300s", what, i, a ? a : "nothing", b ? b : "nothing");
}

static void prints(const char *line, const char *want) {
    cli_result *r = cli_run(line);
    if (r->code != 0) fail_msg("outcore %s\n%s", line, cli_tail(r->err));
    assert_string_equal(r->out, want);
}

/* ---- --text ---- */

static void a_text_is_shown_token_by_token(void **state) {
    (void)state;
    prints("tokenize --model " BYTELEVEL " --text=Hello,",
           "[1, 312, 19]\n       1  \"<|begin|>\"\n     312  \"Hello\"\n      19  \",\"\n");
    prints("tokenize --model " BYTELEVEL " --text=Hello, --no-special",
           "[312, 19]\n     312  \"Hello\"\n      19  \",\"\n");
    prints("tokenize --model " BYTELEVEL " --text=Hello, --json",
           "{\"ids\": [1, 312, 19], \"tokens\": [\"<|begin|>\", \"Hello\", \",\"], "
           "\"decoded\": \"Hello,\"}\n");
    prints("tokenize --tokenizer bytes --text=\"\n\x01\xc3\xa9\\",
           "[1, 37, 13, 4, 198, 172, 95, 2]\n       1  \"<|bos|>\"\n      37  \"\\\"\"\n"
           "      13  \"\\n\"\n       4  \"\\x01\"\n     198  \"\\xc3\"\n     172  \"\\xa9\"\n"
           "      95  \"\\\\\"\n       2  \"<|eos|>\"\n");
    prints("tokenize --tokenizer bytes --text=\xc3\xa9 --json --no-special",
           "{\"ids\": [198, 172], \"tokens\": [\"\\uFFFD\", \"\\uFFFD\"], \"decoded\": "
           "\"\\u00E9\"}\n");
    prints("tokenize --tokenizer bytes --text= --no-special", "[]\n");
}

/* ---- --input ---- */

static void write_texts(const json_t *rows, const char *key) {
    FILE *f = fopen("in.jsonl", "w");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        char *text = json_dumps(json_object_get(json_array_get(rows, i), key), JSON_ENCODE_ANY);
        fprintf(f, "%s\n", text);
        free(text);
    }
    assert_int_equal(fclose(f), 0);
}

/* Ids of rows of text, but for the eos that training adds. */
static void texts_come_out_as_the_reference_has_them(void **state) {
    (void)state;
    json_t *all = load(OC_TEST_DATA "/data/rows.json"), *one, *row;
    size_t i, k;
    json_array_foreach(all, i, one) {
        json_t *texts = json_array();
        char line[512];
        json_array_foreach(json_object_get(one, "rows"), k, row) {
            const json_t *text = json_object_get(json_object_get(row, "row"), "text");
            if (text && !strstr(json_string_value(text), "<|im_end|>"))
                json_array_append_new(texts, json_pack("{s:O, s:O}", "text", text, "ids",
                                                       json_object_get(row, "ids")));
        }
        assert_int_equal(json_array_size(texts), 4);
        write_texts(texts, "text");
        snprintf(line, sizeof line, "tokenize --model %s/data/%s --input in.jsonl", OC_TEST_DATA,
                 json_string_value(json_object_get(one, "tokenizer")));
        json_t *got = lines_of(line);
        assert_int_equal(json_array_size(got), 4);
        json_array_foreach(texts, k, row) {
            json_t *ids = json_object_get(row, "ids");
            json_array_remove(ids, json_array_size(ids) - 1);
            same("ids", k, json_object_get(json_array_get(got, k), "ids"), ids);
            same("decoded", k, json_object_get(json_array_get(got, k), "decoded"),
                 json_object_get(row, "text"));
        }
        json_decref(got);
        json_decref(texts);
    }
    json_decref(all);
}

/* ---- --messages ---- */

static void check_conversation(const char *model, const json_t *want, bool object) {
    char line[512];
    const json_t *messages = json_object_get(want, "messages");
    json_t *asked = object ? json_pack("{s:O}", "messages", messages) : json_deep_copy(messages);
    assert_int_equal(json_dump_file(asked, "m.json", JSON_INDENT(1)), 0);
    json_decref(asked);
    snprintf(line, sizeof line, "tokenize --model %s --messages m.json", model);
    json_t *got = lines_of(line), *first = json_array_get(got, 0);
    assert_int_equal(json_array_size(got), 1);
    same("rendered", 0, json_object_get(first, "rendered"), json_object_get(want, "rendered"));
    same("ids", 0, json_object_get(first, "ids"), json_object_get(want, "ids"));
    json_decref(got);
    snprintf(line, sizeof line, "tokenize --model %s --messages - --generation-prompt", model);
    cli_stdin = "m.json";
    got = lines_of(line);
    cli_stdin = NULL;
    same("prompted", 0, json_object_get(json_array_get(got, 0), "rendered"),
         json_object_get(want, "prompted"));
    json_decref(got);
}

static void conversations_come_out_as_the_reference_has_them(void **state) {
    (void)state;
    json_t *all = load(OC_TEST_DATA "/data/chat.json"), *style, *want;
    size_t i, k;
    int checked = 0;
    json_array_foreach(all, i, style) {
        const char *name = json_string_value(json_object_get(style, "style"));
        bool chatml = strcmp(name, "chatml") == 0;
        if (!chatml && strcmp(name, "instruct") != 0) continue; /* the fixtures' own templates */
        json_array_foreach(json_object_get(style, "cases"), k, want) {
            check_conversation(chatml ? BYTELEVEL : SENTENCEPIECE, want, k % 2 == 0);
            checked++;
        }
    }
    assert_true(checked > 20);
    json_decref(all);
}

/* Tools and other names reach the template, a file beside tokenizer.json wins, and the object may
 * ask for the prompt itself. */
static void a_conversation_may_bring_tools_and_names(void **state) {
    (void)state;
    char *json = NULL;
    size_t n;
    oc_error err;
    assert_int_equal(mkdir("own", 0700), 0);
    assert_int_equal(oc_fs_read(&json, &n, BYTELEVEL "/tokenizer.json", 1 << 20, &err), OC_OK);
    cli_write("own/tokenizer.json", json, n);
    free(json);
    cli_text("own/tokenizer_config.json", "{\"chat_template\": \"{{ 'wrong' }}\"}");
    cli_text("own/chat_template.jinja",
             "{{ tools[0].name }} {{ mood }}{% for m in messages %} {{ m.content }}{% endfor %}"
             "{% if add_generation_prompt %}>{% endif %}");
    cli_text("m.json",
             "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}], \"mood\": "
             "\"good\", \"tools\": [{\"name\": \"f\"}], \"add_generation_prompt\": true}");
    json_t *got = lines_of("tokenize --model own --messages m.json");
    assert_string_equal(json_string_value(json_object_get(json_array_get(got, 0), "rendered")),
                        "f good hi>");
    json_decref(got);
    /* as beside a row's messages */
    cli_text("own/chat_template.jinja",
             "{{ tools[0].function.name }}"
             "{% for m in messages %} {{ m.role }}:{{ m.content }}{% endfor %}");
    cli_text("m.json",
             "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}], \"system_prompt\": "
             "\"Mind.\", \"functions\": [{\"name\": \"f\"}]}");
    got = lines_of("tokenize --model own --messages m.json");
    assert_string_equal(json_string_value(json_object_get(json_array_get(got, 0), "rendered")),
                        "f system:Mind. user:hi");
    json_decref(got);
}

/* ---- --data ---- */

static void labels_come_out_as_training_has_them(void **state) {
    (void)state;
    json_t *all = load(OC_TEST_DATA "/data/rows.json"), *row, *rows = NULL;
    size_t k;
    FILE *f = fopen("prompts.jsonl", "w");
    rows = json_object_get(json_array_get(all, 0), "rows");
    json_array_foreach(rows, k, row) {
        json_t *one = json_object_get(row, "row");
        if (!json_object_get(one, "prompt")) continue;
        json_dumpf(one, f, 0);
        fputc('\n', f);
    }
    fclose(f);
    json_t *got = lines_of("tokenize --model " BYTELEVEL " --data prompts.jsonl --show-labels "
                           "--json");
    size_t at = 0;
    json_array_foreach(rows, k, row) {
        if (!json_object_get(json_object_get(row, "row"), "prompt")) continue;
        const json_t *one = json_array_get(got, at++);
        same("ids", k, json_object_get(one, "ids"), json_object_get(row, "ids"));
        same("labels", k, json_object_get(one, "labels"), json_object_get(row, "labels"));
    }
    assert_int_equal(at, json_array_size(got));
    json_decref(got);
    json_decref(all);
}

static void people_see_which_text_is_trained(void **state) {
    (void)state;
    cli_text("t.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi \\\"you\\\"\"}, "
                        "{\"role\": \"assistant\", \"content\": \"caf\\u00e9\"}]}\n\n"
                        "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, "
                        "{\"role\": \"assistant\", \"content\": \"b\", \"weight\": 0}]}\n");
    prints("tokenize --model " BYTELEVEL " --data t.jsonl --show-labels",
           "t.jsonl:1  messages, 19 tokens, 4 trained\n"
           "  - \"<|im_start|>user\\nHi \\\"you\\\"<|im_end|>\\n\\n<|im_start|>assistant\\n\"\n"
           "  + \"caf\xc3\xa9<|im_end|>\\n\"\n"
           "t.jsonl:3  messages, 13 tokens, 0 trained\n"
           "  - \"<|im_start|>user\\na<|im_end|>\\n\\n<|im_start|>assistant\\nb<|im_end|>\\n\"\n");
    mkdir("folder", 0700);
    cli_text("folder/a.json", "[{\"input_ids\": [100, 101], \"labels\": [100, 101]},\n"
                              " {\"input_ids\": [100, 101], \"labels\": [-100, -100]}]");
    cli_text("folder/b.txt", "x");
    prints("tokenize --tokenizer bytes --data folder --show-labels",
           "folder/a.json: row 1  input_ids, 2 tokens, 1 trained\n  - \"a\"\n  + \"b\"\n"
           "folder/a.json: row 2  input_ids, 2 tokens, 0 trained\n  - \"ab\"\n"
           "folder/b.txt  text, 3 tokens, 2 trained\n  - \"<|bos|>\"\n  + \"x<|eos|>\"\n");
}

/* ---- refusals ---- */

static void what_cannot_be_done_is_refused_by_name(void **state) {
    (void)state;
    mkdir("none", 0700);
    mkdir("broken", 0700);
    cli_text("broken/tokenizer.json", "{\"model\": {\"type\": \"Nonsense\"}}");
    cli_text("t.jsonl", "{\"text\": 1}\n");
    cli_text("in.jsonl", "\"a\"\n\n");
    cli_text("m.json", "[{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}]");
    cli_text("o.json", "{\"tools\": []}");
#define T "tokenize --tokenizer bytes "
    static const struct {
        const char *line;
        int code;
        const char *words;
    } rows[] = {
        {"tokenize --text=a", 2, "needs --model DIR"},
        {"tokenize --model none --text=a", 2, "none has no tokenizer.json"},
        {"tokenize --tokenizer none --text=a", 2, "--tokenizer none: there is no tokenizer.json"},
        {"tokenize --model nowhere/at/all --text=a", 2, "nowhere/at/all has no tokenizer.json"},
        {"tokenize --model broken --text=a", 2, "broken/tokenizer.json|Nonsense"},
        {"tokenize --model tiny/llama --text=a", 2, "tiny/llama|hf download tiny/llama"},
        {"tokenize --tokenizer tiny/llama --text=a", 2, "tiny/llama|hf download tiny/llama"},
        {T, 2, "needs what to tokenize: --text TEXT"},
        {T "--text=a --input in.jsonl", 2, "--text and --input exclude each other"},
        {T "--messages m.json --data t.jsonl", 2, "--messages and --data exclude each other"},
        {T "--text=a --generation-prompt", 2, "--generation-prompt goes with --messages"},
        {T "--messages m.json --no-special", 2, "--no-special goes with --text or --input"},
        {T "--text=a --show-labels", 2, "--show-labels goes with --data"},
        {T "--text=a --lr 1", 2, "--lr is not an option of outcore tokenize"},
        {T "--data t.jsonl --show-label", 2, "--show-label|--show-labels"},
        {T "--input nowhere", 2, "cannot open nowhere"},
        {T "--input t.jsonl", 2, "t.jsonl:1: the line is an object, not a JSON string"},
        {T "--input in.jsonl", 1, "in.jsonl:2:1: not valid JSON"},
        {T "--messages m.json", 2, "m.json: messages[0].content[0] is of type \"image\""},
        {T "--messages o.json", 2, "o.json: the object has no \"messages\""},
        {T "--messages t.jsonl", 2, "t.jsonl: the object has no \"messages\""},
        {T "--messages in.jsonl", 2, "in.jsonl: \"messages\" is a string, not a list"},
        {T "--data t.jsonl --show-labels", 2, "t.jsonl:1: \"text\" is an integer"},
        {"train --init m --data d.txt --output o --text=a", 2, "--text is not an option of"},
    };
    assert_int_equal(setenv("HF_HUB_CACHE", "cache", 1), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cli_expect(rows[i].line, rows[i].code, rows[i].words);
    cli_text("m.json", "[{\"role\": \"user\", \"content\": \"a\"}]");
    cli_expect(T "--messages m.json", 2, "no chat template|chat_template.jinja");
}

static void the_hub_cache_has_tokenizers_too(void **state) {
    (void)state;
    char path[512], *json = NULL;
    size_t n;
    oc_error err;
    assert_int_equal(setenv("HF_HUB_CACHE", "cache", 1), 0);
    assert_int_equal(oc_fs_make_directories("cache/models--tiny--words/snapshots/0a1b2c", &err),
                     OC_OK);
    assert_int_equal(oc_fs_make_directories("cache/models--tiny--words/refs", &err), OC_OK);
    cli_text("cache/models--tiny--words/refs/main", "0a1b2c");
    assert_int_equal(oc_fs_read(&json, &n, BYTELEVEL "/tokenizer.json", 1 << 20, &err), OC_OK);
    snprintf(path, sizeof path, "cache/models--tiny--words/snapshots/0a1b2c/tokenizer.json");
    cli_write(path, json, n);
    free(json);
    prints("tokenize --model tiny/words --text=Hello --no-special", "[312]\n     312  \"Hello\"\n");
    prints("tokenize --tokenizer tiny/words --text=Hello --no-special",
           "[312]\n     312  \"Hello\"\n");
}

static void the_help_teaches(void **state) {
    (void)state;
    cli_result *r = cli_run("tokenize --help");
    static const char *const words[] = {
        "--input",  "--messages",         "--show-labels", "--no-special", "--generation-prompt",
        "example:", "tokenizer.json only"};
    assert_int_equal(r->code, 0);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strstr(r->out, words[i])) fail_msg("the help lacks %s", words[i]);
    assert_null(strstr(r->out, "SIZE"));
    assert_non_null(strstr(cli_run("--help")->out, "outcore tokenize"));
}

/* ---- real tokenizers, where they are at hand ---- */

/* DIR/tokenizer.json from tokenizer.json.xz. */
static bool unpack(const char *name) {
    char from[512], to[64];
    snprintf(from, sizeof from, REAL "/%s/tokenizer.json.xz", name);
    if (!cli_exists(from)) return false;
    mkdir("real", 0700);
    pid_t pid = fork();
    if (pid == 0) {
        int out = open("real/tokenizer.json", O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(out, STDOUT_FILENO);
        execlp("xz", "xz", "-dc", from, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status != 0) return false;
    char *text = NULL;
    size_t n;
    snprintf(from, sizeof from, REAL "/%s/tokenizer_config.json", name);
    snprintf(to, sizeof to, "real/tokenizer_config.json");
    assert_int_equal(oc_fs_read(&text, &n, from, 1 << 24, NULL), OC_OK);
    cli_write(to, text, n);
    free(text);
    return true;
}

static void check_texts(const char *name, const char *options, const char *key) {
    char path[512], line[512];
    snprintf(path, sizeof path, REAL "/%s/expected.json", name);
    json_t *want = load(path), *row;
    size_t i;
    write_texts(want, "text");
    snprintf(line, sizeof line, "tokenize --model real --input in.jsonl%s", options);
    json_t *got = lines_of(line);
    assert_int_equal(json_array_size(got), json_array_size(want));
    json_array_foreach(want, i, row) {
        same("ids", i, json_object_get(json_array_get(got, i), "ids"), json_object_get(row, key));
        same("decoded", i, json_object_get(json_array_get(got, i), "decoded"),
             json_object_get(row, "decoded"));
    }
    json_decref(got);
    json_decref(want);
}

static void check_chats(const char *name) {
    char path[512];
    snprintf(path, sizeof path, REAL "/%s/chat.expected.json", name);
    if (!cli_exists(path)) return;
    json_t *want = load(path), *row;
    size_t i;
    json_array_foreach(want, i, row) {
        bool prompt = json_is_true(json_object_get(row, "add_generation_prompt"));
        assert_int_equal(json_dump_file(json_object_get(row, "messages"), "m.json", 0), 0);
        json_t *got =
            lines_of(prompt ? "tokenize --model real --messages m.json --generation-prompt"
                            : "tokenize --model real --messages m.json");
        const json_t *one = json_array_get(got, 0);
        same("rendered", i, json_object_get(one, "rendered"), json_object_get(row, "rendered"));
        if (json_object_get(row, "ids"))
            same("ids", i, json_object_get(one, "ids"), json_object_get(row, "ids"));
        json_decref(got);
    }
    json_decref(want);
}

static void real_tokenizers_agree(void **state) {
    (void)state;
    static const char *const names[] = {"llama3_1", "qwen3", "sentencepiece_32k"};
    int found = 0;
    for (size_t i = 0; i < 3; i++) {
        if (!unpack(names[i])) continue;
        found++;
        check_texts(names[i], "", "ids_with_special");
        check_texts(names[i], " --no-special", "ids");
        check_chats(names[i]);
    }
    if (found == 0) skip();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_is_shown_token_by_token),
        cmocka_unit_test(texts_come_out_as_the_reference_has_them),
        cmocka_unit_test(conversations_come_out_as_the_reference_has_them),
        cmocka_unit_test(a_conversation_may_bring_tools_and_names),
        cmocka_unit_test(labels_come_out_as_training_has_them),
        cmocka_unit_test(people_see_which_text_is_trained),
        cmocka_unit_test(what_cannot_be_done_is_refused_by_name),
        cmocka_unit_test(the_hub_cache_has_tokenizers_too),
        cmocka_unit_test(the_help_teaches),
        cmocka_unit_test(real_tokenizers_agree),
    };
    return cmocka_run_group_tests(tests, cli_setup, cli_teardown);
}
