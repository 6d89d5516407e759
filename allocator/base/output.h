/*
 * The one way out for what cufence prints and saves. Whatever becomes of it, the program's fate is what it would have been: a
 * write raises no SIGPIPE, waits for a reader only as long as it says, and goes to no file of the program's.
 *
 * Descriptor 2 is used while it is standard error. It is not where it was closed at the program's start, or where the program
 * has since put something there that is no place for messages (a socket, a data file, anything marked close-on-exec): by then
 * whatever the program opened first has that number. A redirection (to a terminal, a pipe, a file for writing) is followed.
 *
 * What standard error does not take now, for its reader is slow, is kept (1 MiB) and tried again with the next message and at
 * the exit. What it never will take is counted, and said there if it works again.
 *
 * Thread safety: any thread. No lock is held while writing. A forked child begins with nothing kept.
 */
#ifndef CUFENCE_BASE_OUTPUT_H
#define CUFENCE_BASE_OUTPUT_H

#include <stddef.h>
#include <sys/stat.h>

/* At most one wait of this length for a reader that takes nothing; after that none until it has taken something. */
#define OUTPUT_WAIT_MS 5000

/*
 * Prints a whole message. Returns 0, or errno's number: EAGAIN if it (or a part) is kept, else it is lost. With may_wait it
 * waits for a slow reader, else it never does. Where another thread is printing, that one takes the message along: 0.
 */
int output_print(const char *text, size_t size, int may_wait);

/* Formats a message and prints it without waiting. What it has over 4 KiB is cut. */
void output_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Tries once more to print what is kept: at the end of the process. */
void output_flush(void);

/* Appends to a file, which it makes if need be, in one write that other processes' do not cut. Returns 0 or errno's number; a
 * part of the text may have been written then. */
int output_append(const char *name, const char *text, size_t size);

/* Whether progress can be shown to somebody: standard error is a terminal. */
int output_is_terminal(void);

/* What descriptor 2 was when the process began, from libcufence_preload.so, which knows it from before main(); NULL: closed.
 * Before anything is printed. Without it counts what it was when this library was loaded. */
__attribute__((visibility("default"))) void cufence_output_began_with(const struct stat *standard_error);

#endif
