/* act.c - activations over the pool. A task is a rectangle: some rows of one range of columns. */
#include "device/cpu/cpu.h"

enum { COLUMNS = 4096 }; /* a task's columns at most, so that one row alone is shared too */

typedef struct act_job {
    const oc_kernels *kernels;
    oc_act act;
    bool gated, backward;
    oc_dtype dtype;
    int64_t rows, cols;
    const void *x, *dy;
    void *out; /* y or dx */
    int64_t row_grain, strips;
} act_job;

static oc_act_span span_of(const act_job *j, int64_t row, int64_t col, int64_t n) {
    int64_t wide = row * (j->gated ? 2 * j->cols : j->cols) + col, narrow = row * j->cols + col;
    oc_act_span s = {.act = j->act, .dtype = j->dtype, .n = n};
    s.gate = oc_cpu_at(j->x, j->dtype, wide);
    s.up = j->gated ? oc_cpu_at(j->x, j->dtype, wide + j->cols) : NULL;
    if (j->backward) {
        s.dy = oc_cpu_at(j->dy, j->dtype, narrow);
        s.dgate = oc_cpu_at_mut(j->out, j->dtype, wide);
        s.dup = j->gated ? oc_cpu_at_mut(j->out, j->dtype, wide + j->cols) : NULL;
    } else {
        s.y = oc_cpu_at_mut(j->out, j->dtype, narrow);
    }
    return s;
}

static void act_task(void *arg, int64_t task, int worker) {
    (void)worker;
    const act_job *j = arg;
    int64_t row = task / j->strips * j->row_grain, col = task % j->strips * COLUMNS;
    int64_t end = oc_cpu_min(row + j->row_grain, j->rows), n = oc_cpu_min(COLUMNS, j->cols - col);
    for (; row < end; row++) {
        oc_act_span s = span_of(j, row, col, n);
        if (j->backward) {
            j->kernels->act_backward(&s);
        } else {
            j->kernels->act_forward(&s);
        }
    }
}

static void act_run(oc_device *d, act_job *j) {
    if (!j->gated) { /* rows do not matter: one long row */
        j->cols *= j->rows;
        j->rows = 1;
    }
    j->kernels = oc_cpu_of(d)->kernels;
    j->row_grain = oc_cpu_row_grain(oc_cpu_min(j->cols, COLUMNS));
    j->strips = oc_cpu_tasks(j->cols, COLUMNS);
    oc_pool_for(d->pool, oc_cpu_tasks(j->rows, j->row_grain) * j->strips, act_task, j);
}

void oc_cpu_act_forward(oc_device *d, oc_act act, bool gated, oc_dtype t, int64_t rows,
                        int64_t cols, const void *x, void *y) {
    act_job j = {.act = act, .gated = gated, .dtype = t, .rows = rows, .cols = cols};
    j.x = x;
    j.out = y;
    act_run(d, &j);
}

void oc_cpu_act_backward(oc_device *d, oc_act act, bool gated, oc_dtype t, int64_t rows,
                         int64_t cols, const void *x, const void *dy, void *dx) {
    act_job j = {.act = act, .gated = gated, .dtype = t, .rows = rows, .cols = cols};
    j.backward = true;
    j.x = x;
    j.dy = dy;
    j.out = dx;
    act_run(d, &j);
}
