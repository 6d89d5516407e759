/*
 * The sections of `cufence doctor`. Functions named judge_ are pure: what they look at has been gathered before, and they add
 * findings. Those named check_ look for themselves.
 * `environment` looks a variable up, as getenv() does. Thread safety: none.
 */
#pragma once

#include <jansson.h>
#include <limits.h>
#include <stddef.h>

/* ---- doctor_common.c: what was found, in order: printed line by line, and kept for the JSON document at the end ---- */

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

/* ---- a program that is asked ---- */

struct child {
    int is_started;
    int is_timed_out;             /* and was killed with its process group */
    int status;                   /* from waitpid() */
    char out[16384], error[4096]; /* stdout and stderr, cut to fit; `error` also says why it could not be run */
};

/*
 * Runs argv with a time limit, searching argv[0] in PATH unless it has a slash. `changes` ends with NULL: "NAME=value" sets a
 * variable for the program, "NAME" unsets it. Its stdin is /dev/null.
 */
void child_run(const char *const argv[], const char *const changes[], unsigned seconds, struct child *child);

/* ---- the sections ---- */

typedef const char *(*environment_lookup)(const char *name);

/* doctor_driver.c: makes each device's primary context. */
void check_driver(struct findings *findings);

/* doctor_system.c; judge_variables(): the environment, as execve() takes it. */
void check_system(struct findings *findings);
void judge_environment(struct findings *findings, environment_lookup environment);
void judge_variables(struct findings *findings, char *const *entries);

/* doctor_preload.c */
struct preload_trial {
    char file[PATH_MAX]; /* of the preload library; "" where there is none */
    struct child child;  /* `cufence doctor --probe` under it; not started where there is no file */
};

/* Before check_driver(): a device in exclusive mode has room for one process. */
void try_preload(struct preload_trial *trial);
void judge_preload(struct findings *findings, const struct preload_trial *trial);

/* What the child does: prints one JSON object, and returns the exit status. */
int doctor_probe(void);

/* doctor_python.c */
struct python_trial {
    json_t *facts; /* NULL if there is no usable answer */
    char problem[512];
};

void ask_python(struct python_trial *trial);
void judge_python(struct findings *findings, const struct python_trial *trial, environment_lookup environment);

/* What keeps overruns inside of one allocation. `facts` may be NULL. */
void judge_hidden(struct findings *findings, json_t *facts, environment_lookup environment);
