/* `cufence options`: lists the options, or checks a text of them. */
#include "arguments.h"
#include "cli.h"
#include "words.h"
#include "base/error.h"
#include "base/fold.h"
#include "base/options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int usage(void)
{
    printf("usage: cufence options [--check \"key=value,...\"]\n\n"
           "Prints every option with its allowed values, its default and what it does.\n\n"
           "  --check  prints nothing, but exits with status %d and says why if the options\n"
           "           are not allowed\n\n"
           "Example: cufence options --check uaf=strict,align=auto\n",
           CLI_USAGE);
    return 0;
}

/* The table of options_print() is wider than any terminal. */
static void print_on_terminal(void)
{
    size_t rows;
    char text[512];
    const struct option_row *row = options_table(&rows);
    for (size_t i = 0; i < rows; i++) {
        const char *value = row[i].default_value;
        snprintf(text, sizeof text, "%s (default: %s)", row[i].allowed, *value ? value : "none");
        printf("%s: ", row[i].name);
        words_print(stdout, text, strlen(row[i].name) + 2);
        printf("    ");
        words_print(stdout, row[i].help, 4);
    }
}

static const struct argument known[] = {{"check", "uaf=strict,align=auto", "say only whether these are allowed", NULL}};
const struct arguments options_arguments = {"options", known, 1, NULL, 0, 0};

int cli_options(int argc, char **argv)
{
    struct options options;
    int option, is_check = 0;

    options_default(&options);
    while ((option = arguments_next(&options_arguments, argc, argv)) != ARGUMENTS_END) {
        if (option < 0)
            return option == ARGUMENTS_HELP ? usage() : CLI_USAGE;
        is_check = 1;
        if (options_parse(&options, optarg, "--check")) {
            fprintf(stderr, "cufence options: %s\n", error_detail());
            return CLI_USAGE;
        }
    }
    if (optind < argc)
        return arguments_surplus("options", argv[optind]);
    if (!is_check && fold_columns(STDOUT_FILENO))
        print_on_terminal();
    else if (!is_check)
        options_print(stdout);
    return 0;
}
