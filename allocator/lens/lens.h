/*
 * Begins what the options ask for of launches: values, NaN. Thread safety: values_open() at the start, before any context.
 */
#ifndef CUFENCE_LENS_LENS_H
#define CUFENCE_LENS_LENS_H

#include "base/options.h"

/* Errors: OPTION, OVERFLOW: the message names the option. */
cufence_status values_open(const struct options *options);

/* Whether values_open() would return OK, for a command that checks options first. Changes nothing that counts. */
cufence_status values_check(const struct options *options);

/* A module or library is about to be unloaded: its kernels' handles may become those of others. Any thread. */
void values_module_gone(const void *module);

#endif
