/*
 * Follows the threads of a launch through the kernel's code (analysis/sass/search.h), with the copies of the memory, where a
 * dump of a second fault would not have the thread: no barriers could be put in front of the kernel's exits, or the driver
 * refuses its code.
 *
 * Thread safety: none; the stage has one thread.
 */
#ifndef CUFENCE_RESTAGE_FOLLOW_H
#define CUFENCE_RESTAGE_FOLLOW_H

#include "scene.h"

/* Sends a STAGE_LANE for each thread of the first warp that is found, else a STAGE_LOST. The memory must be as the fault left
 * it; what is not mapped yet is asked for. Returns the number of lanes. */
size_t follow_launch(int socket, const struct scene *scene, const struct scene_launch *launch, uint64_t limit_ms);

#endif
