/*
 * What `cufence doctor` has found, in order: printed line by line, or kept for one JSON document at the end.
 * Thread safety: none. Exits with status 1 if the host has no memory for a finding.
 */
#ifndef CUFENCE_CLI_FINDINGS_H
#define CUFENCE_CLI_FINDINGS_H

#include <stddef.h>

enum verdict_mark {
    FOUND_YES,
    FOUND_NO,      /* a limit: cufence works without it */
    FOUND_MISSING, /* cufence cannot work without it */
    FOUND_NEITHER  /* not installed or not tried: nothing to do */
};

struct finding {
    const char *section; /* static */
    enum verdict_mark mark;
    char what[32];
    char detail[1024];
    char remedy[512]; /* "" for none */
};

struct findings {
    int is_json; /* print nothing until the end */
    const char *section;
    struct finding *all;
    size_t count, capacity;
};

/* Starts a section. `title` is a static string, and "section" of its checks in JSON. */
void findings_section(struct findings *findings, const char *title);

/* Adds a finding. `remedy` says what to do about a no, as a sentence without a full stop; NULL: nothing. */
void found(struct findings *findings, enum verdict_mark mark, const char *what, const char *remedy, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

size_t findings_count(const struct findings *findings, enum verdict_mark mark);

/* Prints the JSON document of docs/doctor.md. */
void findings_print_json(const struct findings *findings);

/* Prints the last lines, or the JSON document. */
void findings_conclude(const struct findings *findings);
void findings_free(struct findings *findings);

#endif
