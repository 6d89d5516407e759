/*
 * values=FILTER: shows the arguments of launches, and figures of what they point to, before and after each. A user of visits.
 * Thread safety: show_open() at the start.
 */
#ifndef CUFENCE_LENS_SHOW_H
#define CUFENCE_LENS_SHOW_H

#include "base/options.h"

/* Begins to show what the options ask for. Errors: OPTION, OVERFLOW (values). */
cufence_status show_open(const struct options *options);

#endif
