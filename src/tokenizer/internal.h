/* internal.h - the parts of a tokenizer, for the files of this room.
 *
 * A text goes through: repair of bytes that are not UTF-8, added tokens that match as they stand,
 * the normalizer, added tokens that match normalized text, the pre-tokenizer, the model, the
 * post-processor. Every stage works on views of bytes with a map back to the text that was given.
 */
#ifndef OC_TOKENIZER_INTERNAL_H
#define OC_TOKENIZER_INTERNAL_H

#include "tokenizer/tokenizer.h"

#include <jansson.h>

/* --- Bytes and where they came from (text.c) */

typedef struct oc_tk_bytes {
    char *s;
    size_t n, room;
    size_t most; /* what would be longer is OC_E_OVERFLOW; 0: any length */
} oc_tk_bytes;

/* What a tokenizer's rules may make of n bytes: the longest decomposition is 11 times its bytes. */
static inline size_t oc_tk_most(size_t n) {
    return n > SIZE_MAX / 64 ? SIZE_MAX : 32 * n + (64 << 10);
}

/* From byte `out` on, up to the next run, byte i came from origin + (i - out), or, when fixed, from
 * origin. */
typedef struct oc_tk_run {
    size_t out, origin;
    bool fixed;
} oc_tk_run;

typedef struct oc_tk_text {
    oc_tk_bytes b;
    oc_tk_run *runs;
    size_t n_runs, room;
} oc_tk_text;

/* n_runs == 0: byte i came from shift + i. The cursor is the run of the last question: questions in
 * rising order cost constant time. */
typedef struct oc_tk_view {
    const char *s;
    size_t n, shift;
    const oc_tk_run *runs;
    size_t n_runs, at, cursor; /* `at`: this view begins at byte `at` of what runs describe */
} oc_tk_view;

typedef struct oc_tk_piece {
    size_t begin, end;
} oc_tk_piece;

typedef struct oc_tk_pieces {
    oc_tk_piece *p;
    size_t n, room;
} oc_tk_pieces;

/* Make room for n elements of `size` bytes. */
OC_NODISCARD oc_status oc_tk_grow(void **at, size_t *room, size_t n, size_t size);
OC_NODISCARD oc_status oc_tk_append(oc_tk_bytes *b, const char *s, size_t n);
OC_NODISCARD oc_status oc_tk_piece_push(oc_tk_pieces *p, size_t begin, size_t end);

void oc_tk_text_clear(oc_tk_text *t);
void oc_tk_text_release(oc_tk_text *t);
/* Append bytes [begin, end) of a view with their origins. */
OC_NODISCARD oc_status oc_tk_text_copy(oc_tk_text *t, oc_tk_view *in, size_t begin, size_t end);
/* Append bytes that all came from `origin`. */
OC_NODISCARD oc_status oc_tk_text_put(oc_tk_text *t, const char *s, size_t n, size_t origin);
oc_tk_view oc_tk_text_view(const oc_tk_text *t);
oc_tk_view oc_tk_view_part(const oc_tk_view *v, size_t begin, size_t end);
size_t oc_tk_view_origin(oc_tk_view *v, size_t i);

/* The code point at s, which must be valid UTF-8; its length is added to *i. */
static inline uint32_t oc_tk_next(const char *s, size_t *i) {
    const unsigned char *u = (const unsigned char *)s + *i;
    if (u[0] < 0x80) return *i += 1, u[0];
    if (u[0] < 0xe0) return *i += 2, (uint32_t)(u[0] & 0x1f) << 6 | (u[1] & 0x3f);
    if (u[0] < 0xf0)
        return *i += 3,
               (uint32_t)(u[0] & 0x0f) << 12 | (uint32_t)(u[1] & 0x3f) << 6 | (u[2] & 0x3f);
    return *i += 4, (uint32_t)(u[0] & 0x07) << 18 | (uint32_t)(u[1] & 0x3f) << 12 |
                        (uint32_t)(u[2] & 0x3f) << 6 | (u[3] & 0x3f);
}
/* Where the code point that ends before s[i] begins; i > 0. */
static inline size_t oc_tk_back(const char *s, size_t i) {
    do
        i--;
    while (i > 0 && ((unsigned char)s[i] & 0xc0) == 0x80);
    return i;
}
/* At most 4 bytes; returns how many. */
size_t oc_tk_put_utf8(uint32_t c, char out[4]);
/* Bytes from s[i] on that are valid UTF-8, and then in *bad the length of the maximal part that is
 * to become one U+FFFD (0 at the end). */
size_t oc_tk_valid(const char *s, size_t n, size_t *bad);
/* Append s with U+FFFD for what is not UTF-8. */
OC_NODISCARD oc_status oc_tk_repair(oc_tk_text *out, oc_tk_view *in);
bool oc_tk_is_space(uint32_t c); /* White_Space */
bool oc_tk_is_word(uint32_t c);  /* \w of Unicode's regular expressions: UTS 18 */

/* --- Regular expressions (regex.c) */

typedef struct oc_tk_regex oc_tk_regex;
typedef struct oc_tk_matcher oc_tk_matcher; /* working memory of a thread */

/* The pattern is in Oniguruma's syntax, n bytes. What would mean something else here is refused. */
OC_NODISCARD oc_status oc_tk_regex_new(oc_tk_regex **out, const char *pattern, size_t n,
                                       const char *where, oc_error *err);
void oc_tk_regex_free(oc_tk_regex *r);
uint64_t oc_tk_regex_bytes(const oc_tk_regex *r);
void oc_tk_matcher_free(oc_tk_matcher *m);

/* Where a pattern matches, in the order of the text: call until it returns OC_E_NOTFOUND. */
typedef struct oc_tk_search {
    const oc_tk_regex *regex; /* NULL: the literal */
    const char *literal;
    size_t literal_n;
    const char *s;
    size_t n, at, last_end; /* last_end SIZE_MAX: no match yet */
} oc_tk_search;

OC_NODISCARD oc_status oc_tk_search_next(oc_tk_search *f, oc_tk_matcher **m, size_t *begin,
                                         size_t *end, oc_error *err);

/* A pattern of tokenizer.json: {"String": ...} or {"Regex": ...}. */
typedef struct oc_tk_pattern {
    oc_tk_regex *regex;
    char *literal;
    size_t n;
} oc_tk_pattern;

OC_NODISCARD oc_status oc_tk_pattern_read(oc_tk_pattern *out, const json_t *value,
                                          const char *where, oc_error *err);
void oc_tk_pattern_release(oc_tk_pattern *p);
uint64_t oc_tk_pattern_bytes(const oc_tk_pattern *p);
oc_tk_search oc_tk_pattern_search(const oc_tk_pattern *p, const char *s, size_t n);

/* --- Reading components (component.c) */

typedef struct oc_tk_component {
    const json_t *o;
    const char *type;
} oc_tk_component;

/* A string that has no U+0000 in it, as a C string; anything else is NULL. */
const char *oc_tk_plain(const json_t *v);

typedef oc_status oc_tk_component_fn(void *arg, const oc_tk_component *c, const char *where,
                                     oc_error *err);
/* Calls fn for every component, those inside a Sequence (whose list has the key `list`) in order;
 * null: none. `where` names file and section in messages. */
OC_NODISCARD oc_status oc_tk_components(const json_t *o, const char *list, const char *where,
                                        oc_tk_component_fn *fn, void *arg, oc_error *err);
/* Fails on a key of the component that is not in the list. */
OC_NODISCARD oc_status oc_tk_component_keys(const oc_tk_component *c, const char *where,
                                            const char *const *known, size_t n, oc_error *err);
/* A required string; *text is borrowed and may hold U+0000. */
OC_NODISCARD oc_status oc_tk_component_text(const oc_tk_component *c, const char *where,
                                            const char *key, const char **text, size_t *n,
                                            oc_error *err);
/* The same, of exactly one code point. */
OC_NODISCARD oc_status oc_tk_component_char(const oc_tk_component *c, const char *where,
                                            const char *key, const char **text, size_t *n,
                                            oc_error *err);
OC_NODISCARD oc_status oc_tk_unsupported(const oc_tk_component *c, const char *where,
                                         const char *known, oc_error *err);

/* --- Unicode normalization (unicode.c) */

typedef enum oc_tk_form { OC_TK_NFC, OC_TK_NFD, OC_TK_NFKC, OC_TK_NFKD } oc_tk_form;

typedef struct oc_tk_unicode oc_tk_unicode;

OC_NODISCARD oc_status oc_tk_unicode_new(oc_tk_unicode **out, oc_tk_form form);
void oc_tk_unicode_free(oc_tk_unicode *u);
uint64_t oc_tk_unicode_bytes(const oc_tk_unicode *u);
/* Bytes at the start of s that stay as they are whatever follows. */
size_t oc_tk_unicode_plain(const oc_tk_unicode *u, const char *s, size_t n);
OC_NODISCARD oc_status oc_tk_unicode_apply(const oc_tk_unicode *u, oc_tk_view *in, oc_tk_text *out);
bool oc_tk_is_mark(uint32_t c);        /* what StripAccents removes */
bool oc_tk_is_punctuation(uint32_t c); /* ASCII's, and general category P */
bool oc_tk_is_numeric(uint32_t c);     /* general category N */
/* Of a code point, at most 2 of them; returns how many. */
int oc_tk_lower(uint32_t c, uint32_t out[2]);

/* --- Normalizer (normalize.c) */

typedef struct oc_tk_normalizer oc_tk_normalizer;

/* *out NULL: there is none. */
OC_NODISCARD oc_status oc_tk_normalizer_new(oc_tk_normalizer **out, const json_t *o,
                                            const char *origin, oc_error *err);
void oc_tk_normalizer_free(oc_tk_normalizer *z);
uint64_t oc_tk_normalizer_bytes(const oc_tk_normalizer *z);
/* The view becomes one of text[0] or text[1], or stays as it is. */
OC_NODISCARD oc_status oc_tk_normalize(const oc_tk_normalizer *z, oc_tk_view *v, oc_tk_text text[2],
                                       oc_tk_matcher **m, oc_error *err);

/* --- Pre-tokenizer (split.c) */

typedef struct oc_tk_splitter oc_tk_splitter;

OC_NODISCARD oc_status oc_tk_splitter_new(oc_tk_splitter **out, const json_t *o, const char *origin,
                                          oc_error *err);
void oc_tk_splitter_free(oc_tk_splitter *z);
uint64_t oc_tk_splitter_bytes(const oc_tk_splitter *z);
/* Whether its last step is ByteLevel. Then, when `raw` was said, words are the bytes themselves and
 * not the symbols that stand for them. */
bool oc_tk_splitter_ends_in_bytes(const oc_tk_splitter *z);
void oc_tk_splitter_set_raw(oc_tk_splitter *z, bool raw);
/* Words of a view, as pieces of *v, which may become a view of one of the texts. */
OC_NODISCARD oc_status oc_tk_split(const oc_tk_splitter *z, oc_tk_view *v, oc_tk_text text[2],
                                   oc_tk_pieces pieces[2], const oc_tk_pieces **words,
                                   oc_tk_matcher **m, oc_error *err);
/* GPT-2's symbols of bytes: of each its code point, all below U+0144. */
void oc_tk_byte_symbols(uint32_t out[256]);

/* --- Vocabulary (vocab.c) */

typedef struct oc_tk_vocab {
    char *pool;
    uint32_t *at, *length; /* per id; length UINT32_MAX: no such id */
    uint32_t *slots;       /* id + 1, by the hash of its text */
    uint32_t mask;
    int32_t size; /* largest id + 1 */
    int32_t count;
    size_t pool_bytes;
} oc_tk_vocab;

uint64_t oc_tk_hash(const char *s, size_t n);
/* Entries are (at, length, id) in a pool that becomes the vocabulary's, also on failure. */
OC_NODISCARD oc_status oc_tk_vocab_init(oc_tk_vocab *v, char *pool, size_t pool_bytes,
                                        const uint32_t (*entries)[3], size_t n, const char *where,
                                        oc_error *err);
void oc_tk_vocab_release(oc_tk_vocab *v);
uint64_t oc_tk_vocab_bytes(const oc_tk_vocab *v);
int32_t oc_tk_vocab_find(const oc_tk_vocab *v, const char *s, size_t n); /* -1: none */
/* NULL: no such id. */
const char *oc_tk_vocab_text(const oc_tk_vocab *v, int32_t id, size_t *n);

/* --- Model (model.c, bpe.c) */

/* Two neighbours, of the pair of lowest rank, become `id`. rank UINT32_MAX: an empty slot. */
typedef struct oc_tk_merge {
    uint32_t left, right, rank, id;
} oc_tk_merge;

typedef struct oc_tk_model {
    oc_tk_vocab vocab;
    oc_tk_vocab raw; /* byte level with ignore_merges: the same ids by bytes */
    oc_tk_merge *merges;
    uint32_t merges_mask;
    bool byte_level; /* words are raw bytes */
    bool byte_fallback, fuse_unk, ignore_merges, has_raw;
    int32_t unk;           /* -1: no unk_token, -2: it is not in the vocabulary */
    int32_t byte_ids[256]; /* of a byte's symbol (byte level) or of "<0xXX>"; -1: none */
    bool all_bytes;
    int32_t *char_ids; /* of code points below 0x10000, when not byte level; -1: none */
    uint64_t *joins;   /* pairs of code points that stand side by side in a merged token, + 1 */
    uint64_t joins_mask;
    bool cut; /* words fall apart at pairs that are no joins */
} oc_tk_model;

/* Where "vocab" and "merges" lie in the text of the file. */
typedef struct oc_tk_slices {
    const char *text;
    size_t n;
    oc_tk_piece vocab, merges;
} oc_tk_slices;

OC_NODISCARD oc_status oc_tk_model_init(oc_tk_model *m, const json_t *o, const oc_tk_slices *x,
                                        bool bytes_last, const char *origin, oc_error *err);
void oc_tk_model_release(oc_tk_model *m);
uint64_t oc_tk_model_bytes(const oc_tk_model *m);
const oc_tk_merge *oc_tk_model_merge(const oc_tk_model *m, uint32_t left, uint32_t right);
bool oc_tk_model_joins(const oc_tk_model *m, uint32_t a, uint32_t b);
/* Of a code point's UTF-8; -1: none. */
int32_t oc_tk_model_char(const oc_tk_model *m, uint32_t c, const char *s, size_t n);

typedef struct oc_tk_token {
    int32_t id;
    uint32_t at; /* byte of the word where it begins */
} oc_tk_token;

typedef struct oc_tk_tokens {
    oc_tk_token *t;
    size_t n, room;
} oc_tk_tokens;

typedef struct oc_tk_bpe oc_tk_bpe; /* working memory and the cache of words */

void oc_tk_bpe_free(oc_tk_bpe *b);
void oc_tk_bpe_forget(oc_tk_bpe *b); /* the words of another tokenizer */
/* Tokens of a word; *out is valid until the next call. */
OC_NODISCARD oc_status oc_tk_bpe_word(const oc_tk_model *m, oc_tk_bpe **b, const char *s, size_t n,
                                      const oc_tk_token **out, size_t *count, oc_error *err);
/* Symbols looked at since the start, for tests: it must grow linearly with the text. */
uint64_t oc_tk_bpe_work(const oc_tk_bpe *b);
/* How far a word may be cut from the rest of a text without changing its tokens. */
size_t oc_tk_bpe_cut(const oc_tk_model *m, const char *s, size_t n);

/* --- Added tokens (added.c) */

typedef struct oc_tk_added {
    char *text;
    char *shown; /* what it is decoded to: its normalized text; NULL: its text */
    uint32_t n, shown_n;
    int32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
} oc_tk_added;

typedef struct oc_tk_trie {
    uint64_t *keys; /* (node << 8 | byte) + 1; 0: an empty slot */
    uint32_t *children, mask;
    int32_t *ends; /* per node: index of the token that ends there, or -1 */
    uint64_t ends_room;
    uint32_t nodes;
    uint32_t first[256]; /* child of the root, 0: none */
    int firsts, only;    /* how many there are; the byte of the one there is, or -1 */
} oc_tk_trie;

typedef struct oc_tk_by_id {
    int32_t id, index;
} oc_tk_by_id;

typedef struct oc_tk_added_set {
    oc_tk_added *tokens;
    size_t room;
    int32_t n;
    int32_t size;          /* largest id + 1 */
    oc_tk_by_id *by_id;    /* sorted */
    uint32_t *slots, mask; /* index + 1, by the hash of the text */
    oc_tk_trie raw, normalized;
} oc_tk_added_set;

OC_NODISCARD oc_status oc_tk_added_init(oc_tk_added_set *a, const json_t *list,
                                        const oc_tk_vocab *vocab, const oc_tk_normalizer *z,
                                        const char *origin, oc_error *err);
void oc_tk_added_release(oc_tk_added_set *a);
uint64_t oc_tk_added_bytes(const oc_tk_added_set *a);
const oc_tk_added *oc_tk_added_by_id(const oc_tk_added_set *a, int32_t id);
const oc_tk_added *oc_tk_added_by_text(const oc_tk_added_set *a, const char *s, size_t n);

typedef struct oc_tk_scan {
    const char *s;
    size_t n, at, covered;
    oc_tk_piece spaces; /* a run of white space whose end is known */
    uint64_t work;      /* bytes looked at */
} oc_tk_scan;

/* The next added token; false: no more. */
bool oc_tk_added_next(const oc_tk_added_set *a, const oc_tk_trie *x, oc_tk_scan *scan,
                      oc_tk_piece *where, int32_t *id);

/* --- Post-processor, decoder (post.c, decode.c) */

typedef struct oc_tk_post {
    int32_t *before, *after;
    size_t n_before, n_after;
} oc_tk_post;

OC_NODISCARD oc_status oc_tk_post_init(oc_tk_post *p, const json_t *o, const char *origin,
                                       oc_error *err);
void oc_tk_post_release(oc_tk_post *p);
uint64_t oc_tk_post_bytes(const oc_tk_post *p);

typedef struct oc_tk_decoder oc_tk_decoder;

OC_NODISCARD oc_status oc_tk_decoder_new(oc_tk_decoder **out, const json_t *o, const char *origin,
                                         oc_error *err);
void oc_tk_decoder_free(oc_tk_decoder *d);
uint64_t oc_tk_decoder_bytes(const oc_tk_decoder *d);

/* --- The whole */

typedef struct oc_tk_config {
    char *bos, *eos, *pad;                         /* NULL: not named; "": none */
    char *chat, *tool_chat;                        /* templates: the default, and "tool_use" */
    const char *class_bos, *class_eos, *class_pad; /* where not named, and there is such a token */
} oc_tk_config;

/* The files beside tokenizer.json; json NULL: not there. */
typedef struct oc_tk_json_text {
    const char *json;
    size_t n;
} oc_tk_json_text;
typedef struct oc_tk_beside {
    oc_tk_json_text config, map, model; /* tokenizer_config, special_tokens_map (wins), config */
} oc_tk_beside;

/* As the reference library reads them: what tokenizer_class or else model_type stands for has
 * special tokens of its own where none are named, as gpt2's <|endoftext|>. */
OC_NODISCARD oc_status oc_tk_config_read(oc_tk_config *c, const oc_tk_beside *beside,
                                         const char *origin, oc_error *err);
void oc_tk_config_release(oc_tk_config *c);

struct oc_tokenizer {
    bool bytes; /* the built-in one; then only ids and config are used */
    int32_t vocab, bos, eos, pad;
    char *origin;     /* its file, for messages; NULL: the built-in one */
    uint64_t content; /* a hash of what it was made of: equal ones share cached words */
    oc_tk_config config;
    oc_tk_normalizer *normalizer;
    oc_tk_splitter *splitter;
    oc_tk_model model;
    oc_tk_added_set added;
    oc_tk_post post;
    oc_tk_decoder *decoder;
};

/* Fills what tokenizer.json says of *t, which is zero; on failure it may be left half filled. */
OC_NODISCARD oc_status oc_tk_json_read(oc_tokenizer *t, const char *json, size_t n,
                                       const char *origin, oc_error *err);
/* Whether the text is a tokenizer.json that oc_tokenizer_save() wrote. */
OC_NODISCARD oc_status oc_tk_json_is_bytes(const char *json, size_t n, bool *same, oc_error *err);

OC_NODISCARD oc_status oc_tokens_reserve(oc_tokens *t, size_t n);
/* The byte tokenizer: fills *t, which is zero but for its config; texts of ids below
 * OC_BYTES_FIRST. */
void oc_tk_bytes_init(oc_tokenizer *t);
extern const char *const oc_tk_bytes_specials[OC_BYTES_FIRST];
OC_NODISCARD oc_status oc_tk_bytes_encode(const char *text, size_t n, oc_special special,
                                          oc_tokens *out);
/* Append the bytes of ids, which may be no UTF-8. */
OC_NODISCARD oc_status oc_tk_bytes_text(const int32_t *ids, size_t n, bool skip, oc_tk_bytes *out);
int32_t oc_tk_bytes_find(const char *s, size_t n);
/* For tests: what the last encodings with *t looked at, in bytes and symbols. */
uint64_t oc_tk_work(const oc_tokens *t);

#endif
