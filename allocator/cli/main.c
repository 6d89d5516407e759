#include "command_line.h"
#include "demo_bugs.h"
#include "environment.h"
#include "program.h"
#include "base/env.h"
#include "base/text.h"
#include "rerun/rerun.h"

#include <cufence.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* In the order of the help. */
static const struct command *const commands[] = {
    &run_command,    &hunt_command,  &demo_command,    &explain_command, &replay_command,
    &report_command, &stuck_command, &options_command, &doctor_command,  NULL,
};

/* The sub-command that `name` is, or is probably a slip of; NULL if there is none. */
static const struct command *command_find(const char *name, int *is_exact)
{
    const struct command *nearest = NULL;
    size_t best = SIZE_MAX;
    for (const struct command *const *command = commands; *command; command++) {
        size_t edits = text_slip(name, strlen(name), (*command)->name);
        nearest = edits < best ? *command : nearest;
        best = edits < best ? edits : best;
    }
    *is_exact = nearest && !strcmp(nearest->name, name);
    return nearest;
}

static int is_help(const char *argument)
{
    return !strcmp(argument, "--help") || !strcmp(argument, "-h");
}

static int print_usage(void)
{
    char program[PATH_MAX], pages[PATH_MAX];
    printf("cufence %s: Electric Fence for CUDA\n\nusage: cufence COMMAND [arguments]\n\n", cufence_version_string());
    for (const struct command *const *command = commands; *command; command++)
        printf("  %-10s  %s\n", (*command)->name, (*command)->help);
    printf("\n`cufence COMMAND --help` says more about one, `cufence -V` prints the version.\n"
           "Options are also read from CUFENCE_OPTIONS=\"key=value,key=value\".\n\n"
           "Example: cufence run -- python train.py\n");
    if (installed_program(program) && installed_pages(program, pages))
        printf("\nThe pages that are named docs/NAME.md are in\n  %s\n", pages);
    help_statuses(NULL);
    return 0;
}

/* Prints the words of a command line as a shell would take them, where that needs no quotes. */
static void print_words(char **words)
{
    for (; *words; words++)
        fprintf(stderr, **words && !strpbrk(*words, " \t\n\"'\\$`;&|<>()*?[]#~") ? " %s" : " '%s'", *words);
}

/* `cufence python x.py` and `cufence x.py`: `run --` was left out. `words` end with NULL. Returns 0 if no program has that
 * name. */
static int suggest_run(char **words)
{
    char path[PATH_MAX];
    const char *runner = program_runner(words[0]);
    int is_program = *words[0] && program_find(words[0], env_get("PATH"), path) == PROGRAM_FITS;
    if (!is_program && (!runner || access(words[0], R_OK) != 0))
        return 0;
    fprintf(stderr, "cufence: unknown command '%s'; to run that program: cufence run --%s%s", words[0], is_program ? "" : " ",
            is_program ? "" : runner);
    print_words(words);
    fputc('\n', stderr);
    return 1;
}

/* `words` begin with the unknown one and end with NULL. */
static int unknown_command(char **words, const struct command *nearest)
{
    if (*words[0] == '-') {
        text_put_line(stderr, "cufence: unknown option '%s'; use --help (-h) or --version (-V)", words[0]);
        return STATUS_USAGE;
    }
    if (nearest || !suggest_run(words))
        text_put_line(stderr, "cufence: unknown command '%s'%s%s%s `cufence help` lists all", words[0],
                      nearest ? ", did you mean '" : ";", nearest ? nearest->name : "", nearest ? "'?" : "");
    return STATUS_USAGE;
}

static int run_help(int argc, char **argv)
{
    if (argc == 1)
        return print_usage();
    int is_exact;
    const struct command *command = command_find(argv[1], &is_exact);
    if (!is_exact)
        return unknown_command(argv + 1, command);
    if (argc > 2)
        return arguments_surplus("help", argv[2]);
    help_print(command);
    return 0;
}

static int dispatch(int argc, char **argv)
{
    if (argc == 0)
        return print_usage();
    if (!strcmp(argv[0], "help"))
        return run_help(argc, argv);
    if (is_help(argv[0]))
        return argc > 1 ? arguments_surplus(argv[0], argv[1]) : print_usage();
    if (!strcmp(argv[0], "--version") || !strcmp(argv[0], "-V")) {
        if (argc > 1)
            return arguments_surplus(argv[0], argv[1]);
        printf("cufence %s\n", cufence_version_string());
        return 0;
    }
    if (!strcmp(argv[0], "rerun")) /* started by cufence */
        return rerun_play();
    if (!strcmp(argv[0], "await")) /* likewise */
        return cli_await(argc, argv);
    int is_exact;
    const struct command *command = command_find(argv[0], &is_exact);
    environment_adopt();
    return is_exact ? command->run(argc, argv) : unknown_command(argv, command);
}

/* Where a standard descriptor is closed, the next file that is opened would get its number, and then what is printed. The
 * program of `cufence run` finds it closed. */
static void keep_numbers(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)!open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
}

/* Output into a full disk or a closed pipe is lost: a script must not take that for success. It is exported, so that the stacks
 * of a planted program end there (demo_bugs.h). */
PLANTED int main(int argc, char **argv)
{
    int is_planted = argc == 4 && !strcmp(argv[1], "planted");
    keep_numbers();
    int status = is_planted ? planted_main(argv[2], argv[3]) : dispatch(argc - 1, argv + 1);
    int failed = ferror(stdout);
    errno = 0;
    if (fflush(stdout) || failed) {
        fprintf(stderr, "cufence: cannot write to standard output%s%s\n", errno ? ": " : "", errno ? strerror(errno) : "");
        return status ? status : 1;
    }
    return status;
}
