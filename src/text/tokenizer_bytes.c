#include "text/tokenizer_internal.h"

#include <stdlib.h>

oc_status oc_tokenizer_bytes(oc_tokenizer **out, oc_error *err) {
    *out = NULL;
    oc_tokenizer *t = malloc(sizeof *t);
    if (t == NULL) return oc_fail(err, OC_E_MEMORY, "no memory for the byte tokenizer");
    *t = (oc_tokenizer){OC_BYTES_VOCAB, OC_BYTES_BOS, OC_BYTES_EOS, OC_BYTES_PAD};
    *out = t;
    return OC_OK;
}

void oc_tokenizer_close(oc_tokenizer *t) { free(t); }

int32_t oc_tokenizer_vocab(const oc_tokenizer *t) { return t->vocab; }
int32_t oc_tokenizer_bos(const oc_tokenizer *t) { return t->bos; }
int32_t oc_tokenizer_eos(const oc_tokenizer *t) { return t->eos; }
int32_t oc_tokenizer_pad(const oc_tokenizer *t) { return t->pad; }
uint64_t oc_tokenizer_host_bytes(const oc_tokenizer *t) { return sizeof *t; }

size_t oc_tokenizer_bound(const oc_tokenizer *t, size_t n) {
    (void)t;
    return n > SIZE_MAX - 2 ? SIZE_MAX : n + 2;
}

bool oc_tokenizer_pieces(const oc_tokenizer *t) {
    (void)t;
    return true;
}

oc_status oc_tokenizer_encode(const oc_tokenizer *t, const char *text, size_t n, bool special,
                              int32_t *ids, size_t *n_ids, oc_error *err) {
    (void)err;
    size_t k = 0;
    if (special) ids[k++] = t->bos;
    for (size_t i = 0; i < n; i++)
        ids[k++] = OC_BYTES_FIRST + (unsigned char)text[i];
    if (special) ids[k++] = t->eos;
    *n_ids = k;
    return OC_OK;
}
