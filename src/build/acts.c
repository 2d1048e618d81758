/* acts.c - activation checkpoints: the inputs of layers. At home on the device they are where they
 * are computed; at home on the host they pass through a few slots. */
#include "build/internal.h"

#include <stdlib.h>
#include <string.h>

oc_value oc_act_value(uint32_t layer, uint32_t micro) {
    return oc_value_of(OC_V_ACT, layer, micro, 0);
}

uint32_t oc_act_index(const build *b, uint32_t layer, uint32_t micro) {
    return micro * ((uint32_t)b->spec->model->n_layers + 1) + layer;
}

/* ---- the order of uses ---- */

static void record(build *b, uint32_t key) {
    act_slots *c = &b->act_cache;
    if (c->n_trace == c->capacity) {
        uint32_t capacity = c->capacity ? 2 * c->capacity : 256;
        uint32_t *trace = realloc(c->trace, capacity * sizeof *trace);
        if (trace) c->trace = trace;
        uint32_t *next = realloc(c->next, capacity * sizeof *next);
        if (next) c->next = next;
        if (!trace || !next) {
            b->failed = true;
            return;
        }
        c->capacity = capacity;
    }
    c->trace[c->n_trace++] = key;
}

void oc_acts_rewind(build *b, bool forget) {
    act_slots *c = &b->act_cache;
    for (int32_t i = 0; i < c->n; i++) {
        c->content[i] = OC_NO_BLOCK;
        c->used[i] = 0;
    }
    c->cursor = 0;
    if (forget) c->n_trace = 0;
}

/* Backwards, so that the last place of a key is the next for the one before it. */
void oc_acts_look_ahead(build *b) {
    act_slots *c = &b->act_cache;
    if (c->n == 0) return;
    uint32_t keys = (uint32_t)oc_build_sets(b->spec) * ((uint32_t)b->spec->model->n_layers + 1);
    memset(c->last, 0xff, keys * sizeof *c->last);
    for (uint32_t i = c->n_trace; i-- > 0;) {
        c->next[i] = c->last[c->trace[i]];
        c->last[c->trace[i]] = i;
    }
}

static uint32_t wanted_at(const act_slots *c, int32_t slot) { return c->next[c->used[slot]]; }

/* The slot to fill next: an empty one, else among those that were not used just before (so that a
 * transfer can run beside these) the one wanted last; when there is none, the one used longest ago.
 */
static int32_t victim(const act_slots *c) {
    int32_t best = -1, oldest = -1;
    for (int32_t i = 0; i < c->n; i++) {
        if (c->content[i] == OC_NO_BLOCK) return i;
        if (oldest < 0 || c->used[i] < c->used[oldest]) oldest = i;
        if (c->cursor - c->used[i] <= 1) continue;
        if (best < 0 || wanted_at(c, i) > wanted_at(c, best)) best = i;
    }
    return best < 0 ? oldest : best;
}

static int32_t find(const act_slots *c, uint32_t key) {
    for (int32_t i = 0; i < c->n; i++)
        if (c->content[i] == key) return i;
    return -1;
}

/* A slot for the next use of a key; *there: it holds it already. */
static int32_t turn_to(build *b, uint32_t key, bool make, bool *there) {
    act_slots *c = &b->act_cache;
    int32_t i = make ? -1 : find(c, key);
    *there = i >= 0;
    if (i < 0) i = victim(c);
    c->content[i] = key;
    c->used[i] = c->cursor++;
    return i;
}

/* ---- uses ---- */

/* Where the input of `layer` can be read. */
oc_buffer_id oc_acts_use(build *b, uint32_t layer, uint32_t micro) {
    uint32_t key = oc_act_index(b, layer, micro);
    bool there;
    if (!b->spec->place.act_slots) return b->acts[key];
    if (b->dry) {
        record(b, key);
        return 0;
    }
    int32_t i = turn_to(b, key, false, &there);
    if (!there)
        oc_emit_copy(b, OC_OP_FETCH, OC_LANE_H2D, b->acts[key], 0, b->act_cache.slots[i], 0,
                     b->spec->sizes.act_bytes, oc_act_value(layer, micro), (int32_t)micro);
    return b->act_cache.slots[i];
}

oc_buffer_id oc_acts_make(build *b, uint32_t layer, uint32_t micro) {
    uint32_t key = oc_act_index(b, layer, micro);
    bool there;
    if (!b->spec->place.act_slots) return b->acts[key];
    if (b->dry) {
        record(b, key);
        return 0;
    }
    return b->act_cache.slots[turn_to(b, key, true, &there)];
}

void oc_acts_retire(build *b, uint32_t layer, uint32_t micro, oc_buffer_id from) {
    if (!b->spec->place.act_slots) return;
    bool one_reader = b->kind.part == PART_EVAL && b->micros == 1;
    if (one_reader) return; /* it comes right away */
    oc_emit_copy(b, OC_OP_RETIRE, OC_LANE_D2H, from, 0, b->acts[oc_act_index(b, layer, micro)], 0,
                 b->spec->sizes.act_bytes, oc_act_value(layer, micro), (int32_t)micro);
}
