/* place.h - what the planner asks of a placement, for training (place.c) and for generation
 * (place_pass.c). */
#ifndef OC_PLACE_H
#define OC_PLACE_H

#include "engine/homes.h"

/* Bytes of each tier: arenas, and on the host all that is planned beside them. */
OC_NODISCARD oc_status oc_place_measure(const oc_setup *s, const oc_placement *p,
                                        uint64_t bytes[OC_TIER_COUNT], oc_error *err);
/* Within the budgets, libraries and stacks counted. */
bool oc_place_fits(const oc_setup *s, const uint64_t bytes[OC_TIER_COUNT]);
/* Keeps in mind when it was memory that failed: that is no answer about a placement. Returns st. */
oc_status oc_place_note(const oc_setup *s, oc_status st);
/* Whether it is measured, and fits. */
bool oc_place_affords(const oc_setup *s, const oc_placement *p);
/* Why p, the least there is, does not fit. */
oc_status oc_place_refuse(const oc_setup *s, const oc_placement *p, oc_error *err);
/* Make the table of homes that s has that of the wish, and p's. */
void oc_place_use_homes(oc_setup *s, oc_placement *p, const oc_homes_wish *w);
/* A guess where nothing was measured or paced, bytes and flops a second. */
double oc_place_lane_rate(const oc_setup *s, int lane); /* bytes */
double oc_place_flop_rate(const oc_setup *s);           /* of all cores */

#endif
