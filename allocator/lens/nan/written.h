/*
 * Which buffers have been written: by a launch that was given them, or by the host. What is in other memory is left over from
 * earlier buffers, and no input.
 *
 * Buffers are named by their numbers, the newest million of them; an older one counts as written.
 * Thread safety: any thread, after written_open().
 */
#ifndef CUFENCE_LENS_WRITTEN_H
#define CUFENCE_LENS_WRITTEN_H

#include <stdint.h>

/* From now on writes are noted. Returns 0 if out of host memory. */
int written_open(void);

void written_note(uint64_t buffer);
int written_is(uint64_t buffer); /* 1 without written_open() */

/* The host is about to write at this address, with a copy or a set. */
void written_note_address(uint64_t address);
int written_is_noted(void);

#endif
