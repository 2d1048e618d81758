/* The model of a tokenizer.json: BPE's vocabulary and merges, as tables. */
#include "base/heap.h"
#include "base/json.h"
#include "tokenizer/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHAR_IDS = 0x10000 };

/* What a load needs besides the model. */
typedef struct loader {
    oc_tk_model *m;
    oc_tk_reader r;
    const char *where;
    oc_error *err;
    oc_tk_bytes text; /* of the merge being read */
    uint32_t rank;
    bool touches_special; /* a merge has "<0xXX>" or the unknown token as a part */
} loader;

static oc_status out_of_memory(loader *l) {
    return oc_fail(l->err, OC_E_MEMORY, "%s: no memory for it", l->where);
}

/* --- Vocabulary */

typedef struct entries {
    uint32_t (*e)[3];
    size_t n, room;
} entries;

static oc_status read_entry(loader *l, oc_tk_bytes *pool, entries *x) {
    size_t begin = pool->n;
    uint32_t id;
    OC_TRY(oc_tk_reader_string(&l->r, pool));
    OC_TRY(oc_tk_reader_take(&l->r, ':'));
    OC_TRY(oc_tk_reader_id(&l->r, &id));
    void *at = x->e;
    if (pool->n > UINT32_MAX || oc_tk_grow(&at, &x->room, x->n + 1, sizeof *x->e) != OC_OK)
        return out_of_memory(l);
    x->e = at;
    uint32_t *e = x->e[x->n++];
    e[0] = (uint32_t)begin;
    e[1] = (uint32_t)(pool->n - begin);
    e[2] = id;
    return OC_OK;
}

static oc_status read_entries(loader *l, oc_tk_bytes *pool, entries *x) {
    OC_TRY(oc_tk_reader_take(&l->r, '{'));
    if (oc_tk_reader_accept(&l->r, '}')) return OC_OK;
    do
        OC_TRY(read_entry(l, pool, x));
    while (oc_tk_reader_accept(&l->r, ','));
    return oc_tk_reader_take(&l->r, '}');
}

static oc_status read_vocab(loader *l, const oc_tk_slices *x) {
    oc_tk_bytes pool = {0};
    entries all = {0};
    l->r.at = x->vocab.begin;
    l->r.n = x->vocab.end;
    oc_status s = read_entries(l, &pool, &all);
    if (s == OC_OK) {
        char *exact = realloc(pool.s, pool.n + 1);
        if (exact != NULL) pool.s = exact;
        s = oc_tk_vocab_init(&l->m->vocab, pool.s, pool.n, (const uint32_t(*)[3])all.e, all.n,
                             l->where, l->err);
        pool.s = NULL;
    }
    free(pool.s);
    free(all.e);
    return s;
}

/* --- Merges */

static uint64_t pair_hash(uint32_t a, uint32_t b) {
    uint64_t h = ((uint64_t)a << 32 | b) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

const oc_tk_merge *oc_tk_model_merge(const oc_tk_model *m, uint32_t left, uint32_t right) {
    uint32_t i = (uint32_t)pair_hash(left, right) & m->merges_mask;
    for (;; i = (i + 1) & m->merges_mask) {
        const oc_tk_merge *e = &m->merges[i];
        if (e->rank == UINT32_MAX) return NULL;
        if (e->left == left && e->right == right) return e;
    }
}

static oc_status reserve_merges(loader *l, size_t n) {
    size_t slots = 16;
    while (slots < 2 * n)
        slots *= 2;
    if (slots > UINT32_MAX / 2) return out_of_memory(l);
    l->m->merges = malloc(slots * sizeof *l->m->merges);
    if (l->m->merges == NULL) return out_of_memory(l);
    memset(l->m->merges, 0xff, slots * sizeof *l->m->merges);
    l->m->merges_mask = (uint32_t)slots - 1;
    return OC_OK;
}

/* As in the reference library, a pair that comes again takes its last rank. */
static void put_merge(oc_tk_model *m, oc_tk_merge e) {
    uint32_t i = (uint32_t)pair_hash(e.left, e.right) & m->merges_mask;
    while (m->merges[i].rank != UINT32_MAX &&
           (m->merges[i].left != e.left || m->merges[i].right != e.right))
        i = (i + 1) & m->merges_mask;
    m->merges[i] = e;
}

static bool is_byte_token(const char *s, size_t n) {
    return n == 6 && memcmp(s, "<0x", 3) == 0 && s[5] == '>';
}

/* l->text holds left and right one after the other. */
static oc_status add_merge(loader *l, size_t left) {
    const char *s = l->text.s;
    size_t n = l->text.n, right = n - left;
    int32_t a = oc_tk_vocab_find(&l->m->vocab, s, left);
    int32_t b = oc_tk_vocab_find(&l->m->vocab, s + left, right);
    int32_t c = oc_tk_vocab_find(&l->m->vocab, s, n);
    if (a < 0 || b < 0 || c < 0) {
        const char *lost = a < 0 || c < 0 ? s : s + left;
        size_t length = a < 0 ? left : b < 0 ? right : n;
        if (a >= 0 && b < 0) lost = s + left;
        return oc_fail(l->err, OC_E_FORMAT,
                       "%s: merge %zu needs the token \"%.*s\", which is not in \"vocab\"",
                       l->where, (size_t)l->rank, length > 60 ? 60 : (int)length, lost);
    }
    if (is_byte_token(s, left) || is_byte_token(s + left, right) || a == l->m->unk ||
        b == l->m->unk)
        l->touches_special = true;
    put_merge(l->m, (oc_tk_merge){(uint32_t)a, (uint32_t)b, l->rank, (uint32_t)c});
    l->rank++;
    return OC_OK;
}

static oc_status read_merge(loader *l) {
    l->text.n = 0;
    if (oc_tk_reader_accept(&l->r, '[')) {
        OC_TRY(oc_tk_reader_string(&l->r, &l->text));
        size_t left = l->text.n;
        OC_TRY(oc_tk_reader_take(&l->r, ','));
        OC_TRY(oc_tk_reader_string(&l->r, &l->text));
        OC_TRY(oc_tk_reader_take(&l->r, ']'));
        return add_merge(l, left);
    }
    OC_TRY(oc_tk_reader_string(&l->r, &l->text));
    if (l->text.n >= 8 && memcmp(l->text.s, "#version", 8) == 0) return OC_OK;
    char *space = l->text.n == 0 ? NULL : memchr(l->text.s, ' ', l->text.n);
    size_t left = space == NULL ? 0 : (size_t)(space - l->text.s);
    if (space == NULL || memchr(space + 1, ' ', l->text.n - left - 1) != NULL)
        return oc_tk_reader_fail(&l->r, "a merge must be two tokens with one space between");
    memmove(space, space + 1, l->text.n - left - 1);
    l->text.n--;
    return add_merge(l, left);
}

/* An upper bound: every merge holds a quote, and a pair holds one more comma. */
static size_t count_merges(const loader *l, const oc_tk_slices *x) {
    size_t quotes = 0;
    bool pairs = false;
    for (size_t i = x->merges.begin; i < x->merges.end; i++) {
        quotes += l->r.s[i] == '"';
        if (i > x->merges.begin && l->r.s[i] == '[') pairs = true;
    }
    return quotes / (pairs ? 4 : 2) + 1;
}

static oc_status read_merges(loader *l, const oc_tk_slices *x) {
    l->r.at = x->merges.begin;
    l->r.n = x->merges.end;
    size_t most = count_merges(l, x);
    OC_TRY(reserve_merges(l, most));
    OC_TRY(oc_tk_reader_take(&l->r, '['));
    if (oc_tk_reader_accept(&l->r, ']')) return OC_OK;
    size_t slots = (size_t)l->m->merges_mask + 1;
    do {
        if (l->rank + 1 >= slots)
            return oc_tk_reader_fail(&l->r, "\"merges\" mixes strings and pairs");
        OC_TRY(read_merge(l));
    } while (oc_tk_reader_accept(&l->r, ','));
    return oc_tk_reader_take(&l->r, ']');
}

/* --- Pairs of characters that some merge brings together */

static uint64_t join_key(uint32_t a, uint32_t b) { return ((uint64_t)a << 21 | b) + 1; }

static uint64_t *join_slot(const oc_tk_model *m, uint64_t key) {
    uint64_t h = key * 0x9e3779b97f4a7c15u, i = (h ^ h >> 32) & m->joins_mask;
    while (m->joins[i] != 0 && m->joins[i] != key)
        i = (i + 1) & m->joins_mask;
    return &m->joins[i];
}

bool oc_tk_model_joins(const oc_tk_model *m, uint32_t a, uint32_t b) {
    return *join_slot(m, join_key(a, b)) != 0;
}

static oc_status grow_joins(oc_tk_model *m) {
    uint64_t *old = m->joins, n = old == NULL ? 0 : m->joins_mask + 1, room = n == 0 ? 1024 : 2 * n;
    uint64_t *fresh = calloc(room, sizeof *fresh);
    if (fresh == NULL) return OC_E_MEMORY;
    m->joins = fresh;
    m->joins_mask = room - 1;
    for (uint64_t i = 0; i < n; i++)
        if (old[i] != 0) *join_slot(m, old[i]) = old[i];
    free(old);
    return OC_OK;
}

static oc_status add_joins(oc_tk_model *m, int32_t id, uint64_t *count) {
    size_t n, i = 0;
    const char *s = oc_tk_vocab_text(&m->vocab, id, &n);
    for (uint32_t before = 0; i < n;) {
        bool first = i == 0;
        uint32_t c = oc_tk_next(s, &i);
        if (!first) {
            uint64_t key = join_key(before, c), *at = join_slot(m, key);
            if (*at == 0) {
                *at = key;
                if (++*count * 2 > m->joins_mask) OC_TRY(grow_joins(m));
            }
        }
        before = c;
    }
    return OC_OK;
}

/* Words may be cut where no merge can reach across. That needs merges to be about what the text
 * says, and the order of unknown characters to be that of the text. */
static oc_status make_joins(loader *l) {
    oc_tk_model *m = l->m;
    uint64_t count = 0;
    if (grow_joins(m) != OC_OK) return out_of_memory(l);
    m->cut = !l->touches_special && !m->ignore_merges &&
             (!m->byte_fallback || m->all_bytes || m->unk == -1);
    if (!m->cut) return OC_OK;
    uint8_t *seen = calloc((size_t)m->vocab.size + 1, 1);
    if (seen == NULL) return out_of_memory(l);
    oc_status s = OC_OK;
    for (uint64_t i = 0; i <= m->merges_mask && s == OC_OK; i++) {
        const oc_tk_merge *e = &m->merges[i];
        if (e->rank == UINT32_MAX || seen[e->id]) continue;
        seen[e->id] = 1;
        s = add_joins(m, (int32_t)e->id, &count);
    }
    free(seen);
    return s == OC_OK ? OC_OK : out_of_memory(l);
}

/* --- Ids of characters and bytes */

static oc_status make_char_ids(loader *l) {
    oc_tk_model *m = l->m;
    m->char_ids = malloc(CHAR_IDS * sizeof *m->char_ids);
    if (m->char_ids == NULL) return out_of_memory(l);
    for (uint32_t c = 0; c < CHAR_IDS; c++) {
        char utf8[4];
        size_t n = oc_tk_put_utf8(c, utf8);
        m->char_ids[c] = oc_tk_vocab_find(&m->vocab, utf8, n);
    }
    return OC_OK;
}

int32_t oc_tk_model_char(const oc_tk_model *m, uint32_t c, const char *s, size_t n) {
    return c < CHAR_IDS ? m->char_ids[c] : oc_tk_vocab_find(&m->vocab, s, n);
}

static void make_byte_ids(oc_tk_model *m) {
    uint32_t symbols[256];
    oc_tk_byte_symbols(symbols);
    m->all_bytes = true;
    for (unsigned b = 0; b < 256; b++) {
        char text[8];
        size_t n = m->byte_level ? oc_tk_put_utf8(symbols[b], text)
                                 : (size_t)snprintf(text, sizeof text, "<0x%02X>", b);
        m->byte_ids[b] = oc_tk_vocab_find(&m->vocab, text, n);
        if (m->byte_ids[b] < 0) m->all_bytes = false;
    }
}

/* The bytes that a text of symbols stands for; SIZE_MAX when it holds another character. */
static size_t symbols_to_bytes(const uint8_t byte_of[0x144], const bool known[0x144], const char *s,
                               size_t n, char *out) {
    size_t k = 0;
    for (size_t i = 0; i < n;) {
        uint32_t c = oc_tk_next(s, &i);
        if (c >= 0x144 || !known[c]) return SIZE_MAX;
        out[k++] = (char)byte_of[c];
    }
    return k;
}

static oc_status make_raw(loader *l) {
    const oc_tk_vocab *v = &l->m->vocab;
    uint32_t symbols[256];
    uint8_t byte_of[0x144] = {0};
    bool known[0x144] = {false};
    oc_tk_byte_symbols(symbols);
    for (unsigned b = 0; b < 256; b++) {
        byte_of[symbols[b]] = (uint8_t)b;
        known[symbols[b]] = true;
    }
    char *pool = malloc(v->pool_bytes + 1);
    uint32_t(*e)[3] = malloc(((size_t)v->count + 1) * sizeof *e);
    size_t used = 0, count = 0, n;
    for (int32_t id = 0; pool != NULL && e != NULL && id < v->size; id++) {
        const char *s = oc_tk_vocab_text(v, id, &n);
        size_t k = s == NULL ? SIZE_MAX : symbols_to_bytes(byte_of, known, s, n, pool + used);
        if (k == SIZE_MAX) continue;
        e[count][0] = (uint32_t)used;
        e[count][1] = (uint32_t)k;
        e[count++][2] = (uint32_t)id;
        used += k;
    }
    oc_status s = OC_OK;
    if (pool == NULL || e == NULL) {
        free(pool);
        s = out_of_memory(l);
    } else {
        char *exact = realloc(pool, used + 1);
        if (exact != NULL) pool = exact;
        s = oc_tk_vocab_init(&l->m->raw, pool, used, (const uint32_t(*)[3])e, count, l->where,
                             l->err);
    }
    free(e);
    l->m->has_raw = s == OC_OK;
    return s;
}

/* --- The object */

static oc_status refuse_affix(loader *l, const json_t *o, const char *key) {
    const char *s = NULL;
    OC_TRY(oc_json_get_string(o, l->where, key, OC_JSON_OPTIONAL, &s, l->err));
    if (s == NULL || *s == 0) return OC_OK;
    return oc_fail(l->err, OC_E_UNSUPPORTED,
                   "%s: \"%s\" \"%s\" is not supported, only an empty one", l->where, key, s);
}

static oc_status read_flags(loader *l, const json_t *o) {
    oc_tk_model *m = l->m;
    double dropout = 0;
    OC_TRY(oc_json_get_double(o, l->where, "dropout", OC_JSON_OPTIONAL, &dropout, l->err));
    if (dropout != 0)
        return oc_fail(l->err, OC_E_UNSUPPORTED,
                       "%s: \"dropout\" %g is not supported: ids would be random", l->where,
                       dropout);
    OC_TRY(refuse_affix(l, o, "continuing_subword_prefix"));
    OC_TRY(refuse_affix(l, o, "end_of_word_suffix"));
    OC_TRY(oc_json_get_bool(o, l->where, "fuse_unk", OC_JSON_OPTIONAL, &m->fuse_unk, l->err));
    OC_TRY(oc_json_get_bool(o, l->where, "byte_fallback", OC_JSON_OPTIONAL, &m->byte_fallback,
                            l->err));
    return oc_json_get_bool(o, l->where, "ignore_merges", OC_JSON_OPTIONAL, &m->ignore_merges,
                            l->err);
}

static oc_status check_type(loader *l, const json_t *o) {
    static const char *const known[] = {"type",          "dropout",
                                        "unk_token",     "continuing_subword_prefix",
                                        "fuse_unk",      "end_of_word_suffix",
                                        "byte_fallback", "ignore_merges",
                                        "vocab",         "merges"};
    const char *type = "BPE";
    OC_TRY(oc_json_get_string(o, l->where, "type", OC_JSON_OPTIONAL, &type, l->err));
    if (strcmp(type, "BPE") != 0)
        return oc_fail(l->err, OC_E_UNSUPPORTED,
                       "%s: the type \"%s\" is not supported; known is BPE", l->where, type);
    return oc_json_check_keys(o, l->where, NULL, known, sizeof known / sizeof known[0], l->err);
}

static oc_status read_unknown(loader *l, const json_t *o) {
    const json_t *unk = json_object_get(o, "unk_token");
    l->m->unk = -1;
    if (unk == NULL || json_is_null(unk)) return OC_OK;
    if (!json_is_string(unk))
        return oc_fail(l->err, OC_E_FORMAT, "%s: \"unk_token\" must be a string or null", l->where);
    l->m->unk = oc_tk_vocab_find(&l->m->vocab, json_string_value(unk), json_string_length(unk));
    if (l->m->unk < 0) l->m->unk = -2;
    return OC_OK;
}

static oc_status load(loader *l, const json_t *o, const oc_tk_slices *x, bool bytes_last) {
    oc_tk_model *m = l->m;
    OC_TRY(check_type(l, o));
    if (x->vocab.end == 0 || x->merges.end == 0)
        return oc_fail(l->err, OC_E_FORMAT, "%s: the key \"%s\" is missing", l->where,
                       x->vocab.end == 0 ? "vocab" : "merges");
    OC_TRY(read_flags(l, o));
    m->byte_level = bytes_last && !m->byte_fallback;
    OC_TRY(read_vocab(l, x));
    OC_TRY(read_unknown(l, o));
    OC_TRY(read_merges(l, x));
    make_byte_ids(m);
    if (m->byte_level) return m->ignore_merges ? make_raw(l) : OC_OK;
    OC_TRY(make_char_ids(l));
    return make_joins(l);
}

oc_status oc_tk_model_init(oc_tk_model *m, const json_t *o, const oc_tk_slices *x, bool bytes_last,
                           const char *origin, oc_error *err) {
    char where[OC_ERROR_BYTES];
    snprintf(where, sizeof where, "%s: model", origin);
    *m = (oc_tk_model){.unk = -1};
    loader l = {
        .m = m, .r = {.s = x->text, .origin = origin, .err = err}, .where = where, .err = err};
    oc_status s = load(&l, o, x, bytes_last);
    free(l.text.s);
    return s;
}

void oc_tk_model_release(oc_tk_model *m) {
    oc_tk_vocab_release(&m->vocab);
    oc_tk_vocab_release(&m->raw);
    free(m->merges);
    free(m->char_ids);
    free(m->joins);
    *m = (oc_tk_model){0};
}

uint64_t oc_tk_model_bytes(const oc_tk_model *m) {
    uint64_t n = oc_tk_vocab_bytes(&m->vocab) + oc_tk_vocab_bytes(&m->raw);
    if (m->merges != NULL) n += oc_heap_bytes(((uint64_t)m->merges_mask + 1) * sizeof *m->merges);
    if (m->char_ids != NULL) n += oc_heap_bytes(CHAR_IDS * sizeof *m->char_ids);
    if (m->joins != NULL) n += oc_heap_bytes((m->joins_mask + 1) * sizeof *m->joins);
    return n;
}
