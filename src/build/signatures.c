/* signatures.c - what ops of each body look like: the accesses a body cannot do without, which
 * values they name, and how much room it takes. A body reaches memory through its accesses only. */
#include "build/internal.h"

#include "base/checked.h"

#include <stddef.h>
#include <string.h>

#define BIT(r) (1u << OC_ROLE_##r)
#define IS(r, v) .what[OC_ROLE_##r] = OC_V_##v

/* What layers and the head leave for their backward. */
#define SAVED (BIT(QKV) | BIT(ATTENTION) | BIT(MID) | BIT(UP) | BIT(MLP) | BIT(LOGITS))
/* Ops of a micro-batch: skipped when it has no rows, and bound to the op's block and micro-batch.
 */
#define BOUND                                                                                      \
    .whole = BIT(WEIGHT) | BIT(GRAD_OUT),                                                          \
    .own_block = BIT(WEIGHT) | BIT(GRAD_OUT) | BIT(KV) | SAVED,                                    \
    .own_micro = BIT(BATCH) | BIT(IN) | BIT(GRAD_OUT) | BIT(ROWS) | BIT(POSITION_ROWS) | BIT(D) |  \
                 BIT(STATE) | BIT(CELLS_OUT) | BIT(KV) | BIT(PAGES) | SAVED,                       \
    .pred = OC_PRED_MICRO, IS(CELLS_IN, CONTROL), IS(WEIGHT, WEIGHT), IS(GRAD_OUT, GRAD),          \
    IS(BATCH, BATCH), IS(IN, ACT), IS(WORK, SCRATCH), IS(ROWS, ROWS), IS(POSITION_ROWS, ROWS),     \
    IS(D, DACT), IS(CARRY, CARRY), IS(TABLE, CONST), IS(QKV, QKV), IS(ATTENTION, ATTENTION),       \
    IS(MID, MID), IS(UP, UP), IS(MLP, MLP), IS(LOGITS, LOGITS)
#define IN_PAGES IS(KV, KV), IS(PAGES, PAGES)
#define MOVES_PAGES                                                                                \
    .optional = BIT(CELLS_IN), .own_block = BIT(SRC) | BIT(DST),                                   \
    .own_micro = BIT(SRC) | BIT(DST) | BIT(PAGES), .pred = OC_PRED_MICRO, IS(CELLS_IN, CONTROL),   \
    IS(SRC, KV), IS(DST, KV), IS(PAGES, PAGES)
#define OF_MICRO .optional = BIT(CELLS_IN), BOUND
/* Folds: piece by piece, never skipped unless they say so. */
#define OF_PIECE                                                                                   \
    .single = BIT(GRAD) | BIT(PARTIALS), .run = BIT(SRC),                                          \
    .own_block = BIT(GRAD) | BIT(SRC) | BIT(PARTIALS), IS(GRAD, GRAD), IS(SRC, GRAD),              \
    IS(PARTIALS, PARTIALS), IS(CELLS_IN, CONTROL)
#define OF_ROWS                                                                                    \
    .whole = BIT(GRAD) | BIT(PARTIALS), .full = BIT(SRC) | BIT(BATCH),                             \
    .own_block = BIT(GRAD) | BIT(PARTIALS), .tolerant = BIT(SRC), .pred = OC_PRED_NEVER,           \
    IS(GRAD, GRAD), IS(PARTIALS, PARTIALS), IS(BATCH, ORDER)
#define OF_UPDATE                                                                                  \
    .own_block = BIT(GRAD) | BIT(MASTER) | BIT(M) | BIT(V) | BIT(COPY) | BIT(PARTIALS),            \
    .pred = OC_PRED_ALWAYS, IS(CELLS_IN, RESULT), IS(STATE, RESULT), IS(GRAD, GRAD), IS(M, M),     \
    IS(V, V), IS(COPY, WEIGHT), IS(PARTIALS, PARTIALS)

#define OF_UPDATE_LATE                                                                             \
    .reads = BIT(CELLS_IN) | BIT(GRAD), .folds = BIT(MASTER),                                      \
    .single = BIT(GRAD) | BIT(MASTER) | BIT(M) | BIT(V), OF_UPDATE
#define OF_UPDATE_EARLY                                                                            \
    .reads = BIT(CELLS_IN), .writes = BIT(PARTIALS), .folds = BIT(MASTER) | BIT(GRAD),             \
    .run = BIT(GRAD), .single = BIT(MASTER) | BIT(M) | BIT(V) | BIT(PARTIALS), OF_UPDATE

static const struct {
    oc_body_id body;
    oc_signature sig;
} table[] = {
    {OC_BODY_COPY,
     {.reads = BIT(SRC),
      .writes = BIT(DST),
      .optional = BIT(CELLS_IN),
      .run = BIT(SRC) | BIT(DST),
      .own_block = BIT(SRC) | BIT(DST),
      .own_micro = BIT(SRC) | BIT(DST),
      .pred = OC_PRED_MICRO_MAY,
      IS(CELLS_IN, CONTROL)}},
    {OC_BODY_COPY_ROWS,
     {.reads = BIT(SRC) | BIT(CELLS_IN),
      .optional = BIT(DST),
      .full = BIT(DST),
      .own_micro = BIT(SRC),
      .appends = true,
      .pred = OC_PRED_MICRO_MAY,
      IS(CELLS_IN, CONTROL),
      IS(SRC, DACT),
      IS(DST, ROWS)}},
    {OC_BODY_COPY_PARTIALS,
     {.reads = BIT(SRC),
      .writes = BIT(DST),
      .full = BIT(SRC) | BIT(DST),
      .own_block = BIT(SRC) | BIT(DST),
      .tolerant = BIT(SRC),
      .pred = OC_PRED_NEVER,
      IS(SRC, PARTIALS),
      IS(DST, PARTIALS)}},
    {OC_BODY_FETCH_ROWS,
     {.reads = BIT(SRC) | BIT(BATCH),
      .writes = BIT(ROWS),
      .optional = BIT(CELLS_IN),
      .many = BIT(SRC),
      .own_block = BIT(ROWS),
      .own_micro = BIT(BATCH) | BIT(ROWS),
      .pred = OC_PRED_MICRO,
      IS(CELLS_IN, CONTROL),
      IS(SRC, WEIGHT),
      IS(BATCH, BATCH),
      IS(ROWS, ROWS)}},
    {OC_BODY_EMBED, {.reads = BIT(ROWS), .writes = BIT(OUT), OF_MICRO}},
    {OC_BODY_EMBED_POSITIONS,
     {.reads = BIT(ROWS) | BIT(POSITION_ROWS), .writes = BIT(OUT), OF_MICRO}},
    {OC_BODY_FRONT_FORWARD,
     {.reads = BIT(WEIGHT) | BIT(ROWS), .writes = BIT(OUT) | BIT(WORK), OF_MICRO}},
    {OC_BODY_FRONT_POSITIONS,
     {.reads = BIT(WEIGHT) | BIT(ROWS) | BIT(POSITION_ROWS),
      .writes = BIT(OUT) | BIT(WORK),
      OF_MICRO}},
    {OC_BODY_PART_IN,
     {.reads = BIT(WEIGHT) | BIT(IN) | BIT(BATCH), .writes = BIT(QKV) | BIT(WORK), OF_MICRO}},
    {OC_BODY_PART_ATTENTION,
     {.reads = BIT(QKV) | BIT(BATCH), .writes = BIT(ATTENTION) | BIT(WORK), OF_MICRO}},
    {OC_BODY_PART_OUT,
     {.reads = BIT(WEIGHT) | BIT(IN) | BIT(ATTENTION), .writes = BIT(MID) | BIT(WORK), OF_MICRO}},
    {OC_BODY_PART_MLP,
     {.reads = BIT(WEIGHT) | BIT(MID),
      .writes = BIT(WORK),
      .optional = BIT(CELLS_IN) | BIT(OUT) | BIT(UP) | BIT(MLP),
      BOUND,
      IS(OUT, ACT)}},
    {OC_BODY_FINAL_FORWARD, {.reads = BIT(WEIGHT) | BIT(IN), .writes = BIT(STATE), OF_MICRO}},
    {OC_BODY_HEAD_FORWARD,
     {.reads = BIT(WEIGHT) | BIT(BATCH),
      .writes = BIT(WORK),
      .folds = BIT(STATE),
      .optional = BIT(CELLS_IN) | BIT(LOGITS),
      BOUND}},
    {OC_BODY_LOSS,
     {.reads = BIT(BATCH),
      .writes = BIT(CELLS_OUT),
      .folds = BIT(STATE),
      OF_MICRO,
      IS(CELLS_OUT, LOSSES)}},
    {OC_BODY_HEAD_BACKWARD,
     {.reads = BIT(WEIGHT) | BIT(BATCH) | BIT(CARRY),
      .writes = BIT(WORK) | BIT(GRAD_OUT),
      .folds = BIT(STATE),
      OF_MICRO}},
    {OC_BODY_HEAD_BACKWARD_KEPT,
     {.reads = BIT(WEIGHT) | BIT(BATCH) | BIT(CARRY) | BIT(LOGITS),
      .writes = BIT(WORK) | BIT(GRAD_OUT),
      .folds = BIT(STATE),
      OF_MICRO}},
    {OC_BODY_FINAL_BACKWARD,
     {.reads = BIT(WEIGHT) | BIT(IN),
      .writes = BIT(D) | BIT(GRAD_OUT),
      .folds = BIT(STATE),
      OF_MICRO}},
    {OC_BODY_LAYER_BACKWARD,
     {.reads = BIT(WEIGHT) | BIT(IN) | BIT(BATCH) | BIT(QKV) | BIT(ATTENTION),
      .writes = BIT(WORK) | BIT(GRAD_OUT),
      .folds = BIT(D) | BIT(UP),
      OF_MICRO}},
    {OC_BODY_LAYER_BACKWARD_UP,
     {.reads = BIT(WEIGHT) | BIT(IN) | BIT(BATCH) | BIT(QKV) | BIT(ATTENTION),
      .writes = BIT(WORK) | BIT(GRAD_OUT),
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
     {.reads = BIT(SRC) | BIT(BATCH), .folds = BIT(GRAD), .optional = BIT(PARTIALS), OF_ROWS}},
    {OC_BODY_FOLD_ROWS_FIRST,
     {.reads = BIT(SRC) | BIT(BATCH), .writes = BIT(GRAD), .optional = BIT(PARTIALS), OF_ROWS}},
    {OC_BODY_FOLD_LOSS,
     {.reads = BIT(SRC),
      .folds = BIT(STATE),
      .tolerant = BIT(SRC),
      .pred = OC_PRED_NEVER,
      IS(SRC, LOSSES),
      IS(STATE, LOSS)}},
    {OC_BODY_FOLD_LOSS_FIRST,
     {.reads = BIT(SRC),
      .writes = BIT(STATE),
      .tolerant = BIT(SRC),
      .pred = OC_PRED_NEVER,
      IS(SRC, LOSSES),
      IS(STATE, LOSS)}},
    {OC_BODY_BEGIN,
     {.reads = BIT(CELLS_IN) | BIT(CARRY),
      .writes = BIT(CELLS_OUT),
      .pred = OC_PRED_NEVER,
      IS(CELLS_IN, CONTROL),
      IS(CARRY, CARRY),
      IS(CELLS_OUT, RESULT)}},
    {OC_BODY_NORM,
     {.reads = BIT(PARTIALS) | BIT(CELLS_IN) | BIT(STATE),
      .writes = BIT(CELLS_OUT),
      .folds = BIT(CARRY),
      .many = BIT(PARTIALS),
      .full = BIT(PARTIALS) | BIT(STATE),
      .pred = OC_PRED_NEVER,
      IS(PARTIALS, PARTIALS),
      IS(CELLS_IN, CONTROL),
      IS(STATE, LOSS),
      IS(CARRY, CARRY),
      IS(CELLS_OUT, RESULT)}},
    {OC_BODY_NORM_EARLY,
     {.reads = BIT(PARTIALS) | BIT(CELLS_IN) | BIT(STATE),
      .folds = BIT(CARRY) | BIT(CELLS_OUT),
      .many = BIT(PARTIALS),
      .full = BIT(PARTIALS) | BIT(STATE),
      .tolerant = BIT(PARTIALS),
      .pred = OC_PRED_NEVER,
      IS(PARTIALS, PARTIALS),
      IS(CELLS_IN, CONTROL),
      IS(STATE, LOSS),
      IS(CARRY, CARRY),
      IS(CELLS_OUT, RESULT)}},
    {OC_BODY_UPDATE, {OF_UPDATE_LATE}},
    {OC_BODY_UPDATE_THERE, {OF_UPDATE_LATE}},
    {OC_BODY_UPDATE_EARLY, {OF_UPDATE_EARLY}},
    {OC_BODY_UPDATE_EARLY_THERE, {OF_UPDATE_EARLY}},
    {OC_BODY_PUBLISH,
     {.reads = BIT(SRC) | BIT(CELLS_IN),
      .folds = BIT(DST),
      .run = BIT(SRC),
      .single = BIT(DST),
      .own_block = BIT(SRC) | BIT(DST),
      .pred = OC_PRED_ALWAYS,
      IS(CELLS_IN, RESULT),
      IS(SRC, WEIGHT),
      IS(DST, WEIGHT)}},
    {OC_BODY_PART_PAGED,
     {.reads = BIT(QKV) | BIT(BATCH) | BIT(PAGES),
      .writes = BIT(ATTENTION) | BIT(WORK),
      .folds = BIT(KV),
      .optional = BIT(CELLS_IN),
      BOUND,
      IN_PAGES}},
    {OC_BODY_FINAL_SAMPLED,
     {.reads = BIT(WEIGHT) | BIT(IN) | BIT(PAGES),
      .writes = BIT(STATE) | BIT(WORK),
      .optional = BIT(CELLS_IN),
      BOUND,
      IN_PAGES}},
    {OC_BODY_HEAD_LOGITS, {.reads = BIT(WEIGHT) | BIT(STATE), .writes = BIT(LOGITS), OF_MICRO}},
    {OC_BODY_NEXT,
     {.reads = BIT(LOGITS),
      .folds = BIT(CELLS_OUT) | BIT(BATCH) | BIT(PAGES),
      .many = BIT(LOGITS),
      .full = BIT(LOGITS) | BIT(CELLS_OUT) | BIT(BATCH) | BIT(PAGES),
      .tolerant = BIT(LOGITS),
      .pred = OC_PRED_NEVER,
      IS(LOGITS, LOGITS),
      IS(CELLS_OUT, CONTROL),
      IS(BATCH, BATCH),
      IS(PAGES, PAGES)}},
    {OC_BODY_FETCH_PAGES, {.reads = BIT(SRC) | BIT(PAGES), .writes = BIT(DST), MOVES_PAGES}},
    {OC_BODY_STORE_PAGES, {.reads = BIT(SRC) | BIT(PAGES), .folds = BIT(DST), MOVES_PAGES}},
    {OC_BODY_POISON, {.writes = BIT(DST), .repeated = BIT(DST), .pred = OC_PRED_NEVER}},
};

static int64_t least_chunk(const oc_model *m) {
    int64_t least = INT64_MAX;
    for (int32_t i = m->first_head; i < m->first_head + m->n_head; i++)
        if (m->blocks[i].rows < least) least = m->blocks[i].rows;
    return least;
}

/* The room that a role takes, where it is the same for every block. */
static void room(const build *b, oc_body_id body, oc_signature *g) {
    const oc_build_spec *s = b->spec;
    const oc_build_sizes *z = &s->sizes;
    uint64_t tokens = (uint64_t)(s->batch * s->seq);
    uint64_t kv_bytes = (uint64_t)s->pass.pages * s->pass.page_bytes;
    int32_t listed = oc_build_listed_pages(s);
    bool head = body == OC_BODY_HEAD_FORWARD || body == OC_BODY_HEAD_BACKWARD ||
                body == OC_BODY_HEAD_BACKWARD_KEPT;
    bool pass = body >= OC_BODY_PART_PAGED && body <= OC_BODY_HEAD_LOGITS;
    bool of_micro = (body >= OC_BODY_EMBED && body <= OC_BODY_SCALE_ROWS) || pass;
    bool moves_pages = body == OC_BODY_FETCH_PAGES || body == OC_BODY_STORE_PAGES;
    g->bytes[OC_ROLE_PAGES] = oc_pages_bytes(s->pass.rows, s->pass.row_pages, listed);
    if (moves_pages) g->bytes[OC_ROLE_SRC] = g->bytes[OC_ROLE_DST] = kv_bytes;
    if (!of_micro) return;
    bool rows_out = body == OC_BODY_FRONT_BACKWARD;
    g->bytes[OC_ROLE_WORK] = head ? z->head_work_bytes : z->work_bytes;
    for (int v = 0; v < OC_SAVED_COUNT; v++)
        g->bytes[OC_ROLE_QKV + v] = z->saved_bytes[v];
    g->bytes[OC_ROLE_LOGITS] = pass ? 4 * (uint64_t)s->pass.rows * (uint64_t)least_chunk(s->model)
                                    : oc_build_logits_bytes(s, least_chunk(s->model));
    g->bytes[OC_ROLE_KV] = kv_bytes;
    g->bytes[OC_ROLE_IN] = g->bytes[OC_ROLE_D] = z->act_bytes;
    g->bytes[OC_ROLE_OUT] = rows_out ? z->row_bytes : z->act_bytes;
    g->bytes[OC_ROLE_ROWS] = z->row_bytes;
    g->bytes[OC_ROLE_POSITION_ROWS] = z->act_bytes;
    g->bytes[OC_ROLE_STATE] = z->head_state_bytes;
    g->bytes[OC_ROLE_BATCH] = OC_BATCH_ARRAYS * 4 * tokens;
    if (body == OC_BODY_LOSS) g->bytes[OC_ROLE_CELLS_OUT] = oc_build_loss_bytes(s);
}

/* Updates have the optimizer's states. New weights stand at their place at home, or anywhere on
 * their way there; in fp32 the master is the weight unless they have different homes. */
static void adapt_update(const build *b, oc_body_id body, oc_signature *g) {
    const oc_build_spec *s = b->spec;
    bool away = oc_build_any(s, oc_build_publishes), wide = s->dtype == OC_F32;
    g->what[OC_ROLE_MASTER] = !wide ? OC_V_MASTER : away ? OC_V_NONE : OC_V_WEIGHT;
    for (int k = 0; k < STATE_ROWS; k++)
        if (oc_state_rows[k].kept(s)) g->folds |= 1u << oc_state_rows[k].role;
    if (away)
        g->optional |= BIT(COPY);
    else if (!wide)
        g->folds |= BIT(COPY);
    *(away ? &g->run : &g->single) |= BIT(COPY);
    if (body == OC_BODY_UPDATE_THERE || body == OC_BODY_UPDATE_EARLY_THERE) g->reads |= BIT(STATE);
}

/* A part reads its own pieces of the weights, if it has any. */
static void adapt_part(const build *b, oc_part p, oc_signature *g) {
    g->part_first = b->parts[p].first;
    g->part_count = b->parts[p].count;
    g->whole &= ~BIT(WEIGHT);
    g->part = BIT(WEIGHT);
    if (g->part_count > 0) g->reads |= BIT(WEIGHT);
    if (p == OC_PART_MLP && oc_build_parallel(b->spec)) g->reads |= BIT(IN);
}

static void adapt_layer(const build *b, oc_body_id body, oc_signature *g) {
    const oc_decoder_spec *d = &b->spec->model->decoder;
    bool part = body >= OC_BODY_PART_IN && body <= OC_BODY_PART_MLP;
    bool backward = body == OC_BODY_LAYER_BACKWARD || body == OC_BODY_LAYER_BACKWARD_UP;
    bool paged = body == OC_BODY_PART_PAGED;
    bool turns = backward || paged || body == OC_BODY_PART_IN || body == OC_BODY_PART_ATTENTION;
    if (part) adapt_part(b, (oc_part)(body - OC_BODY_PART_IN), g);
    if (paged) adapt_part(b, OC_PART_ATTENTION, g);
    if (turns && b->ids->table != OC_NO_BUFFER) g->reads |= BIT(TABLE);
    if (!backward) return;
    if (oc_program_backward_reads(d, OC_SAVED_MID)) g->reads |= BIT(MID);
    if (oc_program_backward_reads(d, OC_SAVED_MLP)) g->folds |= BIT(MLP);
}

/* What depends on the model: a body that computes positions has their table; frozen blocks have no
 * gradient; late rows are written by the first micro-batch and folded by the others. */
static void adapt(const build *b, oc_body_id body, oc_signature *g) {
    const oc_build_spec *s = b->spec;
    bool turns = s->place.interleave && s->micros > 1;
    bool updates = body >= OC_BODY_UPDATE && body <= OC_BODY_UPDATE_EARLY_THERE;
    bool sums = body == OC_BODY_FOLD_LOSS || body == OC_BODY_FOLD_LOSS_FIRST;
    if (sums && !turns) g->full |= BIT(SRC); /* a turn has one micro-batch of two */
    adapt_layer(b, body, g);
    if (oc_build_any(s, oc_build_frozen) && (g->writes & BIT(GRAD_OUT))) {
        g->writes &= ~BIT(GRAD_OUT);
        g->optional |= BIT(GRAD_OUT);
    }
    if (updates) adapt_update(b, body, g);
}

void oc_build_signatures(build *b) {
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        oc_signature g = table[i].sig;
        bool finite = g.pred == OC_PRED_ALWAYS;
        g.pred_buffer = finite ? b->ids->result : b->ids->control;
        g.pred_base = (uint32_t)(finite ? offsetof(oc_result_cell, finite)
                                        : offsetof(oc_control_cell, live)) /
                      4;
        room(b, table[i].body, &g);
        adapt(b, table[i].body, &g);
        oc_plan_signature(b->pb, (uint16_t)table[i].body, g);
    }
    for (int32_t i = 0; i < b->spec->model->n_blocks; i++)
        oc_plan_block(b->pb, (oc_block_size){b->spec->model->blocks[i].elements,
                                             !oc_build_trains(b->spec, (uint32_t)i)});
    oc_plan_piece(b->pb, b->spec->place.piece_elements);
}
