/*
 * What `cufence doctor` has found, in order: printed line by line as it is found, or kept for one JSON document at the end.
 * Thread safety: none. The process ends where the host has no memory for a finding.
 */
#ifndef CUFENCE_CLI_FINDINGS_H
#define CUFENCE_CLI_FINDINGS_H

#include <stddef.h>

enum verdict_mark {
    FOUND_YES,
    FOUND_NO,      /* a limit: cufence works without it */
    FOUND_MISSING, /* cufence cannot work without it */
    FOUND_NEITHER  /* not here, or not tried: nothing to be done */
};

struct finding {
    const char *section; /* static */
    enum verdict_mark mark;
    char what[32];
    char detail[1024];
    char remedy[512]; /* "" for none */
};

struct findings {
    int is_json; /* print nothing while it is gathered */
    const char *section;
    struct finding *all;
    size_t count, capacity;
};

/* Starts a section; its title is static, and the name of its checks in the JSON. */
void findings_section(struct findings *findings, const char *title);

/* `remedy`, a sentence without a full stop, says what to do about a no, or how to get around it; NULL where there is
 * nothing. */
void found(struct findings *findings, enum verdict_mark mark, const char *what, const char *remedy, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

size_t findings_count(const struct findings *findings, enum verdict_mark mark);

/* The JSON document of docs/doctor.md. */
void findings_print_json(const struct findings *findings);

/* The last lines, or that document. */
void findings_conclude(const struct findings *findings);
void findings_free(struct findings *findings);

#endif
