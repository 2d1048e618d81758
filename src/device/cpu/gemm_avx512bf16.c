/* gemm_avx512bf16.c - the kernels of gemm_avx512.c, and pairs of bf16 for few rows. */
#define KERNELS oc_gemm_avx512bf16
#include "device/cpu/gemm_avx512.inc"
