/* homes.c - see homes.h. */
#include "engine/homes.h"

/* The embeddings' rows are the model's first blocks. */
static int32_t count_rows(const oc_model *m) { return m->n_table + (m->position_block >= 0); }

int32_t oc_homes_at(const oc_model *m, int32_t rank) {
    int32_t rows = count_rows(m), others = m->n_blocks - rows;
    return rank < others ? rows + rank : rank - others;
}

int32_t oc_homes_clip(const oc_model *m, int32_t resident) {
    int32_t others = m->n_blocks - count_rows(m);
    if (resident >= m->n_blocks) return m->n_blocks;
    return resident < others ? resident : others;
}

/* Ranks whose optimizer states make up the part that is asked for. */
static int32_t ranks_of(const oc_model *m, const oc_block_homes *t, double part) {
    double all = 0, sum = 0;
    int32_t n = 0;
    for (int32_t i = 0; i < m->n_blocks; i++)
        if (!t[i].frozen) all += (double)m->blocks[i].elements;
    for (; n < m->n_blocks && sum < part * all; n++) {
        int32_t i = oc_homes_at(m, n);
        if (!t[i].frozen) sum += (double)m->blocks[i].elements;
    }
    return n > oc_homes_clip(m, n) ? m->n_blocks : n;
}

void oc_homes_fill(const oc_model *m, bool train, oc_tier compute, const oc_homes_wish *w,
                   oc_block_homes *t) {
    for (int32_t i = 0; i < m->n_blocks; i++)
        t[i] = (oc_block_homes){.weight = w->weights ? compute : OC_TIER_HOST,
                                .optimizer = OC_TIER_HOST,
                                .frozen = train && !m->blocks[i].trained};
    int32_t resident = oc_homes_clip(m, w->resident);
    int32_t updated = w->optimizers > 0 ? ranks_of(m, t, w->optimizers) : 0;
    for (int32_t n = 0; n < m->n_blocks; n++) {
        oc_block_homes *x = &t[oc_homes_at(m, n)];
        if (n < resident) x->weight = compute;
        if (n < resident || n < updated) x->optimizer = compute;
    }
}

oc_homes_wish oc_homes_asked(const oc_config *c) {
    oc_homes_wish w = {.weights = c->weights_home == OC_HOME_DEVICE};
    if (c->resident_blocks > 0)
        w.resident = c->resident_blocks < INT32_MAX ? (int32_t)c->resident_blocks : INT32_MAX;
    w.optimizers = 1 - c->optimizer_ratio;
    if (c->optimizer_home == OC_HOME_DEVICE) w.optimizers = 1;
    return w;
}
