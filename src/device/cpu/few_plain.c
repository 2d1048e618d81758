/* few_plain.c - products of few rows for any machine; see few.inc. */
#define KERNELS oc_few_plain
#define KERNELS_NAME "plain"
#include "device/cpu/few.inc"
