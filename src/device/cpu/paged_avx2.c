/* paged_avx2.c - attention over pages for AVX2 with FMA and F16C; see paged.inc. */
#define KERNELS oc_paged_avx2
#define KERNELS_NAME "avx2"
#include "device/cpu/paged.inc"
