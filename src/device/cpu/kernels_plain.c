#define OC_KERNELS oc_kernels_plain
#define OC_KERNELS_NAME "plain"
#include "device/cpu/kernels.inc"
