/* checked.h - arithmetic on sizes that come from files and users. All return false on overflow and
 * then leave *out untouched. */
#ifndef OC_CHECKED_H
#define OC_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool oc_mul_u64(uint64_t a, uint64_t b, uint64_t *out) {
    uint64_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

static inline bool oc_add_u64(uint64_t a, uint64_t b, uint64_t *out) {
    uint64_t r;
    if (__builtin_add_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

/* Round up to a multiple of align, a power of two. For trusted values. */
static inline uint64_t oc_align_up(uint64_t x, uint64_t align) {
    return (x + align - 1) & ~(align - 1);
}

static inline uint64_t oc_ceil_div(uint64_t x, uint64_t d) { return (x + d - 1) / d; }
static inline uint64_t oc_min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t oc_max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }

#endif
