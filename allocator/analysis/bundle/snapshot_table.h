/*
 * The tables of what a snapshot and a bundle keep, with the JSON names. Pure.
 */
#pragma once

#include "snapshot_json.h"
#include "json/json_table.h"

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

extern const struct json_table kept_snapshot, kept_bundle;
