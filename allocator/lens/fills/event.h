/*
 * What one program did on its streams, as lines of JSON: the file of uninit=FILE, for `cufence hunt --uninit`, and launch.json
 * of save_values=. No line holds an address or a handle, so that those of two runs can be compared.
 *
 * Everything that is read is checked here. Units: bytes.
 * Ownership: an event that is written borrows all that it points to; one that was read owns it, see seen_event_free().
 * Pure; any thread.
 */
#pragma once

#include "base/error.h"

#include <stdint.h>
#include <stdio.h>

#define SEEN_VERSION 1
#define SEEN_LINE_BYTES ((size_t)4 << 20) /* a longer line is refused */
#define SEEN_ARGUMENTS 4096               /* more buffers or scalars of one launch are refused */
#define SEEN_ADDRESS "address"            /* value of a scalar that looks like an address: it differs from run to run */

enum seen_kind {
    SEEN_LAUNCH,
    SEEN_GRAPH, /* a launch of a CUDA graph */
    SEEN_COPY,
    SEEN_SET,
    SEEN_END, /* the last line; of its fields only `number`, here of all events, and `missed` have a meaning */
    SEEN_KINDS
};

extern const char *const seen_kinds[]; /* their words; ends with NULL */

/* A buffer that the kernel has a pointer to, from there to its end; or what a copy reads or writes. */
struct seen_buffer {
    int argument;     /* from 0; -1: none, or the layout is unknown */
    uint32_t at;      /* where in the argument the pointer is */
    const char *name; /* the place of its allocation or its label, and how many from there came before: "train.py:17 #2" */
    uint64_t size;    /* of the buffer */
    uint64_t offset;  /* of the pointer */
    uint64_t bytes;   /* that were hashed */
    int has_before, has_after;
    uint64_t before, after; /* hashes (kernels/hash.h) */
    int has_folded_before, has_folded_after;
    uint64_t folded_before, folded_after; /* folded hashes (kernels/hash.h) */
};

struct seen_scalar {
    int argument; /* from 0; -1: all arguments, their layout is unknown */
    uint32_t bytes;
    const char *value; /* up to 8 bytes: "0x3e8". SEEN_ADDRESS. More: two digits for each byte, without those of pointers */
};

struct seen_event {
    enum seen_kind kind;
    uint64_t number; /* in its stream, from 1 */
    uint64_t launch; /* number of the launch or graph in its process, from 1; 0: a copy or set */
    uint64_t stream; /* from 1, by first use */
    int device;
    const char *name;   /* the kernel as in its source; the driver function of a copy or set; "" for graphs */
    const char *symbol; /* the kernel's mangled name; "" for others */
    const char *place;  /* of the call: "train.py:41 in step"; "" if unknown */
    uint32_t grid[3], block[3];
    uint32_t shared;
    uint64_t missed; /* SEEN_END: events without hashes, because the device was faster than the hashes */
    const struct seen_buffer *buffers;
    size_t buffer_count;
    const struct seen_scalar *scalars;
    size_t scalar_count;
    void *own[2]; /* what an event that was read owns */
};

struct seen_header {
    char fill[8]; /* what fresh memory was filled with: "0x00"; "": nothing */
};

/* Whether the runs are of two fills, so that memory which nobody has written is told apart by its bytes. */
int seen_has_two_fills(const struct seen_header *a, const struct seen_header *b);

/* Write a line, with its newline. Text that is not UTF-8 is repaired. The caller checks ferror(). */
void seen_header_write(FILE *out, const struct seen_header *header);
void seen_event_write(FILE *out, const struct seen_event *event);

/* Read a line, with or without its newline. Errors: CORRUPT, UNSUPPORTED (another version), OUT_OF_MEMORY. The message does not
 * name the file or the line. After an error there is nothing to free. */
cufence_status seen_header_read(const char *line, size_t size, struct seen_header *header, struct problem *problem);
cufence_status seen_event_read(const char *line, size_t size, struct seen_event *event, struct problem *problem);
void seen_event_free(struct seen_event *event); /* one that was read; again is allowed */
