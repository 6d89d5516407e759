#pragma once

#include "analysis/dump/coredump.h"
#include "analysis/sass/origin.h"
#include "analysis/verdict/rerun_result.h"
#include "base/options.h"
#include "rerun/dump_stream.h"
#include "surroundings.h"

/*
 * A kernel's fault, from its core dump to all that is known of it.
 *
 * What it is: one fault, and what belongs to it: its dump, which is opened once, the buffers and launches that the process has
 * on record, the second launch, and the diagnosis.
 *
 * What it does:
 *   1. fault_open() opens the dump, and reads of it what has faulted, and on which device.
 *   2. fault_begin() takes what the program would change: values of variables, buffers, launches. It makes the diagnosis, which
 *      asks for the buffers at each address that it meets, and starts the second launch, if that is to tell more.
 *   3. fault_finish() waits for the second launch, adds to the diagnosis what that tells, and then what the address is made of.
 *
 * What it never does: print or deliver anything (tell.c), open a dump again, or diagnose a second time.
 *
 * Thread safety: one thread at a time for each struct fault.
 */
struct fault {
    const struct dump *dump;
    struct coredump opened; /* over the bytes of the dump */
    struct evidence *evidence;
    int device;                       /* -1: unknown */
    struct surroundings *around;      /* since fault_begin(), like all below; NULL: the host is out of memory */
    struct diagnosis diagnosis;       /* complete after fault_finish() */
    struct variables_kept *variables; /* NULL: none */
    struct saving *saving;            /* NULL: nothing is saved */
    struct rerun_source *source;      /* NULL: the kernel is not launched again */
    const struct rerun_result *rerun; /* of the second launch, after fault_finish(); NULL: there is none */
    struct origin cause;              /* as the dump alone tells it */
};

/* Opens a dump, which must outlive the fault. Call fault_close() afterwards, even after an error. Errors: those of
 * coredump_open() and evidence_read(), OUT_OF_MEMORY if not all of the dump is there. */
cufence_status fault_open(struct fault *fault, const struct dump *dump, struct problem *problem);

/* Call it while the program waits for the dump to be read. The options must outlive the fault. */
void fault_begin(struct fault *fault, const struct options *options);

/* Takes as long as the second launch. Requires `around`. */
void fault_finish(struct fault *fault);

void fault_close(struct fault *fault);
