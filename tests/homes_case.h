/* homes_case.h - random tables of homes. */
#ifndef OC_TEST_HOMES_CASE_H
#define OC_TEST_HOMES_CASE_H

#include "build/build.h"

#include <stdlib.h>

static inline uint32_t homes_random(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 16;
}

/* Free it. frozen: of a hundred blocks, so many are; the embeddings' rows have one home. */
static inline oc_block_homes *homes_make(const oc_model *m, uint32_t seed, uint32_t frozen) {
    oc_block_homes *t = calloc((size_t)m->n_blocks, sizeof *t);
    for (int32_t i = 0; t && i < m->n_blocks; i++) {
        bool table = m->blocks[i].kind == OC_BLOCK_TABLE;
        bool rows = table || m->blocks[i].kind == OC_BLOCK_POSITION;
        t[i].weight = homes_random(&seed) % 2 ? OC_TIER_DEVICE : OC_TIER_HOST;
        t[i].optimizer = homes_random(&seed) % 2 ? OC_TIER_DEVICE : OC_TIER_HOST;
        t[i].frozen = homes_random(&seed) % 100 < frozen;
        if (!rows || i == m->first_table) continue;
        bool keep = t[i].frozen;
        t[i] = t[m->first_table];
        if (!table) t[i].frozen = keep;
    }
    if (t && m->n_blocks > 0) { /* something is trained */
        bool all = true;
        for (int32_t i = 0; i < m->n_blocks; i++)
            all = all && t[i].frozen;
        if (all) t[m->final_norm_block].frozen = false;
    }
    return t;
}

#endif
