/*
 * The work of ours on rows: a launch of the pattern's kernel (kernels/pattern.h) that writes it into rows which are released,
 * or checks it in rows which are taken, in the order of the stream that the program names, and sets the bytes of
 * region_at.states. Its results come by way of a flight; the background thread of the heap collects them.
 *
 * A row's work is in order: what is submitted to another stream than the one before waits for that on the device.
 * On a stream that is capturing nothing is submitted. The row's state then changes at once, and the row holds no pattern.
 */
#pragma once

#include "table.h"

#include "kernels/flight.h"
#include "kernels/pattern.h"

/* Held across launches of ours, and while regions_check() waits for them. */
extern struct lock regions_lock;

/* The functions below: caller holds it. */

/* A launch in the air. */
struct work {
    struct flight flight; /* its words are of the jobs */
    uint64_t number;
    uint8_t *memory;
    struct pattern_job *jobs;
    const uint32_t *states;
    size_t rows, parts; /* parts: jobs of all rows, in their order */
    int is_check;
    struct region by;
    uint64_t time_ns;
    struct work *prev, *next;
    struct region_at at[];
};

/* Device memory of states that is given back. */
struct given {
    CUdeviceptr states;
    struct given *next;
};

/* What is kept of a context. */
struct region_context {
    int is_ready, is_off; /* the kernel is loaded; it cannot be */
    CUfunction pattern, fill;
    struct results results;
    struct work *first; /* in the order of their submission */
    struct given *given;
};

/* Loads the kernel, once. NULL: the driver refuses it, or out of host memory. */
struct region_context *region_context_of(struct context *context);

/* Device memory for the states of rows, all live; 0 if the driver has none. */
CUdeviceptr states_take(struct context *context, uint64_t rows);
/* Gives it back when the next ones are taken: nothing waits now. */
void states_give(struct context *context, CUdeviceptr states);

/* Does to rows of one context, work_most() of them at most, PATTERN_CHECK, _RENEW or _WRITE on the stream, and sets their
 * states. Only rows that hold the pattern are checked. Returns the work's number; 0: nothing was submitted. */
struct region_work {
    struct context *context;
    struct stream *stream; /* NULL: our own */
    const struct region_at *rows;
    size_t count;
    struct region by; /* who takes it */
    uint32_t does;
    int sets; /* the state, to: */
    enum region_state state;
};
uint64_t work_submit(const struct region_work *wanted);
size_t work_parts(uint64_t row_bytes);                                  /* jobs of a row */
size_t work_most(const struct region_at *rows, size_t count);           /* how many of these a launch has room for */
struct work *work_find(const struct context *context, uint64_t number); /* NULL: it is over, and collected */

int work_is_over(const struct region_at *row); /* the row's last work */

/* Makes later work on the stream wait for the rows' last work. Returns 0 if that cannot be done. */
int work_follow(struct stream *stream, const struct region_at *rows, size_t count);

/* Sets the state of rows of one context at once. */
void work_set_now(const struct region_at *rows, size_t count, enum region_state state);

/* Waits until the work is over. After `until_ms`, its jobs that have not begun are cancelled. Returns 0 then. */
int work_await(struct context *context, uint64_t number, uint64_t until_ms);

/* ---- check.c ---- */

int regions_collect(void); /* without the lock: reports what work has found. Returns whether there will be more */
/* The free rows of a division that hold the pattern. Returns their number; *out is malloc'ed. Caller holds the table's lock. */
size_t division_poisoned(const struct division *division, struct region_at **out);
/* work_submit() for any number of rows. until_ms: waits as work_await() does; 0: does not. Returns 0 if not all was done. */
int rows_check(const struct region_work *all, uint64_t until_ms);
