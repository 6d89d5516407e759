#include "words.h"

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
