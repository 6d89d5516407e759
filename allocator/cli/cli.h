/*
 * The cufence command: its sub-commands. Each gets its arguments (argv[0] is its name) and returns the exit status.
 */
#pragma once

#include "command_line.h"

extern const struct command demo_command, doctor_command, explain_command, hunt_command, options_command, replay_command,
    report_command, run_command;

/* `cufence run` in this process; returns only if the program could not be run: STATUS_UNFIT, STATUS_MISSING. */
int cli_run(int argc, char **argv);
