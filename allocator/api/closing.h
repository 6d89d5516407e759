/*
 * The last lines of a process: what was guarded, what was not, and why it ends with another status than the program's.
 * Thread safety: closing_unguarded(), any thread; the rest, the thread that ends the process.
 */
#pragma once

#include <stdint.h>

/* Device memory that is left to the driver. */
enum unguarded { UNGUARDED_MANAGED, UNGUARDED_MAPPED, UNGUARDED_NODE, UNGUARDED_KINDS };

/* Counts an allocation of `bytes` that cufence has let pass. */
void closing_unguarded(enum unguarded kind, uint64_t bytes);

/* How a process ends. */
struct ending {
    int status;            /* the program's own */
    int exitcode;          /* the one that replaces it, or 0 */
    int has_faulted;       /* a kernel has, reported or not */
    int is_told;           /* all that was found has been reported */
    int is_awaited;        /* all work of the devices is done, so no fault can come any more */
    int blind;             /* monitor_blind(): a fault may be lost */
    const char *unchecked; /* why not all buffers were checked for writes beside them; "": all were */
    int is_quiet;          /* say nothing if anything was guarded */
    int is_verbose;        /* also how often each place of allocation was tested */
};

/* PyTorch allocates through our class from now on. */
void closing_torch(void);

/* Prints that no context was ever created, unless whoever keeps the tally (base/tally.h) says it for all processes. */
void closing_say_unused(void);

/* Reports each place that still has live buffers as a finding of kind "leak". Call after the last fault. */
void closing_report_leaks(void);

/* Adds what was guarded to the file of json=. */
void closing_record(void);

/* Prints the last lines. */
void closing_say(const struct ending *ending);
