/*
 * Names and argument layouts of kernels, asked from the driver once for each handle.
 * Thread safety: both functions, from any thread. A handle that is known is found without a lock.
 */
#ifndef CUFENCE_LAUNCH_FUNCTIONS_H
#define CUFENCE_LAUNCH_FUNCTIONS_H

#include "analysis/snapshot/snapshot.h"

#include <cuda.h>

/* NULL when the host is out of memory. */
const struct launch_function *functions_find(CUfunction handle);

/* From now on every handle is asked for again. */
void functions_forget(void);

#endif
