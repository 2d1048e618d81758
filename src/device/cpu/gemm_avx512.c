/* gemm_avx512.c - see gemm_avx512.inc. */
#define KERNELS oc_gemm_avx512
#include "device/cpu/gemm_avx512.inc"
