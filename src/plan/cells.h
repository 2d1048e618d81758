/* cells.h - the small values one op writes and later ops read, or the session fills. */
#ifndef OC_CELLS_H
#define OC_CELLS_H

#include <stdint.h>

/* Filled by the session for each submission; one piece a micro-batch: four arrays of T int32. */
typedef enum oc_batch_array {
    OC_BATCH_TOKENS,
    OC_BATCH_LABELS,
    OC_BATCH_POSITIONS,
    OC_BATCH_DOC_START,
    OC_BATCH_ARRAYS
} oc_batch_array;

enum { OC_MAX_MICROS = 1024 };

/* Filled by the session for each submission. */
typedef struct oc_control_cell {
    uint64_t step;     /* from 1 */
    uint64_t targets;  /* labels that count in the whole batch */
    uint32_t n_tokens; /* entries of `order`: tokens of live micro-batches */
    uint32_t n_positions;
    uint32_t live[OC_MAX_MICROS]; /* 1: the micro-batch has rows */
} oc_control_cell;

/* Carried from step to step; changed by norm. */
typedef struct oc_carry_cell {
    uint64_t updates; /* steps that were not skipped: Adam's t, the schedule's clock */
    double loss_scale;
    int64_t scale_since_overflow;
    int32_t scale_hysteresis;
    int32_t scale_exhausted; /* an overflow at the least scale */
} oc_carry_cell;

/* Written by norm. */
typedef struct oc_result_cell {
    uint32_t finite; /* predicate of the updates: 0 skips the step */
    uint32_t overflow;
    uint32_t scale_exhausted; /* it happened at the least loss scale */
    float coef;               /* gradients are multiplied by it */
    double bias1, bias2;
    double loss, grad_norm, lr_used, loss_scale;
} oc_result_cell;

#endif
