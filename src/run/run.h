/* run.h - the executor: runs verified plans on lanes. It knows no block, model or optimizer.
 *
 * One host thread issues the ops of each lane that has some. Without a queue (base/queue.h) a body
 * computes, and its op is done at return. With one it issues, and a second thread learns from the
 * queue when ops are done. An op is issued when its lane reached it, for each of its waits: on a
 * stream for another stream of its family, when that op was issued (the rest is a mark on the
 * device); for all others, when it is done.
 *
 * The body finds memory through the op's accesses only. One session thread submits; at most two
 * plans are in flight: the next may be submitted while one runs, which is what lets them overlap.
 *
 * An error of a body or of a queue poisons the run: later bodies are skipped, but for ops that say
 * `always` (when their predicate holds); tickets still complete, waits return the first error. A
 * queue that broke so badly that it cannot tell what is done may work on: it is to be closed before
 * the memory is released. */
#ifndef OC_RUN_H
#define OC_RUN_H

#include "base/queue.h"
#include "base/status.h"
#include "plan/plan.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct oc_run oc_run;

typedef struct oc_task {
    void *user; /* oc_run_spec.user */
    const oc_plan_set *set;
    const oc_plan *plan;
    const oc_op *op;
    const oc_access *accesses; /* the op's */
    void *const *bases;        /* arena base of each tier */
    uint32_t copy;             /* 0 or 1: which copy of SUBMISSION buffers */
    oc_queue *queue;           /* of the op's lane; NULL: compute in the body */
    uint64_t token;            /* on a ring: what reap is to tell of this op */
    bool failed;               /* the run has failed: an op that is entered `always` */
    uint64_t *moved;           /* demand.bytes; a body that moves less, as a cell says, says
                                  here how much, before it returns */
} oc_task;

/* err is the run's: fill it as any detecting function does. With a queue the body only issues: into
 * a stream whatever it likes; into a ring exactly one op with the token, or none when it fails. The
 * task itself is gone when it returns; what its pointers lead to stays until the op is done. */
typedef oc_status oc_body(const oc_task *t, oc_error *err);

/* Address of the first piece of the access; bytes of its pieces. */
void *oc_task_address(const oc_task *t, const oc_access *a);
uint64_t oc_task_bytes(const oc_task *t, const oc_access *a);
/* First access with this role; NULL when there is none. */
const oc_access *oc_task_access(const oc_task *t, oc_role role);
void *oc_task_role(const oc_task *t, oc_role role); /* address or NULL */

typedef struct oc_run_spec {
    const oc_plan_set *set; /* borrowed; verified by the caller */
    oc_body *const *bodies; /* borrowed */
    uint32_t n_bodies;
    void *user;
    void *bases[OC_TIER_COUNT];
    bool opaque[OC_TIER_COUNT]; /* the host cannot read this tier: predicates must not lie there */
    oc_queue *queues[OC_LANE_COUNT]; /* borrowed; NULL: ops are done when their body returns */
    double pace_bytes_per_second[OC_LANE_COUNT]; /* 0: as fast as it goes. A lane's ops then take at
                                                    least what they move / rate, asleep, back to
                                                    back */
    bool serial;                                 /* one op at a time, in program order */
    bool protect; /* debug: CARRIED buffers of the host tier (page aligned) are PROT_NONE unless an
                     op in flight accesses them */
    const char *trace_path; /* NULL: none. Chrome trace format, one track a lane */
    uint64_t trace_bytes;   /* for events, over all lanes by how many ops they have, but at least 16
                               a lane; the newest are kept */
    uint32_t delay_seed;    /* tests: 0 none; else random delays before and after bodies */
} oc_run_spec;

OC_NODISCARD oc_status oc_run_open(oc_run **out, const oc_run_spec *spec, oc_error *err);
/* Waits for what is in flight; writes the trace, if that was not done before. NULL is allowed. */
void oc_run_close(oc_run *r);
/* Waits for what is in flight and writes the trace now, once; nothing later is in it. For callers
 * that must know whether the file is whole. Without a trace it does nothing. */
OC_NODISCARD oc_status oc_run_write_trace(oc_run *r, oc_error *err);

/* Wait until the plan before last is done and tell which copy of the SUBMISSION buffers is free to
 * fill. Begin and submit return the run's error too: after one nothing starts any more. */
OC_NODISCARD oc_status oc_run_begin(oc_run *r, uint32_t *copy, oc_error *err);
/* Start plan number `plan` of the set; its SUBMISSION buffers are in the copy that begin named. */
OC_NODISCARD oc_status oc_run_submit(oc_run *r, uint32_t plan, uint64_t *ticket, oc_error *err);
OC_NODISCARD oc_status oc_run_wait(oc_run *r, uint64_t ticket, oc_error *err);
OC_NODISCARD oc_status oc_run_drain(oc_run *r, oc_error *err);

/* Address of a buffer (SUBMISSION: of a copy) for the session, between plans or for its free copy.
 */
void *oc_run_buffer(const oc_run *r, oc_buffer_id id, uint32_t copy);

typedef struct oc_lane_stats {
    uint64_t busy_ns, ops, bytes;
} oc_lane_stats;
/* Since open. */
void oc_run_stats(const oc_run *r, oc_lane_stats out[OC_LANE_COUNT]);
/* What the executor itself allocated (trace rings included, thread stacks not), and what it will
 * for a spec that open accepts, before it is opened. */
uint64_t oc_run_host_bytes(const oc_run *r);
uint64_t oc_run_measure(const oc_run_spec *spec);
/* Events that the trace has no room for, so far. */
uint64_t oc_run_trace_left_out(const oc_run *r);

#endif
