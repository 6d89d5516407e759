/*
 * Text of the program's and of the user's. Pure.
 */
#pragma once

#include <cufence.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

/* Returns a JSON string in which every byte that is not valid UTF-8 is replaced by U+FFFD: names come from the program, and
 * labels are truncated. NULL if out of host memory. */
json_t *text_to_json(const char *text);

/* Puts '?' for control characters, which would end a line, or reach a terminal as an order. text_put() prints the text so.
 * Neither depends on the locale. */
void text_make_plain(char *text);
void text_put(FILE *out, const char *text);
void text_put_part(FILE *out, const char *text, size_t bytes); /* so many of it */

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
