/* Text for people, broken into lines. */
#ifndef CUFENCE_CLI_WORDS_H
#define CUFENCE_CLI_WORDS_H

#include <stddef.h>
#include <stdio.h>

enum { WORDS_COLUMNS = 100 };

/* Prints `text` and a newline, in lines of at most WORDS_COLUMNS columns. The first one begins where `out` stands, which is
 * column `indent`; the others are indented by as much. A word that is longer than a line is never cut. */
void words_print(FILE *out, const char *text, size_t indent);

#endif
