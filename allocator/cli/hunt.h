/*
 * `cufence hunt`: the modes, one run of the program in one of them (hunt_run.c), what the mode deep does (deep.c), and how what
 * all have found is told (hunt_words.c).
 *
 * Thread safety: none; one thread does all this.
 */
#pragma once

#include "collected.h"

#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>

struct mode {
    const char *name;
    const char *options; /* what it sets; nothing on the command line overrides it */
    const char *looks_for;
};
enum { MODE_DEEP = 4, MODE_FRESH, MODES }; /* those from deep (deep.c) on: only where they are asked for */
#define MODE_NAMES "end start align strict deep fresh"
extern const struct mode modes[MODES];

/* ---- runs ---- */

struct plan {
    unsigned modes; /* a bit for each index in modes[] */
    int is_first;   /* stop at the first finding */
    int is_guarded_required;
    const char *options;    /* "key=value,..." of the command line */
    char **command;         /* up to a NULL */
    size_t words;           /* in command */
    char reports[PATH_MAX]; /* file to which the processes of a run add their reports */
    char folder[PATH_MAX];  /* of --keep, "" without it */
    /* of the mode deep: */
    unsigned tools;          /* a bit for each of DEEP_TOOLS */
    uint64_t seconds;        /* that one of them may take for a launch */
    char launches[PATH_MAX]; /* the folder of the launches; "": it was not made */
};

/* What compute-sanitizer was shown. */
struct deep {
    unsigned looked;  /* launches */
    unsigned left;    /* that were saved, but not looked at: they were too many, or a signal came */
    unsigned unsaved; /* processes and launches of which something could not be saved to be launched again */
    unsigned missing; /* verdicts of a tool on a launch */
};

struct run {
    int is_started;
    int refusal; /* of a program that could not be started: the exit status of `cufence run`, which has said why */
    int status;  /* of waitpid() */
    double seconds;
    int is_guarded; /* allocations of at least one process were */
    int is_ended;   /* by us: after the first finding, or because a second signal asked for it */
    struct deep deep;
};

/* The signals that end a hunt. */
struct signals {
    sigset_t watched, before;
    int first; /* the first that came; 0: none has */
    int count;
};

void signals_watch(struct signals *signals);
/* Waits for one, or for the end of a child, and returns whether one has come by now. */
int signals_wait(struct signals *signals, long milliseconds);

/* Runs the program in a mode, and waits for its end. A signal is passed on to the program; the second one kills it. */
void hunt_run(const struct plan *plan, unsigned mode, struct signals *signals, struct run *run);

/* ---- deep.c: compute-sanitizer's tools look at the launches that a run has saved, one by one, through `cufence replay
 * --under`. What they find becomes a report of the run (docs/hunt.md). ---- */

#define DEEP_TOOLS "memcheck racecheck initcheck synccheck"
enum { DEEP_TOOL_COUNT = 4 };

/* Makes the folder for the launches: in that of --keep, else in TMPDIR. Finds compute-sanitizer. Returns 0, or the exit status
 * after a message. */
int deep_open(struct plan *plan);

/* Looks at the launches in the folder, and adds what is found to plan->reports. Fills in run->deep. */
void deep_look(const struct plan *plan, struct signals *signals, struct run *run);

/* Removes the folder, unless it is kept. */
void deep_close(const struct plan *plan);

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
    unsigned unguarded; /* nothing was guarded, and that is required */
    unsigned failed;    /* as run_has_failed() */
    unsigned partial;   /* deep: not every launch was saved and looked at by every tool */
    int is_complete;    /* none of these */
};
struct hunt_verdict hunt_judge(const struct plan *plan, const struct run runs[MODES], const struct collected *merged);

/* Everything that was found, and by which mode; `runs` has an entry for each mode. */
void hunt_tell(FILE *out, const struct plan *plan, const struct run runs[MODES], const struct collected *merged);

/* The same as JSON (docs/hunt.md). Returns 0 if it cannot be written. */
int hunt_put_json(FILE *out, const struct plan *plan, const struct run runs[MODES], const struct collected *merged,
                  int is_complete);
