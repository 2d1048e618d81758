/* queue.h - where the ops of a lane go once they are issued, and how their end is learned.
 *
 * A lane without a queue computes in its own thread: an op is done when its body returns. With a
 * queue a body only issues, and the queue says when the op is done. Two kinds:
 *
 *   stream  in order. Marks stand between the ops: mark n is reached when all that was issued
 *           before it is done. Streams of one family (one device) wait for each other's marks
 *           without the host. A CUDA stream with its events is one.
 *   ring    several ops in flight, completed in any order, each told by its token. An I/O ring is
 *           one.
 *
 * One thread issues into a queue (bodies, mark, wait_mark, hold); one other may sit in await or
 * reap. Queues are made by back ends (device, io) and run by the executor. */
#ifndef OC_QUEUE_H
#define OC_QUEUE_H

#include "base/status.h"

#include <stdint.h>

typedef enum oc_queue_kind { OC_QUEUE_STREAM, OC_QUEUE_RING } oc_queue_kind;

typedef struct oc_queue oc_queue;

typedef struct oc_queue_ops {
    const char *name;
    oc_queue_kind kind;

    /* ---- streams ---- */

    /* Record mark `number`: 1, 2, 3, ... in order, none left out. The newest `marks` ones are kept:
     * no older one is asked for. */
    oc_status (*mark)(oc_queue *q, uint64_t number);
    /* What is issued into q from now on starts after `other`, of the same family, has reached its
     * mark. The mark must have been recorded: waiting for one that was not is no wait at all (as on
     * CUDA), and OC_E_INVALID here. */
    oc_status (*wait_mark)(oc_queue *q, oc_queue *other, uint64_t number);
    /* Block until q has reached the mark; *reached_ns on the clock of oc_clock_ns(). The status is
     * the first failure of what was issued before the mark. */
    oc_status (*await)(oc_queue *q, uint64_t number, uint64_t *reached_ns);
    /* The model of a slow link: what is issued from now on starts no sooner than `ns` after the
     * later of: mark `since` was reached, the last hold ended. NULL: this queue cannot be paced. */
    oc_status (*hold)(oc_queue *q, uint64_t since, uint64_t ns);

    /* ---- rings ---- */

    /* Block until one op in flight ends: its token, and its status. */
    oc_status (*reap)(oc_queue *q, uint64_t *token);
} oc_queue_ops;

struct oc_queue {
    const oc_queue_ops *ops;
    const void *family; /* streams that can wait for each other */
    uint32_t marks;     /* stream: marks remembered */
    uint32_t depth;     /* ring: ops in flight at most */
};

#endif
