#include "text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

extern char *__cxa_demangle(const char *name, char *buffer, size_t *size, int *status);

enum { LONGEST_WORD = 64 };

/* Returns the length of the UTF-8 character at `at`, of which `left` bytes remain; 0 if no valid one starts there. */
static size_t character_length(const char *at, size_t left)
{
    for (size_t length = 1; length <= 4 && length <= left; length++) {
        json_t *character = json_stringn(at, length);
        json_decref(character);
        if (character)
            return length;
    }
    return 0;
}

static json_t *repaired_string(const char *text)
{
    static const char replacement[] = "\xef\xbf\xbd";
    size_t left = strlen(text), used = 0;
    char *clean = malloc(left * (sizeof replacement - 1) + 1);
    while (clean && left) {
        size_t length = character_length(text, left);
        memcpy(clean + used, length ? text : replacement, length ? length : sizeof replacement - 1);
        used += length ? length : sizeof replacement - 1;
        text += length ? length : 1;
        left -= length ? length : 1;
    }
    json_t *string = clean ? json_stringn(clean, used) : NULL;
    free(clean);
    return string;
}

json_t *text_to_json(const char *text)
{
    json_t *string = json_string(text);
    return string ? string : repaired_string(text);
}

static int plain(char letter)
{
    return (letter >= 0 && letter < ' ') || letter == 0x7f ? '?' : letter;
}

void text_make_plain(char *text)
{
    for (; *text; text++)
        *text = (char)plain(*text);
}

void text_put_part(FILE *out, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        putc(plain(text[i]), out);
}

void text_put(FILE *out, const char *text)
{
    text_put_part(out, text, strlen(text));
}

int text_put_json(FILE *out, json_t *object, size_t flags)
{
    int is_put = object && json_dumpf(object, out, flags) == 0 && fputc('\n', out) != EOF;
    json_decref(object);
    return is_put;
}

char *text_of_json(json_t *object, size_t flags)
{
    char *text = object ? json_dumps(object, flags) : NULL;
    size_t length = text ? strlen(text) : 0;
    char *line = text ? realloc(text, length + 2) : NULL;
    if (line)
        memcpy(line + length, "\n", 2);
    else
        free(text);
    json_decref(object);
    return line;
}

char *text_demangled(const char *name)
{
    int status;
    return strncmp(name, "_Z", 2) == 0 ? __cxa_demangle(name, NULL, NULL, &status) : NULL;
}

/* Levenshtein's distance without regard to case; `name` has at most LONGEST_WORD bytes. */
static size_t edit_distance(const char *word, size_t length, const char *name)
{
    size_t columns = strlen(name), row[LONGEST_WORD + 1];
    for (size_t j = 0; j <= columns; j++)
        row[j] = j;
    for (size_t i = 1; i <= length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= columns; j++) {
            size_t replaced = diagonal + (strncasecmp(word + i - 1, name + j - 1, 1) != 0);
            size_t shorter = row[j] < row[j - 1] ? row[j] : row[j - 1];
            diagonal = row[j];
            row[j] = shorter + 1 < replaced ? shorter + 1 : replaced;
        }
    }
    return row[columns];
}

/* Whether `name` is the word with two neighbouring letters exchanged, both of `length` letters. */
static int is_swapped(const char *word, size_t length, const char *name)
{
    size_t i = 0;
    while (i < length && word[i] == name[i])
        i++;
    return i + 1 < length && word[i] == name[i + 1] && word[i + 1] == name[i] &&
           !strncmp(word + i + 2, name + i + 2, length - i - 2);
}

size_t text_slip(const char *word, size_t length, const char *name)
{
    size_t size = strlen(name);
    if (length > LONGEST_WORD || size > LONGEST_WORD)
        return SIZE_MAX;
    size_t edits = length == size && is_swapped(word, length, name) ? 1 : edit_distance(word, length, name);
    return edits <= 2 && 2 * edits < size ? edits : SIZE_MAX;
}

size_t text_nearest(const char *word, size_t length, const void *elements, size_t size, size_t count, size_t *edits)
{
    size_t nearest = count, best = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        size_t far = text_slip(word, length, *(const char *const *)((uintptr_t)elements + i * size));
        nearest = far < best ? i : nearest;
        best = far < best ? far : best;
    }
    if (edits)
        *edits = best;
    return nearest;
}
