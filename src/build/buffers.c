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

static oc_tier home_tier(const build *b) {
    return b->spec->place.resident ? b->spec->place.compute : OC_TIER_HOST;
}

/* States at home on a device of their own are updated there, and what that reads is copied there.
 */
static bool home_away(const build *b) { return home_tier(b) != OC_TIER_HOST; }

/* ---- homes ---- */

static const char *block_name(const char *state, const oc_block *x, char *buf, size_t n) {
    static const char kinds[] = {'E', 'H', 'P', 'F', 'L', 'N'};
    (void)snprintf(buf, n, "%s.%c%d", state, kinds[x->kind], x->index);
    return buf;
}

static oc_buffer_id home(build *b, const char *state, uint32_t block, oc_use use, oc_what what) {
    const oc_block *x = &b->spec->model->blocks[block];
    oc_value v = oc_state_value(b->spec, what, block, 0);
    uint64_t width = oc_format_bits((oc_format)v.format) / 8;
    char name[24];
    return buffer(b, block_name(state, x, name, sizeof name), home_tier(b), use, OC_LIFE_CARRIED,
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
    return buffer(b, block_name("grad", x, name, sizeof name), home_tier(b), OC_USE_GRADIENTS,
                  OC_LIFE_TRANSIENT, x->elements * width, piece_bytes(b, width), none);
}

static void train_homes(build *b, uint32_t i) {
    const oc_build_spec *s = b->spec;
    oc_build_ids *d = b->ids;
    d->master[i] =
        s->dtype == OC_F32 ? d->weight[i] : home(b, "master", i, OC_USE_MASTER, OC_V_MASTER);
    if (s->has_m) d->m[i] = home(b, "m", i, OC_USE_MOMENTS, OC_V_M);
    if (s->has_v) d->v[i] = home(b, "v", i, OC_USE_MOMENTS, OC_V_V);
    d->grad[i] = grad_home(b, i);
    b->partials[i] = partial(b, "norm", i, OC_TIER_HOST);
    if (home_away(b)) b->device_partials[i] = partial(b, "norm.dev", i, home_tier(b));
}

static void homes(build *b) {
    const oc_build_spec *s = b->spec;
    oc_build_ids *d = b->ids;
    for (uint32_t i = 0; i < (uint32_t)s->model->n_blocks; i++) {
        d->grad[i] = d->master[i] = d->m[i] = d->v[i] = OC_NO_BUFFER;
        b->device_partials[i] = OC_NO_BUFFER;
        d->weight[i] = home(b, "weight", i, OC_USE_WEIGHTS, OC_V_WEIGHT);
        if (s->train) train_homes(b, i);
    }
    uint64_t table = 4 * (uint64_t)s->model->n_inv_freq;
    d->table = table ? buffer(b, "table", s->place.compute, OC_USE_WEIGHTS, OC_LIFE_CARRIED, table,
                              0, oc_value_of(OC_V_CONST, 0, 0, 0))
                     : OC_NO_BUFFER;
}

/* ---- slots ---- */

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

/* Early: of those whose rows have no gradient at home. */
static uint64_t largest_row_block(const oc_build_spec *s) {
    const oc_model *m = s->model;
    uint64_t most = 0;
    for (int32_t i = 0; i < m->n_blocks; i++) {
        bool rows = m->blocks[i].kind == OC_BLOCK_TABLE || m->blocks[i].kind == OC_BLOCK_POSITION;
        if (rows && !oc_build_has_grad_home(s, (uint32_t)i))
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

static void pools(build *b) {
    const oc_build_spec *s = b->spec;
    const oc_placement *p = &s->place;
    uint64_t width = oc_dtype_bytes(s->dtype), most = largest_moved(s) * width;
    uint64_t piece = piece_bytes(b, width);
    for (int32_t i = 0; !p->resident && i < p->slots; i++)
        b->weights.slots[i] = transient(b, "W", i, p->compute, OC_USE_WEIGHTS, most, piece);
    uint64_t norm = s->model->blocks[s->model->final_norm_block].elements * width;
    if (!p->resident)
        b->norm_slot = transient(b, "WN", -1, p->compute, OC_USE_WEIGHTS, norm, piece);
    for (int32_t i = 0; s->train && i < p->slabs; i++)
        b->slabs[i] = transient(b, "G", i, p->compute, OC_USE_GRADIENTS, most, piece);
    if (s->train && !p->resident) stages(b, most, piece);
    uint64_t rows = s->train && p->early ? largest_row_block(s) : 0;
    if (rows)
        b->row_grads = transient(b, "rowgrad", -1, home_tier(b), OC_USE_GRADIENTS, 4 * rows,
                                 piece_bytes(b, 4));
}

/* ---- activations ---- */

/* One contiguous matrix of rows each, so no padding between micro-batches. Without anything between
 * the rows and the first layer token and position rows have the same gradient. */
static void row_gradients(build *b) {
    const oc_build_spec *s = b->spec;
    const oc_model *m = s->model;
    oc_tier tier = home_tier(b);
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

static void activations(build *b) {
    const oc_build_spec *s = b->spec;
    const oc_placement *p = &s->place;
    int32_t layers = s->model->n_layers, acts = layers + 1;
    oc_tier home = p->act_slots ? OC_TIER_HOST : p->compute;
    const oc_use use = OC_USE_ACTIVATIONS;
    for (int32_t g = 0; g < oc_build_sets(s); g++) {
        for (int32_t l = 0; l < acts; l++)
            b->acts[g * acts + l] =
                transient(b, "act", g * acts + l, home, use, s->sizes.act_bytes, 0);
        for (int32_t l = 0; s->train && l < p->kept_layers; l++)
            b->saves[g * p->kept_layers + l] = transient(b, "save", g * p->kept_layers + l,
                                                         p->compute, use, s->sizes.save_bytes, 0);
        if (s->train) b->ds[g] = transient(b, "d", g, p->compute, use, s->sizes.act_bytes, 0);
    }
    for (int32_t i = 0; i < p->act_slots; i++)
        b->act_slots.slots[i] = transient(b, "A", i, p->compute, use, s->sizes.act_bytes, 0);
    b->rows = transient(b, "rows", -1, p->compute, use, s->sizes.row_bytes, 0);
    if (s->model->position_block >= 0)
        b->position_rows = transient(b, "positions", -1, p->compute, use, s->sizes.act_bytes, 0);
    if (s->train) row_gradients(b);
}

/* ---- workspace ---- */

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
    b->order_copy = copied(b, "order.dev", home_away(b), order, 0);
    b->scalars_copy = copied(b, "scalars.dev", home_away(b), sizeof(oc_update_scalars), 0);
    b->scale_copy = copied(b, "scale.dev", oc_build_away(b), 64, 0);
}

static void cells(build *b) {
    const oc_build_spec *s = b->spec;
    uint64_t tokens = (uint64_t)(s->batch * s->seq), sets = (uint64_t)oc_build_sets(s);
    uint64_t piece = oc_align_up(OC_BATCH_ARRAYS * 4 * tokens, 64);
    const oc_buffer_life fresh = OC_LIFE_SUBMISSION;
    oc_build_ids *d = b->ids;
    d->batch =
        cell(b, "batch", fresh, piece * sets, piece, oc_value_of(OC_V_BATCH, 0, OC_EACH_MICRO, 0));
    d->control = cell(b, "control", fresh, offsetof(oc_control_cell, live) + 4 * sets, 0,
                      oc_value_of(OC_V_CONTROL, 0, 0, 0));
    d->losses =
        cell(b, "losses", fresh, 8 * sets, 8, oc_value_of(OC_V_LOSSES, 0, OC_EACH_MICRO, 0));
    b->batch_copy = copied(b, "batch.dev", oc_build_away(b), piece * sets, piece);
    b->losses_copy = copied(b, "losses.dev", oc_build_away(b), 8 * sets, 8);
    d->order = d->result = d->carry = b->loss = OC_NO_BUFFER;
    b->order_copy = b->scalars_copy = b->scale_copy = OC_NO_BUFFER;
    if (s->train) train_cells(b);
}

void oc_build_buffers(build *b) {
    homes(b);
    pools(b);
    activations(b);
    workspace(b);
    cells(b);
}
