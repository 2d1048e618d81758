/* columns.c - rows whose columns have names of their own, as rows of our forms. What an entry of
 * LLaMA-Factory's dataset_info.json says of them means here what it means there
 * (src/llamafactory/data/parser.py and converter.py of version 0.9.5). */
#include "data/internal.h"

#include <stdlib.h>
#include <string.h>

static const char *const columns[OC_COLUMNS] = {
    [OC_COLUMN_PROMPT] = "prompt",     [OC_COLUMN_QUERY] = "query",
    [OC_COLUMN_RESPONSE] = "response", [OC_COLUMN_HISTORY] = "history",
    [OC_COLUMN_MESSAGES] = "messages", [OC_COLUMN_SYSTEM] = "system",
    [OC_COLUMN_TOOLS] = "tools",
};
static const char *const column_defaults[OC_COLUMNS] = {
    [OC_COLUMN_PROMPT] = "instruction",
    [OC_COLUMN_QUERY] = "input",
    [OC_COLUMN_RESPONSE] = "output",
    [OC_COLUMN_MESSAGES] = "conversations",
};

/* Each speaker's name among sharegpt's own. */
static const struct {
    const char *tag, *fallback, *name;
} tags[OC_TAGS] = {
    [OC_TAG_ROLE] = {"role_tag", "from", NULL},
    [OC_TAG_CONTENT] = {"content_tag", "value", NULL},
    [OC_TAG_USER] = {"user_tag", "human", "human"},
    [OC_TAG_ASSISTANT] = {"assistant_tag", "gpt", "gpt"},
    [OC_TAG_OBSERVATION] = {"observation_tag", "observation", "observation"},
    [OC_TAG_FUNCTION] = {"function_tag", "function_call", "function_call"},
    [OC_TAG_SYSTEM] = {"system_tag", "system", "system"},
};

/* ---- what an entry says ---- */

static oc_status take_columns(oc_columns *c, const char *file, oc_error *err) {
    static const char *const known[] = {"prompt", "query",    "response", "history", "messages",
                                        "system", "tools",    "images",   "videos",  "audios",
                                        "chosen", "rejected", "kto_tag"};
    json_t *given = NULL;
    memcpy(c->column, column_defaults, sizeof c->column);
    OC_TRY(oc_json_get_object(c->entry, file, "columns", OC_JSON_OPTIONAL, &given, err));
    if (given == NULL) return OC_OK;
    OC_TRY(oc_json_check_keys(given, file, "columns", known, sizeof known / sizeof *known, err));
    for (int i = 0; i < OC_COLUMNS; i++) {
        c->column[i] = NULL; /* where some are named, all are */
        OC_TRY(oc_json_get_string(given, file, columns[i], OC_JSON_OPTIONAL, &c->column[i], err));
    }
    return OC_OK;
}

static oc_status take_tags(oc_columns *c, const char *file, oc_error *err) {
    json_t *given = NULL;
    const char *known[OC_TAGS];
    for (int i = 0; i < OC_TAGS; i++) {
        known[i] = tags[i].tag;
        c->tag[i] = tags[i].fallback;
    }
    OC_TRY(oc_json_get_object(c->entry, file, "tags", OC_JSON_OPTIONAL, &given, err));
    if (given == NULL) return OC_OK;
    OC_TRY(oc_json_check_keys(given, file, "tags", known, OC_TAGS, err));
    for (int i = 0; i < OC_TAGS; i++) {
        c->tag[i] = NULL;
        OC_TRY(oc_json_get_string(given, file, tags[i].tag, OC_JSON_OPTIONAL, &c->tag[i], err));
    }
    return OC_OK;
}

static oc_status take_formatting(oc_columns *c, const char *file, const char *name, oc_error *err) {
    const char *formatting = "alpaca";
    OC_TRY(oc_json_get_string(c->entry, file, "formatting", OC_JSON_OPTIONAL, &formatting, err));
    c->chat = strcmp(formatting, "sharegpt") == 0 || strcmp(formatting, "openai") == 0;
    if (c->chat || strcmp(formatting, "alpaca") == 0) return OC_OK;
    return oc_fail(err, OC_E_UNSUPPORTED,
                   "%s: %s has the formatting \"%s\"; alpaca, sharegpt and openai are known", file,
                   name, formatting);
}

/* What the rest cannot do without. */
static oc_status check(const oc_columns *c, const char *file, const char *name, oc_error *err) {
    const char *what = NULL;
    if (c->chat && c->column[OC_COLUMN_MESSAGES] == NULL) what = "columns.messages";
    if (c->chat && (c->tag[OC_TAG_ROLE] == NULL || c->tag[OC_TAG_CONTENT] == NULL))
        what = "tags.role_tag and tags.content_tag";
    if (!c->chat && c->column[OC_COLUMN_PROMPT] == NULL) what = "columns.prompt";
    return what == NULL ? OC_OK : oc_fail(err, OC_E_INVALID, "%s: %s needs %s", file, name, what);
}

oc_status oc_columns_new(oc_columns **out, json_t *entry, const char *file, const char *name,
                         oc_error *err) {
    oc_columns *c = calloc(1, sizeof *c);
    *out = NULL;
    if (c == NULL) return oc_fail(err, OC_E_MEMORY, "%s: no memory for its columns", file);
    c->entry = json_incref(entry);
    oc_status s = take_formatting(c, file, name, err);
    if (s == OC_OK) s = take_columns(c, file, err);
    if (s == OC_OK) s = take_tags(c, file, err);
    if (s == OC_OK) s = check(c, file, name, err);
    if (s == OC_OK)
        *out = c;
    else
        oc_columns_free(c);
    return s;
}

void oc_columns_free(oc_columns *c) {
    if (c == NULL) return;
    json_decref(c->entry);
    free(c);
}

/* ---- cells ---- */

static oc_status no_memory(const char *where, oc_error *err) {
    return oc_fail(err, OC_E_MEMORY, "%s: no memory for a row", where);
}

static json_t *cell(const oc_columns *c, const json_t *row, oc_column column) {
    return c->column[column] != NULL ? oc_row_member(row, c->column[column]) : NULL;
}

/* A text that says something; NULL: there is none. */
static oc_status text_of(const oc_columns *c, const json_t *row, oc_column column,
                         const char *where, json_t **out, oc_error *err) {
    json_t *v = cell(c, row, column);
    *out = json_string_length(v) > 0 ? v : NULL;
    if (v == NULL || json_is_string(v)) return OC_OK;
    return oc_fail(err, OC_E_FORMAT, "%s: \"%s\" is %s, not a string", where, c->column[column],
                   oc_json_type_name(v));
}

static json_t *joined(const json_t *a, const json_t *b) {
    size_t n = json_string_length(a), m = json_string_length(b);
    char *text = malloc(n + m + 1);
    if (text == NULL) return NULL;
    memcpy(text, json_string_value(a), n);
    text[n] = '\n';
    memcpy(text + n + 1, json_string_value(b), m);
    json_t *both = json_stringn(text, n + m + 1);
    free(text);
    return both;
}

/* "prompt\nquery", of what is there. A new reference. */
static oc_status question_of(const oc_columns *c, const json_t *row, const char *where,
                             json_t **out, oc_error *err) {
    json_t *prompt, *query;
    OC_TRY(text_of(c, row, OC_COLUMN_PROMPT, where, &prompt, err));
    OC_TRY(text_of(c, row, OC_COLUMN_QUERY, where, &query, err));
    if (prompt != NULL && query != NULL)
        *out = joined(prompt, query);
    else
        *out = prompt || query ? json_incref(prompt ? prompt : query) : json_string("");
    return *out != NULL ? OC_OK : no_memory(where, err);
}

/* Takes content over; NULL is null. */
static json_t *message(const char *role, json_t *content) {
    json_t *m = oc_json_with(json_object(), "role", json_string(role));
    return oc_json_with(m, "content", content != NULL ? content : json_null());
}

static json_t *with_cell(json_t *object, const char *key, json_t *value) {
    return value != NULL ? oc_json_with(object, key, json_incref(value)) : object;
}

/* ---- alpaca: a conversation of its columns ---- */

static oc_status add_history(json_t **messages, const oc_columns *c, const json_t *row,
                             const char *where, oc_error *err) {
    const json_t *history = cell(c, row, OC_COLUMN_HISTORY);
    for (size_t i = 0; json_is_array(history) && i < json_array_size(history); i++) {
        const json_t *pair = json_array_get(history, i);
        json_t *asked = json_array_get(pair, 0), *said = json_array_get(pair, 1);
        if (json_array_size(pair) != 2 || !json_is_string(asked) || !json_is_string(said))
            return oc_fail(err, OC_E_FORMAT, "%s: \"%s\"[%zu] is no pair of question and answer",
                           where, c->column[OC_COLUMN_HISTORY], i);
        *messages = oc_json_append(*messages, message("user", json_incref(asked)));
        *messages = oc_json_append(*messages, message("assistant", json_incref(said)));
    }
    return OC_OK;
}

/* *messages is the caller's on failure, too. */
static oc_status add_all(json_t **messages, const oc_columns *c, const json_t *row,
                         const char *where, oc_error *err) {
    json_t *system, *question;
    OC_TRY(text_of(c, row, OC_COLUMN_SYSTEM, where, &system, err));
    if (system != NULL)
        *messages = oc_json_append(*messages, message("system", json_incref(system)));
    OC_TRY(add_history(messages, c, row, where, err));
    OC_TRY(question_of(c, row, where, &question, err));
    *messages = oc_json_append(*messages, message("user", question));
    json_t *answer = cell(c, row, OC_COLUMN_RESPONSE);
    *messages = oc_json_append(*messages, message("assistant", json_incref(answer)));
    return OC_OK;
}

/* Where no column holds an answer the prompt is a text to go on training with. */
static oc_status of_alpaca(const oc_columns *c, const json_t *row, const char *where, json_t **out,
                           oc_error *err) {
    json_t *question, *messages = NULL;
    if (c->column[OC_COLUMN_RESPONSE] == NULL) {
        OC_TRY(question_of(c, row, where, &question, err));
        *out = oc_json_with(json_object(), "text", question);
        return OC_OK;
    }
    messages = json_array();
    oc_status s = add_all(&messages, c, row, where, err);
    if (s != OC_OK) {
        json_decref(messages);
        return s;
    }
    *out = with_cell(oc_json_with(json_object(), "messages", messages), "tools",
                     cell(c, row, OC_COLUMN_TOOLS));
    return OC_OK;
}

/* ---- sharegpt and openai: other names of keys and speakers ---- */

static int speaker_of(const oc_columns *c, const json_t *turn) {
    const json_t *role = json_object_get(turn, c->tag[OC_TAG_ROLE]);
    int k = OC_TAG_USER;
    while (k < OC_TAGS && (c->tag[k] == NULL || !oc_text_is(role, c->tag[k])))
        k++;
    return k;
}

static oc_status turn_of(const oc_columns *c, json_t *turn, const char *where, size_t i,
                         json_t **out, oc_error *err) {
    const char *role = c->tag[OC_TAG_ROLE], *content = c->tag[OC_TAG_CONTENT];
    const char *from = json_string_value(json_object_get(turn, role));
    int k = speaker_of(c, turn);
    if (k == OC_TAGS)
        return oc_fail(err, OC_E_FORMAT, "%s: %s[%zu].%s is %s%.40s%s, none of the entry's tags",
                       where, c->column[OC_COLUMN_MESSAGES], i, role, from ? "\"" : "",
                       from ? from : "no string", from ? "\"" : "");
    json_t *said = json_incref(json_object_get(turn, content));
    json_t *rest = json_copy(turn);
    (void)json_object_del(rest, role);
    (void)json_object_del(rest, content);
    rest = oc_json_with(rest, "from", json_string(tags[k].name));
    *out = oc_json_with(rest, "value", said != NULL ? said : json_null());
    return OC_OK;
}

/* The row's system text counts where the conversation has none. */
static oc_status of_chat(const oc_columns *c, const json_t *row, const char *where, json_t **out,
                         oc_error *err) {
    json_t *turns = cell(c, row, OC_COLUMN_MESSAGES), *all = json_array(), *turn = NULL;
    oc_status s = OC_OK;
    if (!json_is_array(turns))
        s = oc_fail(err, OC_E_FORMAT, "%s: \"%s\" is not a list of messages", where,
                    c->column[OC_COLUMN_MESSAGES]);
    for (size_t i = 0; s == OC_OK && i < json_array_size(turns); i++) {
        s = turn_of(c, json_array_get(turns, i), where, i, &turn, err);
        if (s == OC_OK) all = oc_json_append(all, turn);
    }
    if (s != OC_OK) {
        json_decref(all);
        return s;
    }
    bool first = speaker_of(c, json_array_get(turns, 0)) == OC_TAG_SYSTEM;
    *out = oc_json_with(json_object(), "conversations", all);
    *out = with_cell(*out, "system", first ? NULL : cell(c, row, OC_COLUMN_SYSTEM));
    *out = with_cell(*out, "tools", cell(c, row, OC_COLUMN_TOOLS));
    return OC_OK;
}

oc_status oc_columns_row(const oc_columns *c, const json_t *row, const char *where, json_t **out,
                         oc_error *err) {
    json_t *made = NULL;
    if (!json_is_object(row))
        return oc_fail(err, OC_E_FORMAT, "%s: the row is %s, not an object", where,
                       oc_json_type_name(row));
    OC_TRY(c->chat ? of_chat(c, row, where, &made, err) : of_alpaca(c, row, where, &made, err));
    if (made == NULL) return no_memory(where, err);
    *out = made;
    return OC_OK;
}
