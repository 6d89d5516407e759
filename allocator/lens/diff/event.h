/*
 * A line of a trace (trace=FILE): what one program did on its streams, as JSON Lines, for `cufence diff` (docs/diff.md,
 * docs/trace.schema.json). No line holds an address or a handle, so that those of two runs can be compared.
 *
 * A trace may come from a stranger, so everything in it is checked here. Units: bytes.
 * Ownership: an event that is written borrows all that it points to; one that was read owns it, see trace_event_free().
 * Pure; any thread.
 */
#pragma once

#include "base/error.h"

#include <stdint.h>
#include <stdio.h>

#define TRACE_VERSION 1
#define TRACE_LINE_BYTES ((size_t)4 << 20) /* a longer line is refused */
#define TRACE_ARGUMENTS 4096               /* more buffers or scalars of one launch are refused */
#define TRACE_ADDRESS "address"            /* value of a scalar that looks like an address: it differs from run to run */

enum trace_kind {
    TRACE_LAUNCH,
    TRACE_GRAPH, /* a launch of a CUDA graph */
    TRACE_COPY,
    TRACE_SET,
    TRACE_END, /* the last line of a whole trace; of its fields only `number`, here of all events, and `missed` have a meaning
                */
    TRACE_KINDS
};

extern const char *const trace_kinds[]; /* their words; ends with NULL */

/* A buffer that the kernel has a pointer to, from there to its end; or what a copy reads or writes. */
struct trace_buffer {
    int argument;     /* from 0; -1: none, or the layout is unknown */
    uint32_t at;      /* where in the argument the pointer is */
    const char *name; /* the place of its allocation or its label, and how many from there came before: "train.py:17 #2" */
    uint64_t size;    /* of the buffer */
    uint64_t offset;  /* of the pointer */
    uint64_t bytes;   /* that were hashed */
    int has_before, has_after;
    uint64_t before, after; /* hashes (kernels/hash.h) */
    int has_folded_before, has_folded_after;
    uint64_t folded_before, folded_after; /* folded hashes, in a trace that has trace_header.fill */
};

struct trace_scalar {
    int argument; /* from 0; -1: all arguments, their layout is unknown */
    uint32_t bytes;
    const char *value; /* up to 8 bytes: "0x3e8". TRACE_ADDRESS. More: two digits for each byte, without those of pointers */
};

struct trace_event {
    enum trace_kind kind;
    uint64_t number; /* in its stream, from 1 */
    uint64_t launch; /* number of the launch or graph in its process, from 1; 0: a copy or set */
    uint64_t stream; /* from 1, by first use */
    int device;
    const char *name;   /* the kernel as in its source; the driver function of a copy or set; "" for graphs */
    const char *symbol; /* the kernel's mangled name; "" for others */
    const char *place;  /* of the call: "train.py:41 in step"; "" if unknown */
    uint32_t grid[3], block[3];
    uint32_t shared;
    uint64_t missed; /* TRACE_END: events without hashes, because the device was faster than the trace */
    const struct trace_buffer *buffers;
    size_t buffer_count;
    const struct trace_scalar *scalars;
    size_t scalar_count;
    void *own[2]; /* what an event that was read owns */
};

struct trace_header {
    char cufence[32], device[128], program[512], options[512];
    uint32_t compute; /* capability, 90 for 9.0 */
    uint32_t driver;  /* CUDA version of the driver, 13000 */
    char filter[256]; /* trace=LAUNCHES=FILE: the launches that it has; "": all */
    uint64_t every;   /* every=: it has one in so many of those; 0 is 1 */
    char fill[8];     /* "0x00" or "0x4b": what fresh memory was filled with; "": neither, and there are no folded hashes */
};

/* Whether a trace with this header leaves launches out, and whether two leave out the same. */
int trace_is_partial(const struct trace_header *header);
/* Whether the runs are of two fills, so that memory which nobody has written is told apart by its bytes. */
int trace_has_two_fills(const struct trace_header *a, const struct trace_header *b);
int trace_has_same_launches(const struct trace_header *a, const struct trace_header *b);

/* Write a line, with its newline. Text that is not UTF-8 is repaired. The caller checks ferror(). */
void trace_header_write(FILE *out, const struct trace_header *header);
void trace_event_write(FILE *out, const struct trace_event *event);

/* Read a line, with or without its newline. Errors: CORRUPT, UNSUPPORTED (another version), OUT_OF_MEMORY. The message does not
 * name the file or the line. After an error there is nothing to free. */
cufence_status trace_header_read(const char *line, size_t size, struct trace_header *header, struct problem *problem);
cufence_status trace_event_read(const char *line, size_t size, struct trace_event *event, struct problem *problem);
void trace_event_free(struct trace_event *event); /* one that was read; again is allowed */
