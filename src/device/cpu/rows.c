/* rows.c - gathering rows of an embedding table, and adding gradients back into them. */
#include "device/cpu/cpu.h"

#include <string.h>

enum {
    RUN_GRAIN = 64,   /* entries of order whose runs a scatter task starts */
    RUN_COLUMNS = 512 /* and the columns it takes, so that one frequent row is shared */
};

typedef struct rows_job {
    const oc_kernels *kernels;
    oc_dtype dtype;
    int64_t n, cols;
    const int32_t *index, *order;
    int64_t row0, table_rows;
    const void *src; /* the table when gathering */
    void *out;       /* acc when scattering */
    int64_t grain, strips;
} rows_job;

/* The row of the table that entry i means; -1: not in this table. */
static int64_t row_of(const rows_job *j, int64_t i) {
    int64_t row = j->index[i] - j->row0;
    return row >= 0 && row < j->table_rows ? row : -1;
}

static void gather_task(void *arg, int64_t task, int worker) {
    (void)worker;
    const rows_job *j = arg;
    size_t bytes = (size_t)j->cols * oc_dtype_bytes(j->dtype);
    int64_t end = oc_cpu_min((task + 1) * j->grain, j->n);
    for (int64_t i = task * j->grain; i < end; i++) {
        int64_t row = row_of(j, i);
        if (row < 0) continue;
        memcpy(oc_cpu_at_mut(j->out, j->dtype, i * j->cols),
               oc_cpu_at(j->src, j->dtype, row * j->cols), bytes);
    }
}

/* A run is the entries of one index; it belongs to the task in whose range it starts. */
static void scatter_task(void *arg, int64_t task, int worker) {
    (void)worker;
    const rows_job *j = arg;
    int64_t col = task % j->strips * RUN_COLUMNS, cols = oc_cpu_min(RUN_COLUMNS, j->cols - col);
    int64_t k = task / j->strips * RUN_GRAIN, end = oc_cpu_min(k + RUN_GRAIN, j->n);
    while (k > 0 && k < end && j->index[j->order[k]] == j->index[j->order[k - 1]])
        k++;
    while (k < end) {
        int32_t first = j->index[j->order[k]];
        int64_t row = row_of(j, j->order[k]);
        for (; k < j->n && j->index[j->order[k]] == first; k++) {
            if (row < 0) continue;
            j->kernels->add_row(j->dtype, cols,
                                oc_cpu_at(j->src, j->dtype, j->order[k] * j->cols + col),
                                (float *)j->out + row * j->cols + col);
        }
    }
}

void oc_cpu_rows_gather(oc_device *d, oc_dtype t, int64_t n, int64_t cols, const int32_t *index,
                        int64_t row0, int64_t table_rows, const void *table, void *out) {
    rows_job j = {.dtype = t, .n = n, .cols = cols, .index = index, .row0 = row0};
    j.table_rows = table_rows;
    j.src = table;
    j.out = out;
    j.grain = oc_cpu_row_grain(cols);
    oc_pool_for(d->pool, oc_cpu_tasks(n, j.grain), gather_task, &j);
}

void oc_cpu_rows_scatter(oc_device *d, oc_dtype t, int64_t n, int64_t cols, const int32_t *index,
                         const int32_t *order, int64_t row0, int64_t table_rows, const void *src,
                         float *acc) {
    rows_job j = {.dtype = t, .n = n, .cols = cols, .index = index, .row0 = row0};
    j.kernels = oc_cpu_of(d)->kernels;
    j.order = order;
    j.table_rows = table_rows;
    j.src = src;
    j.out = acc;
    j.strips = oc_cpu_tasks(cols, RUN_COLUMNS);
    oc_pool_for(d->pool, oc_cpu_tasks(n, RUN_GRAIN) * j.strips, scatter_task, &j);
}
