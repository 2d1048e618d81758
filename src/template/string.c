/* string.c - what filters and methods do to strings. Pieces borrow the bytes. */
#include "template/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static bool is_cased(uint32_t c) {
    utf8proc_int32_t u = (utf8proc_int32_t)c;
    return utf8proc_tolower(u) != u || utf8proc_toupper(u) != u ||
           utf8proc_category(u) == UTF8PROC_CATEGORY_LL;
}

bool oc_tpl_is_word_character(uint32_t c) {
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return true;
    default:
        return c == '_';
    }
}

/* --- Case. The few characters whose other case is longer are in full. */

static const struct {
    uint32_t from;
    const char *upper, *title;
} long_upper[] = {
    {0xdf, "SS", "Ss"},   {0xfb00, "FF", "Ff"},   {0xfb01, "FI", "Fi"},
    {0xfb02, "FL", "Fl"}, {0xfb03, "FFI", "Ffi"}, {0xfb04, "FFL", "Ffl"},
    {0xfb05, "ST", "St"}, {0xfb06, "ST", "St"},   {0x149, "\xca\xbcN", "\xca\xbcN"},
};

static bool put_cased(oc_tpl *x, oc_tpl_buffer *b, uint32_t c, oc_tpl_casing how) {
    char text[4];
    if (how != CASE_LOWER) {
        for (size_t i = 0; c >= 0xdf && i < sizeof long_upper / sizeof long_upper[0]; i++) {
            if (long_upper[i].from != c) continue;
            const char *s = how == CASE_UPPER ? long_upper[i].upper : long_upper[i].title;
            return oc_tpl_put(x, b, s, strlen(s));
        }
        utf8proc_int32_t to = how == CASE_UPPER ? utf8proc_toupper((utf8proc_int32_t)c)
                                                : utf8proc_totitle((utf8proc_int32_t)c);
        return oc_tpl_put(x, b, text, oc_tpl_encode((uint32_t)to, text));
    }
    if (c == 0x130) return oc_tpl_put(x, b, "i\xcc\x87", 3);
    return oc_tpl_put(x, b, text,
                      oc_tpl_encode((uint32_t)utf8proc_tolower((utf8proc_int32_t)c), text));
}

/* A capital sigma at the end of a word. */
static bool ends_word(const oc_tpl_str *s, size_t at, size_t after, bool letter_before) {
    uint32_t c;
    (void)at;
    if (!letter_before) return false;
    if (after == s->n) return true;
    oc_tpl_decode(s->at + after, s->n - after, &c);
    return !is_cased(c);
}

bool oc_tpl_recase(oc_tpl *x, const oc_tpl_str *s, oc_tpl_casing how, oc_tpl_value *out) {
    oc_tpl_buffer b = {0};
    bool before = false;
    for (size_t i = 0; i < s->n;) {
        uint32_t c;
        size_t step = oc_tpl_decode(s->at + i, s->n - i, &c);
        oc_tpl_casing now = how;
        if (how == CASE_TITLE) now = before ? CASE_LOWER : CASE_TITLE;
        if (how == CASE_CAPITALIZE) now = i ? CASE_LOWER : CASE_TITLE;
        if (how == CASE_SWAP)
            now = utf8proc_tolower((utf8proc_int32_t)c) != (utf8proc_int32_t)c ? CASE_LOWER
                                                                               : CASE_UPPER;
        bool sigma = now == CASE_LOWER && c == 0x3a3 && ends_word(s, i, i + step, before);
        if (sigma ? !oc_tpl_put(x, &b, "\xcf\x82", 2) : !put_cased(x, &b, c, now)) return false;
        before = is_cased(c);
        i += step;
    }
    return oc_tpl_buffer_value(x, &b, out);
}

bool oc_tpl_has_case(const oc_tpl_str *s, bool upper) {
    bool any = false;
    for (size_t i = 0; i < s->n;) {
        uint32_t c;
        i += oc_tpl_decode(s->at + i, s->n - i, &c);
        utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
        if (k == UTF8PROC_CATEGORY_LT || k == (upper ? UTF8PROC_CATEGORY_LL : UTF8PROC_CATEGORY_LU))
            return false;
        any = any || k == (upper ? UTF8PROC_CATEGORY_LU : UTF8PROC_CATEGORY_LL);
    }
    return any;
}

/* --- Stripping */

static bool in_set(const oc_tpl_str *set, const char *at, size_t step, uint32_t c) {
    if (!set) return oc_tpl_is_space(c);
    /* UTF-8 synchronizes itself: a character is found only where it begins. */
    return oc_tpl_find(set->at, set->n, at, step, 0) != SIZE_MAX;
}

bool oc_tpl_strip(oc_tpl *x, const oc_tpl_str *s, const oc_tpl_value *chars, int side,
                  oc_tpl_value *out) {
    const oc_tpl_str *set = NULL;
    if (chars->kind != TV_MISSING && chars->kind != TV_NONE &&
        !oc_tpl_need_string(x, chars, "the characters to strip", &set))
        return false;
    size_t begin = 0, end = s->n;
    uint32_t c;
    while ((side & 1) && begin < end) {
        size_t step = oc_tpl_decode(s->at + begin, end - begin, &c);
        if (!in_set(set, s->at + begin, step, c)) break;
        begin += step;
    }
    while ((side & 2) && end > begin) {
        size_t at = end - 1;
        while (at > begin && ((unsigned char)s->at[at] & 0xc0u) == 0x80u)
            at--;
        oc_tpl_decode(s->at + at, end - at, &c);
        if (!in_set(set, s->at + at, end - at, c)) break;
        end = at;
    }
    return oc_tpl_step(x, s->n) && oc_tpl_part(x, s, begin, end, out);
}

/* --- Replacing, joining, splitting */

bool oc_tpl_replace(oc_tpl *x, const oc_tpl_str *s, const oc_tpl_str *old, const oc_tpl_str *fresh,
                    int64_t count, oc_tpl_value *out) {
    oc_tpl_buffer b = {0};
    size_t done = 0, from = 0;
    for (int64_t i = 0; count < 0 || i < count; i++) {
        size_t at = oc_tpl_find(s->at, s->n, old->at, old->n, from);
        if (at == SIZE_MAX) break;
        if (!oc_tpl_put(x, &b, s->at + done, at - done) ||
            !oc_tpl_put(x, &b, fresh->at, fresh->n) || !oc_tpl_step(x, 1))
            return false;
        done = at + old->n;
        from = done;
        if (old->n) continue;
        /* Nothing is found before each character and at the end. */
        uint32_t c;
        if (at == s->n) break;
        from = at + oc_tpl_decode(s->at + at, s->n - at, &c);
    }
    return oc_tpl_put(x, &b, s->at + done, s->n - done) && oc_tpl_step(x, s->n) &&
           oc_tpl_buffer_value(x, &b, out);
}

bool oc_tpl_join(oc_tpl *x, const oc_tpl_str *between, const oc_tpl_value *at, size_t n,
                 bool convert, oc_tpl_value *out) {
    oc_tpl_buffer b = {0};
    for (size_t i = 0; i < n; i++) {
        if (!convert && at[i].kind != TV_STRING)
            return oc_tpl_fail(x, OC_E_INVALID, "join() needs strings; element %zu is %s", i,
                               oc_tpl_type_name(&at[i]));
        if ((i && !oc_tpl_put(x, &b, between->at, between->n)) || !oc_tpl_put_str(x, &b, &at[i]))
            return false;
    }
    return oc_tpl_buffer_value(x, &b, out);
}

static bool is_line_end(uint32_t c) {
    return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

bool oc_tpl_split_lines(oc_tpl *x, const oc_tpl_str *s, bool keep_ends, oc_tpl_value *out) {
    size_t n = 0, room = 8, begin = 0;
    oc_tpl_value *at = oc_tpl_new(x, room, sizeof *at);
    for (size_t i = 0; at && i < s->n;) {
        uint32_t c;
        size_t end = i, step = oc_tpl_decode(s->at + i, s->n - i, &c);
        i += step;
        if (!is_line_end(c) && i < s->n) continue;
        if (!is_line_end(c)) end = i;
        if (c == '\r' && i < s->n && s->at[i] == '\n') i++;
        if (n == room) {
            oc_tpl_value *more = oc_tpl_new(x, 2 * room, sizeof *at);
            if (!more) return false;
            memcpy(more, at, n * sizeof *at);
            at = more;
            room *= 2;
        }
        if (!oc_tpl_string(x, s->at + begin, (keep_ends ? i : end) - begin, &at[n++])) return false;
        begin = i;
    }
    return at && oc_tpl_step(x, s->n) && oc_tpl_sequence(x, TV_LIST, at, n, out);
}

bool oc_tpl_escape(oc_tpl *x, const oc_tpl_value *v, oc_tpl_value *out) {
    static const char from[] = "&<>'\"";
    static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    oc_tpl_value text;
    oc_tpl_buffer b = {0};
    if (v->kind == TV_STRING && v->flag) {
        *out = *v;
        return true;
    }
    if (!oc_tpl_str_of(x, v, &text)) return false;
    const oc_tpl_str *s = text.u.string;
    for (size_t i = 0; i < s->n; i++) {
        const char *special = s->at[i] ? strchr(from, s->at[i]) : NULL;
        if (special ? !oc_tpl_put(x, &b, to[special - from], strlen(to[special - from]))
                    : !oc_tpl_put(x, &b, &s->at[i], 1))
            return false;
    }
    if (!oc_tpl_buffer_value(x, &b, out)) return false;
    out->flag = 1;
    return true;
}

/* --- Numbers in strings */

/* Without the white space around and the underscores between digits; false when too long or when an
 * underscore stands elsewhere. */
static bool plain_number(const oc_tpl_str *s, char out[400]) {
    size_t begin = 0, end = s->n, n = 0;
    uint32_t c;
    while (begin < end) {
        size_t step = oc_tpl_decode(s->at + begin, end - begin, &c);
        if (!oc_tpl_is_space(c)) break;
        begin += step;
    }
    while (end > begin && (unsigned char)s->at[end - 1] < 0x80 &&
           oc_tpl_is_space((unsigned char)s->at[end - 1]))
        end--;
    for (size_t i = begin; i < end; i++) {
        char d = s->at[i];
        if (d == '_') {
            bool between = i > begin && i + 1 < end && s->at[i - 1] != '_' &&
                           strchr("+-.", s->at[i - 1]) == NULL && s->at[i + 1] != '_';
            if (!between) return false;
            continue;
        }
        if (n == 399 || d == '\0') return false;
        out[n++] = d;
    }
    out[n] = '\0';
    return n > 0;
}

bool oc_tpl_parse_int(const oc_tpl_str *s, int64_t base, int64_t *out) {
    char text[400];
    if (base != 0 && (base < 2 || base > 36)) return false;
    if (!plain_number(s, text)) return false;
    const char *at = text;
    bool negative = *at == '-';
    if (*at == '-' || *at == '+') at++;
    char mark = at[0] == '0' && at[1] ? (char)(at[1] | 0x20) : '\0';
    int64_t marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (marked && (base == 0 || base == marked)) {
        at += 2;
        base = marked;
    } else if (base == 0) {
        if (at[0] == '0' && strspn(at, "0") != strlen(at)) return false;
        base = 10;
    }
    if (!*at) return false;
    int64_t value = 0;
    for (; *at; at++) {
        int64_t digit = *at >= '0' && *at <= '9' ? *at - '0' : (*at | 0x20) - 'a' + 10;
        if (digit < 0 || digit >= base || (digit >= 10 && ((*at | 0x20) < 'a'))) return false;
        if (__builtin_mul_overflow(value, base, &value) ||
            __builtin_sub_overflow(value, digit, &value))
            return false;
    }
    if (!negative && value == INT64_MIN) return false;
    *out = negative ? value : -value;
    return true;
}

bool oc_tpl_parse_float(const oc_tpl_str *s, double *out) {
    char text[400], *end;
    if (!plain_number(s, text)) return false;
    const char *at = text + (*text == '+' || *text == '-');
    bool digits = (*at >= '0' && *at <= '9') || (*at == '.' && at[1] >= '0' && at[1] <= '9');
    /* strtod() also reads hexadecimal, and "nan(...)". */
    if (digits && strpbrk(at, "xX")) return false;
    if (!digits && strspn(at, "infatyINFATY") != strlen(at)) return false;
    *out = strtod(text, &end);
    return *end == '\0' && end != text;
}
