/* gate.h - a counter that only grows, and threads that wait for it to reach a value.
 *
 * The fast path is one atomic on either side; a waiter spins for a moment, then sleeps. Whoever
 * returns from oc_gate_wait(g, v) sees everything done before oc_gate_raise(g, >= v). One thread
 * raises at a time; any number wait. A raise wakes nobody who waits for more. */
#ifndef OC_RUN_GATE_H
#define OC_RUN_GATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

typedef struct oc_gate {
    _Alignas(64) _Atomic uint64_t value; /* own cache line: other lanes poll it */
    _Atomic uint64_t wanted; /* the least value that a sleeper waits for; UINT64_MAX: none sleeps */
    pthread_mutex_t lock;
    pthread_cond_t raised;
} oc_gate;

int oc_gate_init(oc_gate *g); /* 0 or an errno value */
void oc_gate_release(oc_gate *g);
void oc_gate_raise(oc_gate *g, uint64_t value);
void oc_gate_wait(oc_gate *g, uint64_t value);

static inline uint64_t oc_gate_value(oc_gate *g) {
    return atomic_load_explicit(&g->value, memory_order_acquire);
}

#endif
