#include "words.h"

#include "base/output.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

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

void words_print(FILE *out, const char *text, size_t indent)
{
    int terminal = fold_columns(fileno(out));
    words_print_within(out, text, indent, terminal && terminal < WORDS_COLUMNS ? (size_t)terminal : WORDS_COLUMNS);
}

void words_print_place(FILE *out, const char *text, size_t indent)
{
    if (fold_columns(fileno(out)))
        words_print(out, text, indent);
    else
        fprintf(out, "%s\n", text);
}

void words_plain(FILE *out, const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) >= 0) {
        text_put(out, text);
        free(text);
    }
    va_end(arguments);
}

void words_report(FILE *out, const char *text)
{
    int columns = fold_columns(fileno(out));
    char *folded = columns && text ? fold_text(text, columns) : NULL;
    fputs(folded ? folded : text ? text : "cufence: the host has no memory for the report\n", out);
    free(folded);
}

static char *held; /* the text of stdout between words_hold() and words_release() */
static size_t held_size;

FILE *words_hold(void)
{
    FILE *terminal = stdout, *memory = fold_columns(fileno(stdout)) ? open_memstream(&held, &held_size) : NULL;
    if (!memory)
        return NULL;
    stdout = memory;
    return terminal;
}

void words_release(FILE *terminal)
{
    if (!terminal)
        return;
    fclose(stdout);
    stdout = terminal;
    words_report(stdout, held ? held : "");
    free(held);
    held = NULL;
}
