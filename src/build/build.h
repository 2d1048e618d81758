/* build.h - the plans of training: those of one optimizer step, and of an evaluation; and the plan
 * of a pass, of which generation is made.
 *
 * Pure functions of model, sizes and placement. A step of A micro-batches is a sequence of small
 * plans that each serve a group of G of them: within a group each block serves G micro-batches
 * before the next block is used (G = 1 is depth-first, G = A breadth-first). What a step's sequence
 * is:
 *
 *   one group                 whole, update
 *   more                      first, middle ..., last, update
 *   interleaved (G = 1)       open, turn0.first, turn1, turn0 ..., close, update
 *   early updates (A = 1)     step
 *
 * Interleaved, a turn runs the layers' backward of one micro-batch beside the layers' forward of
 * the next: a forward needs more of the link and a backward more of the arithmetic, and together
 * they fill both. Early, each block is updated as soon as its gradient is there, and gradients have
 * no home.
 *
 * Nothing but speed and memory depends on the placement: folds happen in this order, per block:
 * micro-batch 0 .. A-1, and for a tied table its head gradients before its embedding gradients.
 *
 * An embedding is never moved whole for its lookup: fetch_rows brings the rows of the micro-batch.
 * Its gradient is retired as rows too, and folded row by row; for a tied table once at the end of
 * the step. A model whose rows pass through a front block first (norm or projection) fetches them
 * again for its backward.
 *
 * A pass takes some tokens of many sequences through the model, group by group, as a step takes
 * micro-batches: prompts in chunks and one token of each sequence that is being answered. Keys and
 * values of all tokens before lie in pages. Its last op looks at the logits and says what the next
 * pass takes (OC_BODY_NEXT), so that passes follow each other without a gap. */
#ifndef OC_BUILD_H
#define OC_BUILD_H

#include "model/program.h"
#include "plan/plan.h"

/* What the executor's body table must hold at these places. */
typedef enum oc_body_id {
    OC_BODY_COPY,            /* SRC -> DST */
    OC_BODY_COPY_ROWS,       /* SRC -> the micro-batch's place in DST */
    OC_BODY_COPY_PARTIALS,   /* as COPY, of what a step without targets did not write */
    OC_BODY_FETCH_ROWS,      /* rows of SRC (many) chosen by BATCH -> ROWS */
    OC_BODY_EMBED,           /* ROWS -> OUT */
    OC_BODY_EMBED_POSITIONS, /* ROWS + POSITION_ROWS -> OUT */
    OC_BODY_FRONT_FORWARD,   /* the same through the front block */
    OC_BODY_FRONT_POSITIONS,
    OC_BODY_PART_IN, /* of a layer: bodies in the order of oc_part */
    OC_BODY_PART_ATTENTION,
    OC_BODY_PART_OUT,
    OC_BODY_PART_MLP,
    OC_BODY_FINAL_FORWARD,
    OC_BODY_HEAD_FORWARD,
    OC_BODY_LOSS,
    OC_BODY_HEAD_BACKWARD,
    OC_BODY_HEAD_BACKWARD_KEPT, /* from LOGITS */
    OC_BODY_FINAL_BACKWARD,
    OC_BODY_LAYER_BACKWARD,
    OC_BODY_LAYER_BACKWARD_UP, /* the same without UP, which it makes again */
    OC_BODY_FRONT_BACKWARD,    /* D -> OUT, gradient of the rows */
    OC_BODY_SCALE_ROWS,        /* D becomes the gradient of the rows */
    OC_BODY_FOLD,              /* GRAD += SRC */
    OC_BODY_FOLD_LAST,         /* as FOLD, with norm partials, also of a micro-batch without rows */
    OC_BODY_FOLD_FIRST,        /* GRAD = SRC */
    OC_BODY_FOLD_IN_PLACE,     /* GRAD was written or retired there: norm partials only */
    OC_BODY_FOLD_ROWS,         /* GRAD[rows of ORDER] += SRC */
    OC_BODY_FOLD_ROWS_FIRST,   /* the same into zeros */
    OC_BODY_FOLD_LOSS,         /* STATE += losses of the plan's micro-batches */
    OC_BODY_FOLD_LOSS_FIRST,
    OC_BODY_BEGIN, /* early: the scalars of the updates, before any gradient is there */
    OC_BODY_NORM,
    OC_BODY_NORM_EARLY, /* what is left to say when the updates are under way */
    OC_BODY_UPDATE,
    OC_BODY_UPDATE_THERE, /* on a device of its own, which reads scalars from a copy there */
    OC_BODY_UPDATE_EARLY, /* with norm partials */
    OC_BODY_UPDATE_EARLY_THERE,
    OC_BODY_PUBLISH, /* SRC -> DST, its next version */
    OC_BODY_POISON,
    OC_BODY_PART_PAGED, /* of a layer in a pass: attention over pages, into which QKV goes first */
    OC_BODY_FINAL_SAMPLED, /* the final norm of the tokens that are wanted logits of */
    OC_BODY_HEAD_LOGITS,   /* of these, a chunk */
    OC_BODY_NEXT,          /* LOGITS -> what the next pass takes */
    OC_BODY_FETCH_PAGES,   /* SRC -> DST, those that PAGES says are read */
    OC_BODY_STORE_PAGES,   /* SRC -> DST, its next version: those that PAGES says were filled */
    OC_BODY_COUNT
} oc_body_id;

/* Where a block's states live: a row of the table of homes. Gradient, master and moments have one
 * home, since an update uses them together; where it is not that of the weights, the new weights
 * are published. */
typedef struct oc_block_homes {
    oc_tier weight, optimizer;
    bool frozen; /* it has no gradient, master or moments: nothing updates it */
} oc_block_homes;

typedef struct oc_placement {
    const oc_block_homes *homes; /* per block; borrowed. NULL: all where the device computes if
                                    resident, else on the host */
    bool resident;               /* every state at home where the device computes: nothing moves */
    oc_tier compute;   /* tier of slots and activations: host for a CPU device without a cap */
    int32_t slots;     /* weight slots */
    int32_t slabs;     /* gradient slabs */
    int32_t act_slots; /* 0: activation checkpoints at home on the device; else on the host, this
                          many slots */
    /* The last so many layers keep the value from forward to backward; the others make it again
     * (a value that no backward reads is kept by none). */
    int32_t kept[OC_SAVED_COUNT];
    /* Of the others the last so many let it wait on the host, and fetch it for the backward. */
    int32_t away[OC_SAVED_COUNT];
    int32_t kept_logits; /* the same of the last so many chunks of the head */
    /* Of a pass: pages of the first so many layers live on the host, and pass through slots. */
    int32_t away_pages, page_slots;
    int32_t group;   /* micro-batches a block serves in a row: 1 .. OC_MAX_GROUP */
    bool interleave; /* group 1: a backward takes turns with the next micro-batch's forward */
    bool early;      /* one micro-batch: updates during the backward, gradients without a home */
    uint64_t piece_elements; /* multiple of OC_NORM_CHUNK */
} oc_placement;

typedef struct oc_build_sizes {
    uint64_t act_bytes, row_bytes, work_bytes, head_work_bytes, head_state_bytes;
    uint64_t scratch_bytes, saved_bytes[OC_SAVED_COUNT];
} oc_build_sizes;

/* Of a pass. Its groups are micro-batches of batch 1 and seq tokens, all served in a row. */
typedef struct oc_pass_spec {
    int32_t rows;        /* sequences of a group at a time; 0: no generation */
    int32_t page_tokens; /* multiple of 16 */
    int32_t pages;       /* of a group */
    int32_t row_pages;   /* that a sequence has at most */
    uint64_t page_bytes; /* of a layer */
} oc_pass_spec;

typedef struct oc_build_spec {
    const oc_model *model;
    oc_dtype dtype;
    int64_t batch, seq; /* of a micro-batch */
    int32_t micros;     /* A */
    bool has_m, has_v;  /* what the optimizer keeps */
    bool train;         /* false: an eval plan only */
    bool with_eval;     /* an evaluation of up to a group of micro-batches too */
    bool scores;        /* of an evaluation: what became of each token, behind the loss */
    oc_pass_spec pass;  /* instead of all these: generation */
    oc_build_sizes sizes;
    oc_placement place;
} oc_build_spec;

/* Buffers the session fills or reads. Layouts in cells.h. */
typedef struct oc_build_ids {
    oc_buffer_id batch, order, control, losses, result, carry, table; /* OC_NO_BUFFER: none */
    oc_buffer_id scratch;
    oc_buffer_id pages; /* of a pass */
    oc_buffer_id
        *logits; /* of a pass, per chunk of the head, a piece a group: [samples, rows] fp32 */
    oc_buffer_id *weight, *grad, *master, *m, *v; /* per block; weight = master in fp32 */
} oc_build_ids;

/* The set is derived, not yet verified. ids' arrays are freed by oc_build_ids_release(). */
OC_NODISCARD oc_status oc_build(const oc_build_spec *spec, oc_plan_set **out, oc_build_ids *ids,
                                oc_error *err);
void oc_build_ids_release(oc_build_ids *ids);

/* ---- how a step runs through the set ---- */

/* One submission: which plan, and which micro-batches of the step it serves. */
typedef struct oc_turn {
    uint32_t plan;
    int32_t first_micro, micros; /* whose cells are to be filled; micros 0: none (update) */
    bool has_order;              /* its order cell too, */
    int32_t order_first;         /* from this micro-batch on */
    bool ends_step;              /* its result cell is the step's */
} oc_turn;

/* Submissions of a step in which `live` micro-batches have rows. */
int32_t oc_build_turns(const oc_build_spec *spec, int32_t live);
/* Number k of them. */
oc_turn oc_build_turn(const oc_build_spec *spec, const oc_plan_set *set, int32_t live, int32_t k);
/* The plan of that name; OC_NO_PLAN: there is none. */
uint32_t oc_build_find(const oc_plan_set *set, const char *name);

/* Micro-batches whose cells one submission holds: micro-batch m of the step is in piece
 * m % oc_build_sets(). */
int32_t oc_build_sets(const oc_build_spec *spec);
/* Micro-batches of an evaluation's submission. */
int32_t oc_build_eval_micros(const oc_build_spec *spec);
/* Whether rows wait for the end of the step: those of a tied table are folded when all its head
 * gradients are. */
bool oc_build_rows_late(const oc_build_spec *spec);
/* Micro-batches that the order cell covers: those that one submission takes backward, or when rows
 * are late, those of the whole step. */
int32_t oc_build_order_micros(const oc_build_spec *spec);

/* ---- sizes ---- */

/* Demand of many ops, added up: flops of those that compute, bytes of the others. */
typedef struct oc_work {
    double bytes, flops;
} oc_work;

/* Bytes of each tier, by use too, and the most that the set and its waits may take on the host;
 * without deriving anything. */
typedef struct oc_build_bytes {
    uint64_t arena[OC_TIER_COUNT];
    uint64_t use[OC_TIER_COUNT][OC_USE_COUNT];
    uint64_t plan;
    oc_work step[OC_LANE_COUNT]; /* what a step asks of each lane, all micro-batches with rows */
} oc_build_bytes;
OC_NODISCARD oc_status oc_build_measure(const oc_build_spec *spec, oc_build_bytes *out,
                                        oc_error *err);
/* Of these the arenas alone, which need no look at the ops. */
OC_NODISCARD oc_status oc_build_layout(const oc_build_spec *spec, oc_build_bytes *out,
                                       oc_error *err);

oc_block_homes oc_build_homes(const oc_build_spec *spec, uint32_t block);
/* The lowest layer that a backward reaches: below it, and before the layers, nothing is trained. 0
 * also when something before the layers is; n_layers: none. */
int32_t oc_build_lowest(const oc_build_spec *spec);
/* Of a micro-batch in the losses cell: the loss (fp64), with scores an oc_token_score a token. */
uint64_t oc_build_loss_bytes(const oc_build_spec *spec);
/* Pages that each list of the pages cell has room for: 0 where they live where they are used. */
int32_t oc_build_listed_pages(const oc_build_spec *spec);
/* Whether a fetch brings the block's weights to where they are used. */
bool oc_build_streams(const oc_build_spec *spec, uint32_t block);
/* Whether a block's gradient is fp32 (several folds, or rows) or the compute dtype. */
oc_dtype oc_build_grad_dtype(const oc_build_spec *spec, int32_t block);
/* Where a block's folds and updates run: states at home on a device of its own are updated there.
 */
oc_lane oc_build_home_lane(const oc_build_spec *spec, uint32_t block);
/* Layers that keep a value on the device, and those that let it wait on the host, of those whose
 * backward reads it. */
int32_t oc_build_kept(const oc_build_spec *spec, oc_saved v);
int32_t oc_build_away_saved(const oc_build_spec *spec, oc_saved v);

#endif
