/*
 * Host memory that the device knows: pinned, managed and registered. Kernels reach all host memory, so what this keeps is
 * who it belongs to.
 *
 * Units: bytes. Thread safety: any thread; its lock is a leaf.
 */
#ifndef CUFENCE_SIM_HOST_H
#define CUFENCE_SIM_HOST_H

#include "context.h"

enum host_kind { HOST_PINNED, HOST_MANAGED, HOST_REGISTERED };

struct host_range {
    CUdeviceptr start;
    size_t size;
    enum host_kind kind;
    CUcontext context;
    uint64_t id; /* never given out twice, device memory included */
};

/* What the device knows at an address. Returns whether it does. */
int host_find(CUdeviceptr address, struct host_range *range);
/* Frees managed memory. Errors: INVALID_VALUE (not the start of any). */
CUresult host_free_managed(CUdeviceptr address);
/* Frees all that the context has allocated, and forgets what it has registered. */
void host_release_context(CUcontext context);

#endif
