/*
 * Findings that a user knows already, by name: those that a file of suppressions names, and those of an earlier run.
 *
 *   # a file of suppressions: a name or a glob (* ? [ ]) a line
 *   overrun at oob.py in k_oob
 *   slack write * in at::native::*
 *
 * An earlier run's are in its file of JSON: of json=, `cufence report --json` or `cufence hunt --json`.
 *
 * Thread safety: the names are constant once they are read.
 */
#ifndef CUFENCE_BASE_KNOWN_H
#define CUFENCE_BASE_KNOWN_H

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
};

/* Adds the names of a file, which has the form that `as` has. Errors: OPTION (it cannot be read, with the reason),
 * OUT_OF_MEMORY. */
cufence_status known_read(struct known_names *names, const char *file, enum known as);

/* Whether, and as what, the finding of that name is known. name: "" is never known. */
enum known known_as(const struct known_names *names, const char *name);

void known_free(struct known_names *names);

#endif
