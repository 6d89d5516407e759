/*
 * Collected findings in the forms of other programs. Each prints a whole document to `out` and returns 0 when the host is out
 * of memory. Whether it was written, ferror() and fclose() tell.
 */
#ifndef CUFENCE_CLI_FACES_H
#define CUFENCE_CLI_FACES_H

#include "collected.h"

#include <stdio.h>

/* SARIF 2.1.0, which code hosts and editors read: one run with a result for each finding. */
int face_sarif(const struct collected *collected, FILE *out);

/* One page of HTML that needs nothing else. */
int face_html(const struct collected *collected, FILE *out);

/* JSON Lines: each finding's first report, with `count` and `processes`. */
int face_json(const struct collected *collected, FILE *out);

#endif
