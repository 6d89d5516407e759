/*
 * elfutils' libdw, opened when a report needs it, because many machines lack it: unwinds a captured stack by the call frame
 * information of the modules, and finds symbols and source lines.
 *
 * Thread safety: libdw_open() from any thread. A session belongs to one thread at a time; open them for one report.
 */
#ifndef CUFENCE_STACKS_LIBDW_H
#define CUFENCE_STACKS_LIBDW_H

#include "stack.h"

/* The functions of libdw. */
struct libdw;

/* NULL if this machine has no libdw, or one that lacks something. Valid for ever. */
const struct libdw *libdw_open(void);

/* The modules of this process as they are now. */
struct libdw_session;
struct libdw_session *libdw_begin(const struct libdw *libdw); /* NULL if libdw refuses */
void libdw_end(struct libdw_session *session);

/* The program counters of the stack, innermost first: stack->pc, then return addresses. Returns how many, at most `max`. */
size_t libdw_unwind(struct libdw_session *session, const struct stack *stack, uint64_t *pcs, size_t max);

/* Sets frame->function (as it is in the symbol table), file and line of the call that returns to `pc`, where they are known. */
void libdw_describe(struct libdw_session *session, uint64_t pc, struct stack_frame *frame);

#endif
