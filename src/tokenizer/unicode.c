/* Normalization forms with origins, and the properties of characters that tokenizers ask for.
 *
 * A text falls into segments that do not touch each other: a segment begins at a code point whose
 * decomposition begins with a starter that composes with nothing before it. Most segments are one
 * plain code point, which two bit maps tell; the others are decomposed, ordered and composed on
 * their own (Unicode, annex 15). */
#include "tokenizer/unicode.h"
#include "base/heap.h"
#include "tokenizer/internal.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum {
    MAP_END = 0x30000, /* beyond it nothing changes but for the tags of plane 14, which are plain */
    EXPANSION_MOST = 18,
    FEW = 12 /* bytes of a segment that needs no allocation */
};

struct oc_tk_unicode {
    oc_tk_form form;
    uint64_t plain[MAP_END / 64]; /* normalized as it is, a starter, composes with none before */
    uint64_t glue[MAP_END / 64];  /* belongs to the segment before it */
};

static bool bit(const uint64_t *map, uint32_t c) { return map[c >> 6] >> (c & 63) & 1; }

static bool in_ranges(const oc_tk_range *r, size_t n, uint32_t c) {
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (r[mid].last < c)
            low = mid + 1;
        else
            high = mid;
    }
    return low < n && r[low].first <= c;
}

static utf8proc_option_t options(oc_tk_form form) {
    unsigned o = UTF8PROC_STABLE;
    o |= form == OC_TK_NFC || form == OC_TK_NFKC ? (unsigned)UTF8PROC_COMPOSE
                                                 : (unsigned)UTF8PROC_DECOMPOSE;
    if (form == OC_TK_NFKC || form == OC_TK_NFKD) o |= (unsigned)UTF8PROC_COMPAT;
    return (utf8proc_option_t)o;
}

static bool is_young(uint32_t c) { return in_ranges(oc_tk_young, oc_tk_young_count, c); }

/* Most code points stand for themselves, which their properties tell at once. */
static bool is_simple(uint32_t c) {
    const utf8proc_property_t *p = utf8proc_get_property((int32_t)c);
    return p->decomp_seqindex == UINT16_MAX && p->combining_class == 0 &&
           !(c >= 0xac00 && c <= 0xd7a3);
}

static size_t decompose(oc_tk_form form, uint32_t c, int32_t out[EXPANSION_MOST]) {
    out[0] = (int32_t)c;
    if (is_simple(c) || is_young(c)) return 1;
    int last = 0;
    utf8proc_ssize_t n =
        utf8proc_decompose_char((int32_t)c, out, EXPANSION_MOST, options(form), &last);
    return n < 1 || n > EXPANSION_MOST ? 1 : (size_t)n;
}

static int combining_class(int32_t c) {
    int class = (int)utf8proc_get_property(c)->combining_class;
    return class != 0 && is_young((uint32_t)c) ? 0 : class;
}

/* The second and later parts of canonical decompositions are what composes with something before.
 */
static void mark_seconds(uint64_t *second) {
    int32_t parts[EXPANSION_MOST];
    for (uint32_t c = 0xa0; c < MAP_END; c++) {
        if (c == 0xd7a4) c = 0xf900;
        size_t n = decompose(OC_TK_NFD, c, parts);
        for (size_t k = 1; k < n; k++)
            if (parts[k] < MAP_END) second[parts[k] >> 6] |= (uint64_t)1 << (parts[k] & 63);
    }
}

oc_status oc_tk_unicode_new(oc_tk_unicode **out, oc_tk_form form) {
    *out = NULL;
    oc_tk_unicode *u = calloc(1, sizeof *u);
    uint64_t *second = calloc(MAP_END / 64, sizeof *second);
    if (u == NULL || second == NULL) {
        free(u);
        free(second);
        return OC_E_MEMORY;
    }
    u->form = form;
    if (form == OC_TK_NFC || form == OC_TK_NFKC) mark_seconds(second);
    int32_t parts[EXPANSION_MOST];
    for (uint32_t c = 0; c < MAP_END; c++) {
        uint64_t one = (uint64_t)1 << (c & 63);
        size_t n = c >= 0xd800 && c < 0xe000 ? 1 : decompose(form, c, parts);
        if (c >= 0xd800 && c < 0xe000) parts[0] = (int32_t)c;
        bool glued = combining_class(parts[0]) != 0 ||
                     (parts[0] < MAP_END && bit(second, (uint32_t)parts[0]));
        if (glued && is_young(c)) glued = false;
        if (glued) u->glue[c >> 6] |= one;
        if (!glued && n == 1 && parts[0] == (int32_t)c) u->plain[c >> 6] |= one;
        /* A composed character that normalizes to itself stays plain in the composed forms. */
        if (!glued && (form == OC_TK_NFC || form == OC_TK_NFKC) && n > 1 &&
            utf8proc_normalize_utf32(parts, (utf8proc_ssize_t)n, options(form)) == 1 &&
            parts[0] == (int32_t)c)
            u->plain[c >> 6] |= one;
    }
    free(second);
    *out = u;
    return OC_OK;
}

void oc_tk_unicode_free(oc_tk_unicode *u) { free(u); }
uint64_t oc_tk_unicode_bytes(const oc_tk_unicode *u) {
    return u == NULL ? 0 : oc_heap_bytes(sizeof *u);
}

static bool is_plain(const oc_tk_unicode *u, uint32_t c) {
    return c >= MAP_END || bit(u->plain, c);
}
static bool is_glue(const oc_tk_unicode *u, uint32_t c) { return c < MAP_END && bit(u->glue, c); }

/* The first code point that is not plain, or n. */
static size_t plain_end(const oc_tk_unicode *u, const char *s, size_t i, size_t n) {
    while (i < n) {
        uint64_t w;
        while (n - i >= sizeof w) {
            memcpy(&w, s + i, sizeof w);
            if (w & 0x8080808080808080u) break;
            i += sizeof w;
        }
        if (i == n) break;
        size_t next = i;
        if (!is_plain(u, oc_tk_next(s, &next))) return i;
        i = next;
    }
    return i;
}

size_t oc_tk_unicode_plain(const oc_tk_unicode *u, const char *s, size_t n) {
    size_t end = plain_end(u, s, 0, n);
    if (end == n || end == 0) return end;
    return oc_tk_back(s, end);
}

/* A code point on its way, and the byte of the view that it came from. */
typedef struct part {
    int32_t c;
    size_t at;
} part;

/* Stable, by combining class, each run of non-starters: linear however long it is. */
static oc_status order(part *p, size_t n) {
    for (size_t i = 0; i < n;) {
        if (combining_class(p[i].c) == 0) {
            i++;
            continue;
        }
        size_t end = i, count[257] = {0};
        bool sorted = true;
        for (; end < n && combining_class(p[end].c) != 0; end++) {
            count[combining_class(p[end].c) + 1]++;
            if (end > i && combining_class(p[end].c) < combining_class(p[end - 1].c))
                sorted = false;
        }
        if (!sorted) {
            part *copy = malloc((end - i) * sizeof *copy);
            if (copy == NULL) return OC_E_MEMORY;
            memcpy(copy, p + i, (end - i) * sizeof *copy);
            for (int k = 0; k < 256; k++)
                count[k + 1] += count[k];
            for (size_t k = 0; k < end - i; k++)
                p[i + count[combining_class(copy[k].c)]++] = copy[k];
            free(copy);
        }
        i = end;
    }
    return OC_OK;
}

static bool compose_pair(int32_t a, int32_t b, utf8proc_option_t opts, int32_t *out) {
    int32_t two[2] = {a, b};
    if (utf8proc_normalize_utf32(two, 2, opts) != 1) return false;
    *out = two[0];
    return true;
}

/* Each part composes with the last starter unless one of its own class or higher stands between. */
static size_t compose(part *p, size_t n, utf8proc_option_t opts) {
    size_t kept = 0, starter = SIZE_MAX;
    int last = -1; /* class of the part before, after the starter; -1: it is the starter */
    for (size_t i = 0; i < n; i++) {
        int class = combining_class(p[i].c);
        bool near = starter != SIZE_MAX && (last == -1 || (last != 0 && last < class));
        if (near && compose_pair(p[starter].c, p[i].c, opts, &p[starter].c)) continue;
        p[kept] = p[i];
        if (class == 0) {
            starter = kept;
            last = -1;
        } else {
            last = class;
        }
        kept++;
    }
    return kept;
}

static oc_status write_parts(const part *p, size_t n, oc_tk_view *in, oc_tk_text *out) {
    for (size_t i = 0; i < n; i++) {
        char utf8[4];
        size_t bytes = oc_tk_put_utf8((uint32_t)p[i].c, utf8);
        bool same = bytes <= in->n - p[i].at && memcmp(in->s + p[i].at, utf8, bytes) == 0;
        if (same)
            OC_TRY(oc_tk_text_copy(out, in, p[i].at, p[i].at + bytes));
        else
            OC_TRY(oc_tk_text_put(out, utf8, bytes, oc_tk_view_origin(in, p[i].at)));
    }
    return OC_OK;
}

/* Segment [begin, end) of the view. */
static oc_status apply_segment(const oc_tk_unicode *u, oc_tk_view *in, size_t begin, size_t end,
                               oc_tk_text *out) {
    part few[FEW * EXPANSION_MOST], *p = few;
    int32_t c[EXPANSION_MOST];
    size_t n = 0, most = end - begin;
    if (most > FEW) {
        if (most > SIZE_MAX / (EXPANSION_MOST * sizeof *p)) return OC_E_MEMORY;
        p = malloc(most * EXPANSION_MOST * sizeof *p);
        if (p == NULL) return OC_E_MEMORY;
    }
    for (size_t i = begin; i < end;) {
        size_t at = i, k = decompose(u->form, oc_tk_next(in->s, &i), c);
        for (size_t j = 0; j < k; j++)
            p[n++] = (part){c[j], at};
    }
    oc_status s = order(p, n);
    if (u->form == OC_TK_NFC || u->form == OC_TK_NFKC) n = compose(p, n, options(u->form));
    if (s == OC_OK) s = write_parts(p, n, in, out);
    if (p != few) free(p);
    return s;
}

oc_status oc_tk_unicode_apply(const oc_tk_unicode *u, oc_tk_view *in, oc_tk_text *out) {
    size_t copied = 0, i = 0;
    while (i < in->n) {
        i = plain_end(u, in->s, i, in->n);
        if (i == in->n) break;
        size_t begin = i, end = i;
        if (is_glue(u, oc_tk_next(in->s, &end)) && begin > copied) begin = oc_tk_back(in->s, begin);
        while (end < in->n) {
            size_t next = end;
            if (!is_glue(u, oc_tk_next(in->s, &next))) break;
            end = next;
        }
        OC_TRY(oc_tk_text_copy(out, in, copied, begin));
        OC_TRY(apply_segment(u, in, begin, end, out));
        i = copied = end;
    }
    return oc_tk_text_copy(out, in, copied, in->n);
}

/* --- Properties */

bool oc_tk_is_space(uint32_t c) {
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

bool oc_tk_is_mark(uint32_t c) {
    if (c == 0x1cf2 || c == 0x1cf3) return true; /* they became letters after Unicode 9 */
    utf8proc_category_t k = utf8proc_category((int32_t)c);
    return k >= UTF8PROC_CATEGORY_MN && k <= UTF8PROC_CATEGORY_ME && !is_young(c);
}

bool oc_tk_is_punctuation(uint32_t c) {
    if (c < 0x80)
        return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
               (c >= '{' && c <= '~');
    utf8proc_category_t k = utf8proc_category((int32_t)c);
    if (k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_PO)
        return !in_ranges(oc_tk_fewer_punctuation, oc_tk_fewer_punctuation_count, c);
    return in_ranges(oc_tk_more_punctuation, oc_tk_more_punctuation_count, c);
}

bool oc_tk_is_numeric(uint32_t c) {
    if (c < 0x80) return c >= '0' && c <= '9';
    utf8proc_category_t k = utf8proc_category((int32_t)c);
    return (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO) ||
           in_ranges(oc_tk_more_numeric, oc_tk_more_numeric_count, c);
}

bool oc_tk_is_word(uint32_t c) {
    if (c < 0x80)
        return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
               c == '_';
    utf8proc_category_t k = utf8proc_category((int32_t)c);
    return (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_NL) || k == UTF8PROC_CATEGORY_PC ||
           in_ranges(oc_tk_more_word, oc_tk_more_word_count, c);
}

static uint32_t lower_pair(uint32_t c) {
    size_t low = 0, high = oc_tk_lower_pairs_count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (oc_tk_lower_pairs[mid].first < c)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == oc_tk_lower_pairs_count || oc_tk_lower_pairs[low].first != c) return 0;
    return oc_tk_lower_pairs[low].last;
}

int oc_tk_lower(uint32_t c, uint32_t out[2]) {
    out[0] = c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
    if (c < 0x80) return 1;
    if (c == 0x130) {
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    uint32_t pair = lower_pair(c);
    out[0] = pair != 0 ? pair : (uint32_t)utf8proc_tolower((int32_t)c);
    return 1;
}
