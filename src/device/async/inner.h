/* inner.h - what the files of this folder share.
 *
 * Invariants of a stream
 *   done <= issued <= done + OC_ASYNC_RING; command number n, from 1 on, lies in ring[n % RING]
 *   the issuer writes a command before it raises issued, and the thread has left it before it
 *   raises done
 *   reached <= recorded; mark n, from 0 on, lies in marks[n % OC_ASYNC_MARKS] */
#ifndef OC_ASYNC_INNER_H
#define OC_ASYNC_INNER_H

#include "device/async/count.h"
#include "device/device.h"
#include "device/impl.h"

#include <pthread.h>

enum { OC_ASYNC_RING = 256, OC_ASYNC_MARKS = 1024 };

typedef struct oc_async oc_async;
typedef struct oc_async_stream oc_async_stream;
typedef struct oc_async_memory oc_async_memory;

/* Arguments of ops that take no struct: each kind of value in the order of the op's parameters. */
typedef struct oc_async_values {
    const void *at[8]; /* addresses */
    int64_t n[5];
    uint64_t bytes;
    float f;
    oc_dtype t[2];
    oc_act act;
    bool flag;
    uint8_t byte;
} oc_async_values;

typedef struct oc_async_point {
    oc_async_stream *other; /* wait: whose mark */
    uint64_t number;        /* of a mark */
    uint64_t ns;            /* hold */
} oc_async_point;

typedef struct oc_async_command oc_async_command;
struct oc_async_command {
    /* In the stream's thread. The status is the failure that the command itself found. */
    oc_status (*run)(oc_async_stream *s, const oc_async_command *c);
    bool always; /* marks, waits, the end: though the stream has failed */
    union {
        oc_gemm gemm;
        oc_attention attention;
        oc_paged_attention paged;
        oc_rope rope;
        oc_norm norm;
        oc_update update;
        oc_async_values values;
        oc_async_point point;
    } as;
};

typedef struct oc_async_mark {
    _Atomic uint64_t ns; /* of the clock, when it was reached */
    atomic_int status;
} oc_async_mark;

typedef struct oc_async_queue {
    oc_queue queue; /* first: what the executor holds */
    oc_async_stream *stream;
} oc_async_queue;

/* A handle of the device, its ring and its thread. */
struct oc_async_stream {
    oc_device_impl impl; /* first: oc_device.impl points at it */
    oc_device device;
    oc_async *owner;
    oc_async_stream *next; /* opened before this one */
    oc_device *inner;      /* a CPU device of its own, so that failures are told apart */
    oc_pool *own_pool;     /* of one thread, where none was given */
    oc_async_queue queue;
    pthread_t thread;
    char name[16], kernels[112];
    /* the issuer's */
    _Alignas(64) uint64_t n_issued;
    uint64_t seen_done; /* done, when last looked at */
    _Atomic uint64_t recorded;
    /* between the two */
    oc_async_count issued, done, reached;
    /* the thread's */
    _Alignas(64) uint64_t random; /* state of the delays; 0: none */
    uint64_t held_until;          /* when the last hold was to end */
    oc_status failed;
    bool stop;
    oc_async_mark marks[OC_ASYNC_MARKS];
    oc_async_command ring[OC_ASYNC_RING];
};

struct oc_async {
    oc_pool *pool; /* NULL: each stream has its own */
    uint32_t delay_seed, n_streams;
    oc_async_stream *newest; /* the list of all streams */
    oc_async_stream *first;  /* the one of the device as opened */
    oc_async_memory *memories;
    void *scratch;       /* lent, where its bytes lie */
    atomic_bool in_gemm; /* a stream is */
};

static inline oc_async_stream *oc_async_of(const oc_device *d) {
    return (oc_async_stream *)d->impl;
}

/* ---- memory.c ---- */

oc_status oc_async_open_memory(oc_device *d, oc_memory **out, const oc_arena_spec *spec,
                               oc_error *err);
/* The device is closed; its memories stay until their own close. */
void oc_async_disown(oc_async *a);
/* Where the bytes of an address lie: host addresses and NULL as they are. */
void *oc_async_real(const oc_async *a, const void *p);

/* ---- async.c ---- */

oc_status oc_async_open_stream(oc_device *d, oc_device **out, oc_error *err);

/* ---- stream.c ---- */

/* The queue and the thread of a stream whose other fields are set. */
oc_status oc_async_start(oc_async_stream *s, oc_error *err);
/* Copies the command; blocks while the ring is full. */
void oc_async_issue(oc_async_stream *s, const oc_async_command *c);
/* Tell the thread to end after all that was issued; wait until it has. */
void oc_async_finish(oc_async_stream *s);
void oc_async_join(oc_async_stream *s);

/* ---- commands.c ---- */

/* Every op that computes, over the table of the stream. */
extern const oc_device_ops oc_async_ops;

#endif
