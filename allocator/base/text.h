/*
 * Converts the program's text to JSON. Pure.
 */
#ifndef CUFENCE_BASE_TEXT_H
#define CUFENCE_BASE_TEXT_H

#include <jansson.h>

/* Returns a JSON string in which every byte that is not valid UTF-8 is replaced by U+FFFD: names come from the program, and
 * labels are truncated. NULL if out of host memory. */
json_t *text_to_json(const char *text);

#endif
