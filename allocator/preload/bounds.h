/*
 * Checks copies and sets on our buffers on the host, before they are queued. The driver refuses one that leaves a mapping, but
 * knows nothing about the slack before and behind a buffer. An out-of-bounds call is reported (refusals.c) and refused with
 * CUDA_ERROR_INVALID_VALUE, as the driver would. Only our memory is checked.
 */
#pragma once

#include "newer_types.h"

struct host_call; /* preload_internal.h */
struct earlier_use;

/* Returns 1 if [address, address + size) is within one live buffer, or outside our address space. Otherwise reports it and
 * returns 0. */
int bounds_within(const struct host_call *call, CUdeviceptr address, size_t size, int is_write);

/* The same for `height` rows of `width` bytes, `pitch` apart. */
int bounds_within_rows(const struct host_call *call, CUdeviceptr address, size_t pitch, size_t width, size_t height,
                       int is_write);

/* Reports that it is not. by: who has given the address to a node of the graph that is launched, or NULL. Returns 0. */
int bounds_refuse(const struct host_call *call, CUdeviceptr address, unsigned long long size, int is_write,
                  const struct earlier_use *by);

int bounds_within_2d(const struct host_call *call, const CUDA_MEMCPY2D *copy);
int bounds_within_3d(const struct host_call *call, const CUDA_MEMCPY3D *copy);
int bounds_within_3d_peer(const struct host_call *call, const CUDA_MEMCPY3D_PEER *copy);
int bounds_within_batch(const struct host_call *call, const CUdeviceptr *to, const CUdeviceptr *from, const size_t *sizes,
                        size_t count);
int bounds_within_3d_batch(const struct host_call *call, const CUDA_MEMCPY3D_BATCH_OP *copies, size_t count);

int bounds_within_decompression(const struct host_call *call, const CUmemDecompressParams *parts, size_t count);
int bounds_within_fabric(const struct host_call *call, const fabric_copy *copies, size_t count);

/* A copy or set is put into a graph, to be executed in the context (NULL: that of the node, or the current one). */
int bounds_within_copy_node(const struct host_call *call, const CUDA_MEMCPY3D *copy, CUcontext context);
int bounds_within_set_node(const struct host_call *call, CUdeviceptr to, size_t pitch, unsigned element, size_t width,
                           size_t height);

/* Whether CUDA lets the device that executes the call set memory at the address: that of another device only once the program
 * has given it access. Copies need none, and get it (peers.c). */
int bounds_may_set(const struct host_call *call, CUdeviceptr to);

static inline size_t bounds_row(size_t width, unsigned element)
{
    size_t bytes;
    return __builtin_mul_overflow(width, element, &bytes) ? SIZE_MAX : bytes;
}

#define bounds_write(to, size) bounds_within(call, to, size, 1)
#define bounds_upload(to, from, size)                                                                                          \
    (bounds_write(to, size) && (maps_copied(to, from, size), races_host_copy(call, from, size, 1), 1))
#define bounds_download(to, from, size) (bounds_read(from, size) && (races_host_copy(call, to, size, 0), 1))
#define bounds_read(from, size) bounds_within(call, (CUdeviceptr)(from), size, 0)
#define bounds_copy(to, from, size) (bounds_write(to, size) && bounds_read(from, size) && bounds_host(to, from, size))
#define bounds_host(to, from, size)                                                                                            \
    (races_host_copy(call, (const void *)(uintptr_t)(from), size, 1),                                                          \
     races_host_copy(call, (const void *)(uintptr_t)(to), size, 0), 1)
#define bounds_set(to, element, count) (bounds_may_set(call, to) && bounds_within_rows(call, to, element, element, count, 1))
#define bounds_set_2d(to, pitch, element, width, height)                                                                       \
    (bounds_may_set(call, to) && bounds_within_rows(call, to, pitch, bounds_row(width, element), height, 1))
#define bounds_copy_2d(copy) bounds_within_2d(call, copy)
#define bounds_copy_3d(copy) bounds_within_3d(call, copy)
#define bounds_copy_3d_peer(copy) bounds_within_3d_peer(call, copy)
#define bounds_batch(to, from, sizes, count) bounds_within_batch(call, to, from, sizes, count)
#define bounds_batch_3d(copies, count) bounds_within_3d_batch(call, copies, count)
#define bounds_decompression(parts, count) bounds_within_decompression(call, parts, count)
#define bounds_fabric(copies, count) bounds_within_fabric(call, copies, count)
#define bounds_node_copies(copy, context) bounds_within_copy_node(call, copy, context)
#define bounds_node_sets(set)                                                                                                  \
    (!(set) || bounds_within_set_node(call, (set)->dst, (set)->pitch, (set)->elementSize, (set)->width, (set)->height))
