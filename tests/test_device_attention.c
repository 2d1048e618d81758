/* Attention's kernels of every instruction set against a naive one in double, PyTorch and finite
 * differences; and that nothing but a token's own keys decides its bits. */
#include "cmocka_all.h"

#include "base/pool.h"
#include "data/attention_expected.h"
#include "device/cpu/attention.h"

#include <math.h>
#include <string.h>
#include <time.h>

typedef struct shape {
    int64_t batch, seq;
    int32_t heads, kv_heads, head_dim;
    int64_t window;
    int documents; /* 0: one; else the average length */
    float soft_cap;
    bool alibi;
} shape;

static const shape SHAPES[] = {
    {1, 1, 1, 1, 1, 0, 0, 0, false},         {1, 7, 2, 1, 1, 0, 0, 0, false},
    {2, 37, 4, 2, 20, 0, 0, 0, false},       {2, 37, 4, 2, 20, 9, 8, 0, false},
    {1, 47, 1, 1, 16, 0, 0, 0, false},       {1, 48, 2, 2, 17, 0, 5, 0, false},
    {1, 49, 3, 1, 64, 0, 0, 0, false},       {1, 95, 2, 2, 64, 0, 30, 0, false},
    {2, 96, 2, 1, 80, 40, 0, 0, false},      {1, 97, 4, 2, 128, 0, 0, 0, false},
    {1, 193, 6, 2, 33, 0, 40, 0, false},     {1, 250, 2, 2, 64, 1, 0, 0, false},
    {1, 289, 2, 1, 8, 100, 150, 0, false},   {1, 300, 8, 1, 48, 0, 100, 0, false},
    {2, 131, 2, 2, 256, 0, 50, 0, false},    {1, 1, 1, 1, 1, 0, 0, 2, true},
    {2, 37, 4, 2, 20, 0, 0, 1.5f, false},    {1, 49, 3, 1, 21, 0, 0, 0, true},
    {2, 97, 4, 2, 33, 40, 0, 0, true},       {1, 250, 8, 2, 13, 0, 60, 0, true},
    {1, 193, 6, 2, 16, 50, 70, 0.5f, false}, {1, 289, 4, 2, 40, 100, 150, 3, true},
    {2, 131, 2, 1, 255, 0, 50, 1, true},
};
enum { SHAPE_COUNT = sizeof SHAPES / sizeof *SHAPES };

static const oc_attention_kernels *const *kernels(int *count) {
    static const oc_attention_kernels *list[3];
    int n = 0;
    list[n++] = &oc_attention_plain;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        list[n++] = &oc_attention_avx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        list[n++] = &oc_attention_avx512;
#endif
    *count = n;
    return list;
}

/* ---- a problem and its memory -------------------------------------------------------------- */

/* q, k and v are columns of one buffer, with GAP unused columns after each; out has a gap too. */
enum { GAP = 3, POISON = 0x7b };
enum { ARRAYS = 4 }; /* qkv, out, dout, dqkv */

typedef struct problem {
    oc_attention a;
    unsigned char *array[ARRAYS];
    size_t bytes[ARRAYS];
    float *lse, *slopes;
    int32_t *starts;
    oc_pool *pool;
} problem;

static void put(void *p, oc_dtype t, int64_t i, double x) {
    if (t == OC_F32)
        ((float *)p)[i] = (float)x;
    else
        ((uint16_t *)p)[i] = t == OC_BF16 ? oc_f32_to_bf16((float)x) : oc_f32_to_f16((float)x);
}

static double get(const void *p, oc_dtype t, int64_t i) {
    if (t == OC_F32) return (double)((const float *)p)[i];
    uint16_t h = ((const uint16_t *)p)[i];
    return (double)(t == OC_BF16 ? oc_bf16_to_f32(h) : oc_f16_to_f32(h));
}

static double noise(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) / 4503599627370496.0 - 1.0;
}

/* Documents of random lengths; sequences differ. */
static void make_starts(problem *p, int average, uint64_t seed) {
    for (int64_t t = 0; t < p->a.batch * p->a.seq; t++) {
        bool fresh = t % p->a.seq == 0;
        if (average > 0 && fabs(noise(&seed)) * average < 1.0) fresh = true;
        p->starts[t] = fresh ? (int32_t)(t % p->a.seq) : p->starts[t - 1];
    }
}

static void problem_init(problem *p, const shape *s, oc_dtype t, int cores) {
    int64_t rows = s->batch * s->seq, d = s->head_dim;
    int64_t columns = (s->heads + 2 * s->kv_heads) * d + 3 * GAP, out = s->heads * d + GAP;
    uint64_t seed = 7;
    memset(p, 0, sizeof *p);
    for (int i = 0; i < ARRAYS; i++) {
        int64_t n = rows * (i == 0 || i == 3 ? columns : out);
        p->bytes[i] = (size_t)n * oc_dtype_bytes(t);
        p->array[i] = malloc(p->bytes[i]);
        assert_non_null(p->array[i]);
        memset(p->array[i], POISON, p->bytes[i]);
        if (i == 0 || i == 2)
            for (int64_t j = 0; j < n; j++)
                put(p->array[i], t, j, 2.0 * noise(&seed));
    }
    p->lse = calloc((size_t)(rows * s->heads), sizeof *p->lse);
    p->starts = calloc((size_t)rows, sizeof *p->starts);
    p->slopes = calloc((size_t)s->heads, sizeof *p->slopes);
    for (int32_t h = 0; h < s->heads; h++)
        p->slopes[h] = (float)pow(2.0, -8.0 * (h + 1) / s->heads);
    assert_int_equal(oc_pool_open(&p->pool, cores, NULL), OC_OK);
    size_t k = (size_t)(s->heads * d + GAP) * oc_dtype_bytes(t);
    size_t v = k + (size_t)(s->kv_heads * d + GAP) * oc_dtype_bytes(t);
    p->a = (oc_attention){.dtype = t,
                          .batch = s->batch,
                          .seq = s->seq,
                          .heads = s->heads,
                          .kv_heads = s->kv_heads,
                          .head_dim = s->head_dim,
                          .scale = 1.0f / sqrtf((float)d),
                          .soft_cap = s->soft_cap,
                          .slopes = s->alibi ? p->slopes : NULL,
                          .window = s->window,
                          .doc_start = p->starts,
                          .q = p->array[0],
                          .k = p->array[0] + k,
                          .v = p->array[0] + v,
                          .q_ld = columns,
                          .k_ld = columns,
                          .v_ld = columns,
                          .out = p->array[1],
                          .out_ld = out,
                          .lse = p->lse,
                          .dout = p->array[2],
                          .dq = p->array[3],
                          .dk = p->array[3] + k,
                          .dv = p->array[3] + v};
    make_starts(p, s->documents, 11);
}

static void problem_release(problem *p) {
    for (int i = 0; i < ARRAYS; i++)
        free(p->array[i]);
    free(p->lse);
    free(p->slopes);
    free(p->starts);
    oc_pool_close(p->pool);
}

/* Forward and backward. The work buffer has the size asked for, full of NaN, and a guard. */
static void run(problem *p, const oc_attention_kernels *k, oc_attention_passes passes) {
    uint64_t bytes = oc_attention_work_bytes_for(&p->a, oc_pool_slots(p->pool), passes);
    unsigned char *work = aligned_alloc(64, (size_t)(bytes + 64) / 64 * 64 + 64);
    assert_non_null(work);
    memset(work, 0xff, (size_t)bytes + 64);
    p->a.work = work;
    oc_attention_forward_run(k, p->pool, &p->a);
    memset(work, 0xff, (size_t)bytes);
    oc_attention_backward_run_for(k, p->pool, &p->a, passes);
    for (int i = 0; i < 64; i++)
        assert_int_equal(work[bytes + (uint64_t)i], 0xff);
    free(work);
}

/* ---- the naive reference ------------------------------------------------------------------- */

typedef struct value { /* a sum, and the sum of its terms' magnitudes: what errors scale with */
    double sum, size;
} value;

typedef struct reference {
    value *out, *dq, *dk, *dv; /* [T][heads][dim], k and v with kv_heads */
    double *lse, *lse_size;    /* [T][heads] */
} reference;

static void add(value *v, double x, double size) {
    v->sum += x;
    v->size += fabs(size);
}

static int64_t first_key(const oc_attention *a, int64_t b, int64_t t) {
    int64_t first = a->doc_start[b * a->seq + t];
    return a->window > 0 && t - a->window + 1 > first ? t - a->window + 1 : first;
}

/* What the scores of a row are, how large their terms, and their slopes by scale q.k. */
typedef struct row_scores {
    double *p, *size, *slope; /* [seq] */
} row_scores;

static void reference_score(const row_scores *s, const oc_attention *a, int64_t b, int64_t t,
                            int64_t h, int64_t j) {
    int64_t d = a->head_dim, kv = h / (a->heads / a->kv_heads), row = b * a->seq + t;
    double sum = 0, size = 0;
    for (int64_t i = 0; i < d; i++) {
        double x = get(a->q, a->dtype, row * a->q_ld + h * d + i) *
                   get(a->k, a->dtype, (b * a->seq + j) * a->k_ld + kv * d + i);
        sum += (double)a->scale * x;
        size += fabs((double)a->scale * x);
    }
    s->slope[j] = 1;
    if (a->soft_cap > 0) { /* the cap only makes errors smaller, but for one more rounding */
        double cap = (double)a->soft_cap, y = cap * tanh(sum / cap);
        s->slope[j] = 1 - y * y / (cap * cap);
        sum = y;
    }
    double far = a->slopes ? (double)a->slopes[h] * (double)(j - t) : 0;
    s->p[j] = sum + far;
    s->size[j] = size + fabs(far);
}

/* Row t of sequence b, head h. The backward starts from the stored output, as the kernels do. */
static void reference_row(reference *r, const oc_attention *a, int64_t b, int64_t t, int64_t h,
                          const row_scores *s) {
    int64_t d = a->head_dim, kv = h / (a->heads / a->kv_heads), row = b * a->seq + t;
    int64_t first = first_key(a, b, t);
    double max = -INFINITY, sum = 0, largest = 0, *p = s->p, *size = s->size;
    for (int64_t j = first; j <= t; j++) {
        reference_score(s, a, b, t, h, j);
        max = fmax(max, p[j]);
        largest = fmax(largest, size[j]);
    }
    for (int64_t j = first; j <= t; j++)
        sum += exp(p[j] - max);
    r->lse[row * a->heads + h] = max + log(sum);
    r->lse_size[row * a->heads + h] = 1.0 + largest;
    double delta = 0, delta_size = 0;
    for (int64_t i = 0; i < d; i++) {
        double x = get(a->out, a->dtype, row * a->out_ld + h * d + i) *
                   get(a->dout, a->dtype, row * a->out_ld + h * d + i);
        delta += x;
        delta_size += fabs(x);
    }
    for (int64_t j = first; j <= t; j++) {
        int64_t other = b * a->seq + j, at = (row * a->heads + h) * d;
        int64_t kv_at = (other * a->kv_heads + kv) * d;
        double pj = exp(p[j] - max) / sum, dp = 0, dp_size = 0, blur = 1.0 + size[j] + largest;
        for (int64_t i = 0; i < d; i++) {
            double v = get(a->v, a->dtype, other * a->v_ld + kv * d + i);
            double dout = get(a->dout, a->dtype, row * a->out_ld + h * d + i);
            add(&r->out[at + i], pj * v, pj * v * blur);
            add(&r->dv[kv_at + i], pj * dout, pj * dout * blur);
            dp += v * dout;
            dp_size += fabs(v * dout);
        }
        double ds = pj * (dp - delta) * s->slope[j] * (double)a->scale;
        double ds_size = pj * (dp_size + delta_size) * blur * (double)a->scale;
        for (int64_t i = 0; i < d; i++) {
            double k = get(a->k, a->dtype, other * a->k_ld + kv * d + i);
            double q = get(a->q, a->dtype, row * a->q_ld + h * d + i);
            add(&r->dq[at + i], ds * k, ds_size * k);
            add(&r->dk[kv_at + i], ds * q, ds_size * q);
        }
    }
}

static void reference_init(reference *r, const oc_attention *a) {
    size_t rows = (size_t)(a->batch * a->seq), d = (size_t)a->head_dim;
    r->out = calloc(rows * (size_t)a->heads * d, sizeof *r->out);
    r->dq = calloc(rows * (size_t)a->heads * d, sizeof *r->dq);
    r->dk = calloc(rows * (size_t)a->kv_heads * d, sizeof *r->dk);
    r->dv = calloc(rows * (size_t)a->kv_heads * d, sizeof *r->dv);
    r->lse = calloc(rows * (size_t)a->heads, sizeof *r->lse);
    r->lse_size = calloc(rows * (size_t)a->heads, sizeof *r->lse_size);
    size_t seq = (size_t)a->seq;
    double *scratch = calloc(3 * seq, sizeof *scratch);
    row_scores s = {scratch, scratch + seq, scratch + 2 * seq};
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t h = 0; h < a->heads; h++)
            for (int64_t t = 0; t < a->seq; t++)
                reference_row(r, a, b, t, h, &s);
    free(scratch);
}

static void reference_release(reference *r) {
    free(r->out);
    free(r->dq);
    free(r->dk);
    free(r->dv);
    free(r->lse);
    free(r->lse_size);
}

/* ---- comparing ----------------------------------------------------------------------------- */

static double eps(oc_dtype t) {
    return t == OC_F32 ? 0x1p-24 : t == OC_BF16 ? 0x1p-8 : 0x1p-11; /* half an ulp */
}

/* What fp32 sums of `terms` terms may lose, in units of the sum of magnitudes: rounding errors add
 * up like a random walk. */
static double blur(double terms) { return 0x1p-24 * (4.0 + 2.0 * sqrt(terms)); }

static bool compare(const char *what, const oc_attention *a, const void *got, int64_t ld,
                    int64_t heads, const value *want, double terms) {
    for (int64_t row = 0; row < a->batch * a->seq; row++) {
        for (int64_t i = 0; i < heads * a->head_dim; i++) {
            const value *w = &want[row * heads * a->head_dim + i];
            double g = get(got, a->dtype, row * ld + i);
            /* fp16: below its normal range, absolute */
            double bound = eps(a->dtype) * fabs(w->sum) + blur(terms) * w->size + 0x1p-25;
            if (fabs(g - w->sum) <= bound) continue;
            print_error("%s[%lld][%lld] = %.9g, want %.9g +- %.2g\n", what, (long long)row,
                        (long long)i, g, w->sum, bound);
            return false;
        }
    }
    return true;
}

static bool matches(const problem *p, const reference *r) {
    const oc_attention *a = &p->a;
    double terms = (double)(a->seq * (a->heads / a->kv_heads) + 2 * a->head_dim);
    bool ok = compare("out", a, a->out, a->out_ld, a->heads, r->out, terms) &&
              compare("dq", a, a->dq, a->q_ld, a->heads, r->dq, terms) &&
              compare("dk", a, a->dk, a->k_ld, a->kv_heads, r->dk, terms) &&
              compare("dv", a, a->dv, a->v_ld, a->kv_heads, r->dv, terms);
    for (int64_t i = 0; ok && i < a->batch * a->seq * a->heads; i++) {
        double off = fabs((double)p->lse[i] - r->lse[i]);
        ok = off <= blur((double)a->head_dim) * r->lse_size[i] + 0x1p-22 * (1.0 + fabs(r->lse[i]));
        if (!ok)
            print_error("lse[%lld] = %.9g, want %.9g\n", (long long)i, (double)p->lse[i],
                        r->lse[i]);
    }
    return ok;
}

/* Every byte between the views still has its poison. */
static bool gaps_untouched(const problem *p) {
    const oc_attention *a = &p->a;
    size_t size = oc_dtype_bytes(a->dtype), d = (size_t)a->head_dim;
    size_t q = (size_t)a->heads * d, kv = (size_t)a->kv_heads * d, ld = (size_t)a->q_ld;
    for (size_t row = 0; row < (size_t)(a->batch * a->seq); row++) {
        const unsigned char *out = p->array[1] + row * (size_t)a->out_ld * size;
        const unsigned char *grad = p->array[3] + row * ld * size;
        for (size_t i = 0; i < GAP * size; i++) {
            if (out[q * size + i] != POISON || grad[q * size + i] != POISON) return false;
            if (grad[(q + GAP + kv) * size + i] != POISON) return false;
            if (grad[(q + 2 * GAP + 2 * kv) * size + i] != POISON) return false;
        }
    }
    return true;
}

static bool same_bits(const problem *x, const problem *y) {
    size_t lse = (size_t)(x->a.batch * x->a.seq * x->a.heads) * sizeof *x->lse;
    return memcmp(x->array[1], y->array[1], x->bytes[1]) == 0 &&
           memcmp(x->array[3], y->array[3], x->bytes[3]) == 0 && memcmp(x->lse, y->lse, lse) == 0;
}

/* ---- tests --------------------------------------------------------------------------------- */

static void test_every_shape_dtype_and_instruction_set_matches_the_naive_one(void **state) {
    (void)state;
    int count;
    const oc_attention_kernels *const *k = kernels(&count);
    for (int s = 0; s < SHAPE_COUNT; s++) {
        for (int t = 0; t < OC_DTYPE_COUNT; t++) {
            problem p;
            reference r;
            problem_init(&p, &SHAPES[s], (oc_dtype)t, 1);
            for (int i = 0; i < count; i++) {
                run(&p, k[i], OC_ATTENTION_AUTO);
                /* from this kernel's own output; only the 16-bit roundings of it differ */
                reference_init(&r, &p.a);
                if (!matches(&p, &r))
                    fail_msg("shape %d, %s, %s", s, oc_dtype_name((oc_dtype)t), k[i]->name);
                if (!gaps_untouched(&p)) fail_msg("shape %d, %s wrote outside", s, k[i]->name);
                reference_release(&r);
            }
            problem_release(&p);
        }
    }
}

static void test_bits_depend_neither_on_threads_nor_on_the_number_of_passes(void **state) {
    (void)state;
    int count;
    const oc_attention_kernels *const *k = kernels(&count);
    for (int s = 0; s < SHAPE_COUNT; s++) {
        for (int i = 0; i < count; i++) {
            problem x, y;
            problem_init(&x, &SHAPES[s], s % 2 ? OC_F32 : OC_BF16, 1);
            run(&x, k[i], OC_ATTENTION_TWO_PASSES);
            for (int cores = 1; cores <= 3; cores++) {
                problem_init(&y, &SHAPES[s], x.a.dtype, cores);
                for (int passes = OC_ATTENTION_AUTO; passes <= OC_ATTENTION_TWO_PASSES; passes++) {
                    run(&y, k[i], (oc_attention_passes)passes);
                    if (!same_bits(&x, &y))
                        fail_msg("shape %d, %s, %d cores", s, k[i]->name, cores);
                }
                problem_release(&y);
            }
            problem_release(&x);
        }
    }
}

/* Sequence b of x alone. */
static void take_sequence(problem *y, const problem *x, const shape *s, int64_t b) {
    shape one = *s;
    one.batch = 1;
    problem_init(y, &one, x->a.dtype, 1);
    memcpy(y->array[0], x->array[0] + (size_t)b * y->bytes[0], y->bytes[0]);
    memcpy(y->array[2], x->array[2] + (size_t)b * y->bytes[2], y->bytes[2]);
    memcpy(y->starts, x->starts + b * s->seq, (size_t)s->seq * sizeof *y->starts);
}

static void test_bits_do_not_depend_on_how_a_batch_is_split(void **state) {
    (void)state;
    const shape s = {3, 131, 4, 2, 40, 0, 40, 2, true};
    int count;
    const oc_attention_kernels *const *k = kernels(&count);
    for (int i = 0; i < count; i++) {
        problem x, y;
        problem_init(&x, &s, OC_BF16, 2);
        run(&x, k[i], OC_ATTENTION_AUTO);
        for (int64_t b = 0; b < s.batch; b++) {
            take_sequence(&y, &x, &s, b);
            run(&y, k[i], OC_ATTENTION_AUTO);
            for (int j = 1; j < ARRAYS; j += 2)
                assert_memory_equal(y.array[j], x.array[j] + (size_t)b * y.bytes[j], y.bytes[j]);
            problem_release(&y);
        }
        problem_release(&x);
    }
}

/* Tokens [150, 210) are a document. Everything else changes, and the sequence gets shorter. */
static void check_surroundings(float soft_cap, bool alibi) {
    const shape s = {1, 300, 2, 1, 24, 0, 0, soft_cap, alibi};
    enum { BEGIN = 150, END = 210 };
    int count;
    const oc_attention_kernels *const *k = kernels(&count);
    for (int i = 0; i < count; i++) {
        problem x, y;
        shape shorter = s;
        shorter.seq = END + 5;
        problem_init(&x, &s, OC_F32, 1);
        problem_init(&y, &shorter, OC_F32, 1);
        for (int32_t t = 0; t < s.seq; t++)
            x.starts[t] = t < BEGIN ? 0 : t < END ? BEGIN : END;
        for (int32_t t = 0; t < shorter.seq; t++)
            y.starts[t] = t < BEGIN ? t / 10 * 10 : t < END ? BEGIN : END;
        for (int64_t j = 0; j < BEGIN * x.a.q_ld; j++)
            ((float *)(void *)y.array[0])[j] *= 0.5f;
        for (int j = 0; j < ARRAYS; j += 2) {
            size_t row = x.bytes[j] / (size_t)s.seq;
            memcpy(y.array[j] + BEGIN * row, x.array[j] + BEGIN * row, (END - BEGIN) * row);
        }
        run(&x, k[i], OC_ATTENTION_AUTO);
        run(&y, k[i], OC_ATTENTION_AUTO);
        for (int j = 1; j < ARRAYS; j += 2) {
            size_t row = x.bytes[j] / (size_t)s.seq;
            assert_memory_equal(y.array[j] + BEGIN * row, x.array[j] + BEGIN * row,
                                (END - BEGIN) * row);
        }
        problem_release(&x);
        problem_release(&y);
    }
}

static void test_bits_of_a_document_do_not_depend_on_what_surrounds_it(void **state) {
    (void)state;
    check_surroundings(0, false);
    check_surroundings(0, true);
    check_surroundings(1.5f, true);
}

/* sum of out * dout */
static double loss(const problem *p) {
    double sum = 0;
    for (int64_t row = 0; row < p->a.batch * p->a.seq; row++)
        for (int64_t i = 0; i < p->a.heads * p->a.head_dim; i++)
            sum += get(p->a.out, OC_F32, row * p->a.out_ld + i) *
                   get(p->a.dout, OC_F32, row * p->a.out_ld + i);
    return sum;
}

static void check_gradients(float soft_cap, bool alibi) {
    const shape s = {2, 11, 4, 2, 5, 6, 5, soft_cap, alibi};
    const float step = 0x1p-6f;
    int count;
    const oc_attention_kernels *const *k = kernels(&count);
    for (int i = 0; i < count; i++) {
        problem p;
        problem_init(&p, &s, OC_F32, 1);
        run(&p, k[i], OC_ATTENTION_AUTO);
        int64_t columns = p.a.q_ld, n = s.batch * s.seq * columns;
        float *grad = malloc(p.bytes[3]), *x = (float *)(void *)p.array[0];
        memcpy(grad, p.array[3], p.bytes[3]);
        for (int64_t j = 0; j < n; j++) {
            int64_t c = j % columns, q = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim;
            bool gap = (c >= q && c < q + GAP) || (c >= q + GAP + kv && c < q + 2 * GAP + kv) ||
                       c >= q + 2 * GAP + 2 * kv;
            if (gap) continue;
            float old = x[j];
            double at[2];
            for (int side = 0; side < 2; side++) {
                x[j] = side ? old + step : old - step;
                run(&p, k[i], OC_ATTENTION_AUTO);
                at[side] = loss(&p);
            }
            x[j] = old;
            double slope = (at[1] - at[0]) / (2.0 * (double)step);
            /* the third derivative times step^2 / 6, and rounding / step */
            assert_true(fabs(slope - (double)grad[j]) < 2e-3 * (1.0 + fabs(slope)));
        }
        free(grad);
        problem_release(&p);
    }
}

static void test_gradients_are_the_slopes_of_the_loss(void **state) {
    (void)state;
    check_gradients(0, false);
    check_gradients(0, true);
    check_gradients(1.25f, false);
    check_gradients(1.25f, true);
}

static double formula(int64_t i, int64_t seed) {
    return (double)(float)((double)((i * 7919 + seed * 104729) % 2001 - 1000) / 500.0);
}

static void compare_pytorch(const oc_attention *a, const char *name, const void *got, int64_t ld,
                            int64_t heads, const double *want) {
    int64_t width = heads * a->head_dim, n = a->batch * a->seq * width;
    for (int64_t i = 0; i < EXPECTED_COUNT; i++) {
        int64_t at = i * 61 % n;
        double g = get(got, OC_F32, at / width * ld + at % width);
        if (fabs(g - want[i]) > 2e-5 * (1.0 + fabs(want[i])))
            fail_msg("%s %lld: %.9g, PyTorch %.9g", name, (long long)i, g, want[i]);
    }
}

typedef struct expectation {
    bool documents; /* with a window too */
    float soft_cap;
    bool alibi;
    const double *out, *dq, *dk, *dv;
} expectation;

static void check_pytorch(const oc_attention_kernels *k, const expectation *e) {
    static const int32_t starts[] = {0, 5, 17, 30};
    shape s = {2, 37, 4, 2, 20, e->documents ? 9 : 0, 0, e->soft_cap, e->alibi};
    problem p;
    problem_init(&p, &s, OC_F32, 1);
    oc_attention *a = &p.a;
    a->scale = 0.3f;
    for (int64_t r = 0; r < s.batch * s.seq; r++) {
        float *q = (float *)(void *)p.array[0] + r * a->q_ld;
        for (int64_t i = 0; i < 80; i++)
            q[i] = (float)formula(r * 80 + i, 1);
        for (int64_t i = 0; i < 40; i++)
            q[80 + GAP + i] = (float)formula(r * 40 + i, 2);
        for (int64_t i = 0; i < 40; i++)
            q[120 + 2 * GAP + i] = (float)formula(r * 40 + i, 3);
        for (int64_t i = 0; i < 80; i++)
            put(p.array[2], OC_F32, r * a->out_ld + i, formula(r * 80 + i, 4));
        for (int j = 0; e->documents && j < 4; j++)
            if (r % s.seq >= starts[j]) p.starts[r] = starts[j];
    }
    run(&p, k, OC_ATTENTION_AUTO);
    compare_pytorch(a, "out", a->out, a->out_ld, 4, e->out);
    compare_pytorch(a, "dq", a->dq, a->q_ld, 4, e->dq);
    compare_pytorch(a, "dk", a->dk, a->k_ld, 2, e->dk);
    compare_pytorch(a, "dv", a->dv, a->v_ld, 2, e->dv);
    problem_release(&p);
}

#define EXPECTED(name)                                                                             \
    expected_##name##_out, expected_##name##_dq, expected_##name##_dk, expected_##name##_dv

static void test_values_are_those_of_pytorch(void **state) {
    (void)state;
    static const expectation expected[] = {
        {false, 0, false, EXPECTED(causal)},   {true, 0, false, EXPECTED(documents)},
        {true, 2.5f, false, EXPECTED(capped)}, {false, 0, true, EXPECTED(alibi)},
        {true, 2.5f, true, EXPECTED(both)},
    };
    int count;
    const oc_attention_kernels *const *k = kernels(&count);
    for (int i = 0; i < count; i++)
        for (size_t j = 0; j < sizeof expected / sizeof *expected; j++)
            check_pytorch(k[i], &expected[j]);
}

/* Scores in the hundreds: exp would overflow without the running maximum, and most probabilities
 * vanish. */
static void check_large_scores(float soft_cap, bool alibi) {
    const shape s = {1, 200, 2, 2, 64, 0, 0, soft_cap, alibi};
    int count;
    const oc_attention_kernels *const *k = kernels(&count);
    for (int i = 0; i < count; i++) {
        problem p;
        reference r;
        problem_init(&p, &s, OC_F32, 1);
        p.a.scale = 20.0f;
        run(&p, k[i], OC_ATTENTION_AUTO);
        reference_init(&r, &p.a);
        assert_true(matches(&p, &r));
        reference_release(&r);
        problem_release(&p);
    }
}

static void test_large_scores_stay_finite(void **state) {
    (void)state;
    check_large_scores(0, false);
    check_large_scores(0, true);
    check_large_scores(50, false);
}

static void test_work_grows_with_tokens_not_with_their_square(void **state) {
    (void)state;
    oc_attention a = {.batch = 1, .seq = 1 << 20, .heads = 32, .kv_heads = 8, .head_dim = 128};
    uint64_t long_bytes = oc_attention_work_bytes(&a, 10);
    a.seq = 1 << 10;
    assert_true(long_bytes - oc_attention_work_bytes(&a, 10) <= ((1u << 20) * 32u * 4u));
}

static double processor_seconds(const shape *s, const oc_attention_kernels *k) {
    struct timespec from, to;
    problem p;
    problem_init(&p, s, OC_F32, 1);
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    run(&p, k, OC_ATTENTION_TWO_PASSES);
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    problem_release(&p);
    return (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
}

/* As many tokens and documents in one long sequence as in 64: looking for who sees a key must end
 * where nobody does, or the square of the sequence comes in again. The least of three tries. */
static void test_short_documents_cost_what_they_hold_in_any_sequence(void **state) {
    (void)state;
    const shape one = {1, 1 << 18, 1, 1, 16, 0, 64, 0, false};
    const shape many = {64, 1 << 12, 1, 1, 16, 0, 64, 0, false};
    int count;
    const oc_attention_kernels *const *k = kernels(&count);
    double least_one = 1e9, least_many = 1e9;
    for (int i = 0; i < 3; i++) {
        least_one = fmin(least_one, processor_seconds(&one, k[count - 1]));
        least_many = fmin(least_many, processor_seconds(&many, k[count - 1]));
    }
    print_message("one sequence %.3f s, 64 sequences %.3f s\n", least_one, least_many);
    assert_true(least_one < 1.6 * least_many);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_shape_dtype_and_instruction_set_matches_the_naive_one),
        cmocka_unit_test(test_bits_depend_neither_on_threads_nor_on_the_number_of_passes),
        cmocka_unit_test(test_bits_do_not_depend_on_how_a_batch_is_split),
        cmocka_unit_test(test_bits_of_a_document_do_not_depend_on_what_surrounds_it),
        cmocka_unit_test(test_gradients_are_the_slopes_of_the_loss),
        cmocka_unit_test(test_values_are_those_of_pytorch),
        cmocka_unit_test(test_large_scores_stay_finite),
        cmocka_unit_test(test_work_grows_with_tokens_not_with_their_square),
        cmocka_unit_test(test_short_documents_cost_what_they_hold_in_any_sequence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
