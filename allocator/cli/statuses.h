/* The exit statuses of the command: the same number for the same thing in each sub-command (docs/exit-status.md). */
#ifndef CUFENCE_CLI_STATUSES_H
#define CUFENCE_CLI_STATUSES_H

enum {
    STATUS_FAILED = 1,
    STATUS_USAGE = 2,
    STATUS_FOUND = 86,      /* the default of the option exitcode */
    STATUS_NO_VERDICT = 87, /* nothing was guarded, or not every run could be made */
    STATUS_UNFIT = 126,     /* this and the next, as a shell's */
    STATUS_MISSING = 127,
};

/* Prints those of a sub-command, for its --help; if `command` is NULL all, with what they mean in general. */
void statuses_print(const char *command);

#endif
