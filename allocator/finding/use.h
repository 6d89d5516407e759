/*
 * Renders what is allocated, by place of allocation: a table for people, and one line of JSON (docs/memory.md). Pure.
 */
#pragma once

#include "analysis/snapshot/snapshot.h"

/* A place: where its buffers were allocated, and how much they are. */
struct use_place {
    struct stack_frame frame; /* the program's own, or the innermost; function and file "" if unknown */
    int has_frame;
    char label[64];
    int device;
    uint64_t buffers, bytes, mapped_bytes, largest;
    uint64_t oldest_ns; /* the time of the oldest allocation */
};

struct use_sum {
    uint64_t buffers, bytes, mapped_bytes;
};

struct usage {
    const struct use_place *places; /* in the order in which they are shown */
    size_t count;
    uint64_t now_ns;
    uint64_t unguarded_buffers, unguarded_bytes; /* live, besides these */
    const char *when;                            /* "at exit"; NULL: nothing special */
    int pid;
    int rank;           /* -1: none */
    struct use_sum sum; /* of all places: use_json()'s own */
};

#define USE_SHOWN 20 /* places in the table; the others are summed up in its last line */

/* Return malloc'ed text, NULL if out of host memory. The JSON ends with a newline. */
char *use_text(const struct usage *use);
char *use_json(const struct usage *use);

/* Writes "train.py:12 in forward, label "x"" to `out`, cut to fit; "an unknown place" if nothing is known. */
void use_place_name(const struct use_place *place, char *out, size_t size);
