/* lines.h - lines of the kernel's small files, without an allocation: what is measured decides what
 * is planned, and must not depend on whether there was memory to look. */
#ifndef OC_MEM_LINES_H
#define OC_MEM_LINES_H

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

typedef struct oc_mem_lines {
    int fd;
    size_t at, n;
    char buffer[4096];
} oc_mem_lines;

static inline bool oc_mem_lines_open(oc_mem_lines *l, const char *path) {
    l->at = l->n = 0;
    l->fd = open(path, O_RDONLY | O_CLOEXEC);
    return l->fd >= 0;
}

static inline void oc_mem_lines_close(oc_mem_lines *l) { (void)close(l->fd); }

/* The next line without its end, cut at size - 1 bytes; false: there is none. */
static inline bool oc_mem_lines_next(oc_mem_lines *l, char *line, size_t size) {
    size_t k = 0;
    bool some = false;
    for (;;) {
        if (l->at == l->n) {
            ssize_t got = read(l->fd, l->buffer, sizeof l->buffer);
            if (got <= 0) break;
            l->n = (size_t)got;
            l->at = 0;
        }
        char c = l->buffer[l->at++];
        some = true;
        if (c == '\n') break;
        if (k + 1 < size) line[k++] = c;
    }
    line[k] = 0;
    return some;
}

#endif
