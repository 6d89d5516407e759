/*
 * What virtual_memory.c, exports.c, blocks.c and graph_memory.c share: reservations, handles and mappings, and on top of them
 * the memory of cuMemAlloc and of pools (blocks.c), and that of graphs (graph_memory.c). Functions named _locked require
 * space_lock.
 */
#pragma once

#include "virtual_memory.h"

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
