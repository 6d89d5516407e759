#include "arguments.h"
#include "cli.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

enum { FIRST = 256 }; /* what getopt_long() returns for known[0]: more than any letter, by which `optopt` tells them apart */

static int wrong(const struct arguments *arguments, const char *argument)
{
    fprintf(stderr, "cufence %s: unknown option \"%s\"; allowed are", arguments->command, argument);
    for (size_t i = 0; i < arguments->count; i++)
        fprintf(stderr, " --%s,", arguments->known[i].name);
    fprintf(stderr, " --help%s\n",
            arguments->is_operand_the_end ? ", and -- in front of a program whose name begins with a dash" : "");
    return ARGUMENTS_WRONG;
}

/* getopt_long() has returned '?': an unknown option, or a value for one that takes none. */
static int explain_unknown(const struct arguments *arguments, char **argv)
{
    char letter[] = {'-', (char)optopt, '\0'};
    if (optopt == 'h') /* --help=anything */
        return ARGUMENTS_HELP;
    if (optopt >= FIRST) {
        const char *value = strchr(argv[optind - 1], '=');
        fprintf(stderr, "cufence %s: --%s takes no value, but got \"%s\"\n", arguments->command,
                arguments->known[optopt - FIRST].name, value ? value + 1 : "");
        return ARGUMENTS_WRONG;
    }
    return wrong(arguments, optopt ? letter : argv[optind - 1]);
}

static int explain_missing(const struct arguments *arguments)
{
    const struct argument *argument = &arguments->known[optopt - FIRST];
    fprintf(stderr, "cufence %s: --%s needs a value, such as --%s %s\n", arguments->command, argument->name, argument->name,
            argument->example);
    return ARGUMENTS_WRONG;
}

int arguments_next(const struct arguments *arguments, int argc, char **argv)
{
    struct option known[ARGUMENTS_MOST + 2] = {{"help", no_argument, NULL, 'h'}};
    for (size_t i = 0; i < arguments->count; i++) {
        const struct argument *argument = &arguments->known[i];
        known[i + 1] =
            (struct option){argument->name, argument->example ? required_argument : no_argument, NULL, FIRST + (int)i};
    }
    opterr = 0;
    int found = getopt_long(argc, argv, arguments->is_operand_the_end ? "+:h" : ":h", known, NULL);
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
        return found - FIRST;
    }
}

int arguments_surplus(const char *command, const char *argument)
{
    fprintf(stderr, "cufence %s: surplus argument '%s'; `cufence help` lists what is allowed\n", command, argument);
    return CLI_USAGE;
}
