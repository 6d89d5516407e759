/*
 * elfutils' libdw, opened only when a report needs it, because many machines lack it. Finds source lines, and function names
 * that only separate debug info has. It does not unwind: walk.h does that on every machine.
 *
 * Thread safety: libdw_is_there() from any thread. A session belongs to one thread at a time; open one per report.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Whether this machine has a libdw with all functions that are used. */
int libdw_is_there(void);

/* A snapshot of the modules in this process. Only where libdw is there. */
struct libdw_session;
struct libdw_session *libdw_begin(void); /* NULL: libdw failed */
void libdw_end(struct libdw_session *session);

/* libdw_name() writes the symbol name (mangled) of the function that contains the address; libdw_line() writes the source file
 * and line of the instruction there, of an inlined function of CUDA's headers those of its call. is_wrapped: the innermost
 * inlined function there, if any, is a wrapper of nvcc's, whose line tells nothing. Both leave the output unchanged if nothing
 * is known. */
void libdw_name(struct libdw_session *session, uint64_t address, char *name, size_t size);
void libdw_line(struct libdw_session *session, uint64_t address, int is_wrapped, char *file, size_t size, int *line);

/* Whether the function that contains the address is such a wrapper, into which what launches the kernel was inlined. */
int libdw_is_wrapper(struct libdw_session *session, uint64_t address);
