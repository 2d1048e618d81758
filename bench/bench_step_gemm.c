/* bench_step_gemm - the matrix products of one training step of a llama, and nothing else.
 *
 * usage: bench_step_gemm threads dtype tokens hidden q kv mlp layers vocab recompute rounds
 *
 * The products every implementation has to do, with our kernels and as we join them (q, k and v are
 * one, gate and up are one): forward (twice in the layers with recompute = 1), dX and dW. Prints
 * the median seconds of a step. Set against a whole step it tells what the rest costs. */
#include "bench_util.h"

#include "base/checked.h"
#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS_MAX = 99 };

typedef struct linear {
    int64_t out, in;
    int count, forwards;
} linear;

/* Seconds of one layer's share: forward, dX, dW. */
static double products(oc_device *d, const linear *l, int64_t tokens, oc_dtype t, void *x, void *w,
                       void *y) {
    oc_gemm forward = {.a = oc_mat_of(x, t, tokens, l->in, l->in),
                       .b = oc_mat_of(w, t, l->out, l->in, l->in),
                       .c = oc_mat_of(y, t, tokens, l->out, l->out),
                       .trans_b = true};
    oc_gemm dx = {.a = forward.c, .b = forward.b, .c = forward.a};
    oc_gemm dw = {.a = forward.c, .b = forward.a, .c = forward.b, .trans_a = true};
    double start = bench_now();
    for (int i = 0; i < l->forwards; i++)
        d->ops->gemm(d, &forward);
    d->ops->gemm(d, &dx);
    d->ops->gemm(d, &dw);
    return bench_now() - start;
}

static double step(oc_device *d, const linear *l, int n, int64_t tokens, oc_dtype t, int rounds) {
    double total = 0, seconds[ROUNDS_MAX];
    for (int i = 0; i < n; i++) {
        void *x = bench_filled(tokens * l[i].in, t), *w = bench_filled(l[i].out * l[i].in, t);
        void *y = bench_filled(tokens * l[i].out, t);
        for (int r = -1; r < rounds; r++) { /* round -1 warms up */
            double s = products(d, &l[i], tokens, t, x, w, y);
            if (r >= 0) seconds[r] = s;
        }
        total += bench_median(seconds, rounds) * l[i].count;
        free(x);
        free(w);
        free(y);
    }
    return total;
}

static int fail(const oc_error *err) {
    fprintf(stderr, "%s\n", err->message);
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 12) {
        fprintf(stderr, "usage: bench_step_gemm threads dtype tokens hidden q kv mlp layers vocab "
                        "recompute rounds\n");
        return 2;
    }
    int n[12];
    for (int i = 1; i < 12; i++)
        n[i] = atoi(argv[i]);
    int64_t tokens = n[3], hidden = n[4], q = n[5], kv = n[6], mlp = n[7];
    int layers = n[8], again = 1 + (n[10] != 0), rounds = n[11];
    oc_dtype t = strcmp(argv[2], "bf16") == 0 ? OC_BF16 : OC_F32;
    if (rounds < 1 || rounds > ROUNDS_MAX) return 2;
    const linear linears[] = {{q + 2 * kv, hidden, layers, again},
                              {hidden, q, layers, again},
                              {2 * mlp, hidden, layers, again},
                              {hidden, mlp, layers, again},
                              {n[9], hidden, 1, 1}};
    oc_error err;
    oc_pool *pool;
    oc_device *d;
    if (oc_pool_open(&pool, n[1], &err) != OC_OK) return fail(&err);
    if (oc_device_open_cpu(&d, pool, OC_ISA_BEST, &err) != OC_OK) return fail(&err);
    uint64_t bytes = oc_align_up(d->ops->scratch_bytes(d), 64);
    void *scratch = aligned_alloc(64, bytes);
    if (!scratch) return 1;
    d->ops->lend_scratch(d, scratch);
    printf("seconds %.4f\n", step(d, linears, 5, tokens, t, rounds));
    oc_device_close(d);
    oc_pool_close(pool);
    free(scratch);
    return 0;
}
