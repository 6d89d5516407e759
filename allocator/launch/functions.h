/*
 * Names and argument layouts of kernels, queried from the driver once per handle.
 * Thread safety: both functions, from any thread. Known handles are found without a lock.
 */
#ifndef CUFENCE_LAUNCH_FUNCTIONS_H
#define CUFENCE_LAUNCH_FUNCTIONS_H

#include "analysis/snapshot/snapshot.h"

#include <cuda.h>

/* Returns NULL if out of host memory. */
const struct launch_function *functions_find(CUfunction handle);

/* From now on the driver is queried again for every handle. */
void functions_forget(void);

#endif
