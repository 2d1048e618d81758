/* stream.c - a stream: the ring that one thread fills, the thread that empties it, and the marks
 * between its commands. */
#include "device/async/inner.h"

#include "base/checked.h"
#include "base/clock.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

/* ---- the ring ---- */

void oc_async_issue(oc_async_stream *s, const oc_async_command *c) {
    uint64_t number = s->n_issued + 1;
    if (number > s->seen_done + OC_ASYNC_RING)
        s->seen_done = oc_async_wait(&s->done, number - OC_ASYNC_RING);
    s->ring[number % OC_ASYNC_RING] = *c;
    s->n_issued = number;
    oc_async_raise(&s->issued, number);
}

/* ---- the thread ---- */

static void sleep_until(uint64_t ns) {
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {
    }
}

/* Half of the time nothing, else up to 300 us, short ones more often: enough to turn every order of
 * commands that the marks leave open. */
static void random_delay(oc_async_stream *s) {
    if (!s->random) return;
    uint64_t x = s->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    s->random = x;
    uint64_t pick = (x >> 32) % 1000;
    if (pick < 500) return;
    uint64_t most = pick < 900 ? 40000 : 300000;
    sleep_until((uint64_t)oc_clock_ns() + (x & 0xffffffffu) % most);
}

static void note_failure(oc_async_stream *s, oc_status status) {
    if (status == OC_OK || s->failed != OC_OK) return;
    s->failed = status;
    oc_device_set_failed(&s->device, status);
    oc_device_set_failed(&s->owner->first->device, status);
}

static void run_command(oc_async_stream *s, const oc_async_command *c) {
    if (s->failed != OC_OK && !c->always) return;
    oc_status status = c->run(s, c);
    note_failure(s, status != OC_OK ? status : oc_device_status(s->inner));
}

static void *stream_main(void *stream) {
    oc_async_stream *s = stream;
#ifdef PR_SET_TIMERSLACK
    /* The default slack of 50 us would be lateness of every hold. */
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
#endif
    for (uint64_t number = 1; !s->stop; number++) {
        oc_async_wait(&s->issued, number);
        random_delay(s);
        run_command(s, &s->ring[number % OC_ASYNC_RING]);
        oc_async_raise(&s->done, number);
    }
    return NULL;
}

/* ---- marks ---- */

static oc_async_stream *stream_of(oc_queue *q) { return ((oc_async_queue *)q)->stream; }

static uint64_t recorded(const oc_async_stream *s) {
    return atomic_load_explicit(&s->recorded, memory_order_relaxed);
}

static bool is_kept(const oc_async_stream *s, uint64_t number) {
    uint64_t newest = recorded(s);
    return number <= newest && newest - number < OC_ASYNC_MARKS;
}

static void reach(oc_async_stream *s, uint64_t number) {
    oc_async_mark *m = &s->marks[number % OC_ASYNC_MARKS];
    atomic_store_explicit(&m->ns, (uint64_t)oc_clock_ns(), memory_order_relaxed);
    atomic_store_explicit(&m->status, (int)s->failed, memory_order_relaxed);
    oc_async_raise(&s->reached, number);
}

static oc_status run_mark(oc_async_stream *s, const oc_async_command *c) {
    reach(s, c->as.point.number);
    return OC_OK;
}

static oc_status run_wait(oc_async_stream *s, const oc_async_command *c) {
    (void)s;
    oc_async_wait(&c->as.point.other->reached, c->as.point.number);
    return OC_OK;
}

/* From when the hold before was to end, not from when this thread woke: lateness of sleeps does not
 * add up. */
static oc_status run_hold(oc_async_stream *s, const oc_async_command *c) {
    const oc_async_mark *since = &s->marks[c->as.point.number % OC_ASYNC_MARKS];
    uint64_t from = atomic_load_explicit(&since->ns, memory_order_relaxed);
    s->held_until = oc_max_u64(from, s->held_until) + c->as.point.ns;
    sleep_until(s->held_until);
    return OC_OK;
}

static oc_status run_stop(oc_async_stream *s, const oc_async_command *c) {
    (void)c;
    s->stop = true;
    return OC_OK;
}

static oc_status mark(oc_queue *q, uint64_t number) {
    oc_async_stream *s = stream_of(q);
    if (number != recorded(s) + 1) return OC_E_INVALID;
    oc_async_issue(
        s, &(oc_async_command){.run = run_mark, .always = true, .as.point = {.number = number}});
    atomic_store_explicit(&s->recorded, number, memory_order_relaxed);
    return OC_OK;
}

static oc_status wait_mark(oc_queue *q, oc_queue *other, uint64_t number) {
    if (q->family != other->family) return OC_E_INVALID;
    oc_async_stream *o = stream_of(other);
    if (number == 0 || !is_kept(o, number)) return OC_E_INVALID;
    oc_async_issue(stream_of(q), &(oc_async_command){.run = run_wait,
                                                     .always = true,
                                                     .as.point = {.other = o, .number = number}});
    return OC_OK;
}

static oc_status await(oc_queue *q, uint64_t number, uint64_t *reached_ns) {
    oc_async_stream *s = stream_of(q);
    if (number == 0 || !is_kept(s, number)) return OC_E_INVALID;
    oc_async_wait(&s->reached, number);
    oc_async_mark *m = &s->marks[number % OC_ASYNC_MARKS];
    *reached_ns = atomic_load_explicit(&m->ns, memory_order_relaxed);
    return (oc_status)atomic_load_explicit(&m->status, memory_order_relaxed);
}

static oc_status hold(oc_queue *q, uint64_t since, uint64_t ns) {
    oc_async_stream *s = stream_of(q);
    if (!is_kept(s, since)) return OC_E_INVALID;
    oc_async_issue(s, &(oc_async_command){.run = run_hold,
                                          .always = true,
                                          .as.point = {.number = since, .ns = ns}});
    return OC_OK;
}

static const oc_queue_ops stream_ops = {
    .name = "async stream",
    .kind = OC_QUEUE_STREAM,
    .mark = mark,
    .wait_mark = wait_mark,
    .await = await,
    .hold = hold,
};

/* ---- life ---- */

/* Signals are for the thread that chose to handle them; faults stay where they happen. */
static void block_signals(sigset_t *before) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
    sigset_t block;
    sigfillset(&block);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&block, faults[i]);
    pthread_sigmask(SIG_SETMASK, &block, before);
}

oc_status oc_async_start(oc_async_stream *s, oc_error *err) {
    s->queue.queue = (oc_queue){&stream_ops, s->owner, OC_ASYNC_MARKS, 0};
    s->queue.stream = s;
    reach(s, 0);
    sigset_t before;
    block_signals(&before);
    int e = pthread_create(&s->thread, NULL, stream_main, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (e) return oc_fail_errno(err, OC_E_SYSTEM, e, "cannot start the thread of %s", s->name);
    pthread_setname_np(s->thread, s->name);
    return OC_OK;
}

void oc_async_finish(oc_async_stream *s) {
    oc_async_issue(s, &(oc_async_command){.run = run_stop, .always = true});
}

void oc_async_join(oc_async_stream *s) { pthread_join(s->thread, NULL); }
