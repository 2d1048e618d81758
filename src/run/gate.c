/* gate.c - see gate.h. */
#include "run/gate.h"

/* About two microseconds: the hand-over between two awake lanes, less than a sleep costs. */
enum { SPINS = 64 };

int oc_gate_init(oc_gate *g) {
    atomic_init(&g->value, 0);
    atomic_init(&g->sleepers, 0);
    int rc = pthread_mutex_init(&g->lock, NULL);
    if (rc) return rc;
    rc = pthread_cond_init(&g->raised, NULL);
    if (rc) pthread_mutex_destroy(&g->lock);
    return rc;
}

void oc_gate_release(oc_gate *g) {
    pthread_cond_destroy(&g->raised);
    pthread_mutex_destroy(&g->lock);
}

/* The store of value and the load of sleepers here, and the reverse pair in wait, are sequentially
 * consistent: either the raiser sees the sleeper or the sleeper sees the value. */
void oc_gate_raise(oc_gate *g, uint64_t value) {
    atomic_store(&g->value, value);
    if (atomic_load(&g->sleepers) == 0) return;
    pthread_mutex_lock(&g->lock);
    pthread_cond_broadcast(&g->raised);
    pthread_mutex_unlock(&g->lock);
}

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void oc_gate_wait(oc_gate *g, uint64_t value) {
    if (oc_gate_value(g) >= value) return;
    for (int i = 0; i < SPINS; i++) {
        relax();
        if (oc_gate_value(g) >= value) return;
    }
    pthread_mutex_lock(&g->lock);
    atomic_fetch_add(&g->sleepers, 1);
    while (atomic_load(&g->value) < value)
        pthread_cond_wait(&g->raised, &g->lock);
    atomic_fetch_sub(&g->sleepers, 1);
    pthread_mutex_unlock(&g->lock);
}
