/*
 * (1) Start of cufence, (2) exit and (3) fork, and the wiring between the rooms; what the other files of the room do. No room
 * is opened but from here, and none ends the process except where on_fault=abort says so. Thread safety: any thread, at any
 * time while cufence runs, without a lock.
 */
#pragma once

#include "base/image.h"
#include "base/options.h"
#include "driver/driver.h"
#include "heap/heap.h"

#include <cufence.h>

/* Implements cufence_init(). */
cufence_status lifecycle_start(const char *options);

/* Returns OK while cufence runs; otherwise an error that says why it doesn't. */
cufence_status lifecycle_check(void);

/* Returns the options that cufence was started with. Valid for ever. */
const struct options *lifecycle_options(void);

/* The inspector (inspect/), where an option asks for it: whether it can be opened, for a command that checks options first, and
 * opening it at the start. Errors: as inspect/inspect.h says; UNSUPPORTED: this build has none (CUFENCE_INSPECT=OFF). */
cufence_status lifecycle_inspect(const struct options *options, int is_start);

/* Returns a copy of the cubin that has the kernel, for the caller to free; empty if the code of modules is not kept (explain=,
 * slack=), or if several have one of the name. */
struct span lifecycle_code(const char *symbol, int device);

/* The preload library keeps the driver's debugger library from crashing at process exit, so exit need not wait for the debugger
 * to come to rest. */
void lifecycle_needs_no_rest(void);

/* ---- settle.c: what a synchronisation tells, and the end of a context. The preload library sees both in the driver's calls,
 * the C API is told of an end by cufence_context_gone(). ---- */

/* Call after waiting for work of the current context, with the wait's result: CUDA_SUCCESS or a fault. Learns of faults in that
 * work, and waits for their reports. is_context_idle: all of the context's work was waited for. */
void settle_learn(CUresult result, int is_context_idle);

/* Checks all buffers for the last time: of a context that is about to end, or of all (NULL) at exit. Its
 * work is done, without a fault. */
void settle_check(struct context *only);
const char *settle_unchecked(void); /* why some could not be checked; "": all were */

/* Call before a context ends: waits for its work, checks its buffers, reports what is found, and then keeps our threads away
 * from it, as heap_hold() does, also if it fails: the caller ends this with heap_go_on(*held). Returns the wait's result;
 * CUDA_SUCCESS if the context had faulted before. */
CUresult settle_before_end(CUcontext context, struct books **held);

/* slack_findings.c: reports what the heap finds in the slack of a buffer, with the launches that may have written it. Takes
 * milliseconds. */
uint64_t slack_last_launch(void); /* of the calling thread in the current context; 0: none is known */
void slack_report(const struct heap_slack *found);
