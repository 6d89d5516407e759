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
    unsigned open_to;    /* of a pool: the devices that may write it, one bit each */
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

/*
 * What virtual_memory.c, exports.c, blocks.c and graph_memory.c share: reservations, handles and mappings, and on top of them
 * the memory of cuMemAlloc and of pools (blocks.c), and that of graphs (graph_memory.c). Functions named _locked require
 * space_lock.
 */
#define HOST_FILE SIM_MAX_DEVICES /* handles in host memory (host, host NUMA) share a separate file */

/* Its address is its handle. */
struct physical {
    uint64_t offset; /* in its file */
    size_t size;
    unsigned references; /* held by the program */
    unsigned mappings;
    int file;       /* index in files: its device, or HOST_FILE */
    int descriptor; /* of the file that holds it */
    int is_exported;
    struct shared_file *shared; /* of imported memory, else NULL */
    CUmemAllocationProp properties;
};

/* Reservations and mappings are trees of disjoint ranges; a look-up finds a range that overlaps the key. */
struct range {
    uint64_t start, end;
};

struct reservation {
    struct range range;
    struct block *block; /* NULL: created by cuMemAddressReserve, and counted against the limit */
};

/* An allocation of cuMemAlloc or of a pool; or the address of one of a graph, to which launches bind one of a pool. */
struct block {
    struct block *prev, *next;
    uint64_t start;
    size_t bytes, requested;
    int device;
    int is_live;       /* allocated, and not freed, as calls see it */
    CUcontext context; /* of cuMemAlloc, else NULL */
    CUmemoryPool pool; /* or NULL */
    /* Not of an address: the work that it was freed or bound behind. Others have it after that. */
    unsigned pending;   /* frees and launches that their streams have not passed */
    struct ticket last; /* the last of them; names a stream that exists while some is pending */
    uint64_t id;
    /* An address of a graph's: */
    unsigned references;   /* held by nodes, by frees that were not passed, and while it is live; 0: it is none */
    struct block *backing; /* the memory that it has or had last, or NULL */
    int is_freed_inside, is_freed_outside; /* by a node of the graph that allocates it, of another one */
};

struct mapping {
    struct range range;
    struct physical *physical;
    unsigned char access[SIM_MAX_DEVICES]; /* CUmemAccess_flags, as granted to each device */
    struct block *block;                   /* of an allocation, else NULL */
    uint64_t id;
};

extern pthread_mutex_t space_lock;

/* `block` is NULL for a reservation of the program. */
CUresult space_reserve_locked(CUdeviceptr *address, size_t size, size_t alignment, uint64_t hint, struct block *block);
CUresult space_unreserve_locked(uint64_t address, size_t size);
int space_has_room_locked(int file, size_t size);
CUresult space_create_locked(struct physical **out, size_t size, int file, const CUmemAllocationProp *properties);
/* Gives a copy of `values` a handle and the program's reference. */
struct physical *space_add_locked(const struct physical *values);
/* Frees it once it has neither references nor mappings. */
void space_drop_locked(struct physical *physical);
/* NULL: it is no handle, or was released. */
struct physical *space_physical_locked(CUmemGenericAllocationHandle handle);
CUresult space_map_locked(struct mapping **out, uint64_t address, size_t size, struct physical *physical);
void space_unmap_locked(struct mapping *mapping);
int space_protect_locked(struct mapping *mapping, int device, CUmemAccess_flags access);
struct mapping *space_mapping_locked(uint64_t address); /* that holds the address, or NULL */
struct block *space_block_locked(uint64_t address);     /* likewise, mapped or not */

/* blocks.c: gives a block its address. Space behind it stays unmapped, so that an overrun doesn't reach host memory. */
CUresult block_reserve_locked(struct block **out, size_t requested, int device);
CUresult block_map_locked(struct block *block, struct physical *physical); /* open to all devices */
void block_drop_locked(struct block *block);                               /* also what is mapped there */
size_t space_free_bytes_locked(int device);                                /* virtual_memory.c */
extern struct block *blocks;
/* As space_allocate_ordered(). */
CUresult block_take_locked(struct block **out, size_t size, CUmemoryPool pool, CUstream stream, struct ticket *after);
void block_set_live_locked(struct block *block, int is_live); /* and counts it in its pool */
void block_use_locked(struct block *block, CUstream stream);  /* by what is submitted next */

/* Releases what pools keep and nobody uses until the device has room; for graphs, what they keep. */
void space_make_room_locked(int device, size_t size, int is_for_graphs);
/* graph_memory.c: unmaps memory that is given up. */
void graph_memory_unbind_locked(const struct block *backing);
/* Frees, as space_free(). */
void graph_memory_free_locked(struct block *address, CUstream stream, struct operation *operation);
void graph_memory_release_locked(struct block *address);

/* exports.c: gives back an imported handle's use of its file. */
void share_close_locked(struct shared_file *file);

#define PAGES_FILE_BYTES ((off_t)1 << 46)  /* sparse; offsets are never reused, so this limits what a process can create */
#define PAGES_NOTES_BYTES ((off_t)1 << 31) /* behind that: what exports.c notes for each 2 MiB */

/* Reserves address space without memory. Returns its start, a multiple of `alignment`, or 0. `hint` is used if free. */
uint64_t pages_reserve(size_t size, size_t alignment, uint64_t hint);
