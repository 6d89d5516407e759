/*
 * Where the threads of a core dump are: all threads, with or without an exception, grouped by kernel and place. Explains a
 * program that hangs.
 *
 * Ownership: standing_free() releases it all. Pure; any thread.
 */
#pragma once

#include "coredump.h"
#include "evidence.h"

/* Threads of one launch at one instruction. */
struct standing_place {
    uint64_t pc;
    const char *kernel; /* demangled; NULL if no known function contains the PC */
    const char *symbol;
    uint64_t kernel_offset;
    const char *file; /* NULL if unknown */
    int line;
    const char *instruction;    /* NULL if not decoded */
    struct exception exception; /* number 0 if none */
    uint64_t grid_id;
    size_t warps, threads;
    uint32_t sm, warp, block[3], thread[3]; /* of the first thread, or of the first one with an exception */
    struct coredump_ref lane;               /* that thread's row, for its registers */
};

/* A running launch. */
struct standing_grid {
    uint64_t id;
    const char *kernel, *symbol; /* NULL if unknown */
    uint32_t grid[3], block[3], cluster[3];
    struct span parameters; /* points into the dump; empty if missing */
    size_t threads;         /* number of threads that had not exited */
    struct coredump_ref device;
    uint64_t module; /* its handle */
};

struct standing {
    struct standing_place *places; /* those with an exception first, then by number of threads */
    size_t place_count;
    struct standing_grid *grids; /* in the dump's order */
    size_t grid_count;
    size_t warps, threads;
};

/* The dump must stay open as long as the result is used. Errors: OUT_OF_MEMORY; *out is then NULL. */
cufence_status standing_read(const struct coredump *dump, struct standing **out, struct problem *problem);
void standing_free(struct standing *standing); /* NULL is allowed */

/* Returns `size` bytes of device memory at `address`, as far as the dump has them contiguously; empty if not. Dumps made
 * without memory have none. */
struct span standing_memory(const struct coredump *dump, uint64_t address, size_t size);
