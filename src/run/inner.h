/* inner.h - what the files of this room share. Nobody else includes it.
 *
 *   run.c      open, close, submit, wait: the session's side
 *   lane.c     the threads: waits, bodies, pacing
 *   trace.c    rings of events, written as JSON
 *   protect.c  page protection of homes
 *
 * Counting: op number `seq` of a lane in a submission is done when the lane's gate has reached
 * base[lane] + seq, where base is the sum of the lane's ops of all submissions before. Hence a wait
 * for a submission that is long over is simply true. */
#ifndef OC_RUN_INNER_H
#define OC_RUN_INNER_H

#include "run/gate.h"
#include "run/run.h"

#include <stddef.h>

#define OC_RUN_STOP UINT64_MAX    /* value of the `submitted` gate that ends the threads */
enum { OC_LANE_ENDS = 64 };       /* of a lane: ops whose end is remembered */
enum { OC_TRACE_EVENTS = 32768 }; /* of a lane: the newest are kept */

typedef struct oc_submission {
    uint32_t plan;
    uint32_t before; /* plan submitted just before; OC_NO_BUFFER: none */
    uint32_t copy;
    uint64_t submitted_ns;
    uint64_t base[OC_LANE_COUNT];
    uint64_t base_before[OC_LANE_COUNT];
    _Atomic uint32_t workers_left;
} oc_submission;

typedef struct oc_trace_event {
    uint64_t start_ns, end_ns;
    uint64_t step; /* number of the submission, from 1 */
    uint32_t op;
    uint16_t plan;
    uint16_t skipped;
} oc_trace_event;

typedef struct oc_trace_ring {
    oc_trace_event *events; /* OC_TRACE_EVENTS; NULL: no trace */
    uint64_t n;             /* events ever put; event i is at i % OC_TRACE_EVENTS */
} oc_trace_ring;

typedef struct oc_lane_state {
    oc_gate done;
    uint64_t completed;   /* the worker's own copy of the gate's value */
    double ns_per_byte;   /* 0: not paced */
    uint64_t paced_until; /* ideal completion of the last op, on the pacing clock */
    _Atomic uint64_t ended_ns[OC_LANE_ENDS]; /* of op number n at n % OC_LANE_ENDS */
    uint64_t random;                         /* state of the delay generator; 0: none */
    _Atomic uint64_t busy_ns, ops, bytes;
    oc_trace_ring ring;
} oc_lane_state;

/* A thread. It runs one lane, or in serial mode all of them in program order. */
typedef struct oc_worker {
    oc_run *run;
    pthread_t thread;
    bool started;
    char name[16];
    bool paced;
    uint64_t last_end_ns;
    const uint32_t *ops[OC_MAX_PLANS]; /* indices of its ops of each plan, ascending */
    uint32_t n_ops[OC_MAX_PLANS];
} oc_worker;

typedef struct oc_guard { /* page protection of one buffer */
    uint8_t *at;          /* its whole interior pages; NULL: not protected */
    size_t bytes;
    uint32_t readers, writers;
    int prot; /* as set last */
} oc_guard;

struct oc_run {
    oc_run_spec spec;
    const oc_plan_set *set;
    void *block; /* everything else that is allocated */
    uint64_t host_bytes;
    oc_lane_state *lanes; /* OC_LANE_COUNT */
    oc_worker *workers;
    uint32_t n_workers;
    oc_submission slots[2]; /* submission n is in slots[n % 2] */
    bool begun;
    uint32_t last_plan;
    uint64_t total[OC_LANE_COUNT]; /* ops of all submissions so far */
    oc_gate submitted, completed;
    uint64_t n_submitted;

    atomic_bool failed;
    pthread_mutex_t error_lock;
    oc_error error; /* of the body that failed first */

    oc_guard *guards; /* one a buffer; NULL: no protection */
    pthread_mutex_t guard_lock;
    bool guards_open; /* nothing in flight: the session may touch everything */

    int trace_fd; /* -1: none, or written already */
    uint64_t opened_ns;
};

void *oc_run_worker_main(void *worker);
/* Keep the first error. `e` may be of a body that filled nothing. */
void oc_run_poison(oc_run *r, const oc_task *t, oc_status s, const oc_error *e);

oc_status oc_trace_open(oc_run *r, oc_error *err);
void oc_trace_put(oc_trace_ring *ring, const oc_trace_event *e);
oc_status oc_trace_write(oc_run *r, oc_error *err); /* nothing may be in flight */

void oc_guard_setup(oc_run *r);
/* Bracket a body: make its accesses possible, then no longer. */
oc_status oc_guard_enter(oc_run *r, const oc_task *t, oc_error *err);
void oc_guard_leave(oc_run *r, const oc_task *t);
/* The session's turn, and its end. */
void oc_guard_open_all(oc_run *r);
oc_status oc_guard_close_all(oc_run *r, oc_error *err);

#endif
