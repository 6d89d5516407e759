/*
 * Pinned host memory in the process that launches again: at the addresses that it has in the process that faulted, with the
 * bytes that it had there. Thread safety: none; the second process has one thread.
 */
#ifndef CUFENCE_RERUN_HOST_H
#define CUFENCE_RERUN_HOST_H

#include "input.h"

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

#endif
