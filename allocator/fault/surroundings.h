/*
 * What the rest of cufence and the host know about the addresses that the evidence of a fault names, gathered as plain data for
 * the diagnosis. Thread safety: as the sources'.
 */
#ifndef CUFENCE_FAULT_SURROUNDINGS_H
#define CUFENCE_FAULT_SURROUNDINGS_H

#include "diagnosis.h"

/* What fault/ needs to know of buffers and contexts, from rooms that it does not know. See heap.h for each. */
struct fault_sources {
    size_t (*near)(uint64_t address, cufence_buffer *out, size_t max);
    size_t (*live)(int device, cufence_buffer *out, size_t max, uint64_t *total);
    void (*set_faulted)(int device);
    uint64_t (*arena_start)(void);
    uint64_t (*arena_end)(void);
    uint64_t (*now_ns)(void);
};

struct surroundings {
    struct fault_memory memory; /* for fault_diagnose(); points into the rest */
    cufence_buffer near[256];
    cufence_buffer live[64];
    size_t near_count;
};

/* Malloc'ed: the caller frees it. NULL when the host is out of memory. */
struct surroundings *surroundings_of(const struct fault_sources *sources, const struct evidence *evidence, int device);

/* The driver's ordinal for the device that the dump names; environment variables may have renumbered them. */
int evidence_device(const struct evidence *evidence);

#endif
