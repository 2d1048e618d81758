/* program.h - the block programs: what one block computes, forward and backward, on any device.
 *
 * Each takes flat weights of its block (compute dtype, layout of oc_block) and activations, and
 * calls the device table. Nothing here allocates or knows tiers; sizes are pure functions of spec
 * and capacities.
 *
 * A layer's forward writes the tensors its backward needs into `save`. A backward that finds no
 * save (recompute) runs the same forward into its own save area first: the same kernels, the same
 * bits. T = batch * seq tokens, always the full capacity; padding tokens carry label -100. */
#ifndef OC_PROGRAM_H
#define OC_PROGRAM_H

#include "model/model.h"

typedef struct oc_program_shape {
    const oc_model *model;
    oc_device *device;
    oc_dtype dtype;
    int64_t batch, seq; /* of a micro-batch */
} oc_program_shape;

/* What varies per micro-batch, in device memory. */
typedef struct oc_program_batch {
    const int32_t *tokens,
        *labels; /* [T]; labels are shifted already: the target of this row; -100 none */
    const int32_t *positions; /* [T] inside the document */
    const int32_t *doc_start; /* [T] first token of the document, relative to the sequence */
} oc_program_batch;

/* Bytes, each a multiple of 64. */
uint64_t oc_program_act_bytes(const oc_program_shape *s);  /* [T, hidden] in dtype */
uint64_t oc_program_row_bytes(const oc_program_shape *s);  /* [T, embed_dim] in dtype */
uint64_t oc_program_save_bytes(const oc_program_shape *s); /* one layer's saved tensors */
uint64_t
oc_program_work_bytes(const oc_program_shape *s); /* workspace of a layer op, without a save area */
uint64_t oc_program_head_work_bytes(const oc_program_shape *s); /* logits tile, dlogits tile */
uint64_t
oc_program_head_state_bytes(const oc_program_shape *s); /* xn, its statistics, lse, dxn: lives
                                                          from final norm to its backward */
/* Flops a micro-batch: forward of one layer, of one head chunk of `rows` rows. Backward is twice.
 */
double oc_program_layer_flops(const oc_program_shape *s);
double oc_program_chunk_flops(const oc_program_shape *s, int64_t rows);

/* The factor of embedding rows as it is applied: rounded to the dtype. The gradient of a row is
 * this times the gradient of act. */
float oc_program_embedding_scale(const oc_program_shape *s);
/* Models without a front block: act = scale * rows (+ position rows; NULL: none). rows: [T, hidden]
 * gathered embeddings. */
void oc_program_embed(const oc_program_shape *s, const void *rows, const void *position_rows,
                      void *act);

/* Models with a front block (their embedding scale is 1): act = front(rows) (+ position rows).
 * rows: [T, embed_dim]; position_rows: [T, hidden] or NULL; work: oc_program_work_bytes(). */
void oc_program_front_forward(const oc_program_shape *s, const oc_block *block, const void *weights,
                              const void *rows, const void *position_rows, void *act, void *work);
/* d: gradient of act (and of the position rows), read; rows: as in the forward; d_rows: [T,
 * embed_dim], written; grads: the block's flat gradient, every element written. */
void oc_program_front_backward(const oc_program_shape *s, const oc_block *block,
                               const void *weights, const void *rows, const void *d, void *d_rows,
                               void *grads, void *work);

/* out = layer(in). inv_freq: the model's table of that name (oc_model_rope()), in device memory.
 * save: oc_program_save_bytes(), written. */
void oc_program_layer_forward(const oc_program_shape *s, const oc_block *block, const void *weights,
                              const float *inv_freq, const oc_program_batch *b, const void *in,
                              void *out, void *save, void *work);
/* d: in: gradient of out, out: gradient of in (in place). grads: the block's flat gradient, every
 * element written (padding as 0). save: as forward wrote it; recompute: oc_program_save_bytes()
 * that this call fills itself. May overwrite save. */
void oc_program_layer_backward(const oc_program_shape *s, const oc_block *block,
                               const void *weights, const float *inv_freq,
                               const oc_program_batch *b, const void *in, void *d, void *grads,
                               void *save, bool recompute, void *work);

/* Final norm and projection into the head state; starts the cross-entropy state and zeroes dxn. */
void oc_program_final_forward(const oc_program_shape *s, const oc_block *block, const void *weights,
                              const void *in, void *state);
/* One chunk of the head: online log-sum-exp of its logits. */
void oc_program_head_forward(const oc_program_shape *s, const oc_block *chunk, const void *weights,
                             const oc_program_batch *b, void *state, void *work);
/* After all chunks: *loss_sum = summed negative log-likelihood of the micro-batch (fp64). */
void oc_program_loss(const oc_program_shape *s, const oc_program_batch *b, void *state,
                     double *loss_sum);
/* One chunk again: its weight gradient (whole chunk written) and its share of dxn. dscale: loss
 * scale, in device memory. */
void oc_program_head_backward(const oc_program_shape *s, const oc_block *chunk, const void *weights,
                              const oc_program_batch *b, const float *dscale, void *grads,
                              void *state, void *work);
/* d = gradient of `in`; grads: the final block's flat gradient. */
void oc_program_final_backward(const oc_program_shape *s, const oc_block *block,
                               const void *weights, const void *in, void *d, void *grads,
                               void *state);
/* Logits of all rows for one chunk, fp32 [T, rows of chunk], from the state: for tests and
 * generation. */
void oc_program_head_logits(const oc_program_shape *s, const oc_block *chunk, const void *weights,
                            const void *state, float *logits, int64_t ld);

#endif
