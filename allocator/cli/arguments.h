/*
 * The options of a sub-command, read by getopt_long(), with our own words where something is wrong. Every sub-command has
 * --help
 * (-h), takes --option value and --option=value, and an option may be cut short where that is unambiguous. "--" ends the
 * options.
 *
 * Not thread-safe, as getopt_long() is not.
 */
#ifndef CUFENCE_CLI_ARGUMENTS_H
#define CUFENCE_CLI_ARGUMENTS_H

#include <stddef.h>

struct argument {
    const char *name;    /* without its dashes */
    const char *example; /* of its value, for messages; NULL: it takes none */
};

struct arguments {
    const char *command; /* the sub-command's name */
    const struct argument *known;
    size_t count;           /* at most ARGUMENTS_MOST */
    int is_operand_the_end; /* what follows the first operand is not looked at */
};

enum { ARGUMENTS_MOST = 8 };
enum { ARGUMENTS_END = -1, ARGUMENTS_HELP = -2, ARGUMENTS_WRONG = -3 };

/* The next option: its place in `known`, with its value in `optarg`. ARGUMENTS_END: there is none, `optind` is the first
 * operand's place. ARGUMENTS_HELP: for the caller to print its usage. ARGUMENTS_WRONG: after a message on stderr. */
int arguments_next(const struct arguments *arguments, int argc, char **argv);

/* Says on stderr that an argument is one too many, and returns CLI_USAGE. */
int arguments_surplus(const char *command, const char *argument);

#endif
