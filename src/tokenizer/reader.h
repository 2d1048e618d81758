/* reader.h - a reader of JSON text for the two parts of a tokenizer.json that hold
 * hundreds of thousands of entries. Everything else goes through base/json.h. */
#ifndef OC_TOKENIZER_READER_H
#define OC_TOKENIZER_READER_H

#include "tokenizer/internal.h"

typedef struct oc_tk_reader {
    const char *s;
    size_t n, at;
    const char *origin;
    oc_error *err;
} oc_tk_reader;

void oc_tk_reader_space(oc_tk_reader *r);
/* The next character after white space; 0 at the end. */
char oc_tk_reader_peek(oc_tk_reader *r);
/* Step over character c; otherwise an error that says what was expected. */
OC_NODISCARD oc_status oc_tk_reader_take(oc_tk_reader *r, char c);
/* Whether c comes next; then it is stepped over. */
bool oc_tk_reader_accept(oc_tk_reader *r, char c);
/* A string; its text, with escapes resolved, is appended. */
OC_NODISCARD oc_status oc_tk_reader_string(oc_tk_reader *r, oc_tk_bytes *out);
/* An integer from 0 to UINT32_MAX. */
OC_NODISCARD oc_status oc_tk_reader_id(oc_tk_reader *r, uint32_t *out);
/* Step over a value: brackets and strings must match, the rest is not looked at. */
OC_NODISCARD oc_status oc_tk_reader_skip(oc_tk_reader *r);
oc_status oc_tk_reader_fail(const oc_tk_reader *r, const char *what);

#endif
