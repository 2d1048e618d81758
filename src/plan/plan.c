/* plan.c - names, and the builder that turns appended buffers and ops into a set. */
#include "plan/plan.h"

#include "base/checked.h"
#include "plan/internal.h"

#include <stdlib.h>
#include <string.h>

#define NAMES(...)                                                                                 \
    static const char *const names[] = {__VA_ARGS__};                                              \
    return (size_t)i < sizeof names / sizeof *names ? names[i] : "?"

const char *oc_lane_name(oc_lane i) {
    NAMES("compute", "h2d", "d2h", "comm", "read", "write", "optim");
}

bool oc_lane_parse(const char *name, oc_lane *out) {
    for (int l = 0; l < OC_LANE_COUNT; l++) {
        if (strcmp(name, oc_lane_name((oc_lane)l)) != 0) continue;
        *out = (oc_lane)l;
        return true;
    }
    return false;
}

const char *oc_op_kind_name(oc_op_kind i) {
    NAMES("fetch", "fetch_rows", "gather", "forward", "backward", "loss", "reduce", "retire",
          "fold", "norm", "update", "publish", "next", "poison");
}

const char *oc_use_name(oc_use i) {
    NAMES("weights", "gradients", "master", "moments", "activations", "workspace", "kv_cache",
          "staging", "text", "plan");
}

const char *oc_role_name(oc_role i) {
    NAMES("src", "dst", "weight", "in", "out", "qkv", "attention", "mid", "up", "mlp", "logits",
          "work", "grad_out", "d", "state", "batch", "grad", "master", "m", "v", "copy", "partials",
          "cells_in", "cells_out", "carry", "rows", "position_rows", "table", "kv", "pages");
}

uint32_t oc_format_bits(oc_format f) {
    static const uint32_t bits[OC_FORMAT_COUNT] = {0, 32, 16, 16};
    return f < OC_FORMAT_COUNT ? bits[f] : 0;
}

/* ---- builder ---- */

typedef struct vec {
    void *data;
    uint32_t count, capacity;
} vec;

/* A plan being appended to. */
typedef struct draft {
    char name[16];
    vec ops, accesses, starts, ends;
    vec *held; /* the list of the holding added last */
    uint8_t advance[OC_V_COUNT];
    uint16_t pred_from;
} draft;

struct oc_plan_builder {
    vec buffers; /* oc_buffer */
    vec after;   /* oc_buffer_id per buffer: placed behind it; OC_NO_BUFFER */
    vec blocks;  /* oc_block_size of each block */
    draft plans[OC_MAX_PLANS];
    uint32_t n_plans;
    bool follows[OC_MAX_PLANS][OC_MAX_PLANS], opens[OC_MAX_PLANS];
    bool unordered[OC_LANE_COUNT];
    uint64_t piece_elements;
    oc_signature signatures[OC_MAX_BODIES];
    bool has_signature[OC_MAX_BODIES];
    oc_status failed; /* first failure, reported by finish */
    const char *why;
};

static void *vec_push(oc_plan_builder *b, vec *v, size_t item_bytes) {
    if (b->failed != OC_OK) return NULL;
    if (v->count == v->capacity) {
        uint32_t capacity = v->capacity ? v->capacity + v->capacity / 2 : 64;
        void *data = realloc(v->data, (size_t)capacity * item_bytes);
        if (!data) {
            b->failed = OC_E_MEMORY;
            b->why = "no memory for the plan";
            return NULL;
        }
        v->data = data;
        v->capacity = capacity;
    }
    void *item = (char *)v->data + (size_t)v->count++ * item_bytes;
    memset(item, 0, item_bytes);
    return item;
}

oc_status oc_plan_builder_new(oc_plan_builder **out, oc_error *err) {
    oc_plan_builder *b = calloc(1, sizeof *b);
    if (!b) return oc_fail(err, OC_E_MEMORY, "no memory for a plan builder");
    *out = b;
    return OC_OK;
}

void oc_plan_builder_free(oc_plan_builder *b) {
    if (!b) return;
    free(b->buffers.data);
    free(b->after.data);
    free(b->blocks.data);
    for (uint32_t p = 0; p < OC_MAX_PLANS; p++) {
        free(b->plans[p].ops.data);
        free(b->plans[p].accesses.data);
        free(b->plans[p].starts.data);
        free(b->plans[p].ends.data);
    }
    free(b);
}

oc_buffer_id oc_plan_buffer(oc_plan_builder *b, const char *name, oc_tier tier, oc_use use,
                            oc_buffer_life life, uint64_t bytes, uint64_t piece_bytes,
                            uint32_t alias, oc_value initial) {
    oc_buffer *x = vec_push(b, &b->buffers, sizeof *x);
    oc_buffer_id *after = vec_push(b, &b->after, sizeof *after);
    if (!x || !after) return OC_NO_BUFFER;
    size_t n = strlen(name);
    if (n >= sizeof x->name) n = sizeof x->name - 1;
    memcpy(x->name, name, n);
    x->tier = tier;
    x->use = use;
    x->life = life;
    x->bytes = bytes;
    x->piece_bytes = piece_bytes ? piece_bytes : bytes;
    x->pieces = bytes ? (uint32_t)oc_ceil_div(bytes, x->piece_bytes) : 1;
    x->alias = alias;
    x->initial = initial;
    *after = OC_NO_BUFFER;
    return b->buffers.count - 1;
}

void oc_plan_place_after(oc_plan_builder *b, oc_buffer_id id, oc_buffer_id before) {
    if (b->failed != OC_OK) return;
    ((oc_buffer_id *)b->after.data)[id] = before;
}

void oc_plan_signature(oc_plan_builder *b, uint16_t body, oc_signature sig) {
    b->signatures[body] = sig;
    b->has_signature[body] = true;
}

void oc_plan_block(oc_plan_builder *b, oc_block_size size) {
    oc_block_size *x = vec_push(b, &b->blocks, sizeof *x);
    if (x) *x = size;
}

void oc_plan_piece(oc_plan_builder *b, uint64_t elements) { b->piece_elements = elements; }

void oc_plan_unordered(oc_plan_builder *b, oc_lane lane) { b->unordered[lane] = true; }

const oc_buffer *oc_plan_buffer_at(const oc_plan_builder *b, oc_buffer_id id) {
    return (const oc_buffer *)b->buffers.data + id;
}

uint32_t oc_plan_begin(oc_plan_builder *b, const char *name) {
    if (b->n_plans == OC_MAX_PLANS) {
        b->failed = OC_E_PLAN;
        b->why = "too many plans in a set";
        return OC_MAX_PLANS - 1;
    }
    draft *to = &b->plans[b->n_plans];
    size_t n = strlen(name);
    memcpy(to->name, name, n < 15 ? n : 15);
    to->pred_from = 1;
    return b->n_plans++;
}

static draft *current(oc_plan_builder *b) { return &b->plans[b->n_plans - 1]; }

static uint32_t to_end(const oc_plan_builder *b, oc_buffer_id buffer, uint32_t first,
                       uint32_t count) {
    return count == UINT32_MAX ? oc_plan_buffer_at(b, buffer)->pieces - first : count;
}

static void hold(oc_plan_builder *b, vec *list, oc_buffer_id buffer, uint32_t first, uint32_t count,
                 oc_value value) {
    oc_holding *h = vec_push(b, list, sizeof *h);
    if (!h) return;
    *h = (oc_holding){buffer, first, to_end(b, buffer, first, count), OC_NO_BUFFER, 0, value};
    current(b)->held = list;
}

void oc_plan_held_if(oc_plan_builder *b, oc_buffer_id pred, uint32_t pred_index) {
    vec *list = current(b)->held;
    if (b->failed != OC_OK || !list) return;
    oc_holding *h = (oc_holding *)list->data + list->count - 1;
    h->pred = pred;
    h->pred_index = pred_index;
}

void oc_plan_starts(oc_plan_builder *b, oc_buffer_id buffer, uint32_t first, uint32_t count,
                    oc_value value) {
    hold(b, &current(b)->starts, buffer, first, count, value);
}

void oc_plan_ends(oc_plan_builder *b, oc_buffer_id buffer, uint32_t first, uint32_t count,
                  oc_value value) {
    hold(b, &current(b)->ends, buffer, first, count, value);
}

void oc_plan_advances(oc_plan_builder *b, oc_what what, uint8_t versions) {
    current(b)->advance[what] = versions;
}

void oc_plan_pred_from(oc_plan_builder *b, uint16_t micro) { current(b)->pred_from = micro; }

void oc_plan_follows(oc_plan_builder *b, uint32_t from, uint32_t to) {
    if (from == OC_NO_PLAN)
        b->opens[to] = true;
    else
        b->follows[from][to] = true;
}

void oc_plan_op(oc_plan_builder *b, const oc_op *op) {
    draft *d = current(b);
    oc_op *x = vec_push(b, &d->ops, sizeof *x);
    if (!x) return;
    *x = *op;
    if (x->blocks == 0) x->blocks = 1;
    if (x->pieces == 0) x->pieces = 1;
    x->first_access = d->accesses.count;
    x->n_accesses = 0;
}

void oc_plan_access(oc_plan_builder *b, oc_role role, oc_access_mode mode, oc_buffer_id buffer,
                    uint32_t first, uint32_t count, oc_value value, oc_value result) {
    draft *d = current(b);
    oc_access *x = vec_push(b, &d->accesses, sizeof *x);
    if (!x) return;
    x->buffer = buffer;
    x->first = first;
    x->count = to_end(b, buffer, first, count);
    x->mode = (uint8_t)mode;
    x->role = (uint8_t)role;
    x->value = value;
    x->result = result;
    oc_op *op = (oc_op *)d->ops.data + d->ops.count - 1;
    op->n_accesses++;
}

void oc_plan_demand(oc_plan_builder *b, oc_demand demand) {
    if (b->failed != OC_OK) return;
    const draft *d = current(b);
    ((oc_op *)d->ops.data)[d->ops.count - 1].demand = demand;
}

/* ---- addresses ---- */

/* Both copies of a SUBMISSION buffer count. */
static uint64_t footprint(const oc_buffer *x) {
    uint64_t bytes = oc_align_up(x->bytes, OC_PLAN_ALIGN);
    return x->life == OC_LIFE_SUBMISSION ? 2 * bytes : bytes;
}

/* A buffer, by its group. Ungrouped ones are a group each. */
typedef struct member {
    uint32_t alias;
    oc_buffer_id id, first; /* of the group */
} member;

static int by_group(const void *a, const void *b) {
    const member *x = a, *y = b;
    if (x->alias != y->alias) return x->alias < y->alias ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int by_first(const void *a, const void *b) {
    const member *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Groups in order of their first member, members in order of creation. */
static member *sort_members(const oc_plan_builder *b) {
    uint32_t n = b->buffers.count;
    const oc_buffer *x = b->buffers.data;
    member *m = malloc((n + 1u) * sizeof *m);
    if (!m) return NULL;
    for (uint32_t i = 0; i < n; i++)
        m[i] = (member){x[i].alias, i, i};
    qsort(m, n, sizeof *m, by_group);
    for (uint32_t i = 1; i < n; i++)
        if (m[i].alias && m[i].alias == m[i - 1].alias) m[i].first = m[i - 1].first;
    qsort(m, n, sizeof *m, by_first);
    return m;
}

/* Where members of one group lie, from `start` on; the end of the longest chain. A member is
 * created after the one it is placed behind. */
static uint64_t place_group(oc_plan_builder *b, const member *m, uint32_t n, uint64_t start) {
    oc_buffer *x = b->buffers.data;
    const oc_buffer_id *after = b->after.data;
    uint64_t end = start;
    for (uint32_t i = 0; i < n; i++) {
        oc_buffer_id before = after[m[i].id];
        oc_buffer *at = &x[m[i].id];
        at->offset = before == OC_NO_BUFFER ? start : x[before].offset + footprint(&x[before]);
        end = oc_max_u64(end, at->offset + footprint(at));
    }
    return end;
}

/* One group after another; each takes the room of its longest chain of members, and its bytes count
 * for the use of its first. */
oc_status oc_plan_layout(oc_plan_builder *b, uint64_t arena[OC_TIER_COUNT],
                         uint64_t use[OC_TIER_COUNT][OC_USE_COUNT], oc_error *err) {
    memset(arena, 0, OC_TIER_COUNT * sizeof *arena);
    memset(use, 0, OC_TIER_COUNT * sizeof *use);
    if (b->failed != OC_OK) return oc_fail(err, b->failed, "%s", b->why);
    member *m = sort_members(b);
    if (!m) return oc_fail(err, OC_E_MEMORY, "no memory to lay the plan out");
    for (uint32_t i = 0, n; i < b->buffers.count; i += n) {
        n = 1;
        while (i + n < b->buffers.count && m[i + n].first == m[i].first)
            n++;
        const oc_buffer *x = oc_plan_buffer_at(b, m[i].first);
        uint64_t start = arena[x->tier];
        arena[x->tier] = place_group(b, m + i, n, start);
        use[x->tier][x->use] += arena[x->tier] - start;
    }
    free(m);
    return OC_OK;
}

uint64_t oc_plan_bytes(const oc_plan_set *s, oc_tier tier, oc_use use) {
    return s->use_bytes[tier][use];
}

uint64_t oc_plan_host_bytes(const oc_plan_set *s) {
    uint64_t n = sizeof *s + s->n_buffers * sizeof *s->buffers + s->n_blocks * sizeof *s->blocks;
    for (uint32_t p = 0; p < s->n_plans; p++) {
        const oc_plan *x = &s->plans[p];
        n += x->n_ops * sizeof *x->ops + x->n_accesses * sizeof *x->accesses;
        n += x->n_waits * sizeof *x->waits + (x->n_starts + x->n_ends) * sizeof *x->starts;
        for (uint32_t q = 0; q < s->n_plans; q++)
            n += s->n_pairs[p][q] * sizeof(oc_wait);
    }
    return n;
}

bool oc_plan_builder_starved(const oc_plan_builder *b) { return b->failed == OC_E_MEMORY; }

uint64_t oc_plan_builder_bytes(const oc_plan_builder *b) {
    uint64_t n = sizeof(oc_plan_set) + b->buffers.count * sizeof(oc_buffer) +
                 b->blocks.count * sizeof(oc_block_size);
    for (uint32_t p = 0; p < b->n_plans; p++) {
        const draft *d = &b->plans[p];
        n += d->ops.count * sizeof(oc_op) + d->accesses.count * sizeof(oc_access);
        n += (d->starts.count + d->ends.count) * sizeof(oc_holding);
    }
    return n;
}

/* ---- finish ---- */

/* The array, given back to exactly what it holds. */
static void *take(vec *v, size_t item_bytes, uint32_t *count) {
    void *data = v->data;
    *count = v->count;
    if (v->count < v->capacity && data) {
        void *less = realloc(data, (size_t)v->count * item_bytes + 1);
        if (less) data = less;
    }
    memset(v, 0, sizeof *v);
    return data;
}

static void move_plan(draft *d, oc_plan *to) {
    memcpy(to->name, d->name, sizeof to->name);
    to->ops = take(&d->ops, sizeof *to->ops, &to->n_ops);
    to->accesses = take(&d->accesses, sizeof *to->accesses, &to->n_accesses);
    to->starts = take(&d->starts, sizeof *to->starts, &to->n_starts);
    to->ends = take(&d->ends, sizeof *to->ends, &to->n_ends);
    memcpy(to->advance, d->advance, sizeof to->advance);
    to->pred_from = d->pred_from;
}

static void move_set(oc_plan_builder *b, oc_plan_set *s) {
    s->buffers = take(&b->buffers, sizeof *s->buffers, &s->n_buffers);
    s->blocks = take(&b->blocks, sizeof *s->blocks, &s->n_blocks);
    s->piece_elements = b->piece_elements;
    memcpy(s->unordered, b->unordered, sizeof s->unordered);
    memcpy(s->follows, b->follows, sizeof s->follows);
    memcpy(s->opens, b->opens, sizeof s->opens);
    memcpy(s->signatures, b->signatures, sizeof s->signatures);
    memcpy(s->has_signature, b->has_signature, sizeof s->has_signature);
    s->n_plans = b->n_plans;
    for (uint32_t p = 0; p < b->n_plans; p++)
        move_plan(&b->plans[p], &s->plans[p]);
}

oc_status oc_plan_finish(oc_plan_builder *b, oc_plan_set **out, oc_error *err) {
    oc_plan_set *s = calloc(1, sizeof *s);
    if (!s) return oc_fail(err, OC_E_MEMORY, "no memory for the plan set");
    oc_status st = oc_plan_layout(b, s->arena_bytes, s->use_bytes, err);
    if (st == OC_OK) {
        move_set(b, s);
        st = oc_plan_derive(s, err);
    }
    if (st != OC_OK) {
        oc_plan_set_free(s);
        return st;
    }
    *out = s;
    return OC_OK;
}

void oc_plan_set_free(oc_plan_set *s) {
    if (!s) return;
    for (uint32_t p = 0; p < OC_MAX_PLANS; p++) {
        free(s->plans[p].ops);
        free(s->plans[p].accesses);
        free(s->plans[p].waits);
        free(s->plans[p].starts);
        free(s->plans[p].ends);
        for (uint32_t q = 0; q < OC_MAX_PLANS; q++)
            free(s->pairs[p][q]);
    }
    free(s->buffers);
    free(s->blocks);
    free(s);
}
