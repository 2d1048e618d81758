/* call.c - calls: arguments to parameters, and the functions a template is lent. */
#include "template/internal.h"

#include <string.h>
#include <time.h>

/* --- Arguments */

/* The next name of a comma-separated list, or false. */
static bool next_name(const char **at, const char **name, size_t *n) {
    if (!**at) return false;
    *name = *at;
    *n = strcspn(*at, ",");
    *at += *n + ((*at)[*n] == ',');
    return true;
}

static bool too_many(oc_tpl *x, const oc_tpl_entry_point *e, const char *what) {
    return oc_tpl_fail(x, OC_E_INVALID, "too many arguments for the %s '%s'", what, e->name);
}

static bool is_parameter(const oc_tpl_entry_point *e, const oc_tpl_value *name) {
    const char *at = e->parameters, *p;
    size_t n;
    while (next_name(&at, &p, &n))
        if (name->u.string->n == n && memcmp(name->u.string->at, p, n) == 0) return true;
    return false;
}

static bool known_keywords(oc_tpl *x, const oc_tpl_entry_point *e, const char *what,
                           const oc_tpl_call *call) {
    for (size_t i = 0; call->named && !e->rest && i < call->named->n; i++) {
        const oc_tpl_value *key = &call->named->entries[i].key;
        if (is_parameter(e, key)) continue;
        const oc_tpl_str *s = key->u.string;
        return oc_tpl_fail(x, OC_E_INVALID, "the %s '%s' has no argument '%.*s'", what, e->name,
                           s->n < 100 ? (int)s->n : 100, s->at);
    }
    return true;
}

bool oc_tpl_invoke(oc_tpl *x, const oc_tpl_entry_point *e, const char *what,
                   const oc_tpl_value *self, const oc_tpl_call *call, oc_tpl_value *out) {
    oc_tpl_value args[OC_TPL_MOST_ARGS] = {{0}};
    const char *at = e->parameters, *name;
    size_t n, used = 0;
    int i = 0;
    for (; next_name(&at, &name, &n) && i < OC_TPL_MOST_ARGS; i++) {
        const oc_tpl_value *named = call->named ? oc_tpl_dict_find(call->named, name, n) : NULL;
        if (i == 0 && self) {
            args[0] = *self;
        } else if (used < call->n) {
            if (named)
                return oc_tpl_fail(x, OC_E_INVALID, "the %s '%s' gets '%.*s' twice", what, e->name,
                                   (int)n, name);
            args[i] = call->at[used++];
        } else if (named) {
            args[i] = *named;
        } else if (i < e->required) {
            return oc_tpl_fail(x, OC_E_INVALID, "the %s '%s' needs the argument '%.*s'", what,
                               e->name, (int)n, name);
        }
    }
    if (used < call->n && !e->rest) return too_many(x, e, what);
    return known_keywords(x, e, what, call) && e->run(x, args, call, out) &&
           (!self || oc_tpl_quote_result(x, self, out));
}

const oc_tpl_entry_point *oc_tpl_find_entry(const oc_tpl_entry_point *const *tables,
                                            const char *name, size_t n) {
    for (; *tables; tables++)
        for (const oc_tpl_entry_point *e = *tables; e->name; e++)
            if (strlen(e->name) == n && memcmp(e->name, name, n) == 0) return e;
    return NULL;
}

const char *oc_tpl_nearest_entry(const oc_tpl_entry_point *const *tables, const char *name,
                                 size_t n) {
    const char *names[128];
    char word[64];
    size_t count = 0;
    if (n >= sizeof word) return NULL;
    memcpy(word, name, n);
    word[n] = '\0';
    for (; *tables; tables++)
        for (const oc_tpl_entry_point *e = *tables; e->name && count < 128; e++)
            names[count++] = e->name;
    return oc_nearest(word, names, count);
}

bool oc_tpl_need_string(oc_tpl *x, const oc_tpl_value *v, const char *what,
                        const oc_tpl_str **out) {
    if (v->kind == TV_UNDEFINED) return oc_tpl_fail_undefined(x, v);
    if (v->kind != TV_STRING)
        return oc_tpl_fail(x, OC_E_INVALID, "%s must be a string, not %s", what,
                           oc_tpl_type_name(v));
    *out = v->u.string;
    return true;
}

bool oc_tpl_need_int(oc_tpl *x, const oc_tpl_value *v, const char *what, int64_t otherwise,
                     int64_t *out) {
    if (v->kind == TV_MISSING) {
        *out = otherwise;
        return true;
    }
    if (v->kind == TV_UNDEFINED) return oc_tpl_fail_undefined(x, v);
    if (oc_tpl_as_int(v, out)) return true;
    return oc_tpl_fail(x, OC_E_INVALID, "%s must be an integer, not %s", what, oc_tpl_type_name(v));
}

/* --- Functions */

static bool run_range(oc_tpl *x, const oc_tpl_value *args, const oc_tpl_call *call,
                      oc_tpl_value *out) {
    int64_t a = 0, b = 0, step = 0;
    (void)call;
    if (!oc_tpl_need_int(x, &args[0], "range()'s bound", 0, &a) ||
        !oc_tpl_need_int(x, &args[1], "range()'s bound", 0, &b) ||
        !oc_tpl_need_int(x, &args[2], "range()'s step", 1, &step))
        return false;
    if (args[1].kind == TV_MISSING) return oc_tpl_range_new(x, 0, a, step, out);
    return oc_tpl_range_new(x, a, b, step, out);
}

static bool add_pair(oc_tpl *x, oc_tpl_dict *d, const oc_tpl_value *key, oc_tpl_value value) {
    if (!oc_tpl_hashable(x, key)) return false;
    return oc_tpl_dict_set(&x->arena, d, key, value) ||
           oc_tpl_fail(x, OC_E_MEMORY, "no memory for a dict");
}

static bool add_pairs(oc_tpl *x, oc_tpl_dict *d, const oc_tpl_value *from) {
    const oc_tpl_value *at, *pair;
    size_t n, two;
    if (from->kind == TV_DICT) {
        for (size_t i = 0; i < from->u.dict->n; i++)
            if (!add_pair(x, d, &from->u.dict->entries[i].key, from->u.dict->entries[i].value))
                return false;
        return oc_tpl_step(x, from->u.dict->n);
    }
    if (!oc_tpl_elements(x, from, &at, &n)) return false;
    for (size_t i = 0; i < n; i++) {
        if (!oc_tpl_elements(x, &at[i], &pair, &two)) return false;
        if (two != 2)
            return oc_tpl_fail(x, OC_E_INVALID, "a dict is made of pairs; element %zu has %zu", i,
                               two);
        if (!add_pair(x, d, &pair[0], pair[1])) return false;
    }
    return true;
}

static bool run_dict(oc_tpl *x, const oc_tpl_value *args, const oc_tpl_call *call,
                     oc_tpl_value *out) {
    (void)args;
    oc_tpl_dict *d = oc_tpl_new(x, 1, sizeof *d);
    if (!d) return false;
    d->message = NO_MESSAGE;
    if (call->n > 1) return oc_tpl_fail(x, OC_E_INVALID, "dict() takes one positional argument");
    if (call->n && !add_pairs(x, d, &call->at[0])) return false;
    const oc_tpl_value named = {.kind = TV_DICT, .u.dict = call->named};
    if (call->named && !add_pairs(x, d, &named)) return false;
    *out = (oc_tpl_value){.kind = TV_DICT, .u.dict = d};
    return true;
}

static bool run_namespace(oc_tpl *x, const oc_tpl_value *args, const oc_tpl_call *call,
                          oc_tpl_value *out) {
    if (!run_dict(x, args, call, out)) return false;
    for (size_t i = 0; i < out->u.dict->n; i++) {
        const oc_tpl_value *key = &out->u.dict->entries[i].key;
        if (key->kind == TV_STRING && key->u.string->n && key->u.string->at[0] == '_')
            return oc_tpl_fail(x, OC_E_INVALID,
                               "names in a namespace may not begin with an underscore");
    }
    out->kind = TV_NAMESPACE;
    return true;
}

static bool run_raise(oc_tpl *x, const oc_tpl_value *args, const oc_tpl_call *call,
                      oc_tpl_value *out) {
    oc_tpl_value text;
    (void)call, (void)out;
    if (!oc_tpl_str_of(x, &args[0], &text)) return false;
    const oc_tpl_str *s = text.u.string;
    return oc_tpl_fail(x, OC_E_INVALID, "%.*s", s->n < OC_ERROR_BYTES ? (int)s->n : OC_ERROR_BYTES,
                       s->at);
}

/* One conversion of strftime(), or a character as it is. */
static bool put_time(oc_tpl *x, oc_tpl_buffer *b, const struct tm *tm, const char *at, size_t n,
                     size_t *used) {
    char format[4] = "%", text[128];
    size_t i = 1;
    if (at[0] != '%' || n < 2) {
        *used = 1;
        return oc_tpl_put(x, b, at, 1);
    }
    if (at[i] == '-' && n > 2) i++;
    char c = at[i];
    *used = i + 1;
    /* The time has no zone and no fraction. */
    if (c == 'z' || c == 'Z') return true;
    if (c == 'f') return oc_tpl_put(x, b, "000000", 6);
    if (c == '\0' || !strchr("aAbBcdDeFgGhHIjklmMnpPrRStTuUVwWxXyY%", c))
        return oc_tpl_fail(x, OC_E_UNSUPPORTED, "strftime_now: the conversion '%%%c' is not known",
                           c > 0 ? c : '?');
    memcpy(format + 1, at + 1, i);
    format[i + 1] = '\0';
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    size_t m = strftime(text, sizeof text, format, tm);
#pragma GCC diagnostic pop
    return oc_tpl_put(x, b, text, m);
}

static bool run_strftime(oc_tpl *x, const oc_tpl_value *args, const oc_tpl_call *call,
                         oc_tpl_value *out) {
    const oc_tpl_str *format = NULL;
    oc_tpl_buffer b = {0};
    struct tm tm;
    (void)call;
    if (!oc_tpl_need_string(x, &args[0], "strftime_now's format", &format) || !format) return false;
    time_t seconds = x->now ? (time_t)*x->now : time(NULL);
    if (!gmtime_r(&seconds, &tm)) return oc_tpl_fail(x, OC_E_OVERFLOW, "the time is out of range");
    for (size_t i = 0, used; i < format->n; i += used)
        if (!put_time(x, &b, &tm, format->at + i, format->n - i, &used)) return false;
    return oc_tpl_buffer_value(x, &b, out);
}

static bool run_joiner(oc_tpl *x, const oc_tpl_value *args, const oc_tpl_call *call,
                       oc_tpl_value *out) {
    (void)call;
    oc_tpl_value *at = oc_tpl_new(x, 1, sizeof *at);
    oc_tpl_cycler *c = oc_tpl_new(x, 1, sizeof *c);
    if (!at || !c) return false;
    *at = args[0];
    if (at->kind == TV_MISSING && !oc_tpl_string(x, ", ", 2, at)) return false;
    *c = (oc_tpl_cycler){.at = at, .n = 1};
    *out = (oc_tpl_value){.kind = TV_JOINER, .u.cycler = c};
    return true;
}

static bool run_cycler(oc_tpl *x, const oc_tpl_value *args, const oc_tpl_call *call,
                       oc_tpl_value *out) {
    (void)args;
    if (!call->n) return oc_tpl_fail(x, OC_E_INVALID, "cycler() needs values");
    oc_tpl_value *at = oc_tpl_new(x, call->n, sizeof *at);
    oc_tpl_cycler *c = oc_tpl_new(x, 1, sizeof *c);
    if (!at || !c) return false;
    memcpy(at, call->at, call->n * sizeof *at);
    *c = (oc_tpl_cycler){.at = at, .n = call->n};
    *out = (oc_tpl_value){.kind = TV_CYCLER, .u.cycler = c};
    return true;
}

static bool run_lipsum(oc_tpl *x, const oc_tpl_value *args, const oc_tpl_call *call,
                       oc_tpl_value *out) {
    (void)args, (void)call, (void)out;
    return oc_tpl_fail(x, OC_E_UNSUPPORTED, "lipsum() is not supported: it is random");
}

const oc_tpl_entry_point oc_tpl_functions[] = {
    {"range", run_range, "start,stop,step", 1, false},
    {"dict", run_dict, "", 0, true},
    {"namespace", run_namespace, "", 0, true},
    {"raise_exception", run_raise, "message", 1, false},
    {"strftime_now", run_strftime, "format", 1, false},
    {"joiner", run_joiner, "sep", 0, false},
    {"cycler", run_cycler, "", 0, true},
    {"lipsum", run_lipsum, "", 0, true},
    {0},
};

static bool call_joiner(oc_tpl *x, oc_tpl_cycler *c, oc_tpl_value *out) {
    if (c->pos++ == 0) return oc_tpl_string(x, "", 0, out);
    *out = c->at[0];
    return true;
}

bool oc_tpl_call_value(oc_tpl *x, const oc_tpl_value *f, const oc_tpl_call *call,
                       oc_tpl_value *out) {
    const oc_tpl_method *m = f->u.method;
    switch (f->kind) {
    case TV_UNDEFINED:
        return oc_tpl_fail_undefined(x, f);
    case TV_FUNCTION:
        return oc_tpl_invoke(x, &oc_tpl_functions[f->id], "function", NULL, call, out);
    case TV_METHOD:
        if (!m->entry)
            return oc_tpl_fail(x, OC_E_UNSUPPORTED, "the method '%s' of %s is not supported",
                               m->name, oc_tpl_type_name(&m->self));
        return oc_tpl_invoke(x, m->entry, "method", &m->self, call, out);
    case TV_MACRO:
        return oc_tpl_call_macro(x, f->u.macro, call, out);
    case TV_JOINER:
        return call_joiner(x, f->u.cycler, out);
    default:
        return oc_tpl_fail(x, OC_E_INVALID, "%s cannot be called", oc_tpl_type_name(f));
    }
}
