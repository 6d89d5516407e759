/*
 * A call on the host that misused a buffer, as reported by the code that refused it.
 */
#pragma once

#include "analysis/verdict/diagnosis.h"

/* Work that may not be done when the call frees or writes its buffer: nothing orders the two. Or a call that gave a node of a
 * graph or a texture the address of a buffer that is freed by now. */
struct earlier_use {
    const char *kernel;               /* mangled; "" if unknown, NULL if it was no launch */
    const struct launch_entry *entry; /* the launch; NULL if it is no longer on record */
    const char *call;                 /* the driver function, if it was a copy; else NULL */
    uint64_t stream, by_stream;       /* where it runs, and that of the call */
    int by_host;                      /* the call is one that the host waits for */
    int is_host_memory;               /* a copy, of page-locked memory that the host changes, reads or frees */
    int is_kept;                      /* the latter */
    uint64_t graph;                   /* the executable whose node it was; 0: none */
    uint64_t tid, time_ns;            /* time_ns: 0 if unknown */
    const struct stack_frame *frames; /* of the caller, innermost first */
    size_t frame_count;
};

/* What it is called: the kernel without its types, or the call. */
const char *use_name(const struct earlier_use *use, char *name, size_t size);

struct misuse {
    const char *kind;     /* "double free", "invalid free", "host write out of bounds", ... */
    const char *call;     /* the driver function, as in the CUDA documentation */
    const char *sentence; /* what the call did, beginning with the address or with a verb */
    uint64_t address;
    enum access_kind access; /* ACCESS_UNKNOWN for a free, which accesses nothing */
    uint64_t bytes;
    const cufence_description *where; /* what is at the address */
    uint64_t tid;                     /* the calling thread */
    const struct stack_frame *frames; /* of the caller, innermost first */
    size_t frame_count;
    uint64_t now_ns;
    struct buffer_frames buffer_frames;
    const struct earlier_use *earlier; /* of a stream race, or of what is kept; else NULL */
};
