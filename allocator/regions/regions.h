/*
 * Regions: what a program says about the inside of a buffer. A division cuts bytes of one live buffer into rows of one size,
 * each of which is live, with an owner, or free. Guards between them cannot be had: the buffer is one mapping, whose
 * granularity is 2 MiB, and no part of it can be unmapped. So a free row holds a pattern, which is checked when the row is
 * taken again, as the slack of buffers is: watch.c. table.c has the divisions, by address.
 *
 * The pattern is 0x7fff in each two bytes: NaN in every format of 16, 32 and 64 bits, and as an integer no likely index.
 *
 * A division names its buffer by its id, and is never found once that is freed. Until the first one, all of this costs a free
 * one load and a branch that is not taken.
 *
 * Thread safety: every function, from any thread. region_at() and what else only looks take one lock, under which nothing
 * waits.
 */
#pragma once

#include "heap/heap.h"

#define REGION_TEXT 48

enum region_state { REGION_LIVE = 0, REGION_FREE = 1 }; /* also of the bytes in region_at.states */

/* One row. */
struct region {
    enum region_state state;
    int is_poisoned;             /* it is free, and the pattern was submitted */
    int was_poisoned;            /* once: of a live row, what was not written since holds the pattern still */
    uint64_t taken_ns, freed_ns; /* 0: never */
    uint64_t good_ns;            /* when the pattern was known to be whole */
    uint32_t taken_stack, freed_stack, taken_tid, freed_tid;
    uint64_t taken_stream, freed_stream; /* handles */
    uint64_t taken_after, freed_after;   /* that thread's last launch, as launch_entry.sequence; 0: none is known */
    struct stream_ref on;                /* of the last work of ours on it ... */
    uint64_t work;                       /* ... and the number of that; 0: none */
    uint64_t named;                      /* the last call that named it and has not changed it yet, counted from 1 */
    char owner[REGION_TEXT];             /* the one that has it or, of a free row, that had it last; "" unknown */
};

/* A row and its division, copied. */
struct region_at {
    struct region region;
    char name[REGION_TEXT];      /* of the division, "" if it has none */
    uint64_t division;           /* its number, from 1, never used again */
    const void *divider;         /* as given to regions_divide() */
    uint64_t buffer;             /* id */
    struct context *context;     /* of the buffer */
    uint64_t start, bytes, rows; /* of the division: its first row, and the size and number of them */
    uint64_t row, offset;        /* the address lies so far inside that row */
    /* One byte a row on the device, an enum region_state that is kept current in the order of the streams on which rows are
     * taken and released. 0: the driver had no memory for them. Valid until the division goes, in that order. */
    CUdeviceptr states;
};

extern int regions_are_used; /* atomic; some buffer was divided */

/* Finds the row that an address lies in. 0: none. */
int region_find(uint64_t address, struct region_at *out);

/* The first row of the first division by address that ends behind it. 0: none. */
int region_next(uint64_t address, struct region_at *out);

/* How many of these bytes are in rows that may hold the pattern: they are free, or were. */
uint64_t regions_free_bytes(uint64_t start, uint64_t end);

/* Writes "row 17 of kv (free, released 1.2 ms ago by request 4)". Returns `out`. */
const char *region_text(const struct region_at *at, char *out, size_t size);

/* Shows the rows that have one of these bytes, by address; under the lock, so `show` only copies. */
void regions_walk(uint64_t start, uint64_t end, void (*show)(const struct region_at *at, void *user), void *user);

/* ---- what the C API does; the contracts are in cufence.h ---- */

/* divider: for whom, if not for the C API. */
cufence_status regions_divide(uint64_t start, size_t bytes, size_t rows, const char *name, const void *divider);
cufence_status regions_take(const void *const *starts, size_t count, const char *owner, CUstream stream);
cufence_status regions_release(const void *const *starts, size_t count, CUstream stream);
cufence_status regions_gone(uint64_t start);

/* ---- what is found ---- */

/* Bytes of a free row that were changed. */
struct region_write {
    struct region_at at; /* as the row was when it was checked: free */
    struct region by;    /* who has taken it since; taken_ns 0: nobody */
    struct slack_found found;
    uint64_t until_ns; /* when it was checked */
};

/* How often a free row was taken, or freed with its buffer, that could not be checked: a stream was capturing, belongs to
 * another context or could not be ordered behind another one, or there was no memory for it. */
uint64_t regions_unchecked(void);

/* Sets what is called for each, without locks held: on the background thread, or on a thread that calls regions_check(). */
void regions_on_write(void (*report)(const struct region_write *found));

/*
 * Checks the free rows of a device (-1: all), and reports what has changed. waits: synchronises the contexts first; else the
 * caller has. *found: grows by the number of reports.
 * Errors: UNSUPPORTED (a stream is capturing), FAULTED, DRIVER, TIMEOUT (the device was too busy).
 */
cufence_status regions_check(int device, int waits, unsigned timeout_ms, size_t *found);

/* The context has ended, and its buffers with it. */
void regions_context_gone(struct context *context);
