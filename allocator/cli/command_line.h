/*
 * The sub-commands, and the reader of their arguments: one table for each sub-command feeds getopt_long(), --help and messages.
 * Every sub-command has --help (-h), takes --option value and --option=value, and accepts an option cut short
 * where that is unambiguous. "--" ends the options.
 *
 * Not thread-safe, as getopt_long() is not.
 */
#pragma once

#include <getopt.h>
#include <stddef.h>
#include <stdio.h>

/* Exit statuses: the same number for the same thing in each sub-command (docs/exit-status.md). */
enum {
    STATUS_FAILED = 1,
    STATUS_USAGE = 2,
    STATUS_FOUND = 86,      /* the default of the option on_fault */
    STATUS_NO_VERDICT = 87, /* nothing was guarded, or not every run could be made */
    STATUS_UNFIT = 126,     /* this and the next, as a shell's */
    STATUS_MISSING = 127,
};

struct given;

/* Takes a value into a field. Returns 0, or the exit status after a message. */
typedef int argument_taker(const struct given *given, void *field);

struct argument {
    const char *name;  /* without its dashes; one that begins with no- sets its int to 0 */
    const char *value; /* how --help names its value; NULL: it takes none but `on` (the default) or `off` */
    const char *help;
    size_t offset;        /* of the field in what is filled in */
    argument_taker *take; /* NULL: the field is a const char *, or an int if the option takes no value */
    const char *key;      /* settings_take_key(): the option of the library that it sets */
    unsigned most;        /* arguments_number() */
};

/* A sub-command: (1) its words and options, from which getopt_long(), --help and the completion's test are fed, (2) what it
 * does, and (3) which statuses it ends with. It never reads argv itself. */
struct command {
    const char *name;
    const char *help; /* in the list of commands */
    int (*run)(int argc, char **argv);
    const struct argument *arguments;
    size_t count;
    const char *operands; /* as --help shows them; NULL: none */
    int least, most;      /* operands; most = -1: any number */
    const char *missing;  /* the message where there are fewer */
    const char *about;    /* of --help: paragraphs, each a line */
    void (*more)(void);   /* prints what follows the options; NULL: nothing does */
    const char *examples; /* lines */
    /* It takes the library's options too: --KEY VALUE for each row of options_table(). NULL: it does not. */
    int (*take_row)(void *settings, size_t row, const char *value);
    size_t settings;        /* offset of the first argument of take_row() */
    int is_operand_the_end; /* ignore what follows the first operand: a program and its arguments */
};

/* An option of the command line. */
struct given {
    const struct command *command;
    const struct argument *argument;
    const char *value; /* "on" or "off" for an option that takes none */
};

#define ARGUMENTS(list) .arguments = (list), .count = sizeof(list) / sizeof *(list)

/* The operands of a sub-command that runs a program. */
#define ARGUMENTS_PROGRAM(name)                                                                                                \
    .operands = "PROGRAM [ARGUMENT]...", .is_operand_the_end = 1, .least = 1, .most = -1,                                      \
    .missing = "no program given: cufence " name " [options] -- PROGRAM [ARGUMENT]...; see cufence " name " --help"

extern const struct command demo_command, doctor_command, explain_command, hunt_command, options_command, replay_command,
    report_command, run_command, stuck_command;

/* `cufence run` in this process; returns only if the program could not be run: STATUS_UNFIT, STATUS_MISSING. */
int cli_run(int argc, char **argv);
extern char *run_announcement; /* hunt's, which it says when nothing but the program itself is left to start; else NULL */
int cli_await(int argc, char **argv);

/* Whether it can run the program. Returns 0, or the exit status after a message. */
int run_check(char **command);

/* Reads the options into the fields of `wanted`, and counts the operands, of which `optind` is the first. Returns 0 if nothing
 * is left to do: *status is the exit status then, 0 after --help, or another after a message. */
int arguments_read(const struct command *command, int argc, char **argv, void *wanted, int *status);

/* The field is a uint64_t: a number from 1 to argument->most. */
argument_taker arguments_number;

/* Prints a message on stderr behind the sub-command's name, and returns `status`. */
int arguments_complain(const char *command, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Says on stderr that an argument is one too many, and returns STATUS_USAGE. */
int arguments_surplus(const char *command, const char *argument);

/* help.c: prints what --help does. */
void help_print(const struct command *command);

/* Prints the exit statuses of a sub-command; if `command` is NULL all, with what they mean in general. */
void help_statuses(const char *command);

/* ---- help.c: text for people, broken into lines ---- */

enum { WORDS_COLUMNS = 100, WORDS_HELP = 79 }; /* of what is printed; of --help */

/* Prints `text` and a newline, in lines of at most so many columns. The first one begins where `out` stands, which is column
 * `indent`; the others are indented by as much. A word that is longer than a line is never cut. */
void words_print_within(FILE *out, const char *text, size_t indent, size_t columns);
#define words_print(out, text, indent) words_print_within(out, text, indent, WORDS_COLUMNS)
