/* setup.h - from a resolved configuration to a verified plan: the model, the device, the placement.
 *
 * No arena is allocated and no weight is read here: `outcore plan` stops after this; train and eval
 * go on to open a session on it. */
#ifndef OC_SETUP_H
#define OC_SETUP_H

#include "model/program.h"
#include "plan/build.h"
#include "train/config.h"

#include <stdio.h>

typedef struct oc_setup {
    const oc_config *config; /* borrowed */
    oc_model *model;
    oc_pool *pool;
    oc_device *device;
    oc_dtype dtype;
    oc_program_shape shape;
    oc_build_spec build;
    oc_plan_set *set;
    oc_build_ids ids;
    uint64_t minimum[OC_TIER_COUNT]; /* bytes of the smallest placement */
    uint64_t budget[OC_TIER_COUNT];  /* UINT64_MAX: none */
    uint64_t text_bytes;             /* tokenizer, data buffers: planned, outside the arenas */
    uint64_t foreign_bytes; /* libraries, code, stacks: measured at start, plus a reserve */
    int64_t global_batch;   /* sequences a step */
    bool train;
    char choice[256]; /* how "auto" was decided, for the log */
} oc_setup;

/* notes receives one line per thing worth saying. Refusals over budget say the smallest change that
 * fits. */
OC_NODISCARD oc_status oc_setup_open(oc_setup **out, const oc_config *config, FILE *notes,
                                     oc_error *err);
void oc_setup_close(oc_setup *s);

/* Choose the placement within the budgets (place.c). Sets build.place, minimum and choice. */
OC_NODISCARD oc_status oc_setup_place(oc_setup *s, oc_error *err);

/* The table of bytes a tier and use (report.c). */
void oc_setup_print(const oc_setup *s, FILE *to);
OC_NODISCARD oc_status oc_setup_print_json(const oc_setup *s, FILE *to, oc_error *err);
/* All ops of all plans, one a line. */
void oc_setup_print_ops(const oc_setup *s, FILE *to);

/* Bytes of a tier and use: arenas plus what is planned outside them. */
uint64_t oc_setup_use_bytes(const oc_setup *s, oc_tier tier, oc_use use);
uint64_t oc_setup_tier_bytes(const oc_setup *s, oc_tier tier);

#endif
