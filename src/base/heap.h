/* heap.h - what blocks of malloc() cost, for tables of bytes. */
#ifndef OC_HEAP_H
#define OC_HEAP_H

#include <stdint.h>

/* Bytes that a block of n takes in glibc's heap: a header of 8 before it, the sum in steps of 16,
 * 32 at least. A block that is mapped for itself takes whole pages, of which those never written do
 * not exist. 0 for 0: no block. */
static inline uint64_t oc_heap_bytes(uint64_t n) {
    if (n == 0) return 0;
    return n <= 24 ? 32 : (n + 8 + 15) & ~(uint64_t)15;
}

#endif
