/*
 * Checks copies and sets on our buffers on the host, before they are queued. The driver refuses one that leaves a mapping, but
 * knows nothing about the slack before and behind a buffer. An out-of-bounds call is reported (misuse.c) and refused with
 * CUDA_ERROR_INVALID_VALUE, as the driver would. Only our memory is checked.
 */
#pragma once

#include <cuda.h>

struct host_call; /* internal.h */

/* Returns 1 if [address, address + size) is within one live buffer, or outside our address space. Otherwise reports it and
 * returns 0. */
int bounds_within(const struct host_call *call, CUdeviceptr address, size_t size, int is_write);

/* The same for `height` rows of `width` bytes, `pitch` apart. */
int bounds_within_rows(const struct host_call *call, CUdeviceptr address, size_t pitch, size_t width, size_t height,
                       int is_write);

int bounds_within_2d(const struct host_call *call, const CUDA_MEMCPY2D *copy);
int bounds_within_3d(const struct host_call *call, const CUDA_MEMCPY3D *copy);

/* Gives each of the two devices access to the other's memory: without that, a copy between mappings on two devices fails,
 * unlike one between allocations of the driver. Returns 1. */
int bounds_bridge(CUdeviceptr to, CUdeviceptr from);

#define bounds_write(to, size) bounds_within(call, to, size, 1)
#define bounds_upload(to, from, size)                                                                                          \
    (bounds_write(to, size) && (maps_copied(to, from, size), races_host_copy(call, from, size, 1), 1))
#define bounds_download(to, from, size) (bounds_read(from, size) && (races_host_copy(call, to, size, 0), 1))
#define bounds_read(from, size) bounds_within(call, (CUdeviceptr)(from), size, 0)
#define bounds_copy(to, from, size)                                                                                            \
    (bounds_write(to, size) && bounds_read(from, size) && bounds_bridge(to, from) && bounds_host(to, from, size))
#define bounds_host(to, from, size)                                                                                            \
    (races_host_copy(call, (const void *)(uintptr_t)(from), size, 1),                                                          \
     races_host_copy(call, (const void *)(uintptr_t)(to), size, 0), 1)
#define bounds_set(to, element, count) bounds_within_rows(call, to, element, element, count, 1)
#define bounds_set_2d(to, pitch, element, width, height)                                                                       \
    bounds_within_rows(call, to, pitch, (width) > SIZE_MAX / (element) ? SIZE_MAX : (width) * (element), height, 1)
#define bounds_copy_2d(copy) bounds_within_2d(call, copy)
#define bounds_copy_3d(copy) bounds_within_3d(call, copy)
