/* homes.h - the table of homes: what was asked for, made rows. */
#ifndef OC_HOMES_H
#define OC_HOMES_H

#include "engine/setup.h"

/* The block that the device takes in after `rank` others: first what a step uses first and updates
 * last, so that the next step need not wait for links (front, layers from the first), then what
 * stands behind the layers, and the embeddings' rows. */
int32_t oc_homes_at(const oc_model *m, int32_t rank);
/* The number of blocks that a wish for `resident` can mean: rows of the embeddings are taken in
 * together or not at all. */
int32_t oc_homes_clip(const oc_model *m, int32_t resident);
/* Fill t[n_blocks]. compute: the tier where the device computes. */
void oc_homes_fill(const oc_model *m, bool train, oc_tier compute, const oc_homes_wish *wish,
                   oc_block_homes *t);
/* What --weights-home, --optimizer-home, --resident-blocks and offload_optimizer.ratio ask for. */
oc_homes_wish oc_homes_asked(const oc_config *c);

#endif
