/* plan_drops.h - plans that have lost an access: whether verify notices. */
#ifndef OC_TEST_PLAN_DROPS_H
#define OC_TEST_PLAN_DROPS_H

#include "plan_case.h"

static inline oc_plan_set *built(const oc_build_spec *s) {
    oc_plan_set *set = NULL;
    oc_build_ids ids;
    oc_error err = {0};
    if (oc_build(s, &set, &ids, &err) != OC_OK) fail_msg("%s", err.message);
    oc_build_ids_release(&ids);
    return set;
}

static inline void verified(const oc_plan_set *set) {
    oc_error err = {0};
    if (oc_plan_verify(set, &err) != OC_OK) fail_msg("%s", err.message);
}

/* Another access of the op with the same pieces, at least as strong, covers the dropped one. */
static inline bool redundant(const oc_plan *p, const oc_op *op, const oc_access *a) {
    for (uint32_t k = 0; k < op->n_accesses; k++) {
        const oc_access *x = &p->accesses[op->first_access + k];
        if (x == a || x->buffer != a->buffer || x->role != a->role) continue;
        if (x->first <= a->first && x->first + x->count >= a->first + a->count &&
            x->mode == a->mode)
            return true;
    }
    return false;
}

typedef struct drops {
    int caught, needless;
} drops;

static inline void drop_one(oc_plan_set *set, oc_plan *p, oc_op *op, uint32_t k, drops *n) {
    oc_access *a = &p->accesses[op->first_access + k], kept = *a;
    oc_access *last = &p->accesses[op->first_access + op->n_accesses - 1];
    bool needed = !redundant(p, op, a);
    *a = *last;
    op->n_accesses--;
    assert_int_equal(oc_plan_derive(set, NULL), OC_OK);
    bool refused = oc_plan_verify(set, NULL) == OC_E_PLAN;
    if (!refused && needed)
        fail_msg("plan %s, op %td (%s) lost %s of %s unnoticed", p->name, op - p->ops,
                 oc_op_kind_name((oc_op_kind)op->kind), oc_role_name((oc_role)kept.role),
                 set->buffers[kept.buffer].name);
    if (refused)
        n->caught++;
    else
        n->needless++;
    op->n_accesses++;
    *last = *a;
    *a = kept;
}

#endif
