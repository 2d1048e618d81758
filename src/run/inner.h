/* inner.h - what the files of this room share. Nobody else includes it.
 *
 *   run.c       submit, wait, questions: the session's side
 *   open.c      open and close: memory, locks, threads
 *   check.c     what a spec must be
 *   layout.c    the one block of memory, measured and handed out
 *   issue.c     a thread a lane: waits, predicates, bodies
 *   complete.c  a second thread for a lane with a queue: learns when its ops are done
 *   lane.c      what both of them do
 *   trace.c     rings of events, written as JSON
 *   protect.c   page protection of homes
 *
 * Counting: the ops of a lane are numbered 1, 2, 3, ... since open, in the order of issue. Op `seq`
 * of a submission has the number base[lane] + seq, where base is the sum of the lane's ops of all
 * submissions before. Hence a wait for a submission that is long over is simply true.
 *
 * Of a lane, always:
 *   done <= issued <= done + window          (no queue: window is 1, and `issued` is not kept)
 *   op n is in the ring `flights` at n % window while done < n <= issued
 *   stream: op n has the marks 2n - 1 (its begin) and 2n (its end), both recorded once issued >= n;
 *           2 * window <= marks, so those of ops that are not done are remembered
 *   ring:   ops in flight <= depth
 *
 * A mark may be forgotten once its op is done. So who waits for a mark of another lane claims it
 * first and looks at `done` then; the lane looks at the claims after `done` has let it record a
 * mark in the place of an older one. Of such a pair of looks at least one sees the other's word:
 * all four are sequentially consistent. */
#ifndef OC_RUN_INNER_H
#define OC_RUN_INNER_H

#include "run/gate.h"
#include "run/run.h"

#include <stddef.h>

#define OC_RUN_STOP UINT64_MAX /* value of the `submitted` gate that ends the threads */
enum { OC_LANE_ENDS = 64 };    /* of a lane: ops whose end is remembered */
enum { OC_TRACE_LEAST = 16 };  /* events that every lane has room for */
enum {
    OC_RING_OVERTAKING = 4
}; /* window of a ring: ops issued, as a multiple of its depth, while
      the oldest of them is not done */

typedef struct oc_submission {
    uint32_t plan;
    uint32_t before; /* plan submitted just before; OC_NO_PLAN: none */
    uint32_t copy;
    uint64_t submitted_ns;
    uint64_t base[OC_LANE_COUNT];
    uint64_t base_before[OC_LANE_COUNT];
    _Atomic uint32_t workers_left; /* that have yet to finish their ops of it */
} oc_submission;

typedef struct oc_trace_event {
    uint64_t start_ns, end_ns;
    uint64_t step; /* number of the submission, from 1 */
    uint32_t op;
    uint16_t plan;
    uint16_t skipped;
} oc_trace_event;

typedef struct oc_trace_ring {
    oc_trace_event *events; /* NULL: no trace */
    uint64_t capacity;
    _Atomic uint64_t n; /* events ever put; event i is at i % capacity */
} oc_trace_ring;

/* An op of a lane with a queue, from its issue until it is done. Written by the issuer before it
 * raises `issued`; the completer's from then on. */
typedef struct oc_flight {
    uint64_t step;     /* its submission */
    uint64_t ready_ns; /* the last of its inputs was there */
    uint64_t start_ns; /* the body was called; stream: the begin mark was reached */
    uint64_t moved;    /* bytes */
    uint32_t op;
    bool ran;    /* its body was called */
    bool queued; /* ring: reap will tell of it */
    bool ended;
} oc_flight;

typedef struct oc_lane_state {
    oc_gate done;                            /* ops 1 .. value are done */
    oc_gate issued;                          /* ops 1 .. value are in the queue, or were left out */
    oc_gate reaped;                          /* ring: how many ops have ended, in whatever order */
    _Atomic uint64_t claims[OC_LANE_COUNT];  /* op whose end mark that lane is about to wait for */
    _Atomic uint64_t unmarked_from;          /* from this op on the queue refused a mark */
    _Atomic uint64_t ended_ns[OC_LANE_ENDS]; /* of op number n at n % OC_LANE_ENDS */
    _Atomic uint64_t busy_ns, ops, bytes;
    double ns_per_byte;   /* 0: not paced */
    uint64_t paced_until; /* ideal end of the last op, on the pacing clock */
    oc_trace_ring ring;

    oc_queue *queue; /* NULL: ops are done when their body returns */
    bool stream;     /* else, with a queue: a ring */
    uint32_t window;
    oc_flight *flights;

    /* the issuer's; `completed` too when there is no queue */
    uint64_t n_issued, n_queued;
    uint64_t random; /* state of the delay generator; 0: none */

    /* the completer's */
    uint64_t completed; /* own copy of `done` */
    uint64_t seen;      /* ring: ops that it knows of, own copy of `issued` */
    uint64_t n_reaped, in_flight;
    uint64_t busy_until;
    uint64_t completer_random;
} oc_lane_state;

/* A thread: the issuer or the completer of one lane, or in serial mode the issuer of all. */
typedef struct oc_worker {
    oc_run *run;
    void *(*main)(void *worker);
    pthread_t thread;
    bool started;
    bool paced;
    uint32_t lane;
    char name[16];
    uint64_t last_end_ns;              /* serial */
    const uint32_t *ops[OC_MAX_PLANS]; /* of an issuer: indices of its ops, ascending; NULL: all */
    uint32_t n_ops[OC_MAX_PLANS];
} oc_worker;

typedef struct oc_guard { /* page protection of one buffer */
    uint8_t *at;          /* its whole interior pages; NULL: not protected */
    size_t bytes;
    uint32_t readers, writers;
    int prot; /* as set last */
} oc_guard;

struct oc_run { /* at the start of the block that holds all else */
    oc_run_spec spec;
    const oc_plan_set *set;
    uint64_t host_bytes;
    oc_lane_state *lanes; /* OC_LANE_COUNT */
    oc_worker *workers;
    uint32_t n_workers;
    bool *session_only; /* per buffer: no op writes it */

    oc_submission slots[2]; /* submission n is in slots[n % 2] */
    bool begun;
    uint32_t last_plan;            /* OC_NO_PLAN: none yet */
    uint64_t total[OC_LANE_COUNT]; /* ops of all submissions so far */
    oc_gate submitted, completed;
    uint64_t n_submitted;

    atomic_bool failed;
    pthread_mutex_t error_lock;
    oc_error error; /* the first */

    oc_guard *guards; /* one a buffer; NULL: no protection */
    pthread_mutex_t guard_lock;
    bool guards_open; /* nothing in flight: the session may touch everything */

    int trace_fd; /* -1: none, or written already */
    uint64_t opened_ns;
};

oc_status oc_run_check(const oc_run_spec *spec, oc_error *err);
/* Bytes of a run; what the memory at `block`, zeroed, is divided into. */
uint64_t oc_layout_bytes(const oc_run_spec *spec);
oc_run *oc_layout_make(void *block, const oc_run_spec *spec);
bool oc_layout_lane_used(const oc_plan_set *set, uint32_t lane);

void *oc_issuer_main(void *worker);
void *oc_completer_main(void *worker);

/* ---- lane.c ---- */

oc_task oc_lane_task(const oc_run *r, const oc_submission *s, uint32_t op);
void oc_lane_sleep_until(uint64_t ns);
/* Tests: now and then some time passes. */
void oc_lane_delay(uint64_t *random);
/* Statistics and trace of an op that took start .. end and kept its lane for `busy`. */
void oc_lane_account(oc_run *r, const oc_submission *s, const oc_flight *f, uint64_t end_ns,
                     uint64_t busy_ns);
/* The op after those that are done is done too. */
void oc_lane_advance(oc_lane_state *l, uint64_t end_ns);
/* A worker has handled its ops of a submission. */
void oc_lane_leave(oc_run *r, oc_submission *s, uint64_t step);
/* Wait for the next submission; false: there are no more. */
bool oc_lane_enter(const oc_worker *w, uint64_t step);

static inline oc_flight *oc_lane_flight(oc_lane_state *l, uint64_t number) {
    return &l->flights[number % l->window];
}

/* Keep the first error. `e` may be of a body that filled nothing. */
void oc_run_poison(oc_run *r, const oc_op *o, oc_status s, const oc_error *e);
/* The same for what a queue reported. */
void oc_run_poison_queue(oc_run *r, const oc_op *o, oc_status s);

oc_status oc_trace_open(oc_run *r, oc_error *err);
void oc_trace_put(oc_trace_ring *ring, const oc_trace_event *e);
uint64_t oc_trace_left_out(const oc_trace_ring *ring);
oc_status oc_trace_write(oc_run *r, oc_error *err); /* nothing may be in flight */

void oc_guard_setup(oc_run *r);
/* Bracket an op: make its accesses possible, then no longer. */
oc_status oc_guard_enter(oc_run *r, const oc_task *t, oc_error *err);
void oc_guard_leave(oc_run *r, const oc_task *t);
/* The session's turn, and its end. */
void oc_guard_open_all(oc_run *r);
oc_status oc_guard_close_all(oc_run *r, oc_error *err);

#endif
