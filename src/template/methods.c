/* methods.c - the methods of strings, lists, dicts and loops that do not change them. */
#include "template/internal.h"

#include <math.h>
#include <string.h>
#include <utf8proc.h>

#define METHOD(name)                                                                               \
    static bool name(oc_tpl *x, const oc_tpl_value *args, const oc_tpl_call *call,                 \
                     oc_tpl_value *out)

static const oc_tpl_str *self(const oc_tpl_value *args) { return args[0].u.string; }

/* What a string method makes of a string marked safe is marked, too. */
static bool keep_flag(const oc_tpl_value *args, oc_tpl_value *out, bool ok) {
    if (ok && out->kind == TV_STRING) out->flag = args[0].flag;
    return ok;
}

METHOD(m_strip) {
    (void)call;
    return keep_flag(args, out, oc_tpl_strip(x, self(args), &args[1], 3, out));
}
METHOD(m_lstrip) {
    (void)call;
    return keep_flag(args, out, oc_tpl_strip(x, self(args), &args[1], 1, out));
}
METHOD(m_rstrip) {
    (void)call;
    return keep_flag(args, out, oc_tpl_strip(x, self(args), &args[1], 2, out));
}
METHOD(m_upper) {
    (void)call;
    return keep_flag(args, out, oc_tpl_recase(x, self(args), CASE_UPPER, out));
}
METHOD(m_lower) {
    (void)call;
    return keep_flag(args, out, oc_tpl_recase(x, self(args), CASE_LOWER, out));
}
METHOD(m_title) {
    (void)call;
    return keep_flag(args, out, oc_tpl_recase(x, self(args), CASE_TITLE, out));
}
METHOD(m_capitalize) {
    (void)call;
    return keep_flag(args, out, oc_tpl_recase(x, self(args), CASE_CAPITALIZE, out));
}
METHOD(m_swapcase) {
    (void)call;
    return keep_flag(args, out, oc_tpl_recase(x, self(args), CASE_SWAP, out));
}

METHOD(m_replace) {
    (void)call;
    const oc_tpl_str *old, *fresh;
    oc_tpl_value text = args[2];
    int64_t count;
    if (args[0].flag && !oc_tpl_escape(x, &args[2], &text)) return false;
    return oc_tpl_need_string(x, &args[1], "what is replaced", &old) &&
           oc_tpl_need_string(x, &text, "the replacement", &fresh) &&
           oc_tpl_need_int(x, &args[3], "the count", -1, &count) &&
           keep_flag(args, out, oc_tpl_replace(x, self(args), old, fresh, count, out));
}

/* --- Splitting */

typedef struct pieces {
    oc_tpl *x;
    oc_tpl_value *at;
    size_t n, room;
    uint8_t flag;
} pieces;

static bool add_piece(pieces *p, const char *at, size_t n) {
    if (p->n == p->room) {
        size_t room = p->room ? 2 * p->room : 8;
        oc_tpl_value *more = oc_tpl_new(p->x, room, sizeof *more);
        if (!more) return false;
        if (p->n) memcpy(more, p->at, p->n * sizeof *more);
        p->at = more;
        p->room = room;
    }
    if (!oc_tpl_string(p->x, at, n, &p->at[p->n])) return false;
    p->at[p->n++].flag = p->flag;
    return oc_tpl_step(p->x, n);
}

static bool reversed(pieces *p, oc_tpl_value *out) {
    for (size_t i = 0, j = p->n; i + 1 < j; i++) {
        oc_tpl_value v = p->at[i];
        p->at[i] = p->at[--j];
        p->at[j] = v;
    }
    return oc_tpl_sequence(p->x, TV_LIST, p->at, p->n, out);
}

/* Bytes of the character at i; where the one before i begins. */
static size_t character_at(const oc_tpl_str *s, size_t i) {
    uint32_t c;
    return oc_tpl_decode(s->at + i, s->n - i, &c);
}

static size_t character_before(const oc_tpl_str *s, size_t i) {
    size_t at = i - 1;
    while (at > 0 && ((unsigned char)s->at[at] & 0xc0u) == 0x80u)
        at--;
    return at;
}

static size_t space_at(const oc_tpl_str *s, size_t i) {
    uint32_t c;
    size_t step = oc_tpl_decode(s->at + i, s->n - i, &c);
    return oc_tpl_is_space(c) ? step : 0;
}

static size_t space_before(const oc_tpl_str *s, size_t i) {
    size_t at = character_before(s, i);
    uint32_t c;
    oc_tpl_decode(s->at + at, i - at, &c);
    return oc_tpl_is_space(c) ? i - at : 0;
}

static bool split_space(pieces *p, const oc_tpl_str *s, int64_t most, oc_tpl_value *out) {
    size_t i = 0, step;
    for (;;) {
        while (i < s->n && (step = space_at(s, i)) != 0)
            i += step;
        if (i == s->n) break;
        size_t begin = i;
        if (most-- == 0) {
            if (!add_piece(p, s->at + begin, s->n - begin)) return false;
            break;
        }
        while (i < s->n && space_at(s, i) == 0)
            i += character_at(s, i);
        if (!add_piece(p, s->at + begin, i - begin)) return false;
    }
    return oc_tpl_sequence(p->x, TV_LIST, p->at, p->n, out);
}

static bool rsplit_space(pieces *p, const oc_tpl_str *s, int64_t most, oc_tpl_value *out) {
    size_t i = s->n, step;
    for (;;) {
        while (i > 0 && (step = space_before(s, i)) != 0)
            i -= step;
        if (i == 0) break;
        size_t end = i;
        if (most-- == 0) {
            if (!add_piece(p, s->at, end)) return false;
            break;
        }
        while (i > 0 && space_before(s, i) == 0)
            i = character_before(s, i);
        if (!add_piece(p, s->at + i, end - i)) return false;
    }
    return reversed(p, out);
}

static size_t find_last(const char *at, size_t n, const char *what, size_t m) {
    for (size_t i = n >= m ? n - m + 1 : 0; i-- > 0;)
        if (m == 0 || memcmp(at + i, what, m) == 0) return i;
    return SIZE_MAX;
}

/* find_last() compares at every place. */
static bool charge_back(oc_tpl *x, size_t n, size_t m) {
    size_t work;
    return oc_tpl_step(x, __builtin_mul_overflow(n, m, &work) ? SIZE_MAX / 2 : work);
}

static bool split_by(pieces *p, const oc_tpl_str *s, const oc_tpl_str *by, int64_t most, bool right,
                     oc_tpl_value *out) {
    size_t begin = 0, end = s->n;
    if (right && !charge_back(p->x, s->n, by->n)) return false;
    while (most-- != 0) {
        size_t found = right ? find_last(s->at, end, by->at, by->n)
                             : oc_tpl_find(s->at, s->n, by->at, by->n, begin);
        if (found == SIZE_MAX) break;
        if (right ? !add_piece(p, s->at + found + by->n, end - found - by->n)
                  : !add_piece(p, s->at + begin, found - begin))
            return false;
        begin = right ? 0 : found + by->n;
        if (right) end = found;
    }
    if (!add_piece(p, s->at + begin, end - begin) || !oc_tpl_step(p->x, s->n)) return false;
    return right ? reversed(p, out) : oc_tpl_sequence(p->x, TV_LIST, p->at, p->n, out);
}

static bool split(oc_tpl *x, const oc_tpl_value *args, bool right, oc_tpl_value *out) {
    pieces p = {.x = x, .flag = args[0].flag};
    const oc_tpl_str *by;
    int64_t most;
    if (!oc_tpl_need_int(x, &args[2], "the number of splits", -1, &most)) return false;
    if (most < 0) most = INT64_MAX;
    if (args[1].kind == TV_MISSING || args[1].kind == TV_NONE)
        return right ? rsplit_space(&p, self(args), most, out)
                     : split_space(&p, self(args), most, out);
    if (!oc_tpl_need_string(x, &args[1], "the separator", &by)) return false;
    if (by->n == 0) return oc_tpl_fail(x, OC_E_INVALID, "the separator of a split is empty");
    return split_by(&p, self(args), by, most, right, out);
}

METHOD(m_split) {
    (void)call;
    return split(x, args, false, out);
}
METHOD(m_rsplit) {
    (void)call;
    return split(x, args, true, out);
}

METHOD(m_splitlines) {
    (void)call;
    return oc_tpl_split_lines(x, self(args), oc_tpl_truthy(&args[1]), out);
}

static bool partition(oc_tpl *x, const oc_tpl_value *args, bool right, oc_tpl_value *out) {
    const oc_tpl_str *s = self(args), *by;
    oc_tpl_value *at = oc_tpl_new(x, 3, sizeof *at);
    if (!at || !oc_tpl_need_string(x, &args[1], "the separator", &by)) return false;
    if (by->n == 0) return oc_tpl_fail(x, OC_E_INVALID, "the separator of a partition is empty");
    if (right && !charge_back(x, s->n, by->n)) return false;
    size_t found =
        right ? find_last(s->at, s->n, by->at, by->n) : oc_tpl_find(s->at, s->n, by->at, by->n, 0);
    size_t before = found == SIZE_MAX ? (right ? 0 : s->n) : found;
    size_t middle = found == SIZE_MAX ? 0 : by->n;
    return oc_tpl_step(x, s->n) && oc_tpl_string(x, s->at, before, &at[0]) &&
           oc_tpl_string(x, s->at + before, middle, &at[1]) &&
           oc_tpl_string(x, s->at + before + middle, s->n - before - middle, &at[2]) &&
           oc_tpl_sequence(x, TV_TUPLE, at, 3, out);
}

METHOD(m_partition) {
    (void)call;
    return partition(x, args, false, out);
}
METHOD(m_rpartition) {
    (void)call;
    return partition(x, args, true, out);
}

/* --- Looking */

/* [start, end) of a search, in bytes, from arguments that count characters; false in *valid where
 * start is beyond the end. */
static bool window(oc_tpl *x, const oc_tpl_value *args, size_t *begin, size_t *end, bool *valid) {
    const oc_tpl_str *s = self(args);
    int64_t n = (int64_t)oc_tpl_characters(s), from, to;
    bool open = args[3].kind == TV_MISSING || args[3].kind == TV_NONE;
    const oc_tpl_value start = args[2].kind == TV_NONE ? (oc_tpl_value){0} : args[2];
    if (!oc_tpl_need_int(x, &start, "the start", 0, &from)) return false;
    to = n;
    if (!open && !oc_tpl_need_int(x, &args[3], "the end", n, &to)) return false;
    if (from < 0) from = from + n > 0 ? from + n : 0;
    if (to < 0) to = to + n > 0 ? to + n : 0;
    if (to > n) to = n;
    *valid = from <= n && from <= to;
    if (!*valid) return true;
    *begin = oc_tpl_offset(s, (size_t)from);
    *end = oc_tpl_offset(s, (size_t)to);
    return oc_tpl_step(x, s->n);
}

static bool find(oc_tpl *x, const oc_tpl_value *args, bool right, bool must, oc_tpl_value *out) {
    const oc_tpl_str *s = self(args), *what;
    size_t begin = 0, end = 0, found = SIZE_MAX;
    bool valid;
    if (!oc_tpl_need_string(x, &args[1], "what is looked for", &what) ||
        !window(x, args, &begin, &end, &valid) || (right && !charge_back(x, s->n, what->n)))
        return false;
    if (valid)
        found = right ? find_last(s->at + begin, end - begin, what->at, what->n)
                      : oc_tpl_find(s->at + begin, end - begin, what->at, what->n, 0);
    if (found == SIZE_MAX && must) return oc_tpl_fail(x, OC_E_INVALID, "index(): not found");
    const oc_tpl_str before = {.at = s->at, .n = begin + found, .ascii = s->ascii};
    *out = oc_tpl_int(found == SIZE_MAX ? -1 : (int64_t)oc_tpl_characters(&before));
    return true;
}

METHOD(m_find) {
    (void)call;
    return find(x, args, false, false, out);
}
METHOD(m_rfind) {
    (void)call;
    return find(x, args, true, false, out);
}
METHOD(m_index) {
    (void)call;
    return find(x, args, false, true, out);
}
METHOD(m_rindex) {
    (void)call;
    return find(x, args, true, true, out);
}

METHOD(m_count) {
    (void)call;
    const oc_tpl_str *s = self(args), *what;
    size_t begin = 0, end = 0;
    bool valid;
    int64_t count = 0;
    if (!oc_tpl_need_string(x, &args[1], "what is counted", &what) ||
        !window(x, args, &begin, &end, &valid))
        return false;
    if (valid && what->n == 0) {
        const oc_tpl_str part = {.at = s->at + begin, .n = end - begin, .ascii = s->ascii};
        count = (int64_t)oc_tpl_characters(&part) + 1;
    } else if (valid) {
        for (size_t at = begin; (at = oc_tpl_find(s->at, end, what->at, what->n, at)) != SIZE_MAX;
             at += what->n)
            count++;
    }
    *out = oc_tpl_int(count);
    return true;
}

static bool affix(oc_tpl *x, const oc_tpl_value *args, bool at_end, oc_tpl_value *out) {
    const oc_tpl_str *s = self(args);
    size_t begin = 0, end = 0;
    bool valid, any = false;
    const oc_tpl_value *options = &args[1];
    size_t n = 1;
    if (args[1].kind == TV_TUPLE) {
        options = args[1].u.list->at;
        n = args[1].u.list->n;
    }
    if (!window(x, args, &begin, &end, &valid)) return false;
    for (size_t i = 0; i < n && !any; i++) {
        const oc_tpl_str *word;
        if (!oc_tpl_need_string(x, &options[i], "what a string starts or ends with", &word))
            return false;
        size_t at = at_end ? end - word->n : begin;
        any = valid && word->n <= end - begin &&
              (word->n == 0 || memcmp(s->at + at, word->at, word->n) == 0);
    }
    *out = oc_tpl_bool(any);
    return true;
}

METHOD(m_startswith) {
    (void)call;
    return affix(x, args, false, out);
}
METHOD(m_endswith) {
    (void)call;
    return affix(x, args, true, out);
}

static bool remove_affix(oc_tpl *x, const oc_tpl_value *args, bool at_end, oc_tpl_value *out) {
    const oc_tpl_str *s = self(args), *word;
    if (!oc_tpl_need_string(x, &args[1], "what is removed", &word)) return false;
    bool has = word->n && word->n <= s->n &&
               memcmp(s->at + (at_end ? s->n - word->n : 0), word->at, word->n) == 0;
    size_t gone = has ? word->n : 0;
    return keep_flag(args, out, oc_tpl_string(x, s->at + (at_end ? 0 : gone), s->n - gone, out));
}

METHOD(m_removeprefix) {
    (void)call;
    return remove_affix(x, args, false, out);
}
METHOD(m_removesuffix) {
    (void)call;
    return remove_affix(x, args, true, out);
}

METHOD(m_join) {
    (void)call;
    const oc_tpl_value *at;
    size_t n;
    return oc_tpl_elements(x, &args[1], &at, &n) &&
           keep_flag(args, out, oc_tpl_join(x, self(args), at, n, false, out));
}

/* --- Kinds of characters */

static bool is_numeric(utf8proc_category_t k) {
    return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}

/* Superscripts and circled digits, which are digits though not decimal. */
static bool is_digit_form(uint32_t c) {
    return c == 0xb2 || c == 0xb3 || c == 0xb9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
           (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468);
}

static bool is_kind(uint32_t c, char kind) {
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    bool alpha = k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
    switch (kind) {
    case 'a':
        return alpha;
    case 'd':
        return k == UTF8PROC_CATEGORY_ND || is_digit_form(c);
    case 'D':
        return k == UTF8PROC_CATEGORY_ND;
    case 'n':
        return is_numeric(k);
    case 's':
        return oc_tpl_is_space(c);
    default:
        return alpha || is_numeric(k);
    }
}

static bool all_of(oc_tpl *x, const oc_tpl_value *args, char kind, oc_tpl_value *out) {
    const oc_tpl_str *s = self(args);
    bool all = s->n > 0;
    for (size_t i = 0; all && i < s->n;) {
        uint32_t c;
        i += oc_tpl_decode(s->at + i, s->n - i, &c);
        all = is_kind(c, kind);
    }
    *out = oc_tpl_bool(all);
    return oc_tpl_step(x, s->n);
}

METHOD(m_isalpha) {
    (void)call;
    return all_of(x, args, 'a', out);
}
METHOD(m_isdigit) {
    (void)call;
    return all_of(x, args, 'd', out);
}
METHOD(m_isdecimal) {
    (void)call;
    return all_of(x, args, 'D', out);
}
METHOD(m_isnumeric) {
    (void)call;
    return all_of(x, args, 'n', out);
}
METHOD(m_isspace) {
    (void)call;
    return all_of(x, args, 's', out);
}
METHOD(m_isalnum) {
    (void)call;
    return all_of(x, args, 'w', out);
}
METHOD(m_isupper) {
    (void)call;
    *out = oc_tpl_bool(oc_tpl_has_case(self(args), true));
    return oc_tpl_step(x, self(args)->n);
}
METHOD(m_islower) {
    (void)call;
    *out = oc_tpl_bool(oc_tpl_has_case(self(args), false));
    return oc_tpl_step(x, self(args)->n);
}
METHOD(m_isascii) {
    (void)call;
    *out = oc_tpl_bool(self(args)->ascii);
    return oc_tpl_step(x, 1);
}

/* --- Padding */

static bool put_fill(oc_tpl *x, oc_tpl_buffer *b, const oc_tpl_str *fill, size_t n) {
    if (!oc_tpl_allow(x, n, fill->n)) return false;
    for (; n > 0; n--)
        if (!oc_tpl_put(x, b, fill->at, fill->n)) return false;
    return true;
}

static bool justify(oc_tpl *x, const oc_tpl_value *args, char side, oc_tpl_value *out) {
    static const oc_tpl_str space = {.at = " ", .n = 1, .ascii = true};
    const oc_tpl_str *s = self(args), *fill = &space;
    oc_tpl_buffer b = {0};
    int64_t width, have = (int64_t)oc_tpl_characters(s);
    if (!oc_tpl_need_int(x, &args[1], "the width", 0, &width) ||
        (args[2].kind != TV_MISSING && !oc_tpl_need_string(x, &args[2], "the fill", &fill)))
        return false;
    if (oc_tpl_characters(fill) != 1)
        return oc_tpl_fail(x, OC_E_INVALID, "the fill must be one character");
    size_t n = width > have ? (size_t)(width - have) : 0;
    size_t left = side == 'l' ? 0 : side == 'r' ? n : n / 2 + (n & (size_t)width & 1);
    return put_fill(x, &b, fill, left) && oc_tpl_put(x, &b, s->at, s->n) &&
           put_fill(x, &b, fill, n - left) && keep_flag(args, out, oc_tpl_buffer_value(x, &b, out));
}

METHOD(m_ljust) {
    (void)call;
    return justify(x, args, 'l', out);
}
METHOD(m_rjust) {
    (void)call;
    return justify(x, args, 'r', out);
}
METHOD(m_center) {
    (void)call;
    return justify(x, args, 'c', out);
}

METHOD(m_zfill) {
    (void)call;
    static const oc_tpl_str zero = {.at = "0", .n = 1, .ascii = true};
    const oc_tpl_str *s = self(args);
    oc_tpl_buffer b = {0};
    int64_t width, have = (int64_t)oc_tpl_characters(s);
    if (!oc_tpl_need_int(x, &args[1], "the width", 0, &width)) return false;
    size_t sign = s->n && (s->at[0] == '-' || s->at[0] == '+');
    return oc_tpl_put(x, &b, s->at, sign) &&
           put_fill(x, &b, &zero, width > have ? (size_t)(width - have) : 0) &&
           oc_tpl_put(x, &b, s->at + sign, s->n - sign) && oc_tpl_buffer_value(x, &b, out);
}

static const oc_tpl_entry_point string_methods[] = {
    {"strip", m_strip, "self,chars", 1, false},
    {"lstrip", m_lstrip, "self,chars", 1, false},
    {"rstrip", m_rstrip, "self,chars", 1, false},
    {"split", m_split, "self,sep,maxsplit", 1, false},
    {"rsplit", m_rsplit, "self,sep,maxsplit", 1, false},
    {"splitlines", m_splitlines, "self,keepends", 1, false},
    {"startswith", m_startswith, "self,prefix,start,end", 2, false},
    {"endswith", m_endswith, "self,suffix,start,end", 2, false},
    {"replace", m_replace, "self,old,new,count", 3, false},
    {"upper", m_upper, "self", 1, false},
    {"lower", m_lower, "self", 1, false},
    {"casefold", m_lower, "self", 1, false},
    {"title", m_title, "self", 1, false},
    {"capitalize", m_capitalize, "self", 1, false},
    {"swapcase", m_swapcase, "self", 1, false},
    {"find", m_find, "self,sub,start,end", 2, false},
    {"rfind", m_rfind, "self,sub,start,end", 2, false},
    {"index", m_index, "self,sub,start,end", 2, false},
    {"rindex", m_rindex, "self,sub,start,end", 2, false},
    {"count", m_count, "self,sub,start,end", 2, false},
    {"join", m_join, "self,iterable", 2, false},
    {"partition", m_partition, "self,sep", 2, false},
    {"rpartition", m_rpartition, "self,sep", 2, false},
    {"removeprefix", m_removeprefix, "self,prefix", 2, false},
    {"removesuffix", m_removesuffix, "self,suffix", 2, false},
    {"isalpha", m_isalpha, "self", 1, false},
    {"isdigit", m_isdigit, "self", 1, false},
    {"isdecimal", m_isdecimal, "self", 1, false},
    {"isnumeric", m_isnumeric, "self", 1, false},
    {"isspace", m_isspace, "self", 1, false},
    {"isalnum", m_isalnum, "self", 1, false},
    {"isupper", m_isupper, "self", 1, false},
    {"islower", m_islower, "self", 1, false},
    {"isascii", m_isascii, "self", 1, false},
    {"ljust", m_ljust, "self,width,fillchar", 2, false},
    {"rjust", m_rjust, "self,width,fillchar", 2, false},
    {"center", m_center, "self,width,fillchar", 2, false},
    {"zfill", m_zfill, "self,width", 2, false},
    {0},
};

/* --- Lists, dicts, loops */

METHOD(m_list_index) {
    (void)call;
    const oc_tpl_list *l = args[0].u.list;
    for (size_t i = 0; i < l->n; i++) {
        bool equal;
        if (!oc_tpl_equal(x, &l->at[i], &args[1], &equal)) return false;
        if (!equal) continue;
        *out = oc_tpl_int((int64_t)i);
        return true;
    }
    return oc_tpl_fail(x, OC_E_INVALID, "index(): the value is not in the list");
}

METHOD(m_list_count) {
    (void)call;
    const oc_tpl_list *l = args[0].u.list;
    int64_t count = 0;
    for (size_t i = 0; i < l->n; i++) {
        bool equal;
        if (!oc_tpl_equal(x, &l->at[i], &args[1], &equal)) return false;
        count += equal;
    }
    *out = oc_tpl_int(count);
    return true;
}

METHOD(m_copy) {
    (void)call;
    *out = args[0];
    return oc_tpl_step(x, 1);
}

METHOD(m_get) {
    (void)call;
    if (!oc_tpl_hashable(x, &args[1])) return false;
    const oc_tpl_value *v = oc_tpl_dict_get(args[0].u.dict, &args[1]);
    *out = v ? *v : args[2].kind == TV_MISSING ? oc_tpl_none() : args[2];
    return true;
}

static bool view(oc_tpl *x, const oc_tpl_value *args, oc_tpl_view what, oc_tpl_value *out) {
    *out = (oc_tpl_value){.kind = TV_VIEW, .flag = (uint8_t)what, .u.dict = args[0].u.dict};
    return oc_tpl_step(x, 1);
}

METHOD(m_keys) {
    (void)call;
    return view(x, args, VIEW_KEYS, out);
}
METHOD(m_values) {
    (void)call;
    return view(x, args, VIEW_VALUES, out);
}
METHOD(m_items) {
    (void)call;
    return view(x, args, VIEW_ITEMS, out);
}

METHOD(m_cycle) {
    if (!call->n) return oc_tpl_fail(x, OC_E_INVALID, "loop.cycle() needs values");
    *out = call->at[args[0].u.loop->index % call->n];
    return true;
}

METHOD(m_changed) {
    oc_tpl_value now, *at = oc_tpl_new(x, call->n, sizeof *at);
    bool same = false;
    if (!at) return false;
    if (call->n) memcpy(at, call->at, call->n * sizeof *at);
    if (!oc_tpl_sequence(x, TV_TUPLE, at, call->n, &now)) return false;
    oc_tpl_value *last = &args[0].u.loop->changed;
    if (last->kind == TV_TUPLE && !oc_tpl_equal(x, last, &now, &same)) return false;
    *last = now;
    *out = oc_tpl_bool(!same);
    return true;
}

METHOD(m_next) {
    (void)call;
    oc_tpl_cycler *c = args[0].u.cycler;
    *out = c->at[c->pos];
    c->pos = (c->pos + 1) % c->n;
    return oc_tpl_step(x, 1);
}

METHOD(m_reset) {
    (void)call;
    args[0].u.cycler->pos = 0;
    *out = oc_tpl_none();
    return oc_tpl_step(x, 1);
}

METHOD(m_is_integer) {
    (void)call;
    *out = oc_tpl_bool(isfinite(args[0].u.real) && args[0].u.real == floor(args[0].u.real));
    return oc_tpl_step(x, 1);
}

static const oc_tpl_entry_point list_methods[] = {
    {"index", m_list_index, "self,value", 2, false},
    {"count", m_list_count, "self,value", 2, false},
    {"copy", m_copy, "self", 1, false},
    {0},
};
static const oc_tpl_entry_point tuple_methods[] = {
    {"index", m_list_index, "self,value", 2, false},
    {"count", m_list_count, "self,value", 2, false},
    {0},
};
static const oc_tpl_entry_point dict_methods[] = {
    {"get", m_get, "self,key,default", 2, false}, {"keys", m_keys, "self", 1, false},
    {"values", m_values, "self", 1, false},       {"items", m_items, "self", 1, false},
    {"copy", m_copy, "self", 1, false},           {0},
};
static const oc_tpl_entry_point loop_methods[] = {
    {"cycle", m_cycle, "self", 1, true},
    {"changed", m_changed, "self", 1, true},
    {0},
};
static const oc_tpl_entry_point cycler_methods[] = {
    {"next", m_next, "self", 1, false},
    {"reset", m_reset, "self", 1, false},
    {0},
};
static const oc_tpl_entry_point float_methods[] = {
    {"is_integer", m_is_integer, "self", 1, false},
    {0},
};

/* Known in the language; using them is an error, finding them is not. */
static const char *const string_unsupported[] = {
    "encode",      "expandtabs", "format",    "format_map", "isidentifier",
    "isprintable", "istitle",    "maketrans", "translate",  NULL};
static const char *const dict_unsupported[] = {"fromkeys", NULL};
static const char *const list_unsafe[] = {"append", "clear",   "extend", "insert", "pop",
                                          "remove", "reverse", "sort",   NULL};
static const char *const dict_unsafe[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};
static const char *const no_words[] = {NULL};

static const char *find_word(const char *const *words, const oc_tpl_str *name) {
    for (; *words; words++)
        if (strlen(*words) == name->n && memcmp(*words, name->at, name->n) == 0) return *words;
    return NULL;
}

static const struct {
    uint8_t kind;
    const oc_tpl_entry_point *methods;
    const char *const *unsafe, *const *unsupported;
} kinds[] = {
    {TV_STRING, string_methods, no_words, string_unsupported},
    {TV_LIST, list_methods, list_unsafe, no_words},
    {TV_TUPLE, tuple_methods, no_words, no_words},
    {TV_DICT, dict_methods, dict_unsafe, dict_unsupported},
    {TV_LOOP, loop_methods, no_words, no_words},
    {TV_CYCLER, cycler_methods, no_words, no_words},
    {TV_FLOAT, float_methods, no_words, no_words},
};

/* The groups of groupby() are tuples whose elements have names. */
static bool group_member(const oc_tpl_value *v, const oc_tpl_str *name, oc_tpl_value *out) {
    static const char *const words[] = {"grouper", "list", NULL};
    const char *word = v->kind == TV_TUPLE && v->flag ? find_word(words, name) : NULL;
    if (word) *out = v->u.list->at[word == words[1]];
    return word != NULL;
}

bool oc_tpl_find_method(oc_tpl *x, const oc_tpl_value *v, const oc_tpl_str *name, bool *found,
                        oc_tpl_value *out) {
    *found = true;
    if (group_member(v, name, out)) return true;
    if (v->kind == TV_CYCLER && name->n == 7 && memcmp(name->at, "current", 7) == 0) {
        *out = v->u.cycler->at[v->u.cycler->pos];
        return true;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (kinds[i].kind != v->kind) continue;
        const oc_tpl_entry_point *const tables[] = {kinds[i].methods, NULL};
        const oc_tpl_entry_point *e = oc_tpl_find_entry(tables, name->at, name->n);
        const char *known = e ? e->name : find_word(kinds[i].unsupported, name);
        if (known) {
            oc_tpl_method *m = oc_tpl_new(x, 1, sizeof *m);
            if (!m) return false;
            *m = (oc_tpl_method){*v, known, e};
            *out = (oc_tpl_value){.kind = TV_METHOD, .u.method = m};
            return true;
        }
        if (find_word(kinds[i].unsafe, name))
            return oc_tpl_undefined(x, ABSENT_UNSAFE, (oc_tpl_kind)v->kind, name->at, name->n, out);
    }
    *found = false;
    return true;
}
