/* mem.c - arenas. See mem.h; what the machine has left is in available.c. */
#include "mem/mem.h"

#include "base/checked.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; older kernels answer EINVAL */
#endif

enum { HUGE_BYTES = 2 << 20, MINCORE_PAGES = 16384 };

struct oc_arena {
    oc_tier tier;
    unsigned char *base;
    uint64_t bytes;
    uint64_t page_bytes;
};

const char *oc_tier_name(oc_tier t) {
    switch (t) {
    case OC_TIER_DEVICE:
        return "device";
    case OC_TIER_HOST:
        return "host";
    case OC_TIER_NVME:
        return "nvme";
    case OC_TIER_COUNT:
        break;
    }
    return "?";
}

/* Huge pages need 2 MiB alignment, which mmap() does not promise: map more, give the rest back. */
static void *map_aligned(uint64_t bytes, uint64_t align) {
    uint64_t total = bytes + align;
    unsigned char *p =
        mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return MAP_FAILED;
    uint64_t head = oc_align_up((uintptr_t)p, align) - (uintptr_t)p;
    if (head) munmap(p, head);
    if (align - head) munmap(p + head + bytes, align - head);
    return p + head;
}

static oc_status map(oc_arena *a, const oc_arena_spec *spec, oc_error *err) {
    bool huge = spec->huge_pages && a->bytes >= HUGE_BYTES;
    void *p =
        huge ? map_aligned(a->bytes, HUGE_BYTES)
             : mmap(NULL, a->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return oc_fail_errno(err, OC_E_MEMORY, errno,
                             "cannot reserve %" PRIu64
                             " bytes for the %s tier; lower its budget or free memory",
                             a->bytes, oc_tier_name(a->tier));
    a->base = p;
    if (huge) (void)madvise(p, a->bytes, MADV_HUGEPAGE); /* a refusal only costs speed */
    return OC_OK;
}

static oc_status touch(oc_arena *a, oc_error *err) {
    /* The kernel hands out more than there is and kills when it is used: so ask first. */
    uint64_t available = oc_mem_available();
    if (a->bytes > available)
        return oc_fail(err, OC_E_MEMORY,
                       "the %s tier needs %" PRIu64 " bytes, but only %" PRIu64
                       " bytes of memory are available; lower its budget or free memory",
                       oc_tier_name(a->tier), a->bytes, available);
    if (madvise(a->base, a->bytes, MADV_POPULATE_WRITE) == 0) return OC_OK;
    if (errno != EINVAL && errno != ENOSYS)
        return oc_fail_errno(err, OC_E_MEMORY, errno,
                             "cannot make %" PRIu64 " bytes of the %s tier resident", a->bytes,
                             oc_tier_name(a->tier));
    volatile unsigned char *p = a->base;
    for (uint64_t i = 0; i < a->bytes; i += a->page_bytes)
        p[i] = 0;
    return OC_OK;
}

oc_status oc_arena_open(oc_arena **out, const oc_arena_spec *spec, oc_error *err) {
    *out = NULL;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (spec->bytes > INT64_MAX - HUGE_BYTES)
        return oc_fail(err, OC_E_OVERFLOW,
                       "the %s tier was asked for %" PRIu64 " bytes, more than an address can span",
                       oc_tier_name(spec->tier), spec->bytes);
    oc_arena *a = malloc(sizeof *a);
    if (!a)
        return oc_fail(err, OC_E_MEMORY, "no memory to describe the %s tier",
                       oc_tier_name(spec->tier));
    *a = (oc_arena){spec->tier, NULL, oc_align_up(spec->bytes, page), page};
    oc_status s = OC_OK;
    if (a->bytes) s = map(a, spec, err);
    if (s == OC_OK && a->bytes && spec->touch) s = touch(a, err);
    if (s != OC_OK) {
        oc_arena_close(a);
        return s;
    }
    *out = a;
    return OC_OK;
}

void oc_arena_close(oc_arena *a) {
    if (!a) return;
    if (a->base) munmap(a->base, a->bytes);
    free(a);
}

void *oc_arena_base(const oc_arena *a) { return a->base; }
uint64_t oc_arena_bytes(const oc_arena *a) { return a->bytes; }

uint64_t oc_arena_resident(const oc_arena *a, oc_error *err) {
    unsigned char present[MINCORE_PAGES];
    uint64_t pages = 0, span = (uint64_t)MINCORE_PAGES * a->page_bytes;
    for (uint64_t at = 0; at < a->bytes; at += span) {
        uint64_t part = oc_min_u64(span, a->bytes - at);
        if (mincore(a->base + at, part, present)) {
            oc_fail_errno(err, OC_E_SYSTEM, errno,
                          "cannot measure the resident pages of the %s tier",
                          oc_tier_name(a->tier));
            return 0;
        }
        for (uint64_t i = 0; i < part / a->page_bytes; i++)
            pages += present[i] & 1u;
    }
    return pages * a->page_bytes;
}
