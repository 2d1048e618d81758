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

/* Filled by the session for each submission; as long as the group's micro-batches need. */
typedef struct oc_control_cell {
    uint64_t step;        /* from 1 */
    uint64_t targets;     /* labels that count in the whole step */
    uint32_t first_micro; /* of the step: number 0 of this submission */
    uint32_t unused;
    uint32_t live[OC_MAX_GROUP]; /* 1: the micro-batch has rows */
} oc_control_cell;

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
