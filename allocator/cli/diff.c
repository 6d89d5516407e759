#include "diff.h"

#include "arguments.h"
#include "cli.h"
#include "words.h"

#include <getopt.h>
#include <stddef.h>

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
        return arguments_complain("diff", STATUS_USAGE, "%s", problem.text);
    return diff->found_count ? 1 : 0;
}

/* In the order of enum TRACE_IGNORE_...: scalars is the bit 1. */
#define IGNORED "scalars place grid buffers"

struct wanted {
    uint64_t all;
    unsigned ignored;
    int is_json;
};

static const struct argument arguments[] = {
    {"all", "N", "the first N differences; one by default", NULL, offsetof(struct wanted, all), arguments_number,
     .most = 100000},
    {"ignore", "WHAT", "scalars, place, grid, buffers (their names); several with commas", IGNORED,
     offsetof(struct wanted, ignored), .take = arguments_bits},
    {"json", NULL, "one JSON document", NULL, .offset = offsetof(struct wanted, is_json)},
};

static int run(int argc, char **argv)
{
    struct wanted wanted = {.all = 1};
    int status;
    if (!arguments_read(&diff_command, argc, argv, &wanted, &status))
        return status;
    struct diff diff = {.most = wanted.all, .ignored = wanted.ignored};
    status = compare(&diff, argv[optind], argv[optind + 1], wanted.is_json);
    diff_close(&diff);
    return status;
}

const struct command diff_command = {
    .name = "diff",
    .help = "find the first launch in which two runs differ",
    .run = run,
    ARGUMENTS(arguments),
    .operands = "A B",
    .values = ARGUMENT_FILE,
    .least = 2,
    .most = 2,
    .missing = "two traces are needed; `cufence run --trace FILE -- PROGRAM` makes one (`cufence docs diff`)",
    .about =
        "Compares the traces of two runs and shows the first launch that differs, and how: another kernel, other arguments, "
        "other inputs and where they came from, or equal inputs and other outputs: a race, an order of atomics, or another "
        "compiler or GPU. Each stream is compared by itself (`cufence docs diff`).",
    .examples = "Example: cufence run --trace a.jsonl -- python train.py\n"
                "         cufence run --trace b.jsonl -- python train.py\n"
                "         cufence diff a.jsonl b.jsonl\n",
};
