/* pool.c - the worker pool: job slots, helpers counted by reference, sleep on futexes.
 *
 * Invariants
 *   active  = callers inside the task loop + workers that hold a reference to a job
 *   a worker joins only while active < cores, so active > cores only by callers, and then workers
 *   leave until it is not
 *   a job's fn, arg, n change only while it is closed and refs of earlier users have been drained:
 *   a worker takes a reference, then looks whether the job is open; the caller closes the job,
 *   then waits for refs == 0. Both orders are sequentially consistent, so one of them sees the
 *   other. refs == 0 of a closed job therefore means: every claimed task is done. */
#include "base/pool.h"

#include "base/clock.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LINE = 64, SPIN_NS = 15000, MAX_CORES = 4096 };

typedef struct job {
    _Alignas(LINE) _Atomic int64_t next; /* the task to claim next; grows beyond n */
    _Alignas(LINE) atomic_uint refs;     /* workers that look at or help with this job */
    atomic_uint waiting;                 /* the caller sleeps until refs == 0 */
    _Alignas(LINE) atomic_bool open;
    _Atomic int64_t n;
    oc_pool_fn *fn;
    void *arg;
} job;

struct oc_pool {
    job jobs[OC_POOL_CALLERS];
    _Alignas(LINE) atomic_int active;
    _Alignas(LINE) atomic_uint epoch; /* grows with every opened job and every call for help */
    atomic_int sleepers;
    atomic_int spinners;
    atomic_bool stop;
    _Alignas(LINE) atomic_uint slots; /* bit i: jobs[i] belongs to a caller */
    int cores, workers;
    struct worker {
        oc_pool *pool;
        pthread_t thread;
        int index;
    } * worker;
};

static void futex_wait(atomic_uint *word, unsigned value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word, int count) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool has_task(job *j) {
    return atomic_load_explicit(&j->open, memory_order_relaxed) &&
           atomic_load_explicit(&j->next, memory_order_relaxed) <
               atomic_load_explicit(&j->n, memory_order_relaxed);
}

static void release(job *j) {
    if (atomic_fetch_sub(&j->refs, 1) == 1 && atomic_load(&j->waiting)) futex_wake(&j->refs, 1);
}

static bool worker_enter(oc_pool *p) {
    int a = atomic_load_explicit(&p->active, memory_order_relaxed);
    while (a < p->cores)
        if (atomic_compare_exchange_weak(&p->active, &a, a + 1)) return true;
    return false;
}

/* True when this worker was one too many and has been counted out. */
static bool worker_yield(oc_pool *p) {
    int a = atomic_load_explicit(&p->active, memory_order_relaxed);
    while (a > p->cores)
        if (atomic_compare_exchange_weak(&p->active, &a, a - 1)) return true;
    return false;
}

/* Wake as many sleepers as tasks and free cores could use. Workers that spin see the new epoch by
 * themselves, and one that is about to sleep is turned back by it. */
static void call_help(oc_pool *p, int64_t tasks) {
    atomic_fetch_add(&p->epoch, 1);
    int sleepers = atomic_load(&p->sleepers);
    if (sleepers <= 0) return;
    int64_t want = p->cores - atomic_load_explicit(&p->active, memory_order_relaxed);
    if (want > tasks) want = tasks;
    want -= atomic_load_explicit(&p->spinners, memory_order_relaxed);
    if (want > sleepers) want = sleepers;
    if (want > 0) futex_wake(&p->epoch, (int)want);
}

/* Claim and run tasks until none is left. A worker also stops when it is one too many, and then
 * returns true: it is counted out already. */
static bool run_tasks(oc_pool *p, job *j, int id, bool is_worker) {
    oc_pool_fn *fn = j->fn;
    void *arg = j->arg;
    int64_t n = atomic_load_explicit(&j->n, memory_order_relaxed);
    for (;;) {
        int64_t task = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed);
        if (task >= n) return false;
        fn(arg, task, id);
        int active = atomic_load_explicit(&p->active, memory_order_relaxed);
        if (active > p->cores && is_worker && worker_yield(p)) return true;
        /* Another lane has finished and left cores idle. */
        if (active < p->cores && atomic_load_explicit(&p->sleepers, memory_order_relaxed) > 0 &&
            atomic_load_explicit(&j->next, memory_order_relaxed) < n - 1)
            call_help(p, 1);
    }
}

/* One visit of a worker to one job; false when there was nothing to do. */
static bool help(oc_pool *p, job *j, int id) {
    if (!has_task(j) || !worker_enter(p)) return false;
    bool left = false, helped = false;
    atomic_fetch_add(&j->refs, 1);
    if (atomic_load(&j->open)) {
        helped = true;
        left = run_tasks(p, j, id, true);
    }
    if (!left) atomic_fetch_sub(&p->active, 1);
    release(j);
    return helped;
}

/* Wait for an epoch other than the one seen. Spins only while a core would be idle otherwise. */
static void await_epoch(oc_pool *p, unsigned seen) {
    int64_t until = oc_clock_ns() + SPIN_NS;
    atomic_fetch_add(&p->spinners, 1);
    while (atomic_load_explicit(&p->epoch, memory_order_acquire) == seen &&
           atomic_load_explicit(&p->active, memory_order_relaxed) < p->cores &&
           oc_clock_ns() < until)
        for (int i = 0; i < 8; i++)
            relax();
    atomic_fetch_sub(&p->spinners, 1);
    if (atomic_load_explicit(&p->epoch, memory_order_acquire) != seen) return;
    atomic_fetch_add(&p->sleepers, 1);
    futex_wait(&p->epoch, seen);
    atomic_fetch_sub(&p->sleepers, 1);
}

static void *worker_main(void *arg) {
    struct worker *w = arg;
    oc_pool *p = w->pool;
    while (!atomic_load(&p->stop)) {
        unsigned seen = atomic_load(&p->epoch);
        bool helped = false;
        for (int i = 0; i < OC_POOL_CALLERS; i++) {
            /* Workers start at different slots, so that concurrent lanes get helpers each. */
            job *j = &p->jobs[(i + w->index) % OC_POOL_CALLERS];
            helped = help(p, j, w->index) || helped;
        }
        if (!helped && !atomic_load(&p->stop)) await_epoch(p, seen);
    }
    return NULL;
}

static oc_status start_worker(oc_pool *p, int index, oc_error *err) {
    struct worker *w = &p->worker[index];
    w->pool = p;
    w->index = index;
    int rc = pthread_create(&w->thread, NULL, worker_main, w);
    if (rc)
        return oc_fail_errno(err, OC_E_SYSTEM, rc,
                             "cannot start worker thread %d of %d; ask for fewer threads",
                             index + 1, p->cores - 1);
    char name[24];
    snprintf(name, sizeof name, "oc-pool-%d", index);
    pthread_setname_np(w->thread, name);
    p->workers = index + 1;
    return OC_OK;
}

oc_status oc_pool_open(oc_pool **out, int cores, oc_error *err) {
    *out = NULL;
    if (cores < 1 || cores > MAX_CORES)
        return oc_fail(err, OC_E_INVALID, "a pool of %d threads; 1 to %d are possible", cores,
                       MAX_CORES);
    oc_pool *p = aligned_alloc(LINE, sizeof *p);
    struct worker *workers = calloc((size_t)cores, sizeof *workers);
    if (!p || !workers) {
        free(p);
        free(workers);
        return oc_fail(err, OC_E_MEMORY, "no memory for a pool of %d threads", cores);
    }
    *p = (oc_pool){.cores = cores, .worker = workers};
    /* Signals are for the thread that chose to handle them, never for a worker. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    oc_status s = OC_OK;
    for (int i = 0; s == OC_OK && i < cores - 1; i++)
        s = start_worker(p, i, err);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (s != OC_OK) {
        oc_pool_close(p);
        return s;
    }
    *out = p;
    return OC_OK;
}

void oc_pool_close(oc_pool *p) {
    if (!p) return;
    atomic_store(&p->stop, true);
    atomic_fetch_add(&p->epoch, 1);
    futex_wake(&p->epoch, INT_MAX);
    for (int i = 0; i < p->workers; i++)
        pthread_join(p->worker[i].thread, NULL);
    free(p->worker);
    free(p);
}

int oc_pool_cores(const oc_pool *p) { return p->cores; }
int oc_pool_slots(const oc_pool *p) { return p->cores - 1 + OC_POOL_CALLERS; }

static int take_slot(oc_pool *p) {
    unsigned all = (1u << OC_POOL_CALLERS) - 1u;
    unsigned busy = atomic_load_explicit(&p->slots, memory_order_relaxed);
    for (;;) {
        if (busy == all) {
            sched_yield();
            busy = atomic_load_explicit(&p->slots, memory_order_relaxed);
            continue;
        }
        int slot = __builtin_ctz(~busy);
        if (atomic_compare_exchange_weak_explicit(&p->slots, &busy, busy | 1u << slot,
                                                  memory_order_acquire, memory_order_relaxed))
            return slot;
    }
}

static void give_slot(oc_pool *p, int slot) {
    atomic_fetch_and_explicit(&p->slots, ~(1u << slot), memory_order_release);
}

/* The job is closed: no helper can enter any more; wait for those inside. */
static void drain(job *j) {
    if (atomic_load(&j->refs) == 0) return;
    int64_t until = oc_clock_ns() + SPIN_NS;
    while (oc_clock_ns() < until) {
        for (int i = 0; i < 8; i++) {
            if (atomic_load(&j->refs) == 0) return;
            relax();
        }
    }
    atomic_store(&j->waiting, 1);
    for (unsigned refs; (refs = atomic_load(&j->refs)) != 0;)
        futex_wait(&j->refs, refs);
    atomic_store(&j->waiting, 0);
}

void oc_pool_for(oc_pool *p, int64_t n, oc_pool_fn *fn, void *arg) {
    if (n <= 0) return;
    int slot = take_slot(p), id = p->cores - 1 + slot;
    job *j = &p->jobs[slot];
    atomic_fetch_add(&p->active, 1);
    if (n == 1 || p->workers == 0) {
        for (int64_t task = 0; task < n; task++)
            fn(arg, task, id);
        atomic_fetch_sub(&p->active, 1);
    } else {
        j->fn = fn;
        j->arg = arg;
        atomic_store_explicit(&j->n, n, memory_order_relaxed);
        atomic_store_explicit(&j->next, 0, memory_order_relaxed);
        atomic_store(&j->open, true);
        call_help(p, n - 1);
        run_tasks(p, j, id, false);
        atomic_store(&j->open, false);
        atomic_fetch_sub(&p->active, 1);
        drain(j);
    }
    give_slot(p, slot);
}
