/*
 * The start of cufence, its end and a fork; and who tells whom of the rooms. Thread safety: any thread, at any time.
 */
#ifndef CUFENCE_API_LIFECYCLE_H
#define CUFENCE_API_LIFECYCLE_H

#include "base/options.h"

#include <cufence.h>

/* cufence_init(). */
cufence_status lifecycle_start(const char *options);

/* OK while cufence runs; else says why it does not. */
cufence_status lifecycle_check(void);

/* What it was started with. They stay. */
const struct options *lifecycle_options(void);

/* The driver's debugger library is kept from crashing at the process's end: nobody need wait for it to come to rest. */
void lifecycle_needs_no_rest(void);

#endif
