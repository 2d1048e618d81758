/* demand.c - what each op asks of the machine, from the block at hand and from its accesses.
 *
 *   bytes   of a transfer: what crosses the lane's link, and exactly what its body moves.
 *           Of an op that computes: what it reads and writes in memory, each access once, what it
 *           folds into twice.
 *   flops   of matrix products and attention (model/flops.h), and nothing else of the op beside
 *           them; of ops without any, operations on single values in round numbers: bytes decide.
 *   cores   what runs on the host outside the pool takes one.
 *
 * Rows chosen by an index are touched where they are: T of them over the whole table, shared out
 * by how many rows each chunk has. */
#include "build/internal.h"

#include "base/checked.h"
#include "model/flops.h"

static int64_t tokens_of(const oc_build_spec *s) { return s->batch * s->seq; }

static const oc_block *block_of(const oc_build_spec *s, const oc_op *op) {
    return &s->model->blocks[op->block];
}

static int64_t row_width(const oc_model *m, const oc_block *x) {
    return x->kind == OC_BLOCK_POSITION ? m->hidden : m->embed_dim;
}

/* Elements of the block's state that the op is about. */
static uint64_t elements_of(const oc_build_spec *s, const oc_op *op) {
    uint64_t all = block_of(s, op)->elements, piece = s->place.piece_elements;
    if (op->piece == UINT32_MAX) return all;
    return oc_min_u64(op->pieces * piece, all - op->piece * piece);
}

/* Elements of rows that a fold of the step's, or the plan's, micro-batches adds to this chunk. */
static double row_elements(const oc_build_spec *s, const oc_op *op) {
    const oc_block *x = block_of(s, op);
    bool positions = x->kind == OC_BLOCK_POSITION;
    double n = (double)tokens_of(s) * oc_build_order_micros(s);
    double share = positions ? 1 : (double)x->rows / (double)s->model->vocab;
    return n * share * (double)row_width(s->model, x);
}

static bool folds_rows(const oc_op *op) {
    return op->body == OC_BODY_FOLD_ROWS || op->body == OC_BODY_FOLD_ROWS_FIRST;
}

static bool updates_early(const oc_op *op) {
    return op->body == OC_BODY_UPDATE_EARLY || op->body == OC_BODY_UPDATE_EARLY_THERE;
}

bool oc_demand_moves(const oc_op *op) {
    return op->kind == OC_OP_FETCH || op->kind == OC_OP_FETCH_ROWS || op->kind == OC_OP_RETIRE ||
           op->kind == OC_OP_PUBLISH;
}

/* ---- flops of an op ---- */

enum {
    NORM_FLOPS = 4, /* square, sum, scale, weight */
    NORM_BACKWARD_FLOPS = 8,
    ADAM_FLOPS = 12,
    MOMENTUM_FLOPS = 4,
    SGD_FLOPS = 2,
    PARTIAL_FLOPS = 2 /* square and sum */
};

static double norm_flops(const oc_build_spec *s, const oc_block *x, oc_weight w, double each) {
    int64_t cols = w == OC_W_FINAL_NORM ? s->model->hidden : s->model->embed_dim;
    return x->offset[w] >= 0 ? each * (double)tokens_of(s) * (double)cols : 0;
}

static double edge_flops(const oc_build_spec *s, const oc_op *op, oc_weight norm, bool backward) {
    const oc_block *x = block_of(s, op);
    double product = oc_flops_projection(s->model, x, tokens_of(s));
    if (product > 0) return backward ? 2 * product : product;
    return norm_flops(s, x, norm, backward ? NORM_BACKWARD_FLOPS : NORM_FLOPS);
}

static double update_flops(const oc_build_spec *s, const oc_op *op) {
    return (double)elements_of(s, op) * (s->has_v   ? ADAM_FLOPS
                                         : s->has_m ? MOMENTUM_FLOPS
                                                    : SGD_FLOPS);
}

static double layer_flops(const oc_build_spec *s, const oc_block *x) {
    double sum = 0;
    for (int p = 0; p < OC_PART_COUNT; p++)
        sum += oc_flops_part(s->model, x, s->batch, s->seq, (oc_part)p);
    return sum;
}

/* Every token over as many keys as its sequence may have. */
static double paged_flops(const oc_build_spec *s, const oc_block *x) {
    const oc_decoder_spec *d = &s->model->decoder;
    double keys = (double)s->pass.row_pages * s->pass.page_tokens;
    double window = (double)d->variants[x->variant].window;
    if (window > 0 && window < keys) keys = window;
    return 4.0 * (double)tokens_of(s) * keys * d->heads * d->head_dim;
}

static double flops_of(const oc_build_spec *s, const oc_op *op) {
    const oc_model *m = s->model;
    const oc_block *x = block_of(s, op);
    double values = (double)tokens_of(s) * (double)m->hidden;
    switch (op->body) {
    case OC_BODY_PART_IN:
    case OC_BODY_PART_ATTENTION:
    case OC_BODY_PART_OUT:
    case OC_BODY_PART_MLP:
        return oc_flops_part(m, x, s->batch, s->seq, (oc_part)(op->body - OC_BODY_PART_IN));
    case OC_BODY_PART_PAGED:
        return paged_flops(s, x);
    case OC_BODY_HEAD_LOGITS:
        return oc_flops_head(m, s->pass.rows, x->rows);
    case OC_BODY_LAYER_BACKWARD:
        return 2 * layer_flops(s, x);
    case OC_BODY_LAYER_BACKWARD_UP:
        return 2 * layer_flops(s, x) + oc_flops_up(m, tokens_of(s));
    case OC_BODY_HEAD_FORWARD:
        return oc_flops_head(m, tokens_of(s), x->rows);
    case OC_BODY_HEAD_BACKWARD_KEPT:
        return 2 * oc_flops_head(m, tokens_of(s), x->rows);
    case OC_BODY_HEAD_BACKWARD: /* the logits once more */
        return 3 * oc_flops_head(m, tokens_of(s), x->rows);
    case OC_BODY_FRONT_FORWARD:
    case OC_BODY_FRONT_POSITIONS:
        return edge_flops(s, op, OC_W_EMBED_NORM, false);
    case OC_BODY_FRONT_BACKWARD:
        return edge_flops(s, op, OC_W_EMBED_NORM, true);
    case OC_BODY_FINAL_FORWARD:
    case OC_BODY_FINAL_SAMPLED:
        return edge_flops(s, op, OC_W_FINAL_NORM, false);
    case OC_BODY_FINAL_BACKWARD:
        return edge_flops(s, op, OC_W_FINAL_NORM, true);
    case OC_BODY_EMBED:
    case OC_BODY_SCALE_ROWS:
        return values;
    case OC_BODY_EMBED_POSITIONS:
        return 2 * values;
    case OC_BODY_LOSS:
        return (double)tokens_of(s);
    case OC_BODY_FOLD:
    case OC_BODY_FOLD_LAST:
        return (double)elements_of(s, op);
    case OC_BODY_FOLD_ROWS:
    case OC_BODY_FOLD_ROWS_FIRST:
        return row_elements(s, op);
    case OC_BODY_UPDATE:
    case OC_BODY_UPDATE_THERE:
    case OC_BODY_UPDATE_EARLY:
    case OC_BODY_UPDATE_EARLY_THERE:
        return update_flops(s, op);
    default: /* what its emitter says, if anything */
        return op->demand.flops;
    }
}

static bool is_single_threaded(const oc_op *op) {
    return op->body == OC_BODY_FOLD_LOSS || op->body == OC_BODY_FOLD_LOSS_FIRST ||
           op->body == OC_BODY_BEGIN || op->body == OC_BODY_NORM ||
           op->body == OC_BODY_NORM_EARLY || op->body == OC_BODY_NEXT;
}

oc_demand oc_demand_of_op(const oc_build_spec *s, const oc_op *op) {
    oc_demand d = {.flops = flops_of(s, op), .cores = is_single_threaded(op) ? 1 : 0};
    int64_t width = row_width(s->model, block_of(s, op));
    if (op->kind == OC_OP_FETCH_ROWS)
        d.bytes = (uint64_t)(tokens_of(s) * width) * oc_dtype_bytes(s->dtype);
    else if (oc_demand_moves(op))
        d.bytes = op->demand.bytes;
    return d;
}

/* ---- accesses ---- */

/* Bytes of the pieces: a slot has room for more than the block that lies there. */
static uint64_t span_of(const build *b, const oc_access *a) {
    const oc_buffer *x = oc_plan_buffer_at(b->pb, a->buffer);
    uint32_t count = a->count == UINT32_MAX ? x->pieces - a->first : a->count;
    uint64_t width = oc_format_bits((oc_format)a->value.format) / 8;
    if (width) return oc_build_run_bytes(b, a->value.block, a->value.piece, count, width);
    return oc_min_u64(count * x->piece_bytes, x->bytes - a->first * x->piece_bytes);
}

/* How often the pieces go through. An update writes the copy and does not read it. What only
 * measures a gradient reads it for the partials, below. */
static uint64_t passes_of(const oc_op *op, const oc_access *a) {
    if (a->role == OC_ROLE_COPY || a->role == OC_ROLE_KV)
        return 1; /* pages: read, little written */
    if (a->role == OC_ROLE_GRAD && op->body == OC_BODY_FOLD_IN_PLACE) return 0;
    if (a->role == OC_ROLE_GRAD && updates_early(op)) return 1;
    return a->mode == OC_FOLD ? 2 : 1;
}

/* Rows read and added to the gradient's, which is zeroed first where this makes it. */
static uint64_t row_bytes(const build *b, const oc_op *op, const oc_access *a) {
    double touched = row_elements(b->spec, op);
    if (a->role == OC_ROLE_SRC) return (uint64_t)touched * oc_dtype_bytes(b->spec->dtype);
    return 2 * 4 * (uint64_t)touched + (a->mode == OC_WRITE ? 4 * elements_of(b->spec, op) : 0);
}

/* Partials are made beside other work, or in a pass over the gradient of their own. */
static uint64_t measured_bytes(const oc_build_spec *s, const oc_op *op) {
    if (folds_rows(op)) return 4 * elements_of(s, op);
    bool apart = op->body == OC_BODY_FOLD_IN_PLACE || updates_early(op);
    return apart ? elements_of(s, op) * oc_dtype_bytes(s->dtype) : 0;
}

void oc_demand_add_access(const build *b, oc_op *op, const oc_access *a) {
    bool partials = a->role == OC_ROLE_PARTIALS;
    bool rows = folds_rows(op) && (a->role == OC_ROLE_SRC || a->role == OC_ROLE_GRAD);
    if (oc_demand_moves(op)) return;
    uint64_t bytes = rows ? row_bytes(b, op, a) : passes_of(op, a) * span_of(b, a);
    op->demand.bytes += bytes;
    if (!partials) return;
    if (a->mode == OC_READ) {
        op->demand.flops += (double)bytes / (double)sizeof(double); /* their sum */
        return;
    }
    op->demand.bytes += measured_bytes(b->spec, op);
    op->demand.flops += PARTIAL_FLOPS * (double)elements_of(b->spec, op);
}
