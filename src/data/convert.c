/* convert.c - alpaca and sharegpt rows, and what stands beside messages, as what they stand for. */
#include "data/internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- alpaca: the two prompts of Stanford Alpaca ---- */

static const char with_input[] =
    "Below is an instruction that describes a task, paired with an input that provides further "
    "context. Write a response that appropriately completes the request.\n\n"
    "### Instruction:\n";
static const char without_input[] =
    "Below is an instruction that describes a task. Write a response that appropriately completes "
    "the request.\n\n### Instruction:\n";
static const char input_head[] = "\n\n### Input:\n", response_head[] = "\n\n### Response:";

typedef struct piece {
    const char *text;
    size_t n;
} piece;

static oc_status string_of(const json_t *row, const char *key, const char *where, piece *out,
                           oc_error *err) {
    const json_t *v = oc_row_member(row, key);
    *out = (piece){"", 0};
    if (v == NULL) return OC_OK;
    if (!json_is_string(v))
        return oc_fail(err, OC_E_FORMAT, "%s: \"%s\" is %s, not a string", where, key,
                       oc_json_type_name(v));
    *out = (piece){json_string_value(v), json_string_length(v)};
    return OC_OK;
}

oc_status oc_convert_alpaca(const json_t *row, const char *where, char **text, size_t *n,
                            size_t *n_prompt, oc_error *err) {
    piece instruction, input, output;
    *text = NULL;
    OC_TRY(string_of(row, "instruction", where, &instruction, err));
    OC_TRY(string_of(row, "input", where, &input, err));
    OC_TRY(string_of(row, "output", where, &output, err));
    const piece all[] = {
        input.n > 0 ? (piece){with_input, sizeof with_input - 1}
                    : (piece){without_input, sizeof without_input - 1},
        instruction,
        {input_head, input.n > 0 ? sizeof input_head - 1 : 0},
        input,
        {response_head, sizeof response_head - 1},
        output,
    };
    enum { PIECES = sizeof all / sizeof *all };
    size_t total = 0, at = 0;
    for (size_t i = 0; i < PIECES; i++)
        total += all[i].n;
    char *joined = malloc(total + 1);
    if (joined == NULL)
        return oc_fail(err, OC_E_MEMORY, "%s: no memory for a row of %zu bytes", where, total);
    for (size_t i = 0; i < PIECES; i++) {
        memcpy(joined + at, all[i].text, all[i].n);
        at += all[i].n;
    }
    *text = joined;
    *n = total;
    *n_prompt = total - output.n;
    return OC_OK;
}

/* ---- conversations ---- */

static const struct {
    const char *from, *role;
} roles[] = {
    {"human", "user"},          {"user", "user"},         {"gpt", "assistant"},
    {"assistant", "assistant"}, {"chatgpt", "assistant"}, {"model", "assistant"},
    {"system", "system"},       {"tool", "tool"},         {"observation", "tool"},
    {"function_call", NULL}, /* an answer that calls functions */
};
enum { ROLES = sizeof roles / sizeof *roles };

static oc_status no_memory(const char *where, oc_error *err) {
    return oc_fail(err, OC_E_MEMORY, "%s: no memory for a conversation", where);
}

/* {"name", "arguments"} as a message's tool call. */
static json_t *call_of(json_t *call) {
    json_t *name = json_object_get(call, "name"), *arguments = json_object_get(call, "arguments");
    if (!json_is_string(name) || arguments == NULL) return NULL;
    return json_pack("{s:s, s:{s:O, s:O}}", "type", "function", "function", "name", name,
                     "arguments", arguments);
}

/* The text of a function_call: one call or a list of them. */
static oc_status calls_of(const json_t *text, const char *key, const char *where, size_t i,
                          json_t **out, oc_error *err) {
    bool starved;
    json_t *value = oc_json_of(json_string_value(text), json_string_length(text),
                               JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &starved);
    if (starved) return no_memory(where, err);
    json_t *calls = json_array();
    size_t count = json_is_array(value) ? json_array_size(value) : 1;
    bool good = value != NULL && count > 0;
    for (size_t k = 0; good && k < count; k++) {
        json_t *call = call_of(json_is_array(value) ? json_array_get(value, k) : value);
        good = call != NULL && json_array_append_new(calls, call) == 0;
    }
    json_decref(value);
    if (good) {
        *out =
            json_pack("{s:s, s:s, s:o}", "role", "assistant", "content", "", "tool_calls", calls);
        return *out != NULL ? OC_OK : no_memory(where, err);
    }
    json_decref(calls);
    return oc_fail(err, OC_E_FORMAT,
                   "%s: %s[%zu] is a function_call whose value is no JSON of {\"name\", "
                   "\"arguments\"}",
                   where, key, i);
}

static oc_status unknown_speaker(const char *where, const char *key, size_t i, const char *from,
                                 oc_error *err) {
    return oc_fail(err, OC_E_FORMAT,
                   "%s: %s[%zu] is from \"%.40s\"; known are human, user, gpt, assistant, "
                   "chatgpt, model, system, tool, observation and function_call",
                   where, key, i, from);
}

/* Its place in roles, ROLES where it has none. */
static size_t role_of(const json_t *from) {
    const char *name = json_string_value(from);
    size_t k = 0, n = json_string_length(from);
    while (k < ROLES && (strlen(roles[k].from) != n || memcmp(roles[k].from, name, n) != 0))
        k++;
    return k;
}

/* What else the turn says: weights, names, thoughts. NULL: no memory. */
static json_t *with_rest(json_t *message, json_t *turn) {
    const char *key;
    json_t *value;
    bool made = message != NULL;
    json_object_foreach(turn, key, value) {
        if (strcmp(key, "from") == 0 || strcmp(key, "value") == 0 || json_is_null(value)) continue;
        if (made && json_object_get(message, key) == NULL)
            made = json_object_set(message, key, value) == 0;
    }
    if (made) return message;
    json_decref(message);
    return NULL;
}

/* {"from", "value"}. */
static oc_status from_value(json_t *turn, const char *key, const char *where, size_t i,
                            json_t **out, oc_error *err) {
    const json_t *from = json_object_get(turn, "from");
    json_t *value = oc_row_member(turn, "value");
    if (value == NULL) value = json_null();
    if (!json_is_object(turn) || !json_is_string(from) ||
        (!json_is_string(value) && !json_is_null(value)))
        return oc_fail(err, OC_E_FORMAT,
                       "%s: %s[%zu] is not {\"from\": a string, \"value\": a string}, nor "
                       "{\"role\", \"content\"}",
                       where, key, i);
    size_t k = role_of(from);
    json_t *message = NULL;
    if (k == ROLES) return unknown_speaker(where, key, i, json_string_value(from), err);
    if (roles[k].role == NULL)
        OC_TRY(calls_of(value, key, where, i, &message, err));
    else
        message = json_pack("{s:s, s:O}", "role", roles[k].role, "content", value);
    *out = with_rest(message, turn);
    return *out != NULL ? OC_OK : no_memory(where, err);
}

/* {"role", "content"} among conversations: roles go by sharegpt's names there. */
static oc_status role_content(json_t *turn, const char *where, json_t **out, oc_error *err) {
    size_t k = role_of(json_object_get(turn, "role"));
    if (k == ROLES || roles[k].role == NULL) {
        *out = json_incref(turn);
        return OC_OK;
    }
    *out = json_copy(turn);
    json_t *role = json_string(roles[k].role);
    if (*out != NULL && json_object_set_new(*out, "role", role) == 0) return OC_OK;
    json_decref(*out);
    return no_memory(where, err);
}

static bool is_sharegpt(const char *key) { return strcmp(key, "conversations") == 0; }

static oc_status message_of(json_t *turn, const char *key, const char *where, size_t i,
                            json_t **out, oc_error *err) {
    bool role = json_is_string(json_object_get(turn, "role"));
    if (role && is_sharegpt(key)) return role_content(turn, where, out, err);
    if (!role && (is_sharegpt(key) || json_object_get(turn, "from") != NULL))
        return from_value(turn, key, where, i, out, err);
    *out = json_incref(turn); /* oc_chat_check() says what is wrong with it */
    return OC_OK;
}

/* An answer with nothing in it, as exporters write one that is missing. */
static bool is_missing(const json_t *m) {
    return oc_chat_is_answer(m) && oc_row_member(m, "content") == NULL &&
           json_array_size(json_object_get(m, "tool_calls")) == 0 &&
           oc_row_member(m, "function_call") == NULL;
}

static oc_status add_turns(const json_t *turns, const char *key, const char *where, oc_turns *out,
                           oc_error *err) {
    for (size_t i = 0; i < json_array_size(turns); i++) {
        json_t *m = NULL;
        OC_TRY(message_of(json_array_get(turns, i), key, where, i, &m, err));
        out->empty = out->empty || is_missing(m);
        if (json_array_append_new(out->messages, m) != 0) return no_memory(where, err);
    }
    return OC_OK;
}

oc_status oc_convert_turns(const json_t *row, const char *key, const char *where, oc_turns *out,
                           oc_error *err) {
    const json_t *turns = oc_row_member(row, key);
    oc_turns all = {json_array(), false};
    if (!json_is_array(turns)) {
        json_decref(all.messages);
        return oc_fail(err, OC_E_FORMAT, "%s: \"%s\" is %s, not a list of messages", where, key,
                       oc_json_type_name(turns));
    }
    oc_status s =
        all.messages != NULL ? add_turns(turns, key, where, &all, err) : no_memory(where, err);
    if (s == OC_OK)
        *out = all;
    else
        json_decref(all.messages);
    return s;
}

/* ---- what stands beside a conversation ---- */

static oc_status system_of(const json_t *row, const char *where, json_t **out, oc_error *err) {
    piece one, other;
    *out = NULL;
    OC_TRY(string_of(row, "system", where, &one, err));
    OC_TRY(string_of(row, "system_prompt", where, &other, err));
    if (one.n > 0 && other.n > 0 && (one.n != other.n || memcmp(one.text, other.text, one.n) != 0))
        return oc_fail(err, OC_E_FORMAT,
                       "%s: the row has a \"system\" and another \"system_prompt\"; keep one",
                       where);
    if (one.n > 0 || other.n > 0) *out = oc_row_member(row, one.n > 0 ? "system" : "system_prompt");
    return OC_OK;
}

/* A conversation that is empty stays so. */
oc_status oc_convert_system(const json_t *row, const char *where, json_t *messages, bool *added,
                            oc_error *err) {
    json_t *text, *first = json_array_get(messages, 0);
    *added = false;
    OC_TRY(system_of(row, where, &text, err));
    if (text == NULL || first == NULL) return OC_OK;
    const json_t *role = json_object_get(first, "role");
    bool same = json_equal(json_object_get(first, "content"), text);
    if (oc_text_is(role, "system")) {
        if (same) return OC_OK;
        return oc_fail(err, OC_E_FORMAT,
                       "%s: the row has a system text and its conversation begins with one; keep "
                       "one",
                       where);
    }
    json_t *m = json_pack("{s:s, s:O}", "role", "system", "content", text);
    *added = true;
    return m != NULL && json_array_insert_new(messages, 0, m) == 0 ? OC_OK : no_memory(where, err);
}

/* A list, or its JSON text; a new reference, NULL where there is none: null is as good as absent in
 * the text too. */
static oc_status list_of(const json_t *row, const char *key, const char *where, json_t **out,
                         oc_error *err) {
    json_t *v = oc_row_member(row, key);
    *out = NULL;
    if (v == NULL || (json_is_string(v) && json_string_length(v) == 0)) return OC_OK;
    bool starved = false;
    v = json_is_string(v) ? oc_json_of(json_string_value(v), json_string_length(v),
                                       JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &starved)
                          : json_incref(v);
    if (starved) return no_memory(where, err);
    if (v == NULL)
        return oc_fail(err, OC_E_FORMAT, "%s: \"%s\" is a string, and not JSON", where, key);
    if (json_is_array(v)) {
        *out = v;
        return OC_OK;
    }
    oc_status s = json_is_null(v) ? OC_OK
                                  : oc_fail(err, OC_E_FORMAT, "%s: \"%s\" is %s, not a list", where,
                                            key, oc_json_type_name(v));
    json_decref(v);
    return s;
}

/* OpenAI's functions, each as the tool that it is. */
static oc_status functions_of(json_t *list, const char *where, json_t **out, oc_error *err) {
    json_t *tools = json_array();
    bool made = tools != NULL;
    for (size_t i = 0; made && i < json_array_size(list); i++)
        made = json_array_append_new(tools, json_pack("{s:s, s:O}", "type", "function", "function",
                                                      json_array_get(list, i))) == 0;
    json_decref(list);
    *out = tools;
    if (made) return OC_OK;
    json_decref(tools);
    return no_memory(where, err);
}

oc_status oc_convert_tools(const json_t *row, const char *where, json_t **out, oc_error *err) {
    json_t *functions;
    OC_TRY(list_of(row, "tools", where, out, err));
    oc_status s = list_of(row, "functions", where, &functions, err);
    if (s == OC_OK && functions == NULL) return OC_OK;
    if (s == OC_OK && *out == NULL) return functions_of(functions, where, out, err);
    if (s == OC_OK) {
        json_decref(functions);
        s = oc_fail(err, OC_E_FORMAT, "%s: the row has \"tools\" and \"functions\"; keep one",
                    where);
    }
    json_decref(*out);
    *out = NULL;
    return s;
}
