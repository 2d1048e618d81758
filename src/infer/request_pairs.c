/* request_pairs.c - rows to be scored: what stands before, and the completion. */
#include "infer/request.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- keys ---- */

static bool is_known(const char *key) {
    static const char *const known[] = {"prompt",    "messages",  "completion",
                                        "custom_id", "system",    "system_prompt",
                                        "tools",     "functions", "chat_template_kwargs"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(key, known[i]) == 0) return true;
    return false;
}

static oc_status check_form(oc_requests *r, const json_t *row, oc_error *err) {
    bool prompt = oc_request_has(row, "prompt"), messages = oc_request_has(row, "messages");
    void *at = json_object_iter((json_t *)(uintptr_t)row);
    for (; at; at = json_object_iter_next((json_t *)(uintptr_t)row, at))
        if (!is_known(json_object_iter_key(at)))
            oc_request_note_unknown(&r->unknown, json_object_iter_key(at));
    if (prompt != messages && oc_request_has(row, "completion")) return OC_OK;
    return oc_fail(err, OC_E_INVALID,
                   "%s: a row to score is {\"prompt\", \"completion\"} or {\"messages\", "
                   "\"completion\"}",
                   r->where);
}

/* ---- ids ---- */

/* What the first token of a text stands behind, where there is nothing else. */
static oc_status beginning(const oc_requests *r, int32_t *id, oc_error *err) {
    const oc_tokenizer *t = r->spec.tokenizer;
    *id = t ? oc_tokenizer_bos(t) : -1;
    if (*id < 0 && t) *id = oc_tokenizer_eos(t);
    if (*id >= 0) return OC_OK;
    return oc_fail(err, OC_E_INVALID,
                   "%s: nothing stands before the completion, and the tokenizer has neither a "
                   "beginning nor an end of a sequence: its first token cannot be scored",
                   r->where);
}

/* n ids of which `context` are the prompt's; takes them over. */
static oc_status take_ids(oc_requests *r, int32_t *ids, size_t n, size_t context, oc_request *out,
                          oc_error *err) {
    size_t most = r->spec.max_positions > 0 ? (size_t)r->spec.max_positions : INT32_MAX;
    out->ids = ids;
    if (n > most)
        return oc_fail(err, OC_E_INVALID,
                       "%s: the row has %zu tokens, and a sequence at most %zu (the model's "
                       "positions, or --seq-length)",
                       r->where, n, most);
    out->n_ids = (int32_t)n;
    out->n_context = (int32_t)context;
    return oc_request_check_ids(r, ids, n, err);
}

static oc_status join(oc_requests *r, const int32_t *ids, size_t n, size_t context, oc_request *out,
                      oc_error *err) {
    size_t before = context == 0;
    int32_t first = 0;
    if (before) OC_TRY(beginning(r, &first, err));
    int32_t *all = malloc((n + before) * sizeof *all);
    if (all == NULL) return oc_fail(err, OC_E_MEMORY, "%s: no memory for this row", r->where);
    if (before) all[0] = first;
    if (n > 0) memcpy(all + before, ids, n * sizeof *ids);
    return take_ids(r, all, n + before, context + before, out, err);
}

static oc_status add_list(const oc_requests *r, const json_t *row, const char *key, int32_t *ids,
                          size_t *n, oc_error *err) {
    const json_t *list = json_object_get(row, key);
    if (!json_is_array(list))
        return oc_fail(err, OC_E_FORMAT, "%s: \"%s\" is %s, and the other one a list of ids",
                       r->where, key, oc_json_type_name(list));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *x = json_array_get(list, i);
        json_int_t id = json_integer_value(x);
        if (!json_is_integer(x) || id < INT32_MIN || id > INT32_MAX)
            return oc_fail(err, OC_E_FORMAT, "%s: \"%s\"[%zu] is no token id", r->where, key, i);
        ids[(*n)++] = (int32_t)id;
    }
    return OC_OK;
}

static oc_status take_lists(oc_requests *r, const json_t *row, oc_request *out, oc_error *err) {
    size_t most = json_array_size(json_object_get(row, "prompt")) +
                  json_array_size(json_object_get(row, "completion"));
    int32_t *ids = malloc((most + 1) * sizeof *ids);
    size_t n = 0, context = 0;
    if (ids == NULL) return oc_fail(err, OC_E_MEMORY, "%s: no memory for this row", r->where);
    oc_status s = add_list(r, row, "prompt", ids, &n, err);
    context = n;
    if (s == OC_OK) s = add_list(r, row, "completion", ids, &n, err);
    if (s == OC_OK) s = join(r, ids, n, context, out, err);
    free(ids);
    return s;
}

/* ---- texts ---- */

/* A text that begins with the beginning of a sequence gets no second one, as in training. */
static void drop_second(oc_tokens *x, int32_t bos) {
    if (x->n < 2 || bos < 0 || x->ids[0] != bos || x->ids[1] != bos) return;
    memmove(x->ids, x->ids + 1, --x->n * sizeof *x->ids);
}

/* A whole prompt has the special tokens that the tokenizer puts around one; what a template wrote
 * has its own. */
static oc_status encode(oc_requests *r, const char *text, size_t n, bool whole, oc_error *err) {
    const oc_tokenizer *t = r->spec.tokenizer;
    oc_status s = whole ? oc_request_encode(t, text, n, &r->tokens, err)
                        : oc_tokenizer_encode(t, text, n, OC_SPECIAL_NONE, &r->tokens, err);
    if (s != OC_OK) return oc_error_prefix(err, s, "%s", r->where);
    if (whole) drop_second(&r->tokens, oc_tokenizer_bos(t));
    return OC_OK;
}

static oc_status encode_both(oc_requests *r, const char *text, size_t n, size_t n_prompt,
                             bool whole, oc_request *out, oc_error *err) {
    OC_TRY(encode(r, text, n_prompt, whole, err));
    size_t prompt = r->tokens.n, common = 0;
    int32_t *ids = malloc((prompt + 1) * sizeof *ids);
    if (ids == NULL) return oc_fail(err, OC_E_MEMORY, "%s: no memory for this row", r->where);
    if (prompt > 0) memcpy(ids, r->tokens.ids, prompt * sizeof *ids);
    oc_status s = encode(r, text, n, whole, err);
    while (s == OC_OK && common < prompt && common < r->tokens.n &&
           ids[common] == r->tokens.ids[common])
        common++;
    free(ids);
    return s == OC_OK ? join(r, r->tokens.ids, r->tokens.n, common, out, err) : s;
}

static oc_status take_texts(oc_requests *r, const json_t *row, const char *prompt, size_t n,
                            bool whole, oc_request *out, oc_error *err) {
    const json_t *completion = json_object_get(row, "completion");
    if (!json_is_string(completion))
        return oc_fail(err, OC_E_FORMAT, "%s: \"completion\" is %s, not a text", r->where,
                       oc_json_type_name(completion));
    size_t m = json_string_length(completion);
    char *text = malloc(n + m + 1);
    if (text == NULL) return oc_fail(err, OC_E_MEMORY, "%s: no memory for this row", r->where);
    if (n > 0) memcpy(text, prompt, n);
    memcpy(text + n, json_string_value(completion), m);
    oc_status s = encode_both(r, text, n + m, n, whole, out, err);
    free(text);
    return s;
}

static oc_status take_messages(oc_requests *r, const json_t *row, const char *key, oc_request *out,
                               oc_error *err) {
    oc_rendered text = {.text = NULL};
    OC_TRY(oc_request_render(r, row, key, &text, err));
    oc_status s = take_texts(r, row, text.text, text.n, false, out, err);
    oc_rendered_free(&text);
    return s;
}

oc_status oc_request_take_pair(oc_requests *r, const json_t *row, oc_request *out, oc_error *err) {
    const json_t *prompt = json_object_get(row, "prompt");
    OC_TRY(check_form(r, row, err));
    if (oc_request_has(row, "messages")) return take_messages(r, row, "messages", out, err);
    if (json_is_object(json_array_get(prompt, 0))) return take_messages(r, row, "prompt", out, err);
    if (json_is_array(prompt)) return take_lists(r, row, out, err);
    if (!json_is_string(prompt))
        return oc_fail(err, OC_E_FORMAT, "%s: \"prompt\" is %s, not a text", r->where,
                       oc_json_type_name(prompt));
    OC_TRY(oc_request_need_tokenizer(r, err));
    return take_texts(r, row, json_string_value(prompt), json_string_length(prompt), true, out,
                      err);
}
