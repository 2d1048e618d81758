/* slots.c - places that values pass through. A first walk over a plan's ops, and over those of a
 * plan after it, records the order in which values are wanted; then every value is put where what
 * lies there is wanted last (Belady's rule), but not where the op before still computes, so that a
 * transfer runs beside it. What comes round again in the same order finds the same places, so that
 * what one plan leaves is what the next begins with. */
#include "build/internal.h"

#include <stdlib.h>
#include <string.h>

static bool words(uint32_t **out, int64_t n) {
    *out = calloc((size_t)n + 1, sizeof **out);
    return *out != NULL;
}

bool oc_slots_open(slot_pool *p, int32_t n, int64_t keys, uint32_t apart) {
    p->n = n;
    p->keys = keys;
    p->apart = apart;
    return words(&p->slots, n) && words(&p->content, n) && words(&p->used, n) &&
           words(&p->wanted, n) && words(&p->first, keys);
}

void oc_slots_close(slot_pool *p) {
    free(p->slots);
    free(p->content);
    free(p->used);
    free(p->wanted);
    free(p->first);
    free(p->trace);
    free(p->next);
}

static bool grow(slot_pool *p) {
    uint32_t capacity = p->capacity ? 2 * p->capacity : 256;
    uint32_t *trace = realloc(p->trace, capacity * sizeof *trace);
    if (trace) p->trace = trace;
    uint32_t *next = realloc(p->next, capacity * sizeof *next);
    if (next) p->next = next;
    if (!trace || !next) return false;
    p->capacity = capacity;
    return true;
}

bool oc_slots_record(slot_pool *p, uint32_t key) {
    if (p->n_trace == p->capacity && !grow(p)) return false;
    p->trace[p->n_trace++] = key;
    return true;
}

/* Backwards, so that the last place of a key is the next for the one before it. */
void oc_slots_look_ahead(slot_pool *p) {
    memset(p->first, 0xff, (size_t)p->keys * sizeof *p->first);
    for (uint32_t i = p->n_trace; i-- > 0;) {
        p->next[i] = p->first[p->trace[i]];
        p->first[p->trace[i]] = i;
    }
}

void oc_slots_begin(slot_pool *p, const uint32_t *content) {
    p->cursor = 0;
    for (int32_t i = 0; i < p->n; i++) {
        p->content[i] = content ? content[i] : OC_NO_KEY;
        p->wanted[i] = p->content[i] == OC_NO_KEY ? OC_NO_KEY : p->first[p->content[i]];
        p->used[i] = 0;
    }
}

/* An empty slot, else of those that were not used just before the one wanted last; when there is
 * none, the one used longest ago. */
static int32_t victim(const slot_pool *p) {
    int32_t best = -1, oldest = -1;
    for (int32_t i = 0; i < p->n; i++) {
        if (p->content[i] == OC_NO_KEY) return i;
        if (oldest < 0 || p->used[i] < p->used[oldest]) oldest = i;
        if (p->used[i] && p->cursor - p->used[i] < p->apart) continue;
        if (best < 0 || p->wanted[i] > p->wanted[best]) best = i;
    }
    return best < 0 ? oldest : best;
}

int32_t oc_slots_find(const slot_pool *p, uint32_t key) {
    for (int32_t i = 0; i < p->n; i++)
        if (p->content[i] == key) return i;
    return -1;
}

int32_t oc_slots_turn(slot_pool *p, uint32_t key, bool make, bool *there) {
    int32_t i = make ? -1 : oc_slots_find(p, key);
    *there = i >= 0;
    if (i < 0) i = victim(p);
    p->content[i] = key;
    p->wanted[i] = p->cursor < p->n_trace ? p->next[p->cursor] : OC_NO_KEY; /* no memory for it */
    p->cursor++;
    p->used[i] = p->cursor;
    return i;
}
