#include "data/chat.h"

#include "base/json.h"

#include <stdlib.h>
#include <string.h>

enum { IGNORE = -100 };

struct oc_chat {
    oc_template *template;
    json_t *names; /* what every rendering sees */
    size_t bos_bytes;
    char *bos;
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
    if (c->names == NULL || c->bos == NULL) return no_memory(err);
    OC_TRY(name_text(c->names, "bos_token", bos, strlen(bos), err));
    OC_TRY(name_text(c->names, "eos_token", eos, strlen(eos), err));
    return name_token(c->names, "pad_token", t, oc_tokenizer_pad(t), err);
}

oc_status oc_chat_open(oc_chat **out, const oc_tokenizer *t, oc_error *err) {
    const char *text = oc_tokenizer_chat_template(t);
    *out = NULL;
    if (text == NULL)
        return oc_fail(err, OC_E_NOTFOUND,
                       "the tokenizer has no chat template, which messages need: put a "
                       "chat_template.jinja beside tokenizer.json, or give rows of prompt and "
                       "completion text");
    oc_chat *c = calloc(1, sizeof *c);
    if (c == NULL) return no_memory(err);
    oc_status s = oc_template_parse(&c->template, text, strlen(text), "the chat template", err);
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
    json_decref(c->names);
    free(c->bos);
    free(c);
}

/* ---- messages ---- */

static oc_status check_parts(const json_t *parts, const char *what, size_t i, oc_error *err) {
    for (size_t k = 0; k < json_array_size(parts); k++) {
        const json_t *part = json_array_get(parts, k);
        const char *type = json_string_value(json_object_get(part, "type"));
        if (type == NULL)
            return oc_fail(err, OC_E_FORMAT, "%s[%zu].content[%zu] has no \"type\"", what, i, k);
        if (strcmp(type, "text") != 0)
            return oc_fail(err, OC_E_UNSUPPORTED,
                           "%s[%zu].content[%zu] is of type \"%.40s\": only text is supported",
                           what, i, k, type);
        if (!json_is_string(json_object_get(part, "text")))
            return oc_fail(err, OC_E_FORMAT, "%s[%zu].content[%zu].text is %s, not a string", what,
                           i, k, oc_json_type_name(json_object_get(part, "text")));
    }
    return OC_OK;
}

static oc_status check_message(const json_t *m, const char *what, size_t i, oc_error *err) {
    if (!json_is_object(m))
        return oc_fail(err, OC_E_FORMAT, "%s[%zu] is %s, not an object with role and content", what,
                       i, oc_json_type_name(m));
    const json_t *role = json_object_get(m, "role"), *content = json_object_get(m, "content");
    if (!json_is_string(role))
        return oc_fail(err, OC_E_FORMAT, "%s[%zu].role is %s, not a string", what, i,
                       oc_json_type_name(role));
    if (json_is_array(content)) return check_parts(content, what, i, err);
    bool calls = json_array_size(json_object_get(m, "tool_calls")) > 0;
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

static bool is_answer(const json_t *m) {
    const char *role = json_string_value(json_object_get(m, "role"));
    return role != NULL && strcmp(role, "assistant") == 0;
}

/* An answer with "weight": 0 is context only. */
static oc_status weigh(const oc_conversation *x, size_t i, double *out, oc_error *err) {
    const json_t *w = json_object_get(json_array_get(x->messages, i), "weight");
    double weight = w == NULL || json_is_null(w) ? 1
                    : json_is_number(w)          ? json_number_value(w)
                                                 : -1;
    if (weight != 0 && weight != 1)
        return oc_fail(err, OC_E_INVALID,
                       "messages[%zu].weight must be 0 (not trained) or 1 (trained)", i);
    *out = weight;
    return OC_OK;
}

/* ---- what the template sees, as the reference has it ---- */

static json_t *present(const json_t *object, const char *key) {
    json_t *v = json_object_get(object, key);
    return json_is_null(v) ? NULL : v;
}

/* A copy without members that are null, where what a model thought goes by both of its names. NULL:
 * no memory. */
static json_t *seen(json_t *message) {
    json_t *thought = present(message, "reasoning_content"), *out = json_object(), *value;
    const char *key;
    if (thought == NULL) thought = present(message, "thinking");
    if (thought == NULL) thought = present(message, "reasoning");
    bool made = out != NULL;
    if (thought != NULL) made = made && json_object_set(out, "thinking", thought) == 0;
    json_object_foreach(message, key, value) {
        if (!json_is_null(value)) made = made && json_object_set(out, key, value) == 0;
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
    *out = (oc_conversation){messages, x->tools, x->variables};
    if (made) return OC_OK;
    json_decref(messages);
    return no_memory(err);
}

/* ---- rendering ---- */

static oc_status render(const oc_chat *c, const oc_conversation *x, json_t *messages,
                        bool generation_prompt, oc_rendered *out, oc_error *err) {
    json_t *names = json_copy(c->names);
    bool named =
        names != NULL && json_object_set(names, "messages", messages) == 0 &&
        json_object_set_new(names, "add_generation_prompt", json_boolean(generation_prompt)) == 0;
    if (named && x->tools != NULL) named = json_object_set(names, "tools", x->tools) == 0;
    if (named && x->variables != NULL) named = json_object_update_missing(names, x->variables) == 0;
    oc_status s =
        named ? oc_template_render(c->template, names, NULL, NULL, out, err) : no_memory(err);
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
    return run->begin + skip + (a > b ? a : b);
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

/* The template's word counts, whatever it calls the role. */
static oc_status mark_blocks(const oc_conversation *x, size_t first, oc_chat_text *out,
                             oc_error *err) {
    const oc_rendered *r = &out->rendered;
    size_t blocks = 0, answers = 0;
    for (size_t i = first; i < json_array_size(x->messages); i++)
        answers += is_answer(json_array_get(x->messages, i));
    for (size_t k = 0; k < r->n_runs; k++) {
        const oc_render_run *run = &r->runs[k];
        double weight = 1;
        if (!run->generation) continue;
        blocks++;
        OC_TRY(weigh(x, run->message, &weight, err));
        if (weight == 0 || run->message < first) continue;
        if (!push(out, run->begin, run->end)) return no_memory(err);
    }
    if (blocks > 0 || answers == 0) return OC_OK;
    return oc_fail(err, OC_E_UNSUPPORTED,
                   "the {%% generation %%} blocks of the chat template hold nothing of this "
                   "conversation: they belong around what an assistant message writes");
}

/* Many templates know no tool calls and write nothing where they stand: then the model would learn
 * an empty answer. */
static oc_status check_calls(const oc_conversation *x, const oc_rendered *r, oc_error *err) {
    for (size_t i = 0; i < json_array_size(x->messages); i++) {
        const json_t *calls = json_object_get(json_array_get(x->messages, i), "tool_calls");
        for (size_t k = 0; k < json_array_size(calls); k++) {
            const json_t *call = json_array_get(calls, k), *in = json_object_get(call, "function");
            const json_t *name = json_object_get(in != NULL ? in : call, "name");
            size_t n = json_string_length(name);
            if (n == 0 || memmem(r->text, r->n, json_string_value(name), n) != NULL) continue;
            return oc_fail(err, OC_E_UNSUPPORTED,
                           "the chat template writes nothing of messages[%zu].tool_calls[%zu] "
                           "(%.40s): it knows no tool calls",
                           i, k, json_string_value(name));
        }
    }
    return OC_OK;
}

static int by_begin(const void *a, const void *b) {
    const oc_chat_span *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static oc_status mark_answers(const oc_chat *c, const oc_conversation *x, size_t first,
                              oc_chat_text *out, oc_error *err) {
    for (size_t i = first; i < json_array_size(x->messages); i++) {
        double weight = 1;
        if (!is_answer(json_array_get(x->messages, i))) continue;
        OC_TRY(weigh(x, i, &weight, err));
        if (weight != 0) OC_TRY(mark_message(c, x, i, out, err));
    }
    return OC_OK;
}

static oc_status mark(const oc_chat *c, const oc_conversation *x, size_t first, oc_chat_text *out,
                      oc_error *err) {
    OC_TRY(render(c, x, x->messages, false, &out->rendered, err));
    OC_TRY(check_calls(x, &out->rendered, err));
    OC_TRY(out->rendered.has_generation ? mark_blocks(x, first, out, err)
                                        : mark_answers(c, x, first, out, err));
    /* a template may write messages in another order */
    if (out->n_trained > 1) qsort(out->trained, out->n_trained, sizeof *out->trained, by_begin);
    return OC_OK;
}

oc_status oc_chat_mark(const oc_chat *c, const oc_conversation *x, size_t first, oc_chat_text *out,
                       oc_error *err) {
    oc_conversation all;
    *out = (oc_chat_text){.trained = NULL};
    OC_TRY(see(x, &all, err));
    oc_status s = mark(c, &all, first, out, err);
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
        labels[i] = in ? tokens->ids[i] : IGNORE;
    }
}
