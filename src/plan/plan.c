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
          "fold", "norm", "update", "publish", "poison");
}

const char *oc_use_name(oc_use i) {
    NAMES("weights", "gradients", "master", "moments", "activations", "workspace", "kv_cache",
          "staging", "text");
}

const char *oc_role_name(oc_role i) {
    NAMES("src", "dst", "weight", "in", "out", "save", "work", "grad_out", "d", "state", "batch",
          "grad", "master", "m", "v", "copy", "partials", "cells_in", "cells_out", "carry", "rows",
          "position_rows");
}

/* ---- builder ---- */

typedef struct vec {
    void *data;
    uint32_t count, capacity;
} vec;

struct oc_plan_builder {
    vec buffers; /* oc_buffer */
    vec blocks;  /* uint32_t pieces of each block */
    vec after;   /* oc_buffer_id per buffer: placed behind it; OC_NO_BUFFER */
    vec ops[OC_MAX_PLANS], accesses[OC_MAX_PLANS];
    char names[OC_MAX_PLANS][16];
    uint32_t n_plans;
    oc_signature signatures[OC_MAX_BODIES];
    bool has_signature[OC_MAX_BODIES];
    oc_status failed; /* first failure, reported by finish */
    const char *why;
};

static void *vec_push(oc_plan_builder *b, vec *v, size_t item_bytes) {
    if (b->failed != OC_OK) return NULL;
    if (v->count == v->capacity) {
        uint32_t capacity = v->capacity ? 2 * v->capacity : 64;
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
        free(b->ops[p].data);
        free(b->accesses[p].data);
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

void oc_plan_blocks(oc_plan_builder *b, uint32_t pieces) {
    uint32_t *x = vec_push(b, &b->blocks, sizeof *x);
    if (x) *x = pieces;
}

const oc_buffer *oc_plan_buffer_at(const oc_plan_builder *b, oc_buffer_id id) {
    return (const oc_buffer *)b->buffers.data + id;
}

void oc_plan_begin(oc_plan_builder *b, const char *name) {
    if (b->n_plans == OC_MAX_PLANS) {
        b->failed = OC_E_PLAN;
        b->why = "too many plans in a set";
        return;
    }
    char *to = b->names[b->n_plans++];
    size_t n = strlen(name);
    memcpy(to, name, n < 15 ? n : 15);
}

void oc_plan_op(oc_plan_builder *b, const oc_op *op) {
    uint32_t p = b->n_plans - 1;
    oc_op *x = vec_push(b, &b->ops[p], sizeof *x);
    if (!x) return;
    *x = *op;
    if (x->blocks == 0) x->blocks = 1;
    x->first_access = b->accesses[p].count;
    x->n_accesses = 0;
}

void oc_plan_access(oc_plan_builder *b, oc_role role, oc_access_mode mode, oc_buffer_id buffer,
                    uint32_t first, uint32_t count, oc_value value, oc_value result) {
    uint32_t p = b->n_plans - 1;
    oc_access *x = vec_push(b, &b->accesses[p], sizeof *x);
    if (!x) return;
    x->buffer = buffer;
    x->first = first;
    x->count = count == UINT32_MAX ? oc_plan_buffer_at(b, buffer)->pieces - first : count;
    x->mode = (uint8_t)mode;
    x->role = (uint8_t)role;
    x->value = value;
    x->result = result;
    oc_op *op = (oc_op *)b->ops[p].data + b->ops[p].count - 1;
    op->n_accesses++;
}

/* ---- addresses ---- */

/* Both copies of a SUBMISSION buffer count. */
static uint64_t footprint(const oc_buffer *x) {
    uint64_t bytes = oc_align_up(x->bytes, OC_PLAN_ALIGN);
    return x->life == OC_LIFE_SUBMISSION ? 2 * bytes : bytes;
}

typedef struct layout {
    uint64_t arena[OC_TIER_COUNT];
    uint64_t use[OC_TIER_COUNT][OC_USE_COUNT];
} layout;

/* Ungrouped buffers one after another; a group takes the room of its longest chain of members. A
 * group's bytes count for the use of its first member. offsets may be NULL. */
static layout assign(const oc_plan_builder *b, uint64_t *offsets) {
    layout out = {{0}, {{0}}};
    const oc_buffer *x = b->buffers.data;
    const oc_buffer_id *after = b->after.data;
    for (uint32_t i = 0; i < b->buffers.count; i++) {
        if (x[i].alias) {
            bool seen = false;
            for (uint32_t j = 0; j < i && !seen; j++)
                seen = x[j].alias == x[i].alias;
            if (seen) continue;
        }
        uint64_t start = out.arena[x[i].tier], end = start;
        if (!x[i].alias) {
            end = start + footprint(&x[i]);
            if (offsets) offsets[i] = start;
        } else {
            for (uint32_t j = i; j < b->buffers.count; j++) {
                if (x[j].alias != x[i].alias) continue;
                uint64_t at = start;
                for (oc_buffer_id k = after[j]; k != OC_NO_BUFFER; k = after[k])
                    at += footprint(&x[k]);
                if (offsets) offsets[j] = at;
                end = oc_max_u64(end, at + footprint(&x[j]));
            }
        }
        out.arena[x[i].tier] = end;
        out.use[x[i].tier][x[i].use] += end - start;
    }
    return out;
}

uint64_t oc_plan_arena_bytes(const oc_plan_builder *b, oc_tier tier) {
    return assign(b, NULL).arena[tier];
}

uint64_t oc_plan_use_bytes(const oc_plan_builder *b, oc_tier tier, oc_use use) {
    return assign(b, NULL).use[tier][use];
}

uint64_t oc_plan_bytes(const oc_plan_set *s, oc_tier tier, oc_use use) {
    return s->use_bytes[tier][use];
}

/* ---- finish ---- */

static void move_plan(oc_plan_builder *b, uint32_t p, oc_plan *to) {
    memcpy(to->name, b->names[p], sizeof to->name);
    to->ops = b->ops[p].data;
    to->n_ops = b->ops[p].count;
    to->accesses = b->accesses[p].data;
    to->n_accesses = b->accesses[p].count;
    memset(&b->ops[p], 0, sizeof b->ops[p]);
    memset(&b->accesses[p], 0, sizeof b->accesses[p]);
}

oc_status oc_plan_finish(oc_plan_builder *b, oc_plan_set **out, oc_error *err) {
    if (b->failed != OC_OK) return oc_fail(err, b->failed, "%s", b->why);
    oc_plan_set *s = calloc(1, sizeof *s);
    uint64_t *offsets = calloc(b->buffers.count + 1u, sizeof *offsets);
    if (!s || !offsets) {
        free(s);
        free(offsets);
        return oc_fail(err, OC_E_MEMORY, "no memory for the plan set");
    }
    layout l = assign(b, offsets);
    memcpy(s->arena_bytes, l.arena, sizeof l.arena);
    memcpy(s->use_bytes, l.use, sizeof l.use);
    s->buffers = b->buffers.data;
    s->n_buffers = b->buffers.count;
    memset(&b->buffers, 0, sizeof b->buffers);
    s->block_pieces = b->blocks.data;
    s->n_blocks = b->blocks.count;
    memset(&b->blocks, 0, sizeof b->blocks);
    for (uint32_t i = 0; i < s->n_buffers; i++)
        s->buffers[i].offset = offsets[i];
    free(offsets);
    s->n_plans = b->n_plans;
    for (uint32_t p = 0; p < b->n_plans; p++)
        move_plan(b, p, &s->plans[p]);
    memcpy(s->signatures, b->signatures, sizeof s->signatures);
    memcpy(s->has_signature, b->has_signature, sizeof s->has_signature);
    oc_status st = oc_plan_derive(s, err);
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
        for (uint32_t q = 0; q < OC_MAX_PLANS; q++)
            free(s->pairs[p][q]);
    }
    free(s->buffers);
    free(s->block_pieces);
    free(s);
}
