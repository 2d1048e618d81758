/* result_rows.c - answers as rows: ours, and lines of an OpenAI batch's output. */
#include "infer/result.h"

#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char row_id[] = "batch_req_";

/* ---- log-probabilities ---- */

/* OpenAI's number for what is hardly possible. */
static json_t *logprob_of(float x) { return json_real(isfinite(x) ? (double)x : -9999.0); }

/* What the token is on its own: part of a character becomes U+FFFD. NULL: no memory. */
static json_t *text_of(const oc_result_style *style, int32_t id) {
    char *text = NULL, number[32];
    size_t n = 0;
    if (style->tokenizer == NULL ||
        oc_tokenizer_decode(style->tokenizer, &id, 1, false, &text, &n, NULL) != OC_OK) {
        (void)snprintf(number, sizeof number, "token_id:%" PRId32, id);
        return json_string(number);
    }
    json_t *s = json_stringn(text, n);
    free(text);
    return s;
}

/* null where a byte of the token may be lost in its text. */
static json_t *bytes_of(const json_t *text) {
    const char *s = json_string_value(text);
    size_t n = json_string_length(text);
    if (s == NULL || memmem(s, n, "\xef\xbf\xbd", 3) != NULL) return json_null();
    json_t *bytes = json_array();
    for (size_t i = 0; i < n; i++)
        bytes = oc_json_append(bytes, json_integer((unsigned char)s[i]));
    return bytes;
}

static json_t *token_of(const oc_result_style *style, const oc_sampled *x, bool ours) {
    json_t *text = text_of(style, x->id), *bytes = bytes_of(text);
    json_t *o = oc_json_with(json_object(), "token", text);
    if (ours) o = oc_json_with(o, "id", json_integer(x->id));
    o = oc_json_with(o, "logprob", logprob_of(x->logprob));
    return oc_json_with(o, "bytes", bytes);
}

static json_t *alternatives_of(const oc_result_style *style, const oc_answer *a, int32_t i,
                               bool ours) {
    json_t *list = json_array();
    for (int32_t k = 0; k < a->alternatives; k++)
        list = oc_json_append(
            list, token_of(style, &a->top[(size_t)i * (size_t)a->alternatives + (size_t)k], ours));
    return list;
}

/* Of a chat completion, and of our rows. */
static json_t *content_of(const oc_result_style *style, const oc_answer *a, bool ours) {
    json_t *list = json_array();
    for (int32_t i = 0; i < a->completion_tokens; i++) {
        json_t *o = token_of(style, &a->tokens[i], ours);
        o = oc_json_with(o, "top_logprobs", alternatives_of(style, a, i, ours));
        list = oc_json_append(list, o);
    }
    return oc_json_with(json_object(), "content", list);
}

static size_t characters(const json_t *text) {
    const char *s = json_string_value(text);
    size_t count = 0;
    for (size_t i = 0; i < json_string_length(text); i++)
        count += ((unsigned char)s[i] & 0xc0) != 0x80;
    return count;
}

static json_t *likely_of(const oc_result_style *style, const oc_answer *a, int32_t i) {
    json_t *o = json_object();
    for (int32_t k = 0; k < a->alternatives; k++) {
        const oc_sampled *x = &a->top[(size_t)i * (size_t)a->alternatives + (size_t)k];
        json_t *text = text_of(style, x->id);
        if (text != NULL &&
            json_object_getn(o, json_string_value(text), json_string_length(text))) {
            json_decref(text); /* the likelier of two that look the same */
            continue;
        }
        json_t *p = logprob_of(x->logprob);
        bool set = text != NULL && json_object_setn_new(o, json_string_value(text),
                                                        json_string_length(text), p) == 0;
        if (text == NULL) json_decref(p);
        json_decref(text);
        if (!set) {
            json_decref(o);
            return NULL;
        }
    }
    return o;
}

/* Of a completion. */
static json_t *columns_of(const oc_result_style *style, const oc_answer *a) {
    json_t *tokens = json_array(), *values = json_array(), *top = json_array(), *at = json_array();
    size_t offset = 0;
    for (int32_t i = 0; i < a->completion_tokens; i++) {
        json_t *text = text_of(style, a->tokens[i].id);
        at = oc_json_append(at, json_integer((json_int_t)offset));
        offset += characters(text);
        tokens = oc_json_append(tokens, text);
        values = oc_json_append(values, logprob_of(a->tokens[i].logprob));
        top = oc_json_append(top, likely_of(style, a, i));
    }
    json_t *o = oc_json_with(json_object(), "tokens", tokens);
    o = oc_json_with(o, "token_logprobs", values);
    o = oc_json_with(o, "top_logprobs", top);
    return oc_json_with(o, "text_offset", at);
}

static json_t *logprobs_of(const oc_result_style *style, const oc_request *q, const oc_answer *a) {
    if (q->logprobs < 0 || a->tokens == NULL) return json_null();
    if (q->form == OC_REQUEST_COMPLETION) return columns_of(style, a);
    return content_of(style, a, q->form == OC_REQUEST_PLAIN);
}

/* ---- rows ---- */

static json_t *usage_of(const oc_answer *a) {
    return json_pack("{s:i, s:i, s:I}", "prompt_tokens", (int)a->prompt_tokens, "completion_tokens",
                     (int)a->completion_tokens, "total_tokens",
                     (json_int_t)a->prompt_tokens + a->completion_tokens);
}

/* What is to blame may be no UTF-8: then the bytes that are not go. */
static json_t *message_of(const char *text) {
    char clean[OC_ERROR_BYTES];
    json_t *s = json_string(text);
    if (s != NULL) return s;
    (void)snprintf(clean, sizeof clean, "%s", text);
    for (char *p = clean; *p; p++)
        if ((unsigned char)*p >= 0x80) *p = '?';
    return json_string(clean);
}

static json_t *with_score(json_t *o, const oc_answer *a) {
    double x = a->log_likelihood;
    o = oc_json_with(o, "log_likelihood", isfinite(x) ? json_real(x) : json_null());
    o = oc_json_with(o, "tokens", json_integer(a->completion_tokens));
    return oc_json_with(o, "is_greedy", json_boolean(a->greedy));
}

static json_t *plain_row(const oc_result_style *style, const oc_request *q, const oc_answer *a) {
    json_t *o = json_object();
    if (q->custom_id != NULL) o = oc_json_with(o, "custom_id", json_string(q->custom_id));
    o = oc_json_with(o, "index", json_integer((json_int_t)q->index));
    if (q->error != NULL)
        return oc_json_with(o, "error",
                            oc_json_with(json_object(), "message", message_of(q->error)));
    if (a->scored) return with_score(o, a);
    o = oc_json_with(o, "text", json_stringn(a->text, a->n_text));
    o = oc_json_with(o, "finish_reason", json_string(a->finish_reason));
    o = oc_json_with(o, "usage", usage_of(a));
    return q->logprobs < 0 ? o : oc_json_with(o, "logprobs", logprobs_of(style, q, a));
}

static json_t *choice_of(const oc_result_style *style, const oc_request *q, const oc_answer *a) {
    json_t *o = oc_json_with(json_object(), "index", json_integer(0));
    json_t *text = json_stringn(a->text, a->n_text);
    if (q->form == OC_REQUEST_COMPLETION) {
        o = oc_json_with(o, "text", text);
    } else {
        json_t *m = oc_json_with(json_object(), "role", json_string("assistant"));
        m = oc_json_with(m, "content", text);
        o = oc_json_with(o, "message", oc_json_with(m, "refusal", json_null()));
    }
    o = oc_json_with(o, "logprobs", logprobs_of(style, q, a));
    return oc_json_with(o, "finish_reason", json_string(a->finish_reason));
}

static json_t *body_of(const oc_result_style *style, const oc_request *q, const oc_answer *a) {
    bool chat = q->form == OC_REQUEST_CHAT_COMPLETION;
    char id[64];
    (void)snprintf(id, sizeof id, "%s-%" PRIu64, chat ? "chatcmpl" : "cmpl", q->index);
    json_t *o = oc_json_with(json_object(), "id", json_string(id));
    o = oc_json_with(o, "object", json_string(chat ? "chat.completion" : "text_completion"));
    o = oc_json_with(o, "created", json_integer(style->created));
    o = oc_json_with(o, "model", message_of(style->model));
    o = oc_json_with(o, "choices", oc_json_append(json_array(), choice_of(style, q, a)));
    o = oc_json_with(o, "usage", usage_of(a));
    return oc_json_with(o, "system_fingerprint", json_null());
}

static json_t *refusal_of(const oc_request *q) {
    json_t *e = oc_json_with(json_object(), "message", message_of(q->error));
    e = oc_json_with(e, "type", json_string("invalid_request_error"));
    e = oc_json_with(e, "param", json_null());
    e = oc_json_with(e, "code", json_null());
    return oc_json_with(json_object(), "error", e);
}

static json_t *openai_row(const oc_result_style *style, const oc_request *q, const oc_answer *a) {
    char id[64], request[64];
    (void)snprintf(id, sizeof id, "%s%" PRIu64, row_id, q->index);
    (void)snprintf(request, sizeof request, "req_%" PRIu64, q->index);
    json_t *o = oc_json_with(json_object(), "id", json_string(id));
    o = oc_json_with(o, "custom_id",
                     q->custom_id != NULL ? json_string(q->custom_id) : json_null());
    json_t *r =
        oc_json_with(json_object(), "status_code", json_integer(q->error != NULL ? 400 : 200));
    r = oc_json_with(r, "request_id", json_string(request));
    r = oc_json_with(r, "body", q->error != NULL ? refusal_of(q) : body_of(style, q, a));
    o = oc_json_with(o, "response", r);
    return oc_json_with(o, "error", json_null());
}

oc_status oc_result_row(char **out, size_t *n, const oc_result_style *style, const oc_request *q,
                        const oc_answer *a, oc_error *err) {
    json_t *row = q->form == OC_REQUEST_PLAIN ? plain_row(style, q, a) : openai_row(style, q, a);
    size_t digits = a != NULL && a->scored ? 17 : 9;
    size_t flags = JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(digits);
    char *text = row != NULL ? oc_json_dump(row, flags) : NULL;
    json_decref(row);
    *out = NULL;
    size_t m = text != NULL ? strlen(text) : 0;
    char *grown = text != NULL ? realloc(text, m + 2) : NULL;
    if (grown == NULL) {
        free(text);
        return oc_fail(err, OC_E_MEMORY, "no memory for the answer to row %" PRIu64, q->index);
    }
    memcpy(grown + m, "\n", 2);
    *out = grown;
    *n = m + 1;
    return OC_OK;
}

/* ---- and back ---- */

static bool index_of(const json_t *row, uint64_t *index) {
    const json_t *number = json_object_get(row, "index");
    const char *id = json_string_value(json_object_get(row, "id"));
    char *end;
    if (json_is_integer(number) && json_integer_value(number) >= 0) {
        *index = (uint64_t)json_integer_value(number);
        return json_object_get(row, "text") != NULL || json_object_get(row, "error") != NULL ||
               json_object_get(row, "log_likelihood") != NULL;
    }
    if (id == NULL || strncmp(id, row_id, sizeof row_id - 1) != 0) return false;
    const char *digits = id + sizeof row_id - 1;
    *index = strtoull(digits, &end, 10);
    return *digits >= '0' && *digits <= '9' && *end == 0 &&
           json_is_object(json_object_get(row, "response"));
}

bool oc_result_index(const char *text, size_t n, uint64_t *index) {
    json_t *row = oc_json_of(text, n, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);
    bool known = json_is_object(row) && index_of(row, index);
    json_decref(row);
    return known;
}
