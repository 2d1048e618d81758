/* requests.c - a batch file row by row. */
#include "infer/requests.h"

#include "base/json.h"
#include "infer/request.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROW_BYTES = 16 << 20, PLACE_BYTES = 32 };

/* ---- life ---- */

static bool is_standard(const oc_requests_spec *spec) { return strcmp(spec->path, "-") == 0; }

static oc_status open_lines(oc_requests *r, oc_error *err) {
    size_t most = r->spec.max_row_bytes;
    r->index = r->at = 0;
    OC_TRY(is_standard(&r->spec) ? oc_lines_open_fd(&r->in, STDIN_FILENO, r->name, err)
                                 : oc_lines_open(&r->in, r->name, err));
    r->open = true;
    oc_lines_limit(&r->in, most > 0 ? most : ROW_BYTES);
    return oc_lines_is_array(&r->in, &r->array, err);
}

oc_status oc_requests_open(oc_requests **out, const oc_requests_spec *spec, oc_error *err) {
    oc_requests *r = calloc(1, sizeof *r);
    *out = NULL;
    if (r == NULL) return oc_fail(err, OC_E_MEMORY, "%s: no memory to read it", spec->path);
    r->spec = *spec;
    r->name = is_standard(spec) ? "standard input" : spec->path;
    r->where_bytes = strlen(r->name) + PLACE_BYTES;
    r->where = malloc(r->where_bytes);
    oc_status s = r->where != NULL ? open_lines(r, err)
                                   : oc_fail(err, OC_E_MEMORY, "%s: no memory to read it", r->name);
    if (s != OC_OK) {
        oc_requests_close(r);
        return s;
    }
    *out = r;
    return OC_OK;
}

void oc_requests_close(oc_requests *r) {
    if (r == NULL) return;
    if (r->open) oc_lines_close(&r->in);
    oc_chat_close(r->chat);
    oc_tokens_free(&r->tokens);
    free(r->where);
    free(r);
}

static void drop_stops(oc_request *r) {
    for (int32_t i = 0; i < r->n_stops; i++)
        free(r->stops[i]);
    free(r->stops);
    r->stops = NULL;
    r->n_stops = 0;
}

void oc_request_release(oc_request *r) {
    drop_stops(r);
    free(r->custom_id);
    free(r->ids);
    free(r->error);
    *r = (oc_request){.index = r->index};
}

static oc_status no_memory(const oc_requests *r, oc_error *err) {
    return oc_fail(err, OC_E_MEMORY, "%s: no memory for this row", r->where);
}

oc_status oc_request_set_stops(oc_request *r, const char *const *stops, int32_t n, oc_error *err) {
    drop_stops(r);
    if (n == 0) return OC_OK;
    r->stops = calloc((size_t)n, sizeof *r->stops);
    if (r->stops == NULL) return oc_fail(err, OC_E_MEMORY, "no memory for a stop");
    for (; r->n_stops < n; r->n_stops++) {
        r->stops[r->n_stops] = strdup(stops[r->n_stops]);
        if (r->stops[r->n_stops] == NULL) return oc_fail(err, OC_E_MEMORY, "no memory for a stop");
    }
    return OC_OK;
}

uint64_t oc_requests_unknown(const oc_requests *r, const char **first) {
    *first = r->unknown.count > 0 ? r->unknown.first : NULL;
    return r->unknown.count;
}

/* ---- prompts ---- */

oc_status oc_request_encode(const oc_tokenizer *t, const char *text, size_t n, oc_tokens *out,
                            oc_error *err) {
    OC_TRY(oc_tokenizer_encode(t, text, n, OC_SPECIAL_ADD, out, err));
    int32_t eos = oc_tokenizer_eos(t);
    /* added ones lie at 0 and n: of an empty text, a bos that is the eos too stays */
    bool added = out->n > 0 && out->starts[out->n - 1] == n && (n > 0 || out->n > 1);
    if (added && eos >= 0 && out->ids[out->n - 1] == eos) out->n--;
    return OC_OK;
}

oc_status oc_request_need_tokenizer(const oc_requests *r, oc_error *err) {
    if (r->spec.tokenizer != NULL) return OC_OK;
    return oc_fail(err, OC_E_INVALID,
                   "%s: the row is text, and there is no tokenizer: give --tokenizer DIR, or rows "
                   "of input_ids",
                   r->where);
}

static oc_status check_length(const oc_requests *r, oc_request *out, size_t n, oc_error *err) {
    int32_t most = r->spec.max_positions;
    if (n == 0)
        return oc_fail(err, OC_E_INVALID,
                       "%s: the prompt is empty, and the tokenizer puts nothing before it: there "
                       "is nothing to go on from",
                       r->where);
    if (n > INT32_MAX || (most > 0 && n >= (size_t)most))
        return oc_fail(err, OC_E_INVALID,
                       "%s: the prompt has %zu tokens, and a sequence at most %" PRId32
                       ": nothing is left for an answer",
                       r->where, n, most > 0 ? most : INT32_MAX);
    int32_t left = most > 0 ? most - (int32_t)n : INT32_MAX - (int32_t)n;
    if (out->max_tokens > left) out->max_tokens = left;
    return OC_OK;
}

oc_status oc_request_check_ids(const oc_requests *r, const int32_t *ids, size_t n, oc_error *err) {
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= r->spec.vocab)
            return oc_fail(err, OC_E_INVALID,
                           "%s: token id %" PRId32 " is not in the model's vocabulary [0, %" PRId32
                           ")",
                           r->where, ids[i], r->spec.vocab);
    return OC_OK;
}

static oc_status take_tokens(oc_requests *r, oc_request *out, oc_error *err) {
    size_t n = r->tokens.n;
    OC_TRY(check_length(r, out, n, err));
    OC_TRY(oc_request_check_ids(r, r->tokens.ids, n, err));
    out->ids = malloc(n * sizeof *out->ids);
    if (out->ids == NULL) return no_memory(r, err);
    memcpy(out->ids, r->tokens.ids, n * sizeof *out->ids);
    out->n_ids = (int32_t)n;
    return OC_OK;
}

static oc_status take_text(oc_requests *r, const json_t *text, oc_request *out, oc_error *err) {
    OC_TRY(oc_request_need_tokenizer(r, err));
    oc_status s = oc_request_encode(r->spec.tokenizer, json_string_value(text),
                                    json_string_length(text), &r->tokens, err);
    if (s != OC_OK) return oc_error_prefix(err, s, "%s", r->where);
    return take_tokens(r, out, err);
}

static oc_status take_ids(oc_requests *r, const char *key, const json_t *list, oc_request *out,
                          oc_error *err) {
    size_t n = json_array_size(list);
    if (!json_is_array(list))
        return oc_fail(err, OC_E_FORMAT, "%s: \"%s\" is %s, not a list of token ids", r->where, key,
                       oc_json_type_name(list));
    OC_TRY(check_length(r, out, n, err));
    out->ids = malloc(n * sizeof *out->ids);
    if (out->ids == NULL) return no_memory(r, err);
    for (size_t i = 0; i < n; i++) {
        const json_t *x = json_array_get(list, i);
        json_int_t id = json_integer_value(x);
        if (!json_is_integer(x) || id < INT32_MIN || id > INT32_MAX)
            return oc_fail(err, OC_E_FORMAT, "%s: \"%s\"[%zu] is no token id", r->where, key, i);
        out->ids[i] = (int32_t)id;
    }
    out->n_ids = (int32_t)n;
    return oc_request_check_ids(r, out->ids, n, err);
}

/* ---- conversations ---- */

static oc_status render(oc_requests *r, const oc_conversation *x, oc_rendered *out, oc_error *err) {
    size_t lost;
    if (r->chat == NULL) OC_TRY(oc_chat_open(&r->chat, r->spec.tokenizer, err));
    OC_TRY(oc_chat_lost(r->chat, x, &lost, err));
    return oc_chat_render(r->chat, x, true, out, err);
}

static oc_status converse(oc_requests *r, const json_t *row, json_t *messages, oc_rendered *out,
                          oc_error *err) {
    json_t *variables = json_object_get(row, "chat_template_kwargs"), *tools = NULL;
    bool system = false;
    if (variables != NULL && !json_is_object(variables) && !json_is_null(variables))
        return oc_fail(err, OC_E_FORMAT, "%s: \"chat_template_kwargs\" is %s, not an object",
                       r->where, oc_json_type_name(variables));
    OC_TRY(oc_convert_system(row, r->where, messages, &system, err));
    OC_TRY(oc_convert_tools(row, r->where, &tools, err));
    oc_conversation x = {messages, tools, json_is_object(variables) ? variables : NULL, system,
                         false};
    oc_status s = render(r, &x, out, err);
    json_decref(tools);
    return s == OC_OK ? s : oc_error_prefix(err, s, "%s", r->where);
}

oc_status oc_request_render(oc_requests *r, const json_t *row, const char *key, oc_rendered *out,
                            oc_error *err) {
    OC_TRY(oc_request_need_tokenizer(r, err));
    oc_status s = oc_chat_check(json_object_get(row, key), key, err);
    if (s != OC_OK) return oc_error_prefix(err, s, "%s", r->where);
    json_t *messages = json_copy(json_object_get(row, key)); /* a system message may come before */
    if (messages == NULL) return no_memory(r, err);
    s = converse(r, row, messages, out, err);
    json_decref(messages);
    return s;
}

static oc_status take_messages(oc_requests *r, const json_t *row, const char *key, oc_request *out,
                               oc_error *err) {
    oc_rendered text = {.text = NULL};
    OC_TRY(oc_request_render(r, row, key, &text, err));
    oc_status s =
        oc_tokenizer_encode(r->spec.tokenizer, text.text, text.n, OC_SPECIAL_NONE, &r->tokens, err);
    oc_rendered_free(&text);
    if (s != OC_OK) return oc_error_prefix(err, s, "%s", r->where);
    return take_tokens(r, out, err);
}

/* ---- forms ---- */

bool oc_request_has(const json_t *row, const char *key) {
    const json_t *v = json_object_get(row, key);
    return v != NULL && !json_is_null(v);
}

/* A text, a list of ids, or (as TRL has it) a list of messages. */
static oc_status take_prompt(oc_requests *r, const json_t *row, oc_request *out, oc_error *err) {
    const json_t *prompt = json_object_get(row, "prompt"), *first = json_array_get(prompt, 0);
    if (json_is_string(prompt)) return take_text(r, prompt, out, err);
    if (json_is_object(first) && out->form == OC_REQUEST_PLAIN)
        return take_messages(r, row, "prompt", out, err);
    if (json_is_string(first) || json_is_array(first))
        return oc_fail(err, OC_E_UNSUPPORTED,
                       "%s: \"prompt\" is a list of prompts: give a row to each", r->where);
    if (json_is_array(prompt)) return take_ids(r, "prompt", prompt, out, err);
    return oc_fail(err, OC_E_FORMAT, "%s: \"prompt\" is %s, not a text", r->where,
                   oc_json_type_name(prompt));
}

static oc_status check_beside(const oc_requests *r, const json_t *row, oc_error *err) {
    static const char *const talk[] = {"system", "system_prompt", "tools", "functions",
                                       "chat_template_kwargs"};
    if (oc_request_has(row, "messages") ||
        json_is_object(json_array_get(json_object_get(row, "prompt"), 0)))
        return OC_OK;
    for (size_t i = 0; i < sizeof talk / sizeof *talk; i++)
        if (oc_request_has(row, talk[i]))
            return oc_fail(err, OC_E_INVALID, "%s: \"%s\" goes with \"messages\"", r->where,
                           talk[i]);
    return OC_OK;
}

static oc_status take_plain(oc_requests *r, const json_t *row, oc_request *out, oc_error *err) {
    static const char *const forms[] = {"prompt", "messages", "input_ids"};
    const char *form = NULL;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (!oc_request_has(row, forms[i])) continue;
        if (form != NULL)
            return oc_fail(err, OC_E_INVALID, "%s: the row has \"%s\" and \"%s\": give one",
                           r->where, form, forms[i]);
        form = forms[i];
    }
    if (form == NULL)
        return oc_fail(
            err, OC_E_INVALID,
            "%s: a row is {\"prompt\"}, {\"messages\"}, {\"input_ids\"}, or {\"custom_id\", "
            "\"method\", \"url\", \"body\"}",
            r->where);
    OC_TRY(oc_request_take_keys(out, row, OC_PLACE_PLAIN, &r->unknown, r->where, err));
    OC_TRY(check_beside(r, row, err));
    if (form == forms[0]) return take_prompt(r, row, out, err);
    if (form == forms[1]) return take_messages(r, row, "messages", out, err);
    return take_ids(r, "input_ids", json_object_get(row, "input_ids"), out, err);
}

static bool is_text(const json_t *v, const char *text) {
    return json_is_string(v) && json_string_length(v) == strlen(text) &&
           memcmp(json_string_value(v), text, strlen(text)) == 0;
}

static oc_status find_form(const oc_requests *r, const json_t *row, oc_request_form *out,
                           oc_error *err) {
    const json_t *url = json_object_get(row, "url"), *method = json_object_get(row, "method");
    if (is_text(url, "/v1/chat/completions"))
        *out = OC_REQUEST_CHAT_COMPLETION;
    else if (is_text(url, "/v1/completions"))
        *out = OC_REQUEST_COMPLETION;
    else
        return oc_fail(err, OC_E_UNSUPPORTED,
                       "%s: \"url\" is %s%.60s%s: known are /v1/chat/completions and "
                       "/v1/completions",
                       r->where, json_is_string(url) ? "\"" : "",
                       json_is_string(url) ? json_string_value(url)
                       : url != NULL       ? oc_json_type_name(url)
                                           : "missing",
                       json_is_string(url) ? "\"" : "");
    if (is_text(method, "POST")) return OC_OK;
    return oc_fail(err, OC_E_INVALID, "%s: \"method\" must be \"POST\"", r->where);
}

static oc_status take_openai(oc_requests *r, const json_t *row, oc_request *out, oc_error *err) {
    const json_t *body = json_object_get(row, "body");
    OC_TRY(find_form(r, row, &out->form, err));
    r->form = out->form;
    bool chat = out->form == OC_REQUEST_CHAT_COMPLETION;
    if (out->custom_id == NULL)
        return oc_fail(err, OC_E_INVALID, "%s: the row has no \"custom_id\"", r->where);
    if (!json_is_object(body))
        return oc_fail(err, OC_E_FORMAT, "%s: \"body\" is %s, not an object", r->where,
                       body != NULL ? oc_json_type_name(body) : "missing");
    if (!oc_request_has(body, chat ? "messages" : "prompt"))
        return oc_fail(err, OC_E_INVALID, "%s: the body has no \"%s\"", r->where,
                       chat ? "messages" : "prompt");
    OC_TRY(oc_request_take_keys(out, body, chat ? OC_PLACE_CHAT : OC_PLACE_COMPLETION, &r->unknown,
                                r->where, err));
    return chat ? take_messages(r, body, "messages", out, err) : take_prompt(r, body, out, err);
}

static oc_status take_id(const oc_requests *r, const json_t *row, oc_request *out, oc_error *err) {
    const json_t *id = json_object_get(row, "custom_id");
    if (id == NULL || json_is_null(id)) return OC_OK;
    if (!json_is_string(id) || strlen(json_string_value(id)) != json_string_length(id))
        return oc_fail(err, OC_E_INVALID, "%s: \"custom_id\" is no text%s", r->where,
                       json_is_string(id) ? " without U+0000" : "");
    out->custom_id = strdup(json_string_value(id));
    return out->custom_id != NULL ? OC_OK : no_memory(r, err);
}

static oc_status take_row(oc_requests *r, const json_t *row, oc_request *out, oc_error *err) {
    if (!json_is_object(row))
        return oc_fail(err, OC_E_FORMAT, "%s: the row is %s, not an object", r->where,
                       oc_json_type_name(row));
    bool openai =
        oc_request_has(row, "body") || oc_request_has(row, "url") || oc_request_has(row, "method");
    if (!openai) out->form = OC_REQUEST_PLAIN;
    OC_TRY(take_id(r, row, out, err));
    if (r->spec.pairs) return oc_request_take_pair(r, row, out, err);
    return openai ? take_openai(r, row, out, err) : take_plain(r, row, out, err);
}

/* ---- the file ---- */

static bool is_blank(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (s[i] != ' ' && s[i] != '\t' && s[i] != '\r') return false;
    return true;
}

/* The text of the next row. *s: of a row that was read past for its length, told in *row_err. */
static oc_status next_text(oc_requests *r, const char **text, size_t *n, uint64_t *line, bool *more,
                           oc_status *s, oc_error *err) {
    do {
        *s = r->array ? oc_lines_element(&r->in, text, n, line, more, err)
                      : oc_lines_next(&r->in, text, n, more, err);
        if (*s != OC_OK && !r->in.too_long) return *s;
        if (*s == OC_OK && !*more) return OC_OK;
        r->at++;
        if (*s != OC_OK) {
            *more = true;
            return oc_lines_pass(&r->in, *s == OC_OK ? err : NULL);
        }
    } while (!r->array && is_blank(*text, *n));
    if (!r->array) *line = r->at;
    return OC_OK;
}

static oc_status begin(oc_requests *r, oc_request *out, oc_error *err) {
    *out = (oc_request){.index = r->index++,
                        .form = r->form,
                        .max_tokens = r->spec.max_tokens,
                        .sampling = r->spec.sampling,
                        .logprobs = r->spec.logprobs,
                        .ignore_eos = r->spec.ignore_eos};
    (void)snprintf(r->where, r->where_bytes, "%s%s%" PRIu64, r->name, r->array ? ": row " : ":",
                   r->at);
    return oc_request_set_stops(out, r->spec.stops, r->spec.n_stops, err);
}

/* What the row is to blame for stays with it. */
static oc_status keep_error(const oc_requests *r, oc_request *out, oc_status s, const oc_error *why,
                            oc_error *err) {
    if (s == OC_E_MEMORY || s == OC_E_IO || s == OC_E_SYSTEM) {
        if (err != NULL) *err = *why;
        return s;
    }
    free(out->ids);
    out->ids = NULL;
    out->n_ids = 0;
    out->error = strdup(why->message);
    return out->error != NULL ? OC_OK : no_memory(r, err);
}

static oc_status take_line(oc_requests *r, const char *text, size_t n, uint64_t line,
                           oc_request *out, oc_error *err) {
    json_t *row = NULL;
    OC_TRY(oc_json_parse(&row, text, n, r->name, line, OC_JSON_ALLOW_NUL, err));
    oc_status s = take_row(r, row, out, err);
    json_decref(row);
    return s;
}

oc_status oc_requests_next(oc_requests *r, oc_request *out, bool *more, oc_error *err) {
    const char *text;
    size_t n;
    uint64_t line = 0;
    oc_status row = OC_OK;
    oc_error why = {.status = OC_OK};
    *out = (oc_request){.index = r->index};
    *more = false;
    oc_status s = next_text(r, &text, &n, &line, more, &row, &why);
    if (s != OC_OK) {
        *more = false;
        if (err != NULL) *err = why;
        return s;
    }
    if (!*more) return OC_OK;
    s = begin(r, out, err);
    if (s == OC_OK && row == OC_OK)
        row = take_line(r, text, n, line, out, &why);
    else if (row == OC_E_MEMORY)
        row = OC_E_INVALID; /* too long is the row's own fault */
    if (s == OC_OK && row != OC_OK) s = keep_error(r, out, row, &why, err);
    if (s != OC_OK) {
        oc_request_release(out);
        *more = false;
    }
    return s;
}

oc_status oc_requests_skip(oc_requests *r, uint64_t n, oc_error *err) {
    const char *text;
    size_t bytes;
    uint64_t line, done = 0;
    bool more = true;
    oc_status row;
    while (done < n) {
        OC_TRY(next_text(r, &text, &bytes, &line, &more, &row, err));
        if (!more)
            return oc_fail(err, OC_E_INVALID,
                           "%s has %" PRIu64 " rows, and %" PRIu64 " are answered: it is not the "
                           "file that was begun with",
                           r->name, done, n);
        done++;
        r->index++;
    }
    return OC_OK;
}

/* ---- a first look ---- */

static void count(oc_requests_survey *x, const oc_request *q) {
    int32_t total = q->n_ids + q->max_tokens;
    x->rows++;
    if (q->error != NULL) {
        x->errors++;
        return;
    }
    double good = (double)(x->rows - x->errors);
    if (q->n_ids > x->longest_prompt) x->longest_prompt = q->n_ids;
    if (total > x->longest_total) x->longest_total = total;
    x->mean_prompt += ((double)q->n_ids - x->mean_prompt) / good;
    x->mean_total += ((double)total - x->mean_total) / good;
}

static oc_status look(oc_requests *r, uint64_t most, oc_requests_survey *x, oc_error *err) {
    bool more = true;
    while (x->rows < most) {
        oc_request q;
        OC_TRY(oc_requests_next(r, &q, &more, err));
        x->whole = !more;
        if (!more) return OC_OK;
        count(x, &q);
        oc_request_release(&q);
    }
    return OC_OK;
}

/* An oc_requests of its own: opening one reads, so that standard input must not even be opened. */
oc_status oc_requests_survey_file(const oc_requests_spec *spec, uint64_t most,
                                  oc_requests_survey *out, oc_error *err) {
    oc_requests *r = NULL;
    *out = (oc_requests_survey){0};
    if (is_standard(spec)) return OC_OK;
    OC_TRY(oc_requests_open(&r, spec, err));
    oc_status s = look(r, most, out, err);
    oc_requests_close(r);
    return s;
}
