/* run.h - the executor: runs verified plans on lanes. It knows no block, model or optimizer.
 *
 * One host thread a lane that has ops. An op starts when its lane reached it and its waits are
 * done. The body finds memory through the op's accesses only. One session thread submits; at most
 * two plans are in flight: the next may be submitted while one runs, which is what lets steps
 * overlap.
 *
 * An error of a body poisons the run: later bodies are skipped, tickets still complete, waits
 * return the error of the first body that failed. */
#ifndef OC_RUN_H
#define OC_RUN_H

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
} oc_task;

/* err is the run's: fill it as any detecting function does. */
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
    double
        pace_bytes_per_second[OC_LANE_COUNT]; /* 0: as fast as it goes. A lane's ops then take at
                                                 least demand.bytes / rate, asleep, back to back */
    bool serial;                              /* one op at a time, in program order */
    bool protect; /* debug: CARRIED buffers of the host tier (page aligned) are PROT_NONE unless an
                     op in flight accesses them */
    const char *trace_path; /* NULL: none. Chrome trace format, one track a lane */
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
/* What the executor itself allocated (trace rings included, thread stacks not). */
uint64_t oc_run_host_bytes(const oc_run *r);

#endif
