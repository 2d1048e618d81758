/* paged.c - attention over pages for the CPU back end: how it is cut into tasks. The arithmetic of
 * a task is in paged.inc, for every instruction set. */
#include "device/cpu/paged.h"

#include "base/checked.h"

#include <string.h>

static int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t group_of(const oc_paged_attention *a) { return a->heads / a->kv_heads; }

/* Tokens of a task. */
static int64_t tile_tokens(const oc_paged_attention *a) {
    int64_t n = OC_PAGED_QUERIES / group_of(a);
    return n > 0 ? n : 1;
}

int64_t oc_paged_padded_dim(const oc_paged_attention *a) {
    return ((int64_t)a->head_dim + 15) / 16 * 16;
}

static int64_t part_floats(const oc_paged_attention *a, int64_t queries) {
    return queries * (oc_paged_padded_dim(a) + 2);
}

/* A block's keys and values; of each query itself, its scores, and what comes of a span and of all
 * of them. */
int64_t oc_paged_scratch_floats(const oc_paged_attention *a) {
    int64_t dim = oc_paged_padded_dim(a), queries = tile_tokens(a) * group_of(a);
    int64_t floats = 2 * OC_PAGED_KEYS * dim + queries * dim + 2 * part_floats(a, queries) +
                     (queries + OC_PAGED_SPARE) * OC_PAGED_KEYS;
    return (floats + 15) / 16 * 16;
}

/* ---- work ---- */

/* With fewer tasks than this, each of a token, spans are tasks. */
static int64_t many_tasks(const oc_pool *pool) { return 4 * (int64_t)oc_pool_cores(pool); }

static int64_t spans_of(int64_t keys) { return (keys + OC_PAGED_SPAN - 1) / OC_PAGED_SPAN; }

uint64_t oc_paged_work_bytes(const oc_paged_attention *a, const oc_pool *pool) {
    uint64_t scratch = (uint64_t)oc_paged_scratch_floats(a) * (uint64_t)oc_pool_slots(pool);
    int64_t tasks = min_i64(a->rows * a->kv_heads, many_tasks(pool));
    uint64_t parts = (uint64_t)(tasks * spans_of(a->keys)) * (uint64_t)part_floats(a, group_of(a));
    return oc_align_up((scratch + parts) * sizeof(float), 64);
}

/* ---- keys and values into their pages ---- */

static void copy_heads(const oc_paged_attention *a, int64_t row, int64_t place, bool values,
                       const void *from, int64_t at) {
    int64_t e = (int64_t)oc_dtype_bytes(a->dtype), bytes = a->head_dim * e;
    int64_t page = a->pages[row * a->pages_ld + place / a->page_tokens];
    for (int64_t h = 0; h < a->kv_heads; h++) {
        int64_t run = (page * 2 + values) * a->kv_heads + h;
        memcpy((char *)a->kv + (run * a->page_tokens + place % a->page_tokens) * bytes,
               (const char *)from + at * e + h * bytes, (size_t)bytes);
    }
}

static void append_row(void *arg, int64_t r, int worker) {
    const oc_paged_attention *a = arg;
    const oc_paged_row *row = &a->row[r];
    (void)worker;
    for (int32_t j = 0; j < row->tokens; j++) {
        int64_t t = row->first + j, place = row->context + j;
        copy_heads(a, r, place, false, a->k, t * a->k_ld);
        copy_heads(a, r, place, true, a->v, t * a->v_ld);
    }
}

void oc_paged_append_run(oc_pool *pool, const oc_paged_attention *a) {
    oc_paged_attention copy = *a;
    oc_pool_for(pool, a->rows, append_row, &copy);
}

/* ---- attention ---- */

typedef struct job {
    const oc_paged_kernels *k;
    const oc_gemm_kernels *gemm;
    const oc_paged_attention *a;
    int64_t scratch_floats, tile;
    float *parts;  /* behind the scratch of all */
    int64_t spans; /* parts of a task */
} job;

static int64_t tiles_of(const job *j, int64_t row) {
    return ((int64_t)j->a->row[row].tokens + j->tile - 1) / j->tile;
}

static int64_t count_tasks(const job *j) {
    int64_t n = 0;
    for (int64_t r = 0; r < j->a->rows; r++)
        n += tiles_of(j, r);
    return n * j->a->kv_heads;
}

/* Task n: a head of k and v, and some tokens of a row. */
static oc_paged_task task_at(const job *j, int64_t n, int worker) {
    oc_paged_task t = {.a = j->a, .gemm = j->gemm, .head = (int32_t)(n % j->a->kv_heads)};
    n /= j->a->kv_heads;
    while (n >= tiles_of(j, t.row))
        n -= tiles_of(j, t.row++);
    t.first = n * j->tile;
    t.n = min_i64(j->a->row[t.row].tokens - t.first, j->tile);
    t.scratch = (float *)j->a->work + j->scratch_floats * worker;
    return t;
}

static void attend(void *arg, int64_t n, int worker) {
    const job *j = arg;
    oc_paged_task t = task_at(j, n, worker);
    j->k->attend(&t);
}

/* ---- few tokens: spans are tasks ---- */

static oc_paged_part part_at(const job *j, int64_t n, int64_t span) {
    int64_t queries = group_of(j->a);
    float *p = j->parts + (n * j->spans + span) * part_floats(j->a, queries);
    return (oc_paged_part){p, p + queries, p + 2 * queries};
}

/* Spans that a task's only token attends to. */
static int64_t spans_seen(const oc_paged_task *t) {
    int64_t place = t->a->row[t->row].context, first = place - t->a->window + 1;
    if (t->a->window <= 0 || first < 0) first = 0;
    return place / OC_PAGED_SPAN - first / OC_PAGED_SPAN + 1;
}

static void attend_span(void *arg, int64_t n, int worker) {
    const job *j = arg;
    oc_paged_task t = task_at(j, n / j->spans, worker);
    int64_t span = n % j->spans;
    oc_paged_part to = part_at(j, n / j->spans, span);
    if (span < spans_seen(&t)) j->k->attend_span(&t, span, &to);
}

static void join(void *arg, int64_t n, int worker) {
    const job *j = arg;
    oc_paged_task t = task_at(j, n, worker);
    oc_paged_part first = part_at(j, n, 0);
    j->k->join(&t, &first, spans_seen(&t));
}

static bool is_a_token_each(const oc_paged_attention *a) {
    for (int64_t r = 0; r < a->rows; r++)
        if (a->row[r].tokens > 1) return false;
    return true;
}

void oc_paged_attention_run(const oc_paged_kernels *k, const oc_gemm_kernels *gemm, oc_pool *pool,
                            const oc_paged_attention *a) {
    job j = {.k = k, .gemm = gemm, .a = a, .scratch_floats = oc_paged_scratch_floats(a)};
    j.tile = tile_tokens(a);
    j.parts = (float *)a->work + j.scratch_floats * oc_pool_slots(pool);
    oc_paged_append_run(pool, a);
    int64_t tasks = count_tasks(&j);
    for (int64_t r = 0; r < a->rows; r++) {
        int64_t spans = spans_of(a->row[r].context + 1);
        if (spans > j.spans) j.spans = spans;
    }
    if (tasks >= many_tasks(pool) || j.spans < 2 || !is_a_token_each(a)) {
        oc_pool_for(pool, tasks, attend, &j);
        return;
    }
    oc_pool_for(pool, tasks * j.spans, attend_span, &j);
    oc_pool_for(pool, tasks, join, &j);
}
