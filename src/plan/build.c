/* build.c - the training step and the evaluation, op by op (see build.h for the order of things).
 */
#include "plan/build.h"

#include "base/checked.h"
#include "plan/build_internal.h"
#include "plan/cells.h"

#include <stdlib.h>
#include <string.h>

/* ---- emission helpers ---- */

oc_value oc_build_value(oc_what what, uint32_t block, uint32_t micro, uint32_t version,
                        uint32_t stage) {
    return (oc_value){(uint16_t)what, (uint16_t)micro, (uint16_t)version, (uint16_t)stage, block};
}

static const oc_value none = {0};

static void op(build *b, oc_op_kind kind, oc_lane lane, oc_body_id body, uint32_t block,
               uint32_t piece, uint32_t micro) {
    oc_op x = {.kind = (uint16_t)kind,
               .lane = (uint16_t)lane,
               .body = (uint16_t)body,
               .micro = (uint16_t)micro,
               .block = block,
               .piece = piece,
               .blocks = 1,
               .pred = OC_NO_BUFFER,
               .index = OC_NO_BUFFER};
    b->op = x;
}

static void predicate(build *b, oc_buffer_id cell, uint32_t at) {
    b->op.pred = cell;
    b->op.pred_index = at;
}

/* Bodies of a micro-batch without rows are skipped; the first has rows always. */
static void if_live(build *b, uint32_t micro) {
    if (micro == 0) return;
    predicate(b, b->ids->control, (uint32_t)(offsetof(oc_control_cell, live) / 4) + micro);
}

static void emit(build *b) {
    if (b->dry) return;
    oc_plan_op(b->pb, &b->op);
    if (b->op.pred != OC_NO_BUFFER) {
        oc_buffer_id c = b->op.pred;
        bool control = c == b->ids->control;
        oc_plan_access(b->pb, OC_ROLE_CELLS_IN, OC_READ, c, 0, UINT32_MAX,
                       control ? oc_plan_buffer_at(b->pb, c)->initial
                               : oc_build_value(OC_V_CELL, 4, 0, 1, 0),
                       none);
    }
}

static void access(build *b, oc_role role, oc_access_mode mode, oc_buffer_id buffer, uint32_t first,
                   uint32_t count, oc_value value, oc_value result) {
    if (!b->dry) oc_plan_access(b->pb, role, mode, buffer, first, count, value, result);
}

static void reads(build *b, oc_role role, oc_buffer_id buffer, uint32_t count, oc_value v) {
    access(b, role, OC_READ, buffer, 0, count, v, none);
}

static void writes(build *b, oc_role role, oc_buffer_id buffer, uint32_t count, oc_value v) {
    access(b, role, OC_WRITE, buffer, 0, count, v, none);
}

static oc_value batch_value(uint32_t micro) { return oc_build_value(OC_V_BATCH, 0, micro, 0, 0); }

/* On a device of its own the batch is read from a copy there. */
static void reads_batch(build *b, uint32_t micro) {
    bool copied = !b->spec->place.resident;
    access(b, OC_ROLE_BATCH, OC_READ, copied ? b->batch_copy : b->ids->batch,
           copied ? micro % (uint32_t)oc_build_sets(b->spec) : micro, 1, batch_value(micro), none);
}

static void fetch_batch(build *b, uint32_t micro) {
    if (b->spec->place.resident) return;
    op(b, OC_OP_FETCH, OC_LANE_H2D, OC_BODY_COPY, 0, UINT32_MAX, micro);
    if (!b->dry) b->op.demand.bytes = oc_plan_buffer_at(b->pb, b->ids->batch)->piece_bytes;
    if_live(b, micro);
    emit(b);
    access(b, OC_ROLE_SRC, OC_READ, b->ids->batch, micro, 1, batch_value(micro), none);
    access(b, OC_ROLE_DST, OC_WRITE, b->batch_copy, micro % (uint32_t)oc_build_sets(b->spec), 1,
           batch_value(micro), none);
}

static oc_value scratch_value(void) { return oc_build_value(OC_V_SCRATCH, 0, 0, 0, 0); }

static uint32_t pieces_of(const build *b, uint32_t block) {
    return (uint32_t)oc_ceil_div(b->spec->model->blocks[block].elements,
                                 b->spec->place.piece_elements);
}

/* ---- caches: slots that hold values, filled when a value is not there ---- */

/* The next use of a value after the cursor; UINT32_MAX: none. */
static uint32_t next_use(const cache *c, oc_value v) {
    for (uint32_t i = c->cursor; i < c->trace_count; i++)
        if (oc_value_equal(c->trace[i], v)) return i;
    return UINT32_MAX;
}

static int find_slot(const cache *c, oc_value v) {
    for (int i = 0; i < c->n; i++)
        if (oc_value_equal(c->content[i], v)) return i;
    return -1;
}

/* The slot to fill next: an empty one, else among those that were not among the last `apart` uses
 * (so that a transfer can run beside these) the one wanted last; when there is none, the one used
 * longest ago. So what was used last stays, as long as there are two. */
static int victim(const cache *c) {
    int best = -1, oldest = -1;
    uint32_t best_next = 0;
    for (int i = 0; i < c->n; i++) {
        if (c->content[i].what == OC_V_NONE) return i;
        if (oldest < 0 || c->used[i] < c->used[oldest]) oldest = i;
        if (c->cursor - c->used[i] <= c->apart) continue;
        uint32_t next = next_use(c, c->content[i]);
        if (best < 0 || next > best_next) {
            best = i;
            best_next = next;
        }
    }
    return best < 0 ? oldest : best;
}

static void note_use(build *b, cache *c, oc_value v) {
    if (!b->dry) {
        c->cursor++;
        return;
    }
    if (c->trace_count == c->trace_capacity) {
        uint32_t capacity = c->trace_capacity ? 2 * c->trace_capacity : 256;
        oc_value *trace = realloc(c->trace, capacity * sizeof *trace);
        if (!trace) {
            b->failed = true;
            return;
        }
        c->trace = trace;
        c->trace_capacity = capacity;
    }
    c->trace[c->trace_count++] = v;
}

/* ---- weights ---- */

static oc_value weight_value(uint32_t block) { return oc_build_value(OC_V_WEIGHT, block, 0, 0, 0); }

static void fetch_weight(build *b, uint32_t block, oc_buffer_id to) {
    oc_value v = weight_value(block);
    for (uint32_t k = 0; k < pieces_of(b, block); k++) {
        op(b, OC_OP_FETCH, OC_LANE_H2D, OC_BODY_COPY, block, k, 0);
        b->op.demand.bytes = oc_build_piece_bytes(b, block, k, oc_dtype_bytes(b->spec->dtype));
        emit(b);
        access(b, OC_ROLE_SRC, OC_READ, b->ids->weight[block], k, 1, v, none);
        access(b, OC_ROLE_DST, OC_WRITE, to, k, 1, v, none);
    }
}

/* The buffer a block's weights can be computed from; fetches them if need be. */
static oc_buffer_id use_weight(build *b, uint32_t block) {
    if (b->spec->place.resident) return b->ids->weight[block];
    if ((int32_t)block == b->spec->model->final_norm_block) {
        if (!b->norm_there) fetch_weight(b, block, b->norm_slot);
        b->norm_there = true;
        return b->norm_slot;
    }
    cache *c = &b->weights;
    oc_value v = weight_value(block);
    note_use(b, c, v);
    if (b->dry) return 0;
    int i = find_slot(c, v);
    if (i < 0) {
        i = victim(c);
        c->content[i] = v;
        fetch_weight(b, block, c->slots[i]);
    }
    c->used[i] = c->cursor;
    return c->slots[i];
}

static void reads_weight(build *b, uint32_t block, oc_buffer_id w) {
    reads(b, OC_ROLE_WEIGHT, w, pieces_of(b, block), weight_value(block));
}

/* ---- activation checkpoints ---- */

static oc_value act_value(uint32_t layer, uint32_t micro) {
    return oc_build_value(OC_V_ACT, layer, micro, 0, 0);
}

static uint32_t act_index(const build *b, uint32_t layer, uint32_t micro) {
    uint32_t g = micro % (uint32_t)oc_build_sets(b->spec);
    return g * ((uint32_t)b->spec->model->n_layers + 1) + layer;
}

/* Where the input of `layer` can be read. */
static oc_buffer_id use_act(build *b, uint32_t layer, uint32_t micro) {
    if (!b->spec->place.act_slots) return b->acts[act_index(b, layer, micro)];
    cache *c = &b->act_cache;
    oc_value v = act_value(layer, micro);
    note_use(b, c, v);
    if (b->dry) return 0;
    int i = find_slot(c, v);
    if (i < 0) {
        i = victim(c);
        c->content[i] = v;
        op(b, OC_OP_FETCH, OC_LANE_H2D, OC_BODY_COPY, layer, UINT32_MAX, micro);
        b->op.demand.bytes = b->spec->sizes.act_bytes;
        if_live(b, micro);
        emit(b);
        reads(b, OC_ROLE_SRC, b->acts[act_index(b, layer, micro)], 1, v);
        writes(b, OC_ROLE_DST, c->slots[i], 1, v);
    }
    c->used[i] = c->cursor;
    return c->slots[i];
}

/* Where the input of `layer` is to be written: never where use_act() found something just before.
 */
static oc_buffer_id make_act(build *b, uint32_t layer, uint32_t micro) {
    if (!b->spec->place.act_slots) return b->acts[act_index(b, layer, micro)];
    cache *c = &b->act_cache;
    oc_value v = act_value(layer, micro);
    note_use(b, c, v);
    if (b->dry) return 0;
    int i = victim(c);
    c->content[i] = v;
    c->used[i] = c->cursor;
    return c->slots[i];
}

static void retire_act(build *b, uint32_t layer, uint32_t micro, oc_buffer_id from) {
    if (!b->spec->place.act_slots) return;
    if (!b->training && oc_build_sets(b->spec) == 1) return; /* its one reader comes right away */
    oc_value v = act_value(layer, micro);
    op(b, OC_OP_RETIRE, OC_LANE_D2H, OC_BODY_COPY, layer, UINT32_MAX, micro);
    b->op.demand.bytes = b->spec->sizes.act_bytes;
    if_live(b, micro);
    emit(b);
    reads(b, OC_ROLE_SRC, from, 1, v);
    writes(b, OC_ROLE_DST, b->acts[act_index(b, layer, micro)], 1, v);
}

/* ---- gradients ---- */

static int32_t folds_of(const oc_build_spec *s, uint32_t block) {
    const oc_model *m = s->model;
    oc_block_kind kind = m->blocks[block].kind;
    if (kind == OC_BLOCK_POSITION) return 1;
    if (kind != OC_BLOCK_TABLE) return s->micros;
    return (m->tied ? s->micros : 0) + 1;
}

oc_dtype oc_build_grad_dtype(const oc_build_spec *s, int32_t block) {
    oc_block_kind kind = s->model->blocks[block].kind;
    bool rows = kind == OC_BLOCK_TABLE || kind == OC_BLOCK_POSITION;
    return rows || folds_of(s, (uint32_t)block) > 1 ? OC_F32 : s->dtype;
}

static oc_value grad_value(uint32_t block, uint32_t micro, uint32_t stage) {
    return oc_build_value(OC_V_GRAD, block, micro, 0, stage);
}

/* The first micro-batch's gradient can be written straight to its home when nothing is lost by it.
 */
static bool straight(const build *b, uint32_t block, uint32_t micro) {
    return micro == 0 && oc_build_grad_dtype(b->spec, (int32_t)block) == b->spec->dtype;
}

/* Where the backward of a block writes its gradient. */
static oc_buffer_id make_grad(build *b, uint32_t block, uint32_t micro) {
    if (b->spec->place.resident && straight(b, block, micro)) return b->ids->grad[block];
    oc_buffer_id id = b->slabs[b->next_slab % (uint32_t)b->spec->place.slabs];
    b->next_slab++;
    return id;
}

static void partials(build *b, uint32_t block, uint32_t piece, uint32_t count) {
    access(b, OC_ROLE_PARTIALS, OC_WRITE, b->partials[block], piece, count,
           oc_build_value(OC_V_PARTIALS, block, 0, 0, 0), none);
}

/* Home dtype and element width of a gradient. */
static uint64_t grad_width(const build *b, uint32_t block) {
    return oc_dtype_bytes(oc_build_grad_dtype(b->spec, (int32_t)block));
}

/* One piece of a dense gradient reaches its home: retire, then fold. */
static void settle_piece(build *b, uint32_t block, uint32_t micro, uint32_t k, oc_buffer_id from) {
    const oc_placement *p = &b->spec->place;
    uint64_t width = oc_dtype_bytes(b->spec->dtype);
    oc_buffer_id home = b->ids->grad[block], src = from;
    oc_value raw = grad_value(block, micro, 0), done = grad_value(block, 0, micro + 1);
    bool in_place = straight(b, block, micro);
    if (!p->resident) {
        src = in_place ? home : b->stages[b->next_stage++ % b->n_stages];
        op(b, OC_OP_RETIRE, OC_LANE_D2H, OC_BODY_COPY, block, k, micro);
        b->op.demand.bytes = oc_build_piece_bytes(b, block, k, width);
        if_live(b, micro);
        emit(b);
        access(b, OC_ROLE_SRC, OC_READ, from, k, 1, raw, none);
        access(b, OC_ROLE_DST, OC_WRITE, src, in_place ? k : 0, 1, raw, none);
    }
    bool last = (int32_t)micro + 1 == folds_of(b->spec, block);
    oc_body_id body = in_place     ? OC_BODY_FOLD_IN_PLACE
                      : micro == 0 ? OC_BODY_FOLD_FIRST
                      : last       ? OC_BODY_FOLD_LAST
                                   : OC_BODY_FOLD;
    op(b, OC_OP_FOLD, OC_LANE_OPTIM, body, block, k, micro);
    b->op.demand.bytes = oc_build_piece_bytes(b, block, k, width + 2 * grad_width(b, block));
    if (body == OC_BODY_FOLD) if_live(b, micro);
    emit(b);
    if (body == OC_BODY_FOLD_LAST)
        reads(b, OC_ROLE_CELLS_IN, b->ids->control, UINT32_MAX,
              oc_build_value(OC_V_CELL, 1, 0, 0, 0));
    if (in_place) {
        access(b, OC_ROLE_GRAD, OC_FOLD, home, k, 1, raw, done);
    } else {
        access(b, OC_ROLE_SRC, OC_READ, src, p->resident ? k : 0, 1, raw, none);
        if (micro == 0)
            access(b, OC_ROLE_GRAD, OC_WRITE, home, k, 1, done, none);
        else
            access(b, OC_ROLE_GRAD, OC_FOLD, home, k, 1, grad_value(block, 0, micro), done);
    }
    if (last) partials(b, block, k, 1);
}

static void settle_grad(build *b, uint32_t block, uint32_t micro, oc_buffer_id from) {
    for (uint32_t k = 0; k < pieces_of(b, block); k++)
        settle_piece(b, block, micro, k, from);
}

/* What the backward of the layers leaves is the gradient of position rows; that of token rows only
 * where nothing stands between them and the first layer. */
static oc_value position_gradient(uint32_t micro) {
    return oc_build_value(OC_V_DACT, 0, micro, 0, 0);
}

static bool rows_differ(const oc_model *m) {
    return m->front_block >= 0 || m->embedding_scale != 1.0f;
}

static oc_value row_gradient(const oc_model *m, uint32_t micro) {
    return oc_build_value(OC_V_DACT, 0, micro, 0, rows_differ(m) ? 1 : 0);
}

/* The rows of all micro-batches into one chunk of a table: the last fold of the chunk. */
static void fold_rows(build *b, uint32_t block) {
    const oc_model *m = b->spec->model;
    bool dense_first = m->blocks[block].kind == OC_BLOCK_TABLE && m->tied;
    uint32_t stage = (uint32_t)folds_of(b->spec, block);
    op(b, OC_OP_FOLD, OC_LANE_OPTIM, dense_first ? OC_BODY_FOLD_ROWS : OC_BODY_FOLD_ROWS_FIRST,
       block, UINT32_MAX, 0);
    b->op.index = b->ids->order;
    b->op.demand.bytes = m->blocks[block].elements * 4;
    emit(b);
    bool positions = m->blocks[block].kind == OC_BLOCK_POSITION;
    reads(b, OC_ROLE_SRC, positions ? b->dpositions : b->drows, UINT32_MAX,
          positions ? position_gradient(OC_EACH_MICRO) : row_gradient(m, OC_EACH_MICRO));
    reads(b, OC_ROLE_BATCH, b->ids->order, UINT32_MAX, oc_build_value(OC_V_BATCH, 1, 0, 0, 0));
    reads(b, OC_ROLE_CELLS_IN, b->ids->control, UINT32_MAX, oc_build_value(OC_V_CELL, 1, 0, 0, 0));
    oc_value done = grad_value(block, 0, stage);
    if (dense_first)
        access(b, OC_ROLE_GRAD, OC_FOLD, b->ids->grad[block], 0, pieces_of(b, block),
               grad_value(block, 0, stage - 1), done);
    else
        writes(b, OC_ROLE_GRAD, b->ids->grad[block], pieces_of(b, block), done);
    partials(b, block, 0, pieces_of(b, block));
}

/* ---- forward ---- */

static void fetch_rows(build *b, uint32_t micro, uint32_t block, uint32_t blocks, oc_buffer_id to) {
    op(b, OC_OP_FETCH_ROWS, b->spec->place.resident ? OC_LANE_COMPUTE : OC_LANE_H2D,
       OC_BODY_FETCH_ROWS, block, UINT32_MAX, micro);
    b->op.blocks = blocks;
    b->op.index = b->ids->batch;
    bool positions = b->spec->model->blocks[block].kind == OC_BLOCK_POSITION;
    b->op.demand.bytes = positions ? b->spec->sizes.act_bytes : b->spec->sizes.row_bytes;
    if_live(b, micro);
    emit(b);
    for (uint32_t i = block; i < block + blocks; i++)
        reads(b, OC_ROLE_SRC, b->ids->weight[i], UINT32_MAX, weight_value(i));
    access(b, OC_ROLE_BATCH, OC_READ, b->ids->batch, micro, 1, batch_value(micro), none);
    writes(b, OC_ROLE_ROWS, to, 1, oc_build_value(OC_V_ROWS, block, micro, 0, 0));
}

static void fetch_token_rows(build *b, uint32_t micro) {
    const oc_model *m = b->spec->model;
    fetch_rows(b, micro, (uint32_t)m->first_table, (uint32_t)m->n_table, b->rows);
}

static void reads_token_rows(build *b, uint32_t micro) {
    uint32_t table = (uint32_t)b->spec->model->first_table;
    reads(b, OC_ROLE_ROWS, b->rows, 1, oc_build_value(OC_V_ROWS, table, micro, 0, 0));
}

static void embed(build *b, uint32_t micro) {
    const oc_model *m = b->spec->model;
    bool positions = m->position_block >= 0, front = m->front_block >= 0;
    oc_body_id body = front       ? positions ? OC_BODY_FRONT_POSITIONS : OC_BODY_FRONT_FORWARD
                      : positions ? OC_BODY_EMBED_POSITIONS
                                  : OC_BODY_EMBED;
    uint32_t block = (uint32_t)(front ? m->front_block : m->first_table);
    oc_buffer_id w = front ? use_weight(b, block) : OC_NO_BUFFER;
    fetch_token_rows(b, micro);
    if (positions) fetch_rows(b, micro, (uint32_t)m->position_block, 1, b->position_rows);
    oc_buffer_id out = make_act(b, 0, micro);
    op(b, OC_OP_FORWARD, OC_LANE_COMPUTE, body, block, UINT32_MAX, micro);
    if_live(b, micro);
    emit(b);
    if (front) reads_weight(b, block, w);
    reads_token_rows(b, micro);
    if (positions)
        reads(b, OC_ROLE_POSITION_ROWS, b->position_rows, 1,
              oc_build_value(OC_V_ROWS, (uint32_t)m->position_block, micro, 0, 0));
    writes(b, OC_ROLE_OUT, out, 1, act_value(0, micro));
    if (front) writes(b, OC_ROLE_WORK, b->work, 1, scratch_value());
    retire_act(b, 0, micro, out);
}

static bool keeps(const build *b, uint32_t layer) {
    return b->training && (int32_t)layer >= b->spec->model->n_layers - b->spec->place.kept_layers;
}

static oc_buffer_id save_of(const build *b, uint32_t layer, uint32_t micro) {
    uint32_t g = micro % (uint32_t)oc_build_sets(b->spec);
    uint32_t first = (uint32_t)(b->spec->model->n_layers - b->spec->place.kept_layers);
    return b->saves[g * (uint32_t)b->spec->place.kept_layers + layer - first];
}

static oc_value save_value(uint32_t layer, uint32_t micro) {
    return oc_build_value(OC_V_SAVE, layer, micro, 0, 0);
}

static void layer_forward(build *b, uint32_t layer, uint32_t micro) {
    uint32_t block = (uint32_t)b->spec->model->first_layer + layer;
    oc_buffer_id w = use_weight(b, block);
    oc_buffer_id in = use_act(b, layer, micro);
    oc_buffer_id out = make_act(b, layer + 1, micro);
    op(b, OC_OP_FORWARD, OC_LANE_COMPUTE, OC_BODY_LAYER_FORWARD, block, UINT32_MAX, micro);
    b->op.demand.flops = b->spec->sizes.layer_flops;
    if_live(b, micro);
    emit(b);
    reads_weight(b, block, w);
    reads(b, OC_ROLE_IN, in, 1, act_value(layer, micro));
    reads_batch(b, micro);
    writes(b, OC_ROLE_OUT, out, 1, act_value(layer + 1, micro));
    if (keeps(b, layer))
        writes(b, OC_ROLE_SAVE, save_of(b, layer, micro), 1, save_value(layer, micro));
    else
        writes(b, OC_ROLE_SAVE, b->save_scratch, 1, scratch_value());
    writes(b, OC_ROLE_WORK, b->work, 1, scratch_value());
    retire_act(b, layer + 1, micro, out);
}

static oc_value state_value(uint32_t micro, uint32_t stage) {
    return oc_build_value(OC_V_HEAD_STATE, 0, micro, 0, stage);
}

static oc_buffer_id state_of(const build *b, uint32_t micro) {
    return b->states[micro % (uint32_t)oc_build_sets(b->spec)];
}

static void final_forward(build *b, uint32_t micro) {
    const oc_model *m = b->spec->model;
    uint32_t block = (uint32_t)m->final_norm_block, layers = (uint32_t)m->n_layers;
    oc_buffer_id w = use_weight(b, block);
    oc_buffer_id in = use_act(b, layers, micro);
    op(b, OC_OP_FORWARD, OC_LANE_COMPUTE, OC_BODY_FINAL_FORWARD, block, UINT32_MAX, micro);
    if_live(b, micro);
    emit(b);
    reads_weight(b, block, w);
    reads(b, OC_ROLE_IN, in, 1, act_value(layers, micro));
    writes(b, OC_ROLE_STATE, state_of(b, micro), 1, state_value(micro, 0));
    b->head_stage[micro] = 0;
}

static void fold_state(build *b, uint32_t micro) {
    uint32_t stage = b->head_stage[micro]++;
    access(b, OC_ROLE_STATE, OC_FOLD, state_of(b, micro), 0, 1, state_value(micro, stage),
           state_value(micro, stage + 1));
}

static void head_forward(build *b, uint32_t block, uint32_t micro) {
    oc_buffer_id w = use_weight(b, block);
    op(b, OC_OP_FORWARD, OC_LANE_COMPUTE, OC_BODY_HEAD_FORWARD, block, UINT32_MAX, micro);
    b->op.demand.flops = b->spec->sizes.head_row_flops * (double)b->spec->model->blocks[block].rows;
    if_live(b, micro);
    emit(b);
    reads_weight(b, block, w);
    reads_batch(b, micro);
    fold_state(b, micro);
    writes(b, OC_ROLE_WORK, b->head_work, 1, scratch_value());
}

static oc_value loss_value(void) { return oc_build_value(OC_V_CELL, 3, 0, 1, 0); }

static void loss(build *b, uint32_t micro) {
    op(b, OC_OP_LOSS, OC_LANE_COMPUTE, OC_BODY_LOSS, 0, UINT32_MAX, micro);
    if_live(b, micro);
    emit(b);
    reads_batch(b, micro);
    fold_state(b, micro);
    access(b, OC_ROLE_CELLS_OUT, OC_WRITE, b->ids->losses, micro, 1, loss_value(), none);
}

static void begin_group(build *b, uint32_t lo, uint32_t hi) {
    for (uint32_t a = lo; a < hi; a++)
        fetch_batch(b, a);
    for (uint32_t a = lo; a < hi; a++)
        embed(b, a);
}

static void head_forward_group(build *b, uint32_t lo, uint32_t hi) {
    const oc_model *m = b->spec->model;
    for (uint32_t a = lo; a < hi; a++)
        final_forward(b, a);
    for (uint32_t c = 0; c < (uint32_t)m->n_head; c++)
        for (uint32_t a = lo; a < hi; a++)
            head_forward(b, (uint32_t)m->first_head + c, a);
    for (uint32_t a = lo; a < hi; a++)
        loss(b, a);
}

/* ---- backward ---- */

static void reads_carry(build *b) {
    reads(b, OC_ROLE_CARRY, b->ids->carry, 1, oc_plan_buffer_at(b->pb, b->ids->carry)->initial);
}

static void head_backward(build *b, uint32_t block, uint32_t micro) {
    oc_buffer_id w = use_weight(b, block);
    oc_buffer_id g = make_grad(b, block, micro);
    op(b, OC_OP_BACKWARD, OC_LANE_COMPUTE, OC_BODY_HEAD_BACKWARD, block, UINT32_MAX, micro);
    b->op.demand.flops =
        3 * b->spec->sizes.head_row_flops * (double)b->spec->model->blocks[block].rows;
    if_live(b, micro);
    emit(b);
    reads_weight(b, block, w);
    reads_batch(b, micro);
    if (!b->dry) reads_carry(b);
    fold_state(b, micro);
    writes(b, OC_ROLE_WORK, b->head_work, 1, scratch_value());
    writes(b, OC_ROLE_GRAD_OUT, g, pieces_of(b, block), grad_value(block, micro, 0));
    settle_grad(b, block, micro, g);
}

static oc_buffer_id d_of(const build *b, uint32_t micro) {
    return b->ds[micro % (uint32_t)oc_build_sets(b->spec)];
}

static oc_value d_value(uint32_t layer, uint32_t micro) {
    return oc_build_value(OC_V_DACT, layer, micro, 0, 0);
}

static void final_backward(build *b, uint32_t micro) {
    const oc_model *m = b->spec->model;
    uint32_t block = (uint32_t)m->final_norm_block, layers = (uint32_t)m->n_layers;
    oc_buffer_id w = use_weight(b, block);
    oc_buffer_id in = use_act(b, layers, micro);
    oc_buffer_id g = make_grad(b, block, micro);
    op(b, OC_OP_BACKWARD, OC_LANE_COMPUTE, OC_BODY_FINAL_BACKWARD, block, UINT32_MAX, micro);
    if_live(b, micro);
    emit(b);
    reads_weight(b, block, w);
    reads(b, OC_ROLE_IN, in, 1, act_value(layers, micro));
    fold_state(b, micro);
    writes(b, OC_ROLE_D, d_of(b, micro), 1, d_value(layers, micro));
    writes(b, OC_ROLE_GRAD_OUT, g, pieces_of(b, block), grad_value(block, micro, 0));
    settle_grad(b, block, micro, g);
}

static void layer_backward(build *b, uint32_t layer, uint32_t micro) {
    uint32_t block = (uint32_t)b->spec->model->first_layer + layer;
    bool kept = keeps(b, layer);
    oc_buffer_id w = use_weight(b, block);
    oc_buffer_id in = use_act(b, layer, micro);
    oc_buffer_id g = make_grad(b, block, micro);
    op(b, OC_OP_BACKWARD, OC_LANE_COMPUTE, kept ? OC_BODY_LAYER_BACKWARD : OC_BODY_LAYER_RECOMPUTE,
       block, UINT32_MAX, micro);
    b->op.demand.flops = (kept ? 2 : 3) * b->spec->sizes.layer_flops;
    if_live(b, micro);
    emit(b);
    reads_weight(b, block, w);
    reads(b, OC_ROLE_IN, in, 1, act_value(layer, micro));
    reads_batch(b, micro);
    access(b, OC_ROLE_D, OC_FOLD, d_of(b, micro), 0, 1, d_value(layer + 1, micro),
           d_value(layer, micro));
    if (kept)
        access(b, OC_ROLE_SAVE, OC_FOLD, save_of(b, layer, micro), 0, 1, save_value(layer, micro),
               scratch_value());
    else
        writes(b, OC_ROLE_SAVE, b->save_scratch, 1, scratch_value());
    writes(b, OC_ROLE_WORK, b->work, 1, scratch_value());
    writes(b, OC_ROLE_GRAD_OUT, g, pieces_of(b, block), grad_value(block, micro, 0));
    settle_grad(b, block, micro, g);
}

static void front_backward(build *b, uint32_t micro) {
    uint32_t block = (uint32_t)b->spec->model->front_block;
    oc_buffer_id w = use_weight(b, block);
    fetch_token_rows(b, micro);
    oc_buffer_id g = make_grad(b, block, micro);
    op(b, OC_OP_BACKWARD, OC_LANE_COMPUTE, OC_BODY_FRONT_BACKWARD, block, UINT32_MAX, micro);
    if_live(b, micro);
    emit(b);
    reads_weight(b, block, w);
    reads_token_rows(b, micro);
    reads(b, OC_ROLE_D, d_of(b, micro), 1, d_value(0, micro));
    writes(b, OC_ROLE_OUT, b->front_drows, 1, row_gradient(b->spec->model, micro));
    writes(b, OC_ROLE_WORK, b->work, 1, scratch_value());
    writes(b, OC_ROLE_GRAD_OUT, g, pieces_of(b, block), grad_value(block, micro, 0));
    settle_grad(b, block, micro, g);
}

static void scale_rows(build *b, uint32_t micro) {
    const oc_model *m = b->spec->model;
    op(b, OC_OP_BACKWARD, OC_LANE_COMPUTE, OC_BODY_SCALE_ROWS, (uint32_t)m->first_table, UINT32_MAX,
       micro);
    if_live(b, micro);
    emit(b);
    access(b, OC_ROLE_D, OC_FOLD, d_of(b, micro), 0, 1, d_value(0, micro), row_gradient(m, micro));
}

static void retire_rows(build *b, uint32_t micro, oc_buffer_id from, oc_buffer_id to,
                        uint64_t bytes, oc_value v) {
    op(b, OC_OP_RETIRE, b->spec->place.resident ? OC_LANE_COMPUTE : OC_LANE_D2H, OC_BODY_COPY, 0,
       UINT32_MAX, micro);
    b->op.demand.bytes = bytes;
    if_live(b, micro);
    emit(b);
    reads(b, OC_ROLE_SRC, from, 1, v);
    access(b, OC_ROLE_DST, OC_WRITE, to, micro, 1, v, none);
}

/* The gradients of the embedding's and the positions' rows leave as rows. */
static void embed_backward(build *b, uint32_t micro) {
    const oc_model *m = b->spec->model;
    oc_buffer_id d = d_of(b, micro);
    if (b->dpositions != b->drows)
        retire_rows(b, micro, d, b->dpositions, b->position_bytes, position_gradient(micro));
    if (m->front_block >= 0) {
        front_backward(b, micro);
        d = b->front_drows;
    } else if (rows_differ(m)) {
        scale_rows(b, micro);
    }
    retire_rows(b, micro, d, b->drows, b->row_bytes, row_gradient(m, micro));
}

static void head_backward_group(build *b, uint32_t lo, uint32_t hi) {
    const oc_model *m = b->spec->model;
    for (uint32_t c = (uint32_t)m->n_head; c-- > 0;)
        for (uint32_t a = lo; a < hi; a++)
            head_backward(b, (uint32_t)m->first_head + c, a);
    for (uint32_t a = lo; a < hi; a++)
        final_backward(b, a);
}

/* ---- the end of a step ---- */

static oc_value result_value(uint32_t version) {
    return oc_build_value(OC_V_CELL, 4, 0, version, 0);
}

static void norm(build *b) {
    op(b, OC_OP_NORM, OC_LANE_OPTIM, OC_BODY_NORM, 0, UINT32_MAX, 0);
    b->op.blocks = (uint32_t)b->spec->model->n_blocks;
    emit(b);
    for (uint32_t i = 0; i < b->op.blocks; i++)
        reads(b, OC_ROLE_PARTIALS, b->partials[i], UINT32_MAX,
              oc_build_value(OC_V_PARTIALS, i, 0, 0, 0));
    reads(b, OC_ROLE_CELLS_IN, b->ids->control, UINT32_MAX, oc_build_value(OC_V_CELL, 1, 0, 0, 0));
    reads(b, OC_ROLE_STATE, b->ids->losses, UINT32_MAX, loss_value());
    oc_value carry = oc_build_value(OC_V_CELL, 5, 0, 0, 0), next = carry;
    next.version = 1;
    access(b, OC_ROLE_CARRY, OC_FOLD, b->ids->carry, 0, 1, carry, next);
    writes(b, OC_ROLE_CELLS_OUT, b->ids->result, 1, result_value(1));
}

static void update_state(build *b, oc_role role, oc_what what, oc_buffer_id id, uint32_t block,
                         uint32_t k) {
    if (id == OC_NO_BUFFER) return;
    access(b, role, OC_FOLD, id, k, 1, oc_build_value(what, block, 0, 0, 0),
           oc_build_value(what, block, 0, 1, 0));
}

static void update(build *b, uint32_t block, uint32_t k) {
    const oc_build_spec *s = b->spec;
    bool copies = s->dtype != OC_F32;
    uint64_t states = 4 * (1u + s->has_m + s->has_v);
    op(b, OC_OP_UPDATE, OC_LANE_OPTIM, OC_BODY_UPDATE, block, k, 0);
    b->op.demand.bytes = oc_build_piece_bytes(
        b, block, k, 2 * states + grad_width(b, block) + (copies ? oc_dtype_bytes(s->dtype) : 0));
    predicate(b, b->ids->result, (uint32_t)(offsetof(oc_result_cell, finite) / 4));
    emit(b);
    access(b, OC_ROLE_GRAD, OC_READ, b->ids->grad[block], k, 1,
           grad_value(block, 0, (uint32_t)folds_of(s, block)), none);
    /* in fp32 the master is the weight */
    update_state(b, OC_ROLE_MASTER, copies ? OC_V_MASTER : OC_V_WEIGHT, b->ids->master[block],
                 block, k);
    update_state(b, OC_ROLE_M, OC_V_M, b->ids->m[block], block, k);
    update_state(b, OC_ROLE_V, OC_V_V, b->ids->v[block], block, k);
    if (copies) update_state(b, OC_ROLE_COPY, OC_V_WEIGHT, b->ids->weight[block], block, k);
}

static void finish_step(build *b) {
    const oc_model *m = b->spec->model;
    for (uint32_t c = 0; c < (uint32_t)m->n_table; c++)
        fold_rows(b, (uint32_t)m->first_table + c);
    if (m->position_block >= 0) fold_rows(b, (uint32_t)m->position_block);
    norm(b);
    for (uint32_t i = 0; i < (uint32_t)m->n_blocks; i++)
        for (uint32_t k = 0; k < pieces_of(b, i); k++)
            update(b, i, k);
}

/* Layer by layer: the backward of micro-batches [lo, hi), if any, and the forward of [next, end).
 */
static void layers(build *b, uint32_t lo, uint32_t hi, uint32_t next, uint32_t end) {
    uint32_t n = (uint32_t)b->spec->model->n_layers;
    for (uint32_t l = 0; l < n; l++) {
        for (uint32_t a = lo; a < hi; a++)
            layer_backward(b, n - 1 - l, a);
        for (uint32_t a = next; a < end; a++)
            layer_forward(b, l, a);
    }
    for (uint32_t a = lo; a < hi; a++)
        embed_backward(b, a);
}

void oc_build_ops(build *b, bool training) {
    uint32_t micros = (uint32_t)b->spec->micros, group = (uint32_t)b->spec->place.group;
    bool interleave = training && b->spec->place.interleave;
    b->training = training;
    for (uint32_t lo = 0, hi; lo < micros; lo = hi) {
        hi = lo + group < micros ? lo + group : micros;
        if (lo == 0 || !interleave) {
            begin_group(b, lo, hi);
            layers(b, 0, 0, lo, hi);
        }
        head_forward_group(b, lo, hi);
        if (!training) continue;
        head_backward_group(b, lo, hi);
        bool more = interleave && hi < micros;
        if (more) begin_group(b, hi, hi + 1);
        layers(b, lo, hi, hi, more ? hi + 1 : hi);
    }
    if (training) finish_step(b);
}
