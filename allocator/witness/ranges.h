/*
 * Chooses what the stage describes: what a launch's arguments point to. Pure; any thread.
 */
#ifndef CUFENCE_WITNESS_RANGES_H
#define CUFENCE_WITNESS_RANGES_H

#include "analysis/verdict/diagnosis.h"
#include "restage/scene.h"

/* Adds to the scene, as far as there is room, the bytes from each address in the arguments to the end of its buffer. */
void describe_arguments(struct scene *scene, const struct scene_launch *launch, const struct fault_memory *memory);

#endif
