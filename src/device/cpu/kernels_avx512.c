#define OC_KERNELS oc_kernels_avx512
#define OC_KERNELS_NAME "avx512"
#include "device/cpu/kernels.inc"
