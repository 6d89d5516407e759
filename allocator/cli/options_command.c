/* `cufence options`: lists the options, or some of them, or checks a text of them. */
#include "command_line.h"
#include "base/error.h"
#include "base/options.h"
#include "base/text.h"

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define complain(status, ...) arguments_complain("options", status, __VA_ARGS__)

static void print_row(const struct option_row *row)
{
    char text[512];
    snprintf(text, sizeof text, "%s (default: %s)", row->allowed, *row->default_value ? row->default_value : "none");
    printf("%s: ", row->name);
    words_print(stdout, text, strlen(row->name) + 2);
    printf("    ");
    words_print(stdout, row->help, 4);
}

static json_t *row_object(const struct option_row *row)
{
    static const char *const types[] = {
        [OPTION_CHOICE] = "choice", [OPTION_ALIGN] = "alignment", [OPTION_BYTES] = "bytes",
        [OPTION_NUMBER] = "number", [OPTION_FILL] = "byte",       [OPTION_SWITCH] = "switch",
        [OPTION_RULES] = "rules",   [OPTION_PATH] = "path",       [OPTION_FILTER] = "filter",
    };
    return json_pack("{ss ss ss ss ss}", "key", row->name, "type", types[row->type], "allowed", row->allowed, "default",
                     row->default_value, "help", row->help);
}

/* The row of a key, written as an option of `run` or not. NULL after a message. */
static const struct option_row *row_of(const char *typed)
{
    char key[64];
    int is_exact = 0;
    const char *start = typed + strspn(typed, "-");
    snprintf(key, sizeof key, "%s", start);
    for (char *at = key; (at = strchr(at, '-'));)
        *at = '_';
    const struct option_row *row = options_find(key, strlen(key), &is_exact);
    if (is_exact)
        return row;
    complain(0, "unknown option '%s'%s%s%s `cufence options` lists all", typed, row ? ", did you mean '" : ";",
             row ? row->name : "", row ? "'?" : "");
    return NULL;
}

struct wanted {
    int is_json;
    const char *check;
};

/* Prints the rows of the keys, or of all options. */
static int print_rows(const struct wanted *wanted, char **keys)
{
    enum { MOST = 256 };
    const struct option_row *shown[MOST];
    size_t rows, count = 0;
    const struct option_row *row = options_table(&rows);
    for (size_t i = 0; i < rows && !*keys; i++)
        shown[count++] = &row[i];
    for (; *keys && count < MOST; keys++)
        if (!(shown[count++] = row_of(*keys)))
            return STATUS_USAGE;
    json_t *list = wanted->is_json ? json_array() : NULL;
    for (size_t i = 0; i < count; i++) {
        if (wanted->is_json)
            json_array_append_new(list, row_object(shown[i]));
        else
            print_row(shown[i]);
    }
    return !wanted->is_json || text_put_json(stdout, list, JSON_INDENT(1)) ? 0 : STATUS_FAILED;
}

static const struct argument arguments[] = {
    {"check", "key=value,...", "print nothing; exit with status 2 and say why if these are not allowed",
     .offset = offsetof(struct wanted, check)},
    {"json", NULL, "as JSON; a list of objects with key, type, allowed, default and help, of all options unless some are named",
     .offset = offsetof(struct wanted, is_json)},
};

static int run(int argc, char **argv)
{
    struct wanted wanted = {0};
    struct options options;
    int status;
    if (!arguments_read(&options_command, argc, argv, &wanted, &status))
        return status;
    if (!wanted.check)
        return print_rows(&wanted, argv + optind);
    options_default(&options);
    if (options_parse(&options, wanted.check, "--check"))
        return complain(STATUS_USAGE, "%s", error_detail());
    if (wanted.is_json)
        return complain(STATUS_USAGE, "--check prints nothing: leave --json out");
    return optind < argc ? arguments_surplus("options", argv[optind]) : 0;
}

const struct command options_command = {
    .name = "options",
    .help = "print every option with its allowed values and default",
    .run = run,
    ARGUMENTS(arguments),
    .operands = "[KEY]...",
    .most = -1,
    .about = "Prints the options, or those named, with their allowed values, defaults and what they do.",
    .examples = "Example: cufence options uaf align\n",
};
