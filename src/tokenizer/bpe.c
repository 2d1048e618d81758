/* Byte pair encoding of one word: the neighbours of lowest rank become one, the leftmost first,
 * until no pair is left.
 *
 * Short words are scanned for their lowest rank each time; long ones keep a heap. What a short word
 * became is remembered. */
#include "tokenizer/internal.h"

#include <stdlib.h>
#include <string.h>

enum {
    SCAN_MOST = 24,        /* symbols of a word that is scanned */
    CACHED_MOST = 64,      /* bytes of a word that is remembered */
    CACHE_SLOTS = 1 << 16, /* at most half of them are used, then all is forgotten */
    CACHE_TEXT = 1 << 20,
    CACHE_TOKENS = 1 << 18
};

/* A symbol of the word; dead ones have id NONE. Links are indices; NONE: no neighbour. */
#define NONE UINT32_MAX
typedef struct symbol {
    uint32_t id, at, previous, next;
} symbol;

typedef struct cached {
    uint64_t hash; /* 0: an empty slot */
    uint32_t text, tokens;
    uint16_t n, n_tokens;
} cached;

struct oc_tk_bpe {
    symbol *symbols;
    size_t n, room;
    uint64_t *heap; /* rank << 32 | position */
    size_t heap_n, heap_room;
    oc_tk_tokens out;
    cached *slots;
    char *text;
    oc_tk_token *tokens;
    uint32_t used, text_n, tokens_n;
    uint64_t work;
};

void oc_tk_bpe_free(oc_tk_bpe *b) {
    if (b == NULL) return;
    free(b->symbols);
    free(b->heap);
    free(b->out.t);
    free(b->slots);
    free(b->text);
    free(b->tokens);
    free(b);
}

void oc_tk_bpe_forget(oc_tk_bpe *b) {
    if (b == NULL) return;
    memset(b->slots, 0, CACHE_SLOTS * sizeof *b->slots);
    b->used = b->text_n = b->tokens_n = 0;
}

uint64_t oc_tk_bpe_work(const oc_tk_bpe *b) { return b == NULL ? 0 : b->work; }

static oc_status make(oc_tk_bpe **out) {
    oc_tk_bpe *b = calloc(1, sizeof *b);
    if (b == NULL) return OC_E_MEMORY;
    b->slots = calloc(CACHE_SLOTS, sizeof *b->slots);
    b->text = malloc(CACHE_TEXT);
    b->tokens = malloc(CACHE_TOKENS * sizeof *b->tokens);
    if (b->slots == NULL || b->text == NULL || b->tokens == NULL) {
        oc_tk_bpe_free(b);
        return OC_E_MEMORY;
    }
    *out = b;
    return OC_OK;
}

/* --- From characters to symbols */

typedef struct unknown {
    bool is;
    uint32_t at;
} unknown;

static oc_status push(oc_tk_bpe *b, int32_t id, size_t at) {
    if (b->n == b->room) {
        void *p = b->symbols;
        OC_TRY(oc_tk_grow(&p, &b->room, b->n + 1, sizeof *b->symbols));
        b->symbols = p;
    }
    b->symbols[b->n++] = (symbol){.id = (uint32_t)id, .at = (uint32_t)at};
    return OC_OK;
}

/* An unknown character waits, since the next ones may join it. */
static oc_status put_unknown(const oc_tk_model *m, oc_tk_bpe *b, unknown *u, size_t at,
                             oc_error *err) {
    if (m->unk == -1) return OC_OK; /* it leaves no token */
    if (m->unk < 0)
        return oc_fail(err, OC_E_INVALID,
                       "a character is not in the vocabulary, and neither is the \"unk_token\"");
    if (u->is && m->fuse_unk) return OC_OK;
    if (u->is) OC_TRY(push(b, m->unk, u->at));
    *u = (unknown){true, (uint32_t)at};
    return OC_OK;
}

/* Where byte tokens are used, the reference library does not first write the unknown ones that
 * wait. */
static oc_status put_bytes(const oc_tk_model *m, oc_tk_bpe *b, const char *s, size_t begin,
                           size_t end, bool *done) {
    *done = false;
    for (size_t i = begin; i < end; i++)
        if (m->byte_ids[(unsigned char)s[i]] < 0) return OC_OK;
    for (size_t i = begin; i < end; i++)
        OC_TRY(push(b, m->byte_ids[(unsigned char)s[i]], i));
    *done = true;
    return OC_OK;
}

static oc_status read_symbols(const oc_tk_model *m, oc_tk_bpe *b, const char *s, size_t n,
                              oc_error *err) {
    unknown u = {0};
    b->n = 0;
    for (size_t i = 0; i < n;) {
        size_t begin = i;
        int32_t id;
        if (m->byte_level) {
            id = m->byte_ids[(unsigned char)s[i++]];
        } else {
            uint32_t c = oc_tk_next(s, &i);
            id = oc_tk_model_char(m, c, s + begin, i - begin);
        }
        if (id < 0 && m->byte_fallback) {
            bool done;
            OC_TRY(put_bytes(m, b, s, begin, i, &done));
            if (done) continue;
        }
        if (id < 0) {
            OC_TRY(put_unknown(m, b, &u, begin, err));
            continue;
        }
        if (u.is) OC_TRY(push(b, m->unk, u.at));
        u.is = false;
        OC_TRY(push(b, id, begin));
    }
    if (u.is) OC_TRY(push(b, m->unk, u.at));
    b->work += b->n;
    return OC_OK;
}

/* --- Merging */

static uint32_t rank_of(const oc_tk_model *m, const symbol *a, const symbol *b) {
    const oc_tk_merge *e = oc_tk_model_merge(m, a->id, b->id);
    return e == NULL ? NONE : e->rank;
}

static void merge_by_scanning(const oc_tk_model *m, oc_tk_bpe *b) {
    uint32_t rank[SCAN_MOST];
    symbol *y = b->symbols;
    size_t n = b->n;
    for (size_t i = 0; i + 1 < n; i++)
        rank[i] = rank_of(m, &y[i], &y[i + 1]);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best]) best = i;
        b->work += n;
        if (rank[best] == NONE) break;
        y[best].id = oc_tk_model_merge(m, y[best].id, y[best + 1].id)->id;
        memmove(&y[best + 1], &y[best + 2], (n - best - 2) * sizeof *y);
        if (n - best > 2) memmove(&rank[best], &rank[best + 1], (n - best - 2) * sizeof *rank);
        n--;
        if (best > 0) rank[best - 1] = rank_of(m, &y[best - 1], &y[best]);
        if (best + 1 < n) rank[best] = rank_of(m, &y[best], &y[best + 1]);
    }
    b->n = n;
}

static void sink(oc_tk_bpe *b, size_t i) {
    uint64_t key = b->heap[i];
    for (;;) {
        size_t child = 4 * i + 1, best = child;
        if (child >= b->heap_n) break;
        for (size_t k = child + 1; k < child + 4 && k < b->heap_n; k++)
            if (b->heap[k] < b->heap[best]) best = k;
        b->work++;
        if (b->heap[best] >= key) break;
        b->heap[i] = b->heap[best];
        i = best;
    }
    b->heap[i] = key;
}

static uint64_t pop(oc_tk_bpe *b) {
    uint64_t top = b->heap[0];
    b->heap[0] = b->heap[--b->heap_n];
    if (b->heap_n > 0) sink(b, 0);
    return top;
}

static void offer(oc_tk_bpe *b, uint32_t rank, uint32_t at) {
    if (rank == NONE) return;
    uint64_t key = (uint64_t)rank << 32 | at;
    size_t i = b->heap_n++;
    while (i > 0 && b->heap[(i - 1) / 4] > key) {
        b->heap[i] = b->heap[(i - 1) / 4];
        i = (i - 1) / 4;
        b->work++;
    }
    b->heap[i] = key;
}

/* Every merge removes a pair and offers at most two: 2n entries at a time suffice. */
static oc_status fill_heap(const oc_tk_model *m, oc_tk_bpe *b) {
    void *p = b->heap;
    OC_TRY(oc_tk_grow(&p, &b->heap_room, 2 * b->n, sizeof *b->heap));
    b->heap = p;
    b->heap_n = 0;
    for (size_t i = 0; i < b->n; i++) {
        symbol *y = &b->symbols[i];
        y->previous = i == 0 ? NONE : (uint32_t)i - 1;
        y->next = i + 1 == b->n ? NONE : (uint32_t)i + 1;
        if (y->next == NONE) break;
        uint32_t rank = rank_of(m, y, y + 1);
        if (rank != NONE) b->heap[b->heap_n++] = (uint64_t)rank << 32 | i;
    }
    for (size_t i = b->heap_n / 4 + 1; i-- > 0;)
        if (i < b->heap_n) sink(b, i);
    return OC_OK;
}

static oc_status merge_by_heap(const oc_tk_model *m, oc_tk_bpe *b) {
    OC_TRY(fill_heap(m, b));
    symbol *y = b->symbols;
    while (b->heap_n > 0) {
        uint64_t top = pop(b);
        uint32_t at = (uint32_t)top, next = y[at].id == NONE ? NONE : y[at].next;
        b->work++;
        if (next == NONE) continue;
        const oc_tk_merge *e = oc_tk_model_merge(m, y[at].id, y[next].id);
        if (e == NULL || e->rank != (uint32_t)(top >> 32)) continue; /* the pair is gone */
        y[at].id = e->id;
        y[next].id = NONE;
        y[at].next = y[next].next;
        if (y[at].next != NONE) {
            y[y[at].next].previous = at;
            offer(b, rank_of(m, &y[at], &y[y[at].next]), at);
        }
        if (y[at].previous != NONE)
            offer(b, rank_of(m, &y[y[at].previous], &y[at]), y[at].previous);
    }
    size_t kept = 0;
    for (size_t i = 0; i < b->n; i++)
        if (y[i].id != NONE) y[kept++] = y[i];
    b->n = kept;
    return OC_OK;
}

/* --- Remembering */

static cached *find(const oc_tk_bpe *b, const char *s, size_t n, uint64_t hash) {
    for (uint32_t i = (uint32_t)hash & (CACHE_SLOTS - 1);; i = (i + 1) & (CACHE_SLOTS - 1)) {
        cached *c = &b->slots[i];
        if (c->hash == 0) return c;
        if (c->hash == hash && c->n == n && memcmp(b->text + c->text, s, n) == 0) return c;
    }
}

static void remember(oc_tk_bpe *b, const char *s, size_t n, uint64_t hash) {
    if (b->used == CACHE_SLOTS / 2 || b->text_n + n > CACHE_TEXT ||
        b->tokens_n + b->out.n > CACHE_TOKENS)
        oc_tk_bpe_forget(b);
    cached *c = find(b, s, n, hash);
    *c = (cached){.hash = hash,
                  .text = b->text_n,
                  .tokens = b->tokens_n,
                  .n = (uint16_t)n,
                  .n_tokens = (uint16_t)b->out.n};
    memcpy(b->text + b->text_n, s, n);
    if (b->out.n > 0) memcpy(b->tokens + b->tokens_n, b->out.t, b->out.n * sizeof *b->tokens);
    b->text_n += (uint32_t)n;
    b->tokens_n += (uint32_t)b->out.n;
    b->used++;
}

static oc_status give(oc_tk_bpe *b) {
    void *p = b->out.t;
    OC_TRY(oc_tk_grow(&p, &b->out.room, b->n, sizeof *b->out.t));
    b->out.t = p;
    for (size_t i = 0; i < b->n; i++)
        b->out.t[i] = (oc_tk_token){(int32_t)b->symbols[i].id, b->symbols[i].at};
    b->out.n = b->n;
    return OC_OK;
}

static int32_t whole(const oc_tk_model *m, const char *s, size_t n) {
    if (!m->ignore_merges) return -1;
    return oc_tk_vocab_find(m->byte_level ? &m->raw : &m->vocab, s, n);
}

static oc_status encode(const oc_tk_model *m, oc_tk_bpe *b, const char *s, size_t n,
                        oc_error *err) {
    int32_t id = whole(m, s, n);
    if (id >= 0) {
        b->n = 0;
        OC_TRY(push(b, id, 0));
        return give(b);
    }
    OC_TRY(read_symbols(m, b, s, n, err));
    if (b->n <= SCAN_MOST)
        merge_by_scanning(m, b);
    else
        OC_TRY(merge_by_heap(m, b));
    return give(b);
}

oc_status oc_tk_bpe_word(const oc_tk_model *m, oc_tk_bpe **at, const char *s, size_t n,
                         const oc_tk_token **out, size_t *count, oc_error *err) {
    if (*at == NULL) OC_TRY(make(at));
    oc_tk_bpe *b = *at;
    uint64_t hash = 0;
    if (n >= UINT32_MAX / 2)
        return oc_fail(err, OC_E_UNSUPPORTED, "a word of %zu bytes is too long", n);
    if (n <= CACHED_MOST) {
        hash = oc_tk_hash(s, n) | 1;
        const cached *c = find(b, s, n, hash);
        if (c->hash != 0) {
            *out = b->tokens + c->tokens;
            *count = c->n_tokens;
            return OC_OK;
        }
    }
    OC_TRY(encode(m, b, s, n, err));
    if (n <= CACHED_MOST) remember(b, s, n, hash);
    *out = b->out.t;
    *count = b->out.n;
    return OC_OK;
}

static bool is_unknown(const oc_tk_model *m, const char *s, size_t begin, size_t end) {
    size_t i = begin;
    return oc_tk_model_char(m, oc_tk_next(s, &i), s + begin, end - begin) < 0;
}

/* Whether characters [a, b) and [b, c) that do not join may be parted. Unknown ones may fuse with
 * each other; where they leave no token, what stands around them may join. */
static bool parts(const oc_tk_model *m, const char *s, size_t a, size_t b, size_t c) {
    if (m->byte_fallback && m->all_bytes) return true;
    if (m->unk != -1 && !m->fuse_unk) return true;
    bool left = is_unknown(m, s, a, b), right = is_unknown(m, s, b, c);
    return m->unk == -1 ? !left && !right : !left || !right;
}

size_t oc_tk_bpe_cut(const oc_tk_model *m, const char *s, size_t n) {
    size_t i = 0, at = 0;
    if (!m->cut || n == 0) return n;
    uint32_t c = oc_tk_next(s, &i);
    while (i < n) {
        size_t begin = i;
        uint32_t d = oc_tk_next(s, &i);
        if (!oc_tk_model_joins(m, c, d) && parts(m, s, at, begin, i)) return begin;
        c = d;
        at = begin;
    }
    return n;
}
