/* attention_avx512.c - the attention kernels for AVX-512 F, BW, DQ and VL; see attention.inc. */
#define KERNELS oc_attention_avx512
#define KERNELS_NAME "avx512"
#include "device/cpu/attention.inc"
