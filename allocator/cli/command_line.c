#include "command_line.h"
#include "base/options.h"
#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST = 256 };       /* getopt_long()'s value of the first option: above any letter, so that `optopt` tells them apart */
enum { LONGEST_NAME = 32 }; /* of an option of the library */
enum { MOST = 128 };        /* options of a sub-command and of the library, both spellings */

int arguments_complain(const char *command, int status, const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) >= 0)
        text_put_line(stderr, "cufence %s: %s", command, text);
    va_end(arguments);
    free(text);
    return status;
}

#define complain(...) arguments_complain(command->name, STATUS_USAGE, __VA_ARGS__)

int arguments_surplus(const char *command, const char *argument)
{
    int is_command = *command != '-' && strcmp(command, "help") != 0;
    return arguments_complain(command, STATUS_USAGE, "unexpected argument '%s'; see `cufence %s%s`", argument,
                              is_command ? command : "help", is_command ? " --help" : "");
}

/* ---- the names ---- */

static void replace(char *text, char from, char to)
{
    while ((text = strchr(text, from)))
        *text++ = to;
}

/* Whether it has an option of its own of that name, which hides the library's. */
static int has(const struct command *command, const char *name)
{
    for (size_t i = 0; i < command->count; i++)
        if (!strcmp(command->arguments[i].name, name))
            return 1;
    return 0;
}

/* Fills in the names for getopt_long(), which `dashed` has room for: wait_ms can be written --wait-ms. */
static void list_names(const struct command *command, struct option *names, char (*dashed)[LONGEST_NAME])
{
    size_t rows, used = 0;
    const struct option_row *row = options_table(&rows);
    names[used++] = (struct option){"help", no_argument, NULL, 'h'};
    for (size_t i = 0; i < command->count; i++)
        names[used++] =
            (struct option){command->arguments[i].name, command->arguments[i].value ? required_argument : optional_argument,
                            NULL, FIRST + (int)i};
    for (size_t i = 0; command->take_row && i < rows && used + 2 < MOST; i++) {
        if (has(command, row[i].name))
            continue;
        int value = FIRST + (int)(command->count + i);
        snprintf(dashed[i], LONGEST_NAME, "%s", row[i].name);
        replace(dashed[i], '_', '-');
        names[used++] = (struct option){row[i].name, required_argument, NULL, value};
        if (strcmp(dashed[i], row[i].name) != 0)
            names[used++] = (struct option){dashed[i], required_argument, NULL, value};
    }
    names[used] = (struct option){0};
}

/* ---- messages ---- */

static int unknown(const struct command *command, const char *argument)
{
    char name[LONGEST_NAME] = ""; /* as the library writes it */
    int is_exact = 0;
    size_t edits;
    if (!strncmp(argument, "--", 2))
        snprintf(name, sizeof name, "%.*s", (int)strcspn(argument + 2, "="), argument + 2);
    replace(name, '-', '_');
    const struct option_row *row = command->take_row && *name ? options_find(name, strlen(name), &is_exact) : NULL;
    size_t own = text_nearest(argument + 2, strcspn(argument + 2, "="), command->arguments, sizeof *command->arguments,
                              strncmp(argument, "--", 2) ? 0 : command->count, &edits);
    if (row && is_exact)
        return complain("cufence sets %s by itself; --set %s=VALUE forces it", row->name, row->name);
    if (row && text_slip(name, strlen(name), row->name) < edits)
        return complain("unknown option \"%s\", did you mean --%s? `cufence options` lists all", argument, row->name);
    int is_near = edits != SIZE_MAX;
    return complain("unknown option \"%s\"%s%s%s `cufence %s --help` lists all", argument, is_near ? ", did you mean --" : ";",
                    is_near ? command->arguments[own].name : "", is_near ? "?" : "", command->name);
}

static int missing(const struct command *command)
{
    size_t rows, index = (size_t)(optopt - FIRST);
    if (index < command->count)
        return complain("--%s needs a value: --%s %s", command->arguments[index].name, command->arguments[index].name,
                        command->arguments[index].value);
    const struct option_row *row = &options_table(&rows)[index - command->count];
    return complain("--%s needs a value; use %s", row->name, row->allowed);
}

/* ---- the values ---- */

/* `--verbose on` and `--verbose off` are read as meant: the word is not the program. */
static const char *value_of_switch(int argc, char **argv)
{
    if (optarg)
        return optarg;
    int is_word = optind < argc && (!strcmp(argv[optind], "on") || !strcmp(argv[optind], "off"));
    return is_word ? argv[optind++] : "on";
}

static int take(const struct command *command, size_t index, int argc, char **argv, char *wanted)
{
    if (index >= command->count)
        return command->take_row(wanted + command->settings, index - command->count, optarg);
    const struct argument *argument = &command->arguments[index];
    const struct given given = {command, argument, argument->value ? optarg : value_of_switch(argc, argv)};
    void *field = wanted + argument->offset;
    int is_on = !strcmp(given.value, "on");
    if (!argument->value && !is_on && strcmp(given.value, "off") != 0)
        return complain("--%s takes no value but on or off, and got \"%s\"", argument->name, given.value);
    if (argument->take)
        return argument->take(&given, field);
    if (argument->value)
        *(const char **)field = given.value;
    else
        *(int *)field = is_on != !strncmp(argument->name, "no-", 3);
    return 0;
}

int arguments_number(const struct given *given, void *field)
{
    uint64_t *number = field;
    char *end = NULL;
    errno = 0;
    *number = strspn(given->value, "0123456789") ? strtoull(given->value, &end, 10) : 0;
    if (end && !*end && !errno && *number >= 1 && *number <= given->argument->most)
        return 0;
    return arguments_complain(given->command->name, STATUS_USAGE, "--%s '%.64s' is not allowed; use 1..%u",
                              given->argument->name, given->value, given->argument->most);
}

/* ---- all of them ---- */

int arguments_read(const struct command *command, int argc, char **argv, void *wanted, int *status)
{
    struct option names[MOST];
    char dashed[MOST][LONGEST_NAME];
    int found;
    list_names(command, names, dashed);
    opterr = optind = 0; /* getopt_long() starts anew: hunt and demo are run in turn */
    *status = 0;
    while (*status == 0 && (found = getopt_long(argc, argv, command->is_operand_the_end ? "+:h" : ":h", names, NULL)) != -1) {
        char letter[] = {'-', (char)optopt, '\0'};
        if (found == 'h' || (found == '?' && optopt == 'h')) { /* --help=anything */
            help_print(command);
            return 0;
        }
        *status = found == '?'   ? unknown(command, optopt ? letter : argv[optind - 1])
                    : found == ':' ? missing(command)
                                 : take(command, (size_t)(found - FIRST), argc, argv, wanted);
    }
    if (*status == 0 && argc - optind < command->least)
        *status = complain("%s", command->missing);
    else if (*status == 0 && command->most >= 0 && argc - optind > command->most)
        *status = arguments_surplus(command->name, argv[optind + command->most]);
    return *status == 0;
}
