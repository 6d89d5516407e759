/*
 * Device address space and physical memory: reservations (mmap PROT_NONE), physical handles (ranges of one memfd per device),
 * mappings, access rights.
 *
 * Units: bytes, multiples of SIM_GRANULARITY except where noted.
 * Thread safety: any thread; one lock (space.c), held across no calls except mmap, mprotect and fallocate.
 */
#pragma once

#include "config.h"

CUresult space_initialize(void);

/* A memory pool: the driver's own pool of a device, or one of the program's. blocks.c keeps its statistics, under the memory
 * lock. */
struct space_pool {
    uint64_t used, used_high;         /* bytes as requested */
    uint64_t reserved, reserved_high; /* bytes of physical memory, parked memory included */
    uint64_t threshold;               /* freed memory is parked up to this many reserved bytes */
};

/* Allocates as cuMemAlloc does: a reservation, a handle and a mapping in one, `size` rounded up. It belongs to the context.
 * With a pool (may be NULL), parked memory is used first, and released when the device is full. */
CUresult space_allocate(CUdeviceptr *address, size_t size, CUcontext context, int device, struct space_pool *pool);
/* Errors: INVALID_VALUE (not the start of an allocation, or already freed). Memory of a graph stays. */
CUresult space_free(CUdeviceptr address);
/* The two halves of a stream-ordered free: space_retire() at the call, space_collect() once the stream has reached it. Memory
 * of a graph stays. Errors: INVALID_VALUE, as space_free(). */
CUresult space_retire(CUdeviceptr address);
void space_collect(CUdeviceptr address);

/* Makes a graph own the allocation: only space_free_of_graph() and the end of its context free it. Returns its id. */
uint64_t space_give_to_graph(CUdeviceptr address);
void space_free_of_graph(CUdeviceptr address, uint64_t id);

/* Releases parked memory until at most `reserved` bytes are reserved. */
void space_trim(struct space_pool *pool, uint64_t reserved);
/* Frees all memory that the context has allocated. */
void space_release_context(CUcontext context);

struct space_range {
    CUdeviceptr start;
    size_t size; /* of an allocation: as requested; otherwise of the mapping */
    int device;
    CUcontext context; /* NULL for a mapping of the virtual memory API */
    struct space_pool *pool;
    int is_of_graph;
    CUdeviceptr mapping_start;
    size_t mapping_size;
    uint64_t id; /* never reused */
};

/* Finds the mapping at an address. Errors: NOT_FOUND. */
CUresult space_find(CUdeviceptr address, struct space_range *range);

/* Returns a new id for a piece of memory, from 1. Needs no lock. */
uint64_t space_new_id(void);

/* Whether the address is in a reservation, mapped or not. */
int space_is_device(CUdeviceptr address);

/* Whether [address, address + size) may be read, or also written. Any size; an empty range is accessible if its address is. */
int space_is_accessible(CUdeviceptr address, size_t size, int is_write);
