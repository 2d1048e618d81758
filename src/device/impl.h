/* impl.h - what every back end's impl starts with. Only back ends and device.c include it. */
#ifndef OC_DEVICE_IMPL_H
#define OC_DEVICE_IMPL_H

#include "device/device.h"

#include <stdatomic.h>

typedef struct oc_device_impl {
    void (*close)(oc_device *d); /* frees impl and d */
    const char *kernels;         /* lives as long as the device */
    atomic_int failed;           /* the first oc_status that is not OC_OK */
} oc_device_impl;

/* Keeps the first failure; any lane may call it. */
void oc_device_set_failed(oc_device *d, oc_status s);
/* open_memory of back ends whose memory is the host's. */
oc_status oc_device_open_host_memory(oc_device *d, oc_memory **out, const oc_arena_spec *spec,
                                     oc_error *err);

/* The entries of a table whose functions are named alike, behind a prefix. */
#define OC_DEVICE_ENTRIES(P)                                                                       \
    .scratch_bytes = P##scratch_bytes, .lend_scratch = P##lend_scratch, .gemm = P##gemm,           \
    .attention_work_bytes = P##attention_work_bytes, .attention_forward = P##attention_forward,    \
    .attention_backward = P##attention_backward,                                                   \
    .attention_paged_work_bytes = P##attention_paged_work_bytes,                                   \
    .attention_paged = P##attention_paged, .pages_append = P##pages_append, .rope = P##rope,       \
    .norm_forward = P##norm_forward, .norm_backward = P##norm_backward,                            \
    .act_forward = P##act_forward, .act_backward = P##act_backward, .bias_grad = P##bias_grad,     \
    .scale_add = P##scale_add, .ce_init = P##ce_init, .ce_update = P##ce_update,                   \
    .ce_loss = P##ce_loss, .ce_scores = P##ce_scores, .ce_grad = P##ce_grad,                       \
    .soft_cap = P##soft_cap, .rows_gather = P##rows_gather, .rows_scatter = P##rows_scatter,       \
    .fold = P##fold, .update = P##update, .copy = P##copy, .fill = P##fill, .zero = P##zero

#endif
