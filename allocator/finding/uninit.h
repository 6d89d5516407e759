/*
 * The finding that what a launch has written depends on bytes that nobody had written before: it was made twice, where these
 * bytes were 0x00 and where they were 0x4b, and wrote two results. Pure; any thread.
 */
#ifndef CUFENCE_FINDING_UNINIT_H
#define CUFENCE_FINDING_UNINIT_H

#include "analysis/snapshot/snapshot.h"
#include "analysis/values/value.h"

#define FINDING_UNINIT "uninitialised read"

struct uninit_fact {
    const char *kernel; /* demangled; NULL if unknown */
    const char *symbol; /* of the kernel, mangled; NULL: a graph, or the host computed with them */
    const char *what;   /* that computed with them: "the program on the host"; NULL: the kernel */
    const char *place;  /* of the launch, where no more is known of it: "train.py:41 in step"; NULL or "" */
    uint64_t number;    /* of the launch in its process; 0 if unknown */
    uint32_t grid[3], block[3];
    const struct fault_launch *launched; /* NULL if unknown */
    const cufence_buffer *fresh;         /* that has bytes which nobody had written; NULL if unknown */
    struct buffer_frames frames;
    int from;                            /* argument that points there, -1 if unknown */
    uint64_t unwritten, first_unwritten; /* how many, and the first of them; 0: unknown */
    uint64_t more;                       /* further buffers with such bytes that it was given, and has only read as well */
    int may_be_result;                   /* the result is in another buffer, and had such bytes there, too */
    int argument;                        /* that points to the result, -1 if unknown */
    enum value_type type;                /* of its elements; those and the rest are valid if different is not 0 */
    uint64_t elements, different, first; /* first: index of the first one that differs */
    char values[2][32];                  /* of that: with 0x00 and with 0x4b */
    uint64_t now_ns;
    char reason[640]; /* finding_of_uninit() sets it: all that in a sentence */
};

#endif
