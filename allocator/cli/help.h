/* What --help prints, and the exit statuses: the same number for the same thing in each sub-command (docs/exit-status.md). */
#ifndef CUFENCE_CLI_HELP_H
#define CUFENCE_CLI_HELP_H

#include "arguments.h"

enum {
    STATUS_FAILED = 1,
    STATUS_USAGE = CLI_USAGE,
    STATUS_FOUND = 86,      /* the default of the option exitcode */
    STATUS_NO_VERDICT = 87, /* nothing was guarded, or not every run could be made */
    STATUS_UNFIT = 126,     /* this and the next, as a shell's */
    STATUS_MISSING = 127,
};

void help_print(const struct command *command);

/* Prints the exit statuses of a sub-command; if `command` is NULL all, with what they mean in general. */
void help_statuses(const char *command);

#endif
