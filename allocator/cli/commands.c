#include "cli.h"

#include <string.h>

const struct command *const commands[] = {
    &run_command,     &hunt_command,   &demo_command, &explain_command, &replay_command, &report_command,
    &options_command, &doctor_command, NULL,
};

const struct command *command_find(const char *name)
{
    for (const struct command *const *command = commands; *command; command++)
        if (!strcmp((*command)->name, name))
            return *command;
    return NULL;
}
