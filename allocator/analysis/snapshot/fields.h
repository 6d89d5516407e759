/*
 * The tables of what a snapshot and a bundle keep, with the JSON names. Pure.
 */
#pragma once

#include "analysis/verdict/rerun_result.h"
#include "record/record.h"

/* A launch on record, with what a struct fault_launch says of it. */
struct kept_launch {
    struct launch_entry entry;
    int has_function;
    uint32_t function;   /* its index in the list of functions */
    uint32_t byte_count; /* of entry.bytes */
    unsigned place;
    const struct stack_frame *frames;
    size_t frame_count;
};

/* A second launch: everything but the evidence, which is in a dump of its own beside the snapshot. Types of figures and
 * addresses of emulated lanes have no fields here. */
struct kept_rerun {
    struct rerun_result result;
    int has_launch;
    uint64_t launch; /* its index among the recorded ones */
    struct kept_write {
        uint64_t buffer; /* its number, 0 if none is known */
        struct rerun_write write;
    } writes[sizeof((struct rerun_result *)0)->writes / sizeof(struct rerun_write)];
    size_t write_count;
};

extern const struct record kept_map;
extern const struct record kept_buffer, kept_frame, kept_launch, kept_memory, kept_origin, kept_rerun, kept_lane, kept_figures;
extern const struct record kept_rerun_launch, kept_rerun_variable, kept_bundle;

/* ---- keep_rerun.c: a second launch as the member "rerun" of a snapshot ---- */

/* Returns the object. The launch is named by its index in `memory`, a buffer by its number. */
json_t *rerun_result_put(const struct rerun_result *rerun, const struct fault_memory *memory);

/* Reads it; what is missing or makes no sense is left out. The launch and the buffers are those of `memory`. */
void rerun_result_take(const json_t *object, const struct fault_memory *memory, struct rerun_result *rerun);
