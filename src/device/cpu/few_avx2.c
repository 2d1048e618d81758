/* few_avx2.c - products of few rows for AVX2 with FMA and F16C; see few.inc. */
#define KERNELS oc_few_avx2
#define KERNELS_NAME "avx2"
#include "device/cpu/few.inc"
