/*
 * The heap: buffers over the slots of vmm/. Allocation, stream-ordered free, reuse of mapped slots, retirement of freed ones
 * (uaf=strict), pools for CUDA graphs, and the index of live and past buffers.
 *
 * Contracts of the public functions are in cufence.h; here is what the other rooms need beside them.
 * Thread safety: all functions, from any thread, once heap_open() has returned.
 */
#ifndef CUFENCE_HEAP_H
#define CUFENCE_HEAP_H

#include "driver/driver.h"
#include "options.h"

/*
 * Opens the arena and starts the background thread. The driver is loaded. `options` must stay.
 *   on_context  called once for each CUDA context before its first buffer, with the context current and the lock held that
 *               guards the making of contexts: it must not call the heap
 * Nothing is left of a failed opening, and it may be tried again.
 */
cufence_status heap_open(const struct options *options, void (*on_context)(CUcontext context, int device));

/* Stops the background thread; the rest goes on working. Before the driver is taken down at exit. */
void heap_close(void);

cufence_status heap_allocate(void **pointer, size_t size, int device, CUstream stream);
cufence_status heap_free(void *pointer, CUstream stream);
cufence_status heap_record_stream(void *pointer, CUstream stream);

cufence_status pool_begin(int device, const uint64_t id[2], cufence_pool_filter contains, void *user, void (*destroy)(void *));
cufence_status pool_end(int device, const uint64_t id[2]);
cufence_status pool_release(int device, const uint64_t id[2]);

void heap_describe(uint64_t address, cufence_description *description);

/* Copies what lies at and around `address`: the buffers (live and freed) of the slot that holds it, and the nearest live
 * ones on both sides. Returns how many, at most `max`. */
size_t heap_near(uint64_t address, cufence_buffer *out, size_t max);

/* Copies live buffers of a device (-1: all), newest first, at most `max`; *total gets how many there are. */
size_t heap_live(int device, cufence_buffer *out, size_t max, uint64_t *total);

/* Errors: INVALID_ARGUMENT for a device that does not exist. -1: all. */
cufence_status heap_stats(int device, cufence_stats *stats);
cufence_status heap_trim(int device);

/* From now on, allocations in contexts of `device` (-1: all) give FAULTED. */
void heap_set_faulted(int device);

/* Calls visit for every context that has or had buffers. */
void heap_each_context(void (*visit)(CUcontext context, int device, void *user), void *user);

#endif
