/* build_buffers.c - the buffers of a training plan set, and the entry points of the builder. */
#include "base/checked.h"
#include "plan/build_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t oc_build_piece_bytes(const build *b, uint32_t block, uint32_t k, uint64_t width) {
    uint64_t piece = b->spec->place.piece_elements;
    uint64_t elements = b->spec->model->blocks[block].elements;
    return oc_min_u64(piece, elements - k * piece) * width;
}

static oc_buffer_id buffer(build *b, const char *name, oc_tier tier, oc_use use,
                           oc_buffer_life life, uint64_t bytes, uint64_t piece_bytes,
                           oc_value initial) {
    return oc_plan_buffer(b->pb, name, tier, use, life, bytes, piece_bytes, 0, initial);
}

static const oc_value none = {0};

static oc_buffer_id transient(build *b, const char *name, int32_t i, oc_tier tier, oc_use use,
                              uint64_t bytes, uint64_t piece_bytes) {
    char text[24];
    if (i < 0)
        (void)snprintf(text, sizeof text, "%s", name);
    else
        (void)snprintf(text, sizeof text, "%s%d", name, i);
    return buffer(b, text, tier, use, OC_LIFE_TRANSIENT, bytes, piece_bytes, none);
}

static const char *block_name(const oc_block *x, char *buf, size_t n) {
    static const char kinds[] = {'E', 'H', 'P', 'F', 'L', 'N'};
    (void)snprintf(buf, n, "%c%d", kinds[x->kind], x->index);
    return buf;
}

static oc_buffer_id home(build *b, const char *state, uint32_t block, oc_use use, oc_what what,
                         oc_buffer_life life, uint64_t width) {
    const oc_placement *p = &b->spec->place;
    const oc_block *x = &b->spec->model->blocks[block];
    char name[24], of[12];
    (void)snprintf(name, sizeof name, "%s.%s", state, block_name(x, of, sizeof of));
    oc_value v = life == OC_LIFE_CARRIED ? oc_build_value(what, block, 0, 0, 0) : none;
    return buffer(b, name, p->resident ? p->compute : OC_TIER_HOST, use, life, x->elements * width,
                  p->piece_elements * width, v);
}

static void homes(build *b) {
    const oc_build_spec *s = b->spec;
    for (uint32_t i = 0; i < (uint32_t)s->model->n_blocks; i++) {
        oc_build_ids *d = b->ids;
        uint64_t width = oc_dtype_bytes(s->dtype);
        d->grad[i] = d->master[i] = d->m[i] = d->v[i] = OC_NO_BUFFER;
        d->weight[i] = home(b, "weight", i, OC_USE_WEIGHTS, OC_V_WEIGHT, OC_LIFE_CARRIED, width);
        if (!s->train) continue;
        d->master[i] = s->dtype == OC_F32
                           ? d->weight[i]
                           : home(b, "master", i, OC_USE_MASTER, OC_V_MASTER, OC_LIFE_CARRIED, 4);
        if (s->has_m) d->m[i] = home(b, "m", i, OC_USE_MOMENTS, OC_V_M, OC_LIFE_CARRIED, 4);
        if (s->has_v) d->v[i] = home(b, "v", i, OC_USE_MOMENTS, OC_V_V, OC_LIFE_CARRIED, 4);
        width = oc_dtype_bytes(oc_build_grad_dtype(s, (int32_t)i));
        d->grad[i] = home(b, "grad", i, OC_USE_GRADIENTS, OC_V_GRAD, OC_LIFE_TRANSIENT, width);
        uint64_t chunks = oc_ceil_div(s->model->blocks[i].elements, OC_NORM_CHUNK);
        char name[24], of[12];
        (void)snprintf(name, sizeof name, "norm.%s",
                       block_name(&s->model->blocks[i], of, sizeof of));
        b->partials[i] = buffer(b, name, OC_TIER_HOST, OC_USE_STAGING, OC_LIFE_TRANSIENT,
                                8 * chunks, 8 * (s->place.piece_elements / OC_NORM_CHUNK), none);
    }
}

/* Blocks that a compute op reads whole, and so pass through slots. */
static uint64_t largest_moved(const oc_build_spec *s) {
    const oc_model *m = s->model;
    uint64_t most = 0;
    for (int32_t i = 0; i < m->n_blocks; i++) {
        bool table = m->blocks[i].kind == OC_BLOCK_TABLE && !m->tied;
        if (table || m->blocks[i].kind == OC_BLOCK_POSITION) continue;
        most = oc_max_u64(most, m->blocks[i].elements);
    }
    return most;
}

static void pools(build *b) {
    const oc_build_spec *s = b->spec;
    const oc_placement *p = &s->place;
    uint64_t width = oc_dtype_bytes(s->dtype), most = largest_moved(s) * width;
    uint64_t piece = p->piece_elements * width;
    for (int32_t i = 0; !p->resident && i < p->slots; i++)
        b->weights.slots[i] = transient(b, "W", i, p->compute, OC_USE_WEIGHTS, most, piece);
    uint64_t norm = s->model->blocks[s->model->final_norm_block].elements * width;
    if (!p->resident)
        b->norm_slot = transient(b, "WN", -1, p->compute, OC_USE_WEIGHTS, norm, piece);
    for (int32_t i = 0; s->train && i < p->slabs; i++)
        b->slabs[i] = transient(b, "G", i, p->compute, OC_USE_GRADIENTS, most, piece);
    if (!s->train || p->resident) return;
    uint64_t stage = oc_min_u64(piece, most);
    for (uint32_t i = 0; i < b->n_stages; i++)
        b->stages[i] = transient(b, "stage", (int32_t)i, OC_TIER_HOST, OC_USE_STAGING, stage, 0);
}

/* One contiguous matrix of rows each, so no padding between micro-batches. Without anything between
 * the rows and the first layer token and position rows have the same gradient. */
static void row_gradients(build *b) {
    const oc_build_spec *s = b->spec;
    const oc_model *m = s->model;
    oc_tier tier = s->place.resident ? s->place.compute : OC_TIER_HOST;
    uint64_t tokens = (uint64_t)(s->batch * s->seq), width = oc_dtype_bytes(s->dtype);
    uint64_t micros = (uint64_t)s->micros;
    b->row_bytes = tokens * (uint64_t)m->embed_dim * width;
    b->position_bytes = tokens * (uint64_t)m->hidden * width;
    b->drows = transient(b, "drows", -1, tier, OC_USE_STAGING, b->row_bytes * micros, b->row_bytes);
    b->dpositions = b->drows;
    if (m->front_block < 0) return;
    b->front_drows =
        transient(b, "drow", -1, s->place.compute, OC_USE_ACTIVATIONS, s->sizes.row_bytes, 0);
    if (m->position_block >= 0)
        b->dpositions = transient(b, "dpositions", -1, tier, OC_USE_STAGING,
                                  b->position_bytes * micros, b->position_bytes);
}

static void activations(build *b) {
    const oc_build_spec *s = b->spec;
    const oc_placement *p = &s->place;
    int32_t layers = s->model->n_layers, acts = layers + 1;
    oc_tier home_tier = p->act_slots ? OC_TIER_HOST : p->compute;
    const oc_use use = OC_USE_ACTIVATIONS;
    for (int32_t g = 0; g < oc_build_sets(s); g++) {
        for (int32_t l = 0; l < acts; l++)
            b->acts[g * acts + l] =
                transient(b, "act", g * acts + l, home_tier, use, s->sizes.act_bytes, 0);
        for (int32_t l = 0; s->train && l < p->kept_layers; l++)
            b->saves[g * p->kept_layers + l] = transient(b, "save", g * p->kept_layers + l,
                                                         p->compute, use, s->sizes.save_bytes, 0);
        if (s->train) b->ds[g] = transient(b, "d", g, p->compute, use, s->sizes.act_bytes, 0);
    }
    for (int32_t i = 0; i < p->act_slots; i++)
        b->act_cache.slots[i] = transient(b, "A", i, p->compute, use, s->sizes.act_bytes, 0);
    b->rows = transient(b, "rows", -1, p->compute, use, s->sizes.row_bytes, 0);
    if (s->model->position_block >= 0)
        b->position_rows = transient(b, "positions", -1, p->compute, use, s->sizes.act_bytes, 0);
    if (s->train) row_gradients(b);
}

/* A layer's work and the head's never live at the same time: one group. */
static void workspace(build *b) {
    const oc_build_spec *s = b->spec;
    oc_tier tier = s->place.compute;
    enum { GROUP = 1 };
    const oc_use use = OC_USE_WORKSPACE;
    const oc_buffer_life t = OC_LIFE_TRANSIENT;
    b->work = oc_plan_buffer(b->pb, "work", tier, use, t, s->sizes.work_bytes, 0, GROUP, none);
    /* Layers that recompute are done before the first kept layer saves, and start after it was
     * used: they borrow its place. */
    if (s->train && s->place.kept_layers > 0 && !s->place.interleave) {
        b->save_scratch = b->saves[0];
    } else {
        b->save_scratch =
            oc_plan_buffer(b->pb, "recompute", tier, use, t, s->sizes.save_bytes, 0, GROUP, none);
        oc_plan_place_after(b->pb, b->save_scratch, b->work);
    }
    b->head_work =
        oc_plan_buffer(b->pb, "head", tier, use, t, s->sizes.head_work_bytes, 0, GROUP, none);
    oc_buffer_id before = b->head_work;
    for (int32_t g = 0; g < oc_build_sets(s); g++) {
        char name[24];
        (void)snprintf(name, sizeof name, "state%d", g);
        b->states[g] =
            oc_plan_buffer(b->pb, name, tier, use, t, s->sizes.head_state_bytes, 0, GROUP, none);
        oc_plan_place_after(b->pb, b->states[g], before);
        before = b->states[g];
    }
    b->ids->scratch = transient(b, "scratch", -1, tier, use, s->sizes.scratch_bytes, 0);
}

static void cells(build *b) {
    const oc_build_spec *s = b->spec;
    uint64_t tokens = (uint64_t)(s->batch * s->seq), micros = (uint64_t)s->micros;
    uint64_t piece = oc_align_up(OC_BATCH_ARRAYS * 4 * tokens, 64);
    const oc_use use = OC_USE_STAGING;
    const oc_buffer_life fresh = OC_LIFE_SUBMISSION;
    oc_build_ids *d = b->ids;
    d->batch = buffer(b, "batch", OC_TIER_HOST, use, fresh, piece * micros, piece,
                      oc_build_value(OC_V_BATCH, 0, OC_EACH_MICRO, 0, 0));
    d->control = buffer(b, "control", OC_TIER_HOST, use, fresh, sizeof(oc_control_cell), 0,
                        oc_build_value(OC_V_CELL, 1, 0, 0, 0));
    d->losses = buffer(b, "losses", OC_TIER_HOST, use, fresh, 8 * micros, 8,
                       oc_build_value(OC_V_CELL, 3, 0, 0, 0));
    d->order = d->result = d->carry = OC_NO_BUFFER;
    if (!s->place.resident)
        b->batch_copy = transient(b, "batch.dev", -1, s->place.compute, use,
                                  piece * (uint64_t)oc_build_sets(s), piece);
    if (!s->train) return;
    d->order = buffer(b, "order", OC_TIER_HOST, use, fresh, 4 * 4 * tokens * micros, 0,
                      oc_build_value(OC_V_BATCH, 1, 0, 0, 0));
    d->result = buffer(b, "result", OC_TIER_HOST, use, fresh, sizeof(oc_result_cell), 0,
                       oc_build_value(OC_V_CELL, 4, 0, 0, 0));
    d->carry = buffer(b, "carry", OC_TIER_HOST, use, OC_LIFE_CARRIED, sizeof(oc_carry_cell), 0,
                      oc_build_value(OC_V_CELL, 5, 0, 0, 0));
}

#define BIT(r) (1u << OC_ROLE_##r)

/* Ops of a micro-batch: skipped when it has no rows, and bound to the op's block and micro-batch.
 */
#define OF_MICRO                                                                                   \
    .optional = BIT(CELLS_IN), .whole = BIT(WEIGHT) | BIT(GRAD_OUT),                               \
    .own_block = BIT(WEIGHT) | BIT(GRAD_OUT), .own_micro = BIT(BATCH) | BIT(IN) | BIT(GRAD_OUT),   \
    .pred = OC_PRED_MICRO
/* Folds: piece by piece, never skipped unless they say so. */
#define OF_PIECE .single = BIT(GRAD) | BIT(PARTIALS), .own_block = BIT(GRAD) | BIT(SRC)

static const struct {
    oc_body_id body;
    oc_signature sig;
} signature_table[] = {
    {OC_BODY_COPY,
     {.reads = BIT(SRC),
      .writes = BIT(DST),
      .optional = BIT(CELLS_IN),
      .single = BIT(SRC),
      .own_block = BIT(SRC) | BIT(DST),
      .pred = OC_PRED_MICRO_MAY}},
    {OC_BODY_FETCH_ROWS,
     {.reads = BIT(SRC) | BIT(BATCH),
      .writes = BIT(ROWS),
      .optional = BIT(CELLS_IN),
      .many = BIT(SRC),
      .own_block = BIT(ROWS),
      .own_micro = BIT(BATCH) | BIT(ROWS),
      .pred = OC_PRED_MICRO}},
    {OC_BODY_EMBED, {.reads = BIT(ROWS), .writes = BIT(OUT), OF_MICRO}},
    {OC_BODY_EMBED_POSITIONS,
     {.reads = BIT(ROWS) | BIT(POSITION_ROWS), .writes = BIT(OUT), OF_MICRO}},
    {OC_BODY_FRONT_FORWARD,
     {.reads = BIT(WEIGHT) | BIT(ROWS), .writes = BIT(OUT) | BIT(WORK), OF_MICRO}},
    {OC_BODY_FRONT_POSITIONS,
     {.reads = BIT(WEIGHT) | BIT(ROWS) | BIT(POSITION_ROWS),
      .writes = BIT(OUT) | BIT(WORK),
      OF_MICRO}},
    {OC_BODY_LAYER_FORWARD,
     {.reads = BIT(WEIGHT) | BIT(IN) | BIT(BATCH),
      .writes = BIT(OUT) | BIT(SAVE) | BIT(WORK),
      OF_MICRO}},
    {OC_BODY_FINAL_FORWARD, {.reads = BIT(WEIGHT) | BIT(IN), .writes = BIT(STATE), OF_MICRO}},
    {OC_BODY_HEAD_FORWARD,
     {.reads = BIT(WEIGHT) | BIT(BATCH), .writes = BIT(WORK), .folds = BIT(STATE), OF_MICRO}},
    {OC_BODY_LOSS, {.reads = BIT(BATCH), .writes = BIT(CELLS_OUT), .folds = BIT(STATE), OF_MICRO}},
    {OC_BODY_HEAD_BACKWARD,
     {.reads = BIT(WEIGHT) | BIT(BATCH) | BIT(CARRY),
      .writes = BIT(WORK) | BIT(GRAD_OUT),
      .folds = BIT(STATE),
      OF_MICRO}},
    {OC_BODY_FINAL_BACKWARD,
     {.reads = BIT(WEIGHT) | BIT(IN),
      .writes = BIT(D) | BIT(GRAD_OUT),
      .folds = BIT(STATE),
      OF_MICRO}},
    {OC_BODY_LAYER_BACKWARD,
     {.reads = BIT(WEIGHT) | BIT(IN) | BIT(BATCH),
      .writes = BIT(WORK) | BIT(GRAD_OUT),
      .folds = BIT(D) | BIT(SAVE),
      OF_MICRO}},
    {OC_BODY_LAYER_RECOMPUTE,
     {.reads = BIT(WEIGHT) | BIT(IN) | BIT(BATCH),
      .writes = BIT(WORK) | BIT(GRAD_OUT) | BIT(SAVE),
      .folds = BIT(D),
      OF_MICRO}},
    {OC_BODY_FRONT_BACKWARD,
     {.reads = BIT(WEIGHT) | BIT(ROWS) | BIT(D),
      .writes = BIT(OUT) | BIT(WORK) | BIT(GRAD_OUT),
      OF_MICRO}},
    {OC_BODY_SCALE_ROWS, {.folds = BIT(D), OF_MICRO}},
    {OC_BODY_FOLD,
     {.reads = BIT(SRC),
      .folds = BIT(GRAD),
      .optional = BIT(CELLS_IN),
      .own_micro = BIT(SRC),
      .pred = OC_PRED_MICRO,
      OF_PIECE}},
    {OC_BODY_FOLD_LAST,
     {.reads = BIT(SRC) | BIT(CELLS_IN),
      .writes = BIT(PARTIALS),
      .folds = BIT(GRAD),
      .own_micro = BIT(SRC),
      .tolerant = BIT(SRC),
      .pred = OC_PRED_NEVER,
      OF_PIECE}},
    {OC_BODY_FOLD_FIRST,
     {.reads = BIT(SRC),
      .writes = BIT(GRAD),
      .optional = BIT(PARTIALS),
      .own_micro = BIT(SRC),
      .pred = OC_PRED_NEVER,
      OF_PIECE}},
    {OC_BODY_FOLD_IN_PLACE,
     {.folds = BIT(GRAD), .optional = BIT(PARTIALS), .pred = OC_PRED_NEVER, OF_PIECE}},
    {OC_BODY_FOLD_ROWS,
     {.reads = BIT(SRC) | BIT(BATCH) | BIT(CELLS_IN),
      .writes = BIT(PARTIALS),
      .folds = BIT(GRAD),
      .whole = BIT(GRAD) | BIT(PARTIALS),
      .full = BIT(SRC),
      .own_block = BIT(GRAD),
      .tolerant = BIT(SRC),
      .pred = OC_PRED_NEVER}},
    {OC_BODY_FOLD_ROWS_FIRST,
     {.reads = BIT(SRC) | BIT(BATCH) | BIT(CELLS_IN),
      .writes = BIT(PARTIALS) | BIT(GRAD),
      .whole = BIT(GRAD) | BIT(PARTIALS),
      .full = BIT(SRC),
      .own_block = BIT(GRAD),
      .tolerant = BIT(SRC),
      .pred = OC_PRED_NEVER}},
    {OC_BODY_NORM,
     {.reads = BIT(PARTIALS) | BIT(CELLS_IN) | BIT(STATE),
      .writes = BIT(CELLS_OUT),
      .folds = BIT(CARRY),
      .many = BIT(PARTIALS),
      .full = BIT(PARTIALS) | BIT(STATE),
      .tolerant = BIT(STATE),
      .pred = OC_PRED_NEVER}},
    {OC_BODY_UPDATE,
     {.reads = BIT(GRAD) | BIT(CELLS_IN),
      .folds = BIT(MASTER),
      .optional = BIT(M) | BIT(V) | BIT(COPY),
      .single = BIT(GRAD) | BIT(MASTER) | BIT(M) | BIT(V) | BIT(COPY),
      .own_block = BIT(GRAD) | BIT(MASTER) | BIT(M) | BIT(V) | BIT(COPY),
      .pred = OC_PRED_ALWAYS}},
    {OC_BODY_POISON, {.writes = BIT(DST), .pred = OC_PRED_NEVER}},
};

static void signatures(build *b) {
    for (size_t i = 0; i < sizeof signature_table / sizeof *signature_table; i++) {
        oc_signature g = signature_table[i].sig;
        bool finite = g.pred == OC_PRED_ALWAYS;
        g.pred_buffer = finite ? b->ids->result : b->ids->control;
        g.pred_base = (uint32_t)(finite ? offsetof(oc_result_cell, finite)
                                        : offsetof(oc_control_cell, live)) /
                      4;
        oc_plan_signature(b->pb, (uint16_t)signature_table[i].body, g);
    }
    for (int32_t i = 0; i < b->spec->model->n_blocks; i++)
        oc_plan_blocks(b->pb, (uint32_t)oc_ceil_div(b->spec->model->blocks[i].elements,
                                                    b->spec->place.piece_elements));
}

/* ---- life of a build ---- */

static void release(build *b) {
    free(b->weights.slots);
    free(b->weights.content);
    free(b->weights.used);
    free(b->weights.trace);
    free(b->act_cache.slots);
    free(b->act_cache.content);
    free(b->act_cache.used);
    free(b->act_cache.trace);
    free(b->slabs);
    free(b->stages);
    free(b->partials);
    free(b->acts);
    free(b->saves);
    free(b->states);
    free(b->ds);
    oc_plan_builder_free(b->pb);
}

static void *ids_of(build *b, int64_t n) {
    void *p = calloc((size_t)n + 1, sizeof(oc_value));
    if (!p) b->failed = true;
    return p;
}

/* Half of the slots take turns, the others keep what is wanted soonest: with fewer than three in
 * turn the link waits whenever an op takes longer than its share, and more than five gain nothing.
 * Those in turn are one more than the uses between. */
static uint32_t weights_apart(int32_t slots) { return slots < 8 ? (uint32_t)slots / 2 : 4; }

static void allocate(build *b) {
    const oc_build_spec *s = b->spec;
    const oc_placement *p = &s->place;
    int64_t layers = s->model->n_layers, blocks = s->model->n_blocks;
    b->n_stages = (uint32_t)(2 * p->slabs > 4 ? 2 * p->slabs : 4);
    b->weights.slots = ids_of(b, p->slots);
    b->weights.content = ids_of(b, p->slots);
    b->weights.used = ids_of(b, p->slots);
    b->weights.n = p->resident ? 0 : p->slots;
    b->weights.apart = weights_apart(p->slots);
    b->act_cache.slots = ids_of(b, p->act_slots);
    b->act_cache.content = ids_of(b, p->act_slots);
    b->act_cache.used = ids_of(b, p->act_slots);
    b->act_cache.n = p->act_slots;
    b->act_cache.apart = 1;
    b->slabs = ids_of(b, p->slabs);
    b->stages = ids_of(b, b->n_stages);
    b->partials = ids_of(b, blocks);
    b->acts = ids_of(b, oc_build_sets(s) * (layers + 1));
    b->saves = ids_of(b, (int64_t)oc_build_sets(s) * p->kept_layers);
    b->states = ids_of(b, oc_build_sets(s));
    b->ds = ids_of(b, oc_build_sets(s));
    b->ids->weight = ids_of(b, blocks);
    b->ids->grad = ids_of(b, blocks);
    b->ids->master = ids_of(b, blocks);
    b->ids->m = ids_of(b, blocks);
    b->ids->v = ids_of(b, blocks);
}

static oc_status check(const oc_build_spec *s, oc_error *err) {
    const oc_placement *p = &s->place;
    if (s->micros < 1 || s->micros > OC_MAX_MICROS)
        return oc_fail(err, OC_E_INVALID, "a step has 1 to %d micro-batches, not %d", OC_MAX_MICROS,
                       s->micros);
    if (p->piece_elements == 0 || p->piece_elements % OC_NORM_CHUNK)
        return oc_fail(err, OC_E_INVALID, "pieces are multiples of %d elements", OC_NORM_CHUNK);
    if (p->group < 1 || p->group > s->micros)
        return oc_fail(err, OC_E_INVALID, "a group has 1 to %d micro-batches, not %d", s->micros,
                       p->group);
    if (p->interleave && p->group != 1)
        return oc_fail(err, OC_E_INVALID, "interleaved micro-batches are in groups of 1, not %d",
                       p->group);
    if (p->kept_layers < 0 || p->kept_layers > s->model->n_layers)
        return oc_fail(err, OC_E_INVALID, "the model has %d layers, not %d to keep",
                       s->model->n_layers, p->kept_layers);
    if ((!p->resident && p->slots < 1) || p->slabs < 1 || p->act_slots < 0 || p->act_slots == 1)
        return oc_fail(err, OC_E_INVALID,
                       "at least 1 weight slot, 1 gradient slab, and 0 or 2 and "
                       "more activation slots are needed");
    return OC_OK;
}

static oc_status open_build(build *b, const oc_build_spec *spec, oc_build_ids *ids, oc_error *err) {
    memset(b, 0, sizeof *b);
    memset(ids, 0, sizeof *ids);
    b->spec = spec;
    b->ids = ids;
    OC_TRY(check(spec, err));
    OC_TRY(oc_plan_builder_new(&b->pb, err));
    allocate(b);
    if (b->failed) return oc_fail(err, OC_E_MEMORY, "no memory to build the plan");
    homes(b);
    pools(b);
    activations(b);
    workspace(b);
    cells(b);
    signatures(b);
    return OC_OK;
}

static void rewind_caches(build *b, bool forget) {
    cache *caches[2] = {&b->weights, &b->act_cache};
    for (int i = 0; i < 2; i++) {
        memset(caches[i]->content, 0, (size_t)caches[i]->n * sizeof(oc_value));
        memset(caches[i]->used, 0, (size_t)caches[i]->n * sizeof(uint32_t));
        caches[i]->cursor = 0;
        if (forget) caches[i]->trace_count = 0;
    }
    b->next_slab = b->next_stage = 0;
    b->norm_there = false;
    memset(b->head_stage, 0, sizeof b->head_stage);
}

static void plan(build *b, const char *name, bool training) {
    rewind_caches(b, true);
    b->dry = true;
    oc_build_ops(b, training);
    rewind_caches(b, false);
    b->dry = false;
    oc_plan_begin(b->pb, name);
    oc_build_ops(b, training);
}

oc_status oc_build(const oc_build_spec *spec, oc_plan_set **out, oc_build_ids *ids, oc_error *err) {
    build *b = malloc(sizeof *b);
    if (!b) return oc_fail(err, OC_E_MEMORY, "no memory to build the plan");
    oc_status st = open_build(b, spec, ids, err);
    ids->step_plan = ids->eval_plan = -1;
    if (st == OC_OK) {
        int32_t n = 0;
        if (spec->train) {
            ids->step_plan = n++;
            plan(b, "step", true);
        }
        if (spec->with_eval || !spec->train) {
            ids->eval_plan = n;
            plan(b, "eval", false);
        }
        if (b->failed) st = oc_fail(err, OC_E_MEMORY, "no memory to build the plan");
    }
    if (st == OC_OK) st = oc_plan_finish(b->pb, out, err);
    release(b);
    free(b);
    if (st != OC_OK) oc_build_ids_release(ids);
    return st;
}

void oc_build_ids_release(oc_build_ids *ids) {
    if (!ids) return;
    free(ids->weight);
    free(ids->grad);
    free(ids->master);
    free(ids->m);
    free(ids->v);
    memset(ids, 0, sizeof *ids);
}

oc_status oc_build_measure(const oc_build_spec *spec, oc_tier tier, uint64_t *bytes,
                           uint64_t *by_use, oc_error *err) {
    build *b = malloc(sizeof *b);
    oc_build_ids ids;
    if (!b) return oc_fail(err, OC_E_MEMORY, "no memory to build the plan");
    oc_status st = open_build(b, spec, &ids, err);
    if (st == OC_OK) {
        *bytes = oc_plan_arena_bytes(b->pb, tier);
        for (int u = 0; by_use && u < OC_USE_COUNT; u++)
            by_use[u] = oc_plan_use_bytes(b->pb, tier, (oc_use)u);
    }
    release(b);
    free(b);
    oc_build_ids_release(&ids);
    return st;
}
