/*
 * Findings that a user knows already, by name: those that a file names, and those of an earlier run.
 *
 *   # a name a line, as it is printed, or a glob (* ? [ ])
 *   overrun at oob.py in k_oob #3f2a
 *   pattern: slack write * in at::native::*
 *
 * An earlier run's are in its file of JSON: of json=, `cufence report --json` or `cufence hunt --json`. A file may have both,
 * the JSON after the names.
 *
 * Thread safety: the names are constant once they are read.
 */
#pragma once

#include <cufence.h>

#include <stddef.h>

enum known { KNOWN_NOT, KNOWN_SUPPRESSED, KNOWN_BASELINE };
extern const char *const known_words[]; /* "suppressed", "baseline"; NULL for KNOWN_NOT */

struct known_names {
    struct known_name {
        char *text;
        enum known as;
    } * all;
    size_t count;
    int has_run; /* a file had the JSON of an earlier run */
};

/* Adds the names of a file. Errors: OPTION (it cannot be read, with the reason), OUT_OF_MEMORY. */
cufence_status known_read(struct known_names *names, const char *file);

/* The same for the value of the option known=: "" names no file. */
cufence_status known_read_option(struct known_names *names, const char *value);

/* Whether, and as what, the finding of that name is known. name: "" is never known. */
enum known known_as(const struct known_names *names, const char *name);

void known_free(struct known_names *names);
