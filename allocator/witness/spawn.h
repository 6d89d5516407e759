/*
 * Starts the stage: the `cufence` program beside libcufence.so, with a socket as its standard input.
 *
 * The program that faulted must not notice: the new process is no child of its, so there is no SIGCHLD and waitpid(-1) does not
 * see it. It ends when its socket is closed, or after the time that it is told at the start. It gets none of the program's
 * descriptors, and none of its variables for LD_PRELOAD, cufence, and the driver's debugging.
 *
 * Thread safety: all functions, any thread.
 */
#ifndef CUFENCE_WITNESS_SPAWN_H
#define CUFENCE_WITNESS_SPAWN_H

#include <cufence.h>
#include <sys/types.h>

struct stage_process {
    pid_t pid;
    int socket; /* to its standard input */
};

/* program: the file of `cufence`, NULL to find it. is_verbose: its standard error is the program's. Errors: NOT_FOUND (no
 * `cufence` program), SYSTEM. */
cufence_status stage_start(const char *program, int is_verbose, struct stage_process *process);

/* Kills the process if it still runs, and frees what belongs to it. */
void stage_end(struct stage_process *process);

#endif
