/*
 * Finds what call frame information says about a place in code, and takes its two entries apart. Pure.
 */
#ifndef CUFENCE_STACKS_CFI_ENTRY_H
#define CUFENCE_STACKS_CFI_ENTRY_H

#include "base/reader.h"
#include "cfi.h"

/* Of the frame description entry of a function, and of the common information entry that it names. */
struct cfi_entry {
    uint64_t code_factor;
    int64_t data_factor;
    uint64_t return_register;
    unsigned encoding; /* of pointers */
    int has_augmentation;
    int is_signal;             /* the code is what a signal handler returns to */
    uint64_t start;            /* of the code */
    struct reader common, own; /* instructions: those of the common entry come first */
};

/* Returns a reader for the bytes from `address` on, whose position is the address; broken if it is not within them. */
struct reader cfi_read(const struct cfi_bytes *bytes, uint64_t address);

/* Returns 0, and *entry is undefined, where there is no entry for `pc`, or none that makes sense. */
int cfi_find_entry(const struct cfi_module *module, uint64_t pc, struct cfi_entry *entry);

#endif
