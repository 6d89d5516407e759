
#include "report.h"

#include <stdio.h>
#include <string.h>

#define RESET "\033[0m"
#define DIM "\033[2m"
#define BAD "\033[1;31m"
#define BOLD "\033[1m"

static const struct {
    const char *word, *colour;
} certainties[] = {{" exact", "\033[32m"}, {" re-run", "\033[36m"}, {" derived", "\033[33m"}, {" candidate", "\033[35m"}};

/* Returns the length of "==4242== ", 0 if there is no prefix. */
static size_t prefix_of(const char *line)
{
    size_t digits = strncmp(line, "==", 2) ? 0 : strspn(line + 2, "0123456789");
    return digits && !strncmp(line + 2 + digits, "== ", 3) ? digits + 5 : 0;
}

/* Returns the colour of the whole line, "" for none. */
static const char *colour_of(const char *line, int is_first)
{
    if (is_first || !strncmp(line, "SUMMARY: ", 9))
        return BAD;
    return !strncmp(line, "  at ", 5) || !strncmp(line, "  > ", 4) ? BOLD : "";
}

/* Returns the offset of the certainty at the end of the line, its length if there is none. */
static size_t mark_of(const char *line, size_t length, const char **colour)
{
    for (size_t i = 0; i < sizeof certainties / sizeof certainties[0]; i++) {
        size_t size = strlen(certainties[i].word);
        if (length > size + 1 && line[length - size - 1] == ' ' && !strncmp(line + length - size, certainties[i].word, size)) {
            *colour = certainties[i].colour;
            return length - size + 1;
        }
    }
    return length;
}

static void put_line(FILE *out, const char *line, size_t length, int is_first)
{
    size_t prefix = prefix_of(line);
    const char *mark_colour = "";
    fprintf(out, "%s%.*s%s", prefix ? DIM : "", (int)prefix, line, prefix ? RESET : "");
    line += prefix;
    length -= prefix;
    const char *colour = colour_of(line, is_first);
    size_t mark = *colour ? length : mark_of(line, length, &mark_colour);
    fprintf(out, "%s%.*s%s", colour, (int)mark, line, *colour ? RESET : "");
    if (mark < length)
        fprintf(out, "%s%.*s%s", mark_colour, (int)(length - mark), line + mark, RESET);
    putc('\n', out);
}

char *colour_text(const char *text)
{
    char *coloured = NULL;
    size_t size, length;
    FILE *out = open_memstream(&coloured, &size);
    if (!out)
        return NULL;
    for (int is_first = 1; *text; text += length + (text[length] == '\n'), is_first = 0) {
        length = strcspn(text, "\n");
        put_line(out, text, length, is_first);
    }
    return fclose(out) ? NULL : coloured;
}
