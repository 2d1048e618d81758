/* attention_plain.c - the attention kernels for any machine; see attention.inc. */
#define KERNELS oc_attention_plain
#define KERNELS_NAME "plain"
#include "device/cpu/attention.inc"
