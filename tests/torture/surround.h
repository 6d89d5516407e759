/*
 * Torture in hard surroundings: each seed is a process of its own, which plays a few steps in surroundings that are hard on a
 * library, and ends in one of the ways that processes end. It knows nothing of cufence. What it does follows from the seed
 * alone, so that two runs, with the preload library and without, can be compared step by step.
 */
#pragma once

#include "world.h"

#include <stdio.h>
#include <sys/types.h>

enum moment { BEFORE_CUDA, AFTER_START, WHILE_RUNNING };

/* What a process meets, and when it begins. A seed has at most two of them. */
#define SURROUNDINGS(X)                                                                                                        \
    X(no_descriptors, WHILE_RUNNING) /* those up to a limit are taken */                                                       \
    X(few_descriptors, BEFORE_CUDA)  /* a low limit from the start */                                                          \
    X(address_space, BEFORE_CUDA)    /* RLIMIT_AS */                                                                           \
    X(stack_limit, BEFORE_CUDA)      /* RLIMIT_STACK */                                                                        \
    X(no_processes, WHILE_RUNNING)   /* RLIMIT_NPROC of another user: no thread, no process */                                 \
    X(file_size, AFTER_START)        /* RLIMIT_FSIZE, which kills who writes more */                                           \
    X(refused, AFTER_START)          /* seccomp: some system calls fail */                                                     \
    X(closed, WHILE_RUNNING)         /* all descriptors above 2 are closed, and their numbers reused */                        \
    X(closed_standard, BEFORE_CUDA)  /* 0, 1 or 2 are closed before CUDA starts */                                             \
    X(full, BEFORE_CUDA)             /* standard error and files of reports are on a full disk */                              \
    X(no_reader, BEFORE_CUDA)        /* standard error is a pipe that nobody reads any more */                                 \
    X(no_folder, BEFORE_CUDA)        /* TMPDIR cannot be written */                                                            \
    X(alarms, BEFORE_CUDA)           /* a signal each two milliseconds, without SA_RESTART */                                  \
    X(blocked, BEFORE_CUDA)          /* every signal is blocked, SIGCHLD and SIGPIPE ignored */                                \
    X(not_dumpable, BEFORE_CUDA)     /* PR_SET_DUMPABLE */                                                                     \
    X(no_environment, AFTER_START)   /* clearenv() once CUDA has started; the current folder is gone */                        \
    X(slow, AFTER_START)             /* driver calls take long */

#define DESCRIPTORS_MOST 12

#define NAME_OF(name, moment) SURROUNDING_##name,
enum surrounding { SURROUNDINGS(NAME_OF) SURROUNDING_COUNT };
#undef NAME_OF

/* Where the steps are played. */
enum place { PLACE_MAIN, PLACE_SMALL_THREAD, PLACE_FIBRE, PLACE_CANCELLED, PLACE_BESIDE_CANCELLED };

enum ending {
    END_RETURN,
    END_EXIT_AT_ONCE, /* _exit() */
    END_QUICK,        /* quick_exit() */
    END_ABORT,
    END_TERM,
    END_KILL,
    END_THREAD, /* main ends by pthread_exit() */
    END_EXEC,
    END_BUSY, /* a kernel still waits for the host */
};

enum planted {
    PLANTED_NOTHING,
    PLANTED_FREE,    /* a host call: frees an address inside a buffer */
    PLANTED_COPY,    /* a host call: copies one byte too many */
    PLANTED_OVERRUN, /* kernels */
    PLANTED_NULL,
    PLANTED_HOSTED, /* an overrun; the pointer and its range are in memory of the host */
    PLANTED_HANG    /* an overrun; launched again, the kernel takes long */
};

struct plan {
    uint64_t seed;
    unsigned surroundings; /* bits */
    enum place place;
    enum ending ending;
    enum planted planted;
    const char *options, *figures; /* cufence's; base/tunables.h */
    int has_witness;
    unsigned steps, moment; /* the surroundings that begin while it runs do so before this step */
    unsigned kill_after_us; /* 0: nobody kills it. Else what it has done by then is left to chance */
    int is_daemon;
    unsigned descriptors_left; /* with no_descriptors: fewer than DESCRIPTORS_MOST */
};

/* Shared by the process that plays and the one that judges. */
struct record {
    pid_t player;
    unsigned count;
    struct noted {
        const char *name; /* a constant */
        uint64_t value;   /* results and contents, or what is drawn next */
    } steps[128];
    int is_planted; /* what was planted has been played */
};

/* The process that plays. */
struct player {
    const struct plan *plan;
    struct record *record;
    const char *folder; /* its own */
    struct world *world;
};

extern struct player player;

/* seeds.c: plays seeds, each in a process that is forked from this one, and prints what has become of each: a line of JSON.
 * What a seed has said is in FOLDER/SEED.out and FOLDER/SEED.err, what it has left behind in FOLDER/SEED. Returns the exit
 * status. */
int play_in_surroundings(uint64_t first, uint64_t count, const char *folder);

/* plan.c. `without`: names of what is left out, between commas: surroundings, places, endings, planted defects, killed, daemon.
 * Two calls with the same seed give the same plan. */
void plan_draw(struct plan *plan, uint64_t seed, const char *without);
void plan_print(const struct plan *plan, FILE *file);

/* Ends the player if what needs to succeed has failed. */
void need(const char *what, int has_succeeded);

/* surround.c */
void surround(enum moment moment);
int surround_has(enum surrounding which);
/* What of the surroundings can be looked at in the end: files of the program's own that nobody else has touched. */
void surround_check(void);

/* Runs the function in the place of the plan. */
void place_run(void (*function)(void));

/* programs.c */
void programs_begin(struct world *world); /* streams of their own, and every thread of the simulated device has started */
void programs_end(struct world *world);
void plant(struct world *world);
void spin(struct world *world);

/* processes.c */
void end_as_planned(void) __attribute__((noreturn));
int tell_inherited(void); /* of a process that was started: what it has inherited */
