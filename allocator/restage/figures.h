/*
 * Describes the memory on the stage, as the fault left it: sends the figures of what the kernel's arguments point to.
 */
#ifndef CUFENCE_RESTAGE_FIGURES_H
#define CUFENCE_RESTAGE_FIGURES_H

#include "scene.h"

/* Sends a STAGE_FIGURES for each range of the scene that can be read. Looks at 16 MiB of a range at most, its first and its
 * last bytes, and at 64 MiB in all. Call it before the first launch. */
void figures_tell(int socket, const struct scene *scene);

#endif
