/* layout.c - the one block that holds all of a run: measured, then handed out part by part. */
#include "run/inner.h"

#include "base/checked.h"

#include <stdio.h>

/* Without a base it only measures. */
typedef struct oc_carver {
    uint8_t *base;
    uint64_t used;
} oc_carver;

static void *carve(oc_carver *c, uint64_t count, size_t each) {
    c->used = oc_align_up(c->used, 64);
    void *part = c->base ? c->base + c->used : NULL;
    c->used += count * each;
    return part;
}

/* Ops of a lane in all plans. */
static uint64_t ops_of(const oc_plan_set *set, uint32_t lane) {
    uint64_t n = 0;
    for (uint32_t p = 0; p < set->n_plans; p++)
        n += set->plans[p].lane_ops[lane];
    return n;
}

bool oc_layout_lane_used(const oc_plan_set *set, uint32_t lane) { return ops_of(set, lane) > 0; }

/* A few for every lane, the rest in proportion to what they put. */
static uint64_t trace_capacity(const oc_run_spec *spec, uint32_t lane) {
    uint64_t all = 0, least = 0;
    for (uint32_t l = 0; l < OC_LANE_COUNT; l++) {
        all += ops_of(spec->set, l);
        least += oc_layout_lane_used(spec->set, l) ? OC_TRACE_LEAST : 0;
    }
    uint64_t room = spec->trace_bytes / sizeof(oc_trace_event);
    double share = (double)ops_of(spec->set, lane) / (double)all;
    uint64_t rest = room > least ? (uint64_t)((double)(room - least) * share) : 0;
    return OC_TRACE_LEAST + rest;
}

static uint32_t window_of(const oc_queue *q) {
    return q->ops->kind == OC_QUEUE_STREAM ? q->marks / 2 : q->depth * OC_RING_OVERTAKING;
}

/* The flights of a lane with a queue, the events of one that is traced. */
static void carve_lane(oc_run *r, oc_carver *c, uint32_t lane) {
    oc_lane_state *l = r->lanes ? &r->lanes[lane] : NULL;
    oc_queue *q = r->spec.queues[lane];
    uint32_t window = q ? window_of(q) : 1;
    uint64_t capacity = r->spec.trace_path ? trace_capacity(&r->spec, lane) : 0;
    oc_flight *flights = q ? carve(c, window, sizeof *flights) : NULL;
    oc_trace_event *events = capacity ? carve(c, capacity, sizeof *events) : NULL;
    if (!l) return;
    l->queue = q;
    l->stream = q && q->ops->kind == OC_QUEUE_STREAM;
    l->window = window;
    l->flights = flights;
    l->ring.events = events;
    l->ring.capacity = capacity;
}

static void carve_ops(oc_run *r, oc_carver *c, oc_worker *w, uint32_t lane) {
    for (uint32_t p = 0; p < r->set->n_plans; p++) {
        const oc_plan *plan = &r->set->plans[p];
        uint32_t *ops = carve(c, plan->lane_ops[lane], sizeof *ops);
        if (!w) continue;
        w->ops[p] = ops;
        w->n_ops[p] = plan->lane_ops[lane];
        for (uint32_t i = 0; i < plan->n_ops; i++)
            if (plan->ops[i].lane == lane) *ops++ = i;
    }
}

static oc_worker *add_worker(oc_run *r, void *(*entry)(void *), uint32_t lane, const char *suffix) {
    uint32_t i = r->n_workers++;
    if (!r->workers) return NULL;
    oc_worker *w = &r->workers[i];
    w->run = r;
    w->main = entry;
    w->lane = lane;
    w->paced = r->spec.pace_bytes_per_second[lane] > 0;
    snprintf(w->name, sizeof w->name, "oc-%s%s", oc_lane_name((oc_lane)lane), suffix);
    return w;
}

static void add_serial_issuer(oc_run *r) {
    oc_worker *w = add_worker(r, oc_issuer_main, 0, "");
    if (!w) return;
    snprintf(w->name, sizeof w->name, "oc-serial");
    for (int l = 0; l < OC_LANE_COUNT; l++)
        w->paced |= r->spec.pace_bytes_per_second[l] > 0;
    for (uint32_t p = 0; p < r->set->n_plans; p++)
        w->n_ops[p] = r->set->plans[p].n_ops;
}

static void carve_workers(oc_run *r, oc_carver *c) {
    r->workers = carve(c, 2 * OC_LANE_COUNT, sizeof *r->workers);
    r->n_workers = 0;
    if (r->spec.serial) add_serial_issuer(r);
    for (uint32_t lane = 0; lane < OC_LANE_COUNT; lane++) {
        if (!oc_layout_lane_used(r->set, lane)) continue;
        if (!r->spec.serial) carve_ops(r, c, add_worker(r, oc_issuer_main, lane, ""), lane);
        if (r->spec.queues[lane]) (void)add_worker(r, oc_completer_main, lane, "-done");
    }
}

static void carve_all(oc_run *r, oc_carver *c) {
    (void)carve(c, 1, sizeof *r);
    r->lanes = carve(c, OC_LANE_COUNT, sizeof *r->lanes);
    r->session_only = carve(c, r->set->n_buffers, sizeof *r->session_only);
    if (r->spec.protect) r->guards = carve(c, r->set->n_buffers, sizeof *r->guards);
    for (uint32_t lane = 0; lane < OC_LANE_COUNT; lane++)
        if (oc_layout_lane_used(r->set, lane)) carve_lane(r, c, lane);
    carve_workers(r, c);
}

uint64_t oc_layout_bytes(const oc_run_spec *spec) {
    oc_run r = {.spec = *spec, .set = spec->set};
    oc_carver measure = {NULL, 0};
    carve_all(&r, &measure);
    return oc_align_up(measure.used, 64);
}

oc_run *oc_layout_make(void *block, const oc_run_spec *spec) {
    oc_run *r = block;
    r->spec = *spec;
    r->set = spec->set;
    oc_carver hand_out = {block, 0};
    carve_all(r, &hand_out);
    r->host_bytes = oc_align_up(hand_out.used, 64);
    return r;
}
