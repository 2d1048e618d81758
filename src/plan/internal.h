/* internal.h - what the files of the plan room share. */
#ifndef OC_PLAN_INTERNAL_H
#define OC_PLAN_INTERNAL_H

#include "plan/plan.h"

enum { OC_PLAN_ALIGN = 64 }; /* bytes; of every buffer's offset */

/* Hazards are kept per entity: a piece of a buffer, or a whole alias group. */
typedef struct oc_entities {
    uint32_t *base; /* per buffer: entity of its piece 0; grouped: of the group */
    bool *grouped;  /* per buffer */
    uint32_t count;
} oc_entities;

OC_NODISCARD oc_status oc_entities_init(oc_entities *e, const oc_plan_set *s, oc_error *err);
void oc_entities_release(oc_entities *e);

#endif
