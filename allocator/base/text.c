#include "text.h"

#include "error.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

extern char *__cxa_demangle(const char *name, char *buffer, size_t *size, int *status);

enum { LONGEST_WORD = 64 };

/* What is not seen, or changes how other letters are: controls, and what Unicode calls default ignorable (directions, joiners,
 * tags), but for variation selectors. */
static const uint32_t unseen[][2] = {
    {0, 0x1f},        {0x7f, 0x9f},     {0xad, 0xad},     {0x34f, 0x34f},     {0x61c, 0x61c},     {0x115f, 0x1160},
    {0x17b4, 0x17b5}, {0x180b, 0x180f}, {0x200b, 0x200f}, {0x2028, 0x202e},   {0x2060, 0x206f},   {0x3164, 0x3164},
    {0xfeff, 0xfeff}, {0xffa0, 0xffa0}, {0xfff0, 0xfffb}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
};

/* Stores the UTF-8 letter at `text`, of which `left` bytes remain, at least one. Returns its length; 0 if no valid one starts
 * there. */
static size_t letter_at(const char *text, size_t left, uint32_t *letter)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *at = (const unsigned char *)text;
    size_t length = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
    if (length > left || at[0] > 0xf4)
        return 0;
    *letter = length == 1 ? at[0] : at[0] & 0x7fu >> length;
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        *letter = *letter << 6 | (at[i] & 0x3fu);
    }
    return *letter >= least[length] && *letter <= 0x10ffff && (*letter < 0xd800 || *letter > 0xdfff) ? length : 0;
}

/* Returns the text to show for the letter there: "?" for one that is not seen, and for a byte that is not UTF-8. *taken: its
 * bytes, all of which are shown if it is not "?". */
static const char *shown_at(const char *text, size_t left, size_t *taken)
{
    uint32_t letter;
    size_t length = letter_at(text, left, &letter), i = 0;
    *taken = length ? length : 1;
    while (length && i < sizeof unseen / sizeof *unseen && (letter < unseen[i][0] || letter > unseen[i][1]))
        i++;
    return i < sizeof unseen / sizeof *unseen ? "?" : text;
}

size_t text_vformat(char *out, size_t size, const char *format, va_list arguments)
{
    int length = vsnprintf(out, size, format, arguments);
    size_t used = length < 0 ? 0 : (size_t)length, start;
    uint32_t letter;
    if (used < size || !size)
        return used;
    for (start = used = size - 1; start && ((unsigned char)out[start - 1] & 0xc0) == 0x80; start--)
        ;
    start -= start && (unsigned char)out[start - 1] >= 0xc0;
    if (start < used && !letter_at(out + start, used - start, &letter))
        used = start;
    out[used] = '\0';
    return used;
}

size_t text_format(char *out, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    size_t length = text_vformat(out, size, format, arguments);
    va_end(arguments);
    return length;
}

static json_t *repaired_string(const char *text)
{
    static const char replacement[] = "\xef\xbf\xbd";
    size_t left = strlen(text), used = 0;
    char *clean = malloc(left * (sizeof replacement - 1) + 1);
    while (clean && left) {
        uint32_t letter;
        size_t length = letter_at(text, left, &letter);
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

/* `kept`: a letter that stays, though it is not seen; 0: none. */
static void make_plain(char *text, char kept)
{
    char *to = text;
    for (size_t left = strlen(text), taken; left; text += taken, left -= taken) {
        const char *shown = shown_at(text, left, &taken);
        size_t length = shown == text ? taken : 1;
        memmove(to, *text == kept ? text : shown, length);
        to += length;
    }
    *to = '\0';
}

void text_make_plain(char *text)
{
    make_plain(text, 0);
}

void text_make_lines_plain(char *text)
{
    make_plain(text, '\n');
}

void text_put_part(FILE *out, const char *text, size_t bytes)
{
    for (size_t taken; bytes; text += taken, bytes -= taken) {
        const char *shown = shown_at(text, bytes, &taken);
        fwrite(shown, 1, shown == text ? taken : 1, out);
    }
}

void text_put(FILE *out, const char *text)
{
    text_put_part(out, text, strlen(text));
}

void text_put_line(FILE *out, const char *format, ...)
{
    char *line = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&line, format, arguments) >= 0) {
        text_make_plain(line);
        fprintf(out, "%s\n", line);
        free(line);
    }
    va_end(arguments);
}

/* Escapes what is not seen; jansson has escaped controls of ASCII. */
static void put_json(FILE *out, const char *json)
{
    for (size_t left = strlen(json), taken; left; json += taken, left -= taken) {
        uint32_t letter = 0;
        for (taken = 0; taken < left && json[taken] > 0 && json[taken] < 0x7f; taken++)
            ;
        if (taken || shown_at(json, left, &taken) == json)
            fwrite(json, 1, taken, out);
        else if (letter_at(json, left, &letter) && letter > 0xffff)
            fprintf(out, "\\u%04X\\u%04X", 0xd7c0 + (letter >> 10), 0xdc00 | (letter & 0x3ff));
        else
            fprintf(out, "\\u%04X", letter);
    }
}

char *text_of_json(json_t *object, size_t flags)
{
    size_t size;
    char *text = object ? json_dumps(object, flags) : NULL, *line = NULL;
    FILE *out = text ? open_memstream(&line, &size) : NULL;
    if (out) {
        put_json(out, text);
        int is_whole = fputc('\n', out) != EOF && !ferror(out);
        if (fclose(out) != 0 || !is_whole) {
            free(line);
            line = NULL;
        }
    }
    free(text);
    json_decref(object);
    return line;
}

int text_put_json(FILE *out, json_t *object, size_t flags)
{
    char *text = text_of_json(object, flags);
    int is_put = text && fputs(text, out) != EOF;
    free(text);
    return is_put;
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

cufence_status problem_set(struct problem *problem, cufence_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    text_vformat(problem->text, sizeof problem->text, format, arguments);
    va_end(arguments);
    text_make_plain(problem->text);
    return status;
}
