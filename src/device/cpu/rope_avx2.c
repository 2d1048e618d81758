/* rope_avx2.c - the rotary embedding for AVX2 with FMA and F16C; see rope.inc. */
#define KERNELS oc_rope_avx2
#define KERNELS_NAME "avx2"
#include "device/cpu/rope.inc"
