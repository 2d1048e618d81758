/* async.h - a stand-in for an accelerator, on the CPU: a device whose ops are done later, and whose
 * memory the host cannot read.
 *
 * It proves, where no GPU is, that a program relies on nothing but what a CUDA stream gives:
 *   - Every handle is a stream: a thread of its own runs what was issued, in order. An op returns
 *     before it is done. No stream waits for another but by wait_mark.
 *   - Memory of open_memory has addresses that fault when followed. The bytes lie elsewhere; only
 *     the streams, and the memory's own upload, download and fill, know where. Other addresses that
 *     an op is given are host memory, which stays where it is until the op is done.
 *   - With a delay seed, streams rest for random times between commands, so that every order that
 *     the marks leave open does occur.
 * Results are those of the CPU device, bit for bit.
 *
 * One thread at a time issues into a handle; another may sit in its queue's await. Issuing blocks
 * while the ring is full. Memories are opened and closed, scratch is lent, while no op is in
 * flight. Closing the device ends its streams, when all that was issued is done; closing a memory
 * may come before or after. Nothing allocates but the open calls.
 *
 * The queue of a handle (base/queue.h) asks for marks that were recorded, in await too; hold counts
 * from mark 0 as from the opening of the handle. After a failed op the ops issued later into the
 * same stream are skipped, and its marks are reached with that status.
 *
 * The scratch of products is lent once, to all handles: one stream at a time may be in gemm, and a
 * second is OC_E_INVALID. In a step that is the compute stream. */
#ifndef OC_ASYNC_H
#define OC_ASYNC_H

#include "device/device.h"

/* pool is borrowed and outlives the device. NULL: every stream computes in its own thread alone;
 * then the thread sanitizer reports what no mark orders, which the hand-overs inside a shared pool
 * may order by chance. delay_seed 0: no delays. */
OC_NODISCARD oc_status oc_device_open_async(oc_device **out, oc_pool *pool, uint32_t delay_seed,
                                            oc_error *err);

#endif
