#include "device/device.h"

#include "device/impl.h"

void oc_device_set_failed(oc_device *d, oc_status s) {
    oc_device_impl *impl = d->impl;
    int none = OC_OK;
    atomic_compare_exchange_strong(&impl->failed, &none, (int)s);
}

oc_status oc_device_open_host_memory(oc_device *d, oc_memory **out, const oc_arena_spec *spec,
                                     oc_error *err) {
    (void)d;
    return oc_memory_open_host(out, spec, err);
}

void oc_device_close(oc_device *d) {
    if (!d) return;
    oc_device_impl *impl = d->impl;
    impl->close(d);
}

oc_status oc_device_status(const oc_device *d) {
    oc_device_impl *impl = d->impl;
    return (oc_status)atomic_load(&impl->failed);
}

const char *oc_device_kernels(const oc_device *d) {
    const oc_device_impl *impl = d->impl;
    return impl->kernels;
}
