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

/* Where allocations come from: the driver's own pool of a device or one of the user's. Its figures are kept by space.c. */
struct space_pool {
    uint64_t used, used_high;         /* bytes as they were asked for */
    uint64_t reserved, reserved_high; /* bytes of physical memory, parked ones too */
    uint64_t threshold;               /* reserved bytes up to which freed memory is parked */
};

/* What cuMemAlloc gives: a reservation, a handle and a mapping in one, of `size` rounded up. It belongs to the context. With
 * a pool (may be NULL) its parked memory is taken first, and given up when the device is full. */
CUresult space_allocate(CUdeviceptr *address, size_t size, CUcontext context, int device, struct space_pool *pool);
/* Errors: INVALID_VALUE (not the start of an allocation, or freed already). Memory of a graph stays. */
CUresult space_free(CUdeviceptr address);
/* A stream-ordered free in its two halves: what the call does, and what happens once the stream has got there. Memory of a
 * graph stays. Errors: INVALID_VALUE, as space_free(). */
CUresult space_retire(CUdeviceptr address);
void space_collect(CUdeviceptr address);

/* The allocation belongs to a graph: it goes with space_free_of_graph() alone, and with its context. Returns its id. */
uint64_t space_give_to_graph(CUdeviceptr address);
void space_free_of_graph(CUdeviceptr address, uint64_t id);

/* Gives parked memory back until no more than that is reserved. */
void space_trim(struct space_pool *pool, uint64_t reserved);
void space_read_pool(const struct space_pool *pool, struct space_pool *figures);
void space_reset_high_marks(struct space_pool *pool, int of_used, int of_reserved);
void space_set_threshold(struct space_pool *pool, uint64_t threshold);
/* Frees all that the context has allocated. */
void space_release_context(CUcontext context);

struct space_range {
    CUdeviceptr start;
    size_t size; /* of an allocation as requested; else of the mapping */
    int device;
    CUcontext context; /* NULL for a mapping of the virtual memory API */
    struct space_pool *pool;
    int is_of_graph;
    CUdeviceptr mapping_start;
    size_t mapping_size;
    uint64_t id; /* never given out twice */
};

/* What is mapped at an address. Errors: NOT_FOUND. */
CUresult space_find(CUdeviceptr address, struct space_range *range);

/* A number for a piece of memory, from 1. */
uint64_t space_new_id(void);

/* Whether the address lies in a reservation, mapped or not. */
int space_is_device(CUdeviceptr address);

/* Whether [address, address + size) may be read, or written too. Any size; an empty range is fine where the address is. */
int space_is_accessible(CUdeviceptr address, size_t size, int is_write);

void space_memory_info(int device, size_t *free_bytes, size_t *total);

#endif
