/*
 * Chooses what the second process describes: what a launch's arguments point to. Pure; any thread.
 */
#ifndef CUFENCE_WITNESS_RANGES_H
#define CUFENCE_WITNESS_RANGES_H

#include "analysis/verdict/diagnosis.h"
#include "rerun/input.h"

/* Adds to the input, as far as there is room, the bytes from each address in the arguments to the end of its buffer. */
void describe_arguments(struct rerun_input *input, const struct rerun_launch *launch, const struct fault_memory *memory);

#endif
