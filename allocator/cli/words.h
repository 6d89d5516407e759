/* Text for people, broken into lines. */
#pragma once

#include <stddef.h>
#include <stdio.h>

enum { WORDS_COLUMNS = 100, WORDS_HELP = 79 }; /* of what is printed; of --help */

/* Prints `text` and a newline, in lines of at most WORDS_COLUMNS columns, or as many as the terminal `out` has. The first one
 * begins where `out` stands, which is column `indent`; the others are indented by as much. A word that is longer than a line is
 * never cut. */
void words_print(FILE *out, const char *text, size_t indent);

/* The same in lines of at most `columns`, whatever `out` is. */
void words_print_within(FILE *out, const char *text, size_t indent, size_t columns);

/* The same for a place of the source: only a terminal breaks it. */
void words_print_place(FILE *out, const char *text, size_t indent);

/* Prints text in which a program's may be, as text_put() does. */
void words_plain(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints a report, folded (base/fold.h) if `out` is a terminal. NULL: the host has no memory for it. */
void words_report(FILE *out, const char *text);

/* Keeps what is printed to stdout until words_release(), which folds it, if stdout is a terminal. Returns the terminal, or NULL
 * if nothing is kept. */
FILE *words_hold(void);
void words_release(FILE *terminal);
