/* encode.c - a row as ids and labels. */
#include "data/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void oc_encoder_release(oc_encoder *e) {
    oc_chat_close(e->chat);
    oc_tokens_free(&e->tokens);
    free(e->ids);
    free(e->labels);
    *e = (oc_encoder){.tokenizer = NULL};
}

static oc_status reserve(oc_encoder *e, size_t n, const char *where, oc_error *err) {
    if (n <= e->room) return OC_OK;
    if (n > SIZE_MAX / sizeof *e->ids / 2) goto no_memory;
    size_t room = n + n / 2;
    int32_t *ids = realloc(e->ids, room * sizeof *ids);
    if (ids == NULL) goto no_memory;
    e->ids = ids;
    int32_t *labels = realloc(e->labels, room * sizeof *labels);
    if (labels == NULL) goto no_memory;
    e->labels = labels;
    e->room = room;
    return OC_OK;
no_memory:
    return oc_fail(err, OC_E_MEMORY, "%s: no memory for a row of %zu tokens", where, n);
}

static oc_status check_ids(const oc_encoder *e, const char *where, oc_error *err) {
    for (size_t i = 0; i < e->n; i++)
        if (e->ids[i] < 0 || e->ids[i] >= e->vocab)
            return oc_fail(err, OC_E_INVALID,
                           "%s: token id %" PRId32 " is not in the model's vocabulary [0, %" PRId64
                           "): the tokenizer is not this model's",
                           where, e->ids[i], e->vocab);
    return OC_OK;
}

static oc_status need_tokenizer(const oc_encoder *e, const char *where, oc_error *err) {
    if (e->tokenizer != NULL) return OC_OK;
    return oc_fail(err, OC_E_INVALID,
                   "%s: the row is text, and there is no tokenizer: give one, or rows of input_ids",
                   where);
}

/* tokens -> ids; room for one more. */
static oc_status encode(oc_encoder *e, const char *text, size_t n, oc_special special,
                        const char *where, oc_error *err) {
    OC_TRY(need_tokenizer(e, where, err));
    oc_status s = oc_tokenizer_encode(e->tokenizer, text, n, special, &e->tokens, err);
    if (s != OC_OK) return oc_error_prefix(err, s, "%s", where);
    OC_TRY(reserve(e, e->tokens.n + 1, where, err));
    e->n = e->tokens.n;
    if (e->n > 0) memcpy(e->ids, e->tokens.ids, e->n * sizeof *e->ids);
    return OC_OK;
}

/* As every text ends: with eos, once, where the tokenizer has one. */
static void add_eos(oc_encoder *e) {
    int32_t eos = oc_tokenizer_eos(e->tokenizer);
    if (eos < 0 || (e->n > 0 && e->ids[e->n - 1] == eos)) return;
    e->ids[e->n] = e->labels[e->n] = eos;
    e->n++;
}

/* The first n_prompt bytes are a prompt: a token that begins in them is not trained. */
static oc_status complete(oc_encoder *e, const char *text, size_t n, size_t n_prompt,
                          const char *where, oc_error *err) {
    OC_TRY(encode(e, text, n, OC_SPECIAL_ADD, where, err));
    for (size_t i = 0; i < e->n; i++)
        e->labels[i] = e->tokens.starts[i] >= n_prompt ? e->ids[i] : OC_IGNORE;
    add_eos(e);
    return check_ids(e, where, err);
}

oc_status oc_encoder_text(oc_encoder *e, const char *text, size_t n, const char *where,
                          oc_error *err) {
    return complete(e, text, n, 0, where, err);
}

oc_status oc_encoder_piece(oc_encoder *e, const char *text, size_t n, const char *where,
                           oc_error *err) {
    OC_TRY(encode(e, text, n, OC_SPECIAL_NONE, where, err));
    if (e->n > 0) memcpy(e->labels, e->ids, e->n * sizeof *e->labels);
    return check_ids(e, where, err);
}

/* ---- conversations ---- */

static oc_status open_chat(oc_encoder *e, const char *where, oc_error *err) {
    OC_TRY(need_tokenizer(e, where, err));
    if (e->chat != NULL) return OC_OK;
    oc_status s = oc_chat_open(&e->chat, e->tokenizer, err);
    return s == OC_OK ? s : oc_error_prefix(err, s, "%s", where);
}

/* An empty conversation is a row without tokens, also where the template could not write it. */
static oc_status encode_chat(oc_encoder *e, const oc_conversation *x, size_t first,
                             const char *where, oc_error *err) {
    oc_chat_text text;
    OC_TRY(open_chat(e, where, err));
    if (json_array_size(x->messages) == 0) {
        e->n = 0;
        return OC_OK;
    }
    oc_status s = oc_chat_mark(e->chat, x, first, &text, err);
    if (s != OC_OK) return oc_error_prefix(err, s, "%s", where);
    s = encode(e, text.rendered.text, text.rendered.n, OC_SPECIAL_NONE, where, err);
    if (s == OC_OK) oc_chat_label(&text, &e->tokens, e->labels);
    oc_chat_text_free(&text);
    return s == OC_OK ? check_ids(e, where, err) : s;
}

/* The row's tools, a list or its JSON text; a new reference, NULL when there are none: null is as
 * good as absent in the text too. */
static oc_status tools_of(const json_t *row, const char *where, json_t **out, oc_error *err) {
    json_t *v = oc_row_member(row, "tools");
    *out = NULL;
    if (v == NULL || (json_is_string(v) && json_string_length(v) == 0)) return OC_OK;
    v = json_is_string(v) ? json_loadb(json_string_value(v), json_string_length(v),
                                       JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL)
                          : json_incref(v);
    if (v == NULL)
        return oc_fail(err, OC_E_FORMAT, "%s: \"tools\" is a string, and not JSON", where);
    if (json_is_array(v)) {
        *out = v;
        return OC_OK;
    }
    oc_status s = json_is_null(v) ? OC_OK
                                  : oc_fail(err, OC_E_FORMAT, "%s: \"tools\" is %s, not a list",
                                            where, oc_json_type_name(v));
    json_decref(v);
    return s;
}

static oc_status converse(oc_encoder *e, const json_t *row, json_t *messages, size_t first,
                          const char *where, oc_error *err) {
    json_t *variables = oc_row_member(row, "chat_template_kwargs"), *tools;
    if (variables != NULL && !json_is_object(variables))
        return oc_fail(err, OC_E_FORMAT, "%s: \"chat_template_kwargs\" is %s, not an object", where,
                       oc_json_type_name(variables));
    OC_TRY(tools_of(row, where, &tools, err));
    oc_conversation x = {messages, tools, variables};
    oc_status s = encode_chat(e, &x, first, where, err);
    json_decref(tools);
    return s;
}

/* No messages are well-formed ones. */
static oc_status check_messages(const json_t *list, const char *key, const char *where,
                                oc_error *err) {
    if (json_is_array(list) && json_array_size(list) == 0) return OC_OK;
    oc_status s = oc_chat_check(list, key, err);
    return s == OC_OK ? s : oc_error_prefix(err, s, "%s", where);
}

static oc_status take_messages(oc_encoder *e, const json_t *row, const char *where, oc_error *err) {
    json_t *messages = oc_row_member(row, "messages");
    OC_TRY(check_messages(messages, "messages", where, err));
    return converse(e, row, messages, 0, where, err);
}

static oc_status take_sharegpt(oc_encoder *e, const json_t *row, const char *where, oc_error *err) {
    json_t *messages;
    OC_TRY(oc_convert_sharegpt(row, where, &messages, err));
    oc_status s = converse(e, row, messages, 0, where, err);
    json_decref(messages);
    return s;
}

/* ---- prompt and completion ---- */

static oc_status join_messages(oc_encoder *e, const json_t *row, json_t *prompt, json_t *completion,
                               const char *where, oc_error *err) {
    OC_TRY(check_messages(prompt, "prompt", where, err));
    OC_TRY(check_messages(completion, "completion", where, err));
    json_t *all = json_copy(prompt);
    oc_status s = all != NULL && json_array_extend(all, completion) == 0
                      ? OC_OK
                      : oc_fail(err, OC_E_MEMORY, "%s: no memory for a conversation", where);
    if (s == OC_OK) s = converse(e, row, all, json_array_size(prompt), where, err);
    json_decref(all);
    return s;
}

static oc_status take_completion(oc_encoder *e, const json_t *row, const char *where,
                                 oc_error *err) {
    json_t *prompt = oc_row_member(row, "prompt"), *completion = oc_row_member(row, "completion");
    if (json_is_array(prompt) && json_is_array(completion))
        return join_messages(e, row, prompt, completion, where, err);
    if (!json_is_string(prompt) || !json_is_string(completion))
        return oc_fail(err, OC_E_FORMAT,
                       "%s: \"prompt\" is %s and \"completion\" is %s: both must be strings, or "
                       "both lists of messages",
                       where, oc_json_type_name(prompt), oc_json_type_name(completion));
    size_t a = json_string_length(prompt), b = json_string_length(completion);
    char *text = malloc(a + b + 1);
    if (text == NULL)
        return oc_fail(err, OC_E_MEMORY, "%s: no memory for a row of %zu bytes", where, a + b);
    memcpy(text, json_string_value(prompt), a);
    memcpy(text + a, json_string_value(completion), b);
    oc_status s = complete(e, text, a + b, a, where, err);
    free(text);
    return s;
}

static oc_status take_alpaca(oc_encoder *e, const json_t *row, const char *where, oc_error *err) {
    char *text;
    size_t n, n_prompt;
    OC_TRY(oc_convert_alpaca(row, where, &text, &n, &n_prompt, err));
    oc_status s = complete(e, text, n, n_prompt, where, err);
    free(text);
    return s;
}

static oc_status take_text(oc_encoder *e, const json_t *row, const char *where, oc_error *err) {
    const json_t *text = oc_row_member(row, "text");
    if (!json_is_string(text))
        return oc_fail(err, OC_E_FORMAT, "%s: \"text\" is %s, not a string", where,
                       oc_json_type_name(text));
    return oc_encoder_text(e, json_string_value(text), json_string_length(text), where, err);
}

/* ---- input_ids ---- */

static oc_status copy_ints(const oc_encoder *e, const json_t *list, const char *key, int32_t *out,
                           const char *where, oc_error *err) {
    bool labels = strcmp(key, "labels") == 0;
    for (size_t i = 0; i < e->n; i++) {
        const json_t *v = json_array_get(list, i);
        if (!json_is_integer(v))
            return oc_fail(err, OC_E_FORMAT, "%s: %s[%zu] is %s, not an integer", where, key, i,
                           oc_json_type_name(v));
        int64_t id = json_integer_value(v);
        if ((id < 0 || id >= e->vocab) && !(labels && id == OC_IGNORE))
            return oc_fail(err, OC_E_INVALID,
                           "%s: %s[%zu] = %" PRId64 " is not in the model's vocabulary [0, %" PRId64
                           ")%s",
                           where, key, i, id, e->vocab, labels ? " and not -100" : "");
        out[i] = (int32_t)id;
    }
    return OC_OK;
}

static oc_status same_length(const json_t *list, const char *key, size_t n, const char *where,
                             oc_error *err) {
    if (json_is_array(list) && json_array_size(list) == n) return OC_OK;
    return oc_fail(err, OC_E_FORMAT, "%s: \"%s\" is not an array of %zu, as \"input_ids\" is",
                   where, key, n);
}

/* Padding, 0 in the mask, may stand at both ends; the packer pads anew. */
static oc_status cut_padding(oc_encoder *e, const json_t *mask, const char *where, oc_error *err) {
    size_t first = e->n, last = 0;
    OC_TRY(same_length(mask, "attention_mask", e->n, where, err));
    for (size_t i = 0; i < e->n; i++) {
        const json_t *v = json_array_get(mask, i);
        int64_t x = json_is_integer(v) ? json_integer_value(v) : -1;
        if (x != 0 && x != 1)
            return oc_fail(err, OC_E_FORMAT, "%s: attention_mask[%zu] is not 0 or 1", where, i);
        if (x == 1 && first < i && last + 1 < i)
            return oc_fail(err, OC_E_UNSUPPORTED,
                           "%s: attention_mask[%zu] is 0 between tokens; only padding at the ends "
                           "can be left out",
                           where, i - 1);
        if (x == 1 && first == e->n) first = i;
        if (x == 1) last = i;
    }
    size_t n = first < e->n ? last - first + 1 : 0;
    if (n > 0 && first > 0) {
        memmove(e->ids, e->ids + first, n * sizeof *e->ids);
        memmove(e->labels, e->labels + first, n * sizeof *e->labels);
    }
    e->n = n;
    return OC_OK;
}

static oc_status take_ids(oc_encoder *e, const json_t *row, const char *where, oc_error *err) {
    const json_t *ids = oc_row_member(row, "input_ids"), *labels = oc_row_member(row, "labels");
    const json_t *mask = oc_row_member(row, "attention_mask");
    if (!json_is_array(ids))
        return oc_fail(err, OC_E_FORMAT, "%s: \"input_ids\" is %s, not an array", where,
                       oc_json_type_name(ids));
    OC_TRY(reserve(e, json_array_size(ids), where, err));
    e->n = json_array_size(ids);
    OC_TRY(copy_ints(e, ids, "input_ids", e->ids, where, err));
    if (labels != NULL) {
        OC_TRY(same_length(labels, "labels", e->n, where, err));
        OC_TRY(copy_ints(e, labels, "labels", e->labels, where, err));
    } else if (e->n > 0) {
        memcpy(e->labels, e->ids, e->n * sizeof *e->ids);
    }
    return mask != NULL ? cut_padding(e, mask, where, err) : OC_OK;
}

oc_status oc_encoder_row(oc_encoder *e, const json_t *row, oc_row_form form, const char *where,
                         oc_error *err) {
    switch (form) {
    case OC_ROW_TEXT:
        return take_text(e, row, where, err);
    case OC_ROW_COMPLETION:
        return take_completion(e, row, where, err);
    case OC_ROW_MESSAGES:
        return take_messages(e, row, where, err);
    case OC_ROW_ALPACA:
        return take_alpaca(e, row, where, err);
    case OC_ROW_SHAREGPT:
        return take_sharegpt(e, row, where, err);
    default:
        return take_ids(e, row, where, err);
    }
}
