/* memory.c - memory whose addresses only streams can follow: a range that is reserved and never
 * readable, beside an arena that holds the bytes. */
#include "device/async/inner.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct oc_async_memory {
    oc_memory memory; /* first: what callers hold. base: the range */
    oc_async *owner;  /* NULL once the device is closed */
    oc_async_memory *next;
    oc_arena *arena;
    oc_tier tier;
};

static oc_async_memory *memory_of(oc_memory *m) { return (oc_async_memory *)m; }

static unsigned char *bytes_of(oc_memory *m, uint64_t at) {
    return (unsigned char *)oc_arena_base(memory_of(m)->arena) + at;
}

static oc_status async_upload(oc_memory *m, uint64_t at, const void *src, uint64_t bytes,
                              oc_error *err) {
    OC_TRY(oc_memory_check(m, memory_of(m)->tier, at, bytes, err));
    if (bytes) memcpy(bytes_of(m, at), src, bytes);
    return OC_OK;
}

static oc_status async_download(oc_memory *m, void *dst, uint64_t at, uint64_t bytes,
                                oc_error *err) {
    OC_TRY(oc_memory_check(m, memory_of(m)->tier, at, bytes, err));
    if (bytes) memcpy(dst, bytes_of(m, at), bytes);
    return OC_OK;
}

static oc_status async_fill(oc_memory *m, uint64_t at, uint8_t value, uint64_t bytes,
                            oc_error *err) {
    OC_TRY(oc_memory_check(m, memory_of(m)->tier, at, bytes, err));
    if (bytes) memset(bytes_of(m, at), value, bytes);
    return OC_OK;
}

static uint64_t async_resident(const oc_memory *m, oc_error *err) {
    return oc_arena_resident(((const oc_async_memory *)m)->arena, err);
}

static void unlink_memory(oc_async_memory *m) {
    oc_async_memory **link = &m->owner->memories;
    while (*link != m)
        link = &(*link)->next;
    *link = m->next;
}

void oc_async_disown(oc_async *a) {
    for (oc_async_memory *m = a->memories; m; m = m->next)
        m->owner = NULL;
}

static void async_close(oc_memory *m) {
    if (memory_of(m)->owner) unlink_memory(memory_of(m));
    if (m->base) munmap(m->base, m->bytes);
    oc_arena_close(memory_of(m)->arena);
    free(m);
}

static const oc_memory_ops async_memory_ops = {
    .name = "async",
    .is_host = false,
    .upload = async_upload,
    .download = async_download,
    .fill = async_fill,
    .resident = async_resident,
    .close = async_close,
};

static oc_status reserve(void **out, uint64_t bytes, oc_tier tier, oc_error *err) {
    *out = NULL;
    if (bytes == 0) return OC_OK;
    void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return oc_fail_errno(err, OC_E_MEMORY, errno,
                             "cannot reserve %" PRIu64 " bytes of addresses for the %s tier", bytes,
                             oc_tier_name(tier));
    *out = p;
    return OC_OK;
}

oc_status oc_async_open_memory(oc_device *d, oc_memory **out, const oc_arena_spec *spec,
                               oc_error *err) {
    *out = NULL;
    oc_async_memory *m = calloc(1, sizeof *m);
    if (!m)
        return oc_fail(err, OC_E_MEMORY, "no memory to describe the %s tier",
                       oc_tier_name(spec->tier));
    oc_status s = oc_arena_open(&m->arena, spec, err);
    if (s != OC_OK) goto free_memory;
    m->memory.ops = &async_memory_ops;
    m->memory.bytes = oc_arena_bytes(m->arena);
    s = reserve(&m->memory.base, m->memory.bytes, spec->tier, err);
    if (s != OC_OK) goto close_arena;
    m->tier = spec->tier;
    m->owner = oc_async_of(d)->owner;
    m->next = m->owner->memories;
    m->owner->memories = m;
    *out = &m->memory;
    return OC_OK;
close_arena:
    oc_arena_close(m->arena);
free_memory:
    free(m);
    return s;
}

/* The list changes only while nothing is in flight: it is read without a lock, which would order
 * the streams. */
void *oc_async_real(const oc_async *a, const void *p) {
    for (const oc_async_memory *m = a->memories; m; m = m->next) {
        uint64_t at = (uintptr_t)p - (uintptr_t)m->memory.base;
        if (p && at < m->memory.bytes) return (unsigned char *)oc_arena_base(m->arena) + at;
    }
    return (void *)(uintptr_t)p;
}
