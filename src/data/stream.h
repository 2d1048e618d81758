/* stream.h - the bytes of a file in order; gzip and zstd files are read as what they hold.
 *
 * The content tells, not the name: gzip by its first two bytes, zstd by its first four. Several
 * members or frames behind one another are one text. */
#ifndef OC_STREAM_H
#define OC_STREAM_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct oc_stream oc_stream;

/* A regular file. Refused by name: anything else, and a file whose name says .gz, .zst or .zstd and
 * that does not begin so. */
OC_NODISCARD oc_status oc_stream_open(oc_stream **out, const char *path, oc_error *err);
/* Whatever can be read; fd stays the caller's, name stands for it in messages (borrowed). */
OC_NODISCARD oc_status oc_stream_open_fd(oc_stream **out, int fd, const char *name, oc_error *err);
void oc_stream_close(oc_stream *s);

/* At most n bytes (n > 0) into dst; *got is 0 at the end only. A stream that breaks off or is
 * damaged is OC_E_FORMAT. */
OC_NODISCARD oc_status oc_stream_read(oc_stream *s, void *dst, size_t n, size_t *got,
                                      oc_error *err);

#endif
