/*
 * elfutils' libdw, opened when a report needs it, because many machines lack it: finds source lines, and names of functions
 * that only separate debug information has. It does not unwind: unwind.h does that on every machine.
 *
 * Thread safety: libdw_open() from any thread. A session belongs to one thread at a time; open them for one report.
 */
#ifndef CUFENCE_STACKS_LIBDW_H
#define CUFENCE_STACKS_LIBDW_H

#include <stddef.h>
#include <stdint.h>

/* The functions of libdw. */
struct libdw;

/* NULL if this machine has no libdw, or one that lacks something. Valid for ever. */
const struct libdw *libdw_open(void);

/* The modules of this process as they are now. */
struct libdw_session;
struct libdw_session *libdw_begin(const struct libdw *libdw); /* NULL if libdw refuses */
void libdw_end(struct libdw_session *session);

/* Write nothing about what is not known: the name, as it is in the symbol table, of the function that an address lies in; the
 * source file and the line that the instruction there was made from. */
void libdw_name(struct libdw_session *session, uint64_t address, char *name, size_t size);
void libdw_line(struct libdw_session *session, uint64_t address, char *file, size_t size, int *line);

#endif
