/*
 * What `cufence doctor` has found, in order: printed line by line, and kept for the JSON document at the end.
 * Thread safety: none.
 */
#ifndef CUFENCE_CLI_FINDINGS_H
#define CUFENCE_CLI_FINDINGS_H

#include <jansson.h>
#include <stddef.h>

enum verdict_mark {
    FOUND_YES,
    FOUND_NO,      /* a limit: cufence works without it */
    FOUND_MISSING, /* cufence cannot work without it */
    FOUND_NEITHER, /* not installed or not tried: nothing to do */
    FOUND_MARKS
};

struct findings {
    int is_json; /* print nothing until the end */
    const char *section;
    json_t *all; /* as in the document of docs/doctor.md; NULL: none yet */
    size_t count[FOUND_MARKS];
};

/* Starts a section. `title` is a static string, and "section" of its checks in JSON. */
void findings_section(struct findings *findings, const char *title);

/* Adds a finding. `remedy` says what to do about a no, as a sentence without a full stop; NULL: nothing. */
void found(struct findings *findings, enum verdict_mark mark, const char *what, const char *remedy, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Prints the last lines, or the JSON document. */
void findings_conclude(const struct findings *findings);
void findings_free(struct findings *findings);

#endif
