/* The built-in tokenizer: 0 pad, 1 bos, 2 eos, 3 + byte. */
#include "tokenizer/internal.h"

#include <stdlib.h>
#include <string.h>

const char *const oc_tk_bytes_specials[OC_BYTES_FIRST] = {"<|pad|>", "<|bos|>", "<|eos|>"};

void oc_tk_bytes_init(oc_tokenizer *t) {
    t->bytes = true;
    t->vocab = OC_BYTES_VOCAB;
    t->bos = OC_BYTES_BOS;
    t->eos = OC_BYTES_EOS;
    t->pad = OC_BYTES_PAD;
}

oc_status oc_tokenizer_bytes(oc_tokenizer **out, oc_error *err) {
    *out = NULL;
    oc_tokenizer *t = calloc(1, sizeof *t);
    if (t == NULL) return oc_fail(err, OC_E_MEMORY, "no memory for the byte tokenizer");
    oc_tk_bytes_init(t);
    *out = t;
    return OC_OK;
}

oc_status oc_tk_bytes_encode(const char *text, size_t n, oc_special special, oc_tokens *out) {
    bool add = special == OC_SPECIAL_ADD;
    size_t k = 0;
    if (n > SIZE_MAX - 2) return OC_E_MEMORY;
    OC_TRY(oc_tokens_reserve(out, n + (add ? 2 : 0)));
    if (add) {
        out->starts[k] = 0;
        out->ids[k++] = OC_BYTES_BOS;
    }
    for (size_t i = 0; i < n; i++) {
        out->starts[k] = i;
        out->ids[k++] = OC_BYTES_FIRST + (unsigned char)text[i];
    }
    if (add) {
        out->starts[k] = n;
        out->ids[k++] = OC_BYTES_EOS;
    }
    out->n = k;
    return OC_OK;
}

oc_status oc_tk_bytes_text(const int32_t *ids, size_t n, bool skip, oc_tk_bytes *out) {
    for (size_t i = 0; i < n; i++) {
        char byte = (char)(ids[i] - OC_BYTES_FIRST);
        if (ids[i] >= OC_BYTES_FIRST)
            OC_TRY(oc_tk_append(out, &byte, 1));
        else if (!skip)
            OC_TRY(oc_tk_append(out, oc_tk_bytes_specials[ids[i]],
                                strlen(oc_tk_bytes_specials[ids[i]])));
    }
    return OC_OK;
}

int32_t oc_tk_bytes_find(const char *s, size_t n) {
    uint32_t symbols[256];
    for (int i = 0; i < OC_BYTES_FIRST; i++)
        if (strlen(oc_tk_bytes_specials[i]) == n && memcmp(oc_tk_bytes_specials[i], s, n) == 0)
            return i;
    oc_tk_byte_symbols(symbols);
    for (int b = 0; b < 256; b++) {
        char utf8[4];
        if (oc_tk_put_utf8(symbols[b], utf8) == n && memcmp(utf8, s, n) == 0)
            return OC_BYTES_FIRST + b;
    }
    return -1;
}
