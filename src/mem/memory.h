/* memory.h - the memory of a tier behind a table: an address that queues work on, which the host
 * may follow only where the table says so.
 *
 * Loading, saving and inspection go through upload, download and fill; none of them may run while
 * an op in flight uses the same bytes. Back ends make memories of their own
 * (oc_device_ops.open_memory); host memory is an arena (mem.h). */
#ifndef OC_MEMORY_H
#define OC_MEMORY_H

#include "mem/mem.h"

typedef struct oc_memory oc_memory;

typedef struct oc_memory_ops {
    const char *name;
    bool is_host; /* base may be dereferenced by any thread of the host */
    /* Offsets and sizes in bytes, inside the memory. Done at return. */
    oc_status (*upload)(oc_memory *m, uint64_t at, const void *src, uint64_t bytes, oc_error *err);
    oc_status (*download)(oc_memory *m, void *dst, uint64_t at, uint64_t bytes, oc_error *err);
    oc_status (*fill)(oc_memory *m, uint64_t at, uint8_t value, uint64_t bytes, oc_error *err);
    uint64_t (*resident)(const oc_memory *m, oc_error *err); /* bytes, measured */
    void (*close)(oc_memory *m);
} oc_memory_ops;

struct oc_memory {
    const oc_memory_ops *ops;
    void *base;     /* NULL when bytes is 0 */
    uint64_t bytes; /* as reserved */
};

/* An arena of the host. */
OC_NODISCARD oc_status oc_memory_open_host(oc_memory **out, const oc_arena_spec *spec,
                                           oc_error *err);
void oc_memory_close(oc_memory *m); /* NULL is allowed */

/* For tables of memories: OC_E_INVALID, naming the tier, unless the bytes at `at` lie in m. */
OC_NODISCARD oc_status oc_memory_check(const oc_memory *m, oc_tier tier, uint64_t at,
                                       uint64_t bytes, oc_error *err);

#endif
