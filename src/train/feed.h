/* feed.h - fills a submission's cells with the sequences of one step. One thread; no allocation
 * after open. */
#ifndef OC_FEED_H
#define OC_FEED_H

#include "plan/cells.h"
#include "text/dataset.h"

typedef struct oc_feed oc_feed;

typedef struct oc_feed_spec {
    oc_dataset *data; /* borrowed */
    int64_t batch, seq;
    int32_t micros;
    uint64_t seed;
    bool shuffle;
    int32_t pad_id;
    int32_t padding_idx; /* a token whose row gets no gradient by being looked up; -1: none */
} oc_feed_spec;

/* Where one submission's cells are. order NULL for evaluation. */
typedef struct oc_feed_cells {
    int32_t *batch; /* pieces of batch_piece_bytes */
    uint64_t batch_piece_bytes;
    int32_t *order;
    oc_control_cell *control;
} oc_feed_cells;

OC_NODISCARD oc_status oc_feed_open(oc_feed **out, const oc_feed_spec *spec, oc_error *err);
void oc_feed_close(oc_feed *f);
uint64_t oc_feed_host_bytes(const oc_feed *f);

/* Steps in one pass over the data: the last one may be short. */
uint64_t oc_feed_steps_per_epoch(const oc_feed *f);
/* Step `step` (from 0; epochs follow one another). */
OC_NODISCARD oc_status oc_feed_fill(oc_feed *f, uint64_t step, const oc_feed_cells *cells,
                                    oc_error *err);

#endif
