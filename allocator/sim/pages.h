/*
 * Host pages behind the simulated memory. Sizes and addresses are in bytes, multiples of the host's page size.
 * Thread safety: plain system calls; the caller serialises calls on the same range.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum pages_access { PAGES_NONE, PAGES_READ, PAGES_READ_WRITE };

/* Opens a memory file that grows as it is touched. Returns the descriptor or -1. */
int pages_open(const char *name);

/* Reserves address space without memory. Returns its start, a multiple of `alignment`, or 0. `hint` is used if free. */
uint64_t pages_reserve(size_t size, size_t alignment, uint64_t hint);
void pages_unreserve(uint64_t address, size_t size);

/* Maps a range of the file at reserved addresses, without access. Returns 0, or -1 if the host is out of mappings. */
int pages_map(uint64_t address, size_t size, int file, uint64_t offset);
/* Turns a mapped range back into a reserved one. */
int pages_unmap(uint64_t address, size_t size);
int pages_protect(uint64_t address, size_t size, enum pages_access access);

/* Returns the memory of a range of the file to the host. */
void pages_discard(int file, uint64_t offset, size_t size);

#define PAGES_NOTE_BYTES 56

/* Opens the file again for another process, which is told of one piece of memory in it: its offset, a multiple of 2 MiB, is the
 * new descriptor's position, and the note (PAGES_NOTE_BYTES) is kept in the file. Nothing is copied. Returns -1 if it fails. */
int pages_export(int file, uint64_t offset, const void *note);
/* Reads what pages_export() has left, in any process. Returns 0, or -1 if the descriptor can't be from there. */
int pages_import(int descriptor, uint64_t *offset, void *note);
