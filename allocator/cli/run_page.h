/*
 * `cufence run --html`: the program as a process of its own, and at its end a page of everything that its processes reported.
 *
 * Thread safety: none; one thread does all this.
 */
#ifndef CUFENCE_CLI_RUN_PAGE_H
#define CUFENCE_CLI_RUN_PAGE_H

/*
 * Calls become(argument) in a new process, which returns only if the program can't be run: the exit status, after a message.
 * Before that, sets *reports to the option json= that the program is to run with. Passes signals on, writes the page to `path`,
 * and returns the program's exit status, or ends by the signal that ended the program. 2 or 126 after a message.
 */
int page_run(const char *path, int (*become)(void *argument), void *argument, const char **reports);

#endif
