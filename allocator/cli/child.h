/*
 * A program as a process of its own, for what has to be done after its end. One at a time; not thread-safe.
 */
#pragma once

#include <signal.h>
#include <sys/types.h>

/* The signals that end this command: how many have come so far, and the first. */
extern volatile sig_atomic_t child_signals, child_first_signal;

/* From now on SIGINT, SIGTERM and SIGHUP, unless they are ignored, are passed on to the child; the second one kills it. */
void child_pass_signals(void);

/*
 * Calls become(argument) in a new process, which returns only if the program can't be run: the exit status, after a message.
 * The process does not outlive this one, and gets a group of its own if is_grouped. Returns it, or -1 after a message that
 * begins with the sub-command. *refusal: 0, or the exit status if the program could not be run.
 */
pid_t child_start(const char *command, int (*become)(void *argument), void *argument, int is_grouped, int *refusal);

/* Sends a signal to the child, or to its group. */
void child_kill(int signal);

/* Waits for the child's end up to so many milliseconds, or until a signal comes. Returns whether it has ended. */
int child_wait(unsigned milliseconds, int *status);
