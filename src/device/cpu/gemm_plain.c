/* Plain C kernels: what every machine can run, and the packers for widths and edges that the vector
 * files do not treat. */
#include "device/cpu/gemm_kernels.h"

#include <string.h>

enum { MR = 4, NR = 8 };

void oc_gemm_pack_plain(float *dst, int width, const oc_gemm_strip *s) {
    int64_t line = s->k_contiguous ? s->ld : 1, step = s->k_contiguous ? 1 : s->ld;
    for (int64_t k = 0; k < s->k; k++, dst += width) {
        for (int64_t i = 0; i < s->n; i++)
            dst[i] = oc_gemm_get(s->src, s->dtype, i * line + k * step);
        for (int64_t i = s->n; i < width; i++)
            dst[i] = 0;
    }
}

void oc_gemm_finish_plain(const oc_gemm_dest *d, const float *sums, int64_t sums_ld, int64_t rows,
                          int64_t cols) {
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t n = 0; n < cols; n++) {
            int64_t at = i * d->ld + n;
            float v = sums[i * sums_ld + n];
            if (d->bias) v += oc_gemm_get(d->bias, d->bias_dtype, n);
            if (d->residual) v += oc_gemm_get(d->residual, d->dtype, at);
            if (d->accumulate) v += oc_gemm_get(d->c, d->dtype, at);
            oc_gemm_put(d->c, d->dtype, at, v);
        }
    }
}

static void pack_a(float *dst, const oc_gemm_strip *s) { oc_gemm_pack_plain(dst, MR, s); }
static void pack_b(float *dst, const oc_gemm_strip *s) { oc_gemm_pack_plain(dst, NR, s); }

static void multiply(int rows, int64_t k, const float *a, const float *b, float *sums, bool add,
                     oc_gemm_ahead *ahead) {
    float acc[MR][NR] = {{0}};
    (void)rows, (void)ahead;
    for (int64_t q = 0; q < k; q++, a += MR, b += NR)
        for (int i = 0; i < MR; i++)
            for (int n = 0; n < NR; n++)
                acc[i][n] += a[i] * b[n];
    for (int i = 0; i < MR; i++)
        for (int n = 0; n < NR; n++)
            sums[i * NR + n] = add ? sums[i * NR + n] + acc[i][n] : acc[i][n];
}

static void finish(const oc_gemm_dest *d, const float *sums, int64_t rows, int64_t cols) {
    oc_gemm_finish_plain(d, sums, NR, rows, cols);
}

static bool runs_here(void) { return true; }

const oc_gemm_kernels oc_gemm_plain = {.name = "plain 4x8",
                                       .runs_here = runs_here,
                                       .mr = MR,
                                       .nr = NR,
                                       .pack_a = pack_a,
                                       .pack_b = pack_b,
                                       .multiply = multiply,
                                       .finish = finish};
