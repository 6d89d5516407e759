/*
 * A pipe that the program neither sees nor closes, and that leaves nothing behind: it has no name in a folder, and its number
 * is one in the table of descriptors that a thread of ours has for itself. In any thread of the process, the path below /proc
 * opens it, until that thread ends: with the process, whichever way, with exec, or with hidden_close().
 *
 * A number in the program's own table would not do: the driver opens the path at the fault and truncates what it finds there,
 * which is the program's file if the program has closed the number and used it anew.
 *
 * Thread safety: none; one pipe for each process.
 */
#ifndef CUFENCE_WITNESS_HIDDEN_H
#define CUFENCE_WITNESS_HIDDEN_H

#include <stddef.h>

/* Makes the pipe. Returns 0 if it cannot be had: the kernel or a seccomp filter refuses the thread a table of its own
 * (Linux 5.9, or unshare()), or /proc is not mounted. */
int hidden_open(char *path, size_t size);

/* Forgets it; whoever has opened it keeps it. */
void hidden_close(void);

#endif
