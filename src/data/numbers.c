/* numbers.c - JSON as Python's json writes it: NaN, Infinity and numbers of any size, in columns
 * that are not read. */
#include "data/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct repair {
    const char *in;
    size_t n, at;
    char *out;
    size_t m;
    size_t depth, word, word_n; /* the last string of the row itself */
    bool known, changed;        /* known: the member at hand is read by some form */
} repair;

/* A string, as it is. */
static void copy_string(repair *r) {
    size_t begin = r->at++;
    while (r->at < r->n && r->in[r->at] != '"')
        r->at += r->in[r->at] == '\\' ? 2 : 1;
    r->at = r->at < r->n ? r->at + 1 : r->n;
    if (r->depth == 1) {
        r->word = begin + 1;
        r->word_n = r->at - begin - 2;
    }
    memcpy(r->out + r->m, r->in + begin, r->at - begin);
    r->m += r->at - begin;
}

static bool is_token(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '+' || c == '.';
}

static bool is_word(const char *s, size_t n, const char *word) {
    return strlen(word) == n && memcmp(s, word, n) == 0;
}

/* Beyond what a JSON parser keeps: more digits than 64 bits have, or than a double reaches. */
static bool is_large(const char *s, size_t n) {
    char text[64];
    size_t digits = *s == '-';
    while (digits < n && s[digits] >= '0' && s[digits] <= '9')
        digits++;
    if (digits == n) return n > 18;
    if (n >= sizeof text) return digits > 300;
    memcpy(text, s, n);
    text[n] = 0;
    return isinf(strtod(text, NULL));
}

/* "null" where it stands for the text of a column that is read: a missing one, to pandas. */
static void copy_token(repair *r) {
    size_t begin = r->at;
    while (r->at < r->n && is_token(r->in[r->at]))
        r->at++;
    const char *s = r->in + begin, *to = s;
    size_t n = r->at - begin, k = n;
    bool number = (*s >= '0' && *s <= '9') || (*s == '-' && n > 1 && s[1] >= '0' && s[1] <= '9');
    bool missing = is_word(s, n, "NaN");
    bool other =
        is_word(s, n, "Infinity") || is_word(s, n, "-Infinity") || (number && is_large(s, n));
    if ((missing && (!r->known || r->depth == 1)) || (other && !r->known)) {
        to = "null";
        k = 4;
        r->changed = true;
    }
    memcpy(r->out + r->m, to, k);
    r->m += k;
}

static void copy_mark(repair *r) {
    char c = r->in[r->at++];
    if (c == ':' && r->depth == 1) r->known = oc_key_is_known(r->in + r->word, r->word_n);
    r->depth += c == '{' || c == '[';
    r->depth -= r->depth > 0 && (c == '}' || c == ']');
    r->out[r->m++] = c;
}

oc_status oc_numbers_repair(const char *text, size_t n, char **out, size_t *m, oc_error *err) {
    repair r = {.in = text, .n = n, .out = malloc(n + n / 3 + 8)};
    *out = NULL;
    if (r.out == NULL) return oc_fail(err, OC_E_MEMORY, "no memory for a row of %zu bytes", n);
    while (r.at < n) {
        if (text[r.at] == '"')
            copy_string(&r);
        else if (is_token(text[r.at]))
            copy_token(&r);
        else
            copy_mark(&r);
    }
    if (!r.changed) {
        free(r.out);
        return OC_OK;
    }
    *out = r.out;
    *m = r.m;
    return OC_OK;
}
