/*
 * What cufence knew when a kernel faulted, as plain data: the buffers that may matter, the launches on record, and who called.
 */
#ifndef CUFENCE_ANALYSIS_SNAPSHOT_SNAPSHOT_H
#define CUFENCE_ANALYSIS_SNAPSHOT_SNAPSHOT_H

#include <cufence.h>

/* ---- who called ---- */

#define STACK_READ 24 /* frames of a stack that are looked at, the innermost */
#define STACK_SHOWN 8 /* lines that a report has for them at most */

/* One frame in readable form, innermost first. */
struct stack_frame {
    int is_python;
    char function[160]; /* demangled; "" if unknown */
    char file[256];     /* of the source; "" if unknown */
    int line;           /* 0 if unknown */
    char module[128];   /* native: file name of the program or library; "" for Python */
    uint64_t offset;    /* native: of the return address in the module's file */
};

/* ---- launches ---- */

#define LAUNCH_KEPT_BYTES 256 /* of the arguments of one launch */

/* Where an argument lies in the parameter bytes, as the device sees them. */
struct launch_argument {
    uint32_t offset, size;
};

/* A kernel. There is one of these for each name and layout, and it is never freed: pointers to it stay good. */
struct launch_function {
    const char *name;        /* mangled; "" where the driver does not tell */
    int has_layout;          /* the rest is known (CUDA 12.4 and later) */
    uint32_t argument_bytes; /* where the last argument ends */
    uint32_t argument_count;
    struct launch_argument arguments[];
};

struct launch_entry {
    uint64_t sequence;                      /* of its thread in its context, from 1; higher is newer */
    uint64_t time_ns;                       /* CLOCK_MONOTONIC, up to one tick of the kernel (1 to 10 ms) early */
    const struct launch_function *function; /* NULL for a graph */
    uint64_t graph;                         /* CUgraphExec, 0 for a kernel */
    uint64_t stream;
    uint32_t tid; /* of the launching thread */
    int device;   /* the driver's ordinal, -1 if unknown */
    int is_cooperative;
    uint32_t grid[3], block[3];
    uint32_t cluster[3]; /* zeros: the launch did not say */
    uint32_t shared_bytes;
    uint32_t argument_bytes; /* of the launch, kept or not; 0 if they are not known */
    uint32_t kept_bytes;     /* in bytes[]: the first ones. Between arguments lies what happens to lie there */
    uint8_t bytes[LAUNCH_KEPT_BYTES];
};

/* A launch on record. */
struct fault_launch {
    const struct launch_entry *entry;
    const struct stack_frame *frames; /* of the launching thread, innermost first; of launches that fit a site only */
    size_t frame_count;
    unsigned place; /* equal for launches with the same frames; 0: unknown */
};

/* The frames behind cufence_buffer.allocated_stack and freed_stack, innermost first: at most `max`; 0 where nobody knows them.
 */
struct buffer_frames {
    size_t (*read)(const void *from, uint32_t stack, struct stack_frame *out, size_t max); /* NULL: nobody knows any */
    const void *from;
};

/* The buffers that may matter, in any order, as plain copies, and the launches. */
struct fault_memory {
    int is_unknown; /* nobody knew the buffers, as of a dump alone: then nothing is said of what lies at an address */
    const cufence_buffer *near; /* those whose span (guards included) holds a faulting address, live and freed ones, and the
                                   nearest live ones on both sides of it; and those that a kernel argument points to, with
                                   their neighbours */
    size_t near_count;
    const cufence_buffer *live; /* candidates when the address is unknown: live buffers of the device, newest first */
    size_t live_count;
    size_t live_total;    /* how many live buffers the device has in all */
    int device;           /* the one that faulted, as cufence_buffer.device */
    uint64_t shared;      /* bit d: that device is known to have access to the buffers of device d too */
    uint64_t arena_start; /* cufence's address space */
    uint64_t arena_end;
    int is_host_address; /* the host has memory mapped at the first faulting address */
    uint64_t now_ns;
    const struct fault_launch *launches; /* on record of the kernels that faulted, and of graphs; newest first */
    size_t launch_count;
    struct buffer_frames frames;
};

#endif
