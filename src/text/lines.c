#include "text/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIRST_ROOM = 256 * 1024 };

static oc_status grow(oc_lines *l, size_t room, oc_error *err) {
    char *buffer = realloc(l->buffer, room);
    if (buffer == NULL)
        return oc_fail(err, OC_E_MEMORY, "%s:%" PRIu64 ": no memory for a line of %zu bytes",
                       l->path, l->line + 1, room);
    l->buffer = buffer;
    l->room = room;
    return OC_OK;
}

oc_status oc_lines_open(oc_lines *l, const char *path, oc_error *err) {
    *l = (oc_lines){.path = path, .fd = -1};
    /* O_NONBLOCK: a fifo must be refused, not waited for. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    if (fd < 0)
        return oc_fail_errno(err, errno == ENOENT ? OC_E_NOTFOUND : OC_E_IO, errno,
                             "cannot open %s", path);
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return oc_fail(err, OC_E_INVALID, "%s is not a regular file", path);
    }
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    l->fd = fd;
    l->bytes = (uint64_t)st.st_size;
    oc_status s = grow(l, FIRST_ROOM, err);
    if (s != OC_OK) oc_lines_close(l);
    return s;
}

void oc_lines_close(oc_lines *l) {
    if (l->fd >= 0) close(l->fd);
    free(l->buffer);
    *l = (oc_lines){.fd = -1};
}

uint64_t oc_lines_bytes(const oc_lines *l) { return l->bytes; }

/* Read once more behind [begin, end), making room first; sets at_end at the file's end. */
static oc_status fill(oc_lines *l, oc_error *err) {
    if (l->begin > 0) {
        memmove(l->buffer, l->buffer + l->begin, l->end - l->begin);
        l->end -= l->begin;
        l->begin = 0;
    }
    if (l->end == l->room) OC_TRY(grow(l, 2 * l->room, err));
    for (;;) {
        ssize_t got = read(l->fd, l->buffer + l->end, l->room - l->end);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return oc_fail_errno(err, OC_E_IO, errno, "cannot read %s", l->path);
        l->at_end = got == 0;
        l->end += (size_t)got;
        return OC_OK;
    }
}

static void skip_mark(oc_lines *l) {
    if (l->line == 0 && l->end - l->begin >= 3 &&
        memcmp(l->buffer + l->begin, "\xef\xbb\xbf", 3) == 0)
        l->begin += 3;
}

static void give(oc_lines *l, size_t n, const char **line) {
    *line = l->buffer + l->begin;
    l->begin += n;
    l->line++;
}

oc_status oc_lines_next(oc_lines *l, const char **line, size_t *n, bool *more, oc_error *err) {
    size_t seen = 0; /* bytes after begin known to hold no newline */
    for (;;) {
        const char *from = l->buffer + l->begin;
        size_t have = l->end - l->begin;
        const char *newline = have > seen ? memchr(from + seen, '\n', have - seen) : NULL;
        if (newline != NULL || (l->at_end && have > 0)) {
            if (l->line == 0) skip_mark(l);
            const char *stop = newline != NULL ? newline : l->buffer + l->end;
            *n = (size_t)(stop - (l->buffer + l->begin));
            give(l, *n + (newline != NULL), line);
            *more = true;
            return OC_OK;
        }
        if (l->at_end) {
            *more = false;
            return OC_OK;
        }
        if (have > OC_LINES_MOST)
            return oc_fail(err, OC_E_FORMAT,
                           "%s:%" PRIu64 ": a line of more than %d MiB; one row a line is expected",
                           l->path, l->line + 1, OC_LINES_MOST >> 20);
        seen = have;
        OC_TRY(fill(l, err));
    }
}

oc_status oc_lines_piece(oc_lines *l, size_t most, const char **piece, size_t *n, oc_error *err) {
    while (!l->at_end && l->end - l->begin < most)
        OC_TRY(fill(l, err));
    *n = l->end - l->begin < most ? l->end - l->begin : most;
    *piece = l->buffer + l->begin;
    l->begin += *n;
    return OC_OK;
}
