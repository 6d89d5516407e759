/*
 * The pattern in the slack of buffers: a kernel that checks and writes it, for many buffers at once. Each byte of the pattern
 * follows from its address.
 *
 * Jobs and states are in host memory that the device reads and writes (cuMemHostRegister). The kernel sets a state when
 * everything that its job asks for is done, so the host learns of it without a driver call.
 * Thread safety: any thread; a batch belongs to one at a time.
 */
#pragma once

#include "flight.h"

#define PATTERN_KERNEL "cufence_pattern"
#define PATTERN_FILL_KERNEL "cufence_pattern_fill"

/* What a job does, in this order. */
enum {
    PATTERN_CHECK = 1, /* compares the bytes of check[] */
    PATTERN_RENEW = 2, /* writes the pattern into a range of check[] in which bytes have changed */
    PATTERN_WRITE = 4, /* writes the pattern into the ranges of write[] */
    PATTERN_NANS = 8   /* of all three: the pattern is 0x7fff in each two bytes, wherever they are: NaN in every format */
};

enum { PATTERN_OPEN = 0, PATTERN_GOOD = 1, PATTERN_BAD = 2 }; /* states */

struct pattern_range {
    uint64_t start, end; /* addresses; empty if equal */
};

/* The bytes found in a range in which some had changed. */
#define PATTERN_FOUND 64
struct pattern_found {
    uint64_t first, last; /* addresses of the first and of the last changed byte */
    uint32_t count;       /* of changed bytes; 0: none */
    uint32_t unused;
    uint8_t bytes[PATTERN_FOUND]; /* from `first` to the end of the range, as many as there are */
};

enum { PATTERN_HEAD = 0, PATTERN_TAIL = 1 };

struct pattern_job {
    struct pattern_range check[2], write[2]; /* in front of a buffer, and behind it */
    uint32_t does;
    uint32_t unused;
    struct pattern_found found[2]; /* set where bytes had changed; the host sets the counts to 0 */
};
_Static_assert(sizeof(struct pattern_job) == 248, "as in pattern.cu");

/* Loads the kernels into the current context. Returns 0 if the driver refuses them. Slow; call it once a context. */
int pattern_load(CUfunction *function, CUfunction *fill);

/* Launches it for `count` jobs on the stream, with the addresses that the device knows them by. Does not wait. */
CUresult pattern_launch(CUfunction function, CUstream stream, CUdeviceptr jobs, CUdeviceptr states, unsigned count);

/* Waits until the flight of `count` jobs is over. After `until_ms` those that have not begun are cancelled; then returns 0. */
int pattern_await(struct flight *flight, struct pattern_job *jobs, size_t count, uint64_t until_ms);

/* Launches the other one, which writes the pattern to all of a page: multiples of eight bytes. Does not wait. */
CUresult pattern_fill(CUfunction fill, CUstream stream, CUdeviceptr start, uint64_t bytes);
