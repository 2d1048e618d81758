/* async.c - the asynchronous device: its streams and what they share. See async.h. */
#include "device/async/async.h"

#include "device/async/inner.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void free_stream(oc_async_stream *s) {
    oc_device_close(s->inner);
    oc_pool_close(s->own_pool);
    free(s);
}

/* Handles of open_stream end with their device: their marks may be waited for until then. Streams
 * may wait for each other, so all are told to end before one is joined. */
static void async_close(oc_device *d) {
    oc_async *a = oc_async_of(d)->owner;
    assert(d == &a->first->device);
    for (oc_async_stream *s = a->newest; s; s = s->next)
        oc_async_finish(s);
    for (oc_async_stream *s = a->newest; s; s = s->next)
        oc_async_join(s);
    oc_async_disown(a);
    for (oc_async_stream *s = a->newest, *next; s; s = next) {
        next = s->next;
        free_stream(s);
    }
    free(a);
}

static void describe(oc_async_stream *s, oc_async *a) {
    s->owner = a;
    s->impl.kernels = s->kernels;
    s->impl.close = async_close;
    atomic_init(&s->impl.failed, OC_OK);
    s->device = (oc_device){&oc_async_ops, a->pool, &s->impl};
    snprintf(s->name, sizeof s->name, "oc-stream-%u", a->n_streams % 1000);
    snprintf(s->kernels, sizeof s->kernels, "async %s", oc_device_kernels(s->inner));
    if (a->delay_seed)
        s->random = (a->delay_seed * UINT64_C(0x9e3779b97f4a7c15)) ^ (a->n_streams + 1);
    if (a->scratch) s->inner->ops->lend_scratch(s->inner, a->scratch);
}

static oc_status open_inner(oc_async_stream *s, oc_pool *shared, oc_error *err) {
    if (!shared) OC_TRY(oc_pool_open(&s->own_pool, 1, err));
    return oc_device_open_cpu(&s->inner, shared ? shared : s->own_pool, OC_ISA_BEST, err);
}

static oc_status add_stream(oc_async *a, oc_async_stream **out, oc_error *err) {
    oc_async_stream *s = aligned_alloc(_Alignof(oc_async_stream), sizeof *s);
    if (!s) return oc_fail(err, OC_E_MEMORY, "no memory for a stream (%zu bytes)", sizeof *s);
    memset(s, 0, sizeof *s);
    oc_status status = open_inner(s, a->pool, err);
    if (status != OC_OK) goto free_it;
    describe(s, a);
    status = oc_async_start(s, err);
    if (status != OC_OK) goto free_it;
    s->next = a->newest;
    a->newest = s;
    a->n_streams++;
    *out = s;
    return OC_OK;
free_it:
    free_stream(s);
    return status;
}

oc_status oc_async_open_stream(oc_device *d, oc_device **out, oc_error *err) {
    *out = NULL;
    oc_async_stream *s;
    OC_TRY(add_stream(oc_async_of(d)->owner, &s, err));
    *out = &s->device;
    return OC_OK;
}

oc_status oc_device_open_async(oc_device **out, oc_pool *pool, uint32_t delay_seed, oc_error *err) {
    *out = NULL;
    oc_async *a = calloc(1, sizeof *a);
    if (!a) return oc_fail(err, OC_E_MEMORY, "no memory for the asynchronous device");
    a->pool = pool;
    a->delay_seed = delay_seed;
    oc_status s = add_stream(a, &a->first, err);
    if (s != OC_OK) {
        free(a);
        return s;
    }
    *out = &a->first->device;
    return OC_OK;
}
