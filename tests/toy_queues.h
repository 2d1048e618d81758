/* toy_queues.h - queues in memory that really work later: streams as threads that take commands,
 * and a ring whose ops end in any order.
 *
 * A body puts a closure (a function and a copy of its task) into its lane's queue. Both kinds are
 * strict where a real one is silent: waiting for a mark that was not recorded, or is remembered no
 * more, an op too many in a ring, reaping when nothing is in flight: all OC_E_INVALID, and counted
 * (n_invalid). Random delays stand between any two steps. */
#ifndef TOY_QUEUES_H
#define TOY_QUEUES_H

#include "base/clock.h"
#include "base/queue.h"
#include "run/run.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

enum { TOY_COMMANDS = 1024, TOY_MARKS = 64, TOY_DEPTH = 16, TOY_THREADS = 2 };

static inline uint64_t toy_next(uint64_t *state) { /* splitmix64 */
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* With state 0 it takes no time. */
static inline void toy_delay(uint64_t *state) {
    if (!*state) return;
    uint64_t x = toy_next(state);
    if (!*state) *state = 1;
    if (x % 10 < 6) return;
    struct timespec t = {0, (long)((x >> 32) % (x % 10 == 9 ? 200000 : 30000))};
    nanosleep(&t, NULL);
}

static inline void toy_sleep_until(uint64_t ns) {
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0) {
    }
}

typedef struct toy_closure {
    oc_body *call;
    oc_task task;
} toy_closure;

/* ---- streams ---- */

typedef struct toy_family {
    pthread_mutex_t lock; /* of all its streams */
    pthread_cond_t changed;
} toy_family;

typedef enum toy_verb { TOY_CALL, TOY_MARK, TOY_WAIT, TOY_HOLD, TOY_END } toy_verb;

typedef struct toy_stream toy_stream;
typedef struct toy_command {
    toy_verb verb;
    toy_closure closure;
    toy_stream *other; /* TOY_WAIT */
    uint64_t number;   /* of a mark */
    uint64_t ns;
} toy_command;

struct toy_stream {
    oc_queue q;
    toy_family *family;
    pthread_t thread;
    toy_command commands[TOY_COMMANDS];
    uint64_t put, taken; /* commands */
    uint64_t recorded, reached;
    uint64_t reached_ns[TOY_MARKS];
    uint64_t held_until;
    oc_status failure;
    uint64_t failed_after; /* the mark before the call that failed first */
    uint64_t device_random, host_random;
    /* faults: the mark, or the how-manieth wait, that is refused; 0: none */
    uint64_t refuse_mark, refuse_wait;
    void (*before_wait)(void *user); /* called in wait_mark, before it looks at the mark */
    void *user;
    uint64_t n_invalid;      /* calls that must not be */
    uint64_t n_waits;        /* wait_mark calls */
    uint64_t most_unreached; /* marks recorded and not reached, at most */
};

static inline void toy_put(toy_stream *s, const toy_command *c) {
    pthread_mutex_lock(&s->family->lock);
    while (s->put - s->taken == TOY_COMMANDS)
        pthread_cond_wait(&s->family->changed, &s->family->lock);
    s->commands[s->put++ % TOY_COMMANDS] = *c;
    if (c->verb == TOY_MARK) s->recorded = c->number;
    if (s->recorded - s->reached > s->most_unreached) s->most_unreached = s->recorded - s->reached;
    pthread_cond_broadcast(&s->family->changed);
    pthread_mutex_unlock(&s->family->lock);
}

/* Under the lock: the mark was recorded, and is still remembered. */
static inline bool toy_knows(toy_stream *s, uint64_t number) {
    bool known = number > 0 && number <= s->recorded && number + s->q.marks > s->recorded;
    s->n_invalid += !known;
    return known;
}

static inline oc_status toy_mark(oc_queue *q, uint64_t number) {
    toy_stream *s = (toy_stream *)q;
    toy_delay(&s->host_random);
    if (number == s->refuse_mark) return OC_E_DEVICE;
    pthread_mutex_lock(&s->family->lock);
    bool next = number == s->recorded + 1;
    s->n_invalid += !next;
    pthread_mutex_unlock(&s->family->lock);
    if (!next) return OC_E_INVALID;
    toy_put(s, &(toy_command){.verb = TOY_MARK, .number = number});
    return OC_OK;
}

static inline oc_status toy_wait_mark(oc_queue *q, oc_queue *other, uint64_t number) {
    toy_stream *s = (toy_stream *)q, *o = (toy_stream *)other;
    if (q->family != other->family) return OC_E_INVALID;
    if (s->before_wait) s->before_wait(s->user);
    toy_delay(&s->host_random);
    if (++s->n_waits == s->refuse_wait) return OC_E_DEVICE;
    pthread_mutex_lock(&s->family->lock);
    bool known = toy_knows(o, number);
    pthread_mutex_unlock(&s->family->lock);
    if (!known) return OC_E_INVALID;
    toy_put(s, &(toy_command){.verb = TOY_WAIT, .other = o, .number = number});
    return OC_OK;
}

static inline oc_status toy_await(oc_queue *q, uint64_t number, uint64_t *reached_ns) {
    toy_stream *s = (toy_stream *)q;
    oc_status st = OC_E_INVALID;
    pthread_mutex_lock(&s->family->lock);
    if (toy_knows(s, number)) {
        while (s->reached < number)
            pthread_cond_wait(&s->family->changed, &s->family->lock);
        *reached_ns = s->reached_ns[number % q->marks];
        st = number > s->failed_after ? s->failure : OC_OK;
    }
    pthread_mutex_unlock(&s->family->lock);
    return st;
}

static inline oc_status toy_hold(oc_queue *q, uint64_t since, uint64_t ns) {
    toy_put((toy_stream *)q, &(toy_command){.verb = TOY_HOLD, .number = since, .ns = ns});
    return OC_OK;
}

/* What the stream does, in its own thread; called and returns with the lock held. */
static inline void toy_do(toy_stream *s, const toy_command *c) {
    toy_family *f = s->family;
    while (c->verb == TOY_WAIT && c->other->reached < c->number)
        pthread_cond_wait(&f->changed, &f->lock);
    pthread_mutex_unlock(&f->lock);
    toy_delay(&s->device_random);
    oc_status st = OC_OK;
    if (c->verb == TOY_CALL) st = c->closure.call(&c->closure.task, NULL);
    if (c->verb == TOY_HOLD) {
        uint64_t from = s->reached_ns[c->number % s->q.marks];
        s->held_until = (from > s->held_until ? from : s->held_until) + c->ns;
        toy_sleep_until(s->held_until);
    }
    pthread_mutex_lock(&f->lock);
    if (st != OC_OK && s->failure == OC_OK) {
        s->failure = st;
        s->failed_after = s->reached;
    }
    if (c->verb != TOY_MARK) return;
    s->reached_ns[c->number % s->q.marks] = (uint64_t)oc_clock_ns();
    s->reached = c->number;
}

static inline void *toy_stream_main(void *arg) {
    toy_stream *s = arg;
    toy_family *f = s->family;
    pthread_mutex_lock(&f->lock);
    for (;;) {
        while (s->put == s->taken)
            pthread_cond_wait(&f->changed, &f->lock);
        toy_command c = s->commands[s->taken % TOY_COMMANDS];
        if (c.verb == TOY_END) break;
        toy_do(s, &c);
        s->taken++;
        pthread_cond_broadcast(&f->changed);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

static const oc_queue_ops toy_stream_ops = {.name = "toy stream",
                                            .kind = OC_QUEUE_STREAM,
                                            .mark = toy_mark,
                                            .wait_mark = toy_wait_mark,
                                            .await = toy_await,
                                            .hold = toy_hold};

static inline void toy_family_init(toy_family *f) {
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
}

static inline void toy_family_release(toy_family *f) {
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
}

/* seed 0: no delays */
static inline void toy_stream_open(toy_stream *s, toy_family *f, uint32_t marks, uint64_t seed) {
    memset(s, 0, sizeof *s);
    s->q = (oc_queue){.ops = &toy_stream_ops, .family = f, .marks = marks};
    s->family = f;
    s->device_random = seed;
    s->host_random = seed * 3;
    pthread_create(&s->thread, NULL, toy_stream_main, s);
}

static inline void toy_stream_close(toy_stream *s) {
    toy_put(s, &(toy_command){.verb = TOY_END});
    pthread_join(s->thread, NULL);
}

/* ---- rings ---- */

typedef enum toy_state { TOY_FREE, TOY_WAITING, TOY_RUNNING, TOY_ENDED } toy_state;

typedef struct toy_slot {
    toy_state state;
    toy_closure closure;
    oc_status status;
} toy_slot;

typedef struct toy_ring {
    oc_queue q;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t threads[TOY_THREADS];
    toy_slot slots[TOY_DEPTH];
    bool ending, slow;
    uint64_t random;
    uint32_t in_flight, most_in_flight, n_overtaken, n_invalid;
    uint64_t newest_reaped;
    uint64_t lose_token; /* fault: reap tells a wrong token instead of this; 0: none */
} toy_ring;

/* Under the lock: one of the slots in a state, by chance; NULL: none. */
static inline toy_slot *toy_pick(toy_ring *r, toy_state state) {
    uint32_t start = (uint32_t)(toy_next(&r->random) % TOY_DEPTH);
    for (uint32_t i = 0; i < TOY_DEPTH; i++) {
        toy_slot *x = &r->slots[(start + i) % TOY_DEPTH];
        if (x->state == state) return x;
    }
    return NULL;
}

static inline oc_status toy_ring_put(toy_ring *r, const toy_closure *c) {
    oc_status st = OC_E_INVALID;
    pthread_mutex_lock(&r->lock);
    toy_slot *x = r->in_flight < r->q.depth ? toy_pick(r, TOY_FREE) : NULL;
    if (x) {
        *x = (toy_slot){TOY_WAITING, *c, OC_OK};
        if (++r->in_flight > r->most_in_flight) r->most_in_flight = r->in_flight;
        st = OC_OK;
    }
    r->n_invalid += !x;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    return st;
}

/* Under the lock. */
static inline void toy_ring_work(toy_ring *r, uint64_t *delay) {
    toy_slot *x = toy_pick(r, TOY_WAITING);
    if (!x) {
        pthread_cond_wait(&r->changed, &r->lock);
        return;
    }
    x->state = TOY_RUNNING;
    toy_closure c = x->closure;
    pthread_mutex_unlock(&r->lock);
    toy_delay(delay);
    oc_status st = c.call(&c.task, NULL);
    toy_delay(delay);
    pthread_mutex_lock(&r->lock);
    x->status = st;
    x->state = TOY_ENDED;
    pthread_cond_broadcast(&r->changed);
}

static inline void *toy_ring_main(void *arg) {
    toy_ring *r = arg;
    pthread_mutex_lock(&r->lock);
    uint64_t delay = r->slow ? toy_next(&r->random) | 1 : 0;
    while (!r->ending)
        toy_ring_work(r, &delay);
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

static inline oc_status toy_reap(oc_queue *q, uint64_t *token) {
    toy_ring *r = (toy_ring *)q;
    oc_status st = OC_E_INVALID;
    pthread_mutex_lock(&r->lock);
    toy_slot *x = NULL;
    while (r->in_flight && !(x = toy_pick(r, TOY_ENDED)))
        pthread_cond_wait(&r->changed, &r->lock);
    if (x) {
        st = x->status;
        *token = x->closure.task.token;
        if (*token < r->newest_reaped) r->n_overtaken++;
        if (*token > r->newest_reaped) r->newest_reaped = *token;
        if (*token == r->lose_token) *token = UINT64_MAX;
        x->state = TOY_FREE;
        r->in_flight--;
    }
    r->n_invalid += !x;
    pthread_mutex_unlock(&r->lock);
    return st;
}

static const oc_queue_ops toy_ring_ops = {
    .name = "toy ring", .kind = OC_QUEUE_RING, .reap = toy_reap};

/* seed 0: no delays */
static inline void toy_ring_open(toy_ring *r, uint32_t depth, uint64_t seed) {
    memset(r, 0, sizeof *r);
    r->q = (oc_queue){.ops = &toy_ring_ops, .depth = depth};
    r->random = seed;
    r->slow = seed != 0;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    for (int i = 0; i < TOY_THREADS; i++)
        pthread_create(&r->threads[i], NULL, toy_ring_main, r);
}

static inline void toy_ring_close(toy_ring *r) {
    pthread_mutex_lock(&r->lock);
    r->ending = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    for (int i = 0; i < TOY_THREADS; i++)
        pthread_join(r->threads[i], NULL);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
}

/* ---- bodies ---- */

/* Have `call` done by the queue of the op's lane, or at once where there is none. */
static inline oc_status toy_issue(const oc_task *t, oc_body *call, oc_error *err) {
    if (!t->queue) return call(t, err);
    toy_closure c = {call, *t};
    if (t->queue->ops->kind == OC_QUEUE_RING) return toy_ring_put((toy_ring *)t->queue, &c);
    toy_put((toy_stream *)t->queue, &(toy_command){.verb = TOY_CALL, .closure = c});
    return OC_OK;
}

#endif
