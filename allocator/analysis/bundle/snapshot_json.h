/*
 * Writes a snapshot as JSON, in the format that docs/explain.md describes, and reads it. So a fault can be explained on another
 * machine, in the same words.
 *
 * Ownership: as each function says. Pure; any thread.
 */
#pragma once

#include "analysis/verdict/rerun_result.h"
#include "base/error.h"
#include "snapshot.h"

/* Incremented when a field changes its meaning or is removed, not when a field is added. */
#define SNAPSHOT_VERSION 2

/* Where a snapshot comes from. */
struct snapshot_source {
    int pid;
    int rank;              /* in a distributed job, -1 if none */
    int device;            /* the driver's ordinal, -1 if unknown */
    char device_name[128]; /* "" if unknown */
    char program[256];     /* its file name; "" if unknown */
    char options[1024];    /* CUFENCE_OPTIONS; "" if not set */
    uint64_t time_ns;      /* of CLOCK_REALTIME */
};

struct snapshot {
    struct snapshot_source origin;
    struct fault_memory memory; /* points into the other fields */
    struct rerun_result rerun;  /* without its evidence; NOT_TRIED: there was no second launch */
};

/* rerun: what the second launch showed, NULL if there was none. Returns malloc'ed text that ends with a newline, or NULL if
 * out of host memory. The caller frees it. */
char *snapshot_write(const struct fault_memory *memory, const struct snapshot_source *origin, const struct rerun_result *rerun);

/* Reads the output of snapshot_write() of this version, and checks every number in it. Release *out with snapshot_free().
 * Errors: CORRUPT, UNSUPPORTED (another version), OUT_OF_MEMORY; *out is then NULL. */
cufence_status snapshot_read(const char *text, size_t size, struct snapshot **out, struct problem *problem);
void snapshot_free(struct snapshot *snapshot); /* NULL is allowed */

/* ---- what its table has; for the files of this folder ---- */

/* Frames, by the number that buffers and maps have for them. */
struct kept_stack {
    char number[12];
    const struct stack_frame *frames;
    size_t count;
};

/* A kernel: its name and, if has_layout, the offset and size of each argument, one after the other. */
struct kept_function {
    const char *name;
    uint32_t argument_bytes;
    int has_layout;
    const uint32_t *arguments;
    size_t count; /* of these numbers */
};

/* A launch on record, and what a struct fault_launch says of it besides. */
struct kept_launch {
    struct launch_entry entry;
    int has_function;
    uint32_t function;   /* its index in the list of functions */
    uint32_t byte_count; /* of entry.bytes */
    struct fault_launch of;
};

/* All of a snapshot but the types of figures. Of the second launch everything but the evidence, which is in a dump of its own
 * beside the snapshot; a buffer is its number alone. */
struct kept_snapshot {
    struct snapshot of; /* without launches */
    struct kept_stack *stacks;
    size_t stack_count;
    struct kept_function *functions;
    size_t function_count;
    struct kept_launch *launches;
    size_t launch_count;
    int has_rerun, has_launch;
    uint64_t launch; /* of the second one: its index among the recorded ones */
};

extern const struct json_table kept_snapshot;
