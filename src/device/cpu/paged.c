/* paged.c - attention over pages for the CPU back end: how it is cut into tasks. The arithmetic of
 * a task is in paged.inc, for every instruction set. */
#include "device/cpu/paged.h"

#include "base/checked.h"

#include <string.h>

int64_t oc_paged_padded_dim(const oc_paged_attention *a) {
    return ((int64_t)a->head_dim + 15) / 16 * 16;
}

/* A block's keys and values; of each query q, out, scores, maximum and sum. */
int64_t oc_paged_scratch_floats(const oc_paged_attention *a) {
    int64_t group = a->heads / a->kv_heads, dim = oc_paged_padded_dim(a);
    int64_t queries = OC_PAGED_TOKENS * group;
    int64_t floats = 2 * OC_PAGED_KEYS * dim + queries * (2 * dim + OC_PAGED_KEYS + 2);
    return (floats + 15) / 16 * 16;
}

uint64_t oc_paged_work_bytes(const oc_paged_attention *a, int pool_slots) {
    uint64_t floats = (uint64_t)oc_paged_scratch_floats(a) * (uint64_t)pool_slots;
    return oc_align_up(floats * sizeof(float), 64);
}

/* ---- keys and values into their pages ---- */

static char *slot_of(const oc_paged_attention *a, int64_t row, int64_t place, bool values) {
    int64_t page = a->pages[row * a->pages_ld + place / a->page_tokens];
    int64_t width = (int64_t)a->kv_heads * a->head_dim * (int64_t)oc_dtype_bytes(a->dtype);
    int64_t in_page = place % a->page_tokens + (values ? a->page_tokens : 0);
    return (char *)a->kv + (page * 2 * a->page_tokens + in_page) * width;
}

static void append_row(void *arg, int64_t r, int worker) {
    const oc_paged_attention *a = arg;
    const oc_paged_row *row = &a->row[r];
    size_t e = oc_dtype_bytes(a->dtype), width = (size_t)a->kv_heads * (size_t)a->head_dim * e;
    (void)worker;
    for (int32_t j = 0; j < row->tokens; j++) {
        int64_t t = row->first + j, place = row->context + j;
        memcpy(slot_of(a, r, place, false), (const char *)a->k + (size_t)(t * a->k_ld) * e, width);
        memcpy(slot_of(a, r, place, true), (const char *)a->v + (size_t)(t * a->v_ld) * e, width);
    }
}

void oc_paged_append_run(oc_pool *pool, const oc_paged_attention *a) {
    oc_paged_attention copy = *a;
    oc_pool_for(pool, a->rows, append_row, &copy);
}

/* ---- attention ---- */

typedef struct job {
    const oc_paged_kernels *k;
    const oc_paged_attention *a;
    int64_t scratch_floats;
} job;

/* Task n: a head of k and v, and OC_PAGED_TOKENS tokens of the pass, cut at their rows' ends: the
 * tokens of a row that begin in this range of tiles. */
typedef struct tile {
    int64_t row, first, n;
} tile;

static int64_t tiles_of(const oc_paged_row *r) {
    return ((int64_t)r->tokens + OC_PAGED_TOKENS - 1) / OC_PAGED_TOKENS;
}

static int64_t count_tiles(const oc_paged_attention *a) {
    int64_t n = 0;
    for (int64_t r = 0; r < a->rows; r++)
        n += tiles_of(&a->row[r]);
    return n;
}

/* The last tiles of a row see most keys. */
static tile tile_at(const oc_paged_attention *a, int64_t n) {
    tile t = {0};
    while (n >= tiles_of(&a->row[t.row]))
        n -= tiles_of(&a->row[t.row++]);
    t.first = n * OC_PAGED_TOKENS;
    int64_t left = a->row[t.row].tokens - t.first;
    t.n = left < OC_PAGED_TOKENS ? left : OC_PAGED_TOKENS;
    return t;
}

static void attend(void *arg, int64_t n, int worker) {
    const job *j = arg;
    tile t = tile_at(j->a, n / j->a->kv_heads);
    oc_paged_task task = {.a = j->a,
                          .row = t.row,
                          .first = t.first,
                          .n = t.n,
                          .head = (int32_t)(n % j->a->kv_heads),
                          .scratch = (float *)j->a->work + j->scratch_floats * worker};
    j->k->attend(&task);
}

void oc_paged_attention_run(const oc_paged_kernels *k, oc_pool *pool, const oc_paged_attention *a) {
    job j = {k, a, oc_paged_scratch_floats(a)};
    oc_paged_append_run(pool, a);
    oc_pool_for(pool, count_tiles(a) * a->kv_heads, attend, &j);
}
