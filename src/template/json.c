/* json.c - the filter tojson: the text of Python's json.dumps(). */
#include "template/internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct dumper {
    oc_tpl *x;
    oc_tpl_buffer out;
    bool ascii, sorted, pretty;
    const char *indent; /* of one level */
    size_t indent_n;
    const oc_tpl_str *between, *colon;
    int level;
} dumper;

static bool put(dumper *d, const char *text) {
    return oc_tpl_put(d->x, &d->out, text, strlen(text));
}

static bool put_escaped(dumper *d, uint32_t c) {
    char text[16];
    static const char plain[] = "\"\\\n\r\t\f\b", letters[] = "\"\\nrtfb";
    const char *at = c && c < 0x80 ? strchr(plain, (int)c) : NULL;
    if (at)
        snprintf(text, sizeof text, "\\%c", letters[at - plain]);
    else if (c < 0x10000)
        snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
    else
        snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + (unsigned)((c - 0x10000) >> 10),
                 0xdc00 + (unsigned)((c - 0x10000) & 0x3ff));
    return put(d, text);
}

static bool dump_string(dumper *d, const oc_tpl_str *s) {
    size_t plain = 0;
    if (!put(d, "\"")) return false;
    for (size_t i = 0; i < s->n;) {
        uint32_t c;
        size_t step = oc_tpl_decode(s->at + i, s->n - i, &c);
        if (c < 0x20 || c == '"' || c == '\\' || (d->ascii && c >= 0x80)) {
            if (!oc_tpl_put(d->x, &d->out, s->at + plain, i - plain) || !put_escaped(d, c))
                return false;
            plain = i + step;
        }
        i += step;
    }
    return oc_tpl_put(d->x, &d->out, s->at + plain, s->n - plain) && put(d, "\"");
}

static bool dump(dumper *d, const oc_tpl_value *v);

static bool line_break(dumper *d) {
    if (!d->pretty) return true;
    if (!put(d, "\n")) return false;
    for (int i = 0; i < d->level; i++)
        if (!oc_tpl_put(d->x, &d->out, d->indent, d->indent_n)) return false;
    return true;
}

static bool next_item(dumper *d, size_t i) {
    return (i == 0 || oc_tpl_put(d->x, &d->out, d->between->at, d->between->n)) && line_break(d);
}

static bool dump_list(dumper *d, const oc_tpl_list *l) {
    if (!l->n) return put(d, "[]");
    if (!put(d, "[")) return false;
    d->level++;
    for (size_t i = 0; i < l->n; i++)
        if (!next_item(d, i) || !dump(d, &l->at[i])) return false;
    d->level--;
    return line_break(d) && put(d, "]");
}

static bool dump_scalar(dumper *d, const oc_tpl_value *v, bool *known) {
    char text[40];
    *known = true;
    switch (v->kind) {
    case TV_NONE:
        return put(d, "null");
    case TV_BOOL:
        return put(d, v->u.truth ? "true" : "false");
    case TV_INT:
        snprintf(text, sizeof text, "%lld", (long long)v->u.integer);
        return put(d, text);
    case TV_FLOAT:
        if (isnan(v->u.real)) return put(d, "NaN");
        if (isinf(v->u.real)) return put(d, v->u.real < 0 ? "-Infinity" : "Infinity");
        oc_tpl_format_float(v->u.real, text);
        return put(d, text);
    default:
        *known = false;
        return true;
    }
}

static bool dump_key(dumper *d, const oc_tpl_value *key) {
    bool known;
    if (key->kind == TV_STRING) return dump_string(d, key->u.string);
    if (!put(d, "\"") || !dump_scalar(d, key, &known)) return false;
    if (!known)
        return oc_tpl_fail(d->x, OC_E_INVALID, "tojson: %s cannot be a key of JSON",
                           oc_tpl_type_name(key));
    return put(d, "\"");
}

/* The entries by key: indices into d's, as values. */
static bool order_of(dumper *d, const oc_tpl_dict *dict, const oc_tpl_value **out) {
    oc_tpl_value *keys = oc_tpl_new(d->x, dict->n, sizeof *keys);
    oc_tpl_value *order = oc_tpl_new(d->x, dict->n, sizeof *order);
    if (!keys || !order) return false;
    for (size_t i = 0; i < dict->n; i++) {
        keys[i] = dict->entries[i].key;
        order[i] = oc_tpl_int((int64_t)i);
    }
    *out = order;
    return !d->sorted || oc_tpl_sort(d->x, keys, order, dict->n, false);
}

static bool dump_dict(dumper *d, const oc_tpl_dict *dict) {
    const oc_tpl_value *order;
    if (!dict->n) return put(d, "{}");
    if (!put(d, "{") || !order_of(d, dict, &order)) return false;
    d->level++;
    for (size_t i = 0; i < dict->n; i++) {
        const oc_tpl_entry *e = &dict->entries[order[i].u.integer];
        if (!next_item(d, i) || !dump_key(d, &e->key) ||
            !oc_tpl_put(d->x, &d->out, d->colon->at, d->colon->n) || !dump(d, &e->value))
            return false;
    }
    d->level--;
    return line_break(d) && put(d, "}");
}

static bool dump(dumper *d, const oc_tpl_value *v) {
    bool known, ok = dump_scalar(d, v, &known);
    if (known) return ok;
    if (v->kind == TV_STRING) return dump_string(d, v->u.string);
    if (v->kind == TV_UNDEFINED) {
        const oc_tpl_str *s = v->u.string;
        return oc_tpl_fail(d->x, OC_E_INVALID, "tojson: '%.*s' is undefined",
                           s->n < 200 ? (int)s->n : 200, s->at);
    }
    if (v->kind != TV_LIST && v->kind != TV_TUPLE && v->kind != TV_DICT)
        return oc_tpl_fail(d->x, OC_E_INVALID, "tojson: %s is not JSON", oc_tpl_type_name(v));
    if (!oc_tpl_deeper(d->x) || !oc_tpl_step(d->x, 1)) return false;
    ok = v->kind == TV_DICT ? dump_dict(d, v->u.dict) : dump_list(d, v->u.list);
    d->x->depth--;
    return ok;
}

static bool set_indent(dumper *d, const oc_tpl_value *indent) {
    int64_t width;
    if (indent->kind == TV_STRING) {
        d->indent = indent->u.string->at;
        d->indent_n = indent->u.string->n;
    } else if (oc_tpl_as_int(indent, &width)) {
        size_t n = width > 0 ? (size_t)width : 0;
        if (!oc_tpl_allow(d->x, n, 1)) return false;
        char *spaces = oc_tpl_new(d->x, n, 1);
        if (!spaces) return false;
        if (n) memset(spaces, ' ', n);
        d->indent = spaces;
        d->indent_n = n;
    } else {
        return oc_tpl_fail(d->x, OC_E_INVALID, "tojson: indent must be a number or a string");
    }
    d->pretty = true;
    return true;
}

/* args: value, ensure_ascii, indent, separators, sort_keys */
bool oc_tpl_tojson(oc_tpl *x, const oc_tpl_value *args, oc_tpl_value *out) {
    static const oc_tpl_str comma = {.at = ", ", .n = 2, .ascii = true},
                            bare = {.at = ",", .n = 1, .ascii = true},
                            colon = {.at = ": ", .n = 2, .ascii = true};
    dumper d = {.x = x,
                .ascii = oc_tpl_truthy(&args[1]),
                .sorted = oc_tpl_truthy(&args[4]),
                .between = &comma,
                .colon = &colon};
    if (args[2].kind != TV_MISSING && args[2].kind != TV_NONE) {
        if (!set_indent(&d, &args[2])) return false;
        d.between = &bare;
    }
    if (args[3].kind != TV_MISSING && args[3].kind != TV_NONE) {
        const oc_tpl_value *pair;
        size_t n;
        if (!oc_tpl_elements(x, &args[3], &pair, &n)) return false;
        if (n != 2 || pair[0].kind != TV_STRING || pair[1].kind != TV_STRING)
            return oc_tpl_fail(x, OC_E_INVALID, "tojson: separators must be two strings");
        d.between = pair[0].u.string;
        d.colon = pair[1].u.string;
    }
    return dump(&d, &args[0]) && oc_tpl_buffer_value(x, &d.out, out);
}
