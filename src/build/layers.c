/* layers.c - the parts of a layer as ops, and the values that its forward leaves for its backward:
 * kept where the placement keeps them, or away on the host until then, else made again by the same
 * ops just before the backward.
 *
 * What is made again passes through scratch that all layers share. UP needs none: a backward
 * without it makes it again by itself, tile by tile. */
#include "build/internal.h"

/* What part of a layer's ops is emitted: the layer's block, where its weights and input are. */
typedef struct layer_at {
    uint32_t layer, block, micro;
    oc_buffer_id weights, in;
    oc_buffer_id passing[OC_SAVED_COUNT]; /* where values that wait on the host are at hand */
} layer_at;

static const oc_decoder_spec *decoder(const build *b) { return &b->spec->model->decoder; }

/* ---- values ---- */

oc_value oc_saved_value(const build *b, oc_saved v, uint32_t layer, uint32_t micro) {
    uint32_t block = (uint32_t)b->spec->model->first_layer + layer;
    return oc_value_of((oc_what)(OC_V_QKV + (int)v), block, micro, 0);
}

static oc_role role_of(oc_saved v) { return (oc_role)(OC_ROLE_QKV + (int)v); }

static bool keeps(const build *b, oc_saved v, uint32_t layer) {
    bool trains = b->kind.part != PART_EVAL;
    return trains && (int32_t)layer >= b->spec->model->n_layers - oc_build_kept(b->spec, v);
}

/* Whether it waits on the host, and as which of those. */
static bool waits(const build *b, oc_saved v, uint32_t layer, uint32_t *index) {
    int32_t kept = oc_build_kept(b->spec, v), away = oc_build_away_saved(b->spec, v);
    int32_t at = (int32_t)layer - (b->spec->model->n_layers - kept - away);
    *index = (uint32_t)at;
    return b->kind.part != PART_EVAL && at >= 0 && at < away;
}

/* It is there for the backward, wherever it was. */
static bool stays(const build *b, oc_saved v, uint32_t layer) {
    uint32_t i;
    return keeps(b, v, layer) || waits(b, v, layer, &i);
}

static oc_buffer_id place_of(const build *b, oc_saved v, const layer_at *x) {
    uint32_t kept = (uint32_t)oc_build_kept(b->spec, v), n = (uint32_t)b->spec->model->n_layers, i;
    if (waits(b, v, x->layer, &i)) return x->passing[v];
    if (!keeps(b, v, x->layer)) return b->saved_scratch[v];
    return b->saved[v][x->micro * kept + x->layer - (n - kept)];
}

static void reads_saved(build *b, oc_saved v, const layer_at *x) {
    oc_emit_read(b, role_of(v), place_of(b, v, x), 1, oc_saved_value(b, v, x->layer, x->micro));
}

static void writes_saved(build *b, oc_saved v, const layer_at *x) {
    oc_emit_write(b, role_of(v), place_of(b, v, x), 1, oc_saved_value(b, v, x->layer, x->micro));
}

/* Values that wait on the host leave behind the forward, and are back before the backward. */
static void move_saved(build *b, const layer_at *x, bool back) {
    for (int v = 0; v < OC_SAVED_COUNT; v++) {
        uint32_t i, away = (uint32_t)oc_build_away_saved(b->spec, (oc_saved)v);
        if (!waits(b, (oc_saved)v, x->layer, &i)) continue;
        oc_buffer_id home = b->waiting[v][x->micro * away + i];
        oc_route_copy(b, back ? home : x->passing[v], 0, back ? x->passing[v] : home, 0,
                      b->spec->sizes.saved_bytes[v],
                      oc_saved_value(b, (oc_saved)v, x->layer, x->micro), (int32_t)x->micro);
    }
}

static layer_at use_layer(build *b, uint32_t layer, uint32_t micro) {
    layer_at x = {
        .layer = layer, .block = (uint32_t)b->spec->model->first_layer + layer, .micro = micro};
    x.weights = oc_weights_use(b, x.block);
    x.in = oc_acts_use(b, layer, micro);
    for (int v = 0; v < OC_SAVED_COUNT; v++)
        x.passing[v] = b->passing[v][b->next_passing[v]++ % PASSING_SLOTS];
    return x;
}

/* ---- parts ---- */

/* In a pass attention is over pages. */
static oc_body_id body_of(const build *b, oc_part p) {
    bool paged = p == OC_PART_ATTENTION && oc_build_passes(b->spec);
    return paged ? OC_BODY_PART_PAGED : (oc_body_id)(OC_BODY_PART_IN + (int)p);
}

static void begin_part(build *b, const layer_at *x, oc_part p) {
    oc_emit_begin(b, OC_OP_FORWARD, OC_LANE_COMPUTE, body_of(b, p), x->block, x->micro);
    oc_emit_if_live(b, x->micro);
    oc_emit_op(b);
    oc_weights_read_part(b, x->block, p, x->weights);
    if (p == OC_PART_IN || p == OC_PART_OUT || (p == OC_PART_MLP && oc_build_parallel(b->spec)))
        oc_emit_read(b, OC_ROLE_IN, x->in, 1, oc_act_value(x->layer, x->micro));
    if (p == OC_PART_IN || p == OC_PART_ATTENTION) {
        oc_step_reads_batch(b, x->micro);
        oc_step_reads_table(b);
    }
    oc_emit_write(b, OC_ROLE_WORK, b->work, 1, oc_step_scratch());
    if (body_of(b, p) == OC_BODY_PART_PAGED) oc_pass_uses_pages(b, x->layer, x->micro);
}

/* The three parts before the mlp each make a value of the one before. */
static void part(build *b, const layer_at *x, oc_part p) {
    begin_part(b, x, p);
    if (p != OC_PART_IN) reads_saved(b, (oc_saved)((int)p - 1), x);
    writes_saved(b, (oc_saved)p, x);
}

/* out OC_NO_BUFFER: again, for the value behind it alone. */
static void part_mlp(build *b, const layer_at *x, oc_buffer_id out) {
    bool again = out == OC_NO_BUFFER;
    begin_part(b, x, OC_PART_MLP);
    reads_saved(b, OC_SAVED_MID, x);
    if (!again && stays(b, OC_SAVED_UP, x->layer)) writes_saved(b, OC_SAVED_UP, x);
    if (again || stays(b, OC_SAVED_MLP, x->layer)) writes_saved(b, OC_SAVED_MLP, x);
    if (!again) oc_emit_write(b, OC_ROLE_OUT, out, 1, oc_act_value(x->layer + 1, x->micro));
}

void oc_layer_forward(build *b, uint32_t layer, uint32_t micro) {
    if (oc_build_passes(b->spec)) oc_pass_fetch_pages(b, layer, micro);
    layer_at x = use_layer(b, layer, micro);
    oc_buffer_id out = oc_acts_make(b, layer + 1, micro);
    part(b, &x, OC_PART_IN);
    part(b, &x, OC_PART_ATTENTION);
    if (oc_build_passes(b->spec)) oc_pass_store_pages(b, layer, micro);
    part(b, &x, OC_PART_OUT);
    part_mlp(b, &x, out);
    oc_acts_retire(b, layer + 1, micro, out);
    move_saved(b, &x, false);
}

/* ---- backward ---- */

static bool made_again(const build *b, oc_saved v, uint32_t layer) {
    return oc_program_backward_reads(decoder(b), v) && !stays(b, v, layer);
}

static void make_again(build *b, const layer_at *x) {
    for (int p = OC_PART_IN; p < OC_PART_MLP; p++)
        if (made_again(b, (oc_saved)p, x->layer)) part(b, x, (oc_part)p);
    if (made_again(b, OC_SAVED_MLP, x->layer)) part_mlp(b, x, OC_NO_BUFFER);
}

static void begin_backward(build *b, const layer_at *x) {
    bool up = stays(b, OC_SAVED_UP, x->layer);
    oc_emit_begin(b, OC_OP_BACKWARD, OC_LANE_COMPUTE,
                  up ? OC_BODY_LAYER_BACKWARD : OC_BODY_LAYER_BACKWARD_UP, x->block, x->micro);
    oc_emit_if_live(b, x->micro);
    oc_emit_op(b);
}

/* UP and MLP are overwritten. */
static void folds_saved(build *b, oc_saved v, const layer_at *x) {
    oc_emit_access(b, role_of(v), OC_FOLD, place_of(b, v, x), 0, 1,
                   oc_saved_value(b, v, x->layer, x->micro), oc_step_scratch());
}

static void uses_saved(build *b, const layer_at *x) {
    for (int v = OC_SAVED_QKV; v <= OC_SAVED_MID; v++)
        if (oc_program_backward_reads(decoder(b), (oc_saved)v)) reads_saved(b, (oc_saved)v, x);
    if (stays(b, OC_SAVED_UP, x->layer)) folds_saved(b, OC_SAVED_UP, x);
    if (oc_program_backward_reads(decoder(b), OC_SAVED_MLP)) folds_saved(b, OC_SAVED_MLP, x);
}

void oc_layer_backward(build *b, uint32_t layer, uint32_t micro) {
    layer_at x = use_layer(b, layer, micro);
    oc_buffer_id g = oc_grads_make(b, x.block, micro);
    move_saved(b, &x, true);
    make_again(b, &x);
    begin_backward(b, &x);
    oc_weights_read(b, x.block, x.weights);
    oc_emit_read(b, OC_ROLE_IN, x.in, 1, oc_act_value(layer, micro));
    oc_step_reads_batch(b, micro);
    oc_step_reads_table(b);
    oc_emit_access(b, OC_ROLE_D, OC_FOLD, b->ds[micro], 0, 1, oc_step_d_value(layer + 1, micro),
                   oc_step_d_value(layer, micro));
    uses_saved(b, &x);
    oc_emit_write(b, OC_ROLE_WORK, b->work, 1, oc_step_scratch());
    oc_step_writes_grad(b, g, x.block, micro);
}

/* ---- contracts ---- */

static void hold_values(build *b, hold_fn *hold, oc_saved v, const oc_buffer_id *at, uint32_t first,
                        uint32_t n, uint32_t micro, oc_buffer_id pred, uint32_t live) {
    for (uint32_t k = 0; k < n; k++) {
        hold(b->pb, at[micro * n + k], 0, 1, oc_saved_value(b, v, first + k, micro));
        if (pred != OC_NO_BUFFER) oc_plan_held_if(b->pb, pred, live);
    }
}

void oc_layers_hold(build *b, hold_fn *hold, uint32_t micro, oc_buffer_id pred, uint32_t live) {
    uint32_t n = (uint32_t)b->spec->model->n_layers;
    for (int v = 0; v < OC_SAVED_COUNT; v++) {
        uint32_t kept = (uint32_t)oc_build_kept(b->spec, (oc_saved)v);
        uint32_t away = (uint32_t)oc_build_away_saved(b->spec, (oc_saved)v);
        hold_values(b, hold, (oc_saved)v, b->saved[v], n - kept, kept, micro, pred, live);
        hold_values(b, hold, (oc_saved)v, b->waiting[v], n - kept - away, away, micro, pred, live);
    }
}
