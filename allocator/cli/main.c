#include "arguments.h"
#include "cli.h"
#include "base/error.h"
#include "base/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

struct command {
    const char *name;
    const char *help;
    int (*run)(int argc, char **argv);
};

static int run_options(int argc, char **argv);

static const struct command commands[] = {
    {"run", "any program that uses CUDA, unmodified, with its GPU buffers under cufence", cli_run},
    {"demo", "a planted bug and its report, on a simulated device where there is no GPU", cli_demo},
    {"explain", "a GPU core dump in words: what faulted, where every thread stood, with which registers", cli_explain},
    {"report", "the findings of many processes as one list, HTML page, or SARIF", cli_report},
    {"options", "every option with its allowed values and its default, or check a list of them", run_options},
    {"doctor", "what this machine's driver and permissions allow, and what to do about each 'no'", cli_doctor},
};

#define COMMANDS (sizeof commands / sizeof commands[0])

static int is_help(const char *argument)
{
    return !strcmp(argument, "--help") || !strcmp(argument, "-h");
}

static const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (!strcmp(commands[i].name, name))
            return &commands[i];
    return NULL;
}

static int print_usage(void)
{
    printf("cufence %s: Electric Fence for CUDA\n\nusage: cufence COMMAND [arguments]\n\n", cufence_version_string());
    for (size_t i = 0; i < COMMANDS; i++)
        printf("  %-8s  %s\n", commands[i].name, commands[i].help);
    printf("\n  cufence COMMAND --help says more about one; cufence --version prints the version.\n"
           "  Options are read from CUFENCE_OPTIONS=\"key=value,key=value\".\n");
    return 0;
}

static int unknown_command(const char *name)
{
    fprintf(stderr, "cufence: unknown command '%s'; allowed are", name);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(stderr, " %s,", commands[i].name);
    fprintf(stderr, " help, --help and --version\n");
    return CLI_USAGE;
}

static int options_usage(void)
{
    printf("usage: cufence options [--check \"key=value,...\"]\n\n"
           "  Prints every option with its allowed values, its default and what it does.\n"
           "  --check  prints nothing, but exits with status %d and says why if the options are not allowed.\n",
           CLI_USAGE);
    return 0;
}

static int run_options(int argc, char **argv)
{
    static const struct argument known[] = {{"check", "uaf=strict,align=auto"}};
    static const struct arguments arguments = {"options", known, 1, 0};
    struct options options;
    int option, is_check = 0;

    options_default(&options);
    while ((option = arguments_next(&arguments, argc, argv)) != ARGUMENTS_END) {
        if (option < 0)
            return option == ARGUMENTS_HELP ? options_usage() : CLI_USAGE;
        is_check = 1;
        if (options_parse(&options, optarg, "--check")) {
            fprintf(stderr, "cufence options: %s\n", error_detail());
            return CLI_USAGE;
        }
    }
    if (optind < argc)
        return arguments_surplus("options", argv[optind]);
    if (!is_check)
        options_print(stdout);
    return 0;
}

static int run_help(int argc, char **argv)
{
    if (argc == 1)
        return print_usage();
    const struct command *command = command_find(argv[1]);
    if (!command)
        return unknown_command(argv[1]);
    if (argc > 2)
        return arguments_surplus("help", argv[2]);
    char help[] = "--help";
    char *arguments[] = {argv[1], help, NULL};
    return command->run(2, arguments);
}

static int dispatch(int argc, char **argv)
{
    if (argc == 0) {
        fprintf(stderr, "cufence: no command given; `cufence --help` lists them\n");
        return CLI_USAGE;
    }
    if (!strcmp(argv[0], "help"))
        return run_help(argc, argv);
    if (is_help(argv[0]))
        return argc > 1 ? arguments_surplus(argv[0], argv[1]) : print_usage();
    if (!strcmp(argv[0], "--version")) {
        if (argc > 1)
            return arguments_surplus(argv[0], argv[1]);
        printf("cufence %s\n", cufence_version_string());
        return 0;
    }
    const struct command *command = command_find(argv[0]);
    if (!command)
        return unknown_command(argv[0]);
    return command->run(argc, argv);
}

/* What was printed into a full disk or a closed pipe was not said: a script must not take it for success. */
int main(int argc, char **argv)
{
    int status = dispatch(argc - 1, argv + 1);
    int failed = ferror(stdout);
    errno = 0;
    if (fflush(stdout) || failed) {
        fprintf(stderr, "cufence: cannot write to standard output%s%s\n", errno ? ": " : "", errno ? strerror(errno) : "");
        return status ? status : 1;
    }
    return status;
}
