/* convert.c - alpaca and sharegpt rows as what they stand for. */
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

/* Of other prompts than Stanford's; to leave them out would train on something else. */
static oc_status check_alpaca(const json_t *row, const char *where, oc_error *err) {
    static const char *const keys[] = {"history", "system"};
    for (size_t i = 0; i < 2; i++) {
        const json_t *v = oc_row_member(row, keys[i]);
        if (json_array_size(v) == 0 && json_string_length(v) == 0) continue;
        return oc_fail(err, OC_E_UNSUPPORTED,
                       "%s: alpaca's prompt has no place for \"%s\"; turn the row into "
                       "\"messages\"",
                       where, keys[i]);
    }
    return OC_OK;
}

oc_status oc_convert_alpaca(const json_t *row, const char *where, char **text, size_t *n,
                            size_t *n_prompt, oc_error *err) {
    piece instruction, input, output;
    *text = NULL;
    OC_TRY(string_of(row, "instruction", where, &instruction, err));
    OC_TRY(string_of(row, "input", where, &input, err));
    OC_TRY(string_of(row, "output", where, &output, err));
    OC_TRY(check_alpaca(row, where, err));
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

/* ---- sharegpt ---- */

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
static oc_status calls_of(const char *text, size_t n, const char *where, size_t i, json_t **out,
                          oc_error *err) {
    json_t *value = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
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
                   "%s: conversations[%zu] is a function_call whose value is no JSON of "
                   "{\"name\", \"arguments\"}",
                   where, i);
}

static oc_status unknown_speaker(const char *where, size_t i, const char *from, oc_error *err) {
    return oc_fail(err, OC_E_FORMAT,
                   "%s: conversations[%zu] is from \"%.40s\"; known are human, user, gpt, "
                   "assistant, chatgpt, model, system, tool, observation and function_call",
                   where, i, from);
}

static oc_status message_of(json_t *turn, const char *where, size_t i, json_t **out,
                            oc_error *err) {
    const json_t *from = json_object_get(turn, "from");
    json_t *value = json_object_get(turn, "value");
    if (!json_is_object(turn) || !json_is_string(from) || !json_is_string(value))
        return oc_fail(err, OC_E_FORMAT,
                       "%s: conversations[%zu] is not {\"from\": a string, \"value\": a string}%s",
                       where, i,
                       json_object_get(turn, "role") != NULL
                           ? "; a list of role and content is called \"messages\""
                           : "");
    const char *speaker = json_string_value(from);
    size_t k = 0;
    while (k < ROLES && strcmp(roles[k].from, speaker) != 0)
        k++;
    if (k == ROLES) return unknown_speaker(where, i, speaker, err);
    if (roles[k].role == NULL)
        return calls_of(json_string_value(value), json_string_length(value), where, i, out, err);
    *out = json_pack("{s:s, s:O}", "role", roles[k].role, "content", value);
    json_t *weight = oc_row_member(turn, "weight");
    if (*out != NULL && weight != NULL && json_object_set(*out, "weight", weight) != 0) {
        json_decref(*out);
        *out = NULL;
    }
    return *out != NULL ? OC_OK : no_memory(where, err);
}

/* A row's "system" is its first message; a conversation that is empty stays so. */
static oc_status add_system(const json_t *row, const char *where, json_t *messages, oc_error *err) {
    piece text;
    OC_TRY(string_of(row, "system", where, &text, err));
    json_t *first = json_array_get(oc_row_member(row, "conversations"), 0);
    if (text.n == 0 || first == NULL) return OC_OK;
    const char *from = json_string_value(json_object_get(first, "from"));
    if (from != NULL && strcmp(from, "system") == 0)
        return oc_fail(err, OC_E_FORMAT,
                       "%s: the row has \"system\" and its conversation begins with one; keep one",
                       where);
    json_t *m = json_pack("{s:s, s:O}", "role", "system", "content", oc_row_member(row, "system"));
    return m != NULL && json_array_append_new(messages, m) == 0 ? OC_OK : no_memory(where, err);
}

static oc_status add_turns(const json_t *row, const char *where, json_t *messages, oc_error *err) {
    const json_t *turns = oc_row_member(row, "conversations");
    if (!json_is_array(turns))
        return oc_fail(err, OC_E_FORMAT, "%s: \"conversations\" is %s, not a list", where,
                       oc_json_type_name(turns));
    for (size_t i = 0; i < json_array_size(turns); i++) {
        json_t *m = NULL;
        OC_TRY(message_of(json_array_get(turns, i), where, i, &m, err));
        if (json_array_append_new(messages, m) != 0) return no_memory(where, err);
    }
    return OC_OK;
}

oc_status oc_convert_sharegpt(const json_t *row, const char *where, json_t **messages,
                              oc_error *err) {
    json_t *list = json_array();
    oc_status s = list != NULL ? add_system(row, where, list, err) : no_memory(where, err);
    if (s == OC_OK) s = add_turns(row, where, list, err);
    if (s != OC_OK) {
        json_decref(list);
        return s;
    }
    *messages = list;
    return OC_OK;
}
