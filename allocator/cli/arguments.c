#include "arguments.h"
#include "cli.h"
#include "base/options.h"
#include "base/text.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { FIRST = 256 };       /* getopt_long()'s value of known[0]: above any letter, so that `optopt` tells them apart */
enum { LONGEST_NAME = 32 }; /* of an option of the library */
enum { MOST = 128 };        /* options of a sub-command and of the library, both spellings */

int arguments_complain(const char *command, int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "cufence %s: ", command);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return status;
}

int arguments_surplus(const char *command, const char *argument)
{
    int is_command = *command != '-' && strcmp(command, "help") != 0;
    return arguments_complain(command, CLI_USAGE, "unexpected argument '%s'; see `cufence %s%s`", argument,
                              is_command ? command : "help", is_command ? " --help" : "");
}

/* ---- the names ---- */

/* max_reports can be written --max-reports. */
static void with_dashes(const char *name, char out[LONGEST_NAME])
{
    snprintf(out, LONGEST_NAME, "%s", name);
    for (char *at = out; *at; at++)
        if (*at == '_')
            *at = '-';
}

static int is_known(const struct arguments *arguments, const char *name)
{
    for (size_t i = 0; i < arguments->count; i++)
        if (!strcmp(arguments->known[i].name, name))
            return 1;
    return 0;
}

/* Fills in the names for getopt_long(), which `dashed` has room for. A sub-command's own option hides the library's. */
static void list_names(const struct arguments *arguments, struct option *names, char (*dashed)[LONGEST_NAME])
{
    size_t rows, used = 0;
    const struct option_row *row = options_table(&rows);
    names[used++] = (struct option){"help", no_argument, NULL, 'h'};
    for (size_t i = 0; i < arguments->count; i++) {
        const struct argument *argument = &arguments->known[i];
        names[used++] =
            (struct option){argument->name, argument->example ? required_argument : no_argument, NULL, FIRST + (int)i};
    }
    for (size_t i = 0; arguments->has_library && i < rows && used + 2 < MOST; i++) {
        if (is_known(arguments, row[i].name))
            continue;
        int value = FIRST + (int)(arguments->count + i);
        with_dashes(row[i].name, dashed[i]);
        names[used++] = (struct option){row[i].name, required_argument, NULL, value};
        if (strcmp(dashed[i], row[i].name) != 0)
            names[used++] = (struct option){dashed[i], required_argument, NULL, value};
    }
    names[used] = (struct option){0};
}

/* ---- messages ---- */

/* Copies the name in --NAME=VALUE as the library writes it, "" if there is none. */
static void name_in(const char *argument, char name[LONGEST_NAME])
{
    name[0] = '\0';
    if (strncmp(argument, "--", 2) == 0)
        snprintf(name, LONGEST_NAME, "%.*s", (int)strcspn(argument + 2, "="), argument + 2);
    for (char *at = name; *at; at++)
        if (*at == '-')
            *at = '_';
}

/* The sub-command's own option that `argument` is probably a slip of, NULL if there is none. *edits: how far it is. */
static const char *nearest_own(const struct arguments *arguments, const char *argument, size_t *edits)
{
    const char *found = NULL;
    *edits = SIZE_MAX;
    for (size_t i = 0; i < arguments->count && !strncmp(argument, "--", 2); i++) {
        size_t far = text_slip(argument + 2, strcspn(argument + 2, "="), arguments->known[i].name);
        if (far < *edits) {
            *edits = far;
            found = arguments->known[i].name;
        }
    }
    return found;
}

static int wrong(const struct arguments *arguments, const char *argument)
{
    char name[LONGEST_NAME] = "";
    int is_exact = 0;
    size_t edits;
    if (arguments->has_library)
        name_in(argument, name);
    const struct option_row *row = *name ? options_find(name, strlen(name), &is_exact) : NULL;
    const char *instead = options_gone(name, strlen(name)), *near = nearest_own(arguments, argument, &edits);
    if (instead)
        return arguments_complain(arguments->command, ARGUMENTS_WRONG, "the option --%s is gone; %s", name, instead);
    if (row && is_exact)
        return arguments_complain(arguments->command, ARGUMENTS_WRONG, "cufence sets %s by itself; --set %s=VALUE forces it",
                                  row->name, row->name);
    int is_own = !row || text_slip(name, strlen(name), row->name) >= edits;
    if (!is_own)
        near = row->name;
    fprintf(stderr, "cufence %s: unknown option \"%s\"", arguments->command, argument);
    if (near) {
        fprintf(stderr, ", did you mean --%s? `cufence %s%s` lists all\n", near, is_own ? arguments->command : "options",
                is_own ? " --help" : " --all");
        return ARGUMENTS_WRONG;
    }
    fprintf(stderr, "; the options are");
    for (size_t i = 0; i < arguments->count; i++)
        fprintf(stderr, " --%s,", arguments->known[i].name);
    fprintf(stderr, " --help%s%s\n", arguments->has_library ? ", --KEY VALUE for each that `cufence options --all` lists" : "",
            arguments->is_operand_the_end ? ", and -- before a program whose name begins with a dash" : "");
    return ARGUMENTS_WRONG;
}

/* getopt_long() has returned '?': an unknown option, one cut too short, or a value for one that takes none. */
static int explain_unknown(const struct arguments *arguments, char **argv)
{
    char letter[] = {'-', (char)optopt, '\0'};
    if (optopt == 'h') /* --help=anything */
        return ARGUMENTS_HELP;
    if (optopt >= FIRST) {
        const char *value = strchr(argv[optind - 1], '=');
        return arguments_complain(arguments->command, ARGUMENTS_WRONG, "--%s takes no value, but got \"%s\"",
                                  arguments->known[optopt - FIRST].name, value ? value + 1 : "");
    }
    return wrong(arguments, optopt ? letter : argv[optind - 1]);
}

static int explain_missing(const struct arguments *arguments)
{
    size_t rows, place = (size_t)(optopt - FIRST);
    if (place < arguments->count) {
        const struct argument *argument = &arguments->known[place];
        return arguments_complain(arguments->command, ARGUMENTS_WRONG, "--%s needs a value, such as --%s %s", argument->name,
                                  argument->name, argument->example);
    }
    const struct option_row *row = &options_table(&rows)[place - arguments->count];
    return arguments_complain(arguments->command, ARGUMENTS_WRONG, "--%s needs a value; use %s", row->name, row->allowed);
}

/* `--verbose on` and `--verbose off` are read as meant: the word is not the program. */
static int is_switched_off(const struct arguments *arguments, int place, int argc, char **argv)
{
    if ((size_t)place >= arguments->count || arguments->known[place].example || optind >= argc)
        return 0;
    int is_off = !strcmp(argv[optind], "off");
    optind += is_off || !strcmp(argv[optind], "on");
    return is_off;
}

int arguments_next(const struct arguments *arguments, int argc, char **argv)
{
    struct option names[MOST];
    char dashed[MOST][LONGEST_NAME];
    list_names(arguments, names, dashed);
    opterr = 0;
    int found = getopt_long(argc, argv, arguments->is_operand_the_end ? "+:h" : ":h", names, NULL);
    switch (found) {
    case -1:
        return ARGUMENTS_END;
    case 'h':
        return ARGUMENTS_HELP;
    case '?':
        return explain_unknown(arguments, argv);
    case ':':
        return explain_missing(arguments);
    default:
        return is_switched_off(arguments, found - FIRST, argc, argv) ? arguments_next(arguments, argc, argv) : found - FIRST;
    }
}
