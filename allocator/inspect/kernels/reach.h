/*
 * A kernel that follows pointers: it looks for addresses of buffers in the memory of buffers, at multiples of 8, and copies
 * the buffers that it finds. One block does all of it, in the order of the launch's stream, because the host must not wait for
 * what is in that memory.
 *
 * All of its memory is the host's, pinned, at the same address for both. The program's buffers must stay mapped until it is
 * done.
 */
#pragma once

#include <stdint.h>

#define REACH_THREADS 1024u
#define REACH_NONE UINT64_MAX

/* A buffer that may be found. */
struct reach_buffer {
    uint64_t start, end;    /* of its mapping: an address in there finds it */
    uint64_t address, size; /* its bytes */
    uint64_t at;            /* by the kernel: where its bytes are in `out`, a multiple of 16; REACH_NONE: there was no room */
    uint32_t is_found;      /* 1 for those to begin with, which are not copied; else by the kernel */
    uint32_t unused;
};

/* The buffers that were found, as indices of the table: first those to begin with. */
struct reach_queue {
    uint32_t count;
    uint32_t unused;
    uint32_t at[];
};

struct reach {
    uint64_t table; /* struct reach_buffer, by `start` */
    uint64_t queue; /* struct reach_queue, with room for all */
    uint64_t out, room;
    uint64_t each, most; /* bytes to search: the last of each buffer, and in all */
    uint32_t count;      /* of the table */
    uint32_t first;      /* of the queue, to begin with */
    uint32_t is_again;   /* 1: copies what the launch before has found, and searches nothing */
    uint32_t unused;
};
