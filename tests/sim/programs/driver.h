/*
 * The CUDA driver as a program finds it, in one of three ways, chosen when it is compiled:
 *   LOOKUP_DLSYM     dlopen of libcuda.so.1, dlsym of each function
 *   LOOKUP_PROC      dlsym of cuGetProcAddress alone, which is asked for the rest. LOOKUP in the environment says how: v1 or v2
 *                    (the default), and v1-ptds or v2-ptds for per-thread default streams
 *   LOOKUP_LINKED    linked with libcuda.so.1
 * With CUDA_API_PER_THREAD_DEFAULT_STREAM the names are cuda.h's for per-thread default streams.
 */
#pragma once

#pragma GCC diagnostic ignored "-Wunused-parameter" /* a callback has the parameters that its caller wants */

#include <cuda.h>
#include <sim/sim.h>

/* X(NAME) for each function that the programs call as cu.NAME is driver_functions.h, which the build makes. The members' names
 * are cuda.h's macros, expanded here and where they are used alike. */
struct driver {
#define X(name) __typeof__(&name) name;
#include "driver_functions.h"
#undef X
};

extern struct driver cu;

/* Finds all of it; ends the program with status 3 and a message where something is missing. */
void driver_find(void);

/* A function in the way that the program was compiled for. */
void *driver_function(const char *base_name, const char *abi_name, int version);

/* Of the simulated device. */
void driver_register_kernel(const cusim_kernel *kernel);
void *driver_of_sim(const char *name); /* a function of sim.h */

/* A function of the C API: in the process of a program that knows nothing of it. NULL without the preload library. */
void *driver_of_cufence(const char *name);
