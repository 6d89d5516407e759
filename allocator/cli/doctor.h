/*
 * What `cufence doctor` finds: printed line by line, and kept for the JSON document at the end. Thread safety: none.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

/* NO: a limit, but cufence works; MISSING: it cannot work without that; NEITHER: not installed or not tried. */
enum verdict_mark { FOUND_YES, FOUND_NO, FOUND_MISSING, FOUND_NEITHER, FOUND_MARKS };

struct findings {
    int is_json; /* print nothing until the end */
    const char *section;
    json_t *all; /* as in the document of docs/doctor.md; NULL: none yet */
    size_t count[FOUND_MARKS];
};

/* Runs a shell command, and adds the findings that it prints as a JSON array; and its other words, as one about `what`. */
void ask(struct findings *findings, const char *what, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Says which variables are in the way. */
void judge_environment(struct findings *findings);
