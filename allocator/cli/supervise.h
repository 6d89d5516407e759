/*
 * The program of `cufence run` as a process of its own, for what has to be done after its end.
 *
 * Thread safety: none; one thread does all this.
 */
#ifndef CUFENCE_CLI_SUPERVISE_H
#define CUFENCE_CLI_SUPERVISE_H

/*
 * Calls become(argument) in a new process, which returns only if the program can't be run: the exit status, after a message.
 * Passes signals on, and waits for the program's end. Returns its status as of waitpid(). *refusal: 0, or the exit status if
 * it could not be run.
 */
int supervise(int (*become)(void *argument), void *argument, int *refusal);

/* Returns the exit status of that status, or ends by the signal that ended the program: whoever waits sees it. */
int supervise_end_as(int status);

#endif
