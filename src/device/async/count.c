/* count.c - see count.h. Sleep is on futexes, as in base/pool.c. */
#include "device/async/count.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t value_of(oc_async_count *c) {
    return atomic_load_explicit(&c->value, memory_order_acquire);
}

/* The beat comes after the value: who finds the old value has read an old beat, and the kernel
 * refuses to put it to sleep on that. */
void oc_async_raise(oc_async_count *c, uint64_t value) {
    atomic_store_explicit(&c->value, value, memory_order_release);
    atomic_fetch_add_explicit(&c->beat, 1, memory_order_release);
    syscall(SYS_futex, &c->beat, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

uint64_t oc_async_wait(oc_async_count *c, uint64_t least) {
    for (;;) {
        unsigned beat = atomic_load_explicit(&c->beat, memory_order_acquire);
        uint64_t value = value_of(c);
        if (value >= least) return value;
        syscall(SYS_futex, &c->beat, FUTEX_WAIT_PRIVATE, beat, NULL, NULL, 0);
    }
}
