/*
 * Starts the rerun process (rerun.h): the `cufence` program beside libcufence.so, with a socket as its standard input.
 *
 * The program that faulted must not notice: the rerun process is the child of a process in between, which shares the program's
 * memory, waits for the rerun process and sends no signal when it ends. So there is no SIGCHLD, and wait() and waitpid(-1) see
 * neither, in a subreaper and in a container's first process too. The kernel kills both when the thread that started them ends,
 * whatever the rerun process is doing; so it ends with the program. It gets none of the program's descriptors, and none of its
 * variables for LD_PRELOAD, cufence, and the driver's debugging.
 *
 * Thread safety: all functions, any thread. The thread that calls rerun_process_start() must not end before
 * rerun_process_end().
 */
#ifndef CUFENCE_WITNESS_SPAWN_H
#define CUFENCE_WITNESS_SPAWN_H

#include <cufence.h>
#include <sys/types.h>

struct rerun_process {
    pid_t pid;
    int socket;    /* to its standard input */
    pid_t between; /* its parent */
    char *stack;   /* of that one */
};

#define MESSAGE_DUMP "/proc/self/fd/3" /* in the rerun process: the pipe that it was given */

/* program: the file of `cufence`, NULL to find it. is_verbose: its standard error is the program's. pipe: for its core dump.
 * Errors: NOT_FOUND (no `cufence` program), SYSTEM. */
cufence_status rerun_process_start(const char *program, int is_verbose, int pipe, struct rerun_process *process);

/* Kills the process if it still runs, and frees what belongs to it. */
void rerun_process_end(struct rerun_process *process);

#endif
