/*
 * The documents that a command makes of findings: a page, SARIF, JSON Lines. They are opened, and hold what is known, from the
 * start, so that they are there whatever happens to the program.
 *
 * Thread safety: none; one thread does all this.
 */
#pragma once

#include "collected.h"

#include <limits.h>
#include <stdio.h>

enum output { OUTPUT_HTML, OUTPUT_SARIF, OUTPUT_JSON, OUTPUTS };

struct outputs {
    const char *command;        /* the sub-command, for messages */
    const char *paths[OUTPUTS]; /* of the command line; "-" is standard output, for one document */
    FILE *files[OUTPUTS];
    int (*write_json)(const void *user, const struct collected *collected, FILE *out); /* NULL: face_json() */
    const void *user;
};

/* Whether one is wanted on standard output. */
int outputs_is_stdout(const struct outputs *outputs);

/* Checks the names and opens the files, and leaves what is in them. Returns 0, or the exit status after a message. */
int outputs_open(struct outputs *outputs);
/* And begins `collected`, unfinished, and writes it: the program may end hours later, or never. */
int outputs_begin(struct outputs *outputs, struct collected *collected, char *const *command);

/* Writes each document in place of what its file has. What is no file, a pipe or standard output, gets nothing as long as
 * collected->is_unfinished. Returns 0 after a message. */
int outputs_write(struct outputs *outputs, const struct collected *collected);

/* Findings in the forms of other programs: SARIF 2.1.0, which code hosts and editors read, with a result for each finding; one
 * page of HTML that needs nothing else; JSON Lines with each finding's first report, `count` and `processes`. Each prints a
 * whole document, and returns 0 when the host is out of memory. Whether it was written, ferror() and fclose() tell. */
int face_html(const struct collected *collected, FILE *out);
int face_sarif(const struct collected *collected, FILE *out);
int face_json(const struct collected *collected, FILE *out);

/* Makes the file to which each process of a program adds its reports, whatever json= says, and names it in the environment.
 * kept: its name, whole and new; NULL: a temporary file, which the caller removes. Returns 0, or the exit status after a
 * message.
 */
int outputs_collect(const char *command, const char *kept, char file[PATH_MAX]);

/* Closes the files, and removes those that are empty: nothing was ever written to them. */
void outputs_close(struct outputs *outputs);
