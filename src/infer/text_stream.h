/* text_stream.h - tokens to text as they come: whole characters only, up to a stop.
 *
 * What is given out never changes later: bytes that may still become another character with the
 * next token, and text that may still become a stop text, wait. All that was given out, joined, is
 * what decoding all tokens at once gives (up to the stop), and does not depend on where tokens end.
 */
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
    /* Texts that end it and are not part of it, not empty; copied. The one that is whole first
     * counts, and of several at once the longest. */
    const char *const *stops;
    int32_t n_stops;
    /* The tokens before it: what is given out is what these and the answer together have more than
     * these alone, so that a first word keeps its blank. None: the answer is decoded for itself. */
    const int32_t *prompt;
    int32_t n_prompt;
    bool specials; /* special tokens are text too; else they are left out */
} oc_text_stream_spec;

OC_NODISCARD oc_status oc_text_stream_open(oc_text_stream **out, const oc_text_stream_spec *spec,
                                           oc_error *err);
void oc_text_stream_close(oc_text_stream *s);
/* One more token. *text: what can be given out now, UTF-8, borrowed until the next call; *stopped:
 * a stop text is whole (text ends before it; later calls give nothing). An id that the tokenizer
 * does not know, as models have above their vocabulary, has no text. After a failure: close. */
OC_NODISCARD oc_status oc_text_stream_put(oc_text_stream *s, int32_t id, const char **text,
                                          size_t *n, bool *stopped, oc_error *err);
/* No more tokens: what was held back; bytes that are no character become U+FFFD. What waited may
 * make a stop text whole. */
OC_NODISCARD oc_status oc_text_stream_end(oc_text_stream *s, const char **text, size_t *n,
                                          bool *stopped, oc_error *err);

#endif
