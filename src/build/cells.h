/* cells.h - the small values one op writes and later ops read, or the session fills. */
#ifndef OC_CELLS_H
#define OC_CELLS_H

#include "device/device.h" /* oc_update_scalars */

#include <stdint.h>

/* Filled by the session for each submission; one piece a micro-batch: four arrays of T int32. */
typedef enum oc_batch_array {
    OC_BATCH_TOKENS,
    OC_BATCH_LABELS,
    OC_BATCH_POSITIONS,
    OC_BATCH_DOC_START,
    OC_BATCH_ARRAYS
} oc_batch_array;

/* Of the order cell; each has an entry a token of the micro-batches that it covers. */
typedef enum oc_order_array {
    OC_ORDER_TOKENS,    /* OC_NO_ROW: a token whose row gets no gradient */
    OC_ORDER_OF_TOKENS, /* places sorted by (token, place) */
    OC_ORDER_POSITIONS,
    OC_ORDER_OF_POSITIONS,
    OC_ORDER_ARRAYS
} oc_order_array;

enum { OC_NO_ROW = INT32_MAX };

/* Micro-batches of one plan: a group (build.h). */
enum { OC_MAX_GROUP = 1024 };

/* Filled by the session for each submission, or by a pass for the next; as long as the group's
 * micro-batches need. */
typedef struct oc_control_cell {
    uint64_t step;        /* from 1 */
    uint64_t targets;     /* labels that count in the whole step */
    uint32_t first_micro; /* of the step: number 0 of this submission */
    uint32_t unused;
    /* 1: the micro-batch has rows. Of a pass, with n groups: the tokens of group g in live[g], its
     * samples in live[n + g], its rows in live[2 n + g] */
    uint32_t live[OC_MAX_GROUP];
} oc_control_cell;

enum { OC_PASS_COUNTS = 3 };

/* Generation: what a pass takes of a group. One piece a group of the pages cell: this, then
 * oc_paged_row for each of `capacity` rows, then int32 for each: which of the group's tokens are
 * wanted logits of, then each row's pages. Tokens and positions stand in the batch cell. Where
 * pages live away from the device, two lists of so many pages follow, each ascending: those that
 * the pass reads and that were filled before it, and those that it fills. */
typedef struct oc_pages_cell {
    int32_t tokens, rows, samples;
    int32_t read, filled; /* pages in the two lists */
    int32_t unused[3];
} oc_pages_cell;

static inline oc_paged_row *oc_pages_rows(void *cell) {
    return (oc_paged_row *)(void *)((char *)cell + sizeof(oc_pages_cell));
}
static inline int32_t *oc_pages_samples(void *cell, int32_t capacity) {
    return (int32_t *)(void *)(oc_pages_rows(cell) + capacity);
}
static inline int32_t *oc_pages_table(void *cell, int32_t capacity) {
    return oc_pages_samples(cell, capacity) + capacity;
}
static inline int32_t *oc_pages_read(void *cell, int32_t capacity, int32_t row_pages) {
    return oc_pages_table(cell, capacity) + (int64_t)capacity * row_pages;
}
static inline int32_t *oc_pages_filled(void *cell, int32_t capacity, int32_t row_pages,
                                       int32_t listed) {
    return oc_pages_read(cell, capacity, row_pages) + listed;
}
/* listed: pages that a list has room for; 0: there are none. */
static inline uint64_t oc_pages_bytes(int32_t capacity, int32_t row_pages, int32_t listed) {
    uint64_t row = sizeof(oc_paged_row) + 4 + 4 * (uint64_t)row_pages;
    uint64_t lists = 2 * 4 * (uint64_t)listed;
    return (sizeof(oc_pages_cell) + (uint64_t)capacity * row + lists + 63) / 64 * 64;
}

/* Carried from step to step; changed by norm. */
typedef struct oc_carry_cell {
    float dscale; /* first: what the loss is multiplied by; kernels read it */
    uint32_t unused;
    uint64_t updates; /* steps that were not skipped: Adam's t, the schedule's clock */
    double loss_scale;
    int64_t scale_since_overflow;
    int32_t scale_hysteresis;
    int32_t scale_exhausted; /* an overflow at the least scale */
} oc_carry_cell;

/* Written by norm. */
typedef struct oc_result_cell {
    oc_update_scalars scalars; /* first: what updates read */
    uint32_t finite;           /* predicate of the updates: 0 skips the step */
    uint32_t overflow;
    uint32_t scale_exhausted; /* it happened at the least loss scale */
    double loss, grad_norm, lr_used, loss_scale;
} oc_result_cell;

#endif
