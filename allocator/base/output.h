/*
 * All output of cufence, to standard error and to files, goes through here. It never harms the program: a write raises
 * neither SIGPIPE nor SIGXFSZ, waits for a reader for a limited time only, and never ends up in one of the program's own files.
 *
 * Messages go to descriptor 2 as long as it is standard error. It isn't if it was closed at process start, or if the program
 * has since opened something else there (a socket, a data file, anything marked close-on-exec): the first file that a program
 * opens gets the free number 2. Redirections (to a terminal, a pipe, or a file opened for writing) are followed.
 *
 * Text that a slow reader does not accept now is kept (up to 1 MiB) and retried with the next message and at exit. Messages
 * that can't be written at all are counted, and the count is printed if standard error works again.
 *
 * Thread safety: any thread, which is not cancelled while it prints (aside.h). No lock is held while writing. A forked child
 * starts with nothing kept.
 */
#pragma once

#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

/* How long to wait for a reader that accepts nothing. After one such timeout there is no more waiting until something was
 * written. */
#define OUTPUT_WAIT_MS 5000

/*
 * Prints a whole message. Returns 0 or an errno value: with EAGAIN the message, or the rest of it, is kept for later; with any
 * other the message is lost. Waits for a slow reader only if may_wait is set. If another thread is printing, that thread prints
 * this message too, and 0 is returned.
 */
int output_print(const char *text, int may_wait);

/* Formats a message of one line, whatever its arguments hold, and prints it without waiting. It is cut at 4 KiB. */
void output_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same for one line that says whose it is. */
#define output_note(format, ...) output_say("==%d== cufence: " format "\n", (int)getpid(), ##__VA_ARGS__)

/* Waits for a thread that is printing, and tries once more to print what is kept. Called at process exit. */
void output_flush(void);

/* Appends to a file, creating it if needed. The text goes out in one write, so that writes of other processes don't interleave.
 * Returns 0 or an errno value; part of the text may have been written even then. */
int output_append(const char *name, const char *text, size_t size);

/* Whether standard error is a terminal, so that somebody can watch progress. */
int output_is_terminal(void);

/* Sets what descriptor 2 was when the process began (NULL: closed). Called by libcufence_preload.so, which looks before main(),
 * and before anything is printed. Without the call, descriptor 2 as found when this library was loaded counts. */
__attribute__((visibility("default"))) void cufence_output_began_with(const struct stat *standard_error);
