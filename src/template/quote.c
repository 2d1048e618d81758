/* quote.c - whose words a conversation's strings are. */
#include "template/internal.h"

static bool quote(oc_tpl *x, oc_tpl_value *v, size_t message);

/* The string with one mark over all of it. */
static bool quote_string(oc_tpl *x, oc_tpl_value *v, size_t message) {
    oc_tpl_str *s = oc_tpl_new(x, 1, sizeof *s);
    oc_tpl_mark *mark = oc_tpl_new(x, 1, sizeof *mark);
    if (!s || !mark) return false;
    *mark = (oc_tpl_mark){0, v->u.string->n, message, false, true};
    *s = *v->u.string;
    s->marks = mark;
    s->n_marks = 1;
    v->u.string = s;
    return true;
}

static bool quote_list(oc_tpl *x, oc_tpl_value *v, size_t message) {
    size_t n = v->u.list->n;
    oc_tpl_value *at = oc_tpl_new(x, n, sizeof *at);
    if (!at) return false;
    for (size_t i = 0; i < n; i++) {
        at[i] = v->u.list->at[i];
        if (!quote(x, &at[i], message)) return false;
    }
    return oc_tpl_sequence(x, (oc_tpl_kind)v->kind, at, n, v);
}

static bool quote_dict(oc_tpl *x, oc_tpl_dict *d, size_t message) {
    if (message == CONTEXT_MESSAGE) d->message = message;
    for (size_t i = 0; i < d->n; i++)
        if (!quote(x, &d->entries[i].value, message)) return false;
    return true;
}

/* JSON's values are trees; loading them has bounded their depth. */
static bool quote(oc_tpl *x, oc_tpl_value *v, size_t message) {
    switch (v->kind) {
    case TV_STRING:
        return v->u.string->n == 0 || quote_string(x, v, message);
    case TV_LIST:
        return quote_list(x, v, message);
    case TV_DICT:
        return quote_dict(x, v->u.dict, message);
    default:
        return true;
    }
}

/* An answer's words are its own but for what it holds of tools' responses. */
static bool quote_answer(oc_tpl *x, oc_tpl_dict *d, size_t message) {
    for (size_t i = 0; i < d->n; i++) {
        bool responses = oc_tpl_is(&d->entries[i].key, "tool_responses");
        if (!quote(x, &d->entries[i].value, responses ? CONTEXT_MESSAGE : message)) return false;
    }
    return true;
}

static bool number_message(oc_tpl *x, oc_tpl_dict *d, size_t i) {
    const oc_tpl_value *role = oc_tpl_dict_find(d, "role", 4);
    d->message = i;
    x->answers[i] = role && oc_tpl_is(role, "assistant");
    return x->answers[i] ? quote_answer(x, d, i) : quote_dict(x, d, i);
}

bool oc_tpl_number_messages(oc_tpl *x, const oc_tpl_value *messages) {
    if (messages->kind != TV_LIST) return true;
    const oc_tpl_list *l = messages->u.list;
    x->answers = oc_tpl_new(x, l->n, sizeof *x->answers);
    if (!x->answers) return false;
    x->n_answers = l->n;
    for (size_t i = 0; i < l->n; i++)
        if (l->at[i].kind == TV_DICT && !number_message(x, l->at[i].u.dict, i)) return false;
    return true;
}

bool oc_tpl_quote_result(oc_tpl *x, const oc_tpl_value *of, oc_tpl_value *made) {
    if (of->kind != TV_STRING || of->u.string->n_marks == 0 || !of->u.string->marks->quoted)
        return true;
    size_t message = of->u.string->marks->message;
    if (made->kind == TV_STRING)
        return made->u.string->n == 0 || made->u.string->n_marks > 0 ||
               quote_string(x, made, message);
    return made->kind != TV_LIST || quote_list(x, made, message);
}
