/* queue_case.h - a desk: up to four lanes, each a thread, a toy stream or a toy ring, and a rig
 * that runs small plans on them. */
#ifndef QUEUE_CASE_H
#define QUEUE_CASE_H

#include "run_case.h"

#include <stdlib.h>

enum { LANES = 4, TEN_MS = 10000000 };
static const oc_lane lanes[LANES] = {OC_LANE_COMPUTE, OC_LANE_H2D, OC_LANE_D2H, OC_LANE_READ};

/* Kinds of lanes, as a string has them: one letter for each of `lanes`. */
typedef struct desk {
    rig rig;
    toy_family families[2];
    toy_stream streams[LANES];
    toy_ring rings[LANES];
    char kinds[LANES + 1]; /* t: thread, s: stream, o: stream of the other family, r: ring */
    uint32_t marks, depth;
    atomic_uint issued;
    bool ended;
} desk;

/* The desk of the test at hand. One of a test that failed is left alone: its threads may live. */
static desk *d;

static inline void begin(const char *kinds) {
    if (d && d->ended) free(d);
    d = calloc(1, sizeof *d);
    assert_non_null(d);
    memcpy(d->kinds, kinds, strlen(kinds));
    d->marks = 16;
    d->depth = 4;
    rig_begin(&d->rig);
    for (int i = 0; i < LANES; i++)
        if (d->kinds[i] == 'r') oc_plan_unordered(d->rig.b, lanes[i]);
}

static inline bool is_stream(int i) { return d->kinds[i] == 's' || d->kinds[i] == 'o'; }

static inline void finish(void) {
    rig_finish(&d->rig);
    for (int i = 0; i < 2; i++)
        toy_family_init(&d->families[i]);
    for (int i = 0; i < LANES; i++) {
        oc_queue **q = &d->rig.spec.queues[lanes[i]];
        if (is_stream(i)) {
            toy_stream_open(&d->streams[i], &d->families[d->kinds[i] == 'o'], d->marks, 0);
            *q = &d->streams[i].q;
        } else if (d->kinds[i] == 'r') {
            toy_ring_open(&d->rings[i], d->depth, 0);
            *q = &d->rings[i].q;
        }
    }
}

/* Queues first: one that broke may have work which the run knows nothing of. */
static inline void end(void) {
    if (d->rig.run) (void)!oc_run_drain(d->rig.run, NULL);
    for (int i = 0; i < LANES; i++) {
        if (is_stream(i)) toy_stream_close(&d->streams[i]);
        if (d->kinds[i] == 'r') toy_ring_close(&d->rings[i]);
        assert_int_equal(d->streams[i].n_invalid + d->rings[i].n_invalid, 0);
    }
    for (int i = 0; i < 2; i++)
        toy_family_release(&d->families[i]);
    rig_end(&d->rig);
    d->ended = true;
}

static inline uint64_t count_of(uint32_t id) {
    uint64_t v;
    memcpy(&v, rp_copy_at(d->rig.set, d->rig.mem.bases, id, 0), sizeof v);
    return v;
}

static inline void run_once(void) {
    rig_open(&d->rig);
    rig_submit(&d->rig, 0);
    assert_int_equal(oc_run_drain(d->rig.run, &d->rig.err), OC_OK);
}

/* As BODY_COUNT, and tells that it was issued. */
static inline oc_status issue_body(const oc_task *t, oc_error *err) {
    oc_status s = toy_issue(t, count_now, err);
    atomic_fetch_add(&d->issued, 1);
    return s;
}

static inline void wait_ms(long ms) {
    struct timespec t = {0, ms * 1000000};
    nanosleep(&t, NULL);
}

static inline void wait_issued(uint32_t n) {
    for (int i = 0; i < 20000 && atomic_load(&d->issued) < n; i++)
        wait_ms(1);
    assert_true(atomic_load(&d->issued) >= n);
}

/* n ops that are free of each other, of buffers 0 .. n - 1; the first is held at the gate. Buffer n
 * is left to the test. */
static inline void make_many(uint32_t n) {
    d->rig.bodies[BODY_OWN] = issue_body;
    for (uint32_t i = 0; i <= n; i++)
        rig_home(&d->rig, "c", 64);
    rig_plan(&d->rig, "p");
    for (uint32_t i = 0; i < n; i++)
        rig_count(&d->rig, rig_op(lanes[0], i ? BODY_OWN : BODY_GATE), i, 0, 1);
}

#endif
