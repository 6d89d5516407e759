/*
 * A bundle in the making: what is known of its launch when it is launched. For bundles.c and bundle_files.c alone.
 */
#pragma once

#include "analysis/snapshot/bundle.h"
#include "bundles.h"
#include "inspect/kernels/reach.h"
#include "inspect/code/code.h"

/* The memory of a bundle, as offsets: the table, the queue, what was found before the launch and after it, the pinned host
 * memory before and after. */
struct bundling_area {
    uint64_t table, queue, before, after, pinned_before, pinned_after, end;
};

struct bundling {
    struct bundling *next;
    uint64_t number; /* of the launch */
    const struct code *code;
    cufence_buffer *buffers; /* the live ones of the device, by mapping */
    uint32_t count;
    uint32_t first;                          /* of `direct` */
    uint32_t *direct;                        /* indices of the buffers that the arguments point to, each once */
    uint64_t room;                           /* for the buffers that are found */
    struct rerun_range pinned[RERUN_PINNED]; /* host memory that the arguments name, by address */
    size_t pinned_count;
    uint64_t pinned_bytes;
};

struct bundling_area bundling_area(const struct bundling *bundling);

/* Some of what a launch of the kernel reaches had no room: the next one gets more. */
void bundling_lacks_room(const struct launch_function *function);

/* Writes everything but the buffers of `saved`, the list last. Returns the number of bytes, 0 on failure. */
uint64_t bundling_write(const struct bundling *bundling, const struct visit *visit, const char *folder,
                        const struct bundles_saved *saved, size_t count, const uint8_t *area);
