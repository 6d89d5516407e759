/*
 * Device address space and physical memory: reservations (mmap PROT_NONE), physical handles (ranges of one memfd a device),
 * mappings, access rights. Knows no streams and no capture.
 *
 * Units: bytes; everything is a multiple of SIM_GRANULARITY unless it says otherwise.
 * Thread safety: any thread; one lock (space.c), held over no call but mmap, mprotect and fallocate.
 */
#ifndef CUFENCE_SIM_SPACE_H
#define CUFENCE_SIM_SPACE_H

#include "config.h"

CUresult space_initialize(void);

/* `hint` is taken if it is free. Errors: INVALID_VALUE, OUT_OF_MEMORY (the limit of config.h, or the host's). */
CUresult space_reserve(CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr hint);
/* Wants a whole reservation with nothing mapped in it. Errors: INVALID_VALUE. */
CUresult space_unreserve(CUdeviceptr address, size_t size);

/* Errors: INVALID_VALUE, INVALID_DEVICE, OUT_OF_MEMORY. */
CUresult space_create(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *properties);
/* Gives the caller's reference back; mappings keep theirs. Errors: INVALID_VALUE. */
CUresult space_release(CUmemGenericAllocationHandle handle);
CUresult space_retain(CUmemGenericAllocationHandle *handle, CUdeviceptr address);
CUresult space_properties(CUmemAllocationProp *properties, CUmemGenericAllocationHandle handle);

/* No access until space_set_access(). Errors: INVALID_VALUE, NOT_SUPPORTED (offset, or a part of the handle). */
CUresult space_map(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle);
/* Wants one or several whole mappings that fill the range. Errors: INVALID_VALUE. */
CUresult space_unmap(CUdeviceptr address, size_t size);
/* Wants a range of whole mappings. Errors: INVALID_VALUE, INVALID_DEVICE. */
CUresult space_set_access(CUdeviceptr address, size_t size, int device, CUmemAccess_flags access);
CUresult space_get_access(CUdeviceptr address, int device, unsigned long long *access);

/* What cuMemAlloc gives: a reservation, a handle and a mapping in one, of `size` rounded up. It belongs to the context. */
CUresult space_allocate(CUdeviceptr *address, size_t size, CUcontext context, int device);
/* Errors: INVALID_VALUE (not the start of an allocation). */
CUresult space_free(CUdeviceptr address);
/* Frees all that the context has allocated. */
void space_release_context(CUcontext context);

struct space_range {
    CUdeviceptr start;
    size_t size; /* of an allocation as requested; else of the mapping */
    int device;
    CUcontext context; /* NULL for a mapping of the virtual memory API */
};

/* What is mapped at an address. Errors: NOT_FOUND. */
CUresult space_find(CUdeviceptr address, struct space_range *range);

/* Whether the address lies in a reservation, mapped or not. */
int space_is_device(CUdeviceptr address);

/* Whether [address, address + size) may be read, or written too. Any size; an empty range is fine where the address is. */
int space_is_accessible(CUdeviceptr address, size_t size, int is_write);

void space_memory_info(int device, size_t *free_bytes, size_t *total);

#endif
