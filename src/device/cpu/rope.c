/* rope.c - cuts the rows into tasks of the pool. */
#include "device/cpu/rope.h"

enum { TASK_ROWS = 16 };

typedef struct job {
    const oc_rope_kernels *k;
    const oc_rope *r;
} job;

static void rows_task(void *arg, int64_t task, int worker) {
    const job *j = arg;
    (void)worker;
    int64_t row = task * TASK_ROWS, left = j->r->rows - row;
    j->k->rows(j->r, row, left < TASK_ROWS ? left : TASK_ROWS);
}

void oc_rope_run(const oc_rope_kernels *k, oc_pool *pool, const oc_rope *r) {
    job j = {k, r};
    oc_pool_for(pool, (r->rows + TASK_ROWS - 1) / TASK_ROWS, rows_task, &j);
}
