/* bench_few - products of few rows beside a plain read of the same bytes: GB/s of the weights read,
 * and for many rows GF/s.
 *
 * usage: bench_few [cores [rounds [bf16|fp32]]]. Each round reads, then multiplies by 1, 2, 4, ..
 * rows of input, over matrices of a layer of a 1.1B model, which together are larger than any
 * cache. Medians. */
#include "base/pool.h"
#include "bench_read.h"
#include "bench_util.h"
#include "device/device.h"

#include <stdio.h>
#include <string.h>

enum { SHAPES = 4, COUNTS = 9, ROUNDS_MOST = 51, COPIES = 8 };

static const struct {
    int64_t n, k;
} shapes[SHAPES] = {{2560, 2048}, {2048, 2048}, {11264, 2048}, {2048, 5632}};
static const int64_t counts[COUNTS] = {1, 2, 4, 8, 16, 32, 64, 128, 512};

typedef struct weights {
    oc_dtype t;
    void *w[COPIES][SHAPES];
    void *x, *y;
    uint64_t bytes;
} weights;

static void make(weights *s, oc_dtype t) {
    s->t = t;
    for (int c = 0; c < COPIES; c++)
        for (int i = 0; i < SHAPES; i++) {
            s->w[c][i] = bench_filled(shapes[i].n * shapes[i].k, t);
            s->bytes += (uint64_t)(shapes[i].n * shapes[i].k) * oc_dtype_bytes(t);
        }
    s->x = bench_filled(512 * 11264, t);
    s->y = bench_filled(512 * 11264, t);
}

static double time_read(const weights *s, oc_pool *pool) {
    double t = bench_now();
    for (int c = 0; c < COPIES; c++)
        for (int i = 0; i < SHAPES; i++)
            bench_read(pool, s->w[c][i],
                       (uint64_t)(shapes[i].n * shapes[i].k) * oc_dtype_bytes(s->t));
    return bench_now() - t;
}

static double time_products(const weights *s, oc_device *d, int64_t rows, oc_gemm_kernel kernel) {
    double t = bench_now();
    for (int c = 0; c < COPIES; c++)
        for (int i = 0; i < SHAPES; i++) {
            int64_t n = shapes[i].n, k = shapes[i].k;
            oc_gemm g = {.trans_b = true, .kernel = kernel};
            g.a = oc_mat_of(s->x, s->t, rows, k, k);
            g.b = oc_mat_of(s->w[c][i], s->t, n, k, k);
            g.c = oc_mat_of(s->y, s->t, rows, n, n);
            d->ops->gemm(d, &g);
        }
    return bench_now() - t;
}

static void measure(const weights *s, oc_device *d, oc_pool *pool, int rounds) {
    static double read[COUNTS][ROUNDS_MOST], few[COUNTS][ROUNDS_MOST], tiled[COUNTS][ROUNDS_MOST];
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < COUNTS; i++) {
            read[i][r] = time_read(s, pool);
            few[i][r] = time_products(s, d, counts[i], OC_GEMM_FEW);
            tiled[i][r] = time_products(s, d, counts[i], OC_GEMM_TILED);
        }
    printf("%s, %d cores, %.0f MB of weights\nrows  read GB/s  few GB/s  of the read  GF/s  "
           "tiled/few time\n",
           oc_dtype_name(s->t), oc_pool_cores(pool), (double)s->bytes / 1e6);
    for (int i = 0; i < COUNTS; i++) {
        double a = bench_median(read[i], rounds), b = bench_median(few[i], rounds);
        double c = bench_median(tiled[i], rounds), bytes = (double)s->bytes;
        double flops = 2 * bytes / (double)oc_dtype_bytes(s->t) * (double)counts[i];
        printf("%4lld  %9.1f  %8.1f  %11.2f  %4.0f  %14.2f\n", (long long)counts[i],
               bytes / a / 1e9, bytes / b / 1e9, a / b, flops / b / 1e9, c / b);
    }
}

int main(int argc, char **argv) {
    int cores = argc > 1 ? atoi(argv[1]) : 2, rounds = argc > 2 ? atoi(argv[2]) : 11;
    oc_error err;
    oc_pool *pool;
    oc_device *d;
    weights s = {0};
    if (rounds < 1 || rounds > ROUNDS_MOST || oc_pool_open(&pool, cores, &err) != OC_OK ||
        oc_device_open_cpu(&d, pool, OC_ISA_BEST, &err) != OC_OK)
        return 1;
    void *scratch = aligned_alloc(64, oc_align_up(d->ops->scratch_bytes(d), 64));
    d->ops->lend_scratch(d, scratch);
    make(&s, argc > 3 && strcmp(argv[3], "fp32") == 0 ? OC_F32 : OC_BF16);
    measure(&s, d, pool, rounds);
    oc_device_close(d);
    oc_pool_close(pool);
    return 0;
}
