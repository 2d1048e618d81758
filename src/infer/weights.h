/* weights.h - the numbers of softmax: the largest logit, exponentials, their sums, a logarithm.
 *
 * Everything is IEEE arithmetic in an order of our own, without the C library's functions, whose
 * last bit is another one on another processor: the same bits everywhere. For this room. */
#ifndef OC_INFER_WEIGHTS_H
#define OC_INFER_WEIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OC_WEIGHTS_BLOCK = 256 };
static inline size_t oc_draw_weights_blocks(size_t n) {
    return (n + OC_WEIGHTS_BLOCK - 1) / OC_WEIGHTS_BLOCK;
}

/* Of n > 0; false: one of them is NaN. */
bool oc_draw_weights_largest(const float *y, size_t n, float *out);
/* The first index of y whose value is v; n: none. */
size_t oc_draw_weights_find(const float *y, size_t n, float v);
/* e[i] = exp(y[i] - largest), of y[i] <= largest; relative error below 1e-14; below e^-700 it is 0.
 */
void oc_draw_weights_fill(const float *y, size_t n, float largest, double *e);
/* sums[b]: of the b-th OC_WEIGHTS_BLOCK of e. Returns the sum of all. */
double oc_draw_weights_sum(const double *e, size_t n, double *sums);
/* The natural logarithm of a normal x > 0; absolute error below 1e-14 times (1 + |result|). */
double oc_draw_weights_log(double x);

/* The k-th largest of y, 1 <= k <= n; none is NaN. scratch: as oc_draw_weights_sort() wants it. */
float oc_draw_weights_kth(const float *y, size_t n, size_t k, uint64_t *scratch);
/* Ascending by value, equal ones in the order given. pairs: [2 n], of which the first n are filled
 * by oc_draw_weights_pair(); returns where the sorted ones are: in one half of it. */
uint64_t *oc_draw_weights_sort(uint64_t *pairs, size_t n);
uint64_t oc_draw_weights_pair(float value, uint32_t index);
static inline uint32_t oc_draw_weights_index(uint64_t pair) { return (uint32_t)pair; }

#endif
