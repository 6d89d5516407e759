/*
 * A fault whose core dump has come. The dump is opened once; who needs something of it is given this.
 *
 * Thread safety: one thread at a time for each struct fault.
 */
#pragma once

#include "analysis/dump/coredump.h"
#include "analysis/dump/evidence.h"
#include "rerun/dump.h"

struct fault {
    const struct dump *dump;
    struct coredump opened; /* over the bytes of the dump */
    struct evidence *evidence;
    int device; /* -1: unknown */
};

/* Opens a dump, which must outlive the fault. Call fault_close() afterwards, even after an error. Errors: those of
 * coredump_open() and evidence_read(), OUT_OF_MEMORY if not all of the dump is there. */
cufence_status fault_open(struct fault *fault, const struct dump *dump, struct problem *problem);
void fault_close(struct fault *fault);
