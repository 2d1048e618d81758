/* few_avx512bf16.c - products of few rows for AVX-512 with BF16 pairs; see few.inc. */
#define KERNELS oc_few_avx512bf16
#define KERNELS_NAME "avx512 bf16"
#include "device/cpu/few.inc"
