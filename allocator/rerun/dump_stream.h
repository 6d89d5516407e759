/*
 * Arms core dumps, and reads one from a pipe while the driver writes it.
 *
 * The driver blocks until the pipe is read, and writes hundreds of thousands of small pieces if the device is full. So the pipe
 * is widened when a dump begins, and is drained in large reads: waking up for each piece would cost a context switch each.
 *
 * Ownership: struct dump owns its bytes; dump_forget() frees them. Thread safety: none, one thread reads.
 */
#pragma once

#include <cufence.h>
#include <stddef.h>
#include <stdint.h>

/* Has the driver write a dump of each exception to a file or pipe, for contexts created from now on. flags: of
 * CUcoredumpGenerationFlags. Errors: OVERFLOW (the name is too long), DRIVER. */
cufence_status dump_arm(const char *path, int flags);

struct dump {
    char *bytes;
    size_t size;     /* bytes kept */
    size_t received; /* bytes received; more than `size` if some were dropped */
    size_t capacity;
    uint64_t begin_ns;   /* time of the first byte; 0 before that */
    uint64_t end_ns;     /* time of the last byte */
    uint64_t copying_ns; /* part of that time spent copying; the rest was spent waiting for the driver */
};

enum dump_state {
    DUMP_TAKEN,   /* read some bytes; more may be available */
    DUMP_AWAITED, /* nothing available now, but the writer is still open */
    DUMP_OVER     /* no writer has the pipe open */
};

/* Makes the pipe as large as the system allows. Call it only once a dump has begun: the pipes of all of a user's processes
 * share a limit (fs.pipe-user-pages-soft, 64 MiB by default), beyond which new pipes are tiny. */
void dump_widen(int fd);

/* Does one read; never blocks. Call it until nothing is left: poll() does not report the hang-up of a writer that closed
 * before the pipe was opened. */
enum dump_state dump_take(int fd, struct dump *dump);

/* Sleeps for up to 0.5 ms, so that the driver can write more than one piece. Call it before polling. */
void dump_rest(int fd);

/* Returns 1 if all received bytes were kept. */
int dump_is_complete(const struct dump *dump);

void dump_forget(struct dump *dump);
