/* bench_paged - attention over pages: one token a sequence, in GB/s of the keys and values it
 * reads, beside a plain read of the same bytes; and many tokens of one sequence, in GF/s of the
 * products it needs, beside attention over the same tokens in one piece.
 *
 * usage: bench_paged [cores [rounds [bf16|fp32]]]. What is compared takes turns. Medians. */
#include "base/pool.h"
#include "bench_read.h"
#include "bench_util.h"
#include "device/device.h"

#include <stdio.h>
#include <string.h>

enum { PAGE = 32, ROUNDS_MOST = 51 };

typedef struct setting {
    int32_t rows, context, tokens, heads, kv_heads, head_dim;
} setting;

static const setting decode[] = {
    {1, 4096, 1, 32, 4, 64},   {1, 32768, 1, 32, 8, 128}, {16, 1024, 1, 32, 4, 64},
    {16, 2048, 1, 32, 8, 128}, {8, 2048, 1, 16, 16, 64},  {4, 8192, 1, 8, 1, 256},
};
static const setting prefill[] = {{1, 0, 1024, 32, 4, 64},
                                  {1, 0, 1024, 8, 8, 64},
                                  {1, 0, 2048, 8, 2, 128},
                                  {1, 0, 512, 4, 4, 256}};

typedef struct bench {
    oc_pool *pool;
    oc_device *device;
    oc_dtype t;
    int rounds;
} bench;

typedef struct buffers {
    oc_paged_row *row;
    int32_t *pages, *starts;
    void *kv, *qkv, *out, *work, *whole_work;
    float *lse;
    uint64_t kv_bytes;
} buffers;

static void make(const bench *b, buffers *x, const setting *s, oc_paged_attention *a,
                 oc_attention *whole) {
    int64_t keys = s->context + s->tokens, per_row = (keys + PAGE - 1) / PAGE;
    int64_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim, ld = q + 2 * kv;
    int64_t tokens = (int64_t)s->rows * s->tokens, e = (int64_t)oc_dtype_bytes(b->t);
    x->row = calloc((size_t)s->rows, sizeof *x->row);
    x->pages = calloc((size_t)(s->rows * per_row), sizeof *x->pages);
    x->starts = calloc((size_t)tokens, sizeof *x->starts);
    x->lse = calloc((size_t)(tokens * s->heads), sizeof *x->lse);
    for (int32_t i = 0; i < s->rows; i++)
        x->row[i] = (oc_paged_row){i * s->tokens, s->tokens, s->context, 0};
    int64_t all = s->rows * per_row;
    for (int64_t i = 0; i < all; i++) /* in no order */
        x->pages[i] = (int32_t)(i * 7919 % all);
    x->kv_bytes = (uint64_t)(s->rows * keys * 2 * kv * e);
    x->kv = bench_filled(all * PAGE * 2 * kv, b->t);
    x->qkv = bench_filled(tokens * ld, b->t);
    x->out = bench_filled(tokens * q, b->t);
    char *in = x->qkv;
    *a = (oc_paged_attention){.dtype = b->t, .heads = s->heads, .kv_heads = s->kv_heads};
    a->head_dim = s->head_dim;
    a->scale = 0.1f;
    a->tokens = tokens;
    a->rows = s->rows;
    a->row = x->row;
    a->pages = x->pages;
    a->pages_ld = per_row;
    a->page_tokens = PAGE;
    a->keys = (int32_t)keys;
    a->kv = x->kv;
    a->q = in;
    a->k = in + q * e;
    a->v = in + (q + kv) * e;
    a->q_ld = a->k_ld = a->v_ld = ld;
    a->out = x->out;
    a->out_ld = q;
    const oc_device_ops *ops = b->device->ops;
    x->work = aligned_alloc(64, oc_align_up(ops->attention_paged_work_bytes(b->device, a), 64));
    a->work = x->work;
    *whole = (oc_attention){.dtype = b->t, .batch = s->rows, .seq = s->tokens, .heads = s->heads};
    whole->kv_heads = s->kv_heads;
    whole->head_dim = s->head_dim;
    whole->scale = 0.1f;
    whole->doc_start = x->starts;
    whole->q = a->q;
    whole->k = a->k;
    whole->v = a->v;
    whole->q_ld = whole->k_ld = whole->v_ld = ld;
    whole->out = x->out;
    whole->out_ld = q;
    whole->lse = x->lse;
    x->whole_work = aligned_alloc(64, oc_align_up(ops->attention_work_bytes(b->device, whole), 64));
    whole->work = x->whole_work;
}

static void release(buffers *x) {
    free(x->row);
    free(x->pages);
    free(x->starts);
    free(x->lse);
    free(x->kv);
    free(x->qkv);
    free(x->out);
    free(x->work);
    free(x->whole_work);
}

/* Of buffers of one token a sequence, as many times as make a time that can be told. */
static void one_token(const bench *b, const setting *s) {
    buffers x;
    oc_paged_attention a;
    oc_attention whole;
    make(b, &x, s, &a, &whole);
    double read[ROUNDS_MOST], paged[ROUNDS_MOST];
    for (int r = 0; r < b->rounds; r++) {
        double t = bench_now();
        bench_read(b->pool, x.kv, x.kv_bytes);
        read[r] = bench_now() - t;
        t = bench_now();
        b->device->ops->attention_paged(b->device, &a);
        paged[r] = bench_now() - t;
    }
    double m = bench_median(read, b->rounds), p = bench_median(paged, b->rounds);
    printf("%3d x %5d keys  heads %2d/%2d  dim %3d  %7.1f MB  read %5.1f GB/s  attention %5.1f  "
           "of the read %.2f\n",
           s->rows, s->context + 1, s->heads, s->kv_heads, s->head_dim, (double)x.kv_bytes / 1e6,
           (double)x.kv_bytes / m / 1e9, (double)x.kv_bytes / p / 1e9, m / p);
    release(&x);
}

static void many_tokens(const bench *b, const setting *s) {
    buffers x;
    oc_paged_attention a;
    oc_attention whole;
    make(b, &x, s, &a, &whole);
    double paged[ROUNDS_MOST], one[ROUNDS_MOST];
    for (int r = 0; r < b->rounds; r++) {
        double t = bench_now();
        b->device->ops->attention_paged(b->device, &a);
        paged[r] = bench_now() - t;
        t = bench_now();
        b->device->ops->attention_forward(b->device, &whole);
        one[r] = bench_now() - t;
    }
    double n = s->tokens, ops = 4 * n * (n + 1) / 2 * s->heads * s->head_dim;
    double p = bench_median(paged, b->rounds), w = bench_median(one, b->rounds);
    printf("%5d tokens  heads %2d/%2d  dim %3d  pages %6.1f GF/s  in one piece %6.1f  ratio %.2f\n",
           s->tokens, s->heads, s->kv_heads, s->head_dim, ops / p / 1e9, ops / w / 1e9, w / p);
    release(&x);
}

int main(int argc, char **argv) {
    int cores = argc > 1 ? atoi(argv[1]) : 2;
    bench b = {.t = argc > 3 && strcmp(argv[3], "fp32") == 0 ? OC_F32 : OC_BF16};
    oc_error err;
    b.rounds = argc > 2 ? atoi(argv[2]) : 11;
    if (b.rounds < 1 || b.rounds > ROUNDS_MOST || oc_pool_open(&b.pool, cores, &err) != OC_OK ||
        oc_device_open_cpu(&b.device, b.pool, OC_ISA_BEST, &err) != OC_OK)
        return 1;
    printf("%s, %d cores\n", oc_dtype_name(b.t), cores);
    for (size_t i = 0; i < sizeof decode / sizeof *decode; i++)
        one_token(&b, &decode[i]);
    for (size_t i = 0; i < sizeof prefill / sizeof *prefill; i++)
        many_tokens(&b, &prefill[i]);
    oc_device_close(b.device);
    oc_pool_close(b.pool);
    return 0;
}
