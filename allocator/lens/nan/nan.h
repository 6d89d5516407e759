/*
 * nan=report|stop: finds the launches that make a NaN of inputs that have none. A user of visits: it looks at everything that a
 * launch was given before it, and after it at what the launch may write: not pointers to const, nor what the kernel's code only
 * reads.
 *
 * Memory that nobody was seen to write is no input. With nan_every=N, writes of the launches in between are not seen, so all
 * memory counts as written. Thread safety: nan_open() at the start.
 */
#ifndef CUFENCE_LENS_NAN_H
#define CUFENCE_LENS_NAN_H

#include "base/options.h"

/* Begins to look if the options ask for it. Errors: OUT_OF_MEMORY (the host's). */
cufence_status nan_open(const struct options *options);

#endif
