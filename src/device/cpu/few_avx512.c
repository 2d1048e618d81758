/* few_avx512.c - products of few rows for AVX-512 F, BW, DQ and VL; see few.inc. */
#define KERNELS oc_few_avx512
#define KERNELS_NAME "avx512"
#include "device/cpu/few.inc"
