/*
 * The sections of `cufence doctor`. They add findings, which are printed line by line, and kept for the JSON document at the
 * end. `environment` looks a variable up, as getenv() does. Thread safety: none.
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

/* Starts a section. `title` is a static string. */
void findings_section(struct findings *findings, const char *title);

/* Adds a finding. `remedy` says what to do about a no, as a sentence without a full stop; NULL: nothing. */
void found(struct findings *findings, enum verdict_mark mark, const char *what, const char *remedy, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Prints the last line, or the JSON document. */
void findings_conclude(const struct findings *findings);

/* Runs a shell command, and adds the findings that it prints as a JSON array; and its other words, as one about `what`. */
void ask(struct findings *findings, const char *what, const char *format, ...) __attribute__((format(printf, 3, 4)));

typedef const char *(*environment_lookup)(const char *name);
void check_driver(struct findings *findings);
void check_preload(struct findings *findings); /* before check_driver(): in exclusive mode there is room for one process */
int doctor_probe(void);                        /* what it runs under the preload library; returns the exit status */
void check_system(struct findings *findings);
void judge_environment(struct findings *findings, environment_lookup environment);
void check_python(struct findings *findings);
