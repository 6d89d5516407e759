/* Text for people, broken into lines. */
#pragma once

#include <stddef.h>
#include <stdio.h>

enum { WORDS_COLUMNS = 100, WORDS_HELP = 79 }; /* of what is printed; of --help */

/* Prints `text` and a newline, in lines of at most so many columns. The first one begins where `out` stands, which is column
 * `indent`; the others are indented by as much. A word that is longer than a line is never cut. */
void words_print_within(FILE *out, const char *text, size_t indent, size_t columns);
#define words_print(out, text, indent) words_print_within(out, text, indent, WORDS_COLUMNS)
