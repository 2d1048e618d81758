/* philox.h - the counter-based generator Philox4x32-10: any place of a stream without the ones
 * before it.
 *
 * Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011. */
#ifndef OC_PHILOX_H
#define OC_PHILOX_H

#include <stdint.h>

typedef struct oc_philox_block {
    uint32_t v[4];
} oc_philox_block;

static inline oc_philox_block oc_philox(oc_philox_block c, uint32_t key0, uint32_t key1) {
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c.v[0], b = (uint64_t)0xCD9E8D57u * c.v[2];
        c = (oc_philox_block){{(uint32_t)(b >> 32) ^ c.v[1] ^ key0, (uint32_t)b,
                               (uint32_t)(a >> 32) ^ c.v[3] ^ key1, (uint32_t)a}};
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return c;
}

#endif
