/* count.h - a number that only grows, and threads that wait for it.
 *
 * Whoever returns from oc_async_wait(c, n) sees everything done before oc_async_raise(c, >= n), and
 * nothing else is ordered by it. That is why there is no lock, and why the raiser does not look for
 * sleepers: either would order a sleeper's past before the raiser's future, and hide a missing mark
 * from the thread sanitizer. One thread raises; any number wait. */
#ifndef OC_ASYNC_COUNT_H
#define OC_ASYNC_COUNT_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct oc_async_count {
    _Alignas(64) _Atomic uint64_t value;
    atomic_uint beat; /* one more with every raise: what sleepers watch */
} oc_async_count;

void oc_async_raise(oc_async_count *c, uint64_t value);
uint64_t oc_async_wait(oc_async_count *c, uint64_t least); /* the value, >= least */

#endif
