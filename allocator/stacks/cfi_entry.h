/*
 * Finds the call frame information for a place in the code and decodes its two entries. Pure.
 */
#ifndef CUFENCE_STACKS_CFI_ENTRY_H
#define CUFENCE_STACKS_CFI_ENTRY_H

#include "base/reader.h"
#include "cfi.h"

/* A function's frame description entry, and the common information entry that it refers to. */
struct cfi_entry {
    uint64_t code_factor;
    int64_t data_factor;
    uint64_t return_register;
    unsigned encoding; /* of pointers */
    int has_augmentation;
    int is_signal;             /* the code is a signal trampoline */
    uint64_t start;            /* of the code */
    struct reader common, own; /* instructions: execute the common entry's first */
};

/* Returns a reader for the bytes from `address` on; its position is the address. Broken if `address` is outside the bytes. */
struct reader cfi_read(const struct cfi_bytes *bytes, uint64_t address);

/* Returns 0 if there is no valid entry for `pc`; *entry is then undefined. */
int cfi_find_entry(const struct cfi_module *module, uint64_t pc, struct cfi_entry *entry);

#endif
