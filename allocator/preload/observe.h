/*
 * estimate=on: the program runs natively, the hooks only look at what it allocates and frees, and at exit it is said what that
 * would take guarded (guard/estimate.h).
 *
 * Thread safety: every function, from any thread. A lock is held for each allocation and free, and nothing else is under it.
 */
#ifndef CUFENCE_PRELOAD_OBSERVE_H
#define CUFENCE_PRELOAD_OBSERVE_H

#include "base/options.h"

#include <stdint.h>

extern int observe_is_on; /* atomic */

/* Begins; `options` must stay valid. The driver is loaded. */
void observe_begin(const struct options *options);

void observe_allocated(uint64_t address, uint64_t size);
void observe_freed(uint64_t address);

#endif
