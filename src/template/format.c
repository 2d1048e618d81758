/* format.c - printf-style formatting ('%5.1f' % x), the reference's and no other. */
#include "template/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH_MOST = 1000000000 };

typedef struct formatter {
    oc_tpl *x;
    const oc_tpl_str *format;
    size_t pos;
    const oc_tpl_value *args; /* a tuple's elements, or the one value */
    size_t n, used;
    const oc_tpl_value *whole;
    oc_tpl_buffer out;
} formatter;

typedef struct directive {
    bool left, plus, space, zero, alternate;
    int64_t width, precision; /* precision -1: none */
    char conversion;
    const oc_tpl_value *named;
} directive;

static bool next_argument(formatter *f, const oc_tpl_value **out) {
    if (f->used == f->n)
        return oc_tpl_fail(f->x, OC_E_INVALID, "a format has more places than arguments");
    *out = &f->args[f->used++];
    return true;
}

static char peek(const formatter *f) {
    return f->pos < f->format->n ? f->format->at[f->pos] : '\0';
}

static bool read_number(formatter *f, int64_t *out) {
    *out = 0;
    if (peek(f) == '*') {
        const oc_tpl_value *v = NULL; /* not every gcc sees that it is set */
        f->pos++;
        if (!next_argument(f, &v)) return false;
        if (!oc_tpl_as_int(v, out))
            return oc_tpl_fail(f->x, OC_E_INVALID, "'*' in a format needs an integer");
        if (*out > WIDTH_MOST) *out = WIDTH_MOST;
        if (*out < -WIDTH_MOST) *out = -WIDTH_MOST;
    } else {
        for (; peek(f) >= '0' && peek(f) <= '9'; f->pos++)
            if (*out < WIDTH_MOST) *out = *out * 10 + (peek(f) - '0');
    }
    return true;
}

static bool read_name(formatter *f, directive *d) {
    size_t begin = ++f->pos;
    int depth = 1;
    for (; f->pos < f->format->n; f->pos++) {
        if (peek(f) == '(') depth++;
        if (peek(f) == ')' && --depth == 0) break;
    }
    if (f->pos == f->format->n)
        return oc_tpl_fail(f->x, OC_E_INVALID, "a name in a format lacks its )");
    if (f->whole->kind != TV_DICT)
        return oc_tpl_fail(f->x, OC_E_INVALID, "a format with names needs a dict");
    d->named = oc_tpl_dict_find(f->whole->u.dict, f->format->at + begin, f->pos - begin);
    if (!d->named)
        return oc_tpl_fail(f->x, OC_E_INVALID, "a format names '%.*s', which is not given",
                           (int)(f->pos - begin < 100 ? f->pos - begin : 100),
                           f->format->at + begin);
    f->pos++;
    return true;
}

static bool read_directive(formatter *f, directive *d) {
    *d = (directive){.precision = -1};
    if (peek(f) == '(' && !read_name(f, d)) return false;
    for (char c; (c = peek(f)) != '\0' && strchr("-+ 0#", c); f->pos++) {
        d->left |= c == '-';
        d->plus |= c == '+';
        d->space |= c == ' ';
        d->zero |= c == '0';
        d->alternate |= c == '#';
    }
    if (!read_number(f, &d->width)) return false;
    if (d->width < 0) {
        d->left = true;
        d->width = -d->width;
    }
    if (peek(f) == '.') {
        f->pos++;
        if (!read_number(f, &d->precision)) return false;
        if (d->precision < 0) d->precision = 0;
    }
    while (peek(f) == 'l' || peek(f) == 'h' || peek(f) == 'L')
        f->pos++;
    if (f->pos == f->format->n) return oc_tpl_fail(f->x, OC_E_INVALID, "a format ends after '%%'");
    d->conversion = f->format->at[f->pos++];
    return true;
}

static bool pad(formatter *f, char with, int64_t width, size_t have) {
    if (width <= (int64_t)have) return true;
    size_t n = (size_t)width - have;
    if (!oc_tpl_allow(f->x, n, 1)) return false;
    for (; n > 0; n--)
        if (!oc_tpl_put(f->x, &f->out, &with, 1)) return false;
    return true;
}

static bool put_text_padded(formatter *f, const directive *d, const oc_tpl_value *v) {
    oc_tpl_value text;
    oc_tpl_buffer b = {0};
    if (d->conversion == 's'
            ? !oc_tpl_str_of(f->x, v, &text)
            : !oc_tpl_put_repr(f->x, &b, v) || !oc_tpl_buffer_value(f->x, &b, &text))
        return false;
    const oc_tpl_str *s = text.u.string;
    size_t characters = oc_tpl_characters(s), n = s->n;
    if (d->precision >= 0 && (uint64_t)d->precision < characters) {
        characters = (size_t)d->precision;
        n = oc_tpl_offset(s, characters);
    }
    return (d->left || pad(f, ' ', d->width, characters)) && oc_tpl_put(f->x, &f->out, s->at, n) &&
           (!d->left || pad(f, ' ', d->width, characters));
}

/* digits may begin with '-'. */
static bool put_number(formatter *f, const directive *d, const char *digits, const char *prefix) {
    const char *sign = *digits == '-' ? "-" : d->plus ? "+" : d->space ? " " : "";
    if (*digits == '-') digits++;
    size_t n = strlen(digits), lead = strlen(sign) + strlen(prefix);
    bool zeros = d->zero && !d->left;
    return (d->left || zeros || pad(f, ' ', d->width, n + lead)) &&
           oc_tpl_put(f->x, &f->out, sign, strlen(sign)) &&
           oc_tpl_put(f->x, &f->out, prefix, strlen(prefix)) &&
           (!zeros || pad(f, '0', d->width, n + lead)) && oc_tpl_put(f->x, &f->out, digits, n) &&
           (!d->left || pad(f, ' ', d->width, n + lead));
}

static bool put_integer(formatter *f, const directive *d, const oc_tpl_value *v) {
    char text[160];
    int64_t i;
    char c = d->conversion;
    bool decimal = c == 'd' || c == 'i' || c == 'u';
    if (decimal && v->kind == TV_FLOAT) {
        if (!(v->u.real > -0x1p63 && v->u.real < 0x1p63))
            return oc_tpl_fail(f->x, OC_E_OVERFLOW, "a number does not fit 64 bits");
        i = (int64_t)v->u.real;
    } else if (!oc_tpl_as_int(v, &i)) {
        return oc_tpl_fail(f->x, OC_E_INVALID, "the format %%%c needs an integer, not %s", c,
                           oc_tpl_type_name(v));
    }
    if (d->precision > 100)
        return oc_tpl_fail(f->x, OC_E_UNSUPPORTED, "a precision above 100 in a format");
    unsigned long long size = i < 0 ? 0 - (unsigned long long)i : (unsigned long long)i;
    int digits = d->precision > 0 ? (int)d->precision : 1;
    int n = i < 0 ? snprintf(text, sizeof text, "-") : 0;
    char *at = text + n;
    size_t room = sizeof text - (size_t)n;
    if (c == 'x')
        snprintf(at, room, "%.*llx", digits, size);
    else if (c == 'X')
        snprintf(at, room, "%.*llX", digits, size);
    else if (c == 'o')
        snprintf(at, room, "%.*llo", digits, size);
    else
        snprintf(at, room, "%.*llu", digits, size);
    const char *prefix = !d->alternate || decimal ? "" : c == 'x' ? "0x" : c == 'X' ? "0X" : "0o";
    return put_number(f, d, text, prefix);
}

static bool put_real(formatter *f, const directive *d, const oc_tpl_value *v) {
    char text[512];
    if (v->kind == TV_UNDEFINED) return oc_tpl_fail_undefined(f->x, v);
    if (!oc_tpl_is_number(v))
        return oc_tpl_fail(f->x, OC_E_INVALID, "the format %%%c needs a number, not %s",
                           d->conversion, oc_tpl_type_name(v));
    if (d->precision > 100 || d->alternate)
        return oc_tpl_fail(f->x, OC_E_UNSUPPORTED, "this format of a number is not supported");
    double value = oc_tpl_as_double(v);
    int precision = d->precision < 0 ? 6 : (int)d->precision;
    switch (d->conversion) {
    case 'f':
    case 'F':
        snprintf(text, sizeof text, "%.*f", precision, value);
        break;
    case 'e':
        snprintf(text, sizeof text, "%.*e", precision, value);
        break;
    case 'E':
        snprintf(text, sizeof text, "%.*E", precision, value);
        break;
    case 'g':
        snprintf(text, sizeof text, "%.*g", precision, value);
        break;
    default:
        snprintf(text, sizeof text, "%.*G", precision, value);
    }
    return put_number(f, d, text, "");
}

static bool put_character(formatter *f, const directive *d, const oc_tpl_value *v) {
    int64_t i;
    char text[4];
    oc_tpl_value one = *v;
    directive plain = *d;
    plain.conversion = 's';
    plain.precision = -1;
    if (oc_tpl_as_int(v, &i)) {
        if (i < 0 || i > 0x10ffff || (i >= 0xd800 && i < 0xe000))
            return oc_tpl_fail(f->x, OC_E_INVALID, "%%c needs the number of a character");
        if (!oc_tpl_copy(f->x, text, oc_tpl_encode((uint32_t)i, text), &one)) return false;
    } else if (v->kind != TV_STRING || oc_tpl_characters(v->u.string) != 1) {
        return oc_tpl_fail(f->x, OC_E_INVALID, "%%c needs one character");
    }
    return put_text_padded(f, &plain, &one);
}

static bool put_directive(formatter *f, const directive *d) {
    const oc_tpl_value *v = d->named;
    if (d->conversion == '%') return oc_tpl_put(f->x, &f->out, "%", 1);
    if (!strchr("srdiuxXofFeEgGc", d->conversion) || d->conversion == '\0')
        return oc_tpl_fail(f->x, OC_E_UNSUPPORTED, "the format %%%c is not known",
                           d->conversion > 0 ? d->conversion : '?');
    if (!v && !next_argument(f, &v)) return false;
    if (d->conversion == 's' || d->conversion == 'r') return put_text_padded(f, d, v);
    if (d->conversion == 'c') return put_character(f, d, v);
    return strchr("diuxXo", d->conversion) ? put_integer(f, d, v) : put_real(f, d, v);
}

bool oc_tpl_percent(oc_tpl *x, const oc_tpl_str *format, const oc_tpl_value *args,
                    oc_tpl_value *out) {
    bool tuple = args->kind == TV_TUPLE;
    formatter f = {.x = x,
                   .format = format,
                   .args = tuple ? args->u.list->at : args,
                   .n = tuple ? args->u.list->n : 1,
                   .whole = args};
    while (f.pos < format->n) {
        const char *from = format->at + f.pos;
        const char *percent = memchr(from, '%', format->n - f.pos);
        size_t plain = percent ? (size_t)(percent - from) : format->n - f.pos;
        directive d;
        if (!oc_tpl_put(x, &f.out, from, plain)) return false;
        f.pos += plain + (percent != NULL);
        if (percent && (!read_directive(&f, &d) || !put_directive(&f, &d))) return false;
    }
    bool mapping = args->kind == TV_DICT || args->kind == TV_LIST || args->kind == TV_RANGE ||
                   args->kind == TV_UNDEFINED;
    if (f.used < f.n && !mapping)
        return oc_tpl_fail(x, OC_E_INVALID, "a format has fewer places than arguments");
    return oc_tpl_buffer_value(x, &f.out, out);
}
