/*
 * Text of the program's as JSON. Pure.
 */
#ifndef CUFENCE_BASE_TEXT_H
#define CUFENCE_BASE_TEXT_H

#include <jansson.h>

/* A string in which every byte that is no UTF-8 became U+FFFD: names come from the program, and labels are cut to fit. NULL
 * when the host is out of memory. */
json_t *text_to_json(const char *text);

#endif
