/*
 * Where the threads of a core dump are: all threads, with or without an exception, grouped by kernel and place. Explains a
 * program that hangs.
 *
 * Ownership: standing_free() releases it all. Pure; any thread.
 */
#pragma once

#include "coredump.h"
#include "locate.h"

/* Threads of one launch at one instruction. */
struct standing_place {
    uint64_t pc;
    const struct location *at;
    struct exception exception; /* number 0 if none */
    uint64_t grid_id;
    size_t warps, threads;
    uint32_t sm, warp, block[3], thread[3]; /* of the first thread, or of the first one with an exception */
    struct coredump_ref lane;               /* that thread's row, for its registers */
};

/* A running launch. */
struct standing_grid {
    struct coredump_grid row;
    const struct location *at; /* its kernel's start */
    struct span parameters;    /* points into the dump; empty if missing */
    size_t threads;            /* number of threads that had not exited */
    struct coredump_ref device;
};

struct standing {
    struct standing_place *places; /* those with an exception first, then by number of threads */
    size_t place_count;
    struct standing_grid *grids; /* in the dump's order */
    size_t grid_count;
    size_t warps, threads;
    struct json_memory memory; /* of grids and locations */
};

/* The dump must stay open as long as the result is used. Errors: OUT_OF_MEMORY; *out is then NULL. */
cufence_status standing_read(const struct coredump *dump, struct standing **out, struct problem *problem);
void standing_free(struct standing *standing); /* NULL is allowed */
