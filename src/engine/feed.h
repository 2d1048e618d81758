/* feed.h - fills the cells of submissions with the sequences of a step. One thread; no allocation
 * after open.
 *
 * Micro-batch m of a step lies in piece m % sets of a submission's batch cell. */
#ifndef OC_FEED_H
#define OC_FEED_H

#include "build/cells.h"
#include "data/dataset.h"

typedef struct oc_feed oc_feed;

typedef struct oc_feed_spec {
    oc_dataset *data; /* borrowed */
    int64_t batch, seq;
    int32_t micros;       /* of a step */
    int32_t sets;         /* of a submission */
    int32_t order_micros; /* that an order cell covers; 0: evaluation, there is none */
    bool order_late;      /* those of the whole step, when all are there */
    uint64_t seed;
    bool shuffle;
    int32_t pad_id;
    int32_t padding_idx; /* a token whose row gets no gradient by being looked up; -1: none */
} oc_feed_spec;

/* Where one submission's cells are, and what is to be in them. */
typedef struct oc_feed_cells {
    int32_t *batch; /* pieces of batch_piece_bytes */
    uint64_t batch_piece_bytes;
    oc_control_cell *control;
    int32_t first_micro, micros; /* of the step; micros 0: only what is known of the whole step */
    int32_t *order;              /* NULL: not wanted */
    int32_t order_first;         /* the first micro-batch that it covers */
} oc_feed_cells;

OC_NODISCARD oc_status oc_feed_open(oc_feed **out, const oc_feed_spec *spec, oc_error *err);
void oc_feed_close(oc_feed *f);
/* What a feed holds, opened or not; of a spec it looks at the batch. */
uint64_t oc_feed_bytes(const oc_feed_spec *spec);
uint64_t oc_feed_host_bytes(const oc_feed *f);

/* Steps in one pass over the data: the last one may be short. */
uint64_t oc_feed_steps_per_epoch(const oc_feed *f);
/* Micro-batches of step `step` (from 0; epochs follow one another) that have rows: at least 1. */
int32_t oc_feed_live(const oc_feed *f, uint64_t step);
/* Fill one submission of the step. Submissions come in order: control.targets counts the labels of
 * all micro-batches of the step that were filled so far. */
OC_NODISCARD oc_status oc_feed_fill(oc_feed *f, uint64_t step, const oc_feed_cells *cells,
                                    oc_error *err);

#endif
