/*
 * The memory in the process that launches again: copies of the mappings that a kernel reaches, at the addresses that they have
 * in the process that faulted.
 *
 * What a kernel reaches is found by looking for addresses: first in the arguments, then in the memory that they point to, and
 * so on. A mapping is asked for over the socket, imported at another address, and copied, so that each launch begins with the
 * memory as the fault left it. Instead of a mapping, a file may come with the bytes that are not zero. If the device has no
 * room for a copy, the host's memory stands in, and a note says so. The originals are never launched on: the program may go on
 * with them.
 *
 * Thread safety: none; the second process has one thread.
 */
#ifndef CUFENCE_RERUN_MEMORY_H
#define CUFENCE_RERUN_MEMORY_H

#include "input.h"

/* Reserves cufence's address space, or the parts that the input names. Call it before a context is created. Errors:
 * OUT_OF_ADDRESS_SPACE, DRIVER. */
cufence_status memory_open(int socket, int device, const struct rerun_input *input);

/* Maps everything that `size` bytes of arguments reach, and what that reaches; writes its bytes into files if the input is to
 * be saved. Errors: DRIVER, OUT_OF_MEMORY. */
cufence_status memory_reach(const uint8_t *arguments, size_t size);

/* Returns 1 if all these bytes are in one mapping, which is asked for unless it is there; -1 if it cannot be mapped. */
int memory_find(uint64_t address, uint64_t bytes);

/* Gives every copy the bytes of its original, or of its file, again. Errors: DRIVER. */
cufence_status memory_refresh(void);

/* Hands over what each mapping holds now, with MESSAGE_RESULT. Errors: SYSTEM. */
cufence_status memory_tell_results(void);

/* Maps a page full of a pattern, of zeros in the mode RERUN_ZEROS, into the guard at each end of the mappings, and writes the
 * pattern into the slack of the copies; or removes these pages. The slack is what it was after memory_refresh(). Errors:
 * DRIVER.
 */
cufence_status memory_put_patterns(void);
cufence_status memory_remove_patterns(void);

/* Sends a MESSAGE_WROTE for each range of bytes in the guards that is not the pattern's any more; if there is one, or with
 * is_only, then for each in the slack. Returns the number of those in the guards. */
size_t memory_tell_writes(int is_only);

#endif
