/* attention_avx2.c - the attention kernels for AVX2 with FMA and F16C; see attention.inc. */
#define KERNELS oc_attention_avx2
#define KERNELS_NAME "avx2"
#include "device/cpu/attention.inc"
