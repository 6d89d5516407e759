/*
 * Patterns beside the buffers in the process that launches again, and what a launch has left of them: bytes that programs
 * seldom write, or zeros.
 *
 * Units: bytes, device addresses. Thread safety: none; the second process has one thread.
 */
#ifndef CUFENCE_RERUN_PATTERNS_H
#define CUFENCE_RERUN_PATTERNS_H

#include "far.h"

#define PATTERN_PAGE FAR_PAGE /* of a pattern; no more is written or compared at once */

/* is_zero: zeros instead. What has changed is told over the socket. Errors: OUT_OF_MEMORY. */
cufence_status patterns_open(int socket, int is_zero);

/* Writes the pattern to at most PATTERN_PAGE bytes. Errors: DRIVER. */
cufence_status patterns_write(uint64_t address, uint64_t bytes);

/* Sends a MESSAGE_WROTE for each range of bytes that has changed since, unless `told` is already many.
 * is_slack: it is mapped without the pattern, too. Returns their number. */
size_t patterns_tell(uint64_t address, uint64_t bytes, int is_slack, size_t told);

/* The same for the page of far.h, one pattern wide. */
cufence_status patterns_write_far(void);
size_t patterns_count_far(void); /* bytes that have changed; 0 if there is no such page */

#endif
