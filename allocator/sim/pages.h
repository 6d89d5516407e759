/*
 * Host pages behind the simulated memory. Sizes and addresses in bytes, multiples of the host's page size.
 * Thread safety: pure system calls; the caller orders calls on the same range.
 */
#ifndef CUFENCE_SIM_PAGES_H
#define CUFENCE_SIM_PAGES_H

#include <stddef.h>
#include <stdint.h>

enum pages_access { PAGES_NONE, PAGES_READ, PAGES_READ_WRITE };

/* A file of memory that grows as it is touched. Returns the descriptor or -1. */
int pages_open(const char *name);

/* Address space without memory: returns its start, a multiple of `alignment`, or 0. `hint` is taken if it is free. */
uint64_t pages_reserve(size_t size, size_t alignment, uint64_t hint);
void pages_unreserve(uint64_t address, size_t size);

/* Puts a range of the file behind reserved addresses, without access. Returns 0, or -1 where the host has no more maps. */
int pages_map(uint64_t address, size_t size, int file, uint64_t offset);
/* Makes a mapped range a reserved one again. */
int pages_unmap(uint64_t address, size_t size);
int pages_protect(uint64_t address, size_t size, enum pages_access access);

/* Gives the memory of a range of the file back to the host. */
void pages_discard(int file, uint64_t offset, size_t size);

#endif
