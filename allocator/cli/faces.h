/*
 * Findings in the forms of other programs: SARIF 2.1.0, which code hosts and editors read, with a result for each finding; one
 * page of HTML that needs nothing else. Each prints a whole document, and returns 0 when the host is out of memory. Whether it
 * was written, ferror() and fclose() tell.
 *
 * Thread safety: none; one thread does all this.
 */
#pragma once

#include "findings_file.h"

#include <stdio.h>

int face_html(const struct collected *collected, FILE *out);
int face_sarif(const struct collected *collected, FILE *out);
