#include "data/lines.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 256 * 1024 };

static oc_status grow(oc_lines *l, size_t room, oc_error *err) {
    char *buffer = room > l->room ? realloc(l->buffer, room) : NULL;
    if (buffer == NULL)
        return oc_fail(err, OC_E_MEMORY, "%s:%" PRIu64 ": no memory for a line of %zu bytes",
                       l->path, l->line + 1, room);
    l->buffer = buffer;
    l->room = room;
    return OC_OK;
}

static oc_status opened(oc_lines *l, oc_status s, oc_error *err) {
    if (s == OC_OK) s = grow(l, FIRST_ROOM, err);
    if (s != OC_OK) oc_lines_close(l);
    return s;
}

oc_status oc_lines_open(oc_lines *l, const char *path, oc_error *err) {
    *l = (oc_lines){.path = path};
    return opened(l, oc_stream_open(&l->stream, path, err), err);
}

oc_status oc_lines_open_fd(oc_lines *l, int fd, const char *name, oc_error *err) {
    *l = (oc_lines){.path = name};
    return opened(l, oc_stream_open_fd(&l->stream, fd, name, err), err);
}

void oc_lines_close(oc_lines *l) {
    oc_stream_close(l->stream);
    free(l->buffer);
    *l = (oc_lines){.stream = NULL};
}

void oc_lines_limit(oc_lines *l, size_t most) { l->most = most; }

/* Read once more behind [begin, end), making room first; sets at_end at the file's end. */
static oc_status fill(oc_lines *l, oc_error *err) {
    if (l->begin > 0) {
        memmove(l->buffer, l->buffer + l->begin, l->end - l->begin);
        l->end -= l->begin;
        l->begin = 0;
    }
    if (l->end == l->room) OC_TRY(grow(l, 2 * l->room, err));
    size_t got = 0;
    OC_TRY(oc_stream_read(l->stream, l->buffer + l->end, l->room - l->end, &got, err));
    l->at_end = got == 0;
    l->end += got;
    return OC_OK;
}

static oc_status start(oc_lines *l, oc_error *err) {
    if (l->started) return OC_OK;
    while (!l->at_end && l->end - l->begin < 3)
        OC_TRY(fill(l, err));
    if (l->end - l->begin >= 3 && memcmp(l->buffer + l->begin, "\xef\xbb\xbf", 3) == 0)
        l->begin += 3;
    l->started = true;
    return OC_OK;
}

static bool is_too_much(const oc_lines *l, size_t n) { return l->most > 0 && n > l->most; }

static bool is_long(const oc_lines *l, size_t n) { return n > OC_LINES_MOST || is_too_much(l, n); }

static oc_status too_long(oc_lines *l, const char *what, oc_error *err) {
    l->too_long = true;
    if (l->most > 0 && l->most < OC_LINES_MOST)
        return oc_fail(err, OC_E_MEMORY,
                       "%s:%" PRIu64 ": %s of more than %zu KiB: to read it would need more memory "
                       "than there is; split it, or give more (--host-memory)",
                       l->path, l->line + 1, what, l->most >> 10);
    return oc_fail(err, OC_E_FORMAT, "%s:%" PRIu64 ": %s of more than %d MiB; rows are expected",
                   l->path, l->line + 1, what, OC_LINES_MOST >> 20);
}

oc_status oc_lines_next(oc_lines *l, const char **line, size_t *n, bool *more, oc_error *err) {
    size_t seen = 0; /* bytes after begin known to hold no newline */
    OC_TRY(start(l, err));
    for (;;) {
        const char *from = l->buffer + l->begin;
        size_t have = l->end - l->begin;
        const char *newline = have > seen ? memchr(from + seen, '\n', have - seen) : NULL;
        if (newline != NULL || (l->at_end && have > 0)) {
            *line = from;
            *n = newline != NULL ? (size_t)(newline - from) : have;
            if (is_too_much(l, *n)) return too_long(l, "a line", err);
            l->begin += *n + (newline != NULL);
            l->line++;
            *more = true;
            return OC_OK;
        }
        if (l->at_end) {
            *more = false;
            return OC_OK;
        }
        if (is_long(l, have)) return too_long(l, "a line", err);
        seen = have;
        OC_TRY(fill(l, err));
    }
}

oc_status oc_lines_piece(oc_lines *l, size_t most, const char **piece, size_t *n, oc_error *err) {
    l->started = true;
    while (!l->at_end && l->end - l->begin < most) {
        OC_TRY(fill(l, err));
        if (most > l->most && is_too_much(l, l->end - l->begin)) return too_long(l, "a text", err);
    }
    *n = l->end - l->begin < most ? l->end - l->begin : most;
    *piece = l->buffer + l->begin;
    l->begin += *n;
    return OC_OK;
}

/* ---- one JSON array ---- */

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/* To the next byte that is no white space, which stays; *c is 0 at the end of the file. */
static oc_status skip_blank(oc_lines *l, char *c, oc_error *err) {
    OC_TRY(start(l, err));
    for (;;) {
        while (l->begin < l->end && is_blank(l->buffer[l->begin]))
            l->line += l->buffer[l->begin++] == '\n';
        *c = 0;
        if (l->begin < l->end) *c = l->buffer[l->begin];
        if (l->begin < l->end || l->at_end) return OC_OK;
        OC_TRY(fill(l, err));
    }
}

oc_status oc_lines_is_array(oc_lines *l, bool *yes, oc_error *err) {
    char c;
    OC_TRY(start(l, err));
    size_t at = 0; /* looks ahead: for lines, white space is a line of its own */
    for (;;) {
        while (l->begin + at < l->end && is_blank(l->buffer[l->begin + at]))
            at++;
        if (l->begin + at < l->end || l->at_end || is_long(l, at)) break;
        OC_TRY(fill(l, err));
    }
    c = l->begin + at < l->end ? l->buffer[l->begin + at] : 0;
    *yes = c == '[';
    if (*yes) l->array = OC_ARRAY_FIRST;
    return OC_OK;
}

static oc_status misplaced(const oc_lines *l, const char *what, oc_error *err) {
    return oc_fail(err, OC_E_FORMAT, "%s:%" PRIu64 ": not valid JSON: %s", l->path, l->line + 1,
                   what);
}

static oc_status end_array(oc_lines *l, bool *more, oc_error *err) {
    char c;
    l->begin++; /* the ] */
    l->array = OC_ARRAY_END;
    OC_TRY(skip_blank(l, &c, err));
    if (l->begin < l->end) return misplaced(l, "something follows the array", err);
    *more = false;
    return OC_OK;
}

/* Where the scan of an element stands. */
typedef struct scan {
    size_t at;  /* bytes after begin that were seen */
    size_t top; /* brackets that are open */
    bool text, escaped;
} scan;

/* Over what is read; true: the element ends at `at`, before a , or ]. */
static bool scan_element(const oc_lines *l, scan *x) {
    const char *p = l->buffer + l->begin;
    size_t n = l->end - l->begin;
    for (; x->at < n; x->at++) {
        char c = p[x->at];
        if (x->text) {
            if (!x->escaped && c == '"') x->text = false;
            x->escaped = !x->escaped && c == '\\';
            continue;
        }
        if (x->top == 0 && (c == ',' || c == ']')) return true;
        if (c == '"') x->text = true;
        x->top += c == '{' || c == '[';
        x->top -= x->top > 0 && (c == '}' || c == ']');
    }
    return false;
}

/* To the element's first byte; *more is false behind the last. */
static oc_status find_element(oc_lines *l, bool *more, oc_error *err) {
    char c;
    *more = true;
    OC_TRY(skip_blank(l, &c, err));
    if (l->array == OC_ARRAY_FIRST) {
        l->begin++; /* the [ */
        OC_TRY(skip_blank(l, &c, err));
        if (c == ']' && l->begin < l->end) return end_array(l, more, err);
    } else {
        if (c == ']') return end_array(l, more, err);
        l->begin++; /* the , : scan_element() stops at one of the two */
        OC_TRY(skip_blank(l, &c, err));
    }
    l->array = OC_ARRAY_NEXT;
    if (l->begin == l->end) return misplaced(l, "the array does not end", err);
    if (c == ',' || c == ']') return misplaced(l, "an element of the array is missing", err);
    return OC_OK;
}

oc_status oc_lines_element(oc_lines *l, const char **text, size_t *n, uint64_t *line, bool *more,
                           oc_error *err) {
    scan x = {0};
    *more = false;
    if (l->array == OC_ARRAY_END) return OC_OK;
    OC_TRY(find_element(l, more, err));
    if (!*more) return OC_OK;
    while (!scan_element(l, &x)) {
        if (l->at_end) return misplaced(l, "the array does not end", err);
        if (is_long(l, x.at)) return too_long(l, "an element", err);
        OC_TRY(fill(l, err));
    }
    if (is_too_much(l, x.at)) return too_long(l, "an element", err);
    *text = l->buffer + l->begin;
    *n = x.at;
    *line = l->line + 1;
    for (size_t i = 0; i < x.at; i++)
        l->line += (*text)[i] == '\n';
    l->begin += x.at;
    return OC_OK;
}

/* ---- what is too long ---- */

static void pass_bytes(oc_lines *l, size_t n) {
    for (size_t i = 0; i < n; i++)
        l->line += l->buffer[l->begin + i] == '\n';
    l->begin += n;
}

static oc_status pass_line(oc_lines *l, oc_error *err) {
    for (;;) {
        const char *from = l->buffer + l->begin;
        size_t have = l->end - l->begin;
        const char *newline = have > 0 ? memchr(from, '\n', have) : NULL;
        l->begin += newline != NULL ? (size_t)(newline - from) + 1 : have;
        if (newline != NULL || l->at_end) break;
        OC_TRY(fill(l, err));
    }
    l->line++;
    return OC_OK;
}

static oc_status pass_element(oc_lines *l, oc_error *err) {
    scan x = {0};
    bool ends = false;
    while (!ends) {
        ends = scan_element(l, &x);
        pass_bytes(l, x.at);
        x.at = 0;
        if (!ends && l->at_end) return misplaced(l, "the array does not end", err);
        if (!ends) OC_TRY(fill(l, err));
    }
    return OC_OK;
}

oc_status oc_lines_pass(oc_lines *l, oc_error *err) {
    if (!l->too_long) return OC_OK;
    l->too_long = false;
    return l->array == OC_ARRAY_NONE ? pass_line(l, err) : pass_element(l, err);
}
