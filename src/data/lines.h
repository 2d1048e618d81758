/* lines.h - a file read in order, decompressed: line by line, piece by piece, or as the elements of
 * one JSON array, in one growing buffer. */
#ifndef OC_LINES_H
#define OC_LINES_H

#include "data/stream.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A longer line or element is refused: it is hardly a row, and would not fit in memory as JSON. */
enum { OC_LINES_MOST = 256 << 20 };

typedef struct oc_lines {
    oc_stream *stream;
    const char *path; /* borrowed */
    char *buffer;
    size_t room, begin, end; /* [begin, end) is read and not yet given out */
    uint64_t line;           /* lines given out, or newlines passed in an array */
    size_t most;             /* bytes of a row or of a whole text; 0: no limit but OC_LINES_MOST */
    bool started, at_end;
    bool too_long; /* what comes next was refused for its length */
    enum { OC_ARRAY_NONE, OC_ARRAY_FIRST, OC_ARRAY_NEXT, OC_ARRAY_END } array;
} oc_lines;

OC_NODISCARD oc_status oc_lines_open(oc_lines *l, const char *path, oc_error *err);
/* As oc_stream_open_fd(). */
OC_NODISCARD oc_status oc_lines_open_fd(oc_lines *l, int fd, const char *name, oc_error *err);
void oc_lines_close(oc_lines *l);
/* What is longer than most bytes is refused before it is read: there is no memory for it. */
void oc_lines_limit(oc_lines *l, size_t most);

/* Each way of reading skips a byte-order mark at the start. What is given out is valid until the
 * next call. */

/* The next line without its newline. *more is false at the end. */
OC_NODISCARD oc_status oc_lines_next(oc_lines *l, const char **line, size_t *n, bool *more,
                                     oc_error *err);
/* After a line or element that was refused for its length (too_long): read past it, in the memory
 * that there is. */
OC_NODISCARD oc_status oc_lines_pass(oc_lines *l, oc_error *err);
/* At most `most` bytes, fewer only at the end; *n is 0 there. Keeps a byte-order mark. */
OC_NODISCARD oc_status oc_lines_piece(oc_lines *l, size_t most, const char **piece, size_t *n,
                                      oc_error *err);

/* Is the first thing in the file a '['? Before anything is read. */
OC_NODISCARD oc_status oc_lines_is_array(oc_lines *l, bool *yes, oc_error *err);
/* The next element of the array, whose text may still be no JSON; *line: where it starts, from 1.
 * What stands between elements and behind the array is checked. */
OC_NODISCARD oc_status oc_lines_element(oc_lines *l, const char **text, size_t *n, uint64_t *line,
                                        bool *more, oc_error *err);

#endif
