/* norm.c - RMSNorm and LayerNorm over the pool: rows for y and dx, column strips for dw and db. */
#include "device/cpu/cpu.h"

typedef struct norm_job {
    const oc_kernels *kernels;
    oc_norm norm;           /* with groups and ld given */
    int64_t vectors, grain; /* what there is, and what a task takes of it: vectors or columns */
} norm_job;

static norm_job job_of(oc_device *d, const oc_norm *n) {
    norm_job j = {.kernels = oc_cpu_of(d)->kernels, .norm = *n};
    if (n->groups <= 0) j.norm.groups = 1;
    if (n->ld <= 0) j.norm.ld = j.norm.groups * n->cols;
    j.vectors = n->rows * j.norm.groups;
    j.grain = oc_cpu_row_grain(n->cols);
    return j;
}

static void forward_task(void *arg, int64_t task, int worker) {
    (void)worker;
    const norm_job *j = arg;
    int64_t i = task * j->grain;
    j->kernels->norm_forward(&j->norm, i, oc_cpu_min(i + j->grain, j->vectors));
}

static void backward_rows_task(void *arg, int64_t task, int worker) {
    (void)worker;
    const norm_job *j = arg;
    int64_t i = task * j->grain;
    j->kernels->norm_backward_rows(&j->norm, i, oc_cpu_min(i + j->grain, j->vectors));
}

static void backward_columns_task(void *arg, int64_t task, int worker) {
    (void)worker;
    const norm_job *j = arg;
    int64_t col = task * j->grain;
    j->kernels->norm_backward_columns(&j->norm, col, oc_cpu_min(col + j->grain, j->norm.cols));
}

void oc_cpu_norm_forward(oc_device *d, const oc_norm *n) {
    norm_job job = job_of(d, n);
    oc_pool_for(d->pool, oc_cpu_tasks(job.vectors, job.grain), forward_task, &job);
}

/* A column's sum walks its vectors in order in one task, so neither the number of threads nor the
 * width of a strip changes it. All sums are done before the first dx, which may overwrite dy. */
void oc_cpu_norm_backward(oc_device *d, const oc_norm *n) {
    norm_job rows = job_of(d, n);
    if (n->dw || n->db) {
        norm_job columns = rows;
        /* a head has few columns and many vectors: narrow strips, so that cores share them */
        columns.grain = n->cols < OC_COLUMN_STRIP ? OC_COLUMN_STRIP / 8 : oc_cpu_strip(n->cols);
        oc_pool_for(d->pool, oc_cpu_tasks(n->cols, columns.grain), backward_columns_task, &columns);
    }
    oc_pool_for(d->pool, oc_cpu_tasks(rows.vectors, rows.grain), backward_rows_task, &rows);
}
