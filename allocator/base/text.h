/*
 * Text of the program's and of the user's: whatever leaves cufence goes through here. A person at a terminal gets valid UTF-8
 * without letters that are not seen (controls, also those above ASCII, and letters that change the direction or have no width);
 * JSON has those as escapes, and means the same. Nothing depends on the locale. Pure.
 */
#pragma once

#include <cufence.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Returns a JSON string in which every byte that is not valid UTF-8 is replaced by U+FFFD: names come from the program, and
 * labels are truncated. NULL if out of host memory. */
json_t *text_to_json(const char *text);

/* Put one '?' for each letter that is not seen, which would end a line, or reach a terminal as an order, and for each byte that
 * is not UTF-8. The second keeps ends of lines. */
void text_make_plain(char *text);
void text_make_lines_plain(char *text);
void text_put(FILE *out, const char *text);
void text_put_part(FILE *out, const char *text, size_t bytes); /* so many of it */

/* Prints one line, whatever its arguments hold, and ends it. */
void text_put_line(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Like snprintf(), but what does not fit is cut between two letters. Return the length of what is there. */
size_t text_format(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
size_t text_vformat(char *out, size_t size, const char *format, va_list arguments) __attribute__((format(printf, 3, 0)));

static inline int text_starts_with(const char *text, const char *start)
{
    return !strncmp(text, start, strlen(start));
}

/* What makes a noun of so many: "s", or "" for one; and "es", of launch and process. */
static inline const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

static inline const char *plural_es(uint64_t count)
{
    return count == 1 ? "" : "es";
}

/* Returns the object as malloc'ed text and a newline, and drops it. `flags` are jansson's: with JSON_COMPACT it is one line.
 * NULL for NULL, or if out of host memory. */
char *text_of_json(json_t *object, size_t flags);

/* Prints it so, and drops it. Returns 0 for NULL, if out of host memory, or if it could not be written. */
int text_put_json(FILE *out, json_t *object, size_t flags);

/* Returns the C++ name behind a mangled one, which the caller frees; NULL if it is none. */
char *text_demangled(const char *name);

/* How many letters of `word` (`length` bytes) have to be changed, added or left out to get `name`; upper and lower case are
 * alike, and two neighbours that were exchanged count once. SIZE_MAX if that is too many for a slip: more than two, or half of
 * the name. */
size_t text_slip(const char *word, size_t length, const char *name);

/* Returns the index of the name that the word is probably a slip of, `count` if there is none. Each of the elements, of `size`
 * bytes, begins with a pointer to its name. *edits: how far it is, by text_slip(); NULL: not wanted. */
size_t text_nearest(const char *word, size_t length, const void *elements, size_t size, size_t count, size_t *edits);

/* The version as text, "0.2.0". */
#define VERSION_STRING_(x) #x
#define VERSION_STRING(x) VERSION_STRING_(x)
#define VERSION_TEXT                                                                                                           \
    VERSION_STRING(CUFENCE_VERSION_MAJOR) "." VERSION_STRING(CUFENCE_VERSION_MINOR) "." VERSION_STRING(CUFENCE_VERSION_PATCH)
