/* relaxed.h - DeepSpeed reads its file with hjson; the part of it that people write, as JSON.
 *
 * Comments (a line from // or #, and all between slash-star and star-slash), a comma behind the
 * last member, keys without quotes, strings in single quotes. */
#ifndef OC_RELAXED_H
#define OC_RELAXED_H

#include "base/status.h"

#include <stddef.h>

/* *out: the same as JSON, with every line break in its place, NUL-terminated; free() it. What is
 * neither stays as it is, for the parser of JSON to say so. */
OC_NODISCARD oc_status oc_relaxed_to_json(char **out, size_t *out_bytes, const char *text, size_t n,
                                          oc_error *err);

#endif
