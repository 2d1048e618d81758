/* A permutation that needs no memory: a Feistel network over the smallest even number of bits that
 * holds n, walked until it lands below n (Black and Rogaway, "Ciphers with arbitrary finite
 * domains", 2002). The network permutes fewer than 4 n values, so the walk takes 4 steps at most on
 * average. */
#include "data/dataset.h"

enum { ROUNDS = 8 };

/* The finalizer of splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t feistel(uint64_t x, uint64_t key, unsigned half) {
    uint64_t mask = ((uint64_t)1 << half) - 1;
    uint64_t left = x >> half, right = x & mask;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t next = left ^ (mix(key ^ mix(right ^ (round + 1) << 56)) & mask);
        left = right;
        right = next;
    }
    return left << half | right;
}

uint64_t oc_dataset_order(uint64_t seed, uint64_t epoch, uint64_t i, uint64_t n, bool shuffle) {
    if (!shuffle || n < 2 || i >= n) return i;
    unsigned half = 1;
    while (half < 32 && (n - 1) >> (2 * half) != 0)
        half++;
    uint64_t key = mix(mix(seed) + mix(~epoch));
    do
        i = feistel(i, key, half);
    while (i >= n);
    return i;
}
