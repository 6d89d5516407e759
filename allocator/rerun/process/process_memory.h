/*
 * What the process of the second launch has in memory: copies of the mappings and of the pinned host memory that a kernel
 * reaches, at the addresses that they have in the process that faulted, and patterns between the buffers.
 *
 * What a kernel reaches is found by looking for addresses: first in the arguments, then in the memory that they point to, and
 * so on. A mapping is asked for over the socket, imported at another address, and copied, so that each launch begins with the
 * memory as the fault left it. Instead of a mapping, a file may come with the bytes that are not zero. If the device has no
 * room for a copy, the host's memory stands in, and a note says so. The originals are never launched on: the program may go on
 * with them.
 *
 * Units: bytes, device addresses. Thread safety: none; the process has one thread for all this.
 */
#pragma once

#include "rerun/input.h"

/* ---- process_memory.c: the device's ---- */

/* Reserves cufence's address space. Call it before a context is created. Errors: OUT_OF_ADDRESS_SPACE, DRIVER. */
cufence_status memory_open(int socket, int device, const struct rerun_input *input);

/* Maps everything that `size` bytes of arguments reach, and what that reaches; writes its bytes into files if the input is to
 * be saved. Errors: DRIVER, OUT_OF_MEMORY. */
cufence_status memory_reach(const uint8_t *arguments, size_t size);

/* Maps memory at input->moved_to, and gives it the bytes of the buffer, which is asked for. Errors: DRIVER, OUT_OF_MEMORY,
 * UNSUPPORTED, SYSTEM. */
cufence_status memory_move(const struct rerun_input *input);

/* Whether the device has had no room for a copy. */
int memory_is_full(void);

/* Returns 1 if all these bytes are in one mapping, which is asked for unless it is there; -1 if it cannot be mapped. */
int memory_find(uint64_t address, uint64_t bytes);

/* Gives every copy the bytes of its original, or of its file, again. Errors: DRIVER. */
cufence_status memory_refresh(void);

/* Hands over what each mapping holds now, with MESSAGE_RESULT. Errors: SYSTEM. */
cufence_status memory_tell_results(void);

/* Maps a page full of a pattern into the guard at each end of the mappings, and writes the
 * pattern into the slack of the copies; or removes these pages. The slack is what it was after memory_refresh(). Errors:
 * DRIVER.
 */
cufence_status memory_put_patterns(void);
cufence_status memory_remove_patterns(void);

/* Sends a MESSAGE_WROTE for each range of bytes in the guards that has changed; if there is one, or with is_only, then for each
 * in the slack. Returns the number of those in the guards. */
size_t memory_tell_writes(int is_only);

/* ---- process_pinned.c: pinned host memory ---- */

/* Maps memory at the addresses. Call it first of all, before a library may lie there. Errors: OUT_OF_ADDRESS_SPACE (something
 * of this process is there, or the host allows no memory there). */
cufence_status host_reserve(const struct rerun_input *input);

/* Asks for the bytes and pins the memory, and maps what its bytes lead to. Call it in the context. Errors: CORRUPT, DRIVER, and
 * those of memory_reach(). */
cufence_status host_open(int socket, const struct rerun_input *input);

/* Hands over what each piece holds now, with MESSAGE_RESULT. Errors: SYSTEM. */
cufence_status host_tell_results(int socket);

/* Gives all memory its first bytes again. */
void host_refresh(void);

/* ---- keep.c: bytes in files ---- */

/* The content of a mapping: zeros, but for `bytes` at the device address `data`. */
struct kept {
    int is_kept;
    uint64_t data, bytes;
    const uint8_t *content; /* of the file; stays mapped */
};

/* Asks with a MESSAGE_SAVE or MESSAGE_RESULT which bytes of the device's memory, or of the host's, are wanted, and writes them.
 * What could not be written is missing in the file, which tells the other side. Errors: SYSTEM. */
cufence_status keep_hand_over(int socket, enum rerun_message_type type, uint64_t base, uint64_t bytes, int is_host);

/* Takes the content from a MESSAGE_FILE and its descriptor, or from a MESSAGE_ZEROS. Errors: CORRUPT (the file is too short,
 * or the content is not part of the mapping), SYSTEM. */
cufence_status keep_open(int fd, const struct rerun_message *message, struct kept *kept);

/* Gives the mapping of `bytes` at `base` that content. Errors: DRIVER. */
cufence_status keep_read(const struct kept *kept, uint64_t base, uint64_t bytes);

/* ---- patterns.c: bytes that programs seldom write, and what a launch has left of them ---- */

#define PATTERN_PAGE ((uint64_t)2 << 20) /* of a pattern; no more is written or compared at once */

/* What has changed is sent over the socket. Errors: OUT_OF_MEMORY. */
cufence_status patterns_open(int socket);

/* Writes the pattern to at most PATTERN_PAGE bytes. Errors: DRIVER. */
cufence_status patterns_write(uint64_t address, uint64_t bytes);

/* Sends a MESSAGE_WROTE for each range of bytes that has changed since; if `sent` is already many, one for all. is_slack: no
 * access faults there. Returns their number. */
size_t patterns_tell(uint64_t address, uint64_t bytes, int is_slack, size_t sent);

/* One page that is mapped many times, far out in the guards: a launch that goes further than the pages with a pattern of their
 * own does not fault there. What is written in one place is written in all. patterns_add_far() fills addresses that are
 * reserved, between multiples of PATTERN_PAGE; without room for it nothing is there, which is no error. */
void patterns_add_far(int device, uint64_t start, uint64_t end);
int patterns_has_far(void);
cufence_status patterns_write_far(void);
size_t patterns_count_far(void); /* bytes that have changed; 0 if there is no such page */
cufence_status patterns_remove_far(void);

/* ---- process_looks.c: what looks at the memory ---- */

/* Sends a MESSAGE_FIGURES for each range of the input that can be read. Looks at 16 MiB of a range at most, its first and its
 * last bytes, and at 64 MiB in all. Call it before the first launch. */
void figures_tell(int socket, const struct rerun_input *input);

/* Follows input->traced, a thread of the first launch, and sends a MESSAGE_CAUSE if it is known what its address is made of.
 * The memory must be as the fault left it; what is not mapped yet is asked for. Returns OK. */
cufence_status trace_thread(int socket, const struct rerun_input *input);
