/* Oniguruma's regular expressions, as the files use them, in PCRE2's words.
 *
 * The two differ where it matters here: \s has U+180E in PCRE2, \w and \b stand on other
 * properties, names of scripts mean script extensions, {n,m}+ is possessive in PCRE2 and a
 * repetition of a repetition in Oniguruma, \h and \v are other classes, brackets inside a class are
 * a set operation in Oniguruma. */
#include "tokenizer/regex.h"
#include "tokenizer/unicode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPACE                                                                                      \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"    \
    "\\x{205f}\\x{3000}"
#define NOT_SPACE                                                                                  \
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{"     \
    "1fff}"                                                                                        \
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{"   \
    "10ffff}"

#define WORD "Alphabetic M Nd Pc"

enum { DEPTH_MOST = 100, NAME_MOST = 40 };

typedef struct dialect {
    const char *s;
    size_t n, i;
    oc_tk_bytes *out;
    const char *where;
    oc_error *err;
    size_t atom;              /* where in out the last atom begins; SIZE_MAX: none */
    size_t group[DEPTH_MOST]; /* where open groups begin */
    bool caseless[DEPTH_MOST];
    int depth;
    bool ignore_case;
    char before; /* the literal just read, in lower case, or 0 */
} dialect;

static oc_status refuse(dialect *d, const char *what) {
    return oc_fail(d->err, OC_E_UNSUPPORTED, "%s: its regex uses %s, at byte %zu of %.*s", d->where,
                   what, d->i, d->n > 200 ? 200 : (int)d->n, d->s);
}

static oc_status put(dialect *d, const char *s, size_t n) {
    if (oc_tk_append(d->out, s, n) == OC_OK) return OC_OK;
    return oc_fail(d->err, OC_E_MEMORY, "%s: no memory for its regex", d->where);
}

static oc_status say(dialect *d, const char *s) { return put(d, s, strlen(s)); }

static bool at(const dialect *d, const char *s) {
    size_t n = strlen(s);
    return n <= d->n - d->i && memcmp(d->s + d->i, s, n) == 0;
}

/* Names that mean something else in PCRE2, or nothing; parts are names of its properties, and all
 * that Oniguruma's version of a set holds. Simplified: lower case, without '_', '-' and spaces. */
static const struct {
    const char *name, *parts;
} sets[] = {
    {"letter", "L"},
    {"uppercaseletter", "Lu"},
    {"lowercaseletter", "Ll"},
    {"titlecaseletter", "Lt"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"mark", "M"},
    {"nonspacingmark", "Mn"},
    {"spacingmark", "Mc"},
    {"enclosingmark", "Me"},
    {"number", "N"},
    {"decimalnumber", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"punctuation", "P"},
    {"symbol", "S"},
    {"separator", "Z"},
    {"control", "Cc"},
    {"format", "Cf"},
    {"alpha", "Alphabetic"},
    {"alphabetic", "Alphabetic"},
    {"upper", "Uppercase"},
    {"uppercase", "Uppercase"},
    {"lower", "Lowercase"},
    {"lowercase", "Lowercase"},
    {"digit", "Nd"},
    {"alnum", "Alphabetic Nd"},
    {"word", WORD},
    {"space", SPACE},
    {"whitespace", SPACE},
};

static bool is_category(const char *name) {
    static const char *const all[] = {"l",  "lu", "ll", "lt", "lm", "lo", "m",  "mn", "mc",
                                      "me", "n",  "nd", "nl", "no", "p",  "pc", "pd", "ps",
                                      "pe", "pi", "pf", "po", "s",  "sm", "sc", "sk", "so",
                                      "z",  "zs", "zl", "zp", "cc", "cf", "cs", "co"};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(name, all[i]) == 0) return true;
    return false;
}

/* Oniguruma ignores these in names; *out holds room for n + 1. */
static void simplify(char *out, const char *s, size_t n) {
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == ' ' || s[i] == '_' || s[i] == '-') continue;
        out[k++] = (char)(s[i] >= 'A' && s[i] <= 'Z' ? s[i] - 'A' + 'a' : s[i]);
    }
    out[k] = 0;
}

/* One property, n bytes of its name, and what Oniguruma's newer tables hold besides. */
static oc_status say_property(dialect *d, const char *name, size_t n, bool negated) {
    char low[NAME_MOST];
    simplify(low, name, n);
    /* By its bare name a script would mean script extensions. */
    bool script = !is_category(low) && strcmp(low, "alphabetic") != 0 &&
                  strcmp(low, "uppercase") != 0 && strcmp(low, "lowercase") != 0;
    OC_TRY(say(d, negated ? "\\P{" : "\\p{"));
    if (script) OC_TRY(say(d, "sc:"));
    OC_TRY(put(d, name, n));
    OC_TRY(say(d, "}"));
    for (size_t i = 0; i < oc_tk_extras_count && !negated; i++)
        if (strcmp(oc_tk_extras[i].name, low) == 0) return say(d, oc_tk_extras[i].ranges);
    return OC_OK;
}

/* Parts, as members of a class. */
static oc_status say_members(dialect *d, const char *parts) {
    if (*parts == '\\') return say(d, parts);
    while (*parts != 0) {
        size_t n = strcspn(parts, " ");
        OC_TRY(say_property(d, parts, n, false));
        parts += n + (parts[n] == ' ');
    }
    return OC_OK;
}

/* A set of characters: by itself, or inside the class that is being read. */
static oc_status say_set(dialect *d, const char *parts, bool negated, bool in_class) {
    bool space = strcmp(parts, SPACE) == 0;
    if (in_class && negated && !space && strchr(parts, ' ') != NULL)
        return refuse(d, "the complement of a set inside a class");
    if (in_class && negated) {
        if (space) return say(d, NOT_SPACE);
        return say_property(d, parts, strlen(parts), true);
    }
    if (!in_class) OC_TRY(say(d, negated ? "[^" : "["));
    OC_TRY(say_members(d, parts));
    /* Outside of a class its \w takes these for words too. */
    if (!in_class && strcmp(parts, WORD) == 0)
        OC_TRY(say(d, "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"));
    return in_class ? OC_OK : say(d, "]");
}

static oc_status say_named(dialect *d, const char *raw, size_t n, bool negated, bool in_class) {
    char name[NAME_MOST];
    if (n == 0 || n >= sizeof name || memchr(raw, 0, n) != NULL)
        return refuse(d, "an unknown property");
    simplify(name, raw, n);
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
        if (strcmp(sets[i].name, name) == 0) return say_set(d, sets[i].parts, negated, in_class);
    /* Unassigned code points are among them: those that only the newer tables assign are not. */
    if (strcmp(name, "c") == 0 || strcmp(name, "other") == 0)
        return say_set(d, "L M N P S Z", !negated, in_class);
    for (const char *c = name; *c != 0; c++)
        if (*c < 'a' || *c > 'z') return refuse(d, "an unknown property");
    if (strlen(name) < 3 && !is_category(name)) return refuse(d, "an unknown property");
    if (is_category(name)) name[0] = (char)(name[0] - 'a' + 'A');
    return say_set(d, name, negated, in_class);
}

/* \b: a word on one side. \B: on both or on none. */
static oc_status say_boundary(dialect *d, bool inverted) {
    for (int i = 0; i < 2; i++) {
        OC_TRY(say(d, i == 0 ? "(?:(?<=" : "|(?<!"));
        OC_TRY(say_set(d, WORD, false, false));
        OC_TRY(say(d, (i == 0) == inverted ? ")(?=" : ")(?!"));
        OC_TRY(say_set(d, WORD, false, false));
        OC_TRY(say(d, ")"));
    }
    return say(d, ")");
}

/* After \p or \P. */
static oc_status read_property(dialect *d, bool negated, bool in_class) {
    if (!at(d, "{")) return refuse(d, "\\p without a name in braces");
    d->i++;
    if (at(d, "^")) {
        negated = !negated;
        d->i++;
    }
    const char *end = memchr(d->s + d->i, '}', d->n - d->i);
    if (end == NULL) return refuse(d, "\\p{ without an end");
    size_t n = (size_t)(end - (d->s + d->i));
    OC_TRY(say_named(d, d->s + d->i, n, negated, in_class));
    d->i += n + 1;
    return OC_OK;
}

/* After \x or \u: one code point. */
static oc_status read_code_point(dialect *d, bool is_u) {
    char digits[9] = {0}, text[16];
    size_t k = 0;
    bool braces = !is_u && at(d, "{");
    size_t most = braces ? 8 : is_u ? 4 : 2;
    d->i += braces;
    while (d->i < d->n && k < most && strchr("0123456789abcdefABCDEF", d->s[d->i]) != NULL &&
           d->s[d->i] != 0)
        digits[k++] = d->s[d->i++];
    if (braces && !at(d, "}")) return refuse(d, "a malformed \\x{");
    d->i += braces;
    unsigned long c = strtoul(digits, NULL, 16);
    if (k == 0 || (is_u && k != 4) || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return refuse(d, "a malformed code point");
    if (!braces && !is_u && c > 0x7f) return refuse(d, "a byte that is not a character");
    snprintf(text, sizeof text, "\\x{%lx}", c);
    return say(d, text);
}

/* Escapes that mean the same inside and outside a class; *done false: it is none of them. *is_set:
 * it was more than one character. */
static oc_status common_escape(dialect *d, char c, bool in_class, bool *is_set, bool *done) {
    *done = *is_set = true;
    switch (c) {
    case 's':
    case 'S':
        return say_set(d, SPACE, c == 'S', in_class);
    case 'w':
    case 'W':
        return say_set(d, WORD, c == 'W', in_class);
    case 'd':
    case 'D':
        return say_set(d, "Nd", c == 'D', in_class);
    case 'h':
        return say(d, in_class ? "0-9a-fA-F" : "[0-9a-fA-F]");
    case 'p':
    case 'P':
        return read_property(d, c == 'P', in_class);
    default:
        break;
    }
    *is_set = false;
    switch (c) {
    case 'n':
        return say(d, "\\x{a}");
    case 'r':
        return say(d, "\\x{d}");
    case 't':
        return say(d, "\\x{9}");
    case 'f':
        return say(d, "\\x{c}");
    case 'v':
        return say(d, "\\x{b}");
    case 'a':
        return say(d, "\\x{7}");
    case 'e':
        return say(d, "\\x{1b}");
    case 'x':
    case 'u':
        return read_code_point(d, c == 'u');
    default:
        break;
    }
    if ((unsigned char)c >= 0x80 || strchr(" !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", c) != NULL) {
        if (c == 0) return refuse(d, "an escaped U+0000");
        if ((unsigned char)c < 0x80) OC_TRY(say(d, "\\"));
        return put(d, &c, 1);
    }
    *done = false;
    return OC_OK;
}

static oc_status read_escape(dialect *d) {
    char what[40];
    if (d->i + 1 >= d->n) return refuse(d, "a \\ at its end");
    char c = d->s[d->i + 1];
    d->i += 2;
    bool is_set, done;
    OC_TRY(common_escape(d, c, false, &is_set, &done));
    if (done) return OC_OK;
    switch (c) {
    case 'b':
    case 'B':
        return say_boundary(d, c == 'B');
    case 'A':
    case 'z':
    case 'Z':
        OC_TRY(say(d, "\\"));
        return put(d, &c, 1);
    case 'R':
        return say(d, "(?>\\x{d}\\x{a}|[\\x{a}-\\x{d}\\x{85}\\x{2028}\\x{2029}])");
    case 'H':
        return say(d, "[^0-9a-fA-F]");
    default:
        d->i -= 2;
        snprintf(what, sizeof what, "\\%c", c >= ' ' && c < 0x7f ? c : '?');
        return refuse(d, what);
    }
}

/* [:name:] inside a class, at its '['. */
static oc_status read_posix(dialect *d) {
    static const char *const known[] = {"alpha", "upper", "lower", "digit",
                                        "alnum", "space", "word"};
    d->i += 2;
    bool negated = at(d, "^");
    d->i += negated;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        size_t n = strlen(known[i]);
        if (!at(d, known[i]) || d->n - d->i < n + 2 || memcmp(d->s + d->i + n, ":]", 2) != 0)
            continue;
        OC_TRY(say_named(d, known[i], n, negated, true));
        d->i += n + 2;
        return OC_OK;
    }
    return refuse(d, "this [: :] class");
}

static oc_status read_class(dialect *d) {
    bool after_set = false;
    OC_TRY(say(d, "["));
    d->i++;
    if (at(d, "^")) {
        OC_TRY(say(d, "^"));
        d->i++;
    }
    if (at(d, "]")) return refuse(d, "an empty class");
    while (d->i < d->n && d->s[d->i] != ']') {
        char c = d->s[d->i];
        if (c == '[' && at(d, "[:")) {
            OC_TRY(read_posix(d));
            after_set = true;
            continue;
        }
        if (c == '[') return refuse(d, "a class inside a class");
        if (at(d, "&&")) return refuse(d, "an intersection of classes");
        bool was_set = after_set;
        after_set = false;
        if (c == '\\') {
            if (d->i + 1 >= d->n) return refuse(d, "a \\ at its end");
            c = d->s[d->i + 1];
            d->i += 2;
            bool done;
            OC_TRY(common_escape(d, c, true, &after_set, &done));
            if (!done && c != 'b') return refuse(d, "an unknown escape in a class");
            if (!done) OC_TRY(say(d, "\\x{8}"));
            continue;
        }
        if (c == '-' && was_set) OC_TRY(say(d, "\\"));
        OC_TRY(put(d, &c, 1));
        d->i++;
    }
    if (d->i == d->n) return refuse(d, "a class without an end");
    d->i++;
    return say(d, "]");
}

static oc_status read_group(dialect *d) {
    static const char *const known[] = {
        "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:"};
    if (d->depth == DEPTH_MOST) return refuse(d, "too many groups inside groups");
    if (at(d, "(*")) return refuse(d, "(*");
    if (at(d, "(?i)") && d->i == 0) {
        d->ignore_case = true;
        d->i += 4;
        return say(d, "(?i)");
    }
    const char *found = "(";
    if (at(d, "(?")) {
        found = NULL;
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
            if (at(d, known[i])) found = known[i];
        if (found == NULL) return refuse(d, "a kind of group");
    }
    d->group[d->depth] = d->out->n;
    d->caseless[d->depth++] = d->ignore_case;
    if (strchr(found, 'i') != NULL) d->ignore_case = strchr(found, '-') == NULL;
    d->i += strlen(found);
    d->atom = SIZE_MAX;
    return say(d, found);
}

static oc_status close_group(dialect *d) {
    if (d->depth == 0) return refuse(d, "a ) without a (");
    d->depth--;
    d->atom = d->group[d->depth];
    d->ignore_case = d->caseless[d->depth];
    d->i++;
    return say(d, ")");
}

static size_t number(dialect *d, bool *given) {
    size_t v = 0;
    *given = false;
    for (; d->i < d->n && d->s[d->i] >= '0' && d->s[d->i] <= '9'; d->i++) {
        if (v < 1000000) v = v * 10 + (size_t)(d->s[d->i] - '0');
        *given = true;
    }
    return v;
}

/* At '{': a repetition, or the character. */
static oc_status read_interval(dialect *d) {
    char text[64];
    size_t start = d->i++;
    bool least_given, most_given = false, comma = false;
    size_t least = number(d, &least_given), most = least;
    if (at(d, ",")) {
        comma = true;
        d->i++;
        most = number(d, &most_given);
    }
    if (!at(d, "}") || !(least_given || most_given)) {
        d->i = start + 1;
        d->atom = d->out->n;
        return say(d, "\\{");
    }
    d->i++;
    if (d->atom == SIZE_MAX) return refuse(d, "a repetition of nothing");
    if (most_given && most < least) return refuse(d, "a repetition of more than its most");
    if (most_given || !comma)
        snprintf(text, sizeof text, "{%zu,%zu}", least, most);
    else
        snprintf(text, sizeof text, "{%zu,}", least);
    if (at(d, "?") && !comma) return refuse(d, "{n}?");
    bool again = at(d, "+");
    size_t inner = d->out->n - d->atom;
    OC_TRY(say(d, text));
    if (!again) return OC_OK;
    OC_TRY(say(d, "(?:"));
    char *a = d->out->s + d->atom;
    memmove(a + 3, a, inner + strlen(text));
    memcpy(a, "(?:", 3);
    return say(d, ")");
}

/* Some pairs of letters fold into one character, which PCRE2 does not do. */
static bool folds(char a, char b) {
    return (a == 's' && (b == 's' || b == 't')) || (a == 'f' && (b == 'f' || b == 'i' || b == 'l'));
}

static oc_status read_literal(dialect *d) {
    size_t end = d->i;
    unsigned char c = (unsigned char)d->s[d->i];
    (void)oc_tk_next(d->s, &end);
    char low = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    if (d->ignore_case && (c >= 0x80 || folds(d->before, low)))
        return refuse(d, "letters that fold into one when case is ignored");
    d->atom = d->out->n;
    OC_TRY(put(d, d->s + d->i, end - d->i));
    d->i = end;
    d->before = low;
    return OC_OK;
}

oc_status oc_tk_dialect(oc_tk_bytes *out, const char *pattern, size_t n, const char *where,
                        oc_error *err) {
    dialect d = {.s = pattern, .n = n, .out = out, .where = where, .err = err, .atom = SIZE_MAX};
    while (d.i < n) {
        char c = pattern[d.i], before = d.before;
        d.before = 0;
        if (c == '\\' || c == '[') {
            d.atom = out->n;
            OC_TRY(c == '[' ? read_class(&d) : read_escape(&d));
        } else if (c == '(') {
            OC_TRY(read_group(&d));
        } else if (c == ')') {
            OC_TRY(close_group(&d));
        } else if (c == '{') {
            OC_TRY(read_interval(&d));
        } else if (c == '|' || c == '^' || c == '$') {
            d.atom = SIZE_MAX;
            OC_TRY(put(&d, &c, 1));
            d.i++;
        } else if (c == '*' || c == '+' || c == '?') {
            if (d.atom == SIZE_MAX) return refuse(&d, "a repetition of nothing");
            OC_TRY(put(&d, &c, 1));
            d.i++;
        } else {
            d.before = before;
            OC_TRY(read_literal(&d));
        }
    }
    if (d.depth > 0) return refuse(&d, "a ( without a )");
    return OC_OK;
}
