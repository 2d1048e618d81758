/* build.h - the plans of training: one optimizer step, and one evaluation batch.
 *
 * Pure functions of model, sizes and placement. A step of A micro-batches runs in groups of G:
 * within a group each block serves G micro-batches before the next block is used (G = 1 is
 * depth-first, G = A breadth-first). Interleaved, the layers' backward of one micro-batch takes
 * turns with the layers' forward of the next: a forward needs more of the link and a backward more
 * of the arithmetic, and together they fill both. Nothing but speed and memory depends on the
 * placement: folds happen in this order, per block: micro-batch 0 .. A-1, and for a tied table its
 * head gradients before its embedding gradients.
 *
 * An embedding is never moved whole for its lookup: fetch_rows brings the rows of the micro-batch.
 * Its gradient is retired as rows too, and folded once at the end of the step. A model whose rows
 * pass through a front block first (norm or projection) fetches them again for its backward. */
#ifndef OC_BUILD_H
#define OC_BUILD_H

#include "model/model.h"
#include "plan/plan.h"

/* What the executor's body table must hold at these places. */
typedef enum oc_body_id {
    OC_BODY_COPY,            /* SRC -> DST */
    OC_BODY_FETCH_ROWS,      /* rows of SRC (many) chosen by BATCH -> ROWS */
    OC_BODY_EMBED,           /* ROWS -> OUT */
    OC_BODY_EMBED_POSITIONS, /* ROWS + POSITION_ROWS -> OUT */
    OC_BODY_FRONT_FORWARD,   /* the same through the front block */
    OC_BODY_FRONT_POSITIONS,
    OC_BODY_LAYER_FORWARD,
    OC_BODY_FINAL_FORWARD,
    OC_BODY_HEAD_FORWARD,
    OC_BODY_LOSS,
    OC_BODY_HEAD_BACKWARD,
    OC_BODY_FINAL_BACKWARD,
    OC_BODY_LAYER_BACKWARD,  /* from saved tensors */
    OC_BODY_LAYER_RECOMPUTE, /* the same, forward first */
    OC_BODY_FRONT_BACKWARD,  /* D -> OUT, gradient of the rows */
    OC_BODY_SCALE_ROWS,      /* D becomes the gradient of the rows */
    OC_BODY_FOLD,            /* GRAD += SRC */
    OC_BODY_FOLD_LAST,       /* as FOLD, with norm partials, also of a micro-batch without rows */
    OC_BODY_FOLD_FIRST,      /* GRAD = SRC */
    OC_BODY_FOLD_IN_PLACE,   /* GRAD was written or retired there: norm partials only */
    OC_BODY_FOLD_ROWS,       /* GRAD[rows of BATCH] += SRC */
    OC_BODY_FOLD_ROWS_FIRST, /* the same into zeros */
    OC_BODY_NORM,
    OC_BODY_UPDATE,
    OC_BODY_POISON,
    OC_BODY_COUNT
} oc_body_id;

typedef struct oc_placement {
    bool resident;     /* every state at home where the device computes: nothing moves */
    oc_tier compute;   /* tier of slots and activations: host for a CPU device without a cap */
    int32_t slots;     /* weight slots */
    int32_t slabs;     /* gradient slabs */
    int32_t act_slots; /* 0: activation checkpoints at home on the device; else on the host, this
                          many slots */
    int32_t
        kept_layers; /* the last so many layers keep their saved tensors; the others recompute */
    int32_t group;   /* micro-batches a block serves in a row */
    bool interleave; /* group 1: a backward takes turns with the next micro-batch's forward */
    uint64_t piece_elements; /* multiple of OC_NORM_CHUNK */
} oc_placement;

typedef struct oc_build_sizes {
    uint64_t act_bytes, row_bytes, save_bytes, work_bytes, head_work_bytes, head_state_bytes;
    uint64_t scratch_bytes;
    double layer_flops, head_row_flops; /* forward, of a micro-batch */
} oc_build_sizes;

typedef struct oc_build_spec {
    const oc_model *model;
    oc_dtype dtype;
    int64_t batch, seq; /* of a micro-batch */
    int32_t micros;     /* A */
    bool has_m, has_v;  /* what the optimizer keeps */
    bool train;         /* false: an eval plan only */
    bool with_eval;     /* a second plan in the set: evaluation of up to A micro-batches */
    oc_build_sizes sizes;
    oc_placement place;
} oc_build_spec;

/* Buffers the session fills or reads. Layouts in cells.h. */
typedef struct oc_build_ids {
    oc_buffer_id batch, order, control, losses, result,
        carry; /* OC_NO_BUFFER where there is none */
    oc_buffer_id scratch;
    oc_buffer_id *weight, *grad, *master, *m, *v; /* per block; weight = master in fp32 */
    int32_t step_plan, eval_plan;                 /* number in the set; -1: none */
} oc_build_ids;

/* The set is derived, not yet verified. ids' arrays are freed by oc_build_ids_release(). */
OC_NODISCARD oc_status oc_build(const oc_build_spec *spec, oc_plan_set **out, oc_build_ids *ids,
                                oc_error *err);
void oc_build_ids_release(oc_build_ids *ids);

/* Bytes a tier needs, by use (OC_USE_COUNT entries; NULL: not wanted), without building the ops. */
OC_NODISCARD oc_status oc_build_measure(const oc_build_spec *spec, oc_tier tier, uint64_t *bytes,
                                        uint64_t *by_use, oc_error *err);

/* Whether a block's gradient home is fp32 (several folds, or rows) or the compute dtype. */
oc_dtype oc_build_grad_dtype(const oc_build_spec *spec, int32_t block);

#endif
