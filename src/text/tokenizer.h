/* tokenizer.h - text to ids. Here the built-in byte tokenizer; tokenizer.json comes beside it. */
#ifndef OC_TOKENIZER_H
#define OC_TOKENIZER_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct oc_tokenizer oc_tokenizer;

/* 0 pad, 1 bos, 2 eos, 3 + byte. */
enum {
    OC_BYTES_PAD = 0,
    OC_BYTES_BOS = 1,
    OC_BYTES_EOS = 2,
    OC_BYTES_FIRST = 3,
    OC_BYTES_VOCAB = 259
};

OC_NODISCARD oc_status oc_tokenizer_bytes(oc_tokenizer **out, oc_error *err);
void oc_tokenizer_close(oc_tokenizer *t);

int32_t oc_tokenizer_vocab(const oc_tokenizer *t);
int32_t oc_tokenizer_bos(const oc_tokenizer *t); /* -1: none */
int32_t oc_tokenizer_eos(const oc_tokenizer *t); /* -1: none */
int32_t oc_tokenizer_pad(const oc_tokenizer *t); /* -1: none */
uint64_t oc_tokenizer_host_bytes(const oc_tokenizer *t);

/* Ids that `n` bytes of text can become at most, specials included. */
size_t oc_tokenizer_bound(const oc_tokenizer *t, size_t n);
/* ids has room for oc_tokenizer_bound() entries. special: with the tokens that stand around a
 * document (bytes: bos first, eos last). Any bytes are text, U+0000 and broken UTF-8 too. */
OC_NODISCARD oc_status oc_tokenizer_encode(const oc_tokenizer *t, const char *text, size_t n,
                                           bool special, int32_t *ids, size_t *n_ids,
                                           oc_error *err);

/* Encoding a text in pieces without specials, cut anywhere, equals encoding it whole; specials are
 * then bos first and eos last. */
bool oc_tokenizer_pieces(const oc_tokenizer *t);

/* Write DIR/tokenizer.json and tokenizer_config.json that the reference library loads as the same
 * tokenizer (bytes tokenizer only). The one difference: there the literal texts <|pad|>, <|bos|>
 * and
 * <|eos|> become the special tokens, here they stay text. */
OC_NODISCARD oc_status oc_tokenizer_save(const oc_tokenizer *t, const char *dir, oc_error *err);
/* Whether the file is a tokenizer.json that oc_tokenizer_save() wrote. */
bool oc_tokenizer_is_bytes(const char *path);

#endif
