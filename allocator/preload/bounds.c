#include "bounds.h"

#include "preload_internal.h"

#include "base/error.h"
#include "base/text.h"
#include "heap/slack/poison.h"
#include "launch/inspect_table.h"

#include <stdio.h>

int bounds_refuse(const struct host_call *call, CUdeviceptr address, unsigned long long size, int is_write,
                  const struct earlier_use *by)
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
        error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "%s from byte %llu of buffer #%llu, which has been freed%s", what, offset, id,
                  by ? ", for a node of the graph" : "");
    else if (description.place == CUFENCE_PLACE_PAST_END || description.place == CUFENCE_PLACE_BEFORE_START)
        error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "%s, beginning %llu byte%s %s buffer #%llu", what, offset, plural(offset),
                  description.place == CUFENCE_PLACE_PAST_END ? "past the end of" : "before the start of", id);
    else
        error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "%s where no buffer is", what);
    misuse(call, (struct misuse){.kind = is_write ? "host write out of bounds" : "host read out of bounds",
                                 .address = address,
                                 .access = is_write ? ACCESS_WRITE : ACCESS_READ,
                                 .bytes = size,
                                 .where = &description,
                                 .earlier = by});
    return 0;
}

/* For order/: the bytes that the call certainly accesses. */
static void note(const struct host_call *call, CUdeviceptr address, size_t size, int is_write)
{
    struct order_copy *copy = call->copy;
    if (copy && size && copy->count < sizeof copy->accesses / sizeof *copy->accesses)
        copy->accesses[copy->count++] = (struct order_access){address, size, is_write};
}

/* The device that executes the call: -1 if that is not known. */
static int device_of(const struct host_call *call)
{
    const struct stream *stream = stream_resolve(call->stream);
    return stream && stream->context ? stream->context->device : -1;
}

static int within(const struct host_call *call, CUdeviceptr address, size_t size, int is_write)
{
    struct heap_range range;
    if (!heap_owns(address) || size == 0)
        return 1;
    int is_of_node = call->kind && call->kind->is_of_node;
    if (is_of_node && call->kind->is_told) {
        keepers_take(call->kind, address, size, is_write);
        return 1;
    }
    if (is_write && !is_of_node && INSPECTOR_WANTS(host_writes))
        inspector_now()->host_writes(address);
    if (is_write && !is_of_node)
        poison_is_copied(address, address + size, call->name);
    int is_live = heap_range_of(address, &range);
    if (is_live && size <= range.size - (address - range.address)) {
        if (__builtin_expect(preload_devices > 1, 0) && !is_of_node)
            peer_reaches(address, device_of(call));
        if (call->kind && heap_is_synchronous(address))
            call->kind->is_synchronous = 1;
        if (__builtin_expect(is_of_node || heap_may_capture(), 0))
            keepers_give(call, &range, address, size, is_write);
        return 1;
    }
    return (!is_live && is_of_node) || bounds_refuse(call, address, size, is_write, NULL);
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

int bounds_may_set(const struct host_call *call, CUdeviceptr to)
{
    struct heap_range range;
    return preload_devices < 2 || !heap_owns(to) || !heap_range_of(to, &range) ||
           peer_may_access(range.device, device_of(call));
}

/* ---- rows and slices ---- */

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
                               copy->WidthInBytes, copy->Height, 0));
}

/* Rows in slices that are `slice` rows apart, from the first byte of the first row to the last byte of the last row. */
struct volume {
    CUdeviceptr address;
    size_t pitch, slice;
    size_t width, height, depth; /* width: bytes */
};

static int within_volume(const struct host_call *call, const struct volume *volume, int is_write)
{
    if (!volume->depth || !volume->height)
        return 1;
    note(call, volume->address, volume->width, is_write);
    return within_rows(call, volume->address, volume->pitch, volume->width,
                       (volume->depth - 1) * volume->slice + volume->height, is_write);
}

/* One side of CUDA_MEMCPY3D and of CUDA_MEMCPY3D_PEER, whose members have the same names. side: src or dst. */
#define VOLUME(copy, side)                                                                                                     \
    (&(struct volume){                                                                                                         \
        .address = at((copy)->side##Device, (copy)->side##XInBytes,                                                            \
                      (copy)->side##Y + (copy)->side##Z * ((copy)->side##Height ? (copy)->side##Height : (copy)->Height),      \
                      (copy)->side##Pitch ? (copy)->side##Pitch : (copy)->WidthInBytes),                                       \
        .pitch = (copy)->side##Pitch ? (copy)->side##Pitch : (copy)->WidthInBytes,                                             \
        .slice = (copy)->side##Height ? (copy)->side##Height : (copy)->Height,                                                 \
        .width = (copy)->WidthInBytes,                                                                                         \
        .height = (copy)->Height,                                                                                              \
        .depth = (copy)->Depth})

int bounds_within_3d(const struct host_call *call, const CUDA_MEMCPY3D *copy)
{
    return !copy || ((!is_device(copy->dstMemoryType) || within_volume(call, VOLUME(copy, dst), 1)) &&
                     (!is_device(copy->srcMemoryType) || within_volume(call, VOLUME(copy, src), 0)));
}

int bounds_within_3d_peer(const struct host_call *call, const CUDA_MEMCPY3D_PEER *copy)
{
    return !copy || ((!is_device(copy->dstMemoryType) || within_volume(call, VOLUME(copy, dst), 1)) &&
                     (!is_device(copy->srcMemoryType) || within_volume(call, VOLUME(copy, src), 0)));
}

/* ---- batches ---- */

int bounds_within_batch(const struct host_call *call, const CUdeviceptr *to, const CUdeviceptr *from, const size_t *sizes,
                        size_t count)
{
    for (size_t i = 0; to && from && sizes && i < count; i++) {
        if (!bounds_within(call, to[i], sizes[i], 1) || !bounds_within(call, from[i], sizes[i], 0))
            return 0;
    }
    return 1;
}

/* Beside an array the sizes count the array's elements, and only the first byte is looked at. */
static int within_operand(const struct host_call *call, const CUDA_MEMCPY3D_BATCH_OP *copy, const CUmemcpy3DOperand *operand,
                          int is_flat, int is_write)
{
    size_t row = operand->op.ptr.rowLength ? operand->op.ptr.rowLength : copy->extent.width;
    if (operand->type != CU_MEMCPY_OPERAND_TYPE_POINTER)
        return 1;
    if (!is_flat)
        return within(call, operand->op.ptr.ptr, 1, is_write);
    return within_volume(
        call,
        &(struct volume){.address = operand->op.ptr.ptr,
                         .pitch = row,
                         .slice = operand->op.ptr.layerHeight ? operand->op.ptr.layerHeight : copy->extent.height,
                         .width = copy->extent.width,
                         .height = copy->extent.height,
                         .depth = copy->extent.depth},
        is_write);
}

int bounds_within_3d_batch(const struct host_call *call, const CUDA_MEMCPY3D_BATCH_OP *copies, size_t count)
{
    for (size_t i = 0; copies && i < count; i++) {
        const CUDA_MEMCPY3D_BATCH_OP *copy = &copies[i];
        int is_flat = copy->src.type == CU_MEMCPY_OPERAND_TYPE_POINTER && copy->dst.type == CU_MEMCPY_OPERAND_TYPE_POINTER;
        if (!within_operand(call, copy, &copy->dst, is_flat, 1) || !within_operand(call, copy, &copy->src, is_flat, 0))
            return 0;
    }
    return 1;
}

int bounds_within_decompression(const struct host_call *call, const CUmemDecompressParams *parts, size_t count)
{
    for (size_t i = 0; parts && i < count; i++) {
        const CUmemDecompressParams *part = &parts[i];
        if (!bounds_within(call, (CUdeviceptr)(uintptr_t)part->dst, part->dstNumBytes, 1) ||
            !bounds_within(call, (CUdeviceptr)(uintptr_t)part->src, part->srcNumBytes, 0) ||
            !within(call, (CUdeviceptr)(uintptr_t)part->dstActBytes, sizeof *part->dstActBytes, 1))
            return 0;
    }
    return 1;
}

int bounds_within_fabric(const struct host_call *call, const fabric_copy *copies, size_t count)
{
    for (size_t i = 0; copies && i < count; i++) {
        const fabric_copy *copy = &copies[i];
        if ((copy->dst.type == CU_FABRIC_COPY_OPERAND_TYPE_POINTER &&
             !bounds_within(call, copy->dst.op.ptr.ptr, copy->size, 1)) ||
            (copy->src.type == CU_FABRIC_COPY_OPERAND_TYPE_POINTER &&
             !bounds_within(call, copy->src.op.ptr.ptr, copy->size, 0)))
            return 0;
    }
    return 1;
}

/* ---- nodes ---- */

int bounds_within_set_node(const struct host_call *call, CUdeviceptr to, size_t pitch, unsigned element, size_t width,
                           size_t height)
{
    return bounds_within_rows(call, to, pitch, bounds_row(width, element), height, 1);
}

int bounds_within_copy_node(const struct host_call *call, const CUDA_MEMCPY3D *copy, CUcontext context)
{
    struct context *known = preload_devices < 2 || !copy ? NULL : context ? context_of(context) : context_current();
    if (known && is_device(copy->dstMemoryType))
        peer_reaches(copy->dstDevice, known->device);
    if (known && is_device(copy->srcMemoryType))
        peer_reaches(copy->srcDevice, known->device);
    return bounds_within_3d(call, copy);
}
