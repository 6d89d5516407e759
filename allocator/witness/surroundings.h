/*
 * Gathers what cufence and the host know about the addresses in the evidence of a fault, as plain data for the diagnosis.
 * Thread safety: that of the sources.
 */
#ifndef CUFENCE_WITNESS_SURROUNDINGS_H
#define CUFENCE_WITNESS_SURROUNDINGS_H

#include "analysis/verdict/diagnosis.h"
#include "driver/driver.h"
#include "launch/pinned.h"
#include "stacks/stack.h"
#include "vmm/arena.h"

/* Functions of other rooms that supply buffers, contexts and launches. heap.h documents each. */
struct fault_sources {
    size_t (*near)(uint64_t address, cufence_buffer *out, size_t max);
    size_t (*live)(int device, cufence_buffer *out, size_t max, uint64_t *total);
    void (*set_faulted)(int device, CUresult error);
    int (*is_shared)(int device, int peer); /* arena_is_shared() */
    uint64_t (*arena_start)(void);
    uint64_t (*arena_end)(void);
    uint64_t (*now_ns)(void);
    /* Returns the newest launches of a kernel (mangled name, NULL: of all) on a device, newest first; has_graphs: graph
     * launches too. stacks: may be NULL. */
    size_t (*launches)(int device, const char *kernel, int has_graphs, struct launch_entry *out, struct stack *stacks,
                       size_t max);
    size_t (*arguments)(const struct launch_entry *entry, uint8_t *out, size_t max); /* launch_read_arguments() */
    cufence_status (*export)(uint64_t address, struct slot_export *out);             /* arena_export() */
    int (*pinned)(uint64_t address, struct pinned *found);                           /* pinned_find() */
    struct unguarded_buffers (*unguarded)(int device, uint64_t address);             /* passed_live() */
    /* stack_frames() */
    size_t (*frames)(const struct stack *stack, struct stack_frame *out, size_t max);
    struct buffer_frames buffer_frames;
};

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
struct surroundings *surroundings_of(const struct fault_sources *sources, const struct evidence *evidence, int device);

/* Adds the buffers at the addresses that further evidence, or a write to `address`, names. */
void surroundings_add(struct surroundings *around, const struct fault_sources *sources, const struct evidence *evidence);
void surroundings_add_address(struct surroundings *around, const struct fault_sources *sources, uint64_t address);

#endif
