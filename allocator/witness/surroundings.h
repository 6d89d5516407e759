/*
 * Gathers what cufence and the host know about the addresses in the evidence of a fault, as plain data for the diagnosis.
 * Thread safety: any thread.
 */
#ifndef CUFENCE_WITNESS_SURROUNDINGS_H
#define CUFENCE_WITNESS_SURROUNDINGS_H

#include "analysis/verdict/diagnosis.h"
#include "stacks/stack.h"

enum {
    SURROUNDINGS_LAUNCHES = 4096, /* launches of the kernels that faulted: as many as are kept per thread by default */
    SURROUNDINGS_RECENT = 24,     /* launches of any kernel, for the timeline */
    SURROUNDINGS_PLACES = 16      /* places whose frames are resolved: each may take milliseconds */
};

/* A place that launches came from. */
struct launch_place {
    const struct stack *stack; /* of one of the launches */
    struct stack_frame frames[STACK_READ];
    size_t frame_count;
};

struct surroundings {
    struct fault_memory memory; /* for fault_diagnose(); points into the other fields */
    cufence_buffer near[256];
    cufence_buffer live[64];
    size_t near_count;
    struct fault_launch launches[SURROUNDINGS_LAUNCHES];
    size_t launch_count;
    struct launch_place places[SURROUNDINGS_PLACES];
    size_t place_count;
    struct launch_entry entries[SURROUNDINGS_LAUNCHES];
    struct launch_entry recent[SURROUNDINGS_RECENT];
    struct stack stacks[SURROUNDINGS_LAUNCHES];
};

/* Returns calloc'ed memory that the caller frees, or NULL if out of host memory. */
struct surroundings *surroundings_of(const struct evidence *evidence, int device);

/* Adds the buffers at the addresses that further evidence, or a write to `address`, names. */
void surroundings_add(struct surroundings *around, const struct evidence *evidence);
void surroundings_add_address(struct surroundings *around, uint64_t address);

#endif
