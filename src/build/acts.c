/* acts.c - activation checkpoints: the inputs of layers. At home on the device they are where they
 * are computed; at home on the host they pass through a few slots. A pass of generation needs none
 * of them again: they take turns in two places. */
#include "build/internal.h"

oc_value oc_act_value(uint32_t layer, uint32_t micro) {
    return oc_value_of(OC_V_ACT, layer, micro, 0);
}

uint32_t oc_acts_places(const oc_build_spec *s) {
    return oc_build_passes(s) ? 2 : (uint32_t)s->model->n_layers + 1;
}

uint32_t oc_act_index(const build *b, uint32_t layer, uint32_t micro) {
    uint32_t places = oc_acts_places(b->spec);
    return micro * places + layer % places;
}

/* Slots are empty when a plan begins: the order of its own uses counts. */
static void record(build *b, uint32_t key) {
    if (b->walk == WALK_RECORD && !oc_slots_record(&b->act_slots, key)) b->failed = true;
}

/* Where the input of `layer` can be read. */
oc_buffer_id oc_acts_use(build *b, uint32_t layer, uint32_t micro) {
    uint32_t key = oc_act_index(b, layer, micro);
    bool there;
    if (!b->spec->place.act_slots) return b->acts[key];
    if (oc_dry(b)) {
        record(b, key);
        return 0;
    }
    int32_t i = oc_slots_turn(&b->act_slots, key, false, &there);
    if (!there)
        oc_route_copy(b, b->acts[key], 0, b->act_slots.slots[i], 0, b->spec->sizes.act_bytes,
                      oc_act_value(layer, micro), (int32_t)micro);
    return b->act_slots.slots[i];
}

oc_buffer_id oc_acts_make(build *b, uint32_t layer, uint32_t micro) {
    uint32_t key = oc_act_index(b, layer, micro);
    bool there;
    if (!b->spec->place.act_slots) return b->acts[key];
    if (oc_dry(b)) {
        record(b, key);
        return 0;
    }
    return b->act_slots.slots[oc_slots_turn(&b->act_slots, key, true, &there)];
}

void oc_acts_retire(build *b, uint32_t layer, uint32_t micro, oc_buffer_id from) {
    if (!b->spec->place.act_slots) return;
    bool one_reader = b->kind.part == PART_EVAL && b->micros == 1;
    if (one_reader) return; /* it comes right away */
    oc_route_copy(b, from, 0, b->acts[oc_act_index(b, layer, micro)], 0, b->spec->sizes.act_bytes,
                  oc_act_value(layer, micro), (int32_t)micro);
}
