/* buffers.c - the buffers of a set: homes, slots, activations, workspace, cells. */
#include "build/internal.h"

#include "base/checked.h"

#include <stddef.h>
#include <stdio.h>

static const oc_value none = {0};

static oc_buffer_id buffer(build *b, const char *name, oc_tier tier, oc_use use,
                           oc_buffer_life life, uint64_t bytes, uint64_t piece_bytes,
                           oc_value initial) {
    return oc_plan_buffer(b->pb, name, tier, use, life, bytes, piece_bytes, 0, initial);
}

static oc_buffer_id transient(build *b, const char *name, int32_t i, oc_tier tier, oc_use use,
                              uint64_t bytes, uint64_t piece_bytes) {
    char text[24];
    if (i < 0)
        (void)snprintf(text, sizeof text, "%s", name);
    else
        (void)snprintf(text, sizeof text, "%s%d", name, i);
    return buffer(b, text, tier, use, OC_LIFE_TRANSIENT, bytes, piece_bytes, none);
}

static uint64_t piece_bytes(const build *b, uint64_t width) {
    return b->spec->place.piece_elements * width;
}

/* Where the gradient of the embedding's and the positions' rows goes. */
static oc_tier rows_tier(const build *b) {
    return oc_build_homes(b->spec, (uint32_t)b->spec->model->first_table).optimizer;
}

/* ---- homes ---- */

static const char *block_name(const char *state, const oc_block *x, char *buf, size_t n) {
    static const char kinds[] = {'E', 'H', 'P', 'F', 'L', 'N'};
    (void)snprintf(buf, n, "%s.%c%d", state, kinds[x->kind], x->index);
    return buf;
}

static oc_buffer_id home(build *b, const char *state, uint32_t block, oc_tier tier, oc_use use,
                         oc_what what) {
    const oc_block *x = &b->spec->model->blocks[block];
    oc_value v = oc_state_value(b->spec, what, block, 0);
    uint64_t width = oc_format_bits((oc_format)v.format) / 8;
    char name[24];
    return buffer(b, block_name(state, x, name, sizeof name), tier, use, OC_LIFE_CARRIED,
                  x->elements * width, piece_bytes(b, width), v);
}

static oc_buffer_id partial(build *b, const char *state, uint32_t block, oc_tier tier) {
    const oc_block *x = &b->spec->model->blocks[block];
    uint64_t chunks = oc_ceil_div(x->elements, OC_NORM_CHUNK);
    char name[24];
    return buffer(b, block_name(state, x, name, sizeof name), tier, OC_USE_STAGING,
                  OC_LIFE_TRANSIENT, 8 * chunks,
                  8 * (b->spec->place.piece_elements / OC_NORM_CHUNK), none);
}

static oc_buffer_id grad_home(build *b, uint32_t block) {
    const oc_build_spec *s = b->spec;
    const oc_block *x = &s->model->blocks[block];
    uint64_t width = oc_dtype_bytes(oc_build_grad_dtype(s, (int32_t)block));
    char name[24];
    if (!oc_build_has_grad_home(s, block)) return OC_NO_BUFFER;
    return buffer(b, block_name("grad", x, name, sizeof name), oc_build_homes(s, block).optimizer,
                  OC_USE_GRADIENTS, OC_LIFE_TRANSIENT, x->elements * width, piece_bytes(b, width),
                  none);
}

static void train_homes(build *b, uint32_t i) {
    const oc_build_spec *s = b->spec;
    oc_build_ids *d = b->ids;
    oc_tier tier = oc_build_homes(s, i).optimizer;
    bool one = s->dtype == OC_F32 && !oc_build_publishes(s, i);
    for (int k = 0; k < STATE_ROWS; k++) {
        const state_row *r = &oc_state_rows[k];
        oc_buffer_id *id = &oc_state_ids(d, r)[i];
        if (k == 0 && one)
            *id = d->weight[i];
        else if (r->kept(s))
            *id = home(b, r->name, i, tier, r->use, r->what);
    }
    d->grad[i] = grad_home(b, i);
    b->partials[i] = partial(b, "norm", i, OC_TIER_HOST);
    if (tier != OC_TIER_HOST) b->device_partials[i] = partial(b, "norm.dev", i, tier);
}

static void homes(build *b) {
    const oc_build_spec *s = b->spec;
    oc_build_ids *d = b->ids;
    for (uint32_t i = 0; i < (uint32_t)s->model->n_blocks; i++) {
        d->grad[i] = OC_NO_BUFFER;
        for (int k = 0; k < STATE_ROWS; k++)
            oc_state_ids(d, &oc_state_rows[k])[i] = OC_NO_BUFFER;
        b->partials[i] = b->device_partials[i] = OC_NO_BUFFER;
        oc_tier tier = oc_build_homes(s, i).weight;
        d->weight[i] = home(b, "weight", i, tier, OC_USE_WEIGHTS, OC_V_WEIGHT);
        if (s->train && oc_build_trains(s, i)) train_homes(b, i);
    }
    uint64_t table = 4 * (uint64_t)s->model->n_inv_freq;
    d->table = table ? buffer(b, "table", s->place.compute, OC_USE_WEIGHTS, OC_LIFE_CARRIED, table,
                              0, oc_value_of(OC_V_CONST, 0, 0, 0))
                     : OC_NO_BUFFER;
}

/* ---- slots ---- */

/* Of the blocks that a compute op reads whole, the largest for which something holds: their weights
 * pass through slots, their gradients through slabs. */
static uint64_t largest(const oc_build_spec *s, bool (*is)(const oc_build_spec *, uint32_t)) {
    const oc_model *m = s->model;
    uint64_t most = 0;
    for (int32_t i = 0; i < m->n_blocks; i++) {
        bool table = m->blocks[i].kind == OC_BLOCK_TABLE && !m->tied;
        if (table || m->blocks[i].kind == OC_BLOCK_POSITION || !is(s, (uint32_t)i)) continue;
        most = oc_max_u64(most, m->blocks[i].elements);
    }
    return most;
}

/* New weights on their way from a tier, a piece at a time. */
static void publish_stages(build *b) {
    const oc_build_spec *s = b->spec;
    uint64_t width = oc_dtype_bytes(s->dtype), most[OC_TIER_COUNT] = {0};
    for (uint32_t i = 0; s->train && i < (uint32_t)s->model->n_blocks; i++) {
        if (!oc_build_publishes(s, i)) continue;
        uint64_t *x = &most[oc_build_homes(s, i).optimizer];
        *x = oc_max_u64(*x, s->model->blocks[i].elements * width);
    }
    for (int t = 0; t < OC_TIER_COUNT; t++)
        for (int32_t k = 0; most[t] && k < PUBLISH_STAGES; k++)
            b->published[k][t] =
                transient(b, t == OC_TIER_HOST ? "new" : "new.dev", k, (oc_tier)t, OC_USE_STAGING,
                          oc_min_u64(piece_bytes(b, width), most[t]), piece_bytes(b, width));
}

/* Early: of those whose rows have no gradient at home. */
static uint64_t largest_row_block(const oc_build_spec *s) {
    const oc_model *m = s->model;
    uint64_t most = 0;
    for (int32_t i = 0; i < m->n_blocks; i++) {
        bool rows = m->blocks[i].kind == OC_BLOCK_TABLE || m->blocks[i].kind == OC_BLOCK_POSITION;
        if (rows && oc_build_trains(s, (uint32_t)i) && !oc_build_has_grad_home(s, (uint32_t)i))
            most = oc_max_u64(most, m->blocks[i].elements);
    }
    return most;
}

static void stages(build *b, uint64_t most, uint64_t piece) {
    uint64_t bytes = oc_min_u64(piece * oc_build_retire_run(b->spec), most);
    for (uint32_t i = 0; i < b->n_stages; i++)
        b->stages[i] =
            transient(b, "stage", (int32_t)i, OC_TIER_HOST, OC_USE_STAGING, bytes, piece);
}

/* Of what comes over the host: a run of a transfer each. */
static void route_stops(build *b, uint64_t piece) {
    const oc_build_spec *s = b->spec;
    uint64_t width = oc_dtype_bytes(s->dtype), most = largest(s, oc_build_stops_over) * width;
    if (!oc_build_any(s, oc_build_stops_over)) return;
    for (int32_t i = 0; i < ROUTE_STOPS; i++)
        b->stops[i] = transient(b, "stop", i, OC_TIER_HOST, OC_USE_STAGING,
                                oc_min_u64(piece * oc_build_fetch_run(s), most), piece);
}

static void weight_slots(build *b, uint64_t piece) {
    static const char *const names[SIZE_CLASSES] = {"W", "WS", "WT"}; /* large, small, tiny */
    const oc_build_spec *s = b->spec;
    for (int k = 0; k < SIZE_CLASSES; k++) {
        uint64_t elements;
        int32_t n = oc_weights_slots(b, k, &elements);
        for (int32_t i = 0; i < n; i++)
            b->weights[k].slots[i] = transient(b, names[k], i, s->place.compute, OC_USE_WEIGHTS,
                                               elements * oc_dtype_bytes(s->dtype), piece);
    }
}

static void pools(build *b) {
    const oc_build_spec *s = b->spec;
    const oc_placement *p = &s->place;
    uint64_t width = oc_dtype_bytes(s->dtype), piece = piece_bytes(b, width);
    uint64_t slab = largest(s, oc_build_trains) * width;
    weight_slots(b, piece);
    for (int32_t i = 0; s->train && i < p->slabs; i++)
        b->slabs[i] = transient(b, "G", i, p->compute, OC_USE_GRADIENTS, slab, piece);
    if (s->train && oc_build_any(s, oc_build_retires)) stages(b, slab, piece);
    publish_stages(b);
    route_stops(b, piece);
    uint64_t rows = s->train && p->early ? largest_row_block(s) : 0;
    if (rows)
        b->row_grads = transient(b, "rowgrad", -1, rows_tier(b), OC_USE_GRADIENTS, 4 * rows,
                                 piece_bytes(b, 4));
}

/* ---- activations ---- */

/* One contiguous matrix of rows each, so no padding between micro-batches. Without anything between
 * the rows and the first layer token and position rows have the same gradient. */
static void row_gradients(build *b) {
    const oc_build_spec *s = b->spec;
    const oc_model *m = s->model;
    oc_tier tier = rows_tier(b);
    uint64_t tokens = (uint64_t)(s->batch * s->seq), width = oc_dtype_bytes(s->dtype);
    uint64_t n = (uint64_t)oc_build_order_micros(s);
    b->row_bytes = tokens * (uint64_t)m->embed_dim * width;
    b->position_bytes = tokens * (uint64_t)m->hidden * width;
    b->drows = transient(b, "drows", -1, tier, OC_USE_STAGING, b->row_bytes * n, b->row_bytes);
    b->dpositions = b->drows;
    if (m->front_block < 0) return;
    b->front_drows =
        transient(b, "drow", -1, s->place.compute, OC_USE_ACTIVATIONS, s->sizes.row_bytes, 0);
    if (m->position_block >= 0)
        b->dpositions = transient(b, "dpositions", -1, tier, OC_USE_STAGING, b->position_bytes * n,
                                  b->position_bytes);
}

enum { WORK_GROUP = 1, ROW_GROUP = 2 };

/* Where activations pass through slots, memory of their size is scarce: rows are in use before the
 * first layer's forward, and d from the last one's backward on, so that one place serves both. A
 * front block's backward has rows and d together, and a turn fetches rows beside a backward. */
static uint32_t row_group(const oc_build_spec *s) {
    bool scarce = s->train && s->place.act_slots > 0;
    return scarce && !s->place.interleave && s->model->front_block < 0 ? ROW_GROUP : 0;
}

static void rows_and_gradients(build *b) {
    const oc_build_spec *s = b->spec;
    const oc_build_sizes *z = &s->sizes;
    const oc_buffer_life life = OC_LIFE_TRANSIENT;
    oc_tier tier = s->place.compute;
    for (int32_t g = 0; s->train && g < oc_build_sets(s); g++) {
        char name[24];
        (void)snprintf(name, sizeof name, "d%d", g);
        b->ds[g] = oc_plan_buffer(b->pb, name, tier, OC_USE_ACTIVATIONS, life, z->act_bytes, 0,
                                  g ? 0 : row_group(s), none);
    }
    b->rows = oc_plan_buffer(b->pb, "rows", tier, OC_USE_ACTIVATIONS, life, z->row_bytes, 0,
                             row_group(s), none);
}

/* From forward to backward, of each micro-batch that is on its way. */
static void kept(build *b, oc_saved v) {
    const oc_build_spec *s = b->spec;
    int32_t n = oc_build_kept(s, v) * oc_build_sets(s);
    for (int32_t i = 0; i < n; i++)
        b->saved[v][i] = transient(b, oc_saved_name(v), i, s->place.compute, OC_USE_ACTIVATIONS,
                                   s->sizes.saved_bytes[v], 0);
}

/* The same on the host, with slots that they pass through. */
static void waiting(build *b, oc_saved v) {
    const oc_build_spec *s = b->spec;
    int32_t n = oc_build_away_saved(s, v) * oc_build_sets(s);
    uint64_t bytes = s->sizes.saved_bytes[v];
    char name[24];
    (void)snprintf(name, sizeof name, "%s.host", oc_saved_name(v));
    for (int32_t i = 0; i < n; i++)
        b->waiting[v][i] = transient(b, name, i, OC_TIER_HOST, OC_USE_ACTIVATIONS, bytes, 0);
    (void)snprintf(name, sizeof name, "%s.slot", oc_saved_name(v));
    for (int32_t i = 0; n && i < PASSING_SLOTS; i++)
        b->passing[v][i] = transient(b, name, i, s->place.compute, OC_USE_STAGING, bytes, 0);
}

static void activations(build *b) {
    const oc_build_spec *s = b->spec;
    const oc_placement *p = &s->place;
    int32_t acts = (int32_t)oc_acts_places(s);
    oc_tier home = p->act_slots ? OC_TIER_HOST : p->compute;
    const oc_use use = OC_USE_ACTIVATIONS;
    for (int32_t i = 0; i < oc_build_sets(s) * acts; i++)
        b->acts[i] = transient(b, "act", i, home, use, s->sizes.act_bytes, 0);
    for (int v = 0; v < OC_SAVED_COUNT; v++)
        kept(b, (oc_saved)v);
    for (int v = 0; v < OC_SAVED_COUNT; v++)
        waiting(b, (oc_saved)v);
    for (int32_t i = 0; i < p->act_slots; i++)
        b->act_slots.slots[i] = transient(b, "A", i, p->compute, use, s->sizes.act_bytes, 0);
    rows_and_gradients(b);
    if (s->model->position_block >= 0)
        b->position_rows = transient(b, "positions", -1, p->compute, use, s->sizes.act_bytes, 0);
    if (s->train) row_gradients(b);
}

/* ---- workspace ---- */

/* In the group of layers' work and the head's, which never live at the same time. */
static oc_buffer_id shared(build *b, const char *name, int32_t i, oc_use use, uint64_t bytes,
                           oc_buffer_id before) {
    char text[24];
    if (i < 0)
        (void)snprintf(text, sizeof text, "%s", name);
    else
        (void)snprintf(text, sizeof text, "%s%d", name, i);
    oc_buffer_id id = oc_plan_buffer(b->pb, text, b->spec->place.compute, use, OC_LIFE_TRANSIENT,
                                     bytes, 0, WORK_GROUP, none);
    if (before != OC_NO_BUFFER) oc_plan_place_after(b->pb, id, before);
    return id;
}

/* Whether a value needs a place in layers that do not keep it: all that parts pass on do, and what
 * a backward reads; UP does not. */
static bool needs_scratch(const oc_build_spec *s, oc_saved v) {
    bool all = oc_build_kept(s, v) + oc_build_away_saved(s, v) == s->model->n_layers;
    if (v == OC_SAVED_UP) return false;
    if (v == OC_SAVED_MLP)
        return s->train && !all && oc_program_backward_reads(&s->model->decoder, v);
    return !all || s->with_eval;
}

/* Layers that do not keep a value are done before the first that does makes it, and start again
 * after it was used: they borrow its place. */
static void layer_work(build *b) {
    const oc_build_spec *s = b->spec;
    b->work = shared(b, "work", -1, OC_USE_WORKSPACE, s->sizes.work_bytes, OC_NO_BUFFER);
    oc_buffer_id before = b->work;
    for (int v = 0; v < OC_SAVED_COUNT; v++) {
        char name[24];
        b->saved_scratch[v] = OC_NO_BUFFER;
        if (!needs_scratch(s, (oc_saved)v)) continue;
        if (oc_build_away_saved(s, (oc_saved)v) > 0) {
            b->saved_scratch[v] = b->passing[v][0];
            continue;
        }
        if (oc_build_kept(s, (oc_saved)v) > 0 && !s->place.interleave) {
            b->saved_scratch[v] = b->saved[v][0];
            continue;
        }
        (void)snprintf(name, sizeof name, "%s.again", oc_saved_name((oc_saved)v));
        before = b->saved_scratch[v] =
            shared(b, name, -1, OC_USE_WORKSPACE, s->sizes.saved_bytes[v], before);
    }
}

/* Logits live between the head's forward and its backward, when no layer works. */
static void head_work(build *b) {
    const oc_build_spec *s = b->spec;
    const oc_model *m = s->model;
    int32_t sets = oc_build_sets(s), logits = s->train ? s->place.kept_logits : 0;
    if (oc_build_passes(s)) { /* the final norm reads what layers made, and works itself */
        for (int32_t g = 0; g < sets; g++)
            b->states[g] = transient(b, "state", g, s->place.compute, OC_USE_WORKSPACE,
                                     s->sizes.head_state_bytes, 0);
        return;
    }
    b->head_work = shared(b, "head", -1, OC_USE_WORKSPACE, s->sizes.head_work_bytes, OC_NO_BUFFER);
    oc_buffer_id before = b->head_work;
    for (int32_t g = 0; g < sets; g++)
        before = b->states[g] =
            shared(b, "state", g, OC_USE_WORKSPACE, s->sizes.head_state_bytes, before);
    for (int32_t i = 0; i < (s->place.interleave ? 1 : sets) * logits; i++) {
        int64_t rows = m->blocks[m->first_head + m->n_head - logits + i % logits].rows;
        before = b->logits[i] =
            shared(b, "logits", i, OC_USE_ACTIVATIONS, oc_build_logits_bytes(s, rows), before);
    }
}

static void workspace(build *b) {
    const oc_build_spec *s = b->spec;
    layer_work(b);
    head_work(b);
    b->ids->scratch =
        transient(b, "scratch", -1, s->place.compute, OC_USE_WORKSPACE, s->sizes.scratch_bytes, 0);
}

/* ---- cells ---- */

static oc_buffer_id cell(build *b, const char *name, oc_buffer_life life, uint64_t bytes,
                         uint64_t piece, oc_value v) {
    return buffer(b, name, OC_TIER_HOST, OC_USE_STAGING, life, bytes, piece, v);
}

static oc_buffer_id copied(build *b, const char *name, bool there, uint64_t bytes, uint64_t piece) {
    if (!there) return OC_NO_BUFFER;
    return transient(b, name, -1, b->spec->place.compute, OC_USE_STAGING, bytes, piece);
}

static void train_cells(build *b) {
    const oc_build_spec *s = b->spec;
    oc_build_ids *d = b->ids;
    uint64_t tokens = (uint64_t)(s->batch * s->seq);
    uint64_t order = 4 * OC_ORDER_ARRAYS * tokens * (uint64_t)oc_build_order_micros(s);
    const oc_buffer_life fresh = OC_LIFE_SUBMISSION;
    d->order = cell(b, "order", fresh, order, 0, oc_value_of(OC_V_ORDER, 0, 0, 0));
    d->result =
        cell(b, "result", fresh, sizeof(oc_result_cell), 0, oc_value_of(OC_V_RESULT, 0, 0, 0));
    d->carry = cell(b, "carry", OC_LIFE_CARRIED, sizeof(oc_carry_cell), 0,
                    oc_value_of(OC_V_CARRY, 0, 0, 0));
    b->loss = cell(b, "loss", OC_LIFE_TRANSIENT, sizeof(double), 0, none);
    b->order_copy = copied(b, "order.dev", rows_tier(b) != OC_TIER_HOST, order, 0);
    b->scalars_copy = copied(b, "scalars.dev", oc_build_any(s, oc_build_updates_there),
                             sizeof(oc_update_scalars), 0);
    b->scale_copy = copied(b, "scale.dev", oc_build_away(b), 64, 0);
}

static void cells(build *b) {
    const oc_build_spec *s = b->spec;
    uint64_t tokens = (uint64_t)(s->batch * s->seq), sets = (uint64_t)oc_build_sets(s);
    uint64_t piece = oc_align_up(OC_BATCH_ARRAYS * 4 * tokens, 64);
    const oc_buffer_life fresh = oc_build_passes(s) ? OC_LIFE_CARRIED : OC_LIFE_SUBMISSION;
    uint64_t counts = oc_build_passes(s) ? OC_PASS_COUNTS : 1;
    oc_build_ids *d = b->ids;
    d->batch =
        cell(b, "batch", fresh, piece * sets, piece, oc_value_of(OC_V_BATCH, 0, OC_EACH_MICRO, 0));
    d->control = cell(b, "control", fresh, offsetof(oc_control_cell, live) + 4 * sets * counts, 0,
                      oc_value_of(OC_V_CONTROL, 0, 0, 0));
    b->batch_copy = copied(b, "batch.dev", oc_build_away(b), piece * sets, piece);
    d->order = d->result = d->carry = d->losses = d->pages = b->loss = OC_NO_BUFFER;
    b->order_copy = b->scalars_copy = b->scale_copy = b->losses_copy = OC_NO_BUFFER;
    if (oc_build_passes(s)) {
        oc_pass_buffers(b);
        return;
    }
    uint64_t loss = oc_build_loss_bytes(s);
    d->losses =
        cell(b, "losses", fresh, loss * sets, loss, oc_value_of(OC_V_LOSSES, 0, OC_EACH_MICRO, 0));
    b->losses_copy = copied(b, "losses.dev", oc_build_away(b), loss * sets, loss);
    if (s->train) train_cells(b);
}

void oc_build_buffers(build *b) {
    homes(b);
    pools(b);
    activations(b);
    workspace(b);
    cells(b);
}
