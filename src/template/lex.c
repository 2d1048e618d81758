/* lex.c - the tokens of a template, and its white-space rules.
 *
 * trim_blocks: the newline after a block or comment goes. lstrip_blocks: so does white space before
 * one that begins its line. A '-' inside a delimiter strips all white space on its side, a '+'
 * keeps it. */
#include "template/internal.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct lexer {
    oc_tpl_parser *p;
    const char *text;
    size_t n, pos;
    int32_t line;
    oc_tpl_token *tokens;
    size_t count, room;
    char open[TEMPLATE_DEPTH]; /* brackets to be closed */
    int n_open;
} lexer;

static bool push(lexer *l, oc_tpl_token token) {
    if (l->count == l->room) {
        size_t room = l->room ? 2 * l->room : 256;
        oc_tpl_token *more = oc_tpl_parser_take(l->p, room, sizeof *more);
        if (!more) return false;
        if (l->count) memcpy(more, l->tokens, l->count * sizeof *more);
        l->tokens = more;
        l->room = room;
    }
    token.line = l->line;
    l->tokens[l->count++] = token;
    return true;
}

static bool push_kind(lexer *l, oc_tpl_token_kind kind) {
    return push(l, (oc_tpl_token){.kind = (uint8_t)kind});
}

static bool push_data(lexer *l, size_t begin, size_t end) {
    if (begin >= end) return true;
    return push(l, (oc_tpl_token){.kind = T_DATA, .at = l->text + begin, .n = end - begin});
}

static void move_to(lexer *l, size_t pos) {
    for (; l->pos < pos; l->pos++)
        l->line += l->text[l->pos] == '\n';
}

static bool ahead(const lexer *l, size_t pos, const char *word) {
    size_t n = strlen(word);
    return l->n - pos >= n && pos <= l->n && memcmp(l->text + pos, word, n) == 0;
}

static size_t skip_space(const lexer *l, size_t pos) {
    while (pos < l->n) {
        uint32_t c;
        size_t step = oc_tpl_decode(l->text + pos, l->n - pos, &c);
        if (!oc_tpl_is_space(c)) break;
        pos += step;
    }
    return pos;
}

static size_t skip_space_back(const lexer *l, size_t begin, size_t end) {
    while (end > begin) {
        size_t at = end - 1;
        while (at > begin && ((unsigned char)l->text[at] & 0xc0u) == 0x80u)
            at--;
        uint32_t c;
        oc_tpl_decode(l->text + at, end - at, &c);
        if (!oc_tpl_is_space(c)) break;
        end = at;
    }
    return end;
}

/* The text before a tag at `end`, whose delimiter carries sign. */
static bool push_text(lexer *l, size_t end, char sign, bool is_variable) {
    size_t begin = l->pos, kept = end;
    if (sign == '-') {
        kept = skip_space_back(l, begin, end);
    } else if (sign != '+' && !is_variable) {
        size_t line = end;
        while (line > begin && l->text[line - 1] != '\n')
            line--;
        bool starts_line = line > begin || begin == 0 || l->text[begin - 1] == '\n';
        if (starts_line && line < end && skip_space_back(l, line, end) == line) kept = line;
    }
    return push_data(l, begin, kept);
}

/* After a block or comment that ended with sign. */
static size_t after_end(const lexer *l, size_t pos, char sign) {
    if (sign == '-') return skip_space(l, pos);
    if (sign != '+' && pos < l->n && l->text[pos] == '\n') return pos + 1;
    return pos;
}

static bool skip_comment(lexer *l, size_t pos) {
    for (size_t i = pos; i + 1 < l->n; i++) {
        if (l->text[i] != '#' || l->text[i + 1] != '}') continue;
        char sign = i > pos ? l->text[i - 1] : '\0';
        move_to(l, after_end(l, i + 2, sign));
        return true;
    }
    return oc_tpl_syntax(l->p, l->line, OC_E_FORMAT, "the comment lacks its end, #}");
}

/* At "{%": whether this is a raw block's begin, and where its text begins. */
static bool is_raw(const lexer *l, size_t pos, size_t *out) {
    pos += 2;
    if (pos < l->n && (l->text[pos] == '-' || l->text[pos] == '+')) pos++;
    pos = skip_space(l, pos);
    if (!ahead(l, pos, "raw")) return false;
    pos = skip_space(l, pos + 3);
    if (ahead(l, pos, "-%}"))
        *out = skip_space(l, pos + 3);
    else if (ahead(l, pos, "%}"))
        *out = pos + 2;
    else
        return false;
    return true;
}

static bool lex_raw(lexer *l) {
    int32_t line = l->line;
    for (size_t i = l->pos; i + 1 < l->n; i++) {
        if (l->text[i] != '{' || l->text[i + 1] != '%') continue;
        size_t pos = i + 2;
        char sign = pos < l->n ? l->text[pos] : '\0';
        if (sign == '-' || sign == '+') pos++;
        pos = skip_space(l, pos);
        if (!ahead(l, pos, "endraw")) continue;
        pos = skip_space(l, pos + 6);
        char end_sign = pos < l->n ? l->text[pos] : '\0';
        if (end_sign == '-' || end_sign == '+') pos++;
        if (!ahead(l, pos, "%}")) continue;
        if (!push_text(l, i, sign, false)) return false;
        move_to(l, after_end(l, pos + 2, end_sign));
        return true;
    }
    return oc_tpl_syntax(l->p, line, OC_E_FORMAT, "the raw block lacks its {%% endraw %%}");
}

/* --- Inside tags */

static unsigned hex_digit(char c) {
    if (c >= '0' && c <= '9') return (unsigned)(c - '0');
    if (c >= 'a' && c <= 'f') return (unsigned)(c - 'a' + 10);
    if (c >= 'A' && c <= 'F') return (unsigned)(c - 'A' + 10);
    return 99;
}

/* \x, \u and \U with `digits` hexadecimal digits at s[*i]. */
static bool escaped_hex(lexer *l, const char *s, size_t n, size_t *i, unsigned digits, char *to,
                        size_t *used) {
    uint32_t c = 0;
    for (unsigned d = 0; d < digits; d++, (*i)++) {
        unsigned v = *i < n ? hex_digit(s[*i]) : 99;
        if (v > 15)
            return oc_tpl_syntax(l->p, l->line, OC_E_FORMAT,
                                 "an escape in a string lacks hexadecimal digits");
        c = c << 4 | v;
    }
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return oc_tpl_syntax(l->p, l->line, OC_E_FORMAT,
                             "an escape in a string names no character (U+%04X)", (unsigned)c);
    *used += oc_tpl_encode(c, to + *used);
    return true;
}

/* Of the reference only by accident: a backslash before a character that is not ASCII shows the
 * character's own escape. */
static void escaped_foreign(const char *s, size_t n, size_t *i, char *to, size_t *used) {
    uint32_t c;
    *i += oc_tpl_decode(s + *i, n - *i, &c);
    char shown[12];
    int m = snprintf(shown, sizeof shown,
                     c < 0x100     ? "\\x%02x"
                     : c < 0x10000 ? "\\u%04x"
                                   : "\\U%08x",
                     (unsigned)c);
    memcpy(to + *used, shown, (size_t)m);
    *used += (size_t)m;
}

static bool unescape_one(lexer *l, const char *s, size_t n, size_t *i, char *to, size_t *used) {
    static const char from[] = "ntr\\'\"abfv", into[] = "\n\t\r\\'\"\a\b\f\v";
    char c = s[*i];
    const char *plain = c ? strchr(from, c) : NULL;
    if (plain) {
        to[(*used)++] = into[plain - from];
        (*i)++;
        return true;
    }
    if (c == '\n') {
        (*i)++;
        return true;
    }
    if (c >= '0' && c <= '7') {
        uint32_t v = 0;
        for (int d = 0; d < 3 && *i < n && s[*i] >= '0' && s[*i] <= '7'; d++, (*i)++)
            v = v << 3 | (uint32_t)(s[*i] - '0');
        *used += oc_tpl_encode(v, to + *used);
        return true;
    }
    if (c == 'x' || c == 'u' || c == 'U') {
        (*i)++;
        return escaped_hex(l, s, n, i, c == 'x' ? 2 : c == 'u' ? 4 : 8, to, used);
    }
    if (c == 'N')
        return oc_tpl_syntax(l->p, l->line, OC_E_UNSUPPORTED,
                             "\\N escapes in strings are not supported; write \\u and the digits");
    if ((unsigned char)c >= 0x80) {
        escaped_foreign(s, n, i, to, used);
        return true;
    }
    to[(*used)++] = '\\';
    to[(*used)++] = c;
    (*i)++;
    return true;
}

static bool lex_string(lexer *l) {
    char quote = l->text[l->pos];
    size_t begin = l->pos + 1, end = begin;
    bool escapes = false;
    while (end < l->n && l->text[end] != quote) {
        if (l->text[end] == '\\') escapes = true, end++;
        end++;
    }
    if (end >= l->n)
        return oc_tpl_syntax(l->p, l->line, OC_E_FORMAT, "a string lacks its closing %c", quote);
    oc_tpl_token token = {.kind = T_STRING, .at = l->text + begin, .n = end - begin};
    if (escapes) {
        /* The longest growth is a foreign character: 2 bytes and a backslash become 5. */
        char *to = oc_tpl_parser_take(l->p, 4, end - begin + 8);
        if (!to) return false;
        size_t used = 0;
        for (size_t i = begin; i < end;) {
            if (l->text[i] != '\\')
                to[used++] = l->text[i++];
            else if (i++, !unescape_one(l, l->text, end, &i, to, &used))
                return false;
        }
        token.at = to;
        token.n = used;
    }
    if (!push(l, token)) return false;
    move_to(l, end + 1);
    return true;
}

static bool is_digit(const lexer *l, size_t pos) {
    return pos < l->n && l->text[pos] >= '0' && l->text[pos] <= '9';
}

/* Digits with single underscores between them. */
static size_t digits_end(const lexer *l, size_t pos) {
    while (is_digit(l, pos) || (pos < l->n && l->text[pos] == '_' && is_digit(l, pos + 1)))
        pos++;
    return pos;
}

static size_t float_end(const lexer *l, size_t pos) {
    if (l->pos > 0 && l->text[l->pos - 1] == '.') return 0;
    size_t end = digits_end(l, pos);
    bool found = false;
    if (end < l->n && l->text[end] == '.' && is_digit(l, end + 1)) {
        end = digits_end(l, end + 1);
        found = true;
    }
    if (end < l->n && (l->text[end] == 'e' || l->text[end] == 'E')) {
        size_t e = end + 1;
        if (e < l->n && (l->text[e] == '+' || l->text[e] == '-')) e++;
        if (is_digit(l, e)) return digits_end(l, e);
    }
    return found ? end : 0;
}

static size_t integer_end(const lexer *l, size_t pos, int *base) {
    *base = 10;
    if (l->text[pos] != '0') return digits_end(l, pos);
    char mark = pos + 1 < l->n ? (char)tolower((unsigned char)l->text[pos + 1]) : '\0';
    int wanted = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    size_t end = pos + 2;
    for (; wanted && end < l->n; end++) {
        size_t digit = end + (l->text[end] == '_');
        if (digit >= l->n || hex_digit(l->text[digit]) >= (unsigned)wanted) break;
        end = digit;
    }
    if (wanted && end > pos + 2) {
        *base = wanted;
        return end;
    }
    end = pos + 1;
    while (end < l->n && (l->text[end] == '0' || (l->text[end] == '_' && ahead(l, end, "_0"))))
        end++;
    return end;
}

static bool lex_number(lexer *l) {
    char digits[320];
    size_t end = float_end(l, l->pos), used = 0;
    bool real = end > 0;
    int base = 10;
    if (!real) end = integer_end(l, l->pos, &base);
    for (size_t i = l->pos + (base == 10 ? 0 : 2); i < end; i++) {
        if (l->text[i] == '_') continue;
        if (used + 1 == sizeof digits)
            return oc_tpl_syntax(l->p, l->line, OC_E_OVERFLOW, "a number has too many digits");
        digits[used++] = l->text[i];
    }
    digits[used] = '\0';
    oc_tpl_token token = {.kind = real ? T_FLOAT : T_INT};
    if (real) {
        token.real = strtod(digits, NULL);
    } else {
        for (size_t i = 0; i < used; i++)
            if (__builtin_mul_overflow(token.integer, (int64_t)base, &token.integer) ||
                __builtin_add_overflow(token.integer, (int64_t)hex_digit(digits[i]),
                                       &token.integer))
                return oc_tpl_syntax(l->p, l->line, OC_E_OVERFLOW,
                                     "the integer %s does not fit 64 bits", digits);
    }
    if (!push(l, token)) return false;
    move_to(l, end);
    return true;
}

static const struct {
    char text[3];
    uint8_t kind;
} operators[] = {
    {"//", T_FLOORDIV}, {"**", T_POW},   {"==", T_EQ},      {"!=", T_NE},      {">=", T_GE},
    {"<=", T_LE},       {"+", T_ADD},    {"-", T_SUB},      {"/", T_DIV},      {"*", T_MUL},
    {"%", T_MOD},       {"~", T_TILDE},  {"[", T_LBRACKET}, {"]", T_RBRACKET}, {"(", T_LPAREN},
    {")", T_RPAREN},    {"{", T_LBRACE}, {"}", T_RBRACE},   {">", T_GT},       {"<", T_LT},
    {"=", T_ASSIGN},    {".", T_DOT},    {":", T_COLON},    {"|", T_PIPE},     {",", T_COMMA},
    {";", T_SEMICOLON},
};

static bool balance(lexer *l, char c) {
    char close = c == '(' ? ')' : c == '[' ? ']' : c == '{' ? '}' : '\0';
    if (close) {
        if (l->n_open == TEMPLATE_DEPTH)
            return oc_tpl_syntax(l->p, l->line, OC_E_OVERFLOW,
                                 "brackets are nested more than %d deep", TEMPLATE_DEPTH);
        l->open[l->n_open++] = close;
    } else if (c == ')' || c == ']' || c == '}') {
        if (l->n_open == 0) return oc_tpl_syntax(l->p, l->line, OC_E_FORMAT, "unexpected '%c'", c);
        char expected = l->open[--l->n_open];
        if (expected != c)
            return oc_tpl_syntax(l->p, l->line, OC_E_FORMAT, "unexpected '%c', expected '%c'", c,
                                 expected);
    }
    return true;
}

static bool lex_operator(lexer *l) {
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        if (!ahead(l, l->pos, operators[i].text)) continue;
        if (!balance(l, operators[i].text[1] ? '\0' : operators[i].text[0])) return false;
        if (!push_kind(l, operators[i].kind)) return false;
        l->pos += strlen(operators[i].text);
        return true;
    }
    unsigned char c = (unsigned char)l->text[l->pos];
    if (c >= 0x80)
        return oc_tpl_syntax(l->p, l->line, OC_E_FORMAT,
                             "a character that is not ASCII stands outside of a string");
    return oc_tpl_syntax(l->p, l->line, OC_E_FORMAT, "unexpected character '%c'", (char)c);
}

static bool is_name_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9');
}

static bool lex_name(lexer *l) {
    size_t end = l->pos;
    while (end < l->n && is_name_character(l->text[end]))
        end++;
    oc_tpl_token token = {.kind = T_NAME, .at = l->text + l->pos, .n = end - l->pos};
    if (!push(l, token)) return false;
    l->pos = end;
    return true;
}

/* Consumes the end of a tag, if it is here. */
static bool tag_end(lexer *l, bool block, bool *ok) {
    if (l->n_open > 0) return false;
    size_t pos = l->pos;
    char sign = l->text[pos];
    if (sign == '-' || (sign == '+' && block)) pos++;
    if (!ahead(l, pos, block ? "%}" : "}}")) return false;
    *ok = push_kind(l, block ? T_BLOCK_END : T_VARIABLE_END);
    pos += 2;
    move_to(l, block ? after_end(l, pos, sign) : sign == '-' ? skip_space(l, pos) : pos);
    return true;
}

static bool lex_piece(lexer *l) {
    char c = l->text[l->pos];
    if (c >= '0' && c <= '9') return lex_number(l);
    if (is_name_character(c)) return lex_name(l);
    if (c == '\'' || c == '"') return lex_string(l);
    return lex_operator(l);
}

static bool lex_tag(lexer *l, bool block) {
    int32_t line = l->line;
    while (l->pos < l->n) {
        bool ok;
        if (tag_end(l, block, &ok)) return ok;
        size_t after = skip_space(l, l->pos);
        if (after > l->pos)
            move_to(l, after);
        else if (!lex_piece(l))
            return false;
    }
    return oc_tpl_syntax(l->p, line, OC_E_FORMAT, "the template ends inside a tag that lacks %s",
                         block ? "%}" : "}}");
}

static bool lex_one(lexer *l, size_t tag) {
    char kind = l->text[tag + 1];
    char sign = tag + 2 < l->n ? l->text[tag + 2] : '\0';
    if (!push_text(l, tag, sign, kind == '{')) return false;
    size_t inside = tag + 2 + (sign == '-' || sign == '+'), raw;
    move_to(l, tag);
    if (kind == '#') return skip_comment(l, inside);
    if (kind == '%' && is_raw(l, tag, &raw)) {
        move_to(l, raw);
        return lex_raw(l);
    }
    if (!push_kind(l, kind == '%' ? T_BLOCK_BEGIN : T_VARIABLE_BEGIN)) return false;
    move_to(l, inside);
    l->n_open = 0;
    return lex_tag(l, kind == '%');
}

bool oc_tpl_lex(oc_tpl_parser *p, const char *text, size_t n, const oc_tpl_token **out) {
    lexer l = {.p = p, .text = text, .n = n, .line = 1};
    while (l.pos < n) {
        size_t tag = l.pos;
        while (tag + 1 < n && !(text[tag] == '{' && (text[tag + 1] == '{' || text[tag + 1] == '%' ||
                                                     text[tag + 1] == '#')))
            tag++;
        if (tag + 1 >= n) {
            if (!push_data(&l, l.pos, n)) return false;
            move_to(&l, n);
        } else if (!lex_one(&l, tag)) {
            return false;
        }
    }
    if (!push_kind(&l, T_EOF)) return false;
    *out = l.tokens;
    return true;
}
