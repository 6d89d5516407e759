/*
 * Device address space and physical memory: reservations (mmap PROT_NONE), physical handles (ranges of one memfd per device),
 * mappings, access rights; and on top of them the memory of cuMemAlloc, of pools and of graphs.
 *
 * Units: bytes, multiples of SIM_GRANULARITY except where noted.
 * Thread safety: any thread; one lock (virtual_memory.c), held across no calls except mmap, mprotect and fallocate.
 */
#pragma once

#include "context.h"

struct block;
struct operation;
struct recording;

CUresult space_initialize(void);

/* A memory pool: one of the program's, the driver's own of a device, or that of its graphs, which no handle names. It is never
 * freed: memory may outlive it. blocks.c keeps its statistics, under the memory lock. */
struct CUmemPoolHandle_st {
    struct CUmemPoolHandle_st *next; /* of those that were destroyed */
    int device;
    int is_of_graphs;                 /* what it gives is bound to addresses: graph_memory.c */
    uint64_t max_bytes;               /* 0: no limit */
    uint64_t used, used_high;         /* bytes as requested */
    uint64_t reserved, reserved_high; /* bytes of physical memory, freed memory included */
    uint64_t threshold;               /* a synchronisation releases freed memory beyond so many reserved bytes */
    CUmemAccess_flags access[SIM_MAX_DEVICES];
};

/* Allocates as cuMemAlloc does: a reservation, a handle and a mapping in one, `size` rounded up. It belongs to the context.
 * What pools and graphs keep and nobody uses is released when the device is full. */
CUresult space_allocate(CUdeviceptr *address, size_t size, CUcontext context, int device);
/* Allocates from a pool, for work of a stream. Uses memory again that was freed before the stream's next work. If the device is
 * full, also what is larger, or was freed on another stream: *after is then what the stream has to wait for. Requires the queue
 * lock. */
CUresult space_allocate_ordered(CUdeviceptr *address, size_t size, CUmemoryPool pool, CUstream stream, struct ticket *after);
/* Frees at once, or (with a stream, and the queue lock) behind the operation: space_pass() then, once the stream has reached
 * it. Errors: INVALID_VALUE (not the start of an allocation, or already freed, or not allocated yet). */
CUresult space_free(CUdeviceptr address, CUstream stream, struct operation *operation);
void space_pass(const struct operation *operation);

/* Releases memory that nobody uses until at most `reserved` bytes of the pool are reserved. */
void space_trim(CUmemoryPool pool, uint64_t reserved);
/* Trims each pool to its threshold: after a synchronisation. */
void space_settle(void);
/* Frees the memory of cuMemAlloc that belongs to the context. */
void space_release_context(CUcontext context);

enum host_kind { HOST_NONE, HOST_PINNED, HOST_MANAGED, HOST_REGISTERED };

struct space_range {
    CUdeviceptr start;
    size_t size; /* of an allocation: as requested; otherwise of the mapping */
    int device;
    CUcontext context; /* of an allocation that belongs to one, else NULL */
    CUmemoryPool pool;
    unsigned open_to; /* of a pool: the devices that may write it, one bit each */
    enum host_kind kind; /* HOST_NONE: of the device */
    CUdeviceptr mapping_start;
    size_t mapping_size;
    uint64_t id; /* never reused */
};

/* Finds what is at an address. Errors: NOT_FOUND. */
CUresult space_find(CUdeviceptr address, struct space_range *range);

/* Returns a new id for a piece of memory, from 1. Needs no lock. */
uint64_t space_new_id(void);

/* Whether the address is in a reservation, mapped or not. */
int space_is_device(CUdeviceptr address);

/* Whether the device may read [address, address + size), or also write. An allocation is open to all devices, also memory of a
 * graph that has not been launched. Any size; an empty range is accessible if its address is. */
int space_is_accessible(CUdeviceptr address, size_t size, int is_write, int device);

/* graph_memory.c: memory that graphs allocate. Its address is reserved when the node is made. Each launch binds an allocation
 * to it from a pool that keeps everything: so memory serves the graphs of a stream one after the other. */

/* Create the operation of an allocation or free node. Errors: INVALID_VALUE (no memory of a graph; or a node of the recording,
 * or one that excludes it, frees the memory already), OUT_OF_MEMORY. */
CUresult graph_memory_allocate_node(struct operation **node, CUdeviceptr *address, size_t size, int device);
CUresult graph_memory_free_node(struct operation **node, const struct recording *recording, CUdeviceptr address);
void graph_memory_release(struct block *address); /* a node's reference */

/* Allocates and frees what the nodes of a graph's launch do, as calls see it; with `frees_first`, frees first what has not been
 * freed. Errors: INVALID_VALUE (still allocated, or not allocated), OUT_OF_MEMORY. */
CUresult graph_memory_launch(struct operation *launch, CUstream stream);
/* When the launch runs: puts the memory in place for its nth memory node; when it has ended. */
void graph_memory_bind(const struct operation *launch, size_t nth, struct block *address);
void graph_memory_end(const struct operation *launch);

/* pool.c: where graphs have memory from. */
CUmemoryPool pool_of_graphs(int device);

/*
 * host_memory.c: host memory known to the device: pinned, managed and registered. Kernels can access all host memory, so this
 * only keeps track of owners. Thread safety: any thread; its lock is a leaf.
 */

/* Looks up an address. Returns whether the device knows it. */
int host_find(CUdeviceptr address, struct space_range *range);
/* Forgets memory of that kind, and frees what the device allocated. Errors: INVALID_VALUE (not the start of such memory). */
CUresult host_drop(CUdeviceptr address, enum host_kind kind);
/* Frees all memory that the context has allocated, and forgets what it has registered. */
void host_release_context(CUcontext context);
