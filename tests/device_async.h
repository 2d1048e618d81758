/* device_async.h - an asynchronous device with some memory, for the tests of its promises. */
#ifndef OC_TEST_DEVICE_ASYNC_H
#define OC_TEST_DEVICE_ASYNC_H

#include "cmocka_all.h"

#include "base/clock.h"
#include "device/async/async.h"

#include <stdlib.h>
#include <string.h>

/* By the thread sanitizer, which also reports those that a test makes on purpose. */
#if defined(__SANITIZE_THREAD__)
#define RACES_ARE_WATCHED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RACES_ARE_WATCHED 1
#endif
#endif
#ifndef RACES_ARE_WATCHED
#define RACES_ARE_WATCHED 0
#endif

typedef struct async_rig {
    oc_pool *pool;
    oc_device *device;
    oc_memory *memory;
    void *scratch;
} async_rig;

/* cores 0: no pool. */
static inline async_rig async_open(int cores, uint32_t delay_seed, uint64_t bytes) {
    async_rig r = {0};
    oc_error err = {0};
    oc_arena_spec spec = {OC_TIER_DEVICE, bytes, false, false};
    if ((cores && oc_pool_open(&r.pool, cores, &err) != OC_OK) ||
        oc_device_open_async(&r.device, r.pool, delay_seed, &err) != OC_OK ||
        r.device->ops->open_memory(r.device, &r.memory, &spec, &err) != OC_OK)
        fail_msg("%s", err.message);
    r.scratch = aligned_alloc(64, (r.device->ops->scratch_bytes(r.device) + 63) / 64 * 64);
    assert_non_null(r.scratch);
    r.device->ops->lend_scratch(r.device, r.scratch);
    return r;
}

/* The device first: it finishes what is in flight. */
static inline void async_close(async_rig *r) {
    oc_device_close(r->device);
    oc_memory_close(r->memory);
    oc_pool_close(r->pool);
    free(r->scratch);
}

static inline oc_device *async_stream(async_rig *r) {
    oc_device *d;
    oc_error err = {0};
    if (r->device->ops->open_stream(r->device, &d, &err) != OC_OK) fail_msg("%s", err.message);
    return d;
}

/* The address of a byte of the memory. */
static inline void *async_at(const async_rig *r, uint64_t at) {
    return (unsigned char *)r->memory->base + at;
}

static inline uint8_t async_byte(async_rig *r, uint64_t at) {
    uint8_t byte;
    assert_int_equal(r->memory->ops->download(r->memory, &byte, at, 1, NULL), OC_OK);
    return byte;
}

static inline oc_queue *async_queue(oc_device *d) { return d->ops->queue(d); }
static inline oc_status async_mark(oc_device *d, uint64_t n) {
    return async_queue(d)->ops->mark(async_queue(d), n);
}
static inline oc_status async_wait(oc_device *d, oc_device *other, uint64_t n) {
    return async_queue(d)->ops->wait_mark(async_queue(d), async_queue(other), n);
}
static inline oc_status async_hold(oc_device *d, uint64_t since, uint64_t ns) {
    return async_queue(d)->ops->hold(async_queue(d), since, ns);
}
/* Returns when the mark was reached; *status as await gave it. */
static inline uint64_t async_await(oc_device *d, uint64_t n, oc_status *status) {
    uint64_t ns = 0;
    *status = async_queue(d)->ops->await(async_queue(d), n, &ns);
    return ns;
}
/* The same, of work that does not fail. */
static inline uint64_t async_reached(oc_device *d, uint64_t n) {
    oc_status status;
    uint64_t ns = async_await(d, n, &status);
    assert_int_equal(status, OC_OK);
    return ns;
}

#endif
