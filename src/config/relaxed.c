#include "config/relaxed.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct cursor {
    const char *at, *end;
    char *out;
} cursor;

static bool looks_at(const cursor *c, const char *what) {
    size_t n = strlen(what);
    return (size_t)(c->end - c->at) >= n && memcmp(c->at, what, n) == 0;
}

/* A comment leaves its line breaks, so that messages have the line of the file. */
static void blank(cursor *c, const char *end) {
    for (; c->at < end; c->at++)
        *c->out++ = *c->at == '\n' ? '\n' : ' ';
}

static const char *line_end(const cursor *c) {
    const char *end = memchr(c->at, '\n', (size_t)(c->end - c->at));
    return end ? end : c->end;
}

/* NULL: no comment begins here. */
static const char *comment_end(const cursor *c) {
    if (looks_at(c, "//") || looks_at(c, "#")) return line_end(c);
    if (!looks_at(c, "/*")) return NULL;
    for (const char *p = c->at + 2; p + 1 < c->end; p++)
        if (p[0] == '*' && p[1] == '/') return p + 2;
    return NULL;
}

static void skip_blank(cursor *c) {
    for (const char *end; c->at < c->end;) {
        end = isspace((unsigned char)*c->at) ? c->at + 1 : comment_end(c);
        if (!end) return;
        blank(c, end);
    }
}

/* With double quotes; what is inside stays, but for these. */
static void copy_string(cursor *c) {
    char quote = *c->at++;
    *c->out++ = '"';
    while (c->at < c->end && *c->at != quote && *c->at != '\n') {
        if (*c->at == '"') *c->out++ = '\\';
        if (*c->at == '\\' && c->at + 1 < c->end) {
            if (c->at[1] == '\'')
                c->at++; /* JSON has no such escape */
            else
                *c->out++ = *c->at++;
        }
        *c->out++ = *c->at++;
    }
    if (c->at == c->end || *c->at != quote) return;
    c->at++;
    *c->out++ = '"';
}

static bool is_word(char x) { return isalnum((unsigned char)x) || strchr("_-+.$@", x); }

/* A word before a colon is a key; others are numbers, true, false, null, or wrong. */
static void copy_word(cursor *c) {
    const char *end = c->at;
    while (end < c->end && *end && is_word(*end))
        end++;
    const char *next = end;
    while (next < c->end && (*next == ' ' || *next == '\t'))
        next++;
    bool key = next < c->end && *next == ':';
    if (key) *c->out++ = '"';
    memcpy(c->out, c->at, (size_t)(end - c->at));
    c->out += end - c->at;
    if (key) *c->out++ = '"';
    c->at = end;
}

/* A comma goes where nothing follows it but the end of what it is in. */
static void copy_comma(cursor *c) {
    char *comma = c->out++;
    *comma = ',';
    c->at++;
    skip_blank(c);
    if (c->at < c->end && (*c->at == '}' || *c->at == ']')) *comma = ' ';
}

oc_status oc_relaxed_to_json(char **out, size_t *out_bytes, const char *text, size_t n,
                             oc_error *err) {
    char *room = malloc(2 * n + 16); /* a word of one letter gets two quotes and had a colon */
    if (!room) return oc_fail(err, OC_E_MEMORY, "no memory to read a configuration");
    cursor c = {text, text + n, room};
    while (skip_blank(&c), c.at < c.end) {
        if (*c.at == '"' || *c.at == '\'')
            copy_string(&c);
        else if (*c.at == ',')
            copy_comma(&c);
        else if (*c.at && is_word(*c.at))
            copy_word(&c);
        else
            *c.out++ = *c.at++;
    }
    *c.out = 0;
    *out = room;
    *out_bytes = (size_t)(c.out - room);
    return OC_OK;
}
