/* The library's fp32 kernels in our loop: one sequential dnnl_sgemm per tile of a fixed grid. The
 * library's own threading changes a row's bits with M and with the number of threads; a fixed grid
 * whose last tiles are padded with zeros does not. 16-bit inputs are widened into staging buffers.
 *
 * dnnl_sgemm allocates on every call, which is the library's own (foreign) memory. Its OpenMP
 * runtime synchronises in ways ThreadSanitizer cannot see: such builds do not run these kernels. */
#include "device/cpu/gemm_kernels.h"

#include <dlfcn.h>
#include <dnnl.h>
#include <math.h>
#include <string.h>

enum {
    ROWS = 256,
    COLS = 256,
    DEPTH = 512, /* terms of K of one call: fixes the bits, with ROWS and COLS */
};
_Static_assert(ROWS *DEPTH <= OC_GEMM_A_FLOATS, "staged A");
_Static_assert(COLS *DEPTH + ROWS * COLS <= OC_GEMM_SUM_FLOATS, "staged B and sums");

#if defined(__SANITIZE_THREAD__)
#define SANITIZED_THREADS 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SANITIZED_THREADS 1
#endif
#endif

/* The number of OpenMP threads is per calling thread; the library offers no call of its own, and
 * its runtime is linked by it, not by us. */
static bool keep_to_one_thread(void) {
    void (*set)(int) = NULL;
    void *symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    if (!symbol) return false;
    memcpy(&set, &symbol, sizeof set); /* ISO C has no cast from void * to a function */
    set(1);
    return true;
}

static bool runs_here(void) {
#ifdef SANITIZED_THREADS
    return false;
#else
    return dnnl_version()->cpu_runtime == DNNL_RUNTIME_SEQ || keep_to_one_thread();
#endif
}

typedef struct operand {
    const float *data;
    int64_t ld;
    char trans;
} operand;

/* op(x) [line, + lines) x [k0, + k), as the library may read it: staged as [full][k], lines past
 * the end zero; or a whole fp32 B itself. A is always staged: the library's order of additions
 * follows the layout it is given, and a row must not notice whether its tile is the last. */
static operand operand_of(const oc_mat *x, bool lines_are_rows, int64_t line, int64_t lines,
                          int64_t full, int64_t k0, int64_t k, bool is_a, float *stage) {
    oc_gemm_strip s = oc_gemm_strip_of(x, lines_are_rows, line, lines, k0, k);
    if (!is_a && s.dtype == OC_F32 && lines == full) {
        operand direct = {s.src, s.ld, lines_are_rows ? 'T' : 'N'};
        return direct;
    }
    operand staged = {stage, k, is_a ? 'N' : 'T'};
    int64_t line_step = s.k_contiguous ? s.ld : 1, k_step = s.k_contiguous ? 1 : s.ld;
    for (int64_t i = 0; i < full; i++) {
        if (i >= lines)
            memset(stage + i * k, 0, (size_t)k * sizeof(float));
        else if (s.k_contiguous)
            oc_convert(stage + i * k, OC_F32, oc_gemm_at(s.src, s.dtype, i * line_step), s.dtype,
                       (size_t)k);
        else
            for (int64_t q = 0; q < k; q++)
                stage[i * k + q] = oc_gemm_get(s.src, s.dtype, i * line_step + q * k_step);
    }
    return staged;
}

static void tile(const oc_gemm *g, const oc_gemm_slot *s, const oc_gemm_tile *t) {
    float *b_stage = s->sums, *sums = s->sums + COLS * DEPTH;
    int64_t depth = g->trans_a ? g->a.rows : g->a.cols;
    dnnl_status_t status = dnnl_success;
    if (dnnl_version()->cpu_runtime == DNNL_RUNTIME_OMP) keep_to_one_thread();
    if (depth == 0) memset(sums, 0, ROWS * COLS * sizeof(float));
    for (int64_t k0 = 0; k0 < depth && status == dnnl_success; k0 += DEPTH) {
        int64_t k = depth - k0 < DEPTH ? depth - k0 : DEPTH;
        operand a = operand_of(&g->a, !g->trans_a, t->m, t->rows, ROWS, k0, k, true, s->a);
        operand b = operand_of(&g->b, g->trans_b, t->n, t->cols, COLS, k0, k, false, b_stage);
        status = dnnl_sgemm(a.trans, b.trans, ROWS, COLS, k, 1.0f, a.data, a.ld, b.data, b.ld,
                            k0 > 0 ? 1.0f : 0.0f, sums, COLS);
    }
    /* The library was refused memory: there is no result, and that must not pass for one. */
    if (status != dnnl_success)
        for (int64_t i = 0; i < (int64_t)ROWS * COLS; i++)
            sums[i] = NAN;
    oc_gemm_dest d = oc_gemm_dest_of(g, t->m, t->n);
    oc_gemm_finish_plain(&d, sums, COLS, t->rows, t->cols);
}

const oc_gemm_kernels oc_gemm_onednn = {.name = "onednn sgemm tiles",
                                        .runs_here = runs_here,
                                        .tile = tile,
                                        .tile_rows = ROWS,
                                        .tile_cols = COLS};
