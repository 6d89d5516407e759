/*
 * Start of cufence, exit and fork, and the wiring between the rooms. Thread safety: any thread, at any time.
 */
#ifndef CUFENCE_API_LIFECYCLE_H
#define CUFENCE_API_LIFECYCLE_H

#include "base/options.h"

#include <cufence.h>

/* Implements cufence_init(). */
cufence_status lifecycle_start(const char *options);

/* Returns OK while cufence runs; otherwise an error that says why it doesn't. */
cufence_status lifecycle_check(void);

/* Returns the options that cufence was started with. Valid for ever. */
const struct options *lifecycle_options(void);

/* The lens (lens/), where an option asks for it: whether it can be opened, for a command that checks options first, and opening
 * it at the start. Errors: as lens/lens.h says; UNSUPPORTED: this build has none (CUFENCE_LENS=OFF). */
cufence_status lifecycle_lens(const struct options *options, int is_start);

/* The preload library keeps the driver's debugger library from crashing at process exit, so exit need not wait for the debugger
 * to come to rest. */
void lifecycle_needs_no_rest(void);

#endif
