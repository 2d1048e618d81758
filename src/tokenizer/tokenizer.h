/* tokenizer.h - text to ids and back: tokenizer.json files as the reference library reads them, and
 * the built-in byte tokenizer.
 *
 * A tokenizer is immutable once open: any number of threads may encode and decode with one, each
 * with its own oc_tokens. What a tokenizer.json asks for and we lack is refused by name at open. */
#ifndef OC_TOKENIZER_H
#define OC_TOKENIZER_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct oc_tokenizer oc_tokenizer;

/* The byte tokenizer: 0 pad, 1 bos, 2 eos, 3 + byte. */
enum {
    OC_BYTES_PAD = 0,
    OC_BYTES_BOS = 1,
    OC_BYTES_EOS = 2,
    OC_BYTES_FIRST = 3,
    OC_BYTES_VOCAB = 259
};

OC_NODISCARD oc_status oc_tokenizer_bytes(oc_tokenizer **out, oc_error *err);
/* DIR/tokenizer.json, and what stands beside it: tokenizer_config.json (special tokens, chat
 * template), special_tokens_map.json, chat_template.jinja and additional_chat_templates/, which win
 * over it, and config.json,
 * whose model_type may stand for special tokens that nothing names. A tokenizer.json that
 * oc_tokenizer_save() wrote opens as the byte tokenizer. */
OC_NODISCARD oc_status oc_tokenizer_open(oc_tokenizer **out, const char *dir, oc_error *err);
/* The same from JSON text, for tests; config NULL: none. `origin` stands for the file in messages.
 */
OC_NODISCARD oc_status oc_tokenizer_parse(oc_tokenizer **out, const char *json, size_t n,
                                          const char *config, size_t config_n, const char *origin,
                                          oc_error *err);
void oc_tokenizer_close(oc_tokenizer *t);

/* Ids are in [0, vocab): the largest id of model and added tokens + 1. */
int32_t oc_tokenizer_vocab(const oc_tokenizer *t);
/* As tokenizer_config.json and its like name them; -1: none. */
int32_t oc_tokenizer_bos(const oc_tokenizer *t);
int32_t oc_tokenizer_eos(const oc_tokenizer *t);
int32_t oc_tokenizer_pad(const oc_tokenizer *t);
/* The text of a special token for templates ("" when there is none). */
const char *oc_tokenizer_bos_text(const oc_tokenizer *t);
const char *oc_tokenizer_eos_text(const oc_tokenizer *t);
/* The chat template for a conversation with tools or without; NULL: none. Owned by the tokenizer.
 * Where there are several, the "default", and with tools the one named "tool_use", if there is one,
 * as in the reference library. */
const char *oc_tokenizer_chat_template(const oc_tokenizer *t, bool tools);
/* Memory it holds, for the table of bytes: its tables, texts, compiled patterns and their machine
 * code, as the heap's blocks. What an oc_tokens holds (4.5 MB of remembered words among it) is not
 * in it: a data set frees its own when it is open, before a step. */
uint64_t oc_tokenizer_host_bytes(const oc_tokenizer *t);
/* Id of a token's exact text, added tokens included; -1: none. */
int32_t oc_tokenizer_find(const oc_tokenizer *t, const char *text, size_t n);

/* What encoding fills. Zero it first; it grows as needed and is reused from call to call. starts[i]
 * is the offset in the text given of the first byte that token i stands for, non-decreasing; tokens
 * that stand around a document lie at 0 and at n. */
typedef struct oc_tokens {
    int32_t *ids;
    size_t *starts;
    size_t n, room;
    void *scratch; /* the tokenizer's own working memory: buffers and the cache of words */
} oc_tokens;

void oc_tokens_free(oc_tokens *t);

typedef enum oc_special {
    OC_SPECIAL_NONE, /* no token is added around the text (the reference's add_special_tokens=False)
                      */
    OC_SPECIAL_ADD   /* what the post_processor says (bytes: bos first, eos last) */
} oc_special;

/* Replaces the content of `out`. Added tokens inside the text are recognised in both cases, as in
 * the reference library. Any bytes are text: U+0000 too, and a byte that is not UTF-8 counts as
 * U+FFFD (the byte tokenizer keeps it). Linear time but for a logarithm. Rules that would make more
 * than 32 times its bytes of a text (and 64 KiB) are OC_E_OVERFLOW, with the tokenizer's file. */
OC_NODISCARD oc_status oc_tokenizer_encode(const oc_tokenizer *t, const char *text, size_t n,
                                           oc_special special, oc_tokens *out, oc_error *err);

/* *text (n bytes and a NUL, free it) as the reference library's decode(); skip: special tokens are
 * left out. An id outside [0, vocab) is OC_E_INVALID. */
OC_NODISCARD oc_status oc_tokenizer_decode(const oc_tokenizer *t, const int32_t *ids, size_t n_ids,
                                           bool skip, char **text, size_t *n, oc_error *err);

/* --- Decoding token by token: the pieces, joined, are what oc_tokenizer_decode() makes of all ids.
 * Every piece is whole characters; what later ids may still change waits: bytes of an unfinished
 * character, a run of byte tokens (<0x0A>), a blank that would be cut off at the end. A call's work
 * does not grow with what came before. Text is borrowed until the next call. */
typedef struct oc_decode oc_decode;
/* t is borrowed until it is closed. */
OC_NODISCARD oc_status oc_decode_open(oc_decode **out, const oc_tokenizer *t, bool skip,
                                      oc_error *err);
void oc_decode_close(oc_decode *d);
OC_NODISCARD oc_status oc_decode_put(oc_decode *d, const int32_t *ids, size_t n_ids,
                                     const char **text, size_t *n, oc_error *err);
/* What waited; once. After it, and after a failure, nothing but close. */
OC_NODISCARD oc_status oc_decode_end(oc_decode *d, const char **text, size_t *n, oc_error *err);

/* Whether encoding a text in pieces without specials, cut anywhere, equals encoding it whole;
 * specials are then bos first and eos last (the byte tokenizer). */
bool oc_tokenizer_pieces(const oc_tokenizer *t);

/* Write DIR/tokenizer.json and tokenizer_config.json that the reference library loads as the same
 * tokenizer (byte tokenizer only; others are copied as files). The one difference: there the
 * literal texts <|pad|>, <|bos|> and <|eos|> become the special tokens, here they stay text. */
OC_NODISCARD oc_status oc_tokenizer_save(const oc_tokenizer *t, const char *dir, oc_error *err);

#endif
