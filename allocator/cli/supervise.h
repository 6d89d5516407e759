/*
 * A program as a process of its own, for what has to be done after its end. Not thread-safe.
 */
#pragma once

#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

/* Blocks SIGCHLD and those of the signals that are not ignored. */
void supervise_watch(const int *signals, size_t count, sigset_t *watched, sigset_t *before);

/*
 * Calls become(argument) in a new process, with the signal mask `before`, which returns only if the program can't be run: the
 * exit status, after a message. The process gets a group of its own if is_grouped, and does not outlive this one. Returns it,
 * or -1 after a message that begins with the sub-command. *refusal: 0, or the exit status if the program could not be run.
 */
pid_t supervise_start(const char *command, int (*become)(void *argument), void *argument, const sigset_t *before,
                      int is_grouped, int *refusal);

/* Starts it likewise, passes signals on, and waits for the program's end. Returns its status as of waitpid(). */
int supervise(const char *command, int (*become)(void *argument), void *argument, int *refusal);

/* Returns the exit status of that status, or ends by the signal that ended the program: whoever waits sees it. */
int supervise_end_as(int status);
