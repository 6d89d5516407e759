#include "diff.h"

#include "arguments.h"
#include "cli.h"
#include "words.h"
#include "statuses.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum { UNUSABLE = 2, MOST = 100000 };

static int usage(void)
{
    printf("usage: cufence diff [--all N] [--ignore WHAT]... [--json] A B\n\n"
           "Compares the traces of two runs and shows the first launch that differs, and\n"
           "how: another kernel, other arguments, other inputs and where they came from,\n"
           "or equal inputs and other outputs: a race, an order of atomics, or another\n"
           "compiler or GPU. Each stream is compared by itself (`cufence docs diff`).\n\n"
           "  --all N        the first N differences; one by default\n"
           "  --ignore WHAT  scalars, place, grid, buffers (their names); several with\n"
           "                 commas\n"
           "  --json         one JSON document\n\n"
           "Example: cufence run --trace a.jsonl -- python train.py\n"
           "         cufence run --trace b.jsonl -- python train.py\n"
           "         cufence diff a.jsonl b.jsonl\n");
    statuses_print("diff");
    return 0;
}

enum { ALL, IGNORE, JSON, KNOWN };
static const struct argument known[KNOWN] = {
    [ALL] = {"all", "10", "how many differences to list", NULL},
    [IGNORE] = {"ignore", "place", "what not to compare", "scalars place grid buffers"},
    [JSON] = {"json", NULL, "one JSON document", NULL},
};
const struct arguments diff_arguments = {"diff", known, KNOWN, ARGUMENT_FILE, 0, 0};

/* Returns 0 after a message. */
static int take_ignored(const char *list, unsigned *ignored)
{
    static const struct {
        const char *word;
        unsigned flag;
    } words[] = {{"scalars", TRACE_IGNORE_SCALARS},
                 {"place", TRACE_IGNORE_PLACE},
                 {"grid", TRACE_IGNORE_GRID},
                 {"buffers", TRACE_IGNORE_BUFFERS}};
    const char *at = list;
    do {
        size_t length = strcspn(at, ","), i = 0;
        while (i < 4 && (strlen(words[i].word) != length || strncmp(words[i].word, at, length) != 0))
            i++;
        if (i == 4)
            return !arguments_complain("diff", CLI_USAGE, "--ignore '%.*s' is not allowed; use scalars, place, grid, buffers",
                                       (int)(length < 64 ? length : 64), at);
        *ignored |= words[i].flag;
        at += length;
    } while (*at++ == ',');
    return 1;
}

/* Returns 0 after a message. */
static int take_all(const char *text, size_t *most)
{
    char *end = NULL;
    errno = 0;
    unsigned long number = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;
    *most = number;
    if (end && !*end && !errno && number >= 1 && number <= MOST)
        return 1;
    return !arguments_complain("diff", CLI_USAGE, "--all '%.64s' is not allowed; use 1..%d", text, (int)MOST);
}

/* Returns the exit status. */
static int compare(struct diff *diff, const char *a, const char *b, int is_json)
{
    struct problem problem;
    cufence_status status = diff_open(diff, a, b, &problem);
    if (status == CUFENCE_OK)
        status = diff_compare(diff, &problem);
    if (status == CUFENCE_OK && is_json)
        status = diff_print_json(diff, &problem);
    else if (status == CUFENCE_OK) {
        FILE *terminal = words_hold();
        status = diff_print_text(diff, &problem);
        words_release(terminal);
    }
    if (status != CUFENCE_OK)
        return arguments_complain("diff", UNUSABLE, "%s", problem.text);
    return diff->found_count ? 1 : 0;
}

int cli_diff(int argc, char **argv)
{
    struct diff diff = {.most = 1};
    int option, is_json = 0;
    while ((option = arguments_next(&diff_arguments, argc, argv)) != ARGUMENTS_END) {
        if (option == ARGUMENTS_HELP)
            return usage();
        if (option == ARGUMENTS_WRONG || (option == ALL && !take_all(optarg, &diff.most)) ||
            (option == IGNORE && !take_ignored(optarg, &diff.ignored)))
            return CLI_USAGE;
        is_json |= option == JSON;
    }
    if (argc - optind < 2)
        return arguments_complain(
            "diff", CLI_USAGE, "two traces are needed; `cufence run --trace FILE -- PROGRAM` makes one (`cufence docs diff`)");
    if (argc - optind > 2)
        return arguments_surplus("diff", argv[optind + 2]);
    int status = compare(&diff, argv[optind], argv[optind + 1], is_json);
    diff_close(&diff);
    return status;
}
