/*
 * Page faults of the simulated device: SIGSEGV and SIGBUS on a stream's thread, caught while it runs device work. Faults of
 * other code go to the previous handler.
 *
 * Thread safety: any thread; a catch affects the calling thread only.
 */
#pragma once

#include "stream.h"

/* The machine, as shown in device attributes and core dumps. */
#define SIM_DEVICE_NAME "cufence simulated device"
#define SIM_MULTIPROCESSORS 8
#define SIM_SHARED_BYTES 49152        /* shared memory of a block */
#define SIM_SHARED_BYTES_OPTIN 232448 /* for a kernel that asks for more, on an H100 */

#define WARP_LANES 32

struct fault {
    uint64_t address;
    int is_write;
    uint32_t exception; /* exception number in a core dump */
};

enum { EXCEPTION_ILLEGAL_INSTRUCTION = 4, EXCEPTION_ASSERT = 12, EXCEPTION_ILLEGAL_ADDRESS = 14 }; /* CUDBGException_t */

#define FAULT_STACK_BYTES ((size_t)64 << 10)

/* A worker calls fault_thread_begin() before it runs device work, with memory for signal handlers, which may lie on its own
 * stack, and fault_thread_end() at its end. */
void fault_thread_begin(char memory[FAULT_STACK_BYTES]);
void fault_thread_end(void);

/* Calls function(argument). Returns 1 and sets *fault if the function touched inaccessible memory; it did not finish then. */
int fault_catch(void (*function)(void *), void *argument, struct fault *fault);

/* Ends the function being caught, as an exception of this number would. */
void fault_raise(uint32_t exception);

/* A warp in which at least one lane has faulted. */
struct fault_site {
    CUcontext context;
    const struct launch *launch;
    uint64_t grid_id;
    int is_reported; /* the driver writes one dump per kernel */
    uint32_t block[3];
    uint32_t warp;           /* in its block */
    uint32_t valid, faulted; /* masks of lanes */
    uint32_t exception;      /* of the first faulted lane */
    uint32_t threads[WARP_LANES][3];
    struct fault faults[WARP_LANES]; /* of the lanes in `faulted` */
};

/* Does what the driver does at a fault: dump, abort, sticky error. Returns whether the kernel continues. */
int fault_report(const struct fault_site *site);

/* trap_dump.c: writes the dump where the settings say. Failures are reported on stderr. */
void coredump_write(const struct fault_site *site, const struct dump_settings *settings);
