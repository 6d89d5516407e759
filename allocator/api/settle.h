/*
 * What a synchronisation tells, and the end of a context: the preload library sees both in the driver's calls, the C API is
 * told of an end by cufence_context_gone(). Thread safety: any thread, while cufence runs, without a lock.
 */
#ifndef CUFENCE_API_SETTLE_H
#define CUFENCE_API_SETTLE_H

#include "driver/driver.h"

/* Call after waiting for work of the current context, with the wait's result: CUDA_SUCCESS or a fault. Learns of faults in that
 * work, and waits for their reports. is_context_idle: all of the context's work was waited for. */
void settle_learn(CUresult result, int is_context_idle);

/* Call before a context ends: waits for its work, reports its faults, and then keeps our threads away from it, as heap_hold()
 * does, also if it fails: the caller ends this with heap_go_on(). Returns the wait's result; CUDA_SUCCESS if the context had
 * faulted before. */
CUresult settle_before_end(CUcontext context);

#endif
