/*
 * Opens what the options ask for of launches: values, nan, trace, save_values. Included by api/ alone; who calls the lens later
 * knows launch/lens.h.
 *
 * Thread safety: lens_open() at the start, before any context.
 */
#ifndef CUFENCE_LENS_LENS_H
#define CUFENCE_LENS_LENS_H

#include "base/options.h"

/* Registers the lens. Errors: OPTION, OVERFLOW: the message names the option. OUT_OF_MEMORY (the host's). */
cufence_status lens_open(const struct options *options);

/* Whether the options are right, for a command that checks them first. Errors: OPTION. */
cufence_status lens_check(const struct options *options);

/* Registers the lens for the visits' users that there are. Part of lens_open(). */
void lens_register(void);

#endif
