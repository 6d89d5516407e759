/*
 * Host memory known to the device: pinned, managed and registered. Kernels can access all host memory, so this only keeps track
 * of owners.
 *
 * Units: bytes. Thread safety: any thread; its lock is a leaf.
 */
#pragma once

#include "context.h"

enum host_kind { HOST_PINNED, HOST_MANAGED, HOST_REGISTERED };

struct host_range {
    CUdeviceptr start;
    size_t size;
    enum host_kind kind;
    CUcontext context;
    uint64_t id; /* never reused; also unique among device memory */
};

/* Looks up an address. Returns whether the device knows it. */
int host_find(CUdeviceptr address, struct host_range *range);
/* Forgets memory of that kind, and frees what the device allocated. Errors: INVALID_VALUE (not the start of such memory). */
CUresult host_drop(CUdeviceptr address, enum host_kind kind);
/* Frees all memory that the context has allocated, and forgets what it has registered. */
void host_release_context(CUcontext context);
