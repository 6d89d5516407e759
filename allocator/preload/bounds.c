#include "bounds.h"

#include "internal.h"

#include "base/error.h"
#include "launch/lens_table.h"

#include <stdio.h>

static const char *plural(unsigned long long count)
{
    return count == 1 ? "" : "s";
}

static int refuse(const struct host_call *call, CUdeviceptr address, unsigned long long size, int is_write)
{
    cufence_description description;
    heap_describe(address, &description);
    const cufence_buffer *buffer = &description.buffer;
    unsigned long long offset = description.offset, id = buffer->id, beyond = offset + size - buffer->size;
    char what[64];
    snprintf(what, sizeof what, "%s %llu byte%s", is_write ? "writes" : "reads", size, plural(size));
    if (description.place == CUFENCE_PLACE_INSIDE)
        error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "%s from byte %llu of buffer #%llu, %llu byte%s past its end", what, offset,
                  id, beyond, plural(beyond));
    else if (description.place == CUFENCE_PLACE_FREED)
        error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "%s from byte %llu of buffer #%llu, which has been freed", what, offset, id);
    else if (description.place == CUFENCE_PLACE_PAST_END || description.place == CUFENCE_PLACE_BEFORE_START)
        error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "%s, beginning %llu byte%s %s buffer #%llu", what, offset, plural(offset),
                  description.place == CUFENCE_PLACE_PAST_END ? "past the end of" : "before the start of", id);
    else
        error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "%s where no buffer is", what);
    misuse(call, (struct misuse){.kind = is_write ? "host write out of bounds" : "host read out of bounds",
                                 .address = address,
                                 .access = is_write ? ACCESS_WRITE : ACCESS_READ,
                                 .bytes = size,
                                 .where = &description});
    return 0;
}

/* For order/: the bytes that the call certainly accesses. */
static void note(const struct host_call *call, CUdeviceptr address, size_t size, int is_write)
{
    struct order_copy *copy = call->copy;
    if (copy && size && copy->count < sizeof copy->accesses / sizeof *copy->accesses)
        copy->accesses[copy->count++] = (struct order_access){address, size, is_write};
}

/* For those who want to see copies: the bytes in a buffer of ours. */
static int show(const struct host_call *call, CUdeviceptr address, size_t size, int is_write)
{
    if (call->access && is_write) {
        call->access->to = address;
        call->access->written = size;
    } else if (call->access) {
        call->access->from = address;
        call->access->read = size;
    }
    return 1;
}

static int within(const struct host_call *call, CUdeviceptr address, size_t size, int is_write)
{
    struct heap_range range;
    if (!heap_owns(address) || size == 0)
        return 1;
    if (is_write && LENS_WANTS(host_writes))
        lens_now()->host_writes(address);
    if (heap_range_of(address, &range) && size <= range.size - (address - range.address))
        return show(call, address, size, is_write);
    return refuse(call, address, size, is_write);
}

int bounds_within(const struct host_call *call, CUdeviceptr address, size_t size, int is_write)
{
    note(call, address, size, is_write);
    return within(call, address, size, is_write);
}

static int within_rows(const struct host_call *call, CUdeviceptr address, size_t pitch, size_t width, size_t height,
                       int is_write)
{
    size_t size;
    if (!width || !height)
        return 1;
    if (__builtin_mul_overflow(pitch, height - 1, &size) || __builtin_add_overflow(size, width, &size))
        size = SIZE_MAX;
    return within(call, address, size, is_write);
}

int bounds_within_rows(const struct host_call *call, CUdeviceptr address, size_t pitch, size_t width, size_t height,
                       int is_write)
{
    size_t size;
    if (width != pitch || __builtin_mul_overflow(width, height, &size)) /* the bytes between the rows are not accessed */
        size = width;
    if (height)
        note(call, address, size, is_write);
    return within_rows(call, address, pitch, width, height, is_write);
}

int bounds_bridge(CUdeviceptr to, CUdeviceptr from)
{
    struct heap_range ranges[2];
    if (preload_devices > 1 && heap_owns(to) && heap_owns(from) && heap_range_of(to, &ranges[0]) &&
        heap_range_of(from, &ranges[1]) && ranges[0].device != ranges[1].device) {
        share(ranges[0].device, ranges[1].device);
        share(ranges[1].device, ranges[0].device);
    }
    return 1;
}

/* The device side of a copy, or a unified address, which may be on the device. */
static int is_device(CUmemorytype type)
{
    return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED;
}

/* Returns the address of byte (x, y). An overflow in the sizes is left to the driver to refuse. */
static CUdeviceptr at(CUdeviceptr base, size_t x, size_t y, size_t pitch)
{
    return base + y * pitch + x;
}

int bounds_within_2d(const struct host_call *call, const CUDA_MEMCPY2D *copy)
{
    if (!copy)
        return 1;
    size_t from_pitch = copy->srcPitch ? copy->srcPitch : copy->WidthInBytes;
    size_t to_pitch = copy->dstPitch ? copy->dstPitch : copy->WidthInBytes;
    return (!is_device(copy->dstMemoryType) ||
            bounds_within_rows(call, at(copy->dstDevice, copy->dstXInBytes, copy->dstY, to_pitch), to_pitch, copy->WidthInBytes,
                               copy->Height, 1)) &&
           (!is_device(copy->srcMemoryType) ||
            bounds_within_rows(call, at(copy->srcDevice, copy->srcXInBytes, copy->srcY, from_pitch), from_pitch,
                               copy->WidthInBytes, copy->Height, 0)) &&
           (!is_device(copy->dstMemoryType) || !is_device(copy->srcMemoryType) ||
            bounds_bridge(copy->dstDevice, copy->srcDevice));
}

/* Checks rows in slices that are `slice` rows apart, from the first byte of the first row to the last byte of the last row. */
static int within_slices(const struct host_call *call, CUdeviceptr address, size_t pitch, size_t slice,
                         const CUDA_MEMCPY3D *copy, int is_write)
{
    if (!copy->Depth || !copy->Height)
        return 1;
    note(call, address, copy->WidthInBytes, is_write);
    return within_rows(call, address, pitch, copy->WidthInBytes, (copy->Depth - 1) * slice + copy->Height, is_write);
}

int bounds_within_3d(const struct host_call *call, const CUDA_MEMCPY3D *copy)
{
    if (!copy)
        return 1;
    size_t from_pitch = copy->srcPitch ? copy->srcPitch : copy->WidthInBytes;
    size_t to_pitch = copy->dstPitch ? copy->dstPitch : copy->WidthInBytes;
    size_t from_slice = copy->srcHeight ? copy->srcHeight : copy->Height;
    size_t to_slice = copy->dstHeight ? copy->dstHeight : copy->Height;
    return (!is_device(copy->dstMemoryType) ||
            within_slices(call, at(copy->dstDevice, copy->dstXInBytes, copy->dstY + copy->dstZ * to_slice, to_pitch), to_pitch,
                          to_slice, copy, 1)) &&
           (!is_device(copy->srcMemoryType) ||
            within_slices(call, at(copy->srcDevice, copy->srcXInBytes, copy->srcY + copy->srcZ * from_slice, from_pitch),
                          from_pitch, from_slice, copy, 0)) &&
           (!is_device(copy->dstMemoryType) || !is_device(copy->srcMemoryType) ||
            bounds_bridge(copy->dstDevice, copy->srcDevice));
}
