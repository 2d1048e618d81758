/* chat.c - conversations through a chat template. */
#include "data/chat.h"

#include "data/internal.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct oc_chat {
    oc_template *template, *with_tools; /* NULL: none */
    int64_t now;   /* of all renderings: they differ by what is in the conversation only */
    json_t *names; /* what every rendering sees */
    size_t bos_bytes, eos_bytes;
    char *bos, *eos;
};

/* ---- life ---- */

static oc_status no_memory(oc_error *err) {
    return oc_fail(err, OC_E_MEMORY, "no memory for a conversation");
}

/* The reference leaves a special token that there is none of undefined, so that a template may ask.
 */
static oc_status name_text(json_t *names, const char *name, const char *text, size_t n,
                           oc_error *err) {
    if (n == 0) return OC_OK;
    return json_object_set_new(names, name, json_stringn(text, n)) == 0 ? OC_OK : no_memory(err);
}

static oc_status name_token(json_t *names, const char *name, const oc_tokenizer *t, int32_t id,
                            oc_error *err) {
    char *text = NULL;
    size_t n = 0;
    if (id < 0) return OC_OK;
    OC_TRY(oc_tokenizer_decode(t, &id, 1, false, &text, &n, err));
    oc_status s = name_text(names, name, text, n, err);
    free(text);
    return s;
}

static oc_status set_names(oc_chat *c, const oc_tokenizer *t, oc_error *err) {
    const char *bos = oc_tokenizer_bos_text(t), *eos = oc_tokenizer_eos_text(t);
    c->names = json_pack("{s:n, s:n}", "tools", "documents");
    c->bos_bytes = strlen(bos);
    c->bos = strdup(bos);
    c->eos_bytes = strlen(eos);
    c->eos = strdup(eos);
    if (c->names == NULL || c->bos == NULL || c->eos == NULL) return no_memory(err);
    OC_TRY(name_text(c->names, "bos_token", bos, strlen(bos), err));
    OC_TRY(name_text(c->names, "eos_token", eos, strlen(eos), err));
    return name_token(c->names, "pad_token", t, oc_tokenizer_pad(t), err);
}

oc_status oc_chat_open(oc_chat **out, const oc_tokenizer *t, oc_error *err) {
    const char *text = oc_tokenizer_chat_template(t, false);
    const char *tools = oc_tokenizer_chat_template(t, true);
    *out = NULL;
    if (text == NULL && tools == NULL)
        return oc_fail(err, OC_E_NOTFOUND,
                       "the tokenizer has no chat template, which messages need: put a "
                       "chat_template.jinja beside tokenizer.json, or give rows of prompt and "
                       "completion text");
    oc_chat *c = calloc(1, sizeof *c);
    if (c == NULL) return no_memory(err);
    c->now = (int64_t)time(NULL);
    oc_status s =
        text != NULL ? oc_template_parse(&c->template, text, strlen(text), "the chat template", err)
                     : OC_OK;
    if (s == OC_OK && tools != text)
        s = oc_template_parse(&c->with_tools, tools, strlen(tools),
                              "the chat template \"tool_use\"", err);
    if (s == OC_OK) s = set_names(c, t, err);
    if (s != OC_OK) {
        oc_chat_close(c);
        return s;
    }
    *out = c;
    return OC_OK;
}

void oc_chat_close(oc_chat *c) {
    if (c == NULL) return;
    oc_template_close(c->template);
    oc_template_close(c->with_tools);
    json_decref(c->names);
    free(c->bos);
    free(c->eos);
    free(c);
}

/* ---- messages ---- */

static oc_status check_parts(const json_t *parts, const char *what, size_t i, oc_error *err) {
    for (size_t k = 0; k < json_array_size(parts); k++) {
        const json_t *part = json_array_get(parts, k);
        const json_t *type = json_object_get(part, "type");
        if (!json_is_string(type))
            return oc_fail(err, OC_E_FORMAT, "%s[%zu].content[%zu] has no \"type\"", what, i, k);
        if (!oc_text_is(type, "text"))
            return oc_fail(err, OC_E_UNSUPPORTED,
                           "%s[%zu].content[%zu] is of type \"%.40s\": only text is supported",
                           what, i, k, json_string_value(type));
        if (!json_is_string(json_object_get(part, "text")))
            return oc_fail(err, OC_E_FORMAT, "%s[%zu].content[%zu].text is %s, not a string", what,
                           i, k, oc_json_type_name(json_object_get(part, "text")));
    }
    return OC_OK;
}

/* What OpenAI's messages had before tool_calls. */
static oc_status check_function_call(const json_t *m, const char *what, size_t i, oc_error *err) {
    const json_t *call = oc_row_member(m, "function_call");
    if (call == NULL) return OC_OK;
    if (!json_is_string(json_object_get(call, "name")))
        return oc_fail(err, OC_E_FORMAT,
                       "%s[%zu].function_call is not {\"name\": a string, \"arguments\"}", what, i);
    if (json_array_size(json_object_get(m, "tool_calls")) == 0 && oc_chat_is_answer(m))
        return OC_OK;
    return oc_fail(err, OC_E_FORMAT,
                   "%s[%zu] has a function_call %s; say \"tool_calls\" in an assistant's message",
                   what, i, oc_chat_is_answer(m) ? "beside tool_calls" : "and is no assistant's");
}

static oc_status check_message(const json_t *m, const char *what, size_t i, oc_error *err) {
    if (!json_is_object(m))
        return oc_fail(err, OC_E_FORMAT, "%s[%zu] is %s, not an object with role and content", what,
                       i, oc_json_type_name(m));
    const json_t *role = json_object_get(m, "role"), *content = json_object_get(m, "content");
    if (!json_is_string(role))
        return oc_fail(err, OC_E_FORMAT, "%s[%zu].role is %s, not a string", what, i,
                       oc_json_type_name(role));
    OC_TRY(oc_keys_check_turn(m, what, i, err));
    OC_TRY(check_function_call(m, what, i, err));
    if (json_is_array(content)) return check_parts(content, what, i, err);
    bool calls = json_array_size(json_object_get(m, "tool_calls")) > 0 ||
                 oc_row_member(m, "function_call") != NULL;
    if (json_is_string(content) || (calls && (content == NULL || json_is_null(content))))
        return OC_OK;
    return oc_fail(err, OC_E_FORMAT, "%s[%zu].content is %s, not a string or a list of text parts",
                   what, i, oc_json_type_name(content));
}

oc_status oc_chat_check(const json_t *messages, const char *what, oc_error *err) {
    if (!json_is_array(messages))
        return oc_fail(err, OC_E_FORMAT, "\"%s\" is %s, not a list of messages", what,
                       oc_json_type_name(messages));
    if (json_array_size(messages) == 0)
        return oc_fail(err, OC_E_INVALID, "\"%s\" is empty: there is no message in it", what);
    for (size_t i = 0; i < json_array_size(messages); i++)
        OC_TRY(check_message(json_array_get(messages, i), what, i, err));
    return OC_OK;
}

bool oc_chat_is_answer(const json_t *m) {
    return oc_text_is(json_object_get(m, "role"), "assistant");
}

/* ---- what the template sees, as the reference has it ---- */

/* {"name", "arguments"} as the tool call that it stands for; takes over nothing. */
static json_t *tool_calls_of(json_t *call) {
    json_t *arguments = json_object_get(call, "arguments");
    return json_pack("[{s:s, s:{s:O, s:o}}]", "type", "function", "function", "name",
                     json_object_get(call, "name"), "arguments",
                     arguments != NULL ? json_incref(arguments) : json_object());
}

/* A copy without members that are null, where what a model thought goes by both of its names, and a
 * function_call is a tool call too. NULL: no memory. */
static json_t *seen(json_t *message) {
    json_t *thought = oc_row_member(message, "reasoning_content"), *out = json_object(), *value;
    const char *key;
    if (thought == NULL) thought = oc_row_member(message, "thinking");
    if (thought == NULL) thought = oc_row_member(message, "reasoning");
    bool made = out != NULL;
    if (thought != NULL) made = made && json_object_set(out, "thinking", thought) == 0;
    json_object_foreach(message, key, value) {
        if (json_is_null(value)) continue;
        made = made && json_object_set(out, key, value) == 0;
        if (strcmp(key, "function_call") == 0)
            made = made && json_object_set_new(out, "tool_calls", tool_calls_of(value)) == 0;
    }
    if (thought != NULL) made = made && json_object_set(out, "reasoning_content", thought) == 0;
    if (made) return out;
    json_decref(out);
    return NULL;
}

/* *out: the conversation as it is rendered; json_decref() its messages. */
static oc_status see(const oc_conversation *x, oc_conversation *out, oc_error *err) {
    json_t *messages = json_array();
    bool made = messages != NULL;
    for (size_t i = 0; made && i < json_array_size(x->messages); i++)
        made = json_array_append_new(messages, seen(json_array_get(x->messages, i))) == 0;
    *out = *x;
    out->messages = messages;
    if (made) return OC_OK;
    json_decref(messages);
    return no_memory(err);
}

/* ---- rendering ---- */

/* With tools, and null is none, as the reference chooses. */
static oc_status choose(const oc_chat *c, const oc_conversation *x, const oc_template **out,
                        oc_error *err) {
    bool tools = x->tools != NULL && !json_is_null(x->tools);
    *out = tools && c->with_tools != NULL ? c->with_tools : c->template;
    if (*out != NULL) return OC_OK;
    return oc_fail(err, OC_E_NOTFOUND,
                   "the tokenizer's only chat template is \"tool_use\", for conversations with "
                   "tools; this one has none, and needs one named \"default\"");
}

static oc_status render(const oc_chat *c, const oc_conversation *x, json_t *messages,
                        bool generation_prompt, oc_rendered *out, oc_error *err) {
    const oc_template *template;
    OC_TRY(choose(c, x, &template, err));
    json_t *names = json_copy(c->names);
    bool named =
        names != NULL && json_object_set(names, "messages", messages) == 0 &&
        json_object_set_new(names, "add_generation_prompt", json_boolean(generation_prompt)) == 0;
    if (named && x->tools != NULL) named = json_object_set(names, "tools", x->tools) == 0;
    if (named && x->variables != NULL) named = json_object_update_missing(names, x->variables) == 0;
    oc_status s =
        named ? oc_template_render(template, names, NULL, &c->now, out, err) : no_memory(err);
    json_decref(names);
    return s;
}

oc_status oc_chat_render(const oc_chat *c, const oc_conversation *x, bool generation_prompt,
                         oc_rendered *out, oc_error *err) {
    oc_conversation all;
    *out = (oc_rendered){.text = NULL};
    OC_TRY(see(x, &all, err));
    oc_status s = render(c, &all, all.messages, generation_prompt, out, err);
    json_decref(all.messages);
    return s;
}

static size_t common(const char *a, size_t n, const char *b, size_t m) {
    size_t k = 0;
    while (k < n && k < m && a[k] == b[k])
        k++;
    return k;
}

/* A conversation with what asks for an answer behind it. What that is begins where the last message
 * ended, or, where a template writes it inside its loop, where the text without it differs. Neither
 * is right for all: a template that writes eos when it is not asked has "<|" in common, say. */
typedef struct opening {
    oc_rendered with;
    size_t ended, differs;
} opening;

static oc_status open_answer(const oc_chat *c, const oc_conversation *x, json_t *messages,
                             opening *out, oc_error *err) {
    oc_rendered without = {.text = NULL};
    *out = (opening){.ended = 0};
    OC_TRY(render(c, x, messages, false, &without, err));
    oc_status s = render(c, x, messages, true, &out->with, err);
    if (s == OC_OK) {
        size_t n = without.n_runs;
        out->differs = common(without.text, without.n, out->with.text, out->with.n);
        out->ended = n > 0 && without.runs[n - 1].end < out->differs ? without.runs[n - 1].end
                                                                     : out->differs;
    }
    oc_rendered_free(&without);
    return s;
}

/* Before message i; some templates render no conversation that stops there (an empty one, one
 * without a user): then what opens an answer to the whole one. */
static oc_status opening_at(const oc_chat *c, const oc_conversation *x, size_t i, opening *out,
                            oc_error *err) {
    json_t *before = json_array();
    bool made = before != NULL;
    for (size_t k = 0; made && k < i; k++)
        made = json_array_append(before, json_array_get(x->messages, k)) == 0;
    oc_status s = made ? OC_OK : no_memory(err);
    if (made && i > 0) s = open_answer(c, x, before, out, NULL);
    json_decref(before);
    if (made && (i == 0 || (s != OC_OK && s != OC_E_MEMORY)))
        s = open_answer(c, x, x->messages, out, err);
    else if (s == OC_E_MEMORY)
        s = no_memory(err);
    return s;
}

/* ---- marking ---- */

static bool push(oc_chat_text *t, size_t begin, size_t end) {
    if (begin >= end) return true;
    oc_chat_span *last = t->n_trained > 0 ? &t->trained[t->n_trained - 1] : NULL;
    if (last != NULL && last->end == begin) {
        last->end = end;
        return true;
    }
    if ((t->n_trained & (t->n_trained - 1)) == 0) { /* room is the next power of two */
        size_t room = t->n_trained == 0 ? 1 : 2 * t->n_trained;
        oc_chat_span *grown = realloc(t->trained, room * sizeof *grown);
        if (grown == NULL) return false;
        t->trained = grown;
    }
    t->trained[t->n_trained++] = (oc_chat_span){begin, end};
    return true;
}

/* A header that opens a thought ends before it: thoughts are the answer's, as in TRL, also where
 * the template begins them for the model. */
static size_t before_thought(const char *text, size_t header) {
    static const char opens[] = "<think>";
    const char *at = memmem(text, header, opens, sizeof opens - 1);
    return at != NULL ? (size_t)(at - text) : header;
}

/* Where in its run the answer begins: behind the header, and behind a bos that opens the text. */
static size_t header(const oc_chat *c, const oc_rendered *r, const oc_render_run *run,
                     const opening *o) {
    const char *text = r->text + run->begin;
    size_t have = run->end - run->begin, skip = 0;
    if (run->begin == 0 && c->bos_bytes > 0 && have >= c->bos_bytes &&
        memcmp(text, c->bos, c->bos_bytes) == 0)
        skip = c->bos_bytes;
    text += skip;
    have -= skip;
    size_t a = common(text, have, o->with.text + o->ended, o->with.n - o->ended);
    size_t b = common(text, have, o->with.text + o->differs, o->with.n - o->differs);
    return run->begin + skip + before_thought(text, a > b ? a : b);
}

static oc_status mark_message(const oc_chat *c, const oc_conversation *x, size_t i,
                              oc_chat_text *out, oc_error *err) {
    const oc_rendered *r = &out->rendered;
    size_t runs = 0;
    for (size_t k = 0; k < r->n_runs; k++) {
        const oc_render_run *run = &r->runs[k];
        if (run->message != i) continue;
        size_t begin = run->begin;
        if (runs++ == 0) {
            opening o;
            OC_TRY(opening_at(c, x, i, &o, err));
            begin = header(c, r, run, &o);
            oc_rendered_free(&o.with);
        }
        if (!push(out, begin, run->end)) return no_memory(err);
    }
    if (runs > 0) return OC_OK;
    return oc_fail(err, OC_E_UNSUPPORTED,
                   "the chat template does not tell which text is messages[%zu], an answer to "
                   "train on: put it between {%% generation %%} and {%% endgeneration %%} in the "
                   "template",
                   i);
}

/* Whether message i is trained, as far as it says so. */
static oc_status wanted(const oc_conversation *x, size_t i, bool *out, oc_error *err) {
    oc_trained t;
    OC_TRY(oc_keys_trained(json_array_get(x->messages, i), "messages", i, &t, err));
    *out = t.trained;
    return OC_OK;
}

/* The template's word counts, whatever it calls the role. A block outside of all messages, behind
 * the loop, goes with the message before it. */
static oc_status mark_blocks(const oc_conversation *x, size_t first, oc_chat_text *out,
                             oc_error *err) {
    const oc_rendered *r = &out->rendered;
    size_t blocks = 0, answers = 0, last = OC_RENDER_NOBODY;
    for (size_t i = first; i < json_array_size(x->messages); i++)
        answers += oc_chat_is_answer(json_array_get(x->messages, i));
    for (size_t k = 0; k < r->n_runs; k++) {
        const oc_render_run *run = &r->runs[k];
        bool trained = first == 0;
        if (run->message != OC_RENDER_NOBODY) last = run->message;
        if (!run->generation) continue;
        blocks++;
        if (last != OC_RENDER_NOBODY) OC_TRY(wanted(x, last, &trained, err));
        if (!trained || (last != OC_RENDER_NOBODY && last < first)) continue;
        if (!push(out, run->begin, run->end)) return no_memory(err);
    }
    if (blocks > 0 || answers == 0) return OC_OK;
    return oc_fail(err, OC_E_UNSUPPORTED,
                   "the {%% generation %%} blocks of the chat template hold nothing of this "
                   "conversation: they belong around what an assistant message writes");
}

/* ---- what the template does not write ---- */

enum { NOT_A_PART = -1 };

static const char changed[] = "\n0 zq";

/* A copy of message i with more behind its text, or behind the text of a part, or behind the name
 * of a call. NULL: no memory. */
static json_t *with_more(const json_t *text) {
    size_t n = json_string_length(text), m = sizeof changed - 1;
    char *all = malloc(n + m);
    if (all == NULL) return NULL;
    memcpy(all, json_string_value(text), n);
    memcpy(all + n, changed, m);
    json_t *out = json_stringn(all, n + m);
    free(all);
    return out;
}

static json_t *change_content(const json_t *m, int part) {
    json_t *copy = json_deep_copy(m), *holder = copy;
    const char *key = "content";
    if (part != NOT_A_PART) {
        holder = json_array_get(json_object_get(copy, key), (size_t)part);
        key = "text";
    }
    if (copy != NULL &&
        json_object_set_new(holder, key, with_more(json_object_get(holder, key))) == 0)
        return copy;
    json_decref(copy);
    return NULL;
}

static json_t *change_call(const json_t *m, size_t k) {
    json_t *copy = json_deep_copy(m), *old = json_object_get(copy, "function_call");
    json_t *call = json_array_get(json_object_get(copy, "tool_calls"), k);
    json_t *function = json_object_get(call, "function"), *in = function ? function : call;
    bool made = copy != NULL &&
                json_object_set_new(in, "name", with_more(json_object_get(in, "name"))) == 0;
    if (made && old != NULL) made = json_object_set(old, "name", json_object_get(in, "name")) == 0;
    if (made) return copy;
    json_decref(copy);
    return NULL;
}

/* Whether what is rendered stays the same with this in the place of message i; takes it over. */
static oc_status is_lost(const oc_chat *c, const oc_conversation *x, const oc_rendered *r, size_t i,
                         json_t *other, bool *lost, oc_error *err) {
    json_t *messages = json_copy(x->messages);
    oc_rendered with = {.text = NULL};
    *lost = false;
    if (other == NULL || messages == NULL || json_array_set(messages, i, other) != 0) {
        json_decref(other);
        json_decref(messages);
        return no_memory(err);
    }
    oc_status s = render(c, x, messages, false, &with, NULL);
    if (s == OC_OK) *lost = with.n == r->n && memcmp(with.text, r->text, r->n) == 0;
    oc_rendered_free(&with);
    json_decref(other);
    json_decref(messages);
    return s == OC_E_MEMORY ? no_memory(err) : OC_OK;
}

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Without the white space around it, which templates cut. */
static size_t trim(const char **s, size_t n) {
    while (n > 0 && is_space(**s)) {
        ++*s;
        n--;
    }
    while (n > 0 && is_space((*s)[n - 1]))
        n--;
    return n;
}

/* The quick way: the message's own part of the text holds it as it is. */
static bool is_written(const oc_rendered *r, size_t i, const char *text, size_t n) {
    for (size_t k = 0; k < r->n_runs; k++) {
        const oc_render_run *run = &r->runs[k];
        if (run->message == i && memmem(r->text + run->begin, run->end - run->begin, text, n))
            return true;
    }
    return false;
}

static oc_status lost_text(const oc_chat *c, const oc_conversation *x, const oc_rendered *r,
                           size_t i, int part, bool *lost, oc_error *err) {
    const json_t *m = json_array_get(x->messages, i), *text = json_object_get(m, "content");
    if (part != NOT_A_PART) text = json_object_get(json_array_get(text, (size_t)part), "text");
    const char *at = json_string_value(text);
    size_t n = at != NULL ? trim(&at, json_string_length(text)) : 0;
    *lost = false;
    if (n == 0 || is_written(r, i, at, n)) return OC_OK;
    return is_lost(c, x, r, i, change_content(m, part), lost, err);
}

/* The i-th message for people: the row's own counting. */
static oc_status refuse_text(const oc_conversation *x, size_t i, oc_error *err) {
    const json_t *role = json_object_get(json_array_get(x->messages, i), "role");
    char place[64] = "the row's system text";
    if (i >= x->added) (void)snprintf(place, sizeof place, "messages[%zu]", i - x->added);
    return oc_fail(
        err, OC_E_UNSUPPORTED,
        "the chat template writes nothing of %s, whose role is \"%.40s\": give it a role "
        "that the template knows, or --lost-messages drop to train without it",
        place, json_string_value(role));
}

static oc_status refuse_call(const oc_conversation *x, size_t i, size_t k, oc_error *err) {
    const json_t *m = json_array_get(x->messages, i);
    const json_t *call = json_array_get(json_object_get(m, "tool_calls"), k);
    const json_t *in = json_object_get(call, "function");
    const json_t *name = json_object_get(in != NULL ? in : call, "name");
    return oc_fail(
        err, OC_E_UNSUPPORTED,
        "the chat template writes nothing of messages[%zu].tool_calls[%zu] (%.40s)%s, "
        "whose role is \"%.40s\": it knows no tool calls, or not so many; --lost-messages drop "
        "trains without that message",
        i - x->added, k, json_string_value(name),
        json_object_get(m, "function_call") != NULL ? ", its function_call" : "",
        json_string_value(json_object_get(m, "role")));
}

/* Many templates know no tool calls and write nothing where they stand: then the model would learn
 * an empty answer. */
static oc_status lost_call(const oc_chat *c, const oc_conversation *x, const oc_rendered *r,
                           size_t i, bool *lost, oc_error *err) {
    const json_t *m = json_array_get(x->messages, i), *calls = json_object_get(m, "tool_calls");
    bool one = false;
    for (size_t k = 0; k < json_array_size(calls) && !one; k++) {
        const json_t *call = json_array_get(calls, k), *in = json_object_get(call, "function");
        const json_t *name = json_object_get(in != NULL ? in : call, "name");
        if (json_string_length(name) == 0) continue;
        OC_TRY(is_lost(c, x, r, i, change_call(m, k), &one, err));
        if (one && !x->drop_lost) return refuse_call(x, i, k, err);
    }
    *lost = *lost || one;
    return OC_OK;
}

static oc_status find_lost(const oc_chat *c, const oc_conversation *x, const oc_rendered *r,
                           size_t i, bool *lost, oc_error *err) {
    const json_t *content = json_object_get(json_array_get(x->messages, i), "content");
    bool one = false;
    *lost = false;
    if (json_is_string(content)) OC_TRY(lost_text(c, x, r, i, NOT_A_PART, &one, err));
    for (size_t k = 0; k < json_array_size(content) && !one; k++)
        OC_TRY(lost_text(c, x, r, i, (int)k, &one, err));
    if (one && !x->drop_lost) return refuse_text(x, i, err);
    *lost = one;
    return lost_call(c, x, r, i, lost, err);
}

/* x as the template sees it. lost[i], unless NULL: that message i is. */
static oc_status count_lost(const oc_chat *c, const oc_conversation *x, const oc_rendered *r,
                            bool *lost, size_t *count, oc_error *err) {
    *count = 0;
    for (size_t i = 0; i < json_array_size(x->messages); i++) {
        bool one = false;
        OC_TRY(find_lost(c, x, r, i, &one, err));
        *count += one;
        if (lost != NULL) lost[i] = one;
    }
    return OC_OK;
}

oc_status oc_chat_lost(const oc_chat *c, const oc_conversation *x, size_t *lost, oc_error *err) {
    oc_conversation all;
    oc_rendered r = {.text = NULL};
    *lost = 0;
    OC_TRY(see(x, &all, err));
    oc_status s = render(c, &all, all.messages, false, &r, err);
    if (s == OC_OK) s = count_lost(c, &all, &r, NULL, lost, err);
    oc_rendered_free(&r);
    json_decref(all.messages);
    return s;
}

/* ---- both ---- */

static int by_begin(const void *a, const void *b) {
    const oc_chat_span *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static oc_status mark_answers(const oc_chat *c, const oc_conversation *x, size_t first,
                              const bool *lost, oc_chat_text *out, oc_error *err) {
    for (size_t i = first; i < json_array_size(x->messages); i++) {
        bool trained = true;
        if (lost[i] || !oc_chat_is_answer(json_array_get(x->messages, i))) continue;
        OC_TRY(wanted(x, i, &trained, err));
        if (trained) OC_TRY(mark_message(c, x, i, out, err));
    }
    return OC_OK;
}

/* The answer that ends the text is trained to its end; NULL: none is. */
static const oc_render_run *last_answer(const oc_conversation *x, const oc_chat_text *out) {
    const oc_rendered *r = &out->rendered;
    if (r->n_runs == 0 || out->n_trained == 0) return NULL;
    const oc_render_run *last = &r->runs[r->n_runs - 1];
    bool ends = out->trained[out->n_trained - 1].end == last->end;
    return ends && last->message + 1 == json_array_size(x->messages) ? last : NULL;
}

/* What a template writes behind its loop where no answer is asked for, an end of the sequence,
 * closes the last answer and goes with it, as TRL has it; what stands there in any case does not.
 */
static oc_status mark_rest(const oc_chat *c, const oc_conversation *x, oc_chat_text *out,
                           oc_error *err) {
    const oc_rendered *r = &out->rendered;
    const oc_render_run *last = last_answer(x, out);
    opening o;
    if (last == NULL || last->end == r->n) return OC_OK;
    OC_TRY(open_answer(c, x, x->messages, &o, err));
    size_t left = r->n - last->end;
    bool always =
        common(r->text + last->end, left, o.with.text + o.ended, o.with.n - o.ended) == left;
    oc_rendered_free(&o.with);
    return always || push(out, last->end, r->n) ? OC_OK : no_memory(err);
}

static bool is_marked(const oc_rendered *r, size_t i) {
    for (size_t k = 0; k < r->n_runs; k++)
        if (r->runs[k].message == i && r->runs[k].generation) return true;
    return false;
}

/* ---- other turns that ask to be trained ---- */

/* The bytes of a that b does not begin or end with. */
static oc_chat_span difference(const oc_rendered *a, const oc_rendered *b) {
    size_t most = a->n < b->n ? a->n : b->n, begin = common(a->text, a->n, b->text, b->n), end = 0;
    while (end < most - begin && a->text[a->n - 1 - end] == b->text[b->n - 1 - end])
        end++;
    return (oc_chat_span){begin, a->n - end};
}

/* Where the text differs from one with these words alone in the place of message i. */
static oc_status differs(const oc_chat *c, const oc_conversation *x, size_t i, const char *words,
                         const oc_rendered *r, oc_chat_span *out, oc_error *err) {
    json_t *role = json_object_get(json_array_get(x->messages, i), "role");
    json_t *messages = json_copy(x->messages);
    oc_rendered with = {.text = NULL};
    bool made = messages != NULL &&
                json_array_set_new(messages, i,
                                   json_pack("{s:O, s:s}", "role", role, "content", words)) == 0;
    oc_status s = made ? render(c, x, messages, false, &with, err) : no_memory(err);
    if (s == OC_OK) *out = difference(r, &with);
    oc_rendered_free(&with);
    json_decref(messages);
    return s;
}

/* As axolotl finds a turn: two texts whose ends differ tell more than one, for what a text has in
 * common with the message is missing. */
static oc_status find_turn(const oc_chat *c, const oc_conversation *x, size_t i,
                           const oc_rendered *r, oc_chat_span *out, oc_error *err) {
    oc_chat_span a = {0, 0}, b = {0, 0};
    OC_TRY(differs(c, x, i, "[[dummy_message]]", r, &a, err));
    OC_TRY(differs(c, x, i, "zzdummymessagezz", r, &b, err));
    *out = (oc_chat_span){a.begin < b.begin ? a.begin : b.begin, a.end > b.end ? a.end : b.end};
    return OC_OK;
}

/* Its words, and the end of the sequence that stands behind them, or behind white space there. */
static oc_status mark_turn(const oc_chat *c, const oc_conversation *x, size_t i, oc_chat_text *out,
                           oc_error *err) {
    const oc_rendered *r = &out->rendered;
    oc_chat_span turn = {0, 0};
    OC_TRY(find_turn(c, x, i, r, &turn, err));
    if (turn.begin >= turn.end) return OC_OK;
    size_t at = turn.end;
    while (at < r->n && is_space(r->text[at]))
        at++;
    bool ended = c->eos_bytes > 0 && c->eos_bytes <= r->n - at &&
                 memcmp(r->text + at, c->eos, c->eos_bytes) == 0;
    bool made = push(out, turn.begin, turn.end) && (!ended || push(out, at, at + c->eos_bytes));
    return made ? OC_OK : no_memory(err);
}

/* axolotl trains any message whose key says so; in others' meaning only answers are. */
static oc_status mark_wishes(const oc_chat *c, const oc_conversation *x, size_t first,
                             oc_chat_text *out, oc_error *err) {
    for (size_t i = first; i < json_array_size(x->messages); i++) {
        const json_t *m = json_array_get(x->messages, i);
        oc_trained t;
        OC_TRY(oc_keys_trained(m, "messages", i - x->added, &t, err));
        if (!t.trained || t.by == NULL || oc_chat_is_answer(m) || is_marked(&out->rendered, i))
            continue;
        if (!t.of_any_role)
            return oc_fail(err, OC_E_UNSUPPORTED,
                           "messages[%zu].%s asks to train on a message of the role \"%.40s\": "
                           "only an assistant's are; \"train\" is for any, as in axolotl",
                           i - x->added, t.by, json_string_value(json_object_get(m, "role")));
        OC_TRY(mark_turn(c, x, i, out, err));
    }
    return OC_OK;
}

static oc_status mark(const oc_chat *c, const oc_conversation *x, size_t first, bool *lost,
                      oc_chat_text *out, oc_error *err) {
    OC_TRY(render(c, x, x->messages, false, &out->rendered, err));
    OC_TRY(count_lost(c, x, &out->rendered, lost, &out->lost, err));
    OC_TRY(out->rendered.has_generation ? mark_blocks(x, first, out, err)
                                        : mark_answers(c, x, first, lost, out, err));
    /* a template may write messages in another order */
    if (out->n_trained > 1) qsort(out->trained, out->n_trained, sizeof *out->trained, by_begin);
    if (!out->rendered.has_generation) OC_TRY(mark_rest(c, x, out, err));
    OC_TRY(mark_wishes(c, x, first, out, err));
    if (out->n_trained > 1) qsort(out->trained, out->n_trained, sizeof *out->trained, by_begin);
    return OC_OK;
}

oc_status oc_chat_mark(const oc_chat *c, const oc_conversation *x, size_t first, oc_chat_text *out,
                       oc_error *err) {
    oc_conversation all;
    *out = (oc_chat_text){.trained = NULL};
    OC_TRY(see(x, &all, err));
    bool *lost = calloc(json_array_size(all.messages) + 1, sizeof *lost);
    oc_status s = lost != NULL ? mark(c, &all, first, lost, out, err) : no_memory(err);
    free(lost);
    json_decref(all.messages);
    if (s != OC_OK) oc_chat_text_free(out);
    return s;
}

void oc_chat_text_free(oc_chat_text *t) {
    oc_rendered_free(&t->rendered);
    free(t->trained);
    *t = (oc_chat_text){.trained = NULL};
}

/* A token that begins before a span and reaches into it is trained, as in the reference library's
 * assistant masks. */
void oc_chat_label(const oc_chat_text *text, const oc_tokens *tokens, int32_t *labels) {
    size_t k = 0;
    for (size_t i = 0; i < tokens->n; i++) {
        size_t begin = tokens->starts[i];
        size_t end = i + 1 < tokens->n ? tokens->starts[i + 1] : text->rendered.n;
        if (end <= begin) end = begin + 1; /* one of several tokens of the same character */
        while (k < text->n_trained && text->trained[k].end <= begin)
            k++;
        bool in = k < text->n_trained && text->trained[k].begin < end;
        labels[i] = in ? tokens->ids[i] : OC_IGNORE;
    }
}
