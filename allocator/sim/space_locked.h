/*
 * What space.c and blocks.c share: reservations, handles and mappings (space.c), and on top of them the memory of cuMemAlloc
 * and of pools (blocks.c). Functions named _locked require space_lock.
 */
#pragma once

#include "call.h"
#include "pages.h"
#include "space.h"

#define HOST_FILE SIM_MAX_DEVICES /* handles in host memory (host, host NUMA) share a separate file */

struct physical {
    CUmemGenericAllocationHandle handle; /* first: the tree's key */
    uint64_t offset;                     /* in its file */
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
    int is_counted; /* counted against the limit: created by cuMemAddressReserve */
};

enum block_state { BLOCK_LIVE, BLOCK_RETIRED, BLOCK_PARKED };

struct block {
    struct block *previous, *next;
    CUcontext context;
    uint64_t reserved_start;
    size_t requested;
    enum block_state state;
    int is_of_graph;
    struct space_pool *pool; /* or NULL */
    uint64_t id;
};

struct mapping {
    struct range range;
    struct physical *physical;
    unsigned char access[SIM_MAX_DEVICES]; /* enum pages_access, as granted to each device */
    struct block *block;                   /* if from cuMemAlloc, else NULL */
    uint64_t id;
};

extern pthread_mutex_t space_lock;

CUresult space_reserve_locked(CUdeviceptr *address, size_t size, size_t alignment, uint64_t hint, int is_counted);
CUresult space_unreserve_locked(uint64_t address, size_t size);
CUresult space_create_locked(struct physical **out, size_t size, int file, const CUmemAllocationProp *properties);
/* Gives a copy of `values` a handle and the program's reference. NULL if out of memory. */
struct physical *space_add_locked(const struct physical *values);
/* Frees it once it has neither references nor mappings. */
void space_drop_locked(struct physical *physical);
struct physical *space_physical_locked(CUmemGenericAllocationHandle handle); /* or NULL */
CUresult space_map_locked(struct mapping **out, uint64_t address, struct physical *physical);
void space_unmap_locked(struct mapping *mapping);
int space_protect_locked(struct mapping *mapping, int device, enum pages_access access);
struct mapping *space_mapping_locked(uint64_t address); /* that holds the address, or NULL */

/* share.c: gives back an imported handle's use of its file. */
void share_close_locked(struct shared_file *file);
