/*
 * One piece of work for a stream: a launch, a copy, a set and so on. Immutable once created, so that a graph can run it many
 * times.
 *
 * Ownership: reference counted; the last release frees the operation and what it holds.
 */
#pragma once

#include "context.h"

struct block;
struct recording;

enum operation_kind {
    OPERATION_NOTHING, /* carries dependencies only */
    OPERATION_KERNEL,
    OPERATION_COPY,
    OPERATION_SET,
    OPERATION_HOST,
    OPERATION_CALLBACK,
    OPERATION_EVENT,
    OPERATION_GRAPH,
    OPERATION_WAIT,
    OPERATION_FREE,
    OPERATION_ALLOCATE, /* these two are nodes of graphs alone */
    OPERATION_RELEASE
};

struct transfer_end {
    CUmemorytype type; /* UNIFIED: the address tells whether it is on a device. Never an array */
    uint64_t address;
    size_t pitch;      /* from one row to the next */
    size_t slice;      /* from one slice to the next */
    CUcontext context; /* whose device must have access; NULL: the stream's */
};

/* A copy, or a set: that has no `from`. */
struct transfer {
    struct transfer_end to, from;
    size_t bytes; /* of a row */
    size_t rows, slices;
    unsigned width; /* bytes of the value to set; 0: it is a copy */
    uint32_t value;
};

struct launch {
    const struct CUfunc_st *function; /* functions are never freed */
    uint32_t grid[3], block[3];
    uint32_t host_tid;
    void **arguments; /* function->argument_count pointers into parameters */
    unsigned char *parameters;
    size_t parameter_bytes;
};

struct operation {
    atomic_uint references;
    enum operation_kind kind;
    const void *node; /* its handle in a graph; NULL: its own address */
    union {
        struct launch launch;
        struct {
            struct transfer transfer;
            void *staging; /* copy of a host source, or NULL; owned; one row only */
        } copy;            /* and set */
        struct {
            CUhostFn function;
            CUstreamCallback callback;
            CUstream stream;
            void *user;
        } host;
        struct {
            struct CUevent_st *event;
            uint64_t generation;
        } event;
        struct {
            uint64_t address;
            uint32_t value;
        } wait;
        struct {
            struct recording *recording;
            struct block **memory; /* of each memory node of a launch, or NULL; owned */
            int frees_first;       /* what has not been freed since the last launch */
        } graph;
        struct {
            struct block *block;
            struct block *address; /* of memory of a graph, else NULL; reference held */
        } freed;
        struct block *block; /* OPERATION_ALLOCATE, OPERATION_RELEASE; reference held */
    };
};

static inline int operation_is_of_memory(const struct operation *operation)
{
    return operation->kind == OPERATION_ALLOCATE || operation->kind == OPERATION_RELEASE;
}

/* One reference. */
struct operation *operation_create(enum operation_kind kind);
struct operation *operation_retain(struct operation *operation);
void operation_release(struct operation *operation);

/* Declares a variable that gives up its reference at the end of the block. */
#define OPERATION(name, value) struct operation *const name __attribute__((cleanup(operation_end))) = (value)

static inline void operation_end(struct operation *const *operation)
{
    operation_release(*operation);
}

/* Runs the operation on the calling thread, a stream's worker, without locks. */
void operation_run(struct operation *operation, CUcontext context);

/* launch.c: creates the operation of a launch, without a stream. Errors: INVALID_HANDLE, INVALID_VALUE. */
CUresult launch_create(struct operation **out, CUfunction function, const uint32_t grid[3], const uint32_t block[3],
                       uint32_t shared_bytes, void **parameters, void **extra);

void kernel_run(const struct launch *launch, CUcontext context);
