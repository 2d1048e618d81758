/* check.c - what a spec must be before any thread starts. */
#include "run/inner.h"

#include <math.h>

static oc_status check_op(const oc_run_spec *spec, const oc_plan *p, uint32_t i, oc_error *err) {
    const oc_op *o = &p->ops[i];
    const char *kind = oc_op_kind_name((oc_op_kind)o->kind);
    if (o->lane >= OC_LANE_COUNT)
        return oc_fail(err, OC_E_INVALID, "plan %.16s, op %u: lane %u does not exist", p->name, i,
                       (unsigned)o->lane);
    if (o->body >= spec->n_bodies || !spec->bodies[o->body])
        return oc_fail(err, OC_E_INVALID, "plan %.16s, op %u (%s): there is no body %u", p->name, i,
                       kind, (unsigned)o->body);
    if (o->pred == OC_NO_BUFFER) return OC_OK;
    const oc_buffer *cell = &spec->set->buffers[o->pred];
    if (!spec->opaque[cell->tier]) return OC_OK;
    return oc_fail(err, OC_E_INVALID,
                   "plan %.16s, op %u (%s): its predicate is %.24s in the %s tier, which the host "
                   "cannot read; predicates belong into the host tier",
                   p->name, i, kind, cell->name, oc_tier_name(cell->tier));
}

static oc_status check_plans(const oc_run_spec *spec, oc_error *err) {
    if (!spec->set || spec->set->n_plans == 0)
        return oc_fail(err, OC_E_INVALID, "the executor needs a plan set with at least one plan");
    uint64_t ops = 0;
    for (uint32_t p = 0; p < spec->set->n_plans; p++) {
        const oc_plan *plan = &spec->set->plans[p];
        for (uint32_t i = 0; i < plan->n_ops; i++)
            OC_TRY(check_op(spec, plan, i, err));
        ops += plan->n_ops;
    }
    if (ops == 0) return oc_fail(err, OC_E_INVALID, "the plans have no ops");
    return OC_OK;
}

static oc_status check_stream(const oc_queue *q, const char *lane, bool paced, oc_error *err) {
    if (!q->ops->mark || !q->ops->wait_mark || !q->ops->await)
        return oc_fail(err, OC_E_INVALID, "lane %s: the stream %s has no marks", lane,
                       q->ops->name);
    if (q->marks < 2)
        return oc_fail(err, OC_E_INVALID,
                       "lane %s: the stream %s remembers %u marks, and an op takes two", lane,
                       q->ops->name, q->marks);
    if (paced && !q->ops->hold)
        return oc_fail(err, OC_E_INVALID, "lane %s cannot be paced: the stream %s does not hold",
                       lane, q->ops->name);
    return OC_OK;
}

static oc_status check_ring(const oc_run_spec *spec, const oc_queue *q, oc_lane lane,
                            oc_error *err) {
    const char *name = oc_lane_name(lane);
    if (!q->ops->reap || q->depth == 0 || q->depth > UINT32_MAX / OC_RING_OVERTAKING)
        return oc_fail(err, OC_E_INVALID, "lane %s: the ring %s cannot hold %u ops", name,
                       q->ops->name, q->depth);
    if (!spec->set->unordered[lane])
        return oc_fail(err, OC_E_INVALID,
                       "lane %s: the ring %s completes in any order, but the plans rely on order",
                       name, q->ops->name);
    return OC_OK;
}

static oc_status check_queue(const oc_run_spec *spec, int lane, oc_error *err) {
    const oc_queue *q = spec->queues[lane];
    if (!q) return OC_OK;
    for (int l = 0; l < lane; l++)
        if (spec->queues[l] == q)
            return oc_fail(err, OC_E_INVALID, "lanes %s and %s cannot share a queue",
                           oc_lane_name((oc_lane)l), oc_lane_name((oc_lane)lane));
    if (q->ops->kind == OC_QUEUE_STREAM)
        return check_stream(q, oc_lane_name((oc_lane)lane), spec->pace_bytes_per_second[lane] > 0,
                            err);
    return check_ring(spec, q, (oc_lane)lane, err);
}

static oc_status check_lane(const oc_run_spec *spec, int lane, oc_error *err) {
    double rate = spec->pace_bytes_per_second[lane];
    if (!isfinite(rate) || rate < 0)
        return oc_fail(err, OC_E_INVALID, "the pace of lane %s must be a rate above 0",
                       oc_lane_name((oc_lane)lane));
    return check_queue(spec, lane, err);
}

oc_status oc_run_check(const oc_run_spec *spec, oc_error *err) {
    OC_TRY(check_plans(spec, err));
    for (int t = 0; t < OC_TIER_COUNT; t++)
        if (spec->set->arena_bytes[t] && !spec->bases[t])
            return oc_fail(err, OC_E_INVALID, "the plan uses the %s tier, but it has no arena",
                           oc_tier_name((oc_tier)t));
    for (int l = 0; l < OC_LANE_COUNT; l++)
        OC_TRY(check_lane(spec, l, err));
    return OC_OK;
}
