/* rope_plain.c - the rotary embedding for any machine; see rope.inc. */
#define KERNELS oc_rope_plain
#define KERNELS_NAME "plain"
#include "device/cpu/rope.inc"
