/* Rows of every form: ids and labels against the reference tokenizer and Stanford's prompts
 * (tools/make_data_expected.py), what is refused, and files as people have them. */
#include "base/json.h"
#include "base/log.h"
#include "cmocka_all.h"
#include "data/dataset.h"
#include "packed.h"
#include "text_util.h"
#include "tokenizer/tokenizer.h"

#include <ftw.h>
#include <sys/stat.h>

static bool needs_tokenizer(const char *path) {
    oc_error e;
    bool needs = false;
    assert_int_equal(oc_dataset_needs_tokenizer(path, &needs, &e), OC_OK);
    return needs;
}

#define DATA OC_TEST_DATA "/data/"

static oc_tokenizer *open_tokenizer(const char *name) {
    char path[512];
    oc_tokenizer *t = NULL;
    oc_error err;
    snprintf(path, sizeof path, DATA "%s", name);
    if (oc_tokenizer_open(&t, path, &err) != OC_OK) fail_msg("%s", err.message);
    return t;
}

/* ---- what a visit saw ---- */

enum { ROWS = 64, TOKENS = 512 };

typedef struct seen {
    size_t n;
    struct {
        char where[300], form[64];
        size_t n;
        int32_t ids[TOKENS], labels[TOKENS];
    } row[ROWS];
} seen;

static oc_status see(void *arg, const oc_row *row, oc_error *err) {
    seen *s = arg;
    (void)err;
    assert_true(s->n < ROWS && row->n <= TOKENS);
    snprintf(s->row[s->n].where, sizeof s->row->where, "%s", row->where);
    snprintf(s->row[s->n].form, sizeof s->row->form, "%s", row->form);
    s->row[s->n].n = row->n;
    for (size_t i = 0; i < row->n; i++) {
        s->row[s->n].ids[i] = row->ids[i];
        s->row[s->n].labels[i] = row->labels[i];
    }
    s->n++;
    return OC_OK;
}

static oc_status visit(seen *s, const oc_tokenizer *t, const char *path, oc_error *err) {
    const oc_dataset_spec spec = {
        .paths = &path, .n_paths = 1, .tokenizer = t, .vocab = oc_tokenizer_vocab(t)};
    s->n = 0;
    return oc_dataset_visit(&spec, see, s, err);
}

static void visit_ok(seen *s, const oc_tokenizer *t, const char *path) {
    oc_error err;
    if (visit(s, t, path, &err) != OC_OK) fail_msg("%s", err.message);
}

static void check_ints(const char *what, size_t row, const int32_t *got, size_t n,
                       const json_t *want) {
    if (n != json_array_size(want))
        fail_msg("row %zu: %zu %s, not %zu", row, n, what, json_array_size(want));
    for (size_t i = 0; i < n; i++)
        if (got[i] != json_integer_value(json_array_get(want, i)))
            fail_msg("row %zu: %s[%zu] is %d, not %lld", row, what, i, got[i],
                     (long long)json_integer_value(json_array_get(want, i)));
}

/* ---- text, prompt and completion, alpaca ---- */

static bool same_form(const json_t *a, const json_t *b) {
    static const char *const keys[] = {"text", "prompt", "instruction"};
    for (size_t i = 0; i < 3; i++)
        if (!json_object_get(a, keys[i]) != !json_object_get(b, keys[i])) return false;
    return true;
}

/* The rows from `first` on that are of one form, as a file; then what training makes of them. */
static size_t check_rows(text_dir *d, const oc_tokenizer *t, const json_t *rows, size_t first) {
    static seen s;
    packed file = {0};
    const json_t *head = json_object_get(json_array_get(rows, first), "row");
    size_t n = 0;
    for (; first + n < json_array_size(rows); n++) {
        const json_t *row = json_object_get(json_array_get(rows, first + n), "row");
        if (!same_form(row, head)) break;
        char *text = json_dumps(row, 0);
        packed_add(&file, text, strlen(text));
        packed_add(&file, "\n", 1);
        free(text);
    }
    visit_ok(&s, t, text_dir_put(d, "rows.jsonl", file.data, file.n));
    assert_int_equal(s.n, n);
    for (size_t i = 0; i < n; i++) {
        const json_t *want = json_array_get(rows, first + i);
        check_ints("ids", first + i, s.row[i].ids, s.row[i].n, json_object_get(want, "ids"));
        check_ints("labels", first + i, s.row[i].labels, s.row[i].n,
                   json_object_get(want, "labels"));
    }
    packed_release(&file);
    return n;
}

static void encodes_rows_as_the_reference_does(void **state) {
    (void)state;
    json_t *all = NULL, *one;
    size_t i;
    assert_int_equal(oc_json_load(&all, DATA "rows.json", OC_JSON_ALLOW_NUL, NULL), OC_OK);
    json_array_foreach(all, i, one) {
        text_dir d;
        text_dir_init(&d);
        oc_tokenizer *t = open_tokenizer(json_string_value(json_object_get(one, "tokenizer")));
        const json_t *rows = json_object_get(one, "rows");
        int forms = 0;
        for (size_t at = 0; at < json_array_size(rows); forms++)
            at += check_rows(&d, t, rows, at);
        assert_int_equal(forms, 3);
        oc_tokenizer_close(t);
        text_dir_release(&d);
    }
    assert_int_equal(i, 2);
    json_decref(all);
}

/* ---- conversations ---- */

/* The trained text of the only row of a file. */
static const char *trained_text(const seen *s, const oc_tokenizer *t) {
    static char out[2048];
    int32_t ids[TOKENS];
    size_t n = 0, bytes;
    char *text;
    assert_int_equal(s->n, 1);
    for (size_t i = 0; i < s->row[0].n; i++)
        if (s->row[0].labels[i] != -100) ids[n++] = s->row[0].labels[i];
    assert_int_equal(oc_tokenizer_decode(t, ids, n, false, &text, &bytes, NULL), OC_OK);
    snprintf(out, sizeof out, "%s", text);
    free(text);
    return out;
}

static const char *all_text(const seen *s, const oc_tokenizer *t) {
    static char out[2048];
    size_t bytes;
    char *text;
    assert_int_equal(oc_tokenizer_decode(t, s->row[0].ids, s->row[0].n, false, &text, &bytes, NULL),
                     OC_OK);
    snprintf(out, sizeof out, "%s", text);
    free(text);
    return out;
}

#define MESSAGES                                                                                   \
    "{\"messages\":[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":\"U\"}" \
    ",{\"role\":\"assistant\",\"content\":\"A\"},{\"role\":\"user\",\"content\":\"V\"},"           \
    "{\"role\":\"assistant\",\"content\":\"B\"}]}"

/* Forms that say the same, in the chatml style of the fixture. */
static void conversations_of_all_forms_are_one(void **state) {
    (void)state;
    static const char *const rows[] = {
        MESSAGES,
        "{\"id\":7,\"system\":\"S\",\"conversations\":[{\"from\":\"human\",\"value\":\"U\"},"
        "{\"from\":\"gpt\",\"value\":\"A\"},{\"from\":\"user\",\"value\":\"V\"},"
        "{\"from\":\"chatgpt\",\"value\":\"B\"}]}",
        "{\"conversations\":[{\"from\":\"system\",\"value\":\"S\"},"
        "{\"from\":\"human\",\"value\":\"U\"},{\"from\":\"assistant\",\"value\":\"A\"},"
        "{\"from\":\"human\",\"value\":\"V\"},{\"from\":\"model\",\"value\":\"B\"}],\"system\":"
        "\"\"}",
        "{\"prompt\":[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":\"U\"}"
        ","
        "{\"role\":\"assistant\",\"content\":\"A\"},{\"role\":\"user\",\"content\":\"V\"}],"
        "\"completion\":[{\"role\":\"assistant\",\"content\":\"B\"}]}",
    };
    static seen s;
    text_dir d;
    text_dir_init(&d);
    oc_tokenizer *t = open_tokenizer("bytelevel");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        visit_ok(&s, t, text_dir_put(&d, "x.jsonl", rows[i], strlen(rows[i])));
        assert_string_equal(all_text(&s, t),
                            "<|im_start|>system\nS<|im_end|>\n\n<|im_start|>user\nU<|im_end|>\n\n"
                            "<|im_start|>assistant\nA<|im_end|>\n<|im_start|>user\nV<|im_end|>\n\n"
                            "<|im_start|>assistant\nB<|im_end|>\n");
        assert_string_equal(trained_text(&s, t),
                            i == 3 ? "B<|im_end|>\n" : "A<|im_end|>\nB<|im_end|>\n");
        d.n = 0;
    }
    d.n = 1;
    oc_tokenizer_close(t);
    text_dir_release(&d);
}

/* The fixture's tokenizer with another template. */
static oc_tokenizer *with_template(const char *template) {
    json_t *root = NULL;
    oc_tokenizer *t = NULL;
    oc_error err;
    assert_int_equal(oc_json_load(&root, DATA "bytelevel/tokenizer.json", OC_JSON_ALLOW_NUL, NULL),
                     OC_OK);
    json_t *config = json_pack("{s:s, s:s}", "eos_token", "<|im_end|>", "chat_template", template);
    char *a = json_dumps(root, 0), *b = json_dumps(config, 0);
    if (oc_tokenizer_parse(&t, a, strlen(a), b, strlen(b), "x", &err) != OC_OK)
        fail_msg("%s", err.message);
    free(a);
    free(b);
    json_decref(config);
    json_decref(root);
    return t;
}

/* Tools as a list or as its JSON text, calls, and names for the template. */
static void passes_tools_and_names_on(void **state) {
    (void)state;
    static const char template[] =
        "{{ mood }}{% if tools %}{{ tools[0].name }}{% endif %}"
        "{% for m in messages %}<{{ m.role }}{{ m.content }}"
        "{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments.x }}"
        "{% endfor %}>{% endfor %}";
    static const char *const rows[] = {
        "{\"tools\":[{\"name\":\"f\"}],\"chat_template_kwargs\":{\"mood\":\"good\"},"
        "\"messages\":[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\",\"content\":"
        "\"\",\"tool_calls\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":"
        "{\"x\":3}}}]},{\"role\":\"tool\",\"content\":\"r\"},"
        "{\"role\":\"assistant\",\"content\":\"a\"}]}",
        "{\"tools\":\"[{\\\"name\\\":\\\"f\\\"}]\",\"chat_template_kwargs\":{\"mood\":\"good\"},"
        "\"conversations\":[{\"from\":\"human\",\"value\":\"u\"},{\"from\":\"function_call\","
        "\"value\":\"{\\\"name\\\":\\\"f\\\",\\\"arguments\\\":{\\\"x\\\":3}}\"},"
        "{\"from\":\"observation\",\"value\":\"r\"},{\"from\":\"gpt\",\"value\":\"a\"}]}",
        "{\"tools\":[{\"name\":\"f\"}],\"chat_template_kwargs\":{\"mood\":\"good\"},"
        "\"conversations\":[{\"from\":\"human\",\"value\":\"u\"},{\"from\":\"function_call\","
        "\"value\":\"[{\\\"name\\\":\\\"f\\\",\\\"arguments\\\":{\\\"x\\\":3}}]\"},"
        "{\"from\":\"tool\",\"value\":\"r\"},{\"from\":\"gpt\",\"value\":\"a\"}]}",
    };
    static seen s;
    text_dir d;
    text_dir_init(&d);
    oc_tokenizer *t = with_template(template);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        visit_ok(&s, t, text_dir_put(&d, "x.jsonl", rows[i], strlen(rows[i])));
        assert_string_equal(all_text(&s, t), "goodf<useru><assistantf3><toolr><assistanta>");
        assert_string_equal(trained_text(&s, t), "<assistantf3><assistanta>");
        d.n = 0;
    }
    d.n = 1;
    oc_tokenizer_close(t);
    text_dir_release(&d);
}

/* null, as a value or as a text, is no tools. */
static void tools_of_null_are_none(void **state) {
    (void)state;
    static const char template[] = "{{ tools is none }}{% for m in messages %}{{ m.content }}"
                                   "{% endfor %}";
    static const char *const tools[] = {"null", "\"null\"", "\" null\\n\"", "\"\""};
    static seen s;
    text_dir d;
    char row[256];
    text_dir_init(&d);
    oc_tokenizer *t = with_template(template);
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
        snprintf(row, sizeof row,
                 "{\"tools\":%s,\"messages\":[{\"role\":\"assistant\",\"content\":\"a\"}]}",
                 tools[i]);
        visit_ok(&s, t, text_dir_put(&d, "x.jsonl", row, strlen(row)));
        assert_string_equal(all_text(&s, t), "Truea");
        d.n = 0;
    }
    d.n = 1;
    oc_tokenizer_close(t);
    text_dir_release(&d);
}

/* A turn that is weighed 0 is context. */
static void a_weight_of_zero_trains_nothing(void **state) {
    (void)state;
    static const char row[] = "{\"conversations\":[{\"from\":\"human\",\"value\":\"u\"},"
                              "{\"from\":\"gpt\",\"value\":\"a\",\"weight\":0},"
                              "{\"from\":\"gpt\",\"value\":\"b\",\"weight\":1}]}";
    static seen s;
    text_dir d;
    text_dir_init(&d);
    oc_tokenizer *t = open_tokenizer("bytelevel");
    visit_ok(&s, t, text_dir_put(&d, "x.jsonl", row, strlen(row)));
    assert_string_equal(trained_text(&s, t), "b<|im_end|>\n");
    oc_tokenizer_close(t);
    text_dir_release(&d);
}

/* Documents of conversations keep to themselves in a packed sequence. */
static void packed_conversations_do_not_meet(void **state) {
    (void)state;
    enum { SEQ = 512 };
    static const char file[] = MESSAGES "\n" MESSAGES "\n" MESSAGES "\n";
    static int32_t tokens[SEQ], labels[SEQ], positions[SEQ], start[SEQ];
    static seen s;
    text_dir d;
    oc_dataset *data;
    oc_error err;
    text_dir_init(&d);
    oc_tokenizer *t = open_tokenizer("bytelevel");
    const char *path = text_dir_put(&d, "x.jsonl", file, strlen(file));
    visit_ok(&s, t, path);
    size_t n = s.row[0].n;
    assert_true(3 * n <= SEQ);
    const oc_dataset_spec spec = {.paths = &path,
                                  .n_paths = 1,
                                  .tokenizer = t,
                                  .vocab = oc_tokenizer_vocab(t),
                                  .seq = SEQ,
                                  .packing = true};
    if (oc_dataset_open(&data, &spec, &err) != OC_OK) fail_msg("%s", err.message);
    assert_int_equal(oc_dataset_count(data), 1);
    assert_int_equal(oc_dataset_read(data, 0, tokens, labels, positions, start, &err), OC_OK);
    for (size_t i = 0; i < 3 * n; i++) {
        size_t at = i % n;
        assert_int_equal(tokens[i], s.row[0].ids[at]);
        assert_int_equal(start[i], i - at);
        assert_int_equal(positions[i], at);
        assert_int_equal(labels[i], at + 1 < n ? s.row[0].labels[at + 1] : -100);
    }
    assert_true(oc_dataset_host_bytes(NULL) < 1024);
    oc_dataset_close(data);
    oc_tokenizer_close(t);
    text_dir_release(&d);
}

/* Rows like all others without a token to train: empty, or nothing that an assistant wrote. */
static void conversations_that_train_nothing_are_dropped(void **state) {
    (void)state;
    static const struct {
        const char *idle, *more;
        uint64_t dropped;
    } files[] = {
        {"{\"messages\":[]}\n{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}\n"
         "{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\",\"weight\":0}]}\n",
         MESSAGES "\n", 3},
        {"{\"conversations\":[]}\n{\"system\":\"s\",\"conversations\":[]}\n"
         "{\"conversations\":[{\"from\":\"human\",\"value\":\"a\"}]}\n",
         "{\"conversations\":[{\"from\":\"gpt\",\"value\":\"a\"}]}\n", 3},
        {"{\"prompt\":[],\"completion\":[]}\n"
         "{\"prompt\":[{\"role\":\"assistant\",\"content\":\"a\"}],"
         "\"completion\":[{\"role\":\"user\",\"content\":\"b\"}]}\n",
         "{\"prompt\":[],\"completion\":[{\"role\":\"assistant\",\"content\":\"a\"}]}\n", 2},
    };
    /* as some do, it cannot write an empty conversation, nor a system's words alone */
    oc_tokenizer *t = with_template("{% if messages[0].role == 'system' %}"
                                    "{{ messages[1].role }}{% endif %}{{ messages[0].role }}"
                                    "{% for m in messages %}|{{ m.content }}{% endfor %}");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        text_dir d;
        oc_dataset *data;
        oc_error err;
        char text[1024];
        text_dir_init(&d);
        snprintf(text, sizeof text, "%s%s", files[i].idle, files[i].more);
        const char *paths[] = {text_dir_put(&d, "x.jsonl", text, strlen(text)),
                               text_dir_put(&d, "y.jsonl", files[i].idle, strlen(files[i].idle))};
        oc_dataset_spec spec = {.paths = paths,
                                .n_paths = 1,
                                .tokenizer = t,
                                .vocab = oc_tokenizer_vocab(t),
                                .seq = 64,
                                .packing = true};
        if (oc_dataset_open(&data, &spec, &err) != OC_OK) fail_msg("%zu: %s", i, err.message);
        const oc_dataset_report *r = oc_dataset_get_report(data);
        assert_int_equal(r->dropped, files[i].dropped);
        assert_int_equal(r->packed, 1);
        assert_int_equal(r->rows, files[i].dropped + 1);
        oc_dataset_close(data);
        spec.paths = paths + 1;
        assert_int_equal(oc_dataset_open(&data, &spec, &err), OC_E_INVALID);
        assert_non_null(strstr(err.message, "y.jsonl: none of its"));
        assert_non_null(strstr(err.message, "text of an assistant's message"));
        text_dir_release(&d);
    }
    oc_tokenizer_close(t);
}

/* ---- refusals ---- */

#define TURN(from) "{\"conversations\":[{\"from\":\"" from "\",\"value\":\"a\"}]}"

static const struct {
    const char *name, *text, *words;
} refused[] = {
    {"x.jsonl", "{\"prompt\":\"a\"}", "x.jsonl:1: the row has \"prompt\" but no \"completion\""},
    {"x.jsonl", "{\"completion\":\"a\"}", "has \"completion\" but no \"prompt\""},
    {"x.jsonl", "{\"instruction\":\"a\"}", "has \"instruction\" but no \"output\""},
    {"x.jsonl", "{\"output\":\"a\",\"chosen\":1}",
     "no known form|Its keys: \"output\", \"chosen\""},
    {"x.jsonl", "{}", "no known form|Its keys: none"},
    {"x.jsonl", "{\"messages\":[],\"labels\":[1]}", "\"labels\" need \"input_ids\", not messages"},
    {"x.jsonl", "{\"prompt\":\"a\",\"completion\":[]}",
     "\"prompt\" is a string and \"completion\" is an array"},
    {"x.jsonl", "{\"prompt\":1,\"completion\":2}", "\"prompt\" is an integer"},
    {"x.jsonl",
     "{\"prompt\":[{\"role\":\"user\",\"content\":\"a\"}],\"completion\":[{\"role\":1}]}",
     "x.jsonl:1: completion[0].role is an integer"},
    {"x.jsonl", "{\"messages\":{}}", "x.jsonl:1: \"messages\" is an object, not a list"},
    {"x.jsonl", "{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\"}],\"tools\":{}}",
     "x.jsonl:1: \"tools\" is an object, not a list"},
    {"x.jsonl", "{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\"}],\"tools\":\"[\"}",
     "x.jsonl:1: \"tools\" is a string, and not JSON"},
    {"x.jsonl", "{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\"}],\"tools\":\"{}\"}",
     "x.jsonl:1: \"tools\" is an object, not a list"},
    {"x.jsonl", "{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\"}],\"tools\":\"3\"}",
     "x.jsonl:1: \"tools\" is an integer, not a list"},
    {"x.jsonl", "{\"messages\":[],\"tools\":{}}", "x.jsonl:1: \"tools\" is an object, not a list"},
    {"x.jsonl", "{\"messages\":[{\"role\":3,\"content\":\"a\"}]}",
     "x.jsonl:1: messages[0].role is an integer"},
    {"x.jsonl",
     "{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\"}],\"chat_template_kwargs\":1}",
     "x.jsonl:1: \"chat_template_kwargs\" is an integer"},
    {"x.jsonl", "{\"conversations\":{}}", "x.jsonl:1: \"conversations\" is an object"},
    {"x.jsonl", "{\"conversations\":[1]}", "conversations[0] is not {\"from\""},
    {"x.jsonl", "{\"conversations\":[{\"from\":\"gpt\",\"value\":1}]}", "conversations[0] is not"},
    {"x.jsonl", TURN("bing"), "conversations[0] is from \"bing\"; known are human"},
    {"x.jsonl", TURN("function_call"), "conversations[0] is a function_call whose value"},
    {"x.jsonl", "{\"conversations\":[{\"from\":\"function_call\",\"value\":\"[]\"}]}",
     "conversations[0] is a function_call whose value"},
    {"x.jsonl",
     "{\"conversations\":[{\"from\":\"function_call\",\"value\":"
     "\"{\\\"name\\\":\\\"f\\\",\\\"arguments\\\":{}}\"}]}",
     "x.jsonl:1: the chat template writes nothing of messages[0].tool_calls[0] (f)"},
    {"x.jsonl", "{\"system\":\"s\",\"conversations\":[{\"from\":\"system\",\"value\":\"a\"}]}",
     "keep one"},
    {"x.jsonl", "{\"system\":1,\"conversations\":[{\"from\":\"gpt\",\"value\":\"a\"}]}",
     "x.jsonl:1: \"system\" is an integer"},
    {"x.jsonl", "{\"instruction\":1,\"output\":\"a\"}", "x.jsonl:1: \"instruction\" is an integer"},
    {"x.jsonl", "{\"instruction\":\"a\",\"output\":\"a\",\"input\":[]}", "\"input\" is an array"},
    {"x.jsonl", "{\"instruction\":\"a\",\"output\":[]}", "\"output\" is an array"},
    {"x.jsonl", "{\"instruction\":\"a\",\"output\":\"b\",\"history\":[[\"q\",\"a\"]]}",
     "x.jsonl:1: rows of alpaca (instruction and output) have no place for \"history\""},
    {"x.jsonl", "{\"instruction\":\"a\",\"output\":\"b\",\"system\":\"s\"}",
     "have no place for \"system\""},
    {"x.jsonl", "{\"text\":\"a\"}\n{\"prompt\":\"a\",\"completion\":\"b\"}",
     "x.jsonl:2: this row is prompt and completion but the file began with text"},
    {"x.json", "[{\"text\":\"a\"},\n\n{\"messages\":[]}]",
     "x.json: row 2: this row is messages but the file began with text"},
    {"x.json", "[{\"text\":\"a\"},\n\n{\"input_ids\":[1,2]}]",
     "x.json: row 2: this row is input_ids but the file began with text"},
    {"x.json", "[{\"text\":\"a\"},\n[1]]", "x.json: row 2: the row is an array, not an object"},
    {"x.json", "[{\"text\":\"a\"},\n\n {\"text\" 1}]", "x.json:3:|not valid JSON"},
    {"x.json", "[]", "x.json is empty: it has no rows"},
    {"x.json", "{\n\"text\": \"a\"}",
     "a .json file is one array of rows or, as .jsonl, a row a line: |x.json:1:"},
    {"x.json", "", "x.json is empty"},
    {"x.jsonl", "[{\"text\":\"a\"}]", "x.jsonl:1: the row is an array, not an object"},
};

static void names_what_is_wrong_and_where(void **state) {
    (void)state;
    static seen s;
    oc_tokenizer *t = open_tokenizer("bytelevel");
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        text_dir d;
        oc_error err = {OC_OK, ""};
        char words[256], *save = NULL;
        text_dir_init(&d);
        const char *path =
            text_dir_put(&d, refused[i].name, refused[i].text, strlen(refused[i].text));
        oc_status got = visit(&s, t, path, &err);
        if (got == OC_OK) fail_msg("%zu: %s is not refused", i, refused[i].text);
        snprintf(words, sizeof words, "%s", refused[i].words);
        for (char *w = strtok_r(words, "|", &save); w; w = strtok_r(NULL, "|", &save))
            if (!strstr(err.message, w))
                fail_msg("%zu: \"%s\" does not say \"%s\"", i, err.message, w);
        text_dir_release(&d);
    }
    oc_tokenizer_close(t);
}

static void needs_a_tokenizer_and_a_template_for_what_needs_one(void **state) {
    (void)state;
    static const char text[] = "{\"text\":\"abc\"}", talk[] = MESSAGES,
                      ids[] = "{\"input_ids\":[1,2]}";
    text_dir d;
    oc_error err;
    static seen s;
    text_dir_init(&d);
    oc_tokenizer *bytes;
    assert_int_equal(oc_tokenizer_bytes(&bytes, NULL), OC_OK);
    const char *paths[] = {text_dir_put(&d, "a.jsonl", text, strlen(text)),
                           text_dir_put(&d, "b.jsonl", talk, strlen(talk)),
                           text_dir_put(&d, "c.jsonl", ids, strlen(ids)),
                           text_dir_put(&d, "d.txt", "x", 1)};
    for (int i = 0; i < 4; i++) {
        const oc_dataset_spec spec = {.paths = paths + i, .n_paths = 1, .vocab = 500};
        s.n = 0;
        assert_int_equal(needs_tokenizer(paths[i]), i != 2);
        assert_int_equal(oc_dataset_visit(&spec, see, &s, &err), i == 2 ? OC_OK : OC_E_INVALID);
        if (i != 2) assert_non_null(strstr(err.message, "there is no tokenizer"));
    }
    assert_int_equal(visit(&s, bytes, paths[1], &err), OC_E_NOTFOUND);
    assert_non_null(strstr(err.message, "b.jsonl:1: the tokenizer has no chat template"));
    assert_false(needs_tokenizer("/nowhere/a.jsonl"));
    assert_false(needs_tokenizer("a.csv"));
    oc_tokenizer_close(bytes);
    text_dir_release(&d);
}

/* ---- files ---- */

static void put(const char *dir, const char *name, const void *data, size_t n) {
    char path[400];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static char logged[2048];

static void keep_log(void *arg, oc_log_level level, const char *line) {
    (void)arg;
    (void)level;
    snprintf(logged, sizeof logged, "%s", line);
}

#define ROW(text) "{\"text\":\"" text "\"}\n"
enum { FILES = 14 };

/* In byte order of their paths, each packed as its name says or does not. */
static void make_folder(const char *dir) {
    static const char *const names[FILES] = {
        ".hidden.jsonl",  "README.md",   "Z.jsonl", "b.json",          "a/x.txt",
        "a/x/y.jsonl.gz", "a-b.txt.zst", "c.json",  "plain.jsonl",     "d.txt.gz",
        "n.csv",          "o.bin",       "p.bin",   ".git/config.json"};
    static const char *const data[FILES] = {
        ROW("hidden"), "x",        ROW("Z"), "[" ROW("b1") "," ROW("b2") "]",
        "ax",          ROW("axy"), "ab",     ROW("c"),
        ROW("packed"), "d",        "x",      "x",
        "x",           "[]"};
    char path[400];
    static const char *const folders[] = {"a", "a/x", ".git", "empty"};
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, folders[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    for (int i = 0; i < FILES; i++) {
        packed p = {0};
        if (strstr(names[i], ".gz") || strcmp(names[i], "plain.jsonl") == 0)
            packed_gzip(&p, data[i], strlen(data[i]));
        else if (strstr(names[i], ".zst"))
            packed_zstd(&p, data[i], strlen(data[i]));
        else
            packed_add(&p, data[i], strlen(data[i]));
        put(dir, names[i], p.data, p.n);
        packed_release(&p);
    }
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void remove_folder(const char *dir) {
    (void)nftw(dir, remove_one, 64, FTW_DEPTH | FTW_PHYS);
}

static void reads_a_directory_in_the_order_of_its_paths(void **state) {
    (void)state;
    static const char *const want[] = {"Z", "ab", "ax", "axy", "b1", "b2", "c", "d", "packed"};
    enum { WANT = sizeof want / sizeof *want };
    static seen s;
    text_dir d;
    text_dir_init(&d);
    oc_tokenizer *t;
    assert_int_equal(oc_tokenizer_bytes(&t, NULL), OC_OK);
    make_folder(d.dir);
    oc_log_set_sink(keep_log, NULL);
    visit_ok(&s, t, d.dir);
    oc_log_set_sink(NULL, NULL);
    assert_int_equal(s.n, WANT);
    for (size_t i = 0; i < WANT; i++) {
        size_t n = strlen(want[i]);
        assert_int_equal(s.row[i].n, n + 2);
        for (size_t k = 0; k < n; k++)
            assert_int_equal(s.row[i].ids[k + 1], 3 + (unsigned char)want[i][k]);
    }
    assert_non_null(strstr(s.row[3].where, "/a/x/y.jsonl.gz:1"));
    assert_non_null(strstr(s.row[5].where, "/b.json: row 2"));
    assert_non_null(strstr(logged, "4 other files are left out"));
    assert_non_null(strstr(logged, "..."));
    oc_tokenizer_close(t);
    remove_folder(d.dir);
}

static void refuses_a_directory_without_data(void **state) {
    (void)state;
    text_dir d;
    char path[300];
    oc_error err;
    oc_data_files files = {.n = 0};
    text_dir_init(&d);
    const char *dir = d.dir;
    assert_int_equal(oc_data_files_find(&files, &dir, 1, NULL, &err), OC_E_INVALID);
    assert_non_null(strstr(err.message, "holds no data file"));
    put(d.dir, "a.parquet", "x", 1);
    assert_int_equal(oc_data_files_find(&files, &dir, 1, NULL, &err), OC_E_INVALID);
    assert_non_null(strstr(err.message, "a.parquet"));
    snprintf(path, sizeof path, "%s/loop", d.dir);
    put(d.dir, "a.txt", "x", 1);
    assert_int_equal(symlink(d.dir, path), 0);
    assert_int_equal(oc_data_files_find(&files, &dir, 1, NULL, &err), OC_E_INVALID);
    assert_non_null(strstr(err.message, "loop leads back"));
    unlink(path);
    assert_int_equal(symlink("/nowhere/a.txt", path), 0);
    assert_int_equal(oc_data_files_find(&files, &dir, 1, NULL, &err), OC_E_IO);
    assert_non_null(strstr(err.message, "/loop"));
    assert_null(files.paths);
    remove_folder(d.dir);
}

static void refuses_directories_without_end(void **state) {
    (void)state;
    text_dir d;
    char path[300];
    oc_error err;
    oc_data_files files = {.n = 0};
    text_dir_init(&d);
    const char *dir = d.dir;
    size_t n = (size_t)snprintf(path, sizeof path, "%s", d.dir);
    for (int i = 0; i < 40; i++) {
        n += (size_t)snprintf(path + n, sizeof path - n, "/x");
        assert_int_equal(mkdir(path, 0700), 0);
    }
    assert_int_equal(oc_data_files_find(&files, &dir, 1, NULL, &err), OC_E_INVALID);
    assert_non_null(strstr(err.message, "nested deeper"));
    remove_folder(d.dir);
}

/* Line numbers are those of what a compressed file holds. */
static void a_compressed_file_has_lines_too(void **state) {
    (void)state;
    static seen s;
    oc_error err;
    text_dir d;
    packed p = {0};
    text_dir_init(&d);
    oc_tokenizer *t;
    assert_int_equal(oc_tokenizer_bytes(&t, NULL), OC_OK);
    packed_zstd(&p, ROW("a") "\n" ROW("b"), strlen(ROW("a") "\n" ROW("b")));
    packed_zstd(&p, "{\"text\":3}", 10);
    const char *path = text_dir_put(&d, "x.jsonl.zst", p.data, p.n);
    assert_int_equal(visit(&s, t, path, &err), OC_E_FORMAT);
    assert_int_equal(s.n, 2);
    assert_non_null(strstr(s.row[1].where, "x.jsonl.zst:3"));
    assert_non_null(strstr(err.message, "x.jsonl.zst:4: \"text\" is an integer"));
    path = text_dir_put(&d, "y.jsonl.zst", p.data, p.n - 9);
    assert_int_equal(visit(&s, t, path, &err), OC_E_FORMAT);
    assert_non_null(strstr(err.message, "y.jsonl.zst breaks off"));
    packed_release(&p);
    oc_tokenizer_close(t);
    text_dir_release(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encodes_rows_as_the_reference_does),
        cmocka_unit_test(conversations_of_all_forms_are_one),
        cmocka_unit_test(passes_tools_and_names_on),
        cmocka_unit_test(tools_of_null_are_none),
        cmocka_unit_test(a_weight_of_zero_trains_nothing),
        cmocka_unit_test(packed_conversations_do_not_meet),
        cmocka_unit_test(conversations_that_train_nothing_are_dropped),
        cmocka_unit_test(names_what_is_wrong_and_where),
        cmocka_unit_test(needs_a_tokenizer_and_a_template_for_what_needs_one),
        cmocka_unit_test(reads_a_directory_in_the_order_of_its_paths),
        cmocka_unit_test(refuses_a_directory_without_data),
        cmocka_unit_test(refuses_directories_without_end),
        cmocka_unit_test(a_compressed_file_has_lines_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
