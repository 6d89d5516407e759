/*
 * What else a launch that is saved needs to be launched again by `cufence replay` (docs/replay.md): the kernel's code, its
 * arguments, where the buffers lie, pinned host memory, and the buffers that are only reached through memory. Those are found
 * and copied by a kernel of ours (kernels/reach.h), because only the memory itself has their addresses.
 *
 * Thread safety: as the functions of struct visit_user that call them.
 */
#pragma once

#include "base/options.h"
#include "fault/bundle_writer.h"
#include "inspect/code/code.h"
#include "inspect/kernels/reach.h"
#include "inspect/visits/visits.h"

#define BUNDLES_KERNELS                                                                                                        \
    {                                                                                                                          \
        "cufence_reach"                                                                                                        \
    }
const char *bundles_ptx(void);

/* save_values=...;BYTES/0: none is made. */
void bundles_open(const struct options *options);

/* Begins the launch's bundle, unless its kernel has as many as it may have, or it cannot be made, which is said once a kernel.
 * In wants(), for a launch that is wanted then. most: bytes that bundles_size() may be. */
void bundles_begin(const struct visit *visit, uint64_t at, uint64_t most);

/* Bytes of memory that it needs for the launch, a multiple of 64; 0: no bundle is made of it. */
size_t bundles_size(const struct visit *visit);

/* Submit its work. */
void bundles_before(struct visit_part *part);
void bundles_after(struct visit_part *part);

/* What is known of the launch when it is launched. */
struct bundling {
    struct bundling *next;
    uint64_t number; /* of the launch */
    uint64_t at;     /* where its memory begins in that of the launch */
    const struct code *code;
    cufence_buffer *buffers; /* the live ones of the device, by mapping */
    uint32_t count;
    uint32_t first;                            /* of `direct` */
    uint32_t *direct;                          /* indices of the buffers that the arguments point to, each once */
    uint64_t room;                             /* for the buffers that are found */
    struct bundle_buffer pinned[RERUN_PINNED]; /* host memory that the arguments name, by address */
    size_t pinned_count;
    uint64_t pinned_bytes;
};

/* The memory of a bundle, as offsets in that of the launch: the table, the queue, what was found before the launch and after
 * it, the pinned host memory before and after. */
struct bundling_area {
    uint64_t table, queue, before, after, pinned_before, pinned_after, end;
};

struct bundling_area bundling_area(const struct bundling *bundling);

/* Takes what was begun. Returns NULL if there is none, or it cannot be written, as the memory shows; that is not
 * looked at if it is NULL. The caller frees the result. */
struct bundling *bundles_take(const struct visit *visit, const uint8_t *memory);
void bundling_free(struct bundling *bundling); /* NULL is allowed */

/* Some of what a launch of the kernel reaches had no room: the next one gets more. */
void bundling_lacks_room(const struct launch_function *function);

/* ---- bundle_files.c ---- */

/* A buffer of the launch whose bytes have been written as arrays. */
struct saved_buffer {
    size_t reached;           /* index in visit->reached; the name of its files begins with it */
    int has_changed, is_lost; /* is_lost: what it holds after the launch may be what a fault has left */
    char beside[192];         /* as in struct shown_pointer */
};

/* The names of those files. */
#define SAVED_BEFORE "%zu.before.npy"
#define SAVED_AFTER "%zu.after.npy"

/* Completes the bundle. */
void bundling_write(const struct bundling *bundling, const struct visit *visit, struct bundle_writer *writer,
                    const struct saved_buffer *saved, size_t count, const uint8_t *memory);
