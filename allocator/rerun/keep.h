/*
 * The bytes of buffers in files, for the second process: written from the device where an input is saved, and put back where it
 * is launched again from a bundle. Thread safety: none; the second process has one thread.
 */
#ifndef CUFENCE_RERUN_KEEP_H
#define CUFENCE_RERUN_KEEP_H

#include "input.h"

/* The content of a mapping: zeros, but for `bytes` at the device address `data`. */
struct kept {
    int is_kept;
    uint64_t data, bytes;
    const uint8_t *content; /* of the file; stays mapped */
};

/* Writes bytes of the host into a file. Returns 0 on failure. */
int keep_put(int fd, uint64_t offset, const uint8_t *bytes, size_t size);

/* Writes `bytes` of the device's memory from `address` on into a file, from `offset` on. What could not be written is missing
 * in the file, which tells the other side. */
void keep_write(int fd, uint64_t offset, uint64_t address, uint64_t bytes);

/* Takes the content from a MESSAGE_FILE and its descriptor, or from a MESSAGE_ZEROS. Errors: CORRUPT (the file is too short,
 * or the content is not part of the mapping), SYSTEM. */
cufence_status keep_open(int fd, const struct rerun_message *message, struct kept *kept);

/* Gives the mapping of `bytes` at `base` that content. Errors: DRIVER. */
cufence_status keep_read(const struct kept *kept, uint64_t base, uint64_t bytes);

#endif
