/*
 * Takes a core dump out of the FIFO while the driver writes it.
 *
 * The driver waits until somebody has read, and writes hundreds of thousands of small pieces where a device is full. So the
 * FIFO is widened when a dump begins, and is emptied in large gulps: a reader that wakes up for each piece costs a
 * change of threads each.
 *
 * Ownership: struct dump owns its bytes; dump_forget() frees them. Thread safety: none, one thread reads.
 */
#ifndef CUFENCE_WITNESS_INTAKE_H
#define CUFENCE_WITNESS_INTAKE_H

#include <stddef.h>
#include <stdint.h>

struct dump {
    char *bytes;
    size_t size;     /* of what is kept in bytes */
    size_t received; /* bytes in all; more than size if there was no room for all */
    size_t capacity;
    uint64_t begin_ns;   /* when its first byte was there; 0 before that */
    uint64_t end_ns;     /* when its last one was */
    uint64_t copying_ns; /* of that time what it took to copy them; the rest was waiting for the driver */
};

enum dump_state {
    DUMP_TAKEN,   /* some; there may be more at once */
    DUMP_AWAITED, /* nothing is there now, and more is to come */
    DUMP_OVER     /* no writer has it open */
};

/* Opens the FIFO for reading, without waiting for a writer. Returns the descriptor, or -1 and sets errno. */
int dump_open(const char *path);

/* Makes the FIFO as large as the system allows. Once a dump has begun and not before: what the pipes of all of a user's
 * processes may hold together is limited (fs.pipe-user-pages-soft, 64 MiB by default), and beyond that new ones are tiny. */
void dump_widen(int fd);

/* Takes what one read gives, and never waits. To be called until it has nothing: poll() does not tell of the end of a writer
 * that was gone before the FIFO was opened. */
enum dump_state dump_take(int fd, struct dump *dump);

/* Gives the driver time to write more than a piece, 0.5 ms at most. Before waiting for the next. */
void dump_rest(int fd);

/* Whether all of it could be kept. */
int dump_is_complete(const struct dump *dump);

void dump_forget(struct dump *dump);

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t dump_clock(void);

#endif
