/* Text for people, broken into lines. */
#pragma once

#include <stddef.h>
#include <stdio.h>

enum { WORDS_COLUMNS = 100, WORDS_HELP = 79 }; /* of what is printed; of --help */

/* Prints `text` and a newline, in lines of at most WORDS_COLUMNS columns, or of `columns`. The first one begins where `out`
 * stands, which is column `indent`; the others are indented by as much. A word that is longer than a line is never cut. */
void words_print(FILE *out, const char *text, size_t indent);
void words_print_within(FILE *out, const char *text, size_t indent, size_t columns);

/* Prints text in which a program's may be, as text_put() does. */
void words_plain(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
