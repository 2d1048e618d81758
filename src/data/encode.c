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
    free(e->starts);
    *e = (oc_encoder){.tokenizer = NULL};
}

oc_status oc_encoder_reserve(oc_encoder *e, size_t n, const char *where, oc_error *err) {
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

oc_status oc_encoder_begin(oc_encoder *e, size_t at, const char *where, oc_error *err) {
    if (e->n_starts == e->starts_room) {
        size_t room = e->starts_room > 0 ? 2 * e->starts_room : 16;
        size_t *grown = realloc(e->starts, room * sizeof *grown);
        if (grown == NULL)
            return oc_fail(err, OC_E_MEMORY, "%s: no memory for a row of %zu documents", where,
                           room);
        e->starts = grown;
        e->starts_room = room;
    }
    e->starts[e->n_starts++] = at;
    return OC_OK;
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

/* The tokenizer puts a bos before a text that begins with one, as a chat template writes it: one is
 * enough. The same of eos at the end. */
static void drop_seconds(oc_encoder *e, const char *text, size_t n, const char *where) {
    const char *bos = oc_tokenizer_bos_text(e->tokenizer),
               *eos = oc_tokenizer_eos_text(e->tokenizer);
    size_t a = strlen(bos), b = strlen(eos);
    int32_t first = oc_tokenizer_bos(e->tokenizer), last = oc_tokenizer_eos(e->tokenizer);
    if (a > 0 && n >= a && e->n >= 2 && memcmp(text, bos, a) == 0 && e->ids[0] == first &&
        e->ids[1] == first) {
        e->n--;
        memmove(e->ids, e->ids + 1, e->n * sizeof *e->ids);
        oc_notes_add(&e->notes, OC_NOTE_BOS, where);
    }
    if (b > 0 && n >= b && e->n >= 2 && memcmp(text + n - b, eos, b) == 0 &&
        e->ids[e->n - 1] == last && e->ids[e->n - 2] == last)
        e->n--;
}

/* tokens -> ids; room for one more. */
static oc_status encode(oc_encoder *e, const char *text, size_t n, oc_special special,
                        const char *where, oc_error *err) {
    OC_TRY(need_tokenizer(e, where, err));
    oc_status s = oc_tokenizer_encode(e->tokenizer, text, n, special, &e->tokens, err);
    if (s != OC_OK) return oc_error_prefix(err, s, "%s", where);
    OC_TRY(oc_encoder_reserve(e, e->tokens.n + 1, where, err));
    e->n = e->tokens.n;
    if (e->n > 0) memcpy(e->ids, e->tokens.ids, e->n * sizeof *e->ids);
    if (special == OC_SPECIAL_ADD) drop_seconds(e, text, n, where);
    return OC_OK;
}

/* As every text ends: with eos, once, where the tokenizer has one. */
static void add_eos(oc_encoder *e) {
    int32_t eos = oc_tokenizer_eos(e->tokenizer);
    if (eos < 0 || (e->n > 0 && e->ids[e->n - 1] == eos)) return;
    e->ids[e->n] = e->labels[e->n] = eos;
    e->n++;
}

oc_status oc_encoder_text(oc_encoder *e, const char *text, size_t n, const char *where,
                          oc_error *err) {
    OC_TRY(encode(e, text, n, OC_SPECIAL_ADD, where, err));
    if (e->n > 0) memcpy(e->labels, e->ids, e->n * sizeof *e->labels);
    add_eos(e);
    return check_ids(e, where, err);
}

/* The first n_prompt bytes are a prompt. The completion begins where the ids of the prompt and
 * those of both part, as in TRL: a token across the border is trained. */
static oc_status complete(oc_encoder *e, const char *text, size_t n, size_t n_prompt,
                          const char *where, oc_error *err) {
    uint64_t seconds = e->notes.count[OC_NOTE_BOS];
    OC_TRY(encode(e, text, n_prompt, OC_SPECIAL_ADD, where, err));
    size_t prompt = e->n, common = 0;
    e->notes.count[OC_NOTE_BOS] = seconds;
    if (prompt > 0) memcpy(e->labels, e->ids, prompt * sizeof *e->labels);
    OC_TRY(encode(e, text, n, OC_SPECIAL_ADD, where, err));
    while (common < prompt && common < e->n && e->ids[common] == e->labels[common])
        common++;
    for (size_t i = 0; i < e->n; i++)
        e->labels[i] = i < common ? OC_IGNORE : e->ids[i];
    add_eos(e);
    return check_ids(e, where, err);
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
    if (text.lost > 0) oc_notes_add(&e->notes, OC_NOTE_LOST, where);
    s = encode(e, text.rendered.text, text.rendered.n, OC_SPECIAL_NONE, where, err);
    if (s == OC_OK) oc_chat_label(&text, &e->tokens, e->labels);
    oc_chat_text_free(&text);
    return s == OC_OK ? check_ids(e, where, err) : s;
}

static oc_status converse(oc_encoder *e, const json_t *row, json_t *messages, size_t first,
                          const char *where, oc_error *err) {
    json_t *variables = oc_row_member(row, "chat_template_kwargs"), *tools;
    bool system = false;
    if (variables != NULL && !json_is_object(variables))
        return oc_fail(err, OC_E_FORMAT, "%s: \"chat_template_kwargs\" is %s, not an object", where,
                       oc_json_type_name(variables));
    OC_TRY(oc_convert_system(row, where, messages, &system, err));
    OC_TRY(oc_convert_tools(row, where, &tools, err));
    oc_conversation x = {messages, tools, variables, system, e->drop_lost};
    oc_status s = encode_chat(e, &x, first + system, where, err);
    json_decref(tools);
    return s;
}

/* No messages are well-formed ones. */
static oc_status check_messages(const json_t *list, const char *key, const char *where,
                                oc_error *err) {
    if (json_array_size(list) == 0) return OC_OK;
    oc_status s = oc_chat_check(list, key, err);
    return s == OC_OK ? s : oc_error_prefix(err, s, "%s", where);
}

static oc_status nothing(oc_encoder *e, const char *where) {
    oc_notes_add(&e->notes, OC_NOTE_NULL, where);
    e->n = 0;
    return OC_OK;
}

static oc_status take_chat(oc_encoder *e, const json_t *row, const char *key, const char *where,
                           oc_error *err) {
    oc_turns turns;
    OC_TRY(oc_convert_turns(row, key, where, &turns, err));
    oc_status s = OC_OK;
    if (turns.empty)
        s = nothing(e, where);
    else if ((s = check_messages(turns.messages, key, where, err)) == OC_OK)
        s = converse(e, row, turns.messages, 0, where, err);
    json_decref(turns.messages);
    return s;
}

/* ---- prompt and completion ---- */

static oc_status join_messages(oc_encoder *e, const json_t *row, const oc_turns *prompt,
                               const oc_turns *completion, const char *where, oc_error *err) {
    size_t first = json_array_size(prompt->messages);
    if (prompt->empty || completion->empty) return nothing(e, where);
    OC_TRY(check_messages(prompt->messages, "prompt", where, err));
    OC_TRY(check_messages(completion->messages, "completion", where, err));
    if (json_array_extend(prompt->messages, completion->messages) != 0)
        return oc_fail(err, OC_E_MEMORY, "%s: no memory for a conversation", where);
    return converse(e, row, prompt->messages, first, where, err);
}

static oc_status take_messages(oc_encoder *e, const json_t *row, const char *where, oc_error *err) {
    oc_turns prompt, completion = {NULL, false};
    OC_TRY(oc_convert_turns(row, "prompt", where, &prompt, err));
    oc_status s = oc_convert_turns(row, "completion", where, &completion, err);
    if (s == OC_OK) s = join_messages(e, row, &prompt, &completion, where, err);
    json_decref(prompt.messages);
    json_decref(completion.messages);
    return s;
}

static oc_status take_completion(oc_encoder *e, const json_t *row, const char *where,
                                 oc_error *err) {
    json_t *prompt = oc_row_member(row, "prompt"), *completion = oc_row_member(row, "completion");
    if (json_is_array(prompt) && json_is_array(completion))
        return take_messages(e, row, where, err);
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

oc_status oc_encoder_row(oc_encoder *e, json_t *row, oc_row_kind kind, const char *where,
                         oc_error *err) {
    e->n_starts = 0;
    if (kind.several) oc_notes_add(&e->notes, OC_NOTE_SEVERAL, where);
    if (kind.empty) return nothing(e, where);
    OC_TRY(oc_keys_check_row(row, kind.form, &e->notes, where, err));
    switch (kind.form) {
    case OC_ROW_TEXT:
        return take_text(e, row, where, err);
    case OC_ROW_COMPLETION:
        return take_completion(e, row, where, err);
    case OC_ROW_MESSAGES:
        return take_chat(e, row, "messages", where, err);
    case OC_ROW_ALPACA:
        return take_alpaca(e, row, where, err);
    case OC_ROW_SHAREGPT:
        return take_chat(e, row, "conversations", where, err);
    default:
        return oc_encoder_ids(e, row, where, err);
    }
}
