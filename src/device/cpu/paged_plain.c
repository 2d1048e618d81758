/* paged_plain.c - attention over pages for any machine; see paged.inc. */
#define KERNELS oc_paged_plain
#define KERNELS_NAME "plain"
#include "device/cpu/paged.inc"
