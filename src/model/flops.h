/* flops.h - what blocks cost to compute: multiplications and additions of matrix products and of
 * attention, of a forward over `tokens` = batch * seq tokens. A backward costs twice as much.
 *
 * Pure functions of the model; packing is not known here: sequences count as one document. */
#ifndef OC_FLOPS_H
#define OC_FLOPS_H

#include "model/program.h"

/* Pairs of tokens that a causal sequence of `seq` scores, at most `window` (0: all) for each. */
double oc_flops_pairs(int64_t seq, int64_t window);
/* Of a part of this layer, with its own window. */
double oc_flops_part(const oc_model *m, const oc_block *layer, int64_t batch, int64_t seq,
                     oc_part p);
/* The mlp's first product: a part of the mlp's. */
double oc_flops_up(const oc_model *m, int64_t tokens);
/* Of making a saved value again from the one before it. */
double oc_flops_saved(const oc_model *m, const oc_block *layer, int64_t batch, int64_t seq,
                      oc_saved v);
/* Logits of `rows` rows of the vocabulary. */
double oc_flops_head(const oc_model *m, int64_t tokens, int64_t rows);
/* The projection of a front or final block; 0 where it has none. */
double oc_flops_projection(const oc_model *m, const oc_block *block, int64_t tokens);

#endif
