/* bench_read.h - memory read as fast as it can be, by every thread of a pool. */
#ifndef OC_BENCH_READ_H
#define OC_BENCH_READ_H

#include "base/pool.h"

#include <stdint.h>
#include <stdio.h>

typedef uint64_t bench_wide __attribute__((vector_size(64), may_alias));

enum { BENCH_READ_TASK = 2048 }; /* vectors */

typedef struct bench_reading {
    const bench_wide *at;
    int64_t n;
    uint64_t sums[64]; /* of workers: so that reading is not in vain */
} bench_reading;

/* Four sums side by side. */
__attribute__((optimize("O3"))) static void bench_read_some(void *arg, int64_t task, int worker) {
    bench_reading *r = arg;
    int64_t first = task * BENCH_READ_TASK, end = first + BENCH_READ_TASK;
    bench_wide s[4] = {{0}};
    if (end > r->n) end = r->n;
    for (int64_t i = first; i + 4 <= end; i += 4)
        for (int k = 0; k < 4; k++)
            s[k] += r->at[i + k];
    r->sums[worker] += s[0][0] + s[1][1] + s[2][2] + s[3][3];
}

static inline void bench_read(oc_pool *pool, const void *p, uint64_t bytes) {
    bench_reading r = {p, (int64_t)(bytes / sizeof(bench_wide)), {0}};
    oc_pool_for(pool, (r.n + BENCH_READ_TASK - 1) / BENCH_READ_TASK, bench_read_some, &r);
    if (r.sums[0] == 1) puts("");
}

#endif
