#include "device/cpu/gemm.h"

#include "base/checked.h"
#include "device/cpu/gemm_kernels.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

enum {
    SLOT_FLOATS = OC_GEMM_A_FLOATS + OC_GEMM_B_FLOATS + OC_GEMM_PANEL_PAD + OC_GEMM_SUM_FLOATS,
    FLAG_BYTES = 64, /* a slot's flag has its own cache line */
    TILE_ROWS_MAX = 448,
    TILE_COLS_MAX = 1024,
    FEW_COLUMNS_MAX = 32,
    FEW_PACKED_ALONE = 16384, /* elements that are packed sooner than a helper has come */
    PACK_COST = 12            /* packing one element, in multiply-adds; measured on AVX-512 */
};

/* For mr >= 4; nr divides TILE_COLS_MAX. */
_Static_assert(TILE_ROWS_MAX *OC_GEMM_KC + TILE_ROWS_MAX / 4 * OC_GEMM_PANEL_PAD <=
                   OC_GEMM_A_FLOATS,
               "packed rows");
_Static_assert(TILE_ROWS_MAX *TILE_COLS_MAX <= OC_GEMM_SUM_FLOATS, "partial sums");

typedef struct job {
    const oc_gemm_kernels *k;
    const oc_gemm *g;
    int64_t m, n, depth;
    int64_t tile_rows, tile_cols, row_tiles, tasks;
    int slots;
    char *scratch;
} job;

/* d > 0. */
static int64_t ceil_div(int64_t x, int64_t d) {
    assert(d > 0);
    return (x + d - 1) / d;
}
static int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }

const char *oc_gemm_name(const oc_gemm_kernels *k) { return k->name; }
bool oc_gemm_runs_here(const oc_gemm_kernels *k) { return k->runs_here(); }

/* Measured on a 2-core AVX-512 machine without AMX (Sapphire Rapids class, oneDNN 2.6.3), one
 * thread, other work running beside it, four interleaved rounds: GF/s of the best round and median
 * ratio to dnnl_sgemm, with tiles of 672 rows (448, as now, tied in the same conditions):
 *
 *                                   dnnl_sgemm   avx512 14x32, fp32   bf16
 *   X W^T   512 x 2048 x 2048          143          145  1.06         150  1.09
 *   X W^T   256 x 4096 x 4096          137          145  1.07         148  1.08
 *   dY W    512 x 2048 x 2048          149          146  1.05         153  1.09
 *   dY^T X  2048 x 2048 x 512          149          141  0.97         148  1.00
 *   dY^T X  1024 x 1024 x 4096         153          146  0.96         153  1.00
 *   X W^T   8 x 4096 x 4096             28           47  2.1           70  3.8
 *
 * The library in our tile loop (oc_gemm_onednn, then with DEPTH 1024) was mostly at 0.3 - 0.9 of
 * the first column with fp32, and at 0.25 - 0.7 with bf16, as operands are staged. So the own
 * kernels are the choice for every dtype. */
const oc_gemm_kernels *oc_gemm_default(oc_isa isa) {
#if defined(__x86_64__)
    if ((isa == OC_ISA_BEST || isa == OC_ISA_AVX512) && oc_gemm_avx512.runs_here())
        return &oc_gemm_avx512;
    if ((isa == OC_ISA_BEST || isa == OC_ISA_AVX2) && oc_gemm_avx2.runs_here())
        return &oc_gemm_avx2;
#endif
    return isa == OC_ISA_BEST || isa == OC_ISA_PLAIN ? &oc_gemm_plain : NULL;
}

/* One lane runs products, so at most `cores` of the pool's slots are in a job at a moment: buffers
 * are claimed per task instead of being one per slot. */
static int buffers_of(int pool_slots) {
    int cores = pool_slots + 1 - OC_POOL_CALLERS;
    return cores < 1 ? 1 : cores;
}

uint64_t oc_gemm_scratch_bytes(int pool_slots) {
    return (uint64_t)buffers_of(pool_slots) * (SLOT_FLOATS * sizeof(float) + FLAG_BYTES);
}

static atomic_int *flag_of(const job *j, int i) {
    return (atomic_int *)(void *)(j->scratch + (int64_t)i * FLAG_BYTES);
}

static int claim(const job *j) {
    for (int i = 0;; i = (i + 1) % j->slots) {
        int free_flag = 0;
        if (atomic_compare_exchange_strong_explicit(flag_of(j, i), &free_flag, 1,
                                                    memory_order_acquire, memory_order_relaxed))
            return i;
    }
}

static oc_gemm_slot slot_of(const job *j, int i) {
    float *base = (float *)(void *)(j->scratch + (int64_t)j->slots * FLAG_BYTES);
    oc_gemm_slot s;
    s.a = base + (int64_t)i * SLOT_FLOATS;
    s.b = s.a + OC_GEMM_A_FLOATS;
    s.sums = s.b + OC_GEMM_B_FLOATS + OC_GEMM_PANEL_PAD;
    return s;
}

/* ---- fetching ahead ---- */

/* Memory that is packed or written next, fetched into L2 while the present panels multiply: packing
 * straight from memory would wait for most of its lines. Cut into runs of OC_GEMM_RUN_LINES lines,
 * along its rows or, where these are short, down its columns of lines. */
typedef struct region {
    const char *at;
    int64_t along, along_bytes; /* lines of the direction of the runs; from one to the next */
    int64_t across, across_bytes;
    int64_t i, runs; /* next line along; runs in all */
} region;

static region region_of(const void *p, oc_dtype t, int64_t rows, int64_t cols, int64_t ld) {
    int64_t e = (int64_t)oc_dtype_bytes(t);
    int64_t lines = ceil_div(cols * e + (int64_t)((uintptr_t)p & 63), 64);
    region r = {.at = p};
    bool along_rows = lines >= OC_GEMM_RUN_LINES;
    r.along = along_rows ? lines : rows;
    r.along_bytes = along_rows ? 64 : ld * e;
    r.across = along_rows ? rows : lines;
    r.across_bytes = along_rows ? ld * e : 64;
    r.runs = ceil_div(r.along, OC_GEMM_RUN_LINES) * r.across;
    return r;
}

static region region_of_strip(const oc_gemm_strip *s) {
    return s->k_contiguous ? region_of(s->src, s->dtype, s->n, s->k, s->ld)
                           : region_of(s->src, s->dtype, s->k, s->n, s->ld);
}

/* Moves the region's next runs, as far as there is room, to the list. */
static void take_runs(oc_gemm_ahead *list, region *r, int64_t runs) {
    for (; runs > 0 && r->across > 0 && list->n < OC_GEMM_RUNS_MAX; runs--) {
        list->run[list->n].line = r->at + r->i * r->along_bytes;
        list->run[list->n++].step = r->along_bytes;
        r->i += OC_GEMM_RUN_LINES;
        if (r->i < r->along) continue;
        r->i = 0;
        r->at += r->across_bytes;
        r->across--;
    }
}

/* ---- a tile ---- */

/* A K block of a tile. */
typedef struct block {
    const job *j;
    const oc_gemm_tile *t;
    const oc_gemm_slot *s;
    int64_t k0, kc;
    int64_t panel; /* floats of a packed panel of A */
    region a;      /* the next block's rows */
} block;

static oc_gemm_strip rows_of(const job *j, const oc_gemm_tile *t, int64_t k0) {
    return oc_gemm_strip_of(&j->g->a, !j->g->trans_a, t->m, t->rows, k0,
                            min_i64(OC_GEMM_KC, j->depth - k0));
}

static oc_gemm_strip columns_of(const job *j, const oc_gemm_tile *t, int64_t n, int64_t k0) {
    return oc_gemm_strip_of(&j->g->b, j->g->trans_b, t->n + n, min_i64(j->k->nr, t->cols - n), k0,
                            min_i64(OC_GEMM_KC, j->depth - k0));
}

static void pack_rows(const block *b) {
    const job *j = b->j;
    int64_t mr = j->k->mr;
    bool k_contiguous = !j->g->trans_a;
    /* When k is the slow direction, go over few k at a time, so that whole rows are read. */
    int64_t step = k_contiguous ? b->kc : 16;
    for (int64_t q = 0; q < b->kc; q += step) {
        int64_t kq = min_i64(step, b->kc - q);
        for (int64_t i = 0; i < b->t->rows; i += mr) {
            oc_gemm_strip s = oc_gemm_strip_of(&j->g->a, k_contiguous, b->t->m + i,
                                               min_i64(mr, b->t->rows - i), b->k0 + q, kq);
            j->k->pack_a(b->s->a + i / mr * b->panel + q * mr, &s);
        }
    }
}

/* Columns [n, n + nr) of the block, for all rows of the tile. */
static void multiply_columns(block *b, int64_t n) {
    const job *j = b->j;
    const oc_gemm_kernels *k = j->k;
    int64_t mr = k->mr, rows = b->t->rows, panels = ceil_div(rows, mr);
    oc_gemm_strip strip = columns_of(j, b->t, n, b->k0);
    k->pack_b(b->s->b, &strip);
    region next = {0};
    if (n + k->nr < b->t->cols) {
        oc_gemm_strip s = columns_of(j, b->t, n + k->nr, b->k0);
        next = region_of_strip(&s);
    } else if (b->k0 + b->kc < j->depth) {
        oc_gemm_strip s = columns_of(j, b->t, 0, b->k0 + b->kc);
        next = region_of_strip(&s);
    }
    int64_t b_runs = ceil_div(next.runs, panels);
    int64_t a_runs = ceil_div(b->a.runs, panels * ceil_div(b->t->cols, k->nr));
    bool only = j->depth <= OC_GEMM_KC, last = b->k0 + b->kc == j->depth;
    float *column = b->s->sums + n / k->nr * panels * (mr * k->nr);
    for (int64_t i = 0; i < rows; i += mr) {
        int64_t some = min_i64(mr, rows - i);
        float *sums = only ? b->s->sums : column + i * k->nr;
        oc_gemm_dest d = oc_gemm_dest_of(j->g, b->t->m + i, b->t->n + n);
        oc_gemm_ahead ahead;
        ahead.n = 0;
        if (last) {
            region c = region_of(d.c, d.dtype, some, strip.n, d.ld);
            take_runs(&ahead, &c, c.runs);
        }
        take_runs(&ahead, &next, b_runs);
        take_runs(&ahead, &b->a, a_runs);
        k->multiply((int)some, b->kc, b->s->a + i / mr * b->panel, b->s->b, sums, b->k0 > 0,
                    &ahead);
        if (last) k->finish(&d, sums, some, strip.n);
    }
}

static void compute_tile(const job *j, const oc_gemm_tile *t, const oc_gemm_tile *following,
                         const oc_gemm_slot *s) {
    block b = {.j = j, .t = t, .s = s};
    do { /* at least once: an empty sum has an epilogue, too */
        b.kc = min_i64(OC_GEMM_KC, j->depth - b.k0);
        b.panel = b.kc * j->k->mr + OC_GEMM_PANEL_PAD;
        pack_rows(&b);
        b.a = (region){0};
        if (b.k0 + b.kc < j->depth) {
            oc_gemm_strip next = rows_of(j, t, b.k0 + b.kc);
            b.a = region_of_strip(&next);
        } else if (following) {
            oc_gemm_strip next = rows_of(j, following, 0);
            b.a = region_of_strip(&next);
        }
        for (int64_t n = 0; n < t->cols; n += j->k->nr)
            multiply_columns(&b, n);
        b.k0 += b.kc;
    } while (b.k0 < j->depth);
}

static oc_gemm_tile tile_of(const job *j, int64_t task) {
    int64_t m = task % j->row_tiles * j->tile_rows, n = task / j->row_tiles * j->tile_cols;
    oc_gemm_tile t = {m, n, min_i64(j->tile_rows, j->m - m), min_i64(j->tile_cols, j->n - n)};
    return t;
}

static void run_task(void *arg, int64_t task, int worker) {
    (void)worker;
    const job *j = arg;
    oc_gemm_tile t = tile_of(j, task);
    int i = claim(j);
    oc_gemm_slot s = slot_of(j, i);
    if (j->k->tile) {
        j->k->tile(j->g, &s, &t);
    } else {
        /* A guess at this thread's next task; a wrong one costs a little time only. */
        bool more = task + j->slots < j->tasks;
        oc_gemm_tile following = tile_of(j, more ? task + j->slots : task);
        compute_tile(j, &t, more ? &following : NULL, &s);
    }
    atomic_store_explicit(flag_of(j, i), 0, memory_order_release);
}

/* ---- the grid ---- */

/* Tile shapes change no bit, so they may follow the number of cores: the fewest rounds of tasks, at
 * the least packing. */
static void choose_tiles(job *j, int cores) {
    int64_t mr = j->k->mr, nr = j->k->nr;
    int64_t best = INT64_MAX;
    int64_t rows_least = ceil_div(j->m, TILE_ROWS_MAX / mr * mr);
    int64_t cols_least = ceil_div(j->n, TILE_COLS_MAX / nr * nr);
    for (int64_t r = rows_least; r < rows_least + 4; r++) {
        int64_t rows = ceil_div(ceil_div(j->m, r), mr) * mr;
        for (int64_t c = cols_least; c < cols_least + 2 * cores; c++) {
            int64_t cols = ceil_div(ceil_div(j->n, c), nr) * nr;
            int64_t tasks = ceil_div(j->m, rows) * ceil_div(j->n, cols);
            int64_t cost = ceil_div(tasks, cores) *
                           (min_i64(rows, j->m) * cols + PACK_COST * (min_i64(rows, j->m) + cols));
            if (cost >= best) continue;
            best = cost;
            j->tile_rows = rows;
            j->tile_cols = cols;
        }
    }
}

/* ---- few rows ---- */

bool oc_gemm_takes_pairs(const oc_gemm_kernels *k) { return k->few_pairs && k->pairs_here(); }
int oc_gemm_few_columns(const oc_gemm_kernels *k) { return k->few ? k->nr : 0; }
int oc_gemm_few_width(const oc_gemm_kernels *k, int rows) { return k->few_width(rows); }
void oc_gemm_few_run(const oc_gemm_kernels *k, const oc_gemm_few *x) {
    if (x->pairs)
        k->few_pairs(x);
    else
        k->few(x);
}

/* Rows m0 .. m0 + rows - 1 of A in groups of `width`, packed for all to use where slot 0 has its
 * partial sums. */
typedef struct few_job {
    job j;
    int64_t m0, rows, width, groups, blocks, strips, per_task;
    bool pairs;
    float *panels;
} few_job;

/* The last group is as narrow as its rows allow. */
static int group_width(const few_job *f, int64_t i) {
    return f->j.k->few_width((int)min_i64(f->width, f->rows - i * f->width));
}

/* Of one group and K block. */
static int64_t few_panel_floats(const few_job *f) {
    return f->width * OC_GEMM_KC / (f->pairs ? 2 : 1) + OC_GEMM_PANEL_PAD;
}

static float *few_panel(const few_job *f, int64_t group, int64_t k_block) {
    return f->panels + (k_block * f->groups + group) * few_panel_floats(f);
}

/* Words of two elements are packed as floats are, where they all are whole. */
static void pack_pairs(const few_job *f, float *dst, int width, const oc_gemm_strip *s) {
    oc_gemm_strip words = {s->src, OC_F32, s->ld / 2, s->n, s->k / 2, true};
    if (s->ld % 2 == 0 && s->k % 8 == 0) {
        f->j.k->few_pack(dst, width, &words);
        return;
    }
    for (int64_t k = 0; k < s->k; k += 2, dst += width)
        for (int64_t i = 0; i < width; i++) {
            uint16_t word[2] = {0, 0};
            const uint16_t *from = (const uint16_t *)s->src + i * s->ld + k;
            if (i < s->n) memcpy(word, from, k + 1 < s->k ? sizeof word : sizeof *word);
            memcpy(dst + i, word, sizeof word);
        }
}

static void few_pack_task(void *arg, int64_t k_block, int worker) {
    const few_job *f = arg;
    int64_t k0 = k_block * OC_GEMM_KC, kc = min_i64(OC_GEMM_KC, f->j.depth - k0);
    (void)worker;
    for (int64_t i = 0; i < f->groups; i++) {
        int64_t m = i * f->width, rows = min_i64(f->width, f->rows - m);
        oc_gemm_strip s = oc_gemm_strip_of(&f->j.g->a, true, f->m0 + m, rows, k0, kc);
        if (f->pairs)
            pack_pairs(f, few_panel(f, i, k_block), group_width(f, i), &s);
        else
            f->j.k->few_pack(few_panel(f, i, k_block), group_width(f, i), &s);
    }
}

/* K blocks [first, end) of a strip, for every group: alone, a group takes all blocks in one go.
 * Rows of B past the last one are that one again: nobody looks at what they give. */
static void few_blocks(const few_job *f, int64_t n, int64_t cols, int64_t first, int64_t end,
                       const oc_gemm_slot *s) {
    const oc_mat *b = &f->j.g->b;
    int64_t k0 = first * OC_GEMM_KC, e = (int64_t)oc_dtype_bytes(b->dtype), nr = f->j.k->nr;
    const char *row[FEW_COLUMNS_MAX];
    oc_gemm_few x = {.row = row, .dtype = b->dtype, .turned = s->b};
    for (int64_t i = 0; i < nr; i++)
        row[i] = oc_gemm_at(b->data, b->dtype, (n + min_i64(i, cols - 1)) * b->ld + k0);
    x.k = min_i64(end * OC_GEMM_KC, f->j.depth) - k0;
    x.pairs = f->pairs;
    x.a_block = f->groups * few_panel_floats(f);
    x.row_end = (f->j.depth - k0) * e;
    x.jump = (nr * b->ld - f->j.depth) * e;
    x.keep = f->groups > 1;
    x.add = first > 0;
    x.sums_ld = nr;
    for (int64_t i = 0; i < f->groups; i++) {
        x.rows = group_width(f, i);
        x.a = few_panel(f, i, first);
        x.sums = s->a + i * f->width * nr;
        x.kept = i > 0;
        oc_gemm_few_run(f->j.k, &x);
    }
}

static void few_strip(const few_job *f, int64_t n, const oc_gemm_slot *s) {
    int64_t nr = f->j.k->nr, cols = min_i64(nr, f->j.n - n);
    int64_t some = f->groups > 1 ? 1 : f->blocks;
    for (int64_t first = 0; first < f->blocks; first += some)
        few_blocks(f, n, cols, first, first + some, s);
    for (int64_t m = 0; m < f->rows; m += f->width) {
        oc_gemm_dest d = oc_gemm_dest_of(f->j.g, f->m0 + m, n);
        f->j.k->finish(&d, s->a + m * nr, min_i64(f->width, f->rows - m), cols);
    }
}

static void few_task(void *arg, int64_t task, int worker) {
    const few_job *f = arg;
    int64_t n = task * f->per_task * f->j.k->nr;
    int64_t end = min_i64(n + f->per_task * f->j.k->nr, f->j.n);
    int i = claim(&f->j);
    oc_gemm_slot s = slot_of(&f->j, i);
    (void)worker;
    for (; n < end; n += f->j.k->nr)
        few_strip(f, n, &s);
    atomic_store_explicit(flag_of(&f->j, i), 0, memory_order_release);
}

static void few_rows(few_job *f, int64_t rows) {
    f->rows = rows;
    f->groups = ceil_div(rows, f->j.k->mr);
    f->width = f->j.k->few_width((int)ceil_div(rows, f->groups));
    f->groups = ceil_div(rows, f->width);
}

/* How many rows have room. */
static int64_t few_rows_most(const few_job *f) {
    few_job one = *f;
    one.width = f->j.k->mr;
    int64_t panels = OC_GEMM_SUM_FLOATS / (f->blocks * few_panel_floats(&one));
    return min_i64(panels, OC_GEMM_A_FLOATS / (one.width * f->j.k->nr)) * one.width;
}

/* False: this product is not for these kernels. With pairs that depends on no number of rows. */
static bool few_plan(few_job *f, const job *j) {
    const oc_gemm *g = j->g;
    *f = (few_job){.j = *j};
    if (!j->k->few || g->kernel == OC_GEMM_TILED || g->trans_a || !g->trans_b) return false;
    f->pairs = g->a.dtype == OC_BF16 && g->b.dtype == OC_BF16 && oc_gemm_takes_pairs(j->k);
    if (g->kernel == OC_GEMM_AUTO && !f->pairs && j->m > j->k->few_most) return false;
    f->blocks = ceil_div(j->depth, OC_GEMM_KC);
    f->strips = ceil_div(j->n, j->k->nr);
    f->per_task = f->strips >= 16 * j->slots ? 4 : 1; /* each asks ahead for the next */
    f->panels = slot_of(j, 0).sums;
    return j->depth > 0 && few_rows_most(f) > 0;
}

static void for_tasks(oc_pool *pool, int64_t n, oc_pool_fn *fn, void *arg) {
    if (pool)
        oc_pool_for(pool, n, fn, arg);
    else
        for (int64_t i = 0; i < n; i++)
            fn(arg, i, 0);
}

static void few_run(few_job *f, oc_pool *pool) {
    int64_t most = few_rows_most(f);
    for (; f->m0 < f->j.m; f->m0 += most) {
        few_rows(f, min_i64(most, f->j.m - f->m0));
        bool alone = f->rows * f->j.depth <= FEW_PACKED_ALONE;
        for_tasks(alone ? NULL : pool, f->blocks, few_pack_task, f);
        for_tasks(pool, ceil_div(f->strips, f->per_task), few_task, f);
    }
}

void oc_gemm_run(const oc_gemm_kernels *k, oc_pool *pool, void *scratch, const oc_gemm *g) {
    job j = {.k = k, .g = g, .m = g->c.rows, .n = g->c.cols, .scratch = scratch};
    few_job f;
    j.depth = g->trans_a ? g->a.rows : g->a.cols;
    if (j.m <= 0 || j.n <= 0) return;
    j.slots = pool ? buffers_of(oc_pool_slots(pool)) : 1;
    for (int i = 0; i < j.slots; i++)
        atomic_init(flag_of(&j, i), 0);
    if (few_plan(&f, &j)) {
        few_run(&f, pool);
        return;
    }
    if (k->tile) {
        j.tile_rows = k->tile_rows;
        j.tile_cols = k->tile_cols;
    } else {
        choose_tiles(&j, j.slots);
    }
    j.row_tiles = ceil_div(j.m, j.tile_rows);
    j.tasks = j.row_tiles * ceil_div(j.n, j.tile_cols);
    for_tasks(pool, j.tasks, run_task, &j);
}
