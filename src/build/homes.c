/* homes.c - where states live, and what follows from it: what moves, which way, and on which lane
 * it is folded and updated. */
#include "build/internal.h"

oc_block_homes oc_build_homes(const oc_build_spec *s, uint32_t block) {
    if (s->place.homes) return s->place.homes[block];
    oc_tier t = s->place.resident ? s->place.compute : OC_TIER_HOST;
    return (oc_block_homes){.weight = t, .optimizer = t};
}

static bool always(const oc_build_spec *s) { return s->train; }
static bool has_m(const oc_build_spec *s) { return s->has_m; }
static bool has_v(const oc_build_spec *s) { return s->has_v; }

#define IDS(field) offsetof(oc_build_ids, field)
const state_row oc_state_rows[STATE_ROWS] = {
    {"master", OC_V_MASTER, OC_ROLE_MASTER, OC_USE_MASTER, IDS(master), always},
    {"m", OC_V_M, OC_ROLE_M, OC_USE_MOMENTS, IDS(m), has_m},
    {"v", OC_V_V, OC_ROLE_V, OC_USE_MOMENTS, IDS(v), has_v},
};

bool oc_build_streams(const oc_build_spec *s, uint32_t block) {
    return oc_build_homes(s, block).weight != s->place.compute;
}

bool oc_build_frozen(const oc_build_spec *s, uint32_t block) {
    return oc_build_homes(s, block).frozen;
}

bool oc_build_trains(const oc_build_spec *s, uint32_t block) { return !oc_build_frozen(s, block); }

bool oc_build_retires(const oc_build_spec *s, uint32_t block) {
    return oc_build_homes(s, block).optimizer != s->place.compute;
}

bool oc_build_publishes(const oc_build_spec *s, uint32_t block) {
    oc_block_homes h = oc_build_homes(s, block);
    return !h.frozen && h.weight != h.optimizer;
}

bool oc_build_stops_over(const oc_build_spec *s, uint32_t block) {
    return !oc_route_is_direct(oc_build_homes(s, block).weight, s->place.compute);
}

bool oc_build_any(const oc_build_spec *s, bool (*is)(const oc_build_spec *, uint32_t)) {
    for (uint32_t i = 0; i < (uint32_t)s->model->n_blocks; i++)
        if (is(s, i)) return true;
    return false;
}

bool oc_build_updates_there(const oc_build_spec *s, uint32_t block) {
    oc_block_homes h = oc_build_homes(s, block);
    return !h.frozen && h.optimizer != OC_TIER_HOST;
}

oc_lane oc_build_home_lane(const oc_build_spec *s, uint32_t block) {
    return oc_build_updates_there(s, block) ? OC_LANE_COMPUTE : OC_LANE_OPTIM;
}

bool oc_build_trains_rows(const oc_build_spec *s) {
    return oc_build_trains(s, (uint32_t)s->model->first_table);
}

bool oc_build_trains_positions(const oc_build_spec *s) {
    return s->model->position_block >= 0 && oc_build_trains(s, (uint32_t)s->model->position_block);
}

bool oc_build_trains_front(const oc_build_spec *s) {
    return s->model->front_block >= 0 && oc_build_trains(s, (uint32_t)s->model->front_block);
}

int32_t oc_build_lowest(const oc_build_spec *s) {
    const oc_model *m = s->model;
    int32_t l = 0;
    if (oc_build_trains_rows(s) || oc_build_trains_positions(s) || oc_build_trains_front(s))
        return 0;
    while (l < m->n_layers && !oc_build_trains(s, (uint32_t)(m->first_layer + l)))
        l++;
    return l;
}
