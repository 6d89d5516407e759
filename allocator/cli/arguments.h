/*
 * The options of a sub-command, read by getopt_long(), with our own messages. Every sub-command has --help (-h), takes
 * --option value and --option=value, and accepts an option cut short where that is unambiguous. "--" ends the options.
 *
 * Not thread-safe, as getopt_long() is not.
 */
#ifndef CUFENCE_CLI_ARGUMENTS_H
#define CUFENCE_CLI_ARGUMENTS_H

#include <stddef.h>

/* What a shell may complete a value to, instead of a list of words. */
#define ARGUMENT_FILE "FILE"
#define ARGUMENT_FOLDER "FOLDER"
#define ARGUMENT_COMMAND "COMMAND" /* operands only: a program and its own arguments */

struct argument {
    const char *name;    /* without its dashes */
    const char *example; /* of its value, for messages; NULL: it takes none but `on` or `off` */
    const char *help;    /* a few words, for completions */
    const char *values;  /* words with blanks between them, or ARGUMENT_FILE, ARGUMENT_FOLDER; NULL: anything */
};

struct arguments {
    const char *command; /* the sub-command's name */
    const struct argument *known;
    size_t count;
    const char *operands;   /* as `values` of an argument; NULL: none */
    int has_library;        /* it takes the library's options too: --KEY VALUE for each row of options_table() */
    int is_operand_the_end; /* ignore what follows the first operand */
};

enum { ARGUMENTS_END = -1, ARGUMENTS_HELP = -2, ARGUMENTS_WRONG = -3 };

/* Returns the next option: its place in `known`, or `count` plus its place in options_table(), with its value in `optarg`
 * (NULL without one).
 * ARGUMENTS_END: there is none, `optind` is the first operand's place. ARGUMENTS_HELP: the caller prints its usage.
 * ARGUMENTS_WRONG: after a message on stderr. */
int arguments_next(const struct arguments *arguments, int argc, char **argv);

/* Prints a message on stderr behind the sub-command's name, and returns `status`. */
int arguments_complain(const char *command, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Says on stderr that an argument is one too many, and returns CLI_USAGE. */
int arguments_surplus(const char *command, const char *argument);

#endif
