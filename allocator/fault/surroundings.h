/*
 * Gathers what cufence and the host know about the addresses in the evidence of a fault, as plain data for the diagnosis.
 * Thread safety: any thread.
 */
#pragma once

#include "analysis/verdict/diagnosis.h"
#include "launch/tensor_maps.h"
#include "stacks/stack.h"

enum {
    SURROUNDINGS_NEAR = 256,
    SURROUNDINGS_LAUNCHES = 4096, /* launches of the kernels that faulted: as many as are kept per thread by default */
    SURROUNDINGS_RECENT = 24,     /* launches of any kernel */
    SURROUNDINGS_PLACES = 16      /* places whose frames are resolved: each may take milliseconds */
};

struct launch_place {
    const struct stack *stack; /* of one of the launches */
    struct stack_frame frames[STACK_READ];
    size_t frame_count;
};

struct surroundings {
    struct fault_memory memory; /* for fault_diagnose(); points into the other fields */
    cufence_buffer near[SURROUNDINGS_NEAR];
    cufence_buffer live[64];
    struct fault_launch launches[SURROUNDINGS_LAUNCHES];
    struct launch_place places[SURROUNDINGS_PLACES];
    size_t place_count;
    struct launch_entry entries[SURROUNDINGS_LAUNCHES];
    struct launch_entry recent[SURROUNDINGS_RECENT];
    struct tensor_map maps[MAPS_KEPT];
    struct stack stacks[SURROUNDINGS_LAUNCHES];
};

/* Returns calloc'ed memory that the caller frees, or NULL if out of host memory. The diagnosis asks for further buffers by
 * memory.buffers_at. */
struct surroundings *surroundings_of(const struct evidence *evidence, int device);

/* ---- which part of a mapping was the buffer's when a kernel was launched; the rest is slack, where a write is out
 * of bounds though it does not fault ---- */

/* Finds the buffer whose mapping contains the address: the live one, or else the newest of those that were freed. Returns 0 if
 * there is none. */
int bounds_find(uint64_t address, cufence_buffer *found);

/* Returns 1 if the buffer, now the newest in its memory, had it at each of the launches. The host runs ahead of the device: it
 * may have freed the buffer that a launch was given, and another one has the memory since. recorded: NULL where a launch is not
 * on record; then the answer is 0. */
int bounds_are_sure(const cufence_buffer *buffer, const struct rerun_launch *launches,
                    const struct fault_launch *const *recorded, size_t count);

/*
 * Returns the driver's ordinal of the device that the dump names, -1 if it can't be determined. Driver and dump may
 * number devices differently (CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER), so the PCI bus and device number decide. A dump has no
 * PCI domain (drivers up to 580), and virtual machines may give each GPU a domain of its own. Among devices with equal numbers,
 * returns the only one that the kernel was launched on, else the one that has the buffers that the kernel accessed or was
 * given.
 */
int faulted_device(const struct evidence *evidence);
