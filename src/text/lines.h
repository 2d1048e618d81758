/* lines.h - a regular file read in order, line by line or piece by piece, in one growing buffer. */
#ifndef OC_LINES_H
#define OC_LINES_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A longer line is refused: it is hardly a row, and would not fit in memory as JSON. */
enum { OC_LINES_MOST = 256 << 20 };

typedef struct oc_lines {
    int fd;
    const char *path; /* borrowed */
    uint64_t bytes;   /* of the file at open */
    char *buffer;
    size_t room, begin, end; /* [begin, end) is read and not yet given out */
    uint64_t line;
    bool at_end;
} oc_lines;

OC_NODISCARD oc_status oc_lines_open(oc_lines *l, const char *path, oc_error *err);
void oc_lines_close(oc_lines *l);
uint64_t oc_lines_bytes(const oc_lines *l);

/* The next line without its newline; valid until the next call. *more is false at the end. A
 * byte-order mark before the first line is skipped. */
OC_NODISCARD oc_status oc_lines_next(oc_lines *l, const char **line, size_t *n, bool *more,
                                     oc_error *err);
/* At most `most` bytes, fewer only at the end; *n is 0 there. */
OC_NODISCARD oc_status oc_lines_piece(oc_lines *l, size_t most, const char **piece, size_t *n,
                                      oc_error *err);

#endif
