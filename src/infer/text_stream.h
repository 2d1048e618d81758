/* text_stream.h - tokens to text as they come: whole characters only, up to a stop.
 *
 * What is given out never changes later: bytes that may still become another character with the
 * next token, and text that may still become a stop text, wait. All that was given out, joined, is
 * what decoding all tokens at once gives (up to the stop). */
#ifndef OC_TEXT_STREAM_H
#define OC_TEXT_STREAM_H

#include "base/status.h"
#include "tokenizer/tokenizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct oc_text_stream oc_text_stream;

typedef struct oc_text_stream_spec {
    const oc_tokenizer *tokenizer; /* borrowed */
    const char *const *stops;      /* texts that end it and are not part of it; borrowed */
    int32_t n_stops;
    const int32_t *prompt; /* the last tokens before it (a few are enough): decoders look back */
    int32_t n_prompt;
} oc_text_stream_spec;

OC_NODISCARD oc_status oc_text_stream_open(oc_text_stream **out, const oc_text_stream_spec *spec,
                                           oc_error *err);
void oc_text_stream_close(oc_text_stream *s);
/* One more token. *text: what can be given out now, UTF-8, borrowed until the next call; *stopped:
 * a stop text was completed (text ends before it). */
OC_NODISCARD oc_status oc_text_stream_put(oc_text_stream *s, int32_t id, const char **text,
                                          size_t *n, bool *stopped, oc_error *err);
/* No more tokens: what was held back; bytes that are no character become U+FFFD. */
OC_NODISCARD oc_status oc_text_stream_end(oc_text_stream *s, const char **text, size_t *n,
                                          oc_error *err);

#endif
