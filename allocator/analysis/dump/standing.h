/*
 * Who stood where in a core dump: its threads, grouped by kernel and place, whether they have an exception or not. Of a program
 * that hangs it says where.
 *
 * Ownership: one allocation holds it all; standing_free() releases it. Pure; any thread.
 */
#ifndef CUFENCE_ANALYSIS_DUMP_STANDING_H
#define CUFENCE_ANALYSIS_DUMP_STANDING_H

#include "coredump.h"
#include "exception.h"

/* Threads of one launch at one instruction. */
struct standing_place {
    uint64_t pc;
    const char *kernel; /* demangled; NULL if no known function holds the PC */
    const char *symbol;
    uint64_t kernel_offset;
    const char *file; /* NULL if not known */
    int line;
    const char *instruction;    /* NULL if it was not decoded */
    struct exception exception; /* number 0: none of them has one */
    uint64_t grid_id;
    size_t warps, threads;
    uint32_t sm, warp, block[3], thread[3]; /* of the first of them; that with an exception before others */
    struct coredump_place lane;             /* its row, for its registers */
};

/* A launch that ran. */
struct standing_grid {
    uint64_t id;
    const char *kernel, *symbol; /* NULL if not known */
    uint32_t grid[3], block[3], cluster[3];
    struct span parameters; /* in the dump; empty if it has none */
    size_t threads;         /* that had not exited */
};

struct standing {
    struct standing_place *places; /* those with an exception first, then by threads */
    size_t place_count;
    struct standing_grid *grids; /* as the dump has them */
    size_t grid_count;
    size_t warps, threads;
};

/* Errors: OUT_OF_MEMORY. *out is NULL then. The dump must stay open as long as the result is used. */
cufence_status standing_read(const struct coredump *dump, struct standing **out, struct problem *problem);
void standing_free(struct standing *standing); /* NULL is fine */

/* `size` bytes of the device's memory at `address`, as far as the dump holds them in one piece; empty if it does not. Dumps
 * that were asked for without memory hold none. */
struct span standing_memory(const struct coredump *dump, uint64_t address, size_t size);

#endif
