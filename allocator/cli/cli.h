/*
 * The cufence command: one function for each sub-command.
 * Each gets the arguments behind `cufence` (argv[0] is the sub-command's name) and returns the exit status: 0, 1 if what was
 * asked for failed, CLI_USAGE if it was not understood. Each answers --help on stdout with its own usage, which is also what
 * `cufence help COMMAND` prints.
 */
#ifndef CUFENCE_CLI_CLI_H
#define CUFENCE_CLI_CLI_H

#include "arguments.h"

#define CLI_USAGE 2

struct command {
    const char *name;
    const char *help;
    int (*run)(int argc, char **argv);
    const struct arguments *arguments; /* NULL: it has none but --help */
};

/* The sub-commands, in the order of the help; an entry without a name ends them. commands.c has them. */
extern const struct command commands[];

int cli_completion(int argc, char **argv);
int cli_demo(int argc, char **argv);
int cli_diff(int argc, char **argv); /* 0: equal, 1: they differ, 2: a trace cannot be used */
int cli_docs(int argc, char **argv);
int cli_doctor(int argc, char **argv);
int cli_explain(int argc, char **argv);
int cli_hunt(int argc, char **argv);
int cli_options(int argc, char **argv);
int cli_replay(int argc, char **argv);
int cli_report(int argc, char **argv);
int cli_run(int argc, char **argv); /* returns only if the program could not be run: PROGRAM_UNFIT, PROGRAM_MISSING */

extern const struct arguments completion_arguments, demo_arguments, diff_arguments, docs_arguments, doctor_arguments,
    explain_arguments, hunt_arguments, options_arguments, replay_arguments, report_arguments, run_arguments;

#endif
