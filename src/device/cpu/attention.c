/* attention.c - cuts attention into tasks of the pool and lays out the work buffer. */
#include "device/cpu/attention.h"

#include "base/checked.h"

#include <assert.h>

enum { DELTA_ROWS = 64 };                          /* rows of a delta task */
static const uint64_t ONE_PASS_BYTES = 8ull << 20; /* fp32 dq of one running task, at most */

typedef struct job {
    const oc_attention_kernels *k;
    const oc_attention *a;
    float *scratch, *delta, *dq;
    int64_t scratch_floats, dq_floats, dq_slots;
} job;

int64_t oc_attention_scratch_floats(const oc_attention *a) {
    int64_t dim = oc_attention_padded_dim(a);
    /* backward_q: Q, dO, dQ in lanes, K, V in rows. backward_kv: K, V, dK, dV in lanes, K, Q, dO in
     * rows. Both: two tiles of scores, two floats a row. */
    int64_t q = 3 * OC_ATTENTION_QUERIES + 2 * OC_ATTENTION_TILE, kv = 7 * OC_ATTENTION_TILE;
    return (q > kv ? q : kv) * dim + 2 * OC_ATTENTION_TILE * OC_ATTENTION_LANES +
           2 * OC_ATTENTION_QUERIES;
}

/* Floats of the fp32 dq of one (sequence, kv head). */
static uint64_t dq_floats(const oc_attention *a) {
    int64_t group = a->heads / a->kv_heads;
    return (uint64_t)(group * oc_attention_tiles(a, OC_ATTENTION_TILE) * OC_ATTENTION_TILE *
                      oc_attention_padded_dim(a));
}

static uint64_t dq_slots(const oc_attention *a, int pool_slots) {
    return oc_min_u64((uint64_t)pool_slots, (uint64_t)(a->batch * a->kv_heads));
}

/* One pass pays when its few large tasks keep the cores busy for more than the 5/7 of the time that
 * it saves. */
static bool one_pass(const oc_attention *a, int pool_slots, oc_attention_passes passes) {
    if (passes != OC_ATTENTION_AUTO) return passes == OC_ATTENTION_ONE_PASS;
    int64_t cores = pool_slots + 1 - OC_POOL_CALLERS, tasks = a->batch * a->kv_heads;
    int64_t rounds = (tasks + cores - 1) / cores;
    return dq_floats(a) * sizeof(float) <= ONE_PASS_BYTES && 4 * tasks >= 3 * rounds * cores;
}

static uint64_t delta_floats(const oc_attention *a) {
    return oc_align_up((uint64_t)(a->batch * a->seq * a->heads), 16);
}

uint64_t oc_attention_work_bytes_for(const oc_attention *a, int pool_slots,
                                     oc_attention_passes passes) {
    uint64_t floats = (uint64_t)oc_attention_scratch_floats(a) * (uint64_t)pool_slots;
    floats += delta_floats(a);
    if (one_pass(a, pool_slots, passes)) floats += dq_floats(a) * dq_slots(a, pool_slots);
    return floats * sizeof(float);
}

uint64_t oc_attention_work_bytes(const oc_attention *a, int pool_slots) {
    return oc_attention_work_bytes_for(a, pool_slots, OC_ATTENTION_AUTO);
}

static job job_of(const oc_attention_kernels *k, const oc_pool *pool, const oc_attention *a) {
    assert(a->work && (uintptr_t)a->work % 64 == 0);
    assert(a->kv_heads > 0 && a->heads % a->kv_heads == 0);
    int slots = oc_pool_slots(pool);
    job j = {.k = k, .a = a, .scratch = a->work};
    j.scratch_floats = oc_attention_scratch_floats(a);
    j.delta = j.scratch + j.scratch_floats * slots;
    j.dq = j.delta + delta_floats(a);
    j.dq_floats = (int64_t)dq_floats(a);
    j.dq_slots = (int64_t)dq_slots(a, slots);
    return j;
}

/* Task n of a grid [sequence][head][tile]. Late query tiles see most keys: they start first. */
static oc_attention_task query_task(const job *j, int64_t n, int worker) {
    int64_t tiles = oc_attention_tiles(j->a, OC_ATTENTION_QUERIES), heads = j->a->heads;
    oc_attention_task t = {.a = j->a, .delta = j->delta};
    t.scratch = j->scratch + j->scratch_floats * worker;
    t.tile = tiles - 1 - n % tiles;
    t.head = (int32_t)(n / tiles % heads);
    t.sequence = n / tiles / heads;
    return t;
}

static void forward_task(void *arg, int64_t n, int worker) {
    const job *j = arg;
    oc_attention_task t = query_task(j, n, worker);
    j->k->forward(&t);
}

void oc_attention_forward_run(const oc_attention_kernels *k, oc_pool *pool, const oc_attention *a) {
    job j = job_of(k, pool, a);
    int64_t tiles = oc_attention_tiles(a, OC_ATTENTION_QUERIES);
    oc_pool_for(pool, a->batch * a->heads * tiles, forward_task, &j);
}

static void delta_task(void *arg, int64_t n, int worker) {
    const job *j = arg;
    (void)worker;
    int64_t row = n * DELTA_ROWS, left = j->a->batch * j->a->seq - row;
    j->k->delta(j->a, row, left < DELTA_ROWS ? left : DELTA_ROWS, j->delta);
}

static void kv_task(void *arg, int64_t n, int worker) {
    const job *j = arg;
    int64_t tiles = oc_attention_tiles(j->a, OC_ATTENTION_TILE), heads = j->a->kv_heads;
    oc_attention_task t = {.a = j->a, .delta = j->delta};
    t.scratch = j->scratch + j->scratch_floats * worker;
    t.tile = n % tiles;
    t.head = (int32_t)(n / tiles % heads);
    t.sequence = n / tiles / heads;
    j->k->backward_kv(&t);
}

static void q_task(void *arg, int64_t n, int worker) {
    const job *j = arg;
    oc_attention_task t = query_task(j, n, worker);
    j->k->backward_q(&t);
}

/* All keys of a (sequence, kv head) in order; dq belongs to the task while it runs. */
static void whole_task(void *arg, int64_t n, int worker) {
    const job *j = arg;
    int64_t heads = j->a->kv_heads, tasks = j->a->batch * heads;
    oc_attention_task t = {.a = j->a, .delta = j->delta};
    t.scratch = j->scratch + j->scratch_floats * worker;
    t.head = (int32_t)(n % heads);
    t.sequence = n / heads;
    t.dq = j->dq + j->dq_floats * (tasks <= j->dq_slots ? n : worker);
    memset(t.dq, 0, (size_t)j->dq_floats * sizeof(float));
    int64_t tiles = oc_attention_tiles(j->a, OC_ATTENTION_TILE);
    for (t.tile = 0; t.tile < tiles; t.tile++)
        j->k->backward_kv(&t);
    j->k->store_dq(&t);
}

void oc_attention_backward_run_for(const oc_attention_kernels *k, oc_pool *pool,
                                   const oc_attention *a, oc_attention_passes passes) {
    job j = job_of(k, pool, a);
    int64_t rows = a->batch * a->seq, kv_tiles = oc_attention_tiles(a, OC_ATTENTION_TILE);
    int64_t q_tiles = oc_attention_tiles(a, OC_ATTENTION_QUERIES);
    oc_pool_for(pool, (rows + DELTA_ROWS - 1) / DELTA_ROWS, delta_task, &j);
    if (one_pass(a, oc_pool_slots(pool), passes)) {
        oc_pool_for(pool, a->batch * a->kv_heads, whole_task, &j);
        return;
    }
    oc_pool_for(pool, a->batch * a->kv_heads * kv_tiles, kv_task, &j);
    oc_pool_for(pool, a->batch * a->heads * q_tiles, q_task, &j);
}

void oc_attention_backward_run(const oc_attention_kernels *k, oc_pool *pool,
                               const oc_attention *a) {
    oc_attention_backward_run_for(k, pool, a, OC_ATTENTION_AUTO);
}
