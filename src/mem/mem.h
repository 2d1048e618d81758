/* mem.h - the arenas of the tiers: one mapping a tier, allocated once, accounted exactly.
 *
 * Planned bytes live here and nowhere else. An arena's pages are touched at open (so that a
 * shortage is an error at start, not a kill in the middle), hence what is reserved is what is
 * resident. */
#ifndef OC_MEM_H
#define OC_MEM_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum oc_tier { OC_TIER_DEVICE, OC_TIER_HOST, OC_TIER_NVME, OC_TIER_COUNT } oc_tier;
const char *oc_tier_name(oc_tier t); /* "device", "host", "nvme" */

typedef struct oc_arena oc_arena;

typedef struct oc_arena_spec {
    oc_tier tier;
    uint64_t bytes;  /* rounded up to whole pages; 0 is allowed and maps nothing */
    bool huge_pages; /* ask for transparent huge pages; a refusal is not an error */
    bool touch;      /* make every page resident at open */
} oc_arena_spec;

/* On failure *out is NULL; the message names the tier and the bytes. */
OC_NODISCARD oc_status oc_arena_open(oc_arena **out, const oc_arena_spec *spec, oc_error *err);
void oc_arena_close(oc_arena *a);

void *oc_arena_base(const oc_arena *a);     /* page aligned; NULL when bytes is 0 */
uint64_t oc_arena_bytes(const oc_arena *a); /* as reserved, whole pages */
uint64_t oc_arena_resident(const oc_arena *a, oc_error *err); /* measured by mincore() */

/* Memory this process may use: the smaller of the machine's available RAM and the cgroup's room (v1
 * and v2), in bytes. */
uint64_t oc_mem_available(void);
/* RssAnon + RssShmem of this process from /proc/self/status, in bytes; 0 when unknown. */
uint64_t oc_mem_rss(void);
/* Return to the system what malloc() keeps of freed blocks. Without glibc it does nothing. */
void oc_mem_trim(void);

#endif
