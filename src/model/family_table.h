/* family_table.h - how the entries of the family tables are spelled.
 *
 * Private to the family_*.c files that hold nothing but tables. */
#ifndef OC_FAMILY_TABLE_H
#define OC_FAMILY_TABLE_H

#include "model/family.h"

#include <stddef.h>

/* Bounds that keep every product of two sizes far inside 64 bits; the layout checks the rest. */
#define MAX_HIDDEN 1048576.0
#define MAX_INTER 16777216.0
#define MAX_LAYERS ((double)OC_LAYERS_MOST)
#define MAX_HEADS 65536.0
#define MAX_VOCAB 67108864.0
#define MAX_POSITIONS 1073741824.0

#define AT(field) offsetof(oc_family_config, field)
#define SIZE(key, alias, field, most, fallback)                                                    \
    { (key), (alias), OC_FIELD_INT, AT(field), 1, (most), (fallback), NULL }
/* null or absent: 0 */
#define SIZE_OR_NULL(key, alias, field, most)                                                      \
    { (key), (alias), OC_FIELD_INT, AT(field), 0, (most), 0, NULL }
/* null: 0; absent: fallback */
#define SIZE_OR_NULL_ELSE(key, field, most, fallback)                                              \
    { (key), NULL, OC_FIELD_INT, AT(field), 0, (most), (fallback), NULL }
#define REAL(key, alias, field, least, most, fallback)                                             \
    { (key), (alias), OC_FIELD_REAL, AT(field), (least), (most), (fallback), NULL }
#define REAL_OR_NULL(key, field, least, most, fallback)                                            \
    { (key), NULL, OC_FIELD_REAL, AT(field), (least), (most), (fallback), "null" }
#define FLAG(key, field, fallback)                                                                 \
    { (key), NULL, OC_FIELD_BOOL, AT(field), 0, 1, (fallback), NULL }
#define FIXED(field, value)                                                                        \
    { NULL, NULL, OC_FIELD_FIXED, AT(field), 0, 0, (value), NULL }
#define FIXED_REAL(field, value)                                                                   \
    { NULL, NULL, OC_FIELD_FIXED_REAL, AT(field), 0, 0, (value), NULL }
#define ACT(key, alias, fallback)                                                                  \
    { (key), (alias), OC_FIELD_ACT, AT(act), 0, 0, (fallback), NULL }
#define ONLY(key, value)                                                                           \
    { (key), NULL, OC_FIELD_ONLY, 0, 0, 0, 0, (value) }
#define UNUSED(key, value)                                                                         \
    { (key), NULL, OC_FIELD_UNUSED, 0, 0, 0, 0, (value) }
#define NOTE(key, why)                                                                             \
    { (key), NULL, OC_FIELD_NOTE, 0, 0, 0, 0, (why) }
#define IGNORE(key)                                                                                \
    { (key), NULL, OC_FIELD_IGNORE, 0, 0, 0, 0, NULL }
#define CODE(key)                                                                                  \
    { (key), NULL, OC_FIELD_CODE, 0, 0, 0, 0, NULL }
#define COUNT(a) ((int32_t)(sizeof(a) / sizeof((a)[0])))

#define ALL_ROPES ((1u << OC_ROPE_TYPE_COUNT) - 1)
#define NO_DROPOUT "training here has no dropout"

/* Keys that are of no effect where there are no windows. */
#define NO_WINDOWS                                                                                 \
    UNUSED("sliding_window", "null"), UNUSED("use_sliding_window", "false"),                       \
        UNUSED("layer_types", "null")

/* ---- tensors: (place), (weight), name, rows x cols ---- */
#define MATRIX(place, weight, name, rows, cols, when)                                              \
    {                                                                                              \
        OC_BLOCK_##place, OC_W_##weight, (name), OC_DIM_##rows, OC_DIM_##cols, OC_WHEN_##when,     \
            false, false, 0, 0                                                                     \
    }
#define VECTOR(place, weight, name, rows, when) MATRIX(place, weight, name, rows, ONE, when)
/* part 1, 2 or 3 of the fused q, k and v of each head */
#define FUSED(weight, name, part, cols, when)                                                      \
    {                                                                                              \
        OC_BLOCK_LAYER, OC_W_##weight, (name), OC_DIM_Q, OC_DIM_##cols, OC_WHEN_##when, false,     \
            false, (part), 3                                                                       \
    }
/* the file has [cols, rows] */
#define TURNED(weight, name, rows, cols, residual)                                                 \
    {                                                                                              \
        OC_BLOCK_LAYER, OC_W_##weight, (name), OC_DIM_##rows, OC_DIM_##cols, OC_WHEN_ALWAYS, true, \
            (residual), 0, 0                                                                       \
    }

/* One table of families a file; family.c lists them. */
extern const oc_family oc_llama_families[], oc_gpt_families[], oc_gemma_families[];
extern const int32_t oc_n_llama_families, oc_n_gpt_families, oc_n_gemma_families;

#endif
