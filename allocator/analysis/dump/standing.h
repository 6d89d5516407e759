/*
 * Where the threads of a core dump are: all threads, with or without an exception, grouped by kernel and place. Explains a
 * program that hangs.
 *
 * Ownership: standing_free() releases it all. Pure; any thread.
 */
#pragma once

#include "analysis/sass/loop.h"
#include "coredump.h"
#include "locate.h"

/* What the threads of a place wait for. */
struct standing_wait {
    enum wait_kind kind;
    uint64_t pc;               /* of: */
    const struct location *at; /* the barrier, or the load that is repeated; NULL of WAIT_NOT */
    uint64_t address;          /* POLL: of the first thread's load from global memory; 0: unknown */
    size_t absent;    /* BARRIER: threads of the same blocks that are somewhere else; 0: unknown, as it is for some only */
    int is_timed;     /* POLL: a clock may end it too */
    unsigned barrier; /* BARRIER: as in struct wait */
};

/* Threads of one launch at one instruction, or that wait at one. */
struct standing_place {
    uint64_t pc;
    const struct location *at;
    struct exception exception; /* number 0 if none */
    struct coredump_ref device;
    int gpu;                          /* its index if there are threads on several devices; else -1 */
    uint64_t grid_id;                 /* two devices may have the same */
    const struct standing_grid *grid; /* one without anything if the dump has no grid of that id */
    size_t warps, threads;
    uint32_t sm, warp, block[3], thread[3]; /* of the first thread, or of the first one with an exception */
    struct coredump_ref lane;               /* that thread's row, for its registers */
    int is_whole;                           /* no thread of its warps is anywhere else */
    struct standing_wait wait;
};

/* A running launch. */
struct standing_grid {
    struct coredump_grid row;
    const struct location *at; /* its kernel's start */
    struct span parameters;    /* points into the dump; empty if missing */
    size_t threads;            /* number of threads that had not exited */
    uint64_t blocks;           /* that have such threads */
    uint64_t absent;           /* number of the first block that has none, in the grid's order. If that is `blocks`, all in
                                  front of it have, and none behind it: those have not begun, or have ended */
    int has_grid;              /* 0: of a cooperative launch the dump has none (580.159) */
    struct coredump_ref device;
};

struct standing {
    /* Those with an exception first, then those that poll, as small groups often do; each by number of threads. */
    struct standing_place *places;
    size_t place_count;
    struct standing_grid *grids; /* in the dump's order */
    size_t grid_count;
    size_t warps, threads, waiting; /* waiting: threads of which it is known */
    int is_stuck;                   /* there are threads, and all of them wait */
    struct json_memory memory;      /* of grids and locations */
};

/* The dump must stay open as long as the result is used. Errors: OUT_OF_MEMORY; *out is then NULL. */
cufence_status standing_read(const struct coredump *dump, struct standing **out, struct problem *problem);
void standing_free(struct standing *standing); /* NULL is allowed */
