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

#endif
