/* pool.h - one pool of worker threads shared by all lanes of a process.
 *
 * A lane thread calls oc_pool_for(): it runs tasks itself and idle workers help. At most `cores`
 * threads run bodies at any moment: a worker leaves a job (between two tasks) while more are
 * active, so lanes that compute at the same time share the machine instead of oversubscribing it.
 * What a task computes must not depend on which thread runs it: that is what makes results
 * independent of the thread count.
 *
 * Workers spin for some microseconds between jobs, then sleep. No allocation after open. */
#ifndef OC_POOL_H
#define OC_POOL_H

#include "base/status.h"

#include <stdint.h>

typedef struct oc_pool oc_pool;

/* task in [0, n); worker in [0, oc_pool_slots()) is unique among the threads inside oc_pool_for
 * calls at any moment, for per-thread scratch. */
typedef void oc_pool_fn(void *arg, int64_t task, int worker);

enum { OC_POOL_CALLERS = 4 }; /* lane threads that may be inside oc_pool_for at once */

/* cores >= 1: cores - 1 workers are started, with every signal blocked. */
OC_NODISCARD oc_status oc_pool_open(oc_pool **out, int cores, oc_error *err);
void oc_pool_close(oc_pool *p); /* NULL is allowed; no job may be running */

int oc_pool_cores(const oc_pool *p);
int oc_pool_slots(const oc_pool *p); /* cores - 1 + OC_POOL_CALLERS: bound on `worker` */

/* Run fn for tasks 0..n-1, in increasing order of start; returns when all are done. Any thread may
 * call it, at most OC_POOL_CALLERS at once; not from inside a task. A caller that is alone on a
 * pool of one core runs all tasks in order. */
void oc_pool_for(oc_pool *p, int64_t n, oc_pool_fn *fn, void *arg);

#endif
