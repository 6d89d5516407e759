/*
 * One seed of the surroundings program: a process that uses CUDA as programs do, in surroundings that are hard on a library,
 * and ends in one of the ways that processes end. It knows nothing of cufence. What it does follows from the seed alone, so
 * that two runs, with the preload library and without, can be compared step by step.
 */
#pragma once

#include "sim/programs/driver.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* What a process meets. A seed has at most two of them. */
#define SURROUNDINGS(X)                                                                                                        \
    X(no_descriptors)  /* those up to a limit are taken */                                                                     \
    X(few_descriptors) /* a low limit from the start */                                                                        \
    X(address_space)   /* RLIMIT_AS */                                                                                         \
    X(stack_limit)     /* RLIMIT_STACK */                                                                                      \
    X(no_processes)    /* RLIMIT_NPROC of another user: no thread, no process */                                               \
    X(file_size)       /* RLIMIT_FSIZE, which kills who writes more */                                                         \
    X(refused)         /* seccomp: some system calls fail */                                                                   \
    X(closed)          /* all descriptors above 2 are closed, and their numbers reused */                                      \
    X(closed_standard) /* 0, 1 or 2 are closed before CUDA starts */                                                           \
    X(full)            /* standard error and files of reports are on a full disk */                                            \
    X(no_reader)       /* standard error is a pipe that nobody reads any more */                                               \
    X(no_folder)       /* TMPDIR cannot be written */                                                                          \
    X(alarms)          /* a signal each two milliseconds, without SA_RESTART */                                                \
    X(blocked)         /* every signal is blocked, SIGCHLD and SIGPIPE ignored */                                              \
    X(not_dumpable)    /* PR_SET_DUMPABLE */                                                                                   \
    X(no_environment)  /* clearenv() once CUDA has started; the current folder is gone */                                      \
    X(slow)            /* driver calls take long */

#define DESCRIPTORS_MOST 12

#define NAME_OF(name) SURROUNDING_##name,
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
    END_COUNT
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

#define STEPS 64

/* Shared by the process that plays and the one that judges. */
struct json_table {
    pid_t player;
    unsigned count;
    struct step {
        const char *name; /* a constant */
        uint64_t value;   /* results and contents */
    } steps[STEPS];
    int is_planted; /* what was planted has been played */
};

struct player {
    const struct plan *plan;
    struct json_table *record;
    uint64_t random;
    const char *folder; /* its own */
};

extern struct player player;

/* Names of what is left out, between commas: surroundings, places, endings, planted defects, killed, daemon. */
extern const char *plan_without;

/* Plans a seed. Two calls with the same seed give the same plan. */
void plan_draw(struct plan *plan, uint64_t seed);
void plan_print(const struct plan *plan, FILE *file);

/* Plays to the end; does not return. */
void play(void) __attribute__((noreturn));

/* Random numbers that follow from the seed. */
uint64_t draw(uint64_t *random);
unsigned pick(unsigned below); /* of the player */

void step_record(const char *name, uint64_t value);
/* Ends the player if a call that needs to succeed has failed. */
void need(const char *what, int has_succeeded);
#define NEED(call) need(#call, (call) == CUDA_SUCCESS)

/* surround.c */
enum moment { BEFORE_CUDA, AFTER_START, WHILE_RUNNING };
void surround(enum moment moment);
int surround_has(enum surrounding which);
/* What of the surroundings can be looked at in the end: files of the program's own that nobody else has touched. */
void surround_check(void);

/* place.c: runs the function in the place of the plan. */
void place_run(void (*function)(void));

/* actions.c and graphs.c: one step. */
void act_begin(void); /* starts CUDA */
void act(void);
void act_plainly(void); /* one that has no cancellation point of its own */
void act_on_graph(void);
void act_plant(void);
void act_end(void); /* frees what it has */
void act_spin(void);

#define WORDS_MOST 16384
extern CUstream act_streams[2];
CUfunction act_kernel(const char *name);
CUresult act_fill(CUstream stream, CUdeviceptr to, uint32_t words, uint32_t value);
uint64_t act_hash(CUdeviceptr from, size_t bytes); /* copies it to the host */

/* processes.c */
void act_on_process(void);
void end_as_planned(void) __attribute__((noreturn));
int tell_inherited(void); /* of a process that was started: what it has inherited */
