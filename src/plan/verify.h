/* verify.h - what the files of the proof share. Nobody else includes it.
 *
 *   verify.c         shape, addresses, values and contracts
 *   verify_ops.c     one op alone: its body's signature, the size and sense of its accesses
 *   verify_races.c   conflicting accesses are ordered, by vector clocks */
#ifndef OC_VERIFY_H
#define OC_VERIFY_H

#include "plan/internal.h"

typedef struct oc_verifier {
    const oc_plan_set *s;
    oc_entities e;
    uint32_t *value_base; /* per buffer: index of its first piece in values */
    uint32_t n_values;
    oc_value *values;
    uint64_t *conditions; /* per piece: the predicate its writer had, 0: none */
    uint32_t *next_alias; /* per buffer: another of its group, in a ring; itself when alone */
    oc_error *err;
} oc_verifier;

/* Describe the op, and the access unless NULL; returns OC_E_PLAN. */
oc_status oc_verify_refuse(const oc_verifier *v, const oc_plan *p, const oc_op *op,
                           const oc_access *a, const char *why);
const oc_signature *oc_verify_signature(const oc_verifier *v, const oc_op *op);
uint64_t oc_verify_bytes(const oc_verifier *v, const oc_access *a);

OC_NODISCARD oc_status oc_verify_op(const oc_verifier *v, const oc_plan *p, const oc_op *op);
OC_NODISCARD oc_status oc_verify_races(const oc_verifier *v);

#endif
