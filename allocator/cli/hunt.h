/*
 * `cufence hunt`: the modes, their runs (hunt.c), and how what all have found is told (hunt_words.c).
 *
 * Thread safety: none; one thread does all this.
 */
#pragma once

#include "findings_file.h"

#include "base/tally.h"

#include <jansson.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>

struct mode {
    const char *name;
    const char *options; /* what it sets; nothing on the command line overrides it */
    const char *looks_for;
};
enum { MODE_FRESH = 4, MODES }; /* fresh: only where it is asked for */
extern const struct mode modes[MODES];

/* ---- runs ---- */

struct plan {
    unsigned modes; /* a bit for each index in modes[] */
    int is_guarded_required;
    const char *options;    /* "key=value,..." of the command line */
    char **command;         /* up to a NULL */
    size_t words;           /* in command */
    char reports[PATH_MAX]; /* file to which the processes of a run add their reports */
    char folder[PATH_MAX];  /* of --keep, "" without it */
};

struct run {
    int is_started;
    int refusal; /* of a program that could not be started: the exit status of `cufence run`, which has said why */
    int status;  /* of waitpid() */
    double seconds;
    struct tally tally; /* what its processes have told of themselves */
    int is_ended;       /* by a signal that was sent to us */
    size_t left;        /* processes that have not ended with it */
};

/* ---- words ---- */

/* How many findings a mode has seen: the tags of a finding are a bit for each index in modes[]. */
size_t merged_by(const struct collected *merged, unsigned mode);

/* "exit status 3", "killed by signal 11 (Segmentation fault)" */
void run_end_print(FILE *out, const struct run *run);

/* Whether the program failed, and nothing was found that explains it. */
int run_has_failed(const struct run *run, const struct collected *merged, unsigned mode);

/* What came of the runs: bits of modes. */
struct hunt_verdict {
    unsigned runs;      /* their number */
    unsigned cut;       /* of the plan, but not made, or ended by us */
    unsigned unguarded; /* nothing was guarded in it or in one of its processes, and that is required */
    unsigned silent;    /* processes that used CUDA were killed, or have not come to their end otherwise */
    unsigned blind;     /* processes may have missed something */
    unsigned untold;    /* something was found, but is not in the list */
    unsigned failed;    /* as run_has_failed() */
    unsigned left;      /* processes still run */
    int is_whole;       /* none of these but unguarded and failed, which the list has by itself */
    int is_complete;    /* none of these */
};
struct hunt_verdict hunt_judge(const struct plan *plan, const struct run runs[MODES], const struct collected *merged);

/* Everything that was found, and by which mode; `runs` has an entry for each mode. */
void hunt_tell(FILE *out, const struct plan *plan, const struct run runs[MODES], const struct collected *merged);

/* The same as JSON (docs/hunt.md). Returns 0 if it cannot be written. */
int hunt_put_json(FILE *out, const struct plan *plan, const struct run runs[MODES], const struct collected *merged,
                  int is_complete);
