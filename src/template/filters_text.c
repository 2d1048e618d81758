/* filters_text.c - filters of one value: text and numbers. */
#include "template/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILTER(name)                                                                               \
    static bool name(oc_tpl *x, const oc_tpl_value *args, const oc_tpl_call *call,                 \
                     oc_tpl_value *out)

/* The value as a string; one marked safe stays so. */
static bool soft_string(oc_tpl *x, const oc_tpl_value *v, const oc_tpl_str **out) {
    oc_tpl_value text;
    if (!oc_tpl_str_of(x, v, &text)) return false;
    *out = text.u.string;
    return true;
}

static bool keep_flag(const oc_tpl_value *v, oc_tpl_value *out, bool ok) {
    if (ok && v->kind == TV_STRING) out->flag = v->flag;
    return ok;
}

static bool recase(oc_tpl *x, const oc_tpl_value *v, oc_tpl_casing how, oc_tpl_value *out) {
    const oc_tpl_str *s;
    return soft_string(x, v, &s) && keep_flag(v, out, oc_tpl_recase(x, s, how, out));
}

FILTER(f_upper) {
    (void)call;
    return recase(x, &args[0], CASE_UPPER, out);
}
FILTER(f_lower) {
    (void)call;
    return recase(x, &args[0], CASE_LOWER, out);
}
FILTER(f_capitalize) {
    (void)call;
    return recase(x, &args[0], CASE_CAPITALIZE, out);
}

/* Words begin after white space, dashes and opening brackets. */
FILTER(f_title) {
    (void)call;
    const oc_tpl_str *s;
    oc_tpl_buffer b = {0};
    bool first = true;
    if (!soft_string(x, &args[0], &s)) return false;
    for (size_t i = 0; i < s->n;) {
        uint32_t c;
        size_t step = oc_tpl_decode(s->at + i, s->n - i, &c);
        oc_tpl_value one;
        const oc_tpl_str piece = {.at = s->at + i, .n = step};
        if (!oc_tpl_recase(x, &piece, first ? CASE_UPPER : CASE_LOWER, &one) ||
            !oc_tpl_put(x, &b, one.u.string->at, one.u.string->n))
            return false;
        first = oc_tpl_is_space(c) || (c < 0x80 && c && strchr("-({[<", (int)c));
        i += step;
    }
    return keep_flag(&args[0], out, oc_tpl_buffer_value(x, &b, out));
}

FILTER(f_trim) {
    (void)call;
    const oc_tpl_str *s;
    return soft_string(x, &args[0], &s) &&
           keep_flag(&args[0], out, oc_tpl_strip(x, s, &args[1], 3, out));
}

FILTER(f_replace) {
    (void)call;
    const oc_tpl_str *s, *old, *fresh;
    int64_t count;
    const oc_tpl_value limit = args[3].kind == TV_NONE ? (oc_tpl_value){0} : args[3];
    return soft_string(x, &args[0], &s) && soft_string(x, &args[1], &old) &&
           soft_string(x, &args[2], &fresh) &&
           oc_tpl_need_int(x, &limit, "the count", -1, &count) &&
           oc_tpl_replace(x, s, old, fresh, count, out);
}

FILTER(f_string) {
    (void)call;
    if (args[0].kind != TV_STRING) return oc_tpl_str_of(x, &args[0], out);
    *out = args[0];
    return true;
}

FILTER(f_safe) {
    (void)call;
    if (!oc_tpl_str_of(x, &args[0], out)) return false;
    out->flag = 1;
    return true;
}

FILTER(f_escape) {
    (void)call;
    return oc_tpl_escape(x, &args[0], out);
}

FILTER(f_forceescape) {
    (void)call;
    oc_tpl_value text;
    return oc_tpl_str_of(x, &args[0], &text) && oc_tpl_escape(x, &text, out);
}

static bool indention_of(oc_tpl *x, const oc_tpl_value *width, const oc_tpl_str **out) {
    int64_t n;
    if (width->kind == TV_STRING) {
        *out = width->u.string;
        return true;
    }
    if (!oc_tpl_need_int(x, width, "the width", 4, &n)) return false;
    size_t count = n > 0 ? (size_t)n : 0;
    if (!oc_tpl_allow(x, count, 1)) return false;
    char *spaces = oc_tpl_new(x, count, 1);
    oc_tpl_value v;
    if (!spaces) return false;
    if (count) memset(spaces, ' ', count);
    if (!oc_tpl_string(x, spaces, count, &v)) return false;
    *out = v.u.string;
    return true;
}

/* Lines but the first are indented, the empty ones only when `blank`. */
FILTER(f_indent) {
    (void)call;
    const oc_tpl_str *s, *by;
    oc_tpl_value lines;
    oc_tpl_buffer text = {0}, b = {0};
    if (args[0].kind != TV_STRING) {
        if (args[0].kind == TV_UNDEFINED) return oc_tpl_fail_undefined(x, &args[0]);
        return oc_tpl_fail(x, OC_E_INVALID, "the filter 'indent' needs a string, not %s",
                           oc_tpl_type_name(&args[0]));
    }
    s = args[0].u.string;
    /* A newline at the end makes an empty last line, which is kept. */
    if (!indention_of(x, &args[1], &by) || !oc_tpl_put(x, &text, s->at, s->n) ||
        !oc_tpl_put(x, &text, "\n", 1))
        return false;
    const oc_tpl_str with_end = {.at = text.at, .n = text.n, .ascii = s->ascii};
    if (!oc_tpl_split_lines(x, &with_end, false, &lines)) return false;
    bool first = oc_tpl_truthy(&args[2]), blank = oc_tpl_truthy(&args[3]);
    for (size_t i = 0; i < lines.u.list->n; i++) {
        const oc_tpl_str *line = lines.u.list->at[i].u.string;
        bool indented = i == 0 ? first : blank || line->n > 0;
        if ((i && !oc_tpl_put(x, &b, "\n", 1)) || (indented && !oc_tpl_put(x, &b, by->at, by->n)) ||
            !oc_tpl_put(x, &b, line->at, line->n))
            return false;
    }
    return keep_flag(&args[0], out, oc_tpl_buffer_value(x, &b, out));
}

FILTER(f_wordcount) {
    (void)call;
    const oc_tpl_str *s;
    bool inside = false;
    int64_t count = 0;
    if (!soft_string(x, &args[0], &s)) return false;
    for (size_t i = 0; i < s->n;) {
        uint32_t c;
        i += oc_tpl_decode(s->at + i, s->n - i, &c);
        bool word = oc_tpl_is_word_character(c);
        count += word && !inside;
        inside = word;
    }
    *out = oc_tpl_int(count);
    return oc_tpl_step(x, s->n);
}

FILTER(f_truncate) {
    (void)call;
    static const oc_tpl_str dots = {.at = "...", .n = 3, .ascii = true};
    const oc_tpl_str *s, *end = &dots;
    int64_t length, leeway;
    size_t n;
    const oc_tpl_value given = args[4].kind == TV_NONE ? (oc_tpl_value){0} : args[4];
    if (!oc_tpl_length(x, &args[0], &n) ||
        !oc_tpl_need_int(x, &args[1], "the length", 255, &length) ||
        (args[3].kind != TV_MISSING && !oc_tpl_need_string(x, &args[3], "the end", &end)) ||
        !oc_tpl_need_int(x, &given, "the leeway", 5, &leeway))
        return false;
    int64_t end_n = (int64_t)oc_tpl_characters(end);
    if (length < end_n || leeway < 0)
        return oc_tpl_fail(x, OC_E_INVALID,
                           "truncate: the length must be at least %lld, the leeway 0",
                           (long long)end_n);
    uint64_t most = (uint64_t)length + (uint64_t)leeway;
    if (n <= most) {
        *out = args[0];
        return true;
    }
    if (!oc_tpl_need_string(x, &args[0], "what is truncated", &s)) return false;
    size_t kept = n = oc_tpl_offset(s, (size_t)(length - end_n));
    oc_tpl_buffer b = {0};
    if (!oc_tpl_truthy(&args[2])) {
        while (kept > 0 && s->at[kept - 1] != ' ')
            kept--;
        kept = kept > 0 ? kept - 1 : n;
    }
    return oc_tpl_put(x, &b, s->at, kept) && oc_tpl_put(x, &b, end->at, end->n) &&
           oc_tpl_buffer_value(x, &b, out);
}

FILTER(f_center) {
    (void)call;
    const oc_tpl_str *s;
    int64_t width;
    oc_tpl_buffer b = {0};
    if (!soft_string(x, &args[0], &s) || !oc_tpl_need_int(x, &args[1], "the width", 80, &width))
        return false;
    int64_t have = (int64_t)oc_tpl_characters(s);
    size_t n = width > have ? (size_t)(width - have) : 0;
    size_t left = n / 2 + (n & (size_t)width & 1);
    if (!oc_tpl_allow(x, n, 1)) return false;
    for (size_t i = 0; i < n; i++)
        if ((i == left && !oc_tpl_put(x, &b, s->at, s->n)) || !oc_tpl_put(x, &b, " ", 1))
            return false;
    if (left == n && !oc_tpl_put(x, &b, s->at, s->n)) return false;
    return keep_flag(&args[0], out, oc_tpl_buffer_value(x, &b, out));
}

FILTER(f_format) {
    const oc_tpl_str *s;
    oc_tpl_value given;
    if (!soft_string(x, &args[0], &s)) return false;
    if (call->n && call->named)
        return oc_tpl_fail(x, OC_E_INVALID, "format: arguments have names or not, but not both");
    if (call->named)
        given = (oc_tpl_value){.kind = TV_DICT, .u.dict = call->named};
    else if (!oc_tpl_sequence(x, TV_TUPLE, call->at, call->n, &given))
        return false;
    return oc_tpl_percent(x, s, &given, out);
}

FILTER(f_tojson) {
    (void)call;
    return oc_tpl_tojson(x, args, out);
}

/* --- Numbers */

static bool whole(oc_tpl *x, double d, const oc_tpl_value *otherwise, oc_tpl_value *out) {
    if (isnan(d) || isinf(d)) {
        *out = *otherwise;
        return true;
    }
    if (!(d > -0x1p63 && d < 0x1p63))
        return oc_tpl_fail(x, OC_E_OVERFLOW, "int: the number does not fit 64 bits");
    *out = oc_tpl_int((int64_t)d);
    return true;
}

FILTER(f_int) {
    (void)call;
    const oc_tpl_value otherwise = args[1].kind == TV_MISSING ? oc_tpl_int(0) : args[1];
    int64_t base, i;
    double d;
    if (!oc_tpl_need_int(x, &args[2], "the base", 10, &base)) return false;
    if (args[0].kind == TV_UNDEFINED) return oc_tpl_fail_undefined(x, &args[0]);
    *out = otherwise;
    if (oc_tpl_as_int(&args[0], &i)) {
        *out = oc_tpl_int(i);
    } else if (args[0].kind == TV_FLOAT) {
        return whole(x, args[0].u.real, &otherwise, out);
    } else if (args[0].kind == TV_STRING) {
        if (oc_tpl_parse_int(args[0].u.string, base, &i))
            *out = oc_tpl_int(i);
        else if (oc_tpl_parse_float(args[0].u.string, &d))
            return whole(x, d, &otherwise, out);
    }
    return true;
}

FILTER(f_float) {
    (void)call;
    double d;
    *out = args[1].kind == TV_MISSING ? oc_tpl_float(0) : args[1];
    if (args[0].kind == TV_UNDEFINED) return oc_tpl_fail_undefined(x, &args[0]);
    if (oc_tpl_is_number(&args[0]))
        *out = oc_tpl_float(oc_tpl_as_double(&args[0]));
    else if (args[0].kind == TV_STRING && oc_tpl_parse_float(args[0].u.string, &d))
        *out = oc_tpl_float(d);
    return true;
}

static bool need_number(oc_tpl *x, const oc_tpl_value *v, const char *what) {
    if (v->kind == TV_UNDEFINED) return oc_tpl_fail_undefined(x, v);
    if (oc_tpl_is_number(v)) return true;
    return oc_tpl_fail(x, OC_E_INVALID, "the filter '%s' needs a number, not %s", what,
                       oc_tpl_type_name(v));
}

FILTER(f_abs) {
    (void)call;
    int64_t i;
    if (!need_number(x, &args[0], "abs")) return false;
    if (!oc_tpl_as_int(&args[0], &i)) {
        *out = oc_tpl_float(fabs(args[0].u.real));
        return true;
    }
    if (i == INT64_MIN)
        return oc_tpl_fail(x, OC_E_OVERFLOW, "abs: the result does not fit 64 bits");
    *out = oc_tpl_int(i < 0 ? -i : i);
    return true;
}

/* Half to even at a power of ten, as Python's round() of an integer. */
static bool round_int(oc_tpl *x, int64_t i, int64_t precision, oc_tpl_value *out) {
    int64_t unit = 1;
    *out = oc_tpl_int(i);
    for (; precision < 0 && unit <= INT64_MAX / 10; precision++)
        unit *= 10;
    if (precision < 0) *out = oc_tpl_int(0);
    if (unit == 1 || precision < 0) return true;
    int64_t rest = i % unit, down = i - rest, size = rest < 0 ? -rest : rest;
    bool up = size > unit / 2 || (size == unit / 2 && down / unit % 2 != 0);
    if (up && __builtin_add_overflow(down, i < 0 ? -unit : unit, &down))
        return oc_tpl_fail(x, OC_E_OVERFLOW, "round: the result does not fit 64 bits");
    *out = oc_tpl_int(down);
    return true;
}

/* Decimal digits are exact, so printing rounds as Python does. */
static double round_float(double d, int64_t precision) {
    char text[400];
    if (isnan(d) || isinf(d) || precision > 323) return d;
    if (precision >= 0) {
        if (precision > 22 && fabs(d) > 1) return d;
        snprintf(text, sizeof text, "%.*f", (int)precision, d);
        return strtod(text, NULL);
    }
    if (precision < -308) return copysign(0, d);
    double unit = pow(10, (double)-precision);
    return nearbyint(d / unit) * unit;
}

FILTER(f_round) {
    (void)call;
    int64_t precision, i;
    if (!need_number(x, &args[0], "round") ||
        !oc_tpl_need_int(x, &args[1], "the precision", 0, &precision))
        return false;
    if (args[2].kind == TV_MISSING || oc_tpl_is(&args[2], "common")) {
        if (oc_tpl_as_int(&args[0], &i)) return round_int(x, i, precision, out);
        *out = oc_tpl_float(round_float(args[0].u.real, precision));
        return true;
    }
    bool up = oc_tpl_is(&args[2], "ceil");
    if (!up && !oc_tpl_is(&args[2], "floor"))
        return oc_tpl_fail(x, OC_E_INVALID, "round: the method must be common, ceil or floor");
    double unit = pow(10, (double)precision), scaled = oc_tpl_as_double(&args[0]) * unit;
    if (!isfinite(scaled) || unit == 0)
        return oc_tpl_fail(x, OC_E_INVALID, "round: the number cannot be rounded so");
    *out = oc_tpl_float((up ? ceil(scaled) : floor(scaled)) / unit);
    return true;
}

FILTER(f_default) {
    (void)call;
    bool absent =
        args[0].kind == TV_UNDEFINED || (oc_tpl_truthy(&args[2]) && !oc_tpl_truthy(&args[0]));
    *out = absent ? args[1] : args[0];
    if (absent && args[1].kind == TV_MISSING) return oc_tpl_string(x, "", 0, out);
    return true;
}

const oc_tpl_entry_point oc_tpl_filters_text[] = {
    {"upper", f_upper, "value", 1, false},
    {"lower", f_lower, "value", 1, false},
    {"capitalize", f_capitalize, "value", 1, false},
    {"title", f_title, "value", 1, false},
    {"trim", f_trim, "value,chars", 1, false},
    {"replace", f_replace, "s,old,new,count", 3, false},
    {"string", f_string, "value", 1, false},
    {"safe", f_safe, "value", 1, false},
    {"e", f_escape, "value", 1, false},
    {"escape", f_escape, "value", 1, false},
    {"forceescape", f_forceescape, "value", 1, false},
    {"indent", f_indent, "s,width,first,blank", 1, false},
    {"wordcount", f_wordcount, "s", 1, false},
    {"truncate", f_truncate, "s,length,killwords,end,leeway", 1, false},
    {"center", f_center, "value,width", 1, false},
    {"format", f_format, "value", 1, true},
    {"tojson", f_tojson, "x,ensure_ascii,indent,separators,sort_keys", 1, false},
    {"int", f_int, "value,default,base", 1, false},
    {"float", f_float, "value,default", 1, false},
    {"abs", f_abs, "value", 1, false},
    {"round", f_round, "value,precision,method", 1, false},
    {"default", f_default, "value,default_value,boolean", 1, false},
    {"d", f_default, "value,default_value,boolean", 1, false},
    {0},
};
