/*
 * Follows the threads of a launch through the kernel's code (analysis/sass/search.h), with the copies of the memory, where a
 * dump of a second fault would not have the thread: no barriers could be put in front of the kernel's exits, or the driver
 * refuses its code.
 *
 * Thread safety: none; the second process has one thread.
 */
#ifndef CUFENCE_RERUN_FOLLOW_H
#define CUFENCE_RERUN_FOLLOW_H

#include "input.h"

/* Sends a MESSAGE_LANE for each thread of the first warp that is found, else a MESSAGE_LOST. The memory must be as the fault
 * left it; what is not mapped yet is asked for. Returns the number of lanes. */
size_t follow_launch(int socket, const struct rerun_input *input, const struct rerun_launch *launch, uint64_t limit_ms);

#endif
