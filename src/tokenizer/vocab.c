/* Texts to ids and back: one pool of bytes, one table of open addressing. */
#include "base/heap.h"
#include "tokenizer/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Arrays are as long as the largest id: a stray huge one must not ask for gigabytes. */
enum { ID_MOST = (1 << 23) - 1 };

uint64_t oc_tk_hash(const char *s, size_t n) {
    const uint64_t k = 0x9e3779b97f4a7c15u;
    uint64_t h = n * k, w;
    for (; n >= sizeof w; n -= sizeof w, s += sizeof w) {
        memcpy(&w, s, sizeof w);
        h = (h ^ w) * k;
        h ^= h >> 32;
    }
    if (n > 0) {
        w = 0;
        memcpy(&w, s, n);
        h = (h ^ w) * k;
        h ^= h >> 32;
    }
    h *= k;
    return h ^ h >> 29;
}

static oc_status out_of_memory(const char *where, oc_error *err) {
    return oc_fail(err, OC_E_MEMORY, "%s: no memory for its tokens", where);
}

static uint32_t *slot(const oc_tk_vocab *v, const char *s, size_t n) {
    uint32_t i = (uint32_t)oc_tk_hash(s, n) & v->mask;
    for (;; i = (i + 1) & v->mask) {
        if (v->slots[i] == 0) return &v->slots[i];
        uint32_t id = v->slots[i] - 1;
        if (v->length[id] == n && memcmp(v->pool + v->at[id], s, n) == 0) return &v->slots[i];
    }
}

static oc_status put(oc_tk_vocab *v, const uint32_t entry[3], const char *where, oc_error *err) {
    const char *s = v->pool + entry[0];
    int shown = entry[1] > 60 ? 60 : (int)entry[1];
    uint32_t id = entry[2], *at = slot(v, s, entry[1]);
    if (*at != 0)
        return oc_fail(err, OC_E_FORMAT, "%s: the token \"%.*s\" occurs twice", where, shown, s);
    if (v->length[id] != UINT32_MAX)
        return oc_fail(err, OC_E_FORMAT, "%s: the id %" PRIu32 " has two tokens, one is \"%.*s\"",
                       where, id, shown, s);
    *at = id + 1;
    v->at[id] = entry[0];
    v->length[id] = entry[1];
    return OC_OK;
}

oc_status oc_tk_vocab_init(oc_tk_vocab *v, char *pool, size_t pool_bytes,
                           const uint32_t (*entries)[3], size_t n, const char *where,
                           oc_error *err) {
    *v = (oc_tk_vocab){.pool = pool, .pool_bytes = pool_bytes};
    uint32_t size = 0, slots = 16;
    for (size_t i = 0; i < n; i++) {
        if (entries[i][2] > ID_MOST)
            return oc_fail(err, OC_E_UNSUPPORTED, "%s: the id %" PRIu32 " is above %d", where,
                           entries[i][2], ID_MOST);
        if (entries[i][2] >= size) size = entries[i][2] + 1;
    }
    while (slots < 2 * n)
        slots *= 2;
    v->mask = slots - 1;
    v->slots = calloc(slots, sizeof *v->slots);
    v->at = malloc((size + 1) * sizeof *v->at);
    v->length = malloc((size + 1) * sizeof *v->length);
    if (v->slots == NULL || v->at == NULL || v->length == NULL) return out_of_memory(where, err);
    memset(v->length, 0xff, (size + 1) * sizeof *v->length);
    v->size = (int32_t)size;
    v->count = (int32_t)n;
    for (size_t i = 0; i < n; i++)
        OC_TRY(put(v, entries[i], where, err));
    return OC_OK;
}

void oc_tk_vocab_release(oc_tk_vocab *v) {
    free(v->pool);
    free(v->at);
    free(v->length);
    free(v->slots);
    *v = (oc_tk_vocab){0};
}

uint64_t oc_tk_vocab_bytes(const oc_tk_vocab *v) {
    if (v->slots == NULL) return 0;
    uint64_t ids = (uint64_t)v->size + 1;
    return oc_heap_bytes(v->pool_bytes + 1) + oc_heap_bytes(ids * sizeof *v->at) +
           oc_heap_bytes(ids * sizeof *v->length) +
           oc_heap_bytes(((uint64_t)v->mask + 1) * sizeof *v->slots);
}

int32_t oc_tk_vocab_find(const oc_tk_vocab *v, const char *s, size_t n) {
    if (v->slots == NULL) return -1;
    uint32_t found = *slot(v, s, n);
    return (int32_t)found - 1;
}

const char *oc_tk_vocab_text(const oc_tk_vocab *v, int32_t id, size_t *n) {
    if (id < 0 || id >= v->size || v->length[id] == UINT32_MAX) return NULL;
    *n = v->length[id];
    return v->pool + v->at[id];
}
