/* norm.c - RMSNorm and LayerNorm over the pool: rows for y and dx, column strips for dw and db. */
#include "device/cpu/cpu.h"

typedef struct norm_job {
    const oc_kernels *kernels;
    const oc_norm *norm;
    int64_t grain; /* rows or columns a task takes */
} norm_job;

static void forward_task(void *arg, int64_t task, int worker) {
    (void)worker;
    const norm_job *j = arg;
    int64_t row = task * j->grain;
    j->kernels->norm_forward(j->norm, row, oc_cpu_min(row + j->grain, j->norm->rows));
}

static void backward_rows_task(void *arg, int64_t task, int worker) {
    (void)worker;
    const norm_job *j = arg;
    int64_t row = task * j->grain;
    j->kernels->norm_backward_rows(j->norm, row, oc_cpu_min(row + j->grain, j->norm->rows));
}

static void backward_columns_task(void *arg, int64_t task, int worker) {
    (void)worker;
    const norm_job *j = arg;
    int64_t col = task * j->grain;
    j->kernels->norm_backward_columns(j->norm, col, oc_cpu_min(col + j->grain, j->norm->cols));
}

void oc_cpu_norm_forward(oc_device *d, const oc_norm *n) {
    norm_job job = {oc_cpu_of(d)->kernels, n, oc_cpu_row_grain(n->cols)};
    oc_pool_for(d->pool, oc_cpu_tasks(n->rows, job.grain), forward_task, &job);
}

/* A column's sum walks its rows in order in one task, so neither the number of threads nor the
 * width of a strip changes it. */
void oc_cpu_norm_backward(oc_device *d, const oc_norm *n) {
    const oc_kernels *kernels = oc_cpu_of(d)->kernels;
    if (n->dw || n->db) {
        norm_job columns = {kernels, n, oc_cpu_strip(n->cols)};
        oc_pool_for(d->pool, oc_cpu_tasks(n->cols, columns.grain), backward_columns_task, &columns);
    }
    norm_job rows = {kernels, n, oc_cpu_row_grain(n->cols)};
    oc_pool_for(d->pool, oc_cpu_tasks(n->rows, rows.grain), backward_rows_task, &rows);
}
