/* unicode.h - where the reference library's tables of characters are older or newer than
 * those of utf8proc and PCRE2. tools/make_tokenizer_expected.py --unicode writes them. */
#ifndef OC_TOKENIZER_UNICODE_H
#define OC_TOKENIZER_UNICODE_H

#include <stddef.h>
#include <stdint.h>

typedef struct oc_tk_range {
    uint32_t first, last;
} oc_tk_range;

/* What a property of regular expressions holds besides, in PCRE2's words. */
typedef struct oc_tk_extra {
    const char *name, *ranges;
} oc_tk_extra;

/* All sorted. Code points that are not decomposed, ordered or taken for marks. */
extern const oc_tk_range oc_tk_young[];
extern const size_t oc_tk_young_count;
extern const oc_tk_range oc_tk_more_numeric[];
extern const size_t oc_tk_more_numeric_count;
extern const oc_tk_range oc_tk_more_word[];
extern const size_t oc_tk_more_word_count;
extern const oc_tk_range oc_tk_more_punctuation[];
extern const size_t oc_tk_more_punctuation_count;
extern const oc_tk_range oc_tk_fewer_punctuation[];
extern const size_t oc_tk_fewer_punctuation_count;
extern const oc_tk_range oc_tk_lower_pairs[]; /* from, to */
extern const size_t oc_tk_lower_pairs_count;
extern const oc_tk_extra oc_tk_extras[];
extern const size_t oc_tk_extras_count;

#endif
