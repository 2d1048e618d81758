/* memory.c - host memory: an arena behind the table. See memory.h. */
#include "mem/memory.h"

#include "base/checked.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct host_memory {
    oc_memory memory; /* first: what callers hold */
    oc_arena *arena;
    oc_tier tier;
} host_memory;

static host_memory *host_of(oc_memory *m) { return (host_memory *)m; }

static oc_status host_upload(oc_memory *m, uint64_t at, const void *src, uint64_t bytes,
                             oc_error *err) {
    OC_TRY(oc_memory_check(m, host_of(m)->tier, at, bytes, err));
    if (bytes) memcpy((unsigned char *)m->base + at, src, bytes);
    return OC_OK;
}

static oc_status host_download(oc_memory *m, void *dst, uint64_t at, uint64_t bytes,
                               oc_error *err) {
    OC_TRY(oc_memory_check(m, host_of(m)->tier, at, bytes, err));
    if (bytes) memcpy(dst, (const unsigned char *)m->base + at, bytes);
    return OC_OK;
}

static oc_status host_fill(oc_memory *m, uint64_t at, uint8_t value, uint64_t bytes,
                           oc_error *err) {
    OC_TRY(oc_memory_check(m, host_of(m)->tier, at, bytes, err));
    if (bytes) memset((unsigned char *)m->base + at, value, bytes);
    return OC_OK;
}

static uint64_t host_resident(const oc_memory *m, oc_error *err) {
    return oc_arena_resident(((const host_memory *)m)->arena, err);
}

static void host_close(oc_memory *m) {
    oc_arena_close(host_of(m)->arena);
    free(m);
}

static const oc_memory_ops host_ops = {
    .name = "host",
    .is_host = true,
    .upload = host_upload,
    .download = host_download,
    .fill = host_fill,
    .resident = host_resident,
    .close = host_close,
};

oc_status oc_memory_check(const oc_memory *m, oc_tier tier, uint64_t at, uint64_t bytes,
                          oc_error *err) {
    if (at <= m->bytes && bytes <= m->bytes - at) return OC_OK;
    return oc_fail(err, OC_E_INVALID,
                   "%" PRIu64 " bytes at %" PRIu64 " do not lie in the %s tier's %" PRIu64
                   " bytes (%s memory)",
                   bytes, at, oc_tier_name(tier), m->bytes, m->ops->name);
}

oc_status oc_memory_open_host(oc_memory **out, const oc_arena_spec *spec, oc_error *err) {
    *out = NULL;
    host_memory *h = malloc(sizeof *h);
    if (!h)
        return oc_fail(err, OC_E_MEMORY, "no memory to describe the %s tier",
                       oc_tier_name(spec->tier));
    h->tier = spec->tier;
    oc_status s = oc_arena_open(&h->arena, spec, err);
    if (s != OC_OK) {
        free(h);
        return s;
    }
    h->memory = (oc_memory){&host_ops, oc_arena_base(h->arena), oc_arena_bytes(h->arena)};
    *out = &h->memory;
    return OC_OK;
}

void oc_memory_close(oc_memory *m) {
    if (m) m->ops->close(m);
}
