#include "command_line.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- text in lines ---- */

/* Bytes but for the second and later ones of UTF-8's characters. */
static size_t columns_of(const char *word, size_t length)
{
    size_t columns = 0;
    for (size_t i = 0; i < length; i++)
        columns += ((unsigned char)word[i] & 0xc0) != 0x80;
    return columns;
}

void words_print_within(FILE *out, const char *text, size_t indent, size_t most)
{
    size_t column = indent;
    for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
        size_t length = strcspn(text, " "), columns = columns_of(text, length);
        if (column > indent && column + 1 + columns > most) {
            fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", (int)length, text);
        column += columns;
        text += length;
    }
    fputc('\n', out);
}

/* ---- exit statuses ---- */

enum { STATUS_INDENT = 9, OPTION_INDENT = 23 };

struct row {
    const char *commands; /* with a blank around each; NULL: what it means in general */
    const char *number, *meaning;
};

static const struct row table[] = {
    {NULL, "0", "done, and nothing was found"},
    {NULL, "1", "it failed, or the answer is no"},
    {NULL, "2", "a wrong command line or option, or a file named there that cannot be used"},
    {NULL, "3", "replay: a different result than before"},
    {NULL, "86", "something was found; the option on_fault sets another number"},
    {NULL, "87", "no verdict: nothing was guarded, or not every run could be made"},
    {NULL, "126", "the program cannot be run under cufence"},
    {NULL, "127", "there is no such program"},
    {NULL, "128+N", "signal N ended it"},

    {" explain options ", "0", "done"},
    {" report ", "0", "done; with --exit-code: and no finding is left"},
    {" demo ", "0", "the bug was reported correctly"},
    {" doctor ", "0", "cufence can work here"},
    {" stuck ", "0", "each process has answered"},
    {" hunt ", "0", "every run was made, and nothing was found"},
    {" replay ", "0", "the launch did not fault, and wrote the same as before"},
    {" run ", "0-255", "the program's own, unless one below applies"},
    {" explain options ", "1", "a file could not be read or written"},
    {" report ", "1", "a document could not be written whole"},
    {" demo ", "1", "it was not"},
    {" doctor ", "1", "something is missing"},
    {" stuck ", "1", "a process has not answered"},
    {" replay ", "1", "the kernel could not be launched"},
    {" demo doctor explain options replay stuck ", "2", "a wrong command line or option"},
    {" report ", "2", "a wrong command line, or a file named there that cannot be used"},
    {" hunt run ", "2", "a wrong command line or option, or a file named there that cannot be written"},
    {" replay ", "3", "the launch did not fault, but wrote something different"},
    {" hunt ", "86", "something was found (--error-exitcode)"},
    {" replay ", "86", "the launch faulted or wrote out of bounds (the option on_fault)"},
    {" run ", "86", "something was found, and the program would have exited with 0 (the option on_fault)"},
    {" hunt ", "87", "nothing was found, but not every run could be made, or nothing was guarded"},
    {" report ", "86", "a finding is left (--exit-code)"},
    {" report ", "87", "no verdict: a file could not be read; with --exit-code also: nothing was guarded"},
    {" run ", "87", "nothing was guarded, and the program would have exited with 0 (--require-guarded)"},
    {" hunt run ", "126", "the program cannot be run under cufence"},
    {" hunt run ", "127", "there is no such program"},
    {" hunt ", "128+N", "signal N ended the hunt before anything was found"},
};

void help_statuses(const char *command)
{
    char name[32];
    snprintf(name, sizeof name, " %s ", command ? command : "");
    printf("\nExit status:\n");
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const struct row *row = &table[i];
        if (command ? !row->commands || !strstr(row->commands, name) : row->commands != NULL)
            continue;
        printf("  %-5s  ", row->number);
        words_print_within(stdout, row->meaning, STATUS_INDENT, WORDS_HELP);
    }
}

/* ---- of one sub-command ---- */

/* "usage: cufence replay [--check] FOLDER". No word of it is broken. */
struct usage {
    size_t indent, column;
};

static void put_word(struct usage *usage, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put_word(struct usage *usage, const char *format, ...)
{
    char word[64];
    va_list arguments;
    va_start(arguments, format);
    size_t length = (size_t)vsnprintf(word, sizeof word, format, arguments);
    va_end(arguments);
    if (usage->column + 1 + length > WORDS_HELP) {
        printf("\n%*s", (int)usage->indent, "");
        usage->column = usage->indent;
    }
    usage->column += (size_t)printf(" %s", word);
}

static void put_usage(const struct command *command)
{
    struct usage usage;
    usage.indent = usage.column = (size_t)printf("usage: cufence %s", command->name);
    for (size_t i = 0; i < command->count; i++) {
        const struct argument *argument = &command->arguments[i];
        put_word(&usage, "[--%s%s%s]", argument->name, argument->value ? " " : "", argument->value ? argument->value : "");
    }
    if (command->take_row)
        put_word(&usage, "[--KEY VALUE]...");
    if (command->is_operand_the_end)
        put_word(&usage, "[--]");
    if (command->operands)
        put_word(&usage, "%s", command->operands);
    putchar('\n');
}

static void put_option(const char *name, const char *value, const char *help)
{
    int width = printf("  --%s%s%s", name, value ? " " : "", value ? value : "");
    int is_wide = width + 2 > OPTION_INDENT; /* the help begins in a line of its own */
    printf("%s%*s", is_wide ? "\n" : "", is_wide ? OPTION_INDENT : OPTION_INDENT - width, "");
    words_print_within(stdout, help, OPTION_INDENT, WORDS_HELP);
}

void help_print(const struct command *command)
{
    put_usage(command);
    for (const char *at = command->about; *at; at += *at == '\n') {
        char paragraph[1024];
        size_t length = strcspn(at, "\n");
        snprintf(paragraph, sizeof paragraph, "%.*s", (int)length, at);
        putchar('\n');
        words_print_within(stdout, paragraph, 0, WORDS_HELP);
        at += length;
    }
    if (command->count || command->take_row)
        putchar('\n');
    for (size_t i = 0; i < command->count; i++)
        put_option(command->arguments[i].name, command->arguments[i].value, command->arguments[i].help);
    if (command->take_row)
        put_option("KEY", "VALUE", "an option that `cufence options` lists, such as --uaf strict");
    if (command->is_operand_the_end)
        put_option("", NULL, "ends the options; needed if PROGRAM begins with a dash");
    if (command->more)
        command->more();
    printf("\n%s", command->examples);
    help_statuses(command->name);
}
