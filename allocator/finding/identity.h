/*
 * Which findings are the same one again: of a kernel by its kind, its instruction and the place where the buffer was allocated;
 * of a call on the host by its kind, its caller and that place. Pure; any thread.
 */
#ifndef CUFENCE_FINDING_IDENTITY_H
#define CUFENCE_FINDING_IDENTITY_H

#include "misuse.h"

/* Equal for the same finding, different for others but by chance (64 bits); never 0. */
uint64_t identity_of_fault(const struct diagnosis *diagnosis);
uint64_t identity_of_misuse(const struct misuse *misuse);

#endif
