/* gate.c - see gate.h. */
#include "run/gate.h"

/* About two microseconds: the hand-over between two awake lanes, less than a sleep costs. */
enum { SPINS = 64 };

int oc_gate_init(oc_gate *g) {
    atomic_init(&g->value, 0);
    atomic_init(&g->wanted, UINT64_MAX);
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

/* The store of value and the load of wanted here, and the reverse pair in sleep_until, are
 * sequentially consistent: either the raiser sees the wish or the sleeper sees the value. All
 * sleepers wake then; those who want more wish again. */
void oc_gate_raise(oc_gate *g, uint64_t value) {
    atomic_store(&g->value, value);
    if (atomic_load(&g->wanted) > value) return;
    pthread_mutex_lock(&g->lock);
    atomic_store(&g->wanted, UINT64_MAX);
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

static void sleep_until(oc_gate *g, uint64_t value) {
    pthread_mutex_lock(&g->lock);
    for (;;) {
        if (atomic_load(&g->wanted) > value) atomic_store(&g->wanted, value);
        if (atomic_load(&g->value) >= value) break;
        pthread_cond_wait(&g->raised, &g->lock);
    }
    pthread_mutex_unlock(&g->lock);
}

void oc_gate_wait(oc_gate *g, uint64_t value) {
    if (oc_gate_value(g) >= value) return;
    for (int i = 0; i < SPINS; i++) {
        relax();
        if (oc_gate_value(g) >= value) return;
    }
    sleep_until(g, value);
}
