/*
 * What cufence knew when a kernel faulted, as plain data: the relevant buffers, the recorded launches, and the call stacks.
 * Pure; any thread.
 */
#pragma once

#include "base/shape.h"

#include <cufence.h>

/* ---- who called ---- */

#define STACK_READ 24 /* innermost frames of a stack to read */
#define STACK_SHOWN 8 /* maximum number of lines for them in a report */

/* A frame in readable form. */
struct stack_frame {
    int is_python;
    char function[160]; /* demangled; "" if unknown */
    char file[256];     /* source file; "" if unknown */
    int line;           /* 0 if unknown */
    char module[128];   /* native: file name of the program or library; "" for Python frames */
    uint64_t offset;    /* native: offset of the return address in the module's file */
};

/* ---- launches ---- */

#define LAUNCH_KEPT_BYTES 256 /* of a launch's arguments; launch_read_arguments() has the others */

/* Offset and size of an argument in the parameter bytes, in the device's layout. */
struct launch_argument {
    uint32_t offset, size;
};

/* A kernel. There is one of these per name and layout. It is never freed, so pointers to it stay valid. */
struct launch_function {
    const char *name;        /* mangled; "" if the driver does not say */
    int has_layout;          /* the fields below are valid (CUDA 12.4 and later) */
    uint32_t argument_bytes; /* end of the last argument */
    uint32_t argument_count;
    struct launch_argument arguments[];
};

struct launch_entry {
    uint64_t sequence;                      /* number in its thread and context, from 1; higher is newer */
    uint64_t time_ns;                       /* CLOCK_MONOTONIC, up to one kernel tick (1 to 10 ms) early */
    const struct launch_function *function; /* NULL for a graph launch */
    uint64_t graph;                         /* CUgraphExec, 0 for a kernel */
    uint64_t stream;
    uint32_t tid; /* of the launching thread */
    int device;   /* the driver's ordinal, -1 if unknown */
    int is_cooperative;
    uint32_t node; /* captured into a graph: 1 plus the nodes that were there; 0: it was not */
    SHAPE;
    uint32_t shared_bytes;
    uint32_t argument_bytes; /* size of all arguments, kept or not; 0 if unknown */
    uint32_t kept_bytes;     /* number of valid bytes in bytes[]. Padding between arguments is undefined */
    uint8_t bytes[LAUNCH_KEPT_BYTES];
    void *slot; /* for launch_read_arguments(): where the launch is on record, NULL in what launch_read() has not returned; */
    uint64_t turn; /* and the number of the launch among those that were on record there */
};

/* A recorded launch. */
struct fault_launch {
    const struct launch_entry *entry;
    const struct stack_frame *frames; /* of the launching thread, innermost first; only for launches that fit a stop */
    size_t frame_count;
    unsigned place; /* equal for launches with equal frames; 0 if unknown */
};

/* ---- tensor maps ---- */

enum { MAP_BYTES = 128, MAP_ALIGNMENT = 64, MAP_RANKS = 5 };

/* A CUtensorMap (cuTensorMapEncode*) of memory of ours. Sizes in elements, innermost dimension first. */
struct tensor_map {
    uint8_t bytes[MAP_BYTES]; /* what it consists of */
    char call[32];            /* the driver function that made it */
    uint64_t base;
    uint32_t rank, element_bits; /* element_bits: 0 if it is not known what lies where in memory */
    uint64_t size[MAP_RANKS];
    uint64_t stride[MAP_RANKS]; /* bytes; the first is not used */
    uint32_t box[MAP_RANKS];    /* zeros: it is no tiled map */
    uint64_t buffer, room;      /* the live buffer that had the base, and its bytes from there on; 0: there was none */
    uint64_t copied_to;         /* the latest device address that the host has copied it to, 0: none */
    uint64_t time_ns;
    uint32_t stack; /* for struct buffer_frames */
};

/* Bytes from the base to the end of the last element; 0 if unknown. UINT64_MAX if they are more than an address can count. */
uint64_t map_extent(const struct tensor_map *map);

/* Whether drivers are known to encode such a map wrongly for a GPU from sm_100 on, and this one is so: the tensor fits into its
 * memory, but is not dense, that has fewer than 128 KiB, and bit 85 is set, which is to be cleared then (release notes of
 * driver 595.71.05). */
int map_is_misencoded(const struct tensor_map *map);

/* Bytes beyond the end of the buffer that it was made for; 0: none, or unknown. */
uint64_t map_excess(const struct tensor_map *map);

/* Reads the frames of cufence_buffer.allocated_stack and freed_stack, innermost first. Returns their number, at most `max`;
 * 0 if unknown. */
struct buffer_frames {
    size_t (*read)(const void *from, uint32_t stack, struct stack_frame *out, size_t max); /* NULL if no frames are available */
    const void *from;
};

/* Live buffers that the driver has allocated, because an option leaves them out or there was no room. */
struct unguarded_buffers {
    uint64_t count, bytes; /* on the faulting device */
    uint64_t near, size;   /* the one that begins closest at or below the first faulting address; size 0: none */
};

/* The relevant buffers, in any order, as plain copies, and the launches. */
struct fault_memory {
    int is_unknown;             /* no buffers are known, as with a dump alone: nothing is said about what is at an address */
    const cufence_buffer *near; /* buffers whose span (guards included) contains a faulting address, live and freed ones;
                                   the nearest live buffers on both sides of it; and those that a kernel argument points to,
                                   with their neighbours */
    size_t near_count;
    void (*buffers_at)(void *from, uint64_t address); /* adds to `near` those at and around an address; NULL: all are there */
    void *from;
    const cufence_buffer *live; /* candidates when the address is unknown: live buffers of the device, newest first */
    size_t live_count;
    size_t live_total;    /* number of live buffers on the device */
    int device;           /* the faulting device, as in cufence_buffer.device */
    uint64_t shared;      /* bit d: the faulting device is known to have access to the buffers of device d */
    uint64_t arena_start; /* cufence's address space */
    uint64_t arena_end;
    struct unguarded_buffers unguarded;
    int is_host_address; /* the host has memory mapped at the first faulting address */
    uint64_t now_ns;
    const struct fault_launch *launches; /* recorded launches of the kernels that faulted, and of graphs; newest first */
    size_t launch_count;
    const struct launch_entry *recent; /* the newest recorded launches of the device, of any kernel, in any order */
    size_t recent_count;
    const struct tensor_map *maps; /* newest first */
    size_t map_count;
    struct buffer_frames frames;
};

/* ---- a launch with all that it takes to do it again, and its pinned host memory, at the addresses that it had ---- */

#define RERUN_LAUNCHES 512          /* that are launched again until one faults */
#define BUNDLE_LAUNCHES 8           /* of these, in a bundle */
#define RERUN_ARGUMENTS (32u << 10) /* most bytes of one launch's arguments */

struct rerun_launch {
    SHAPE;
    uint32_t shared_bytes;
    uint32_t is_cooperative;
    uint32_t argument_bytes;
    const uint8_t *arguments; /* in the device's layout */
};

/* The launch as it is on record, with these arguments. */
struct rerun_launch rerun_launch_of(const struct launch_entry *entry, const uint8_t *arguments);

#define RERUN_VARIABLES 256                      /* of the module */
#define RERUN_VARIABLE_BYTES ((uint32_t)1 << 20) /* of all of them together */

/* A variable of the kernel's module, as the fault left it. */
struct rerun_variable {
    const char *name;
    const uint8_t *value;
    uint32_t bytes;
};

#define RERUN_PINNED 64                         /* blocks */
#define RERUN_PINNED_BYTES ((uint64_t)64 << 20) /* of all blocks together */
