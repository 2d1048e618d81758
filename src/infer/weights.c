/* The numbers of softmax, four floats or two doubles at a time. */
#include "infer/weights.h"

#include <math.h>
#include <string.h>

typedef float f4 __attribute__((vector_size(16)));
typedef int32_t i4 __attribute__((vector_size(16)));
typedef float f2 __attribute__((vector_size(8)));
typedef double d2 __attribute__((vector_size(16)));
typedef uint64_t u2 __attribute__((vector_size(16)));

static f4 load4(const float *p) {
    f4 v;
    memcpy(&v, p, sizeof v);
    return v;
}

static bool any(i4 mask) {
    u2 m = (u2)mask;
    return (m[0] | m[1]) != 0;
}

static f4 larger(f4 a, f4 b) {
    i4 m = a > b;
    return (f4)((m & (i4)a) | (~m & (i4)b));
}

bool oc_draw_weights_largest(const float *y, size_t n, float *out) {
    f4 low = {-INFINITY, -INFINITY, -INFINITY, -INFINITY}, m[4] = {low, low, low, low};
    i4 bad = {0};
    size_t i = 0;
    float most = -INFINITY;
    bool nan = false;
    for (; i + 16 <= n; i += 16)
        for (size_t k = 0; k < 4; k++) {
            f4 v = load4(y + i + 4 * k);
            m[k] = larger(v, m[k]);
            bad |= v != v;
        }
    m[0] = larger(larger(m[0], m[1]), larger(m[2], m[3]));
    for (int k = 0; k < 4; k++)
        most = m[0][k] > most ? m[0][k] : most;
    for (; i < n; i++) {
        most = y[i] > most ? y[i] : most;
        nan |= y[i] != y[i];
    }
    *out = most;
    return !nan && !any(bad);
}

size_t oc_draw_weights_find(const float *y, size_t n, float v) {
    const f4 w = {v, v, v, v};
    size_t i = 0;
    while (i + 16 <= n && !any((load4(y + i) == w) | (load4(y + i + 4) == w) |
                               (load4(y + i + 8) == w) | (load4(y + i + 12) == w)))
        i += 16;
    while (i < n && y[i] != v)
        i++;
    return i;
}

/* --- Exponentials and sums */

/* exp(x), x <= 0: 2^k exp(r), |r| <= ln 2 / 2, by 12 terms of the series. Adding 1.5 * 2^52 rounds
 * to an integer, which then stands in the low bits. */
static d2 exp2lanes(d2 x) {
    const double magic = 0x1.8p52;
    d2 t = x * 0x1.71547652b82fep0 + magic, k = t - magic;
    d2 r = x - k * 0x1.62e42fee00000p-1 - k * 0x1.a39ef35793c76p-33;
    d2 s = r * r, q = s * s;
    d2 low = (1.0 + r) + s * (1.0 / 2 + r * (1.0 / 6));
    d2 mid = (1.0 / 24 + r * (1.0 / 120)) + s * (1.0 / 720 + r * (1.0 / 5040));
    d2 high = (1.0 / 40320 + r * (1.0 / 362880)) + s * (1.0 / 3628800 + r * (1.0 / 39916800));
    d2 p = low + q * (mid + q * high);
    u2 bits = (u2)p + ((u2)t << 52);
    return (d2)(bits & (u2)(x >= -700.0));
}

static void fill8(const float *y, double largest, double *e) {
    for (int k = 0; k < 8; k += 2) {
        f2 v;
        memcpy(&v, y + k, sizeof v);
        d2 w = exp2lanes(__builtin_convertvector(v, d2) - largest);
        memcpy(e + k, &w, sizeof w);
    }
}

void oc_draw_weights_fill(const float *y, size_t n, float largest, double *e) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        fill8(y + i, largest, e + i);
    if (i == n) return;
    float rest[8] = {0};
    double out[8];
    memcpy(rest, y + i, (n - i) * sizeof *y);
    fill8(rest, largest, out);
    memcpy(e + i, out, (n - i) * sizeof *e);
}

static double block_sum(const double *e, size_t n) {
    d2 a[4] = {0};
    size_t i = 0;
    double rest = 0;
    for (; i + 8 <= n; i += 8)
        for (size_t k = 0; k < 4; k++) {
            d2 v;
            memcpy(&v, e + i + 2 * k, sizeof v);
            a[k] += v;
        }
    for (; i < n; i++)
        rest += e[i];
    a[0] = (a[0] + a[1]) + (a[2] + a[3]);
    return (a[0][0] + a[0][1]) + rest;
}

double oc_draw_weights_sum(const double *e, size_t n, double *sums) {
    double all = 0;
    for (size_t b = 0, i = 0; i < n; b++, i += OC_WEIGHTS_BLOCK) {
        size_t left = n - i;
        sums[b] = block_sum(e + i, left < OC_WEIGHTS_BLOCK ? left : OC_WEIGHTS_BLOCK);
        all += sums[b];
    }
    return all;
}

/* x = 2^k m, m in [0.7, 1.42); log m = 2 artanh((m - 1) / (m + 1)). */
double oc_draw_weights_log(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int64_t k = (int64_t)(bits >> 52) - 1023;
    bits = (bits & 0xfffffffffffffu) | (uint64_t)1023 << 52;
    double m, sum = 0;
    memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) m /= 2, k++;
    double s = (m - 1) / (m + 1), q = s * s;
    for (int i = 21; i > 0; i -= 2)
        sum = sum * q + 1.0 / i;
    return (double)k * 0x1.62e42fefa39efp-1 + 2 * s * sum;
}

/* --- Order */

/* Unsigned integers in the order of the floats; both zeros are one. */
static uint32_t key_of(float v) {
    uint32_t u;
    v += 0.0f;
    memcpy(&u, &v, sizeof u);
    return u >> 31 ? ~u : u | 0x80000000u;
}

uint64_t oc_draw_weights_pair(float value, uint32_t index) {
    return (uint64_t)key_of(value) << 32 | index;
}

uint64_t *oc_draw_weights_sort(uint64_t *pairs, size_t n) {
    enum { DIGITS = 11, SIZE = 1 << DIGITS };
    uint64_t *from = pairs, *to = pairs + n;
    for (int shift = 32; shift < 64; shift += DIGITS) {
        size_t at[SIZE] = {0}, sum = 0;
        for (size_t i = 0; i < n; i++)
            at[from[i] >> shift & (SIZE - 1)]++;
        for (size_t k = 0; k < SIZE; k++) {
            size_t count = at[k];
            at[k] = sum;
            sum += count;
        }
        for (size_t i = 0; i < n; i++)
            to[at[from[i] >> shift & (SIZE - 1)]++] = from[i];
        uint64_t *was = from;
        from = to;
        to = was;
    }
    return from;
}

/* heap[0] is the least; v takes its place. */
static void replace_least(float *heap, size_t n, float v) {
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= v) break;
        heap[i] = heap[child];
    }
    heap[i] = v;
}

/* The largest k so far in a heap; few values get past its least. */
static float kth_of_few(const float *y, size_t n, size_t k, float *heap) {
    size_t i = 0;
    heap[0] = -INFINITY;
    for (size_t j = 1; j < k; j++)
        heap[j] = -INFINITY;
    while (i < n) {
        const f4 least = {heap[0], heap[0], heap[0], heap[0]};
        while (i + 16 <= n && !any((load4(y + i) > least) | (load4(y + i + 4) > least) |
                                   (load4(y + i + 8) > least) | (load4(y + i + 12) > least)))
            i += 16;
        size_t end = n - i < 16 ? n : i + 16;
        for (; i < end; i++)
            if (y[i] > heap[0]) replace_least(heap, k, y[i]);
    }
    return heap[0];
}

float oc_draw_weights_kth(const float *y, size_t n, size_t k, uint64_t *scratch) {
    float heap[1024];
    if (k <= sizeof heap / sizeof *heap) return kth_of_few(y, n, k, heap);
    for (size_t i = 0; i < n; i++)
        scratch[i] = oc_draw_weights_pair(y[i], (uint32_t)i);
    return y[oc_draw_weights_index(oc_draw_weights_sort(scratch, n)[n - k])];
}
