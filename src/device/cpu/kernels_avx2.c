#define OC_KERNELS oc_kernels_avx2
#define OC_KERNELS_NAME "avx2"
#include "device/cpu/kernels.inc"
