/* rope_avx512.c - the rotary embedding for AVX-512 F, BW, DQ and VL; see rope.inc. */
#define KERNELS oc_rope_avx512
#define KERNELS_NAME "avx512"
#include "device/cpu/rope.inc"
