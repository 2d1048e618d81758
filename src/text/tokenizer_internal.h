/* tokenizer_internal.h - a tokenizer's fields, for the files of this room. */
#ifndef OC_TOKENIZER_INTERNAL_H
#define OC_TOKENIZER_INTERNAL_H

#include "text/tokenizer.h"

struct oc_tokenizer {
    int32_t vocab, bos, eos, pad;
};

#endif
