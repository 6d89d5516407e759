/*
 * Describes the memory in the process that launches again, as the fault left it: sends the figures of what the kernel's
 * arguments point to.
 */
#ifndef CUFENCE_RERUN_FIGURES_H
#define CUFENCE_RERUN_FIGURES_H

#include "input.h"

/* Sends a MESSAGE_FIGURES for each range of the input that can be read. Looks at 16 MiB of a range at most, its first and its
 * last bytes, and at 64 MiB in all. Call it before the first launch. */
void figures_tell(int socket, const struct rerun_input *input);

#endif
