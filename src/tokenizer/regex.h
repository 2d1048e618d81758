/* regex.h - from Oniguruma's dialect of regular expressions to PCRE2's. */
#ifndef OC_TOKENIZER_REGEX_H
#define OC_TOKENIZER_REGEX_H

#include "tokenizer/internal.h"

/* Append to *out a pattern that means to PCRE2, with UTF, UCP and MULTILINE, what `pattern` means
 * to Oniguruma in its Ruby syntax. What cannot be said is refused by name. */
OC_NODISCARD oc_status oc_tk_dialect(oc_tk_bytes *out, const char *pattern, size_t n,
                                     const char *where, oc_error *err);

#endif
