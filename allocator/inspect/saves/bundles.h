/*
 * Bundles of launches that did not fault, for `cufence replay` (docs/replay.md): what save_values= keeps of a launch, and with
 * it the kernel's code, its arguments, where the buffers lie, and the buffers that are only reached through memory. Those are
 * found and copied by a kernel of ours (kernels/reach.h), because only the memory itself has their addresses.
 *
 * Thread safety: as the functions of struct visit_user that call them.
 */
#pragma once

#include "base/options.h"
#include "analysis/values/value.h"
#include "inspect/visits/visits.h"

#include <stdio.h>

/* ---- saved.c: a launch's buffers as .npy, and the README.txt beside them. Elements have the type that the kernel's signature
 * says; where it does not, or two pointers into a buffer disagree, the files are bytes. The visits' thread
 * alone. ---- */

/* Write a file, or say why not; then nothing more is saved (saved_has_failed()). Return 0 on failure.
 * saved_put_array(): as .npy. type: of its elements; VALUE_TYPES: bytes. saved_put(): NULL means out of host memory. */
int saved_put_array(const char *path, enum value_type type, const void *bytes, uint64_t size);
int saved_put(const char *path, const void *bytes, size_t size);

void saved_fail(const char *path);
int saved_has_failed(void);

/* Returns the type of a buffer's elements, VALUE_TYPES if it is unknown. index: of a pointer into it, in visit->reached. */
enum value_type saved_type(const struct visit *visit, size_t index);

/* Write README.txt: the first lines, and what the files "INDEX.before.npy" and "INDEX.after.npy" hold. */
void saved_begin(FILE *file, const struct visit *visit);
void saved_describe(FILE *file, const struct visit *visit, size_t index, enum value_type type, int has_changed);

/* ---- bundles.c ---- */

#define BUNDLES_KERNELS                                                                                                        \
    {                                                                                                                          \
        "cufence_reach"                                                                                                        \
    }
const char *bundles_ptx(void);

/* save_values=...;BYTES/0: none is made. */
void bundles_open(const struct options *options);

/* Begins the launch's bundle, unless its kernel has as many as it may have, or it cannot be made, which is said once a kernel.
 * In wants(), for a launch that is wanted then. most: bytes that bundles_size() may be. */
void bundles_begin(const struct visit *visit, uint64_t most);

/* Bytes of memory that it needs for the launch, a multiple of 64; 0: no bundle is made of it. */
size_t bundles_size(const struct visit *visit);

/* Submit its work. `area`: that memory. */
void bundles_before(struct visit_part *part, uint8_t *area);
void bundles_after(struct visit_part *part, uint8_t *area);

/* A buffer of the launch that has been written to `folder`. */
struct bundles_saved {
    size_t reached; /* index in visit->reached, also of the files "N.before.npy" and "N.after.npy" */
    const uint8_t *before;
    int has_changed;
};

/* Completes the bundle in the launch's folder. Returns the number of bytes written, 0: there is none. */
uint64_t bundles_finish(const struct visit *visit, const char *folder, const struct bundles_saved *saved, size_t count,
                        const uint8_t *area);

/* Forgets the launch's bundle, if there is one: it could not be saved. */
void bundles_drop(const struct visit *visit);
