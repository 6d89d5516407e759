/*
 * Host memory that kernels can reach at the address that it has for the host: pinned and managed. The hooks tell of it, and a
 * second launch (fault/copies.c) asks.
 *
 * Units: bytes, host addresses. Cost: each function that takes an address grows with the logarithm of how many blocks there
 * are. Thread safety: all functions, any thread.
 */
#pragma once

#include "contexts/contexts.h"

enum pinned_kind {
    PINNED_HOST,   /* allocated or registered by cuMemHostAlloc, cuMemAllocHost, cuMemHostRegister */
    PINNED_DEVICE, /* registered with CU_MEMHOSTREGISTER_IOMEMORY: reading it may do something */
    PINNED_MANAGED /* cuMemAllocManaged */
};

struct pinned {
    uint64_t address, bytes;
    enum pinned_kind kind;
};

/* Notes new memory of the context, in place of what overlaps it, which was freed. Without host memory it is not noted. */
void pinned_add(const struct context *context, uint64_t address, uint64_t bytes, enum pinned_kind kind);

/* Returns the number of the memory that begins at the address, 0 if there is none. */
uint64_t pinned_number(uint64_t address);

/* The memory of this number, at this address, was freed; with 0, nothing is done. Ask for the number before: another thread may
 * have got the same address since. Until it was freed, a kernel may still have used it. */
void pinned_remove(uint64_t address, uint64_t number);

/* The context was destroyed, and its memory with it. */
void pinned_forget_context(const struct context *context);

/* Finds the memory that contains the address. Returns 0 if there is none. */
int pinned_find(uint64_t address, struct pinned *found);
