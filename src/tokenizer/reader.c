/* See reader.h; the format is RFC 8259. */
#include "tokenizer/reader.h"

#include <stdio.h>
#include <string.h>

oc_status oc_tk_reader_fail(const oc_tk_reader *r, const char *what) {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < r->at && i < r->n; i++) {
        column++;
        if (r->s[i] == '\n') {
            line++;
            column = 1;
        }
    }
    return oc_fail(r->err, OC_E_FORMAT, "%s:%zu:%zu: %s", r->origin, line, column, what);
}

void oc_tk_reader_space(oc_tk_reader *r) {
    while (r->at < r->n && (r->s[r->at] == ' ' || r->s[r->at] == '\n' || r->s[r->at] == '\r' ||
                            r->s[r->at] == '\t'))
        r->at++;
}

char oc_tk_reader_peek(oc_tk_reader *r) {
    oc_tk_reader_space(r);
    return r->at < r->n ? r->s[r->at] : 0;
}

bool oc_tk_reader_accept(oc_tk_reader *r, char c) {
    if (oc_tk_reader_peek(r) != c || r->at == r->n) return false;
    r->at++;
    return true;
}

oc_status oc_tk_reader_take(oc_tk_reader *r, char c) {
    if (oc_tk_reader_accept(r, c)) return OC_OK;
    char what[40];
    (void)snprintf(what, sizeof what, "not valid JSON: a '%c' is missing", c);
    return oc_tk_reader_fail(r, what);
}

/* Four hexadecimal digits. */
static bool read_unit(oc_tk_reader *r, uint32_t *out) {
    uint32_t v = 0;
    if (r->n - r->at < 4) return false;
    for (int k = 0; k < 4; k++) {
        char c = r->s[r->at++];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) return false;
        v = v << 4 | (uint32_t)digit;
    }
    *out = v;
    return true;
}

/* After \u; a high surrogate must be followed by a low one. */
static bool read_code_point(oc_tk_reader *r, uint32_t *out) {
    uint32_t high, low;
    if (!read_unit(r, &high)) return false;
    *out = high;
    if (high < 0xd800 || high > 0xdfff) return true;
    if (high > 0xdbff || r->n - r->at < 6 || r->s[r->at] != '\\' || r->s[r->at + 1] != 'u')
        return false;
    r->at += 2;
    if (!read_unit(r, &low) || low < 0xdc00 || low > 0xdfff) return false;
    *out = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

static oc_status no_memory(const oc_tk_reader *r) {
    return oc_fail(r->err, OC_E_MEMORY, "%s: no memory to read it", r->origin);
}

/* At the character after a backslash. */
static oc_status read_escape(oc_tk_reader *r, oc_tk_bytes *out) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char utf8[4];
    if (r->at == r->n) return oc_tk_reader_fail(r, "not valid JSON: a string has no end");
    char c = r->s[r->at++];
    if (c == 'u') {
        uint32_t code;
        if (!read_code_point(r, &code))
            return oc_tk_reader_fail(r, "not valid JSON: a bad \\u escape");
        return oc_tk_append(out, utf8, oc_tk_put_utf8(code, utf8)) == OC_OK ? OC_OK : no_memory(r);
    }
    const char *k = c == 0 ? NULL : strchr(from, c);
    if (k == NULL) return oc_tk_reader_fail(r, "not valid JSON: an unknown escape");
    return oc_tk_append(out, &to[k - from], 1) == OC_OK ? OC_OK : no_memory(r);
}

oc_status oc_tk_reader_string(oc_tk_reader *r, oc_tk_bytes *out) {
    OC_TRY(oc_tk_reader_take(r, '"'));
    size_t first = out->n;
    bool ascii = true;
    for (;;) {
        size_t begin = r->at;
        while (r->at < r->n && r->s[r->at] != '"' && r->s[r->at] != '\\' &&
               (unsigned char)r->s[r->at] >= 0x20) {
            if ((unsigned char)r->s[r->at] >= 0x80) ascii = false;
            r->at++;
        }
        if (oc_tk_append(out, r->s + begin, r->at - begin) != OC_OK) return no_memory(r);
        if (r->at == r->n) return oc_tk_reader_fail(r, "not valid JSON: a string has no end");
        if (r->s[r->at] == '"') break;
        if (r->s[r->at] != '\\')
            return oc_tk_reader_fail(r, "not valid JSON: a control character in a string");
        r->at++;
        OC_TRY(read_escape(r, out));
    }
    r->at++;
    size_t bad = 0;
    if (!ascii) (void)oc_tk_valid(out->s + first, out->n - first, &bad);
    return bad == 0 ? OC_OK : oc_tk_reader_fail(r, "not valid JSON: a string is not UTF-8");
}

oc_status oc_tk_reader_id(oc_tk_reader *r, uint32_t *out) {
    oc_tk_reader_space(r);
    size_t begin = r->at;
    uint64_t v = 0;
    while (r->at < r->n && r->s[r->at] >= '0' && r->s[r->at] <= '9' && v <= UINT32_MAX)
        v = v * 10 + (uint64_t)(r->s[r->at++] - '0');
    bool zeros = r->at - begin > 1 && r->s[begin] == '0';
    bool more = r->at < r->n && memchr(".eE", r->s[r->at], 3) != NULL;
    if (r->at == begin || zeros || more || v > UINT32_MAX)
        return oc_tk_reader_fail(r, "a token's id must be an integer from 0 to 4294967295");
    *out = (uint32_t)v;
    return OC_OK;
}

static void skip_string(oc_tk_reader *r) {
    r->at++;
    while (r->at < r->n && r->s[r->at] != '"')
        r->at += r->s[r->at] == '\\' && r->at + 1 < r->n ? 2 : 1;
    if (r->at < r->n) r->at++;
}

oc_status oc_tk_reader_skip(oc_tk_reader *r) {
    size_t depth = 0;
    oc_tk_reader_space(r);
    size_t begin = r->at;
    while (r->at < r->n) {
        char c = r->s[r->at];
        if (depth == 0 && (c == ',' || c == '}' || c == ']')) break;
        if (c == '"') {
            skip_string(r);
            continue;
        }
        if (c == '{' || c == '[') depth++;
        if (c == '}' || c == ']') depth--;
        r->at++;
    }
    if (depth > 0 || r->at == begin)
        return oc_tk_reader_fail(r, "not valid JSON: a value is missing");
    return OC_OK;
}
