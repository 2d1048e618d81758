/* program.h - the block programs: what one block computes, forward and backward, on any device.
 *
 * Each takes flat weights of its block (compute dtype, layout of oc_block) and activations, and
 * calls the device table. Nothing here allocates or knows tiers; sizes are pure functions of spec
 * and capacities.
 *
 * A layer's forward is four parts; what they leave for its backward are values, each in a place of
 * its own: kept from the forward, brought back from elsewhere, or made again by the same parts (the
 * same kernels, the same bits). T = batch * seq tokens, always the full capacity; padding tokens
 * carry label -100.
 *
 * Where nothing of a whole micro-batch is needed at a time - the mlp, the head - rows are taken a
 * tile at a time: work areas do not grow with T beyond it. A weight's gradient is the sum over the
 * tiles in order, in fp32, so the tile is part of the numerics; in one tile there is nothing to
 * sum.
 */
#ifndef OC_PROGRAM_H
#define OC_PROGRAM_H

#include "model/model.h"

enum { OC_TOKEN_TILE = 4096 };

typedef struct oc_program_shape {
    const oc_model *model;
    oc_device *device;
    oc_dtype dtype;
    int64_t batch, seq; /* of a micro-batch */
    int64_t tile;       /* 0: OC_TOKEN_TILE, or all tokens where that takes no more room; tests take
                           less */
    oc_gemm_kernel products; /* on which kernel a forward's products run */
} oc_program_shape;

/* What a layer's forward leaves, in the order in which it is made. */
typedef enum oc_saved {
    OC_SAVED_QKV,       /* queries, keys and values, turned; before their norms where they have some
                         */
    OC_SAVED_ATTENTION, /* attention's output and log-sum-exps */
    OC_SAVED_MID,       /* what the mlp starts from: the residual sum; the attention's projected
                           output too where that is normed, with statistics */
    OC_SAVED_UP,  /* the mlp's first product. Need not be there: then it is made again, tile by
                     tile */
    OC_SAVED_MLP, /* the mlp's output where a norm comes after it, with statistics; else of no
                     bytes */
    OC_SAVED_COUNT
} oc_saved;
const char *oc_saved_name(oc_saved v); /* "qkv", "attention", "mid", "up", "mlp" */

/* The parts of a layer: in -> QKV -> ATTENTION -> MID -> UP, MLP, out. */
typedef enum oc_part {
    OC_PART_IN,        /* reads in; writes QKV */
    OC_PART_ATTENTION, /* reads QKV; writes ATTENTION */
    OC_PART_OUT,       /* reads in, ATTENTION; writes MID */
    OC_PART_MLP,       /* reads MID (parallel: in too); writes UP and MLP where they have a place,
                          out */
    OC_PART_COUNT
} oc_part;
/* Which makes a value. */
oc_part oc_saved_part(oc_saved v);

/* What varies per micro-batch, in device memory. */
typedef struct oc_program_batch {
    const int32_t *tokens,
        *labels; /* [T]; labels are shifted already: the target of this row; -100 none */
    const int32_t *positions; /* [T] inside the document */
    const int32_t *doc_start; /* [T] first token of the document, relative to the sequence */
} oc_program_batch;

/* Tokens that the mlp and the head take at a time: a function of model, dtype, micro-batch and
 * s->tile, and so of nothing that placement decides. */
int64_t oc_program_tile(const oc_program_shape *s);
/* Bytes, each a multiple of 64. */
uint64_t oc_program_act_bytes(const oc_program_shape *s); /* [T, hidden] in dtype */
uint64_t oc_program_row_bytes(const oc_program_shape *s); /* [T, embed_dim] in dtype */
uint64_t oc_program_saved_bytes(const oc_program_shape *s, oc_saved v); /* 0: there is no such */
/* Whether there is such a value and a backward reads it (MID of parallel layers: only the mlp
 * does).
 */
bool oc_program_backward_reads(const oc_decoder_spec *d, oc_saved v);
uint64_t oc_program_part_work_bytes(const oc_program_shape *s, oc_part p);
uint64_t oc_program_backward_work_bytes(const oc_program_shape *s);
uint64_t oc_program_work_bytes(const oc_program_shape *s); /* the most of these and the front's */
uint64_t oc_program_head_work_bytes(const oc_program_shape *s); /* tiles of logits and dlogits */
uint64_t oc_program_logits_bytes(const oc_program_shape *s, int64_t rows); /* of a chunk; fp32 */
uint64_t
oc_program_head_state_bytes(const oc_program_shape *s); /* xn, its statistics, lse, dxn: lives
                                                          from final norm to its backward */
/* Elements [*first, *end) of a layer's block, in which all weights of a part lie. */
void oc_program_part_span(const oc_model *m, const oc_block *block, oc_part p, uint64_t *first,
                          uint64_t *end);

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
 * embed_dim], written; grads: the block's flat gradient, every element written; NULL: none. */
void oc_program_front_backward(const oc_program_shape *s, const oc_block *block,
                               const void *weights, const void *rows, const void *d, void *d_rows,
                               void *grads, void *work);

/* One call on one layer. inv_freq: the model's table of that name (oc_model_rope()), in device
 * memory. saved: a place of oc_program_saved_bytes() each, NULL where there is none. */
typedef struct oc_layer_call {
    const oc_program_shape *shape;
    const oc_block *block;
    const void *weights;
    const float *inv_freq;
    const oc_program_batch *batch;
    void *saved[OC_SAVED_COUNT];
    void *work;
} oc_layer_call;

/* in, out: [T, hidden]. in may be NULL for parts that do not read it, out for all but the mlp;
 * there NULL means: only what is saved. Each part needs the places of what it reads, and all but
 * the mlp the place of what they write. */
void oc_program_part_forward(const oc_layer_call *c, oc_part p, const void *in, void *out);
/* d: in: gradient of out, out: gradient of in (in place). grads: the block's flat gradient, every
 * element written (padding as 0); NULL: only d. Saved values are as the forward left them; UP and
 * MLP are overwritten. */
void oc_program_layer_backward(const oc_layer_call *c, const void *in, void *d, void *grads);

/* Final norm and projection into the head state; starts the cross-entropy state and zeroes dxn. */
void oc_program_final_forward(const oc_program_shape *s, const oc_block *block, const void *weights,
                              const void *in, void *state);
/* One chunk of the head: online log-sum-exp of its logits. logits: oc_program_logits_bytes() to
 * leave them for the backward, tile by tile; NULL: it makes them again. */
void oc_program_head_forward(const oc_program_shape *s, const oc_block *chunk, const void *weights,
                             const oc_program_batch *b, void *state, float *logits, void *work);
/* After all chunks: *loss_sum = summed negative log-likelihood of the micro-batch (fp64). */
void oc_program_loss(const oc_program_shape *s, const oc_program_batch *b, void *state,
                     double *loss_sum);
/* After that: each token's share of it. */
void oc_program_scores(const oc_program_shape *s, const oc_program_batch *b, void *state,
                       oc_token_score *scores);
/* The chunk's backward: its weight gradient (whole chunk written; grads NULL: none) and its share
 * of dxn. dscale: loss scale, in device memory. */
void oc_program_head_backward(const oc_program_shape *s, const oc_block *chunk, const void *weights,
                              const oc_program_batch *b, const float *dscale, void *grads,
                              void *state, const float *logits, void *work);
/* d = gradient of `in`; grads: the final block's flat gradient; NULL: none. */
void oc_program_final_backward(const oc_program_shape *s, const oc_block *block,
                               const void *weights, const void *in, void *d, void *grads,
                               void *state);
/* ---- a pass of generation: shape.batch is 1, shape.seq its tokens ---- */

/* The sequences of a pass, and the pages of one layer: see oc_paged_attention. Pointers are device
 * memory; sizes of work areas ask for none of them. */
typedef struct oc_pages {
    int64_t rows;
    const oc_paged_row *row;
    const int32_t *table;
    int32_t row_pages, page_tokens;
    void *kv;
} oc_pages;

/* QKV -> ATTENTION over pages, into which keys and values go first. */
void oc_program_part_paged(const oc_layer_call *c, const oc_pages *p);
uint64_t oc_program_page_bytes(const oc_program_shape *s, int32_t page_tokens); /* of a layer */
/* Final norm and projection of n tokens of `in`: oc_program_head_state_bytes() of a shape of n
 * tokens.
 */
void oc_program_final_sampled(const oc_program_shape *s, const oc_block *block, const void *weights,
                              const void *in, const int32_t *samples, int64_t n, void *state,
                              void *work);
/* Work of all that a pass computes; p: its capacities. */
uint64_t oc_program_pass_work_bytes(const oc_program_shape *s, const oc_pages *p);

/* Logits of all rows for one chunk, fp32 [T, rows of chunk], from the state: for tests and
 * generation. */
void oc_program_head_logits(const oc_program_shape *s, const oc_block *chunk, const void *weights,
                            const void *state, float *logits, int64_t ld);

#endif
