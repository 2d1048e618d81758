/* Conversations against the reference library (tools/make_data_expected.py): rendered text, ids,
 * and the mask of assistant tokens. A template without {% generation %} marks must be understood as
 * its twin with them. */
#include "base/json.h"
#include "cmocka_all.h"
#include "data/chat.h"

#include <string.h>

#define DATA OC_TEST_DATA "/data/"

static json_t *load(const char *path) {
    json_t *v = NULL;
    oc_error err;
    if (oc_json_load(&v, path, OC_JSON_ALLOW_NUL, &err) != OC_OK) fail_msg("%s", err.message);
    return v;
}

static const char *text_of(const json_t *object, const char *key) {
    const char *s = json_string_value(json_object_get(object, key));
    if (s == NULL) fail_msg("no %s", key);
    return s;
}

/* A fixture's tokenizer with this chat template; NULL: none. */
static oc_tokenizer *open_with(const char *name, json_t *names, const char *template) {
    char path[512];
    oc_error err;
    oc_tokenizer *t = NULL;
    snprintf(path, sizeof path, DATA "%s/tokenizer.json", name);
    json_t *root = load(path), *config = names ? json_copy(names) : json_object();
    if (template != NULL) json_object_set_new(config, "chat_template", json_string(template));
    char *a = json_dumps(root, 0), *b = json_dumps(config, 0);
    if (oc_tokenizer_parse(&t, a, strlen(a), b, strlen(b), name, &err) != OC_OK)
        fail_msg("%s", err.message);
    free(a);
    free(b);
    json_decref(config);
    json_decref(root);
    return t;
}

static oc_chat *open_chat(const oc_tokenizer *t) {
    oc_chat *c = NULL;
    oc_error err;
    if (oc_chat_open(&c, t, &err) != OC_OK) fail_msg("%s", err.message);
    return c;
}

/* ---- against the reference ---- */

static void check_ids(const char *title, const oc_tokens *got, const json_t *want) {
    if (got->n != json_array_size(want))
        fail_msg("%s: %zu ids, not %zu", title, got->n, json_array_size(want));
    for (size_t i = 0; i < got->n; i++)
        if (got->ids[i] != json_integer_value(json_array_get(want, i)))
            fail_msg("%s: id %zu is %d", title, i, got->ids[i]);
}

static void check_mask(const char *title, const oc_chat_text *text, const oc_tokens *tokens,
                       const json_t *mask) {
    int32_t labels[1024];
    assert_true(tokens->n <= 1024);
    oc_chat_label(text, tokens, labels);
    for (size_t i = 0; i < tokens->n; i++) {
        bool trained = json_integer_value(json_array_get(mask, i)) == 1;
        if (labels[i] != (trained ? tokens->ids[i] : -100))
            fail_msg("%s: token %zu (%d) is %strained", title, i, tokens->ids[i],
                     trained ? "not " : "");
    }
}

static void check_case(const oc_tokenizer *t, const oc_chat *c, const json_t *want) {
    const char *title = text_of(want, "title"), *rendered = text_of(want, "rendered");
    oc_conversation x = {.messages = json_object_get(want, "messages"),
                         .tools = json_object_get(want, "tools")};
    oc_chat_text text;
    oc_tokens tokens = {0};
    oc_rendered prompted;
    oc_error err;
    assert_int_equal(oc_chat_check(x.messages, "messages", &err), OC_OK);
    if (oc_chat_mark(c, &x, 0, &text, &err) != OC_OK) fail_msg("%s: %s", title, err.message);
    if (text.rendered.n != strlen(rendered) || strcmp(text.rendered.text, rendered) != 0)
        fail_msg("%s:\n%s\nnot\n%s", title, text.rendered.text, rendered);
    assert_int_equal(
        oc_tokenizer_encode(t, rendered, strlen(rendered), OC_SPECIAL_NONE, &tokens, &err), OC_OK);
    check_ids(title, &tokens, json_object_get(want, "ids"));
    check_mask(title, &text, &tokens, json_object_get(want, "mask"));
    if (oc_chat_render(c, &x, true, &prompted, &err) != OC_OK) fail_msg("%s", err.message);
    assert_string_equal(prompted.text, text_of(want, "prompted"));
    oc_rendered_free(&prompted);
    oc_tokens_free(&tokens);
    oc_chat_text_free(&text);
}

static void check_template(const char *key) {
    json_t *all = load(DATA "chat.json"), *style, *want;
    size_t i, k;
    json_array_foreach(all, i, style) {
        oc_tokenizer *t = open_with(text_of(style, "tokenizer"), json_object_get(style, "names"),
                                    text_of(style, key));
        oc_chat *c = open_chat(t);
        json_array_foreach(json_object_get(style, "cases"), k, want) { check_case(t, c, want); }
        oc_chat_close(c);
        oc_tokenizer_close(t);
    }
    assert_int_equal(i, 5);
    json_decref(all);
}

static void marked_templates_train_what_the_reference_does(void **state) {
    (void)state;
    check_template("marked");
}

static void templates_without_marks_train_the_same(void **state) {
    (void)state;
    check_template("unmarked");
}

/* ---- by hand ---- */

#define HEADERS                                                                                    \
    "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"                          \
    "{% if add_generation_prompt %}[assistant] {% endif %}"

/* The trained text of a conversation, spans joined by '|'; or the error's message. */
static const char *trained(const char *template, const char *messages, size_t first) {
    static char out[1024];
    json_t *names = json_pack("{s:s}", "bos_token", "<|im_start|>");
    oc_tokenizer *t = open_with("bytelevel", names, template);
    oc_chat *c = open_chat(t);
    oc_error err = {OC_OK, ""};
    oc_conversation x = {.messages = json_loads(messages, 0, NULL)};
    assert_non_null(x.messages);
    oc_chat_text text;
    size_t n = 0;
    out[0] = 0;
    oc_status s = oc_chat_check(x.messages, "messages", &err);
    if (s == OC_OK) s = oc_chat_mark(c, &x, first, &text, &err);
    for (size_t i = 0; s == OC_OK && i < text.n_trained; i++)
        n += (size_t)snprintf(out + n, sizeof out - n, "%s%.*s", i > 0 ? "|" : "",
                              (int)(text.trained[i].end - text.trained[i].begin),
                              text.rendered.text + text.trained[i].begin);
    if (s == OC_OK)
        oc_chat_text_free(&text);
    else
        snprintf(out, sizeof out, "%s", err.message);
    json_decref(x.messages);
    json_decref(names);
    oc_chat_close(c);
    oc_tokenizer_close(t);
    return out;
}

#define U(text) "{\"role\":\"user\",\"content\":\"" text "\"}"
#define A(text) "{\"role\":\"assistant\",\"content\":\"" text "\"}"
#define W(text, w) "{\"role\":\"assistant\",\"content\":\"" text "\",\"weight\":" w "}"

static void trains_answers_from_the_first_wanted_on(void **state) {
    (void)state;
    static const char four[] = "[" U("a") "," A("b") "," U("c") "," A("d") "]";
    assert_string_equal(trained(HEADERS, four, 0), "b\n|d\n");
    assert_string_equal(trained(HEADERS, four, 2), "d\n");
    /* the header is cut where the answer stands first too, where nothing comes before it */
    assert_string_equal(trained(HEADERS, "[" A("b") "]", 0), "b\n");
    /* two in a row touch, but for the second's header */
    assert_string_equal(trained(HEADERS, "[" U("a") "," A("b") "," A("c") "]", 0), "b\n|c\n");
    assert_string_equal(trained(HEADERS, "[" U("a") "," W("b", "0") "," W("c", "1") "]", 0), "c\n");
    assert_string_equal(trained(HEADERS, "[" U("a") "," W("b", "0.0") "]", 0), "");
    assert_string_equal(trained(HEADERS, "[" U("a") "]", 0), "");
    assert_string_equal(trained(HEADERS, "[" A("a") "," U("b") "]", 1), "");
    assert_non_null(strstr(trained(HEADERS, "[" U("a") "," W("b", "0.5") "]", 0),
                           "messages[1].weight must be 0"));
    assert_non_null(strstr(trained(HEADERS, "[" U("a") "," W("b", "\"1\"") "]", 0),
                           "messages[1].weight must be 0"));
}

static void marks_obey_weights_and_the_first_wanted(void **state) {
    (void)state;
    static const char template[] =
        "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}"
        "{% else %}<{% generation %}{{ m.content }}>{% endgeneration %}{% endif %}{% endfor %}";
    assert_string_equal(trained(template, "[" A("a") "," U("b") "," A("c") "," W("d", "0") "]", 0),
                        "a>|c>");
    assert_string_equal(trained(template, "[" A("a") "," U("b") "," A("c") "]", 1), "c>");
    assert_string_equal(trained(template, "[" U("a") "]", 0), "");
    /* the template's word counts, whatever it calls the role */
    assert_string_equal(trained(template, "[{\"role\":\"model\",\"content\":\"a\"}]", 0), "a>");
    assert_non_null(strstr(trained("{% for m in messages %}{% if false %}{% generation %}x"
                                   "{% endgeneration %}{% endif %}{{ m.content }}{% endfor %}",
                                   "[" A("a") "]", 0),
                           "hold nothing of this conversation"));
}

/* What stands where no answer is asked for, eos say, may begin as the header does; behind the last
 * answer it is trained, as TRL's copies of such templates have it. */
static void cuts_headers_that_begin_like_what_else_ends_a_text(void **state) {
    (void)state;
    static const char after[] =
        "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>\n{% else %}<|im_end|>{% endif %}";
    static const char thinks[] =
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|><think>{% else %}<|im_end|>{% endif %}";
    static const char inside[] =
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>"
        "{% if loop.last and add_generation_prompt %}<|assistant|>{% endif %}{% endfor %}";
    static const char apart[] =
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}."
        "{% if add_generation_prompt %}<|assistant|>{% endif %}";
    static const char three[] = "[" U("a") "," A("b") "," U("c") "," A("d") "," A("e") "]";
    assert_string_equal(trained(after, three, 0), "b<|end|>\n|d<|end|>\n|e<|end|>\n<|im_end|>");
    assert_string_equal(trained(after, "[" A("b") "]", 0), "b<|end|>\n<|im_end|>");
    assert_string_equal(trained(after, "[" A("b") "," U("c") "]", 0), "b<|end|>\n");
    assert_string_equal(trained(thinks, three, 0), "b<|end|>|d<|end|>|e<|end|><|im_end|>");
    assert_string_equal(trained(inside, three, 0), "b<|end|>|d<|end|>|e<|end|>");
    assert_string_equal(trained(apart, three, 0), "b<|end|>|d<|end|>|e<|end|>");
}

/* bos, which an answer's own turn writes when it is the first, is not the answer's. */
/* TRL's copies of qwen3.5, qwen3.6 and nemotron train what the template thinks for the model. */
static void a_thought_that_the_template_begins_is_trained(void **state) {
    (void)state;
    static const char empty[] =
        "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}<think></think>"
        "{% endif %}{{ m.content }}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|><think>{% endif %}";
    static const char closed[] =
        "{% for m in messages %}[{{ m.role }}]\n{% if m.role == 'assistant' "
        "%}<think>\n\n</think>\n\n"
        "{% endif %}{{ m.content }};{% endfor %}"
        "{% if add_generation_prompt %}[assistant]\n<think>\n\n</think>\n\n{% endif %}";
    static const char talk[] = "[" U("a") "," A("b") "," U("c") "," A("d") "]";
    assert_string_equal(trained(empty, talk, 0), "<think></think>b<|end|>|<think></think>d<|end|>");
    assert_string_equal(trained(closed, talk, 0),
                        "<think>\n\n</think>\n\nb;|<think>\n\n</think>\n\nd;");
}

static void cuts_the_header_behind_bos(void **state) {
    (void)state;
    static const char template[] =
        "{% for m in messages %}{% if loop.first %}{{ bos_token }}{% endif %}"
        "<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}";
    assert_string_equal(trained(template, "[" A("b") "," U("c") "," A("d") "]", 0),
                        "b<|end|>|d<|end|>");
}

/* A template that fails on what comes before an answer still tells how one opens. */
static void asks_the_whole_conversation_where_a_beginning_is_refused(void **state) {
    (void)state;
    static const char template[] = "{% if messages[0].role == 'system' and messages|length == 1 %}"
                                   "{{ raise_exception('no user') }}{% endif %}" HEADERS;
    assert_string_equal(
        trained(template, "[{\"role\":\"system\",\"content\":\"s\"}," A("b") "," U("c") "]", 0),
        "b\n");
}

static void refuses_what_it_cannot_tell(void **state) {
    (void)state;
    static const struct {
        const char *template, *messages, *words;
    } bad[] = {
        {HEADERS, "[]", "\"messages\" is empty"},
        {HEADERS, "{}", "\"messages\" is an object, not a list"},
        {HEADERS, "[1]", "messages[0] is an integer"},
        {HEADERS, "[" U("a") ",{\"content\":\"b\"}]", "messages[1].role is nothing"},
        {HEADERS, "[{\"role\":1,\"content\":\"b\"}]", "messages[0].role is an integer"},
        {HEADERS, "[{\"role\":\"user\"}]", "messages[0].content is nothing"},
        {HEADERS, "[{\"role\":\"user\",\"content\":null}]", "messages[0].content is null"},
        {HEADERS, "[{\"role\":\"user\",\"content\":{}}]", "messages[0].content is an object"},
        {HEADERS, "[{\"role\":\"user\",\"content\":[{\"text\":\"a\"}]}]",
         "messages[0].content[0] has no \"type\""},
        {HEADERS, "[{\"role\":\"user\",\"content\":[\"a\"]}]",
         "messages[0].content[0] has no \"type\""},
        {HEADERS, "[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"url\":\"x\"}]}]",
         "messages[0].content[0] is of type \"image\""},
        {HEADERS, "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":1}]}]",
         "messages[0].content[0].text is an integer"},
        {HEADERS,
         "[" U("a") ",{\"role\":\"assistant\",\"content\":null,\"tool_calls\":"
                    "[{\"function\":{\"name\":\"weather\",\"arguments\":{}}}]}]",
         "messages[1].tool_calls[0] (weather)"},
        {"{{ messages[0].content }}{{ messages[1].content }}", "[" U("a") "," A("b") "]",
         "does not tell which text is messages[1]"},
        {"{{ raise_exception('no ' + messages[0].role) }}", "[" A("b") "]", "no assistant"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *said = trained(bad[i].template, bad[i].messages, 0);
        if (strstr(said, bad[i].words) == NULL) fail_msg("%zu: %s", i, said);
    }
}

/* As the reference's masks: also behind the loop, where the last answer's end is written. */
static void counts_every_block_wherever_it_stands(void **state) {
    (void)state;
    static const char template[] =
        "{% for m in messages %}{% if m.role == 'assistant' %}<{% generation %}{{ m.content }}"
        "{% endgeneration %}{% else %}({{ m.content }}){% endif %}{% endfor %}"
        "{% generation %}~{% endgeneration %}";
    assert_string_equal(trained(template, "[" U("a") "," A("b") "]", 0), "b~");
    assert_string_equal(trained(template, "[" A("a") "," U("b") "," A("c") "]", 1), "c~");
    assert_string_equal(trained(template, "[" U("a") "," A("b") "," W("c", "0") "]", 0), "b");
    assert_string_equal(trained(template, "[" W("b", "0") "," A("c") "]", 0), "c~");
    static const char before[] = "{% generation %}.{% endgeneration %}" HEADERS;
    assert_string_equal(trained(before, "[" U("a") "," A("b") "]", 0), ".");
    assert_string_equal(trained(before, "[" U("a") "," A("b") "]", 1), "");
}

#define TOOL(text) "{\"role\":\"tool\",\"content\":\"" text "\"}"

static void what_tools_say_inside_an_answer_is_context(void **state) {
    (void)state;
    static const char next[] =
        "{% for m in messages %}{% if m.role != 'tool' %}[{{ m.role }}] {{ m.content }}"
        "{% if loop.nextitem is defined and loop.nextitem.role == 'tool' %}"
        "<{{ loop.nextitem.content | trim }}>{% endif %};{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}[assistant] {% endif %}";
    static const char scan[] =
        "{% for m in messages %}{% if m.role != 'tool' %}[{{ m.role }}] {{ m.content }}"
        "{% for k in range(loop.index0 + 1, messages|length) %}{% if messages[k].role == 'tool' %}"
        "<tool>{{ messages[k].content }}</tool>{% endif %}{% endfor %};{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}[assistant] {% endif %}";
    static const char talk[] = "[" U("q") "," A("call") "," TOOL(" 5 ") "," A("five") "]";
    assert_string_equal(trained(next, talk, 0), "call|;|five;");
    assert_string_equal(trained(scan, "[" U("q") "," A("call") "," TOOL("5") "," TOOL("6") "]", 0),
                        "call|;");
}

static void refuses_what_the_template_does_not_write(void **state) {
    (void)state;
    static const char first_part[] = "{% for m in messages %}[{{ m.role }}] "
                                     "{{ m.content[0].text }};{% endfor %}";
    static const char names_tools[] =
        "{% for m in messages %}{{ m.role }} {{ m.content }};{% endfor %}weather";
    static const char one_call[] =
        "{% for m in messages %}({{ m.role }}{{ m.tool_calls[0].function.name }}){% endfor %}";
    static const struct {
        const char *template, *messages, *words;
    } bad[] = {
        {first_part,
         "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
         "{\"type\":\"text\",\"text\":\"b\"}]}]",
         "messages[0], whose role is \"user\""},
        /* the same words elsewhere do not help */
        {"{% for m in messages %}{% if m.role != 'tool' %}{{ m.content }}{% endif %}{% endfor %}",
         "[" U("5") "," TOOL("5") "," A("five") "]", "messages[1], whose role is \"tool\""},
        {names_tools,
         "[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":"
         "[{\"function\":{\"name\":\"weather\"}}]}]",
         "messages[0].tool_calls[0] (weather), whose role is \"assistant\""},
        {one_call,
         "[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":"
         "[{\"function\":{\"name\":\"f\"}},{\"function\":{\"name\":\"g\"}}]}]",
         "messages[0].tool_calls[1] (g)"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *said = trained(bad[i].template, bad[i].messages, 0);
        if (strstr(said, bad[i].words) == NULL) fail_msg("%zu: %s", i, said);
    }
    /* what is changed on the way is written all the same */
    assert_string_equal(
        trained("{% for m in messages %}<{{ m.content.split('</think>')[-1]|upper }}>"
                "{% endfor %}{% if add_generation_prompt %}<{% endif %}",
                "[" A("<think>no</think>") "," A("yes") "]", 0),
        ">|YES>");
    assert_string_equal(
        trained("{{ messages[0].content }}{% for m in messages[1:] %}{{ m.content }}"
                "{% endfor %}",
                "[{\"role\":\"system\",\"content\":\"s\"}," A("a") "]", 0),
        "a");
}

static void counts_what_is_lost_and_trains_the_rest(void **state) {
    (void)state;
    static const char template[] = "{% for m in messages if m.content == 'in' %}[{{ m.role }}] "
                                   "{{ m.content }};{% endfor %}"
                                   "{% if add_generation_prompt %}[assistant] {% endif %}";
    oc_tokenizer *t = open_with("bytelevel", NULL, template);
    oc_chat *c = open_chat(t);
    oc_chat_text text;
    size_t lost = 0;
    oc_conversation x = {.messages = json_loads("[" U("out") "," A("out") "," A("in") "]", 0, NULL),
                         .drop_lost = true};
    assert_int_equal(oc_chat_lost(c, &x, &lost, NULL), OC_OK);
    assert_int_equal(lost, 2);
    assert_int_equal(oc_chat_mark(c, &x, 0, &text, NULL), OC_OK);
    assert_int_equal(text.lost, 2);
    assert_int_equal(text.n_trained, 1);
    assert_string_equal(text.rendered.text + text.trained[0].begin, "in;");
    oc_chat_text_free(&text);
    json_decref(x.messages);
    oc_chat_close(c);
    oc_tokenizer_close(t);
}

/* ---- several templates ---- */

static oc_tokenizer *open_named(const char *templates) {
    char path[512];
    oc_tokenizer *t = NULL;
    snprintf(path, sizeof path, DATA "bytelevel/tokenizer.json");
    json_t *root = load(path), *config = json_object();
    json_object_set_new(config, "chat_template", json_loads(templates, 0, NULL));
    char *a = json_dumps(root, 0), *b = json_dumps(config, 0);
    assert_int_equal(oc_tokenizer_parse(&t, a, strlen(a), b, strlen(b), "x", NULL), OC_OK);
    free(a);
    free(b);
    json_decref(config);
    json_decref(root);
    return t;
}

static const char *rendered_with(const char *templates, const char *tools) {
    static char out[256];
    oc_tokenizer *t = open_named(templates);
    oc_chat *c = open_chat(t);
    oc_rendered r = {.text = NULL};
    oc_error err = {OC_OK, ""};
    oc_conversation x = {.messages = json_loads("[" U("a") "]", 0, NULL),
                         .tools = tools ? json_loads(tools, JSON_DECODE_ANY, NULL) : NULL};
    oc_status s = oc_chat_render(c, &x, false, &r, &err);
    snprintf(out, sizeof out, "%s", s == OC_OK ? r.text : err.message);
    oc_rendered_free(&r);
    json_decref(x.messages);
    json_decref(x.tools);
    oc_chat_close(c);
    oc_tokenizer_close(t);
    return out;
}

static void chooses_the_template_as_the_reference_does(void **state) {
    (void)state;
    static const char both[] = "[{\"name\":\"tool_use\",\"template\":\"T{{ tools|length }}\"},"
                               "{\"name\":\"rag\",\"template\":\"{% broken\"},"
                               "{\"name\":\"default\",\"template\":\"D\"}]";
    static const char one[] = "[{\"name\":\"tool_use\",\"template\":\"T\"}]";
    static const char plain[] = "[{\"name\":\"default\",\"template\":\"D\"}]";
    assert_string_equal(rendered_with(both, NULL), "D");
    assert_string_equal(rendered_with(both, "null"), "D");
    assert_string_equal(rendered_with(both, "[{}]"), "T1");
    assert_string_equal(rendered_with(both, "[]"), "T0");
    assert_string_equal(rendered_with(plain, "[{}]"), "D");
    assert_string_equal(rendered_with(one, "[{}]"), "T");
    assert_non_null(strstr(rendered_with(one, NULL), "needs one named \"default\""));
}

static void needs_a_template_that_parses(void **state) {
    (void)state;
    oc_chat *c;
    oc_error err = {OC_OK, ""};
    oc_tokenizer *t = open_with("bytelevel", NULL, NULL);
    assert_int_equal(oc_chat_open(&c, t, &err), OC_E_NOTFOUND);
    assert_null(c);
    assert_non_null(strstr(err.message, "chat_template.jinja"));
    oc_tokenizer_close(t);
    t = open_with("bytelevel", NULL, "{% for %}");
    assert_true(oc_chat_open(&c, t, &err) != OC_OK);
    assert_null(c);
    assert_non_null(strstr(err.message, "chat template"));
    oc_tokenizer_close(t);
    oc_chat_close(NULL);
}

/* Special tokens that there are not are undefined; more names may be given, but not theirs. A null
 * member is absent, and thoughts go by both names, as in the reference library. */
static void shows_the_template_its_names(void **state) {
    (void)state;
    static const char template[] =
        "{{ bos_token is defined }} {{ eos_token }} {{ pad_token }} {{ tools is none }} "
        "{{ documents is none }} {{ mood }} {{ add_generation_prompt }} "
        "{{ messages[0].name is defined }} {{ messages[0].thinking }} "
        "{{ messages[0].reasoning_content }}";
    json_t *names = json_pack("{s:s, s:s}", "eos_token", "<|im_end|>", "pad_token", "<|pad|>");
    oc_tokenizer *t = open_with("bytelevel", names, template);
    oc_chat *c = open_chat(t);
    oc_rendered r;
    static const char message[] =
        "[{\"role\":\"user\",\"content\":\"a\",\"name\":null,\"reasoning\":\"why\"}]";
    oc_conversation x = {.messages = json_loads(message, 0, NULL),
                         .variables = json_pack("{s:s, s:s}", "mood", "good", "eos_token", "no")};
    assert_int_equal(oc_chat_render(c, &x, false, &r, NULL), OC_OK);
    assert_string_equal(r.text, "False <|im_end|> <|pad|> True True good False False why why");
    oc_rendered_free(&r);
    json_decref(x.messages);
    json_decref(x.variables);
    json_decref(names);
    oc_chat_close(c);
    oc_tokenizer_close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marked_templates_train_what_the_reference_does),
        cmocka_unit_test(templates_without_marks_train_the_same),
        cmocka_unit_test(trains_answers_from_the_first_wanted_on),
        cmocka_unit_test(marks_obey_weights_and_the_first_wanted),
        cmocka_unit_test(cuts_headers_that_begin_like_what_else_ends_a_text),
        cmocka_unit_test(a_thought_that_the_template_begins_is_trained),
        cmocka_unit_test(cuts_the_header_behind_bos),
        cmocka_unit_test(asks_the_whole_conversation_where_a_beginning_is_refused),
        cmocka_unit_test(refuses_what_it_cannot_tell),
        cmocka_unit_test(counts_every_block_wherever_it_stands),
        cmocka_unit_test(what_tools_say_inside_an_answer_is_context),
        cmocka_unit_test(refuses_what_the_template_does_not_write),
        cmocka_unit_test(counts_what_is_lost_and_trains_the_rest),
        cmocka_unit_test(chooses_the_template_as_the_reference_does),
        cmocka_unit_test(needs_a_template_that_parses),
        cmocka_unit_test(shows_the_template_its_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
