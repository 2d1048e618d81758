/* text.c - characters, and values as text: str(), repr(). */
#include "template/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

size_t oc_tpl_decode(const char *s, size_t n, uint32_t *out) {
    const unsigned char *b = (const unsigned char *)s;
    if (b[0] < 0x80 || n < 2) {
        *out = b[0];
        return 1;
    }
    if (b[0] < 0xe0 || n < 3) {
        *out = (b[0] & 0x1fu) << 6 | (b[1] & 0x3fu);
        return 2;
    }
    if (b[0] < 0xf0 || n < 4) {
        *out = (b[0] & 0x0fu) << 12 | (b[1] & 0x3fu) << 6 | (b[2] & 0x3fu);
        return 3;
    }
    *out = (b[0] & 0x07u) << 18 | (b[1] & 0x3fu) << 12 | (b[2] & 0x3fu) << 6 | (b[3] & 0x3fu);
    return 4;
}

size_t oc_tpl_encode(uint32_t c, char out[4]) {
    return (size_t)utf8proc_encode_char((utf8proc_int32_t)c, (utf8proc_uint8_t *)out);
}

bool oc_tpl_is_space(uint32_t c) {
    if (c < 0x80) return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

size_t oc_tpl_characters(const oc_tpl_str *s) {
    if (s->ascii) return s->n;
    size_t count = 0;
    for (size_t i = 0; i < s->n; i++)
        count += ((unsigned char)s->at[i] & 0xc0u) != 0x80u;
    return count;
}

size_t oc_tpl_offset(const oc_tpl_str *s, size_t character) {
    if (s->ascii) return character < s->n ? character : s->n;
    size_t i = 0;
    for (; i < s->n; i++)
        if (((unsigned char)s->at[i] & 0xc0u) != 0x80u && character-- == 0) break;
    return i;
}

size_t oc_tpl_find(const char *at, size_t n, const char *what, size_t m, size_t from) {
    if (from > n || m > n - from) return SIZE_MAX;
    if (m == 0) return from;
    const char *found = memmem(at + from, n - from, what, m);
    return found ? (size_t)(found - at) : SIZE_MAX;
}

/* --- Buffers */

bool oc_tpl_put(oc_tpl *x, oc_tpl_buffer *b, const char *at, size_t n) {
    if (n > x->limits.output - b->n)
        return oc_tpl_fail(x, OC_E_OVERFLOW, "the text would be longer than the limit of %zu bytes",
                           x->limits.output);
    if (!n) return true;
    if (b->room - b->n < n) {
        size_t room = b->room ? 2 * b->room : 256;
        if (room < b->n + n) room = b->n + n;
        char *more = oc_tpl_new(x, room, 1);
        if (!more) return false;
        if (b->n) memcpy(more, b->at, b->n);
        b->at = more;
        b->room = room;
    }
    memcpy(b->at + b->n, at, n);
    b->n += n;
    return oc_tpl_step(x, n);
}

static bool put_text(oc_tpl *x, oc_tpl_buffer *b, const char *text) {
    return oc_tpl_put(x, b, text, strlen(text));
}

bool oc_tpl_buffer_value(oc_tpl *x, const oc_tpl_buffer *b, oc_tpl_value *out) {
    if (!oc_tpl_string(x, b->n ? b->at : "", b->n, out)) return false;
    if (!b->n_marks) return true;
    oc_tpl_str *s = oc_tpl_new(x, 1, sizeof *s);
    if (!s) return false;
    *s = *out->u.string;
    s->marks = b->marks;
    s->n_marks = b->n_marks;
    out->u.string = s;
    return true;
}

/* --- Numbers */

/* The fewest digits that read back as d, laid out as the reference lays them out. */
void oc_tpl_format_float(double d, char out[40]) {
    if (isnan(d) || isinf(d)) {
        snprintf(out, 40, "%s", isnan(d) ? "nan" : d < 0 ? "-inf" : "inf");
        return;
    }
    char text[40], digits[20] = "";
    for (int precision = 0; precision < 17; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, d);
        if (strtod(text, NULL) == d) break;
    }
    size_t n = 0;
    const char *c = text;
    bool negative = *c == '-';
    for (c += negative; *c && *c != 'e'; c++)
        if (*c != '.') digits[n++] = *c;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    long exponent = strtol(c + 1, NULL, 10);
    int length = (int)n;
    const char *sign = negative ? "-" : "";
    if (exponent < -4 || exponent >= 16)
        snprintf(out, 40, "%s%c%s%.*se%c%02ld", sign, digits[0], n > 1 ? "." : "", length - 1,
                 digits + 1, exponent < 0 ? '-' : '+', labs(exponent));
    else if (exponent < 0)
        snprintf(out, 40, "%s0.%.*s%.*s", sign, (int)(-exponent - 1), "0000", length, digits);
    else if (exponent + 1 >= length)
        snprintf(out, 40, "%s%.*s%.*s.0", sign, length, digits, (int)(exponent + 1 - length),
                 "0000000000000000");
    else
        snprintf(out, 40, "%s%.*s.%.*s", sign, (int)(exponent + 1), digits,
                 (int)(length - exponent - 1), digits + exponent + 1);
}

/* --- repr() */

static bool is_printable(uint32_t c) {
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return false;
    case UTF8PROC_CATEGORY_ZS:
        return c == ' ';
    default:
        return true;
    }
}

static bool put_repr_character(oc_tpl *x, oc_tpl_buffer *b, const char *at, size_t step, uint32_t c,
                               char quote) {
    char shown[12];
    if (c == '\n') return put_text(x, b, "\\n");
    if (c == '\r') return put_text(x, b, "\\r");
    if (c == '\t') return put_text(x, b, "\\t");
    if (c == '\\' || c == (uint32_t)quote)
        return oc_tpl_put(x, b, "\\", 1) && oc_tpl_put(x, b, at, step);
    if (is_printable(c)) return oc_tpl_put(x, b, at, step);
    snprintf(shown, sizeof shown,
             c < 0x100     ? "\\x%02x"
             : c < 0x10000 ? "\\u%04x"
                           : "\\U%08x",
             (unsigned)c);
    return put_text(x, b, shown);
}

static bool put_repr_string(oc_tpl *x, oc_tpl_buffer *b, const oc_tpl_str *s) {
    bool has_single = s->n && memchr(s->at, '\'', s->n),
         has_double = s->n && memchr(s->at, '"', s->n);
    char quote = has_single && !has_double ? '"' : '\'';
    if (!oc_tpl_put(x, b, &quote, 1)) return false;
    for (size_t i = 0; i < s->n;) {
        uint32_t c;
        size_t step = oc_tpl_decode(s->at + i, s->n - i, &c);
        if (!put_repr_character(x, b, s->at + i, step, c, quote)) return false;
        i += step;
    }
    return oc_tpl_put(x, b, &quote, 1);
}

static bool put_repr_items(oc_tpl *x, oc_tpl_buffer *b, const oc_tpl_value *at, size_t n) {
    for (size_t i = 0; i < n; i++)
        if ((i && !put_text(x, b, ", ")) || !oc_tpl_put_repr(x, b, &at[i])) return false;
    return true;
}

static bool put_repr_dict(oc_tpl *x, oc_tpl_buffer *b, const oc_tpl_dict *d) {
    if (!put_text(x, b, "{")) return false;
    for (size_t i = 0; i < d->n; i++)
        if ((i && !put_text(x, b, ", ")) || !oc_tpl_put_repr(x, b, &d->entries[i].key) ||
            !put_text(x, b, ": ") || !oc_tpl_put_repr(x, b, &d->entries[i].value))
            return false;
    return put_text(x, b, "}");
}

static bool put_repr_view(oc_tpl *x, oc_tpl_buffer *b, const oc_tpl_value *v) {
    const oc_tpl_value *at;
    size_t n;
    return put_text(x, b,
                    v->flag == VIEW_KEYS     ? "dict_keys(["
                    : v->flag == VIEW_VALUES ? "dict_values(["
                                             : "dict_items([") &&
           oc_tpl_elements(x, v, &at, &n) && put_repr_items(x, b, at, n) && put_text(x, b, "])");
}

static bool put_repr_range(oc_tpl *x, oc_tpl_buffer *b, const oc_tpl_range *r) {
    char text[96];
    if (r->step == 1)
        snprintf(text, sizeof text, "range(%lld, %lld)", (long long)r->start, (long long)r->stop);
    else
        snprintf(text, sizeof text, "range(%lld, %lld, %lld)", (long long)r->start,
                 (long long)r->stop, (long long)r->step);
    return put_text(x, b, text);
}

static bool put_repr_nested(oc_tpl *x, oc_tpl_buffer *b, const oc_tpl_value *v) {
    const oc_tpl_list *l = v->u.list;
    switch (v->kind) {
    case TV_LIST:
        return put_text(x, b, "[") && put_repr_items(x, b, l->at, l->n) && put_text(x, b, "]");
    case TV_TUPLE:
        return put_text(x, b, "(") && put_repr_items(x, b, l->at, l->n) &&
               put_text(x, b, l->n == 1 ? ",)" : ")");
    case TV_DICT:
        return put_repr_dict(x, b, v->u.dict);
    case TV_NAMESPACE:
        return put_text(x, b, "<Namespace ") && put_repr_dict(x, b, v->u.dict) &&
               put_text(x, b, ">");
    default:
        return put_repr_view(x, b, v);
    }
}

static bool put_scalar(oc_tpl *x, oc_tpl_buffer *b, const oc_tpl_value *v) {
    char text[96];
    switch (v->kind) {
    case TV_NONE:
        return put_text(x, b, "None");
    case TV_BOOL:
        return put_text(x, b, v->u.truth ? "True" : "False");
    case TV_INT:
        snprintf(text, sizeof text, "%lld", (long long)v->u.integer);
        return put_text(x, b, text);
    case TV_FLOAT:
        oc_tpl_format_float(v->u.real, text);
        return put_text(x, b, text);
    case TV_RANGE:
        return put_repr_range(x, b, v->u.range);
    case TV_LOOP:
        snprintf(text, sizeof text, "<LoopContext %zu/%zu>", v->u.loop->index + 1, v->u.loop->n);
        return put_text(x, b, text);
    default:
        /* The reference would print an address. */
        return oc_tpl_fail(x, OC_E_INVALID, "%s cannot be printed%s", oc_tpl_type_name(v),
                           v->kind == TV_ITERATOR ? "; put it through 'list' or 'join' first" : "");
    }
}

bool oc_tpl_put_repr(oc_tpl *x, oc_tpl_buffer *b, const oc_tpl_value *v) {
    switch (v->kind) {
    case TV_UNDEFINED:
        return put_text(x, b, "Undefined");
    case TV_STRING:
        if (!v->flag) return put_repr_string(x, b, v->u.string);
        return put_text(x, b, "Markup(") && put_repr_string(x, b, v->u.string) &&
               put_text(x, b, ")");
    case TV_LIST:
    case TV_TUPLE:
    case TV_DICT:
    case TV_NAMESPACE:
    case TV_VIEW:
        if (!oc_tpl_deeper(x) || !oc_tpl_step(x, 1) || !put_repr_nested(x, b, v)) return false;
        x->depth--;
        return true;
    default:
        return put_scalar(x, b, v);
    }
}

bool oc_tpl_put_str(oc_tpl *x, oc_tpl_buffer *b, const oc_tpl_value *v) {
    if (v->kind == TV_UNDEFINED) return true;
    if (v->kind == TV_STRING) return oc_tpl_put(x, b, v->u.string->at, v->u.string->n);
    return oc_tpl_put_repr(x, b, v);
}

bool oc_tpl_str_of(oc_tpl *x, const oc_tpl_value *v, oc_tpl_value *out) {
    if (v->kind == TV_STRING) {
        *out = *v;
        out->flag = 0;
        return true;
    }
    oc_tpl_buffer b = {0};
    return oc_tpl_put_str(x, &b, v) && oc_tpl_buffer_value(x, &b, out);
}
