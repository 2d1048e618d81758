/* paged_avx512.c - attention over pages for AVX-512 F, BW, DQ and VL; see paged.inc. */
#define KERNELS oc_paged_avx512
#define KERNELS_NAME "avx512"
#include "device/cpu/paged.inc"
