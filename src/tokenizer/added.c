/* Added tokens: texts that are found before anything else is done to a text.
 *
 * Two tries: of tokens that match the text as it is, and of those that match it normalized. The
 * leftmost match wins, of those that begin together the longest. */
#include "base/heap.h"
#include "base/json.h"
#include "tokenizer/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- Trie: edges in one table of open addressing, by (node, byte) */

static uint32_t *edge(const oc_tk_trie *x, uint32_t node, unsigned char byte) {
    uint64_t key = ((uint64_t)node << 8 | byte) + 1, h = key * 0x9e3779b97f4a7c15u;
    uint32_t i = (uint32_t)(h >> 32) & x->mask;
    while (x->keys[i] != 0 && x->keys[i] != key)
        i = (i + 1) & x->mask;
    return &x->children[i];
}

static oc_status trie_init(oc_tk_trie *x, size_t bytes) {
    uint64_t slots = 16;
    while (slots < 2 * (uint64_t)bytes)
        slots *= 2;
    if (slots > UINT32_MAX / 2) return OC_E_MEMORY;
    x->mask = (uint32_t)slots - 1;
    x->keys = calloc(slots, sizeof *x->keys);
    x->children = calloc(slots, sizeof *x->children);
    x->ends_room = (uint64_t)bytes + 1;
    x->ends = malloc(x->ends_room * sizeof *x->ends);
    if (x->keys == NULL || x->children == NULL || x->ends == NULL) return OC_E_MEMORY;
    x->ends[0] = -1;
    x->nodes = 1;
    x->only = -1;
    return OC_OK;
}

/* Of equal texts, which normalization may make, the first one stays; the reference library picks
 * any.
 */
static void trie_add(oc_tk_trie *x, const char *s, size_t n, int32_t index) {
    uint32_t node = 0;
    if (n == 0) return;
    for (size_t i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)s[i];
        uint32_t *child = edge(x, node, byte);
        if (*child == 0) {
            x->keys[child - x->children] = ((uint64_t)node << 8 | byte) + 1;
            *child = x->nodes++;
            x->ends[*child] = -1;
            if (node == 0) {
                x->only = x->firsts == 0 ? byte : -1;
                x->firsts++;
                x->first[byte] = *child;
            }
        }
        node = *child;
    }
    if (x->ends[node] < 0) x->ends[node] = index;
}

static void trie_release(oc_tk_trie *x) {
    free(x->keys);
    free(x->children);
    free(x->ends);
    *x = (oc_tk_trie){0};
}

static uint64_t trie_bytes(const oc_tk_trie *x) {
    if (x->keys == NULL) return 0;
    uint64_t slots = (uint64_t)x->mask + 1;
    return oc_heap_bytes(slots * sizeof *x->keys) + oc_heap_bytes(slots * sizeof *x->children) +
           oc_heap_bytes(x->ends_room * sizeof *x->ends);
}

/* The longest token that begins at s[at]; -1: none. */
static int32_t longest(const oc_tk_trie *x, oc_tk_scan *scan, size_t at, size_t *end) {
    uint32_t node = x->first[(unsigned char)scan->s[at]];
    int32_t found = -1;
    size_t i = at + 1;
    while (node != 0) {
        if (x->ends[node] >= 0) {
            found = x->ends[node];
            *end = i;
        }
        if (i == scan->n) break;
        node = *edge(x, node, (unsigned char)scan->s[i++]);
    }
    scan->work += i - at;
    return found;
}

static bool find(const oc_tk_trie *x, oc_tk_scan *scan, size_t *begin, size_t *end,
                 int32_t *index) {
    if (x->firsts == 0) return false;
    for (size_t i = scan->at; i < scan->n; i++) {
        if (x->only >= 0) {
            const char *hit = memchr(scan->s + i, x->only, scan->n - i);
            if (hit == NULL) break;
            i = (size_t)(hit - scan->s);
        } else if (x->first[(unsigned char)scan->s[i]] == 0) {
            continue;
        }
        *index = longest(x, scan, i, end);
        if (*index < 0) continue;
        *begin = i;
        scan->at = *end;
        return true;
    }
    scan->at = scan->n;
    return false;
}

/* --- Scanning */

static bool touches_word(const oc_tk_scan *scan, size_t begin, size_t end) {
    if (begin > 0) {
        size_t i = oc_tk_back(scan->s, begin);
        if (oc_tk_is_word(oc_tk_next(scan->s, &i))) return true;
    }
    return end < scan->n && oc_tk_is_word(oc_tk_next(scan->s, &end));
}

static size_t spaces_before(const oc_tk_scan *scan, size_t i) {
    while (i > scan->covered) {
        size_t back = oc_tk_back(scan->s, i), next = back;
        if (!oc_tk_is_space(oc_tk_next(scan->s, &next))) break;
        i = back;
    }
    return i;
}

/* White space is looked at once however many tokens end in it. */
static size_t spaces_after(oc_tk_scan *scan, size_t i) {
    if (i >= scan->spaces.begin && i < scan->spaces.end) return scan->spaces.end;
    size_t begin = i;
    while (i < scan->n) {
        size_t next = i;
        if (!oc_tk_is_space(oc_tk_next(scan->s, &next))) break;
        i = next;
    }
    scan->work += i - begin;
    scan->spaces = (oc_tk_piece){begin, i};
    return i;
}

bool oc_tk_added_next(const oc_tk_added_set *a, const oc_tk_trie *x, oc_tk_scan *scan,
                      oc_tk_piece *where, int32_t *id) {
    size_t begin, end;
    int32_t index;
    while (find(x, scan, &begin, &end, &index)) {
        const oc_tk_added *t = &a->tokens[index];
        if (t->single_word && touches_word(scan, begin, end)) continue;
        if (t->lstrip) begin = spaces_before(scan, begin);
        if (t->lstrip && begin < scan->covered) begin = scan->covered;
        if (t->rstrip) end = spaces_after(scan, end);
        /* The token before took all of it. */
        if (begin >= end) {
            scan->covered = end;
            continue;
        }
        *where = (oc_tk_piece){begin, end};
        *id = t->id;
        return true;
    }
    return false;
}

/* --- Reading */

typedef struct loader {
    oc_tk_added_set *a;
    const oc_tk_vocab *vocab;
    const char *where;
    oc_error *err;
    int32_t most; /* largest id so far, -1: none */
} loader;

static oc_status out_of_memory(loader *l) {
    return oc_fail(l->err, OC_E_MEMORY, "%s: no memory for them", l->where);
}

/* The id is what the reference library gives: the model's, or the next free one. It does not look
 * at the file's "id". */
static oc_status choose_id(loader *l, oc_tk_added *t) {
    t->id = oc_tk_vocab_find(l->vocab, t->text, t->n);
    if (t->id < 0) {
        int32_t size = l->vocab->count;
        size_t n;
        t->id = l->most >= size || (size == 0 && l->most >= 0) ? l->most + 1 : size;
        if (oc_tk_vocab_text(l->vocab, t->id, &n) != NULL)
            return oc_fail(l->err, OC_E_UNSUPPORTED,
                           "%s: \"%s\" would get the id %d, which \"vocab\" gives to another token",
                           l->where, t->text, (int)t->id);
    }
    if (t->id > l->most) l->most = t->id;
    return OC_OK;
}

static oc_status read_flags(loader *l, const json_t *o, oc_tk_added *t) {
    static const char *const known[] = {"id",     "content",    "single_word", "lstrip",
                                        "rstrip", "normalized", "special"};
    int64_t id = 0;
    OC_TRY(oc_json_check_keys(o, l->where, NULL, known, sizeof known / sizeof known[0], l->err));
    OC_TRY(oc_json_get_int(o, l->where, "id", OC_JSON_REQUIRED, 0, UINT32_MAX, &id, l->err));
    OC_TRY(oc_json_get_bool(o, l->where, "single_word", OC_JSON_REQUIRED, &t->single_word, l->err));
    OC_TRY(oc_json_get_bool(o, l->where, "lstrip", OC_JSON_REQUIRED, &t->lstrip, l->err));
    OC_TRY(oc_json_get_bool(o, l->where, "rstrip", OC_JSON_REQUIRED, &t->rstrip, l->err));
    OC_TRY(oc_json_get_bool(o, l->where, "normalized", OC_JSON_REQUIRED, &t->normalized, l->err));
    return oc_json_get_bool(o, l->where, "special", OC_JSON_REQUIRED, &t->special, l->err);
}

static oc_status read_text(loader *l, const json_t *o, oc_tk_added *t) {
    const json_t *content = json_object_get(o, "content");
    if (!json_is_string(content))
        return oc_fail(l->err, OC_E_FORMAT, "%s: an entry needs a string \"content\"", l->where);
    size_t n = json_string_length(content);
    t->text = malloc(n + 1);
    if (t->text == NULL) return out_of_memory(l);
    memcpy(t->text, json_string_value(content), n);
    t->text[n] = 0;
    t->n = (uint32_t)n;
    return OC_OK;
}

/* Of an equal text's index + 1, or the empty slot for it. */
static uint32_t *slot(const oc_tk_added_set *a, const char *s, size_t n) {
    uint32_t i = (uint32_t)oc_tk_hash(s, n) & a->mask;
    for (;; i = (i + 1) & a->mask) {
        if (a->slots[i] == 0) return &a->slots[i];
        const oc_tk_added *t = &a->tokens[a->slots[i] - 1];
        if (t->n == n && memcmp(t->text, s, n) == 0) return &a->slots[i];
    }
}

/* An empty text is no token; of two with one text the first counts, special if either is. */
static oc_status read_token(loader *l, const json_t *o) {
    oc_tk_added_set *a = l->a;
    oc_tk_added t = {0};
    oc_status s = read_flags(l, o, &t);
    if (s == OC_OK) s = read_text(l, o, &t);
    uint32_t *at = s == OC_OK && t.n > 0 ? slot(a, t.text, t.n) : NULL;
    if (at != NULL && *at != 0) {
        a->tokens[*at - 1].special |= t.special;
        at = NULL;
    }
    if (at != NULL) s = choose_id(l, &t);
    if (at == NULL || s != OC_OK) {
        free(t.text);
        return s;
    }
    a->tokens[a->n++] = t;
    *at = (uint32_t)a->n;
    if (t.id >= a->size) a->size = t.id + 1;
    return OC_OK;
}

static oc_status reserve(loader *l, size_t n) {
    oc_tk_added_set *a = l->a;
    uint64_t slots = 16;
    while (slots < 2 * (uint64_t)n)
        slots *= 2;
    if (slots > INT32_MAX) return out_of_memory(l);
    a->mask = (uint32_t)slots - 1;
    a->room = n;
    a->slots = calloc(slots, sizeof *a->slots);
    a->tokens = calloc(n + 1, sizeof *a->tokens);
    a->by_id = malloc((n + 1) * sizeof *a->by_id);
    return a->slots == NULL || a->tokens == NULL || a->by_id == NULL ? out_of_memory(l) : OC_OK;
}

static int compare_ids(const void *a, const void *b) {
    const oc_tk_by_id *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static oc_status fill_raw(loader *l) {
    oc_tk_added_set *a = l->a;
    size_t bytes = 0;
    for (int32_t i = 0; i < a->n; i++)
        if (!a->tokens[i].normalized) bytes += a->tokens[i].n;
    if (trie_init(&a->raw, bytes) != OC_OK) return out_of_memory(l);
    for (int special = 1; special >= 0; special--)
        for (int32_t i = 0; i < a->n; i++) {
            const oc_tk_added *t = &a->tokens[i];
            if (!t->normalized && t->special == (special == 1)) trie_add(&a->raw, t->text, t->n, i);
        }
    return OC_OK;
}

static oc_status keep_shown(loader *l, oc_tk_added *t, const char *s, size_t n) {
    t->shown = malloc(n + 1);
    if (t->shown == NULL) return out_of_memory(l);
    memcpy(t->shown, s, n);
    t->shown[n] = 0;
    t->shown_n = (uint32_t)n;
    return OC_OK;
}

/* Texts of the tokens after the normalizer, in one string. */
static oc_status normalize_all(loader *l, const oc_tk_normalizer *z, oc_tk_bytes *all,
                               size_t *ends) {
    oc_tk_text text[2] = {0};
    oc_tk_matcher *m = NULL;
    oc_status s = OC_OK;
    for (int32_t i = 0; i < l->a->n && s == OC_OK; i++) {
        const oc_tk_added *t = &l->a->tokens[i];
        if (t->normalized) {
            oc_tk_view v = {.s = t->text, .n = t->n};
            s = oc_tk_normalize(z, &v, text, &m, l->err);
            if (s == OC_OK) s = keep_shown(l, &l->a->tokens[i], v.s, v.n);
            if (s == OC_OK && v.n == 0)
                s = oc_fail(l->err, OC_E_UNSUPPORTED, "%s: \"%s\" is normalized to nothing",
                            l->where, t->text);
            if (s == OC_OK && oc_tk_append(all, v.s, v.n) != OC_OK) s = out_of_memory(l);
        }
        ends[i] = all->n;
    }
    oc_tk_text_release(&text[0]);
    oc_tk_text_release(&text[1]);
    oc_tk_matcher_free(m);
    return s;
}

static oc_status fill_normalized(loader *l, const oc_tk_normalizer *z) {
    oc_tk_added_set *a = l->a;
    oc_tk_bytes all = {0};
    size_t *ends = calloc((size_t)a->n + 1, sizeof *ends);
    if (ends == NULL) return out_of_memory(l);
    oc_status s = normalize_all(l, z, &all, ends);
    if (s == OC_OK && trie_init(&a->normalized, all.n) != OC_OK) s = out_of_memory(l);
    for (int special = 1; special >= 0 && s == OC_OK; special--)
        for (int32_t i = 0; i < a->n; i++) {
            size_t begin = i == 0 ? 0 : ends[i - 1];
            if (a->tokens[i].normalized && a->tokens[i].special == (special == 1))
                trie_add(&a->normalized, all.s + begin, ends[i] - begin, i);
        }
    free(ends);
    free(all.s);
    return s;
}

static oc_status load(loader *l, const json_t *list, const oc_tk_normalizer *z) {
    oc_tk_added_set *a = l->a;
    if (list != NULL && !json_is_null(list) && !json_is_array(list))
        return oc_fail(l->err, OC_E_FORMAT, "%s: must be a list", l->where);
    OC_TRY(reserve(l, json_array_size(list)));
    for (size_t i = 0; i < json_array_size(list); i++)
        OC_TRY(read_token(l, json_array_get(list, i)));
    for (int32_t i = 0; i < a->n; i++)
        a->by_id[i] = (oc_tk_by_id){a->tokens[i].id, i};
    qsort(a->by_id, (size_t)a->n, sizeof *a->by_id, compare_ids);
    OC_TRY(fill_raw(l));
    return fill_normalized(l, z);
}

oc_status oc_tk_added_init(oc_tk_added_set *a, const json_t *list, const oc_tk_vocab *vocab,
                           const oc_tk_normalizer *z, const char *origin, oc_error *err) {
    char where[OC_ERROR_BYTES];
    snprintf(where, sizeof where, "%s: added_tokens", origin);
    *a = (oc_tk_added_set){0};
    loader l = {.a = a, .vocab = vocab, .where = where, .err = err, .most = -1};
    return load(&l, list, z);
}

void oc_tk_added_release(oc_tk_added_set *a) {
    for (int32_t i = 0; i < a->n; i++) {
        free(a->tokens[i].text);
        free(a->tokens[i].shown);
    }
    free(a->tokens);
    free(a->by_id);
    free(a->slots);
    trie_release(&a->raw);
    trie_release(&a->normalized);
    *a = (oc_tk_added_set){0};
}

uint64_t oc_tk_added_bytes(const oc_tk_added_set *a) {
    uint64_t n = trie_bytes(&a->raw) + trie_bytes(&a->normalized);
    if (a->slots == NULL) return n;
    n += oc_heap_bytes(((uint64_t)a->mask + 1) * sizeof *a->slots) +
         oc_heap_bytes((a->room + 1) * sizeof *a->tokens) +
         oc_heap_bytes((a->room + 1) * sizeof *a->by_id);
    for (int32_t i = 0; i < a->n; i++) {
        const oc_tk_added *t = &a->tokens[i];
        n += oc_heap_bytes(t->n + 1) + (t->shown != NULL ? oc_heap_bytes(t->shown_n + 1) : 0);
    }
    return n;
}

const oc_tk_added *oc_tk_added_by_id(const oc_tk_added_set *a, int32_t id) {
    const oc_tk_by_id key = {id, 0};
    if (a->n == 0) return NULL;
    const oc_tk_by_id *hit = bsearch(&key, a->by_id, (size_t)a->n, sizeof *a->by_id, compare_ids);
    return hit == NULL ? NULL : &a->tokens[hit->index];
}

const oc_tk_added *oc_tk_added_by_text(const oc_tk_added_set *a, const char *s, size_t n) {
    if (a->slots == NULL) return NULL;
    uint32_t found = *slot(a, s, n);
    return found == 0 ? NULL : &a->tokens[found - 1];
}
