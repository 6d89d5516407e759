/* Copies and sets: each form of a call becomes a transfer, which is rows in slices. */
#include "capture.h"
#include "virtual_memory.h"

#define STAGED_BYTES ((size_t)64 << 10) /* up to this size the driver copies pageable memory before it returns */

/* Returns the bytes from the first row of the first slice to the end of the last row of the last slice; 0 on overflow. */
static size_t span(const struct transfer *transfer, const struct transfer_end *end)
{
    size_t slices, rows, sum;
    if (__builtin_mul_overflow(transfer->slices - 1, end->slice, &slices) ||
        __builtin_mul_overflow(transfer->rows - 1, end->pitch, &rows) || __builtin_add_overflow(slices, rows, &sum) ||
        __builtin_add_overflow(sum, transfer->bytes, &sum))
        return 0;
    return sum;
}

static CUresult check_end(const struct transfer *transfer, const struct transfer_end *end, int is_write, CUcontext context)
{
    struct space_range range;
    size_t bytes = span(transfer, end);
    int is_device = space_is_device(end->address);
    CALL_REFUSE(bytes == 0, INVALID_VALUE);
    if (end->type == CU_MEMORYTYPE_DEVICE && !is_device && host_find(end->address, &range))
        return bytes > range.start + range.size - end->address ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    int device = (end->context != NULL ? end->context : context)->device;
    if (end->type == CU_MEMORYTYPE_DEVICE || (end->type == CU_MEMORYTYPE_UNIFIED && is_device))
        return space_is_accessible(end->address, bytes, is_write, device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    return end->address == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* Unlike a copy, a set needs peer access, or access to the pool, for another device's memory. */
static CUresult check_set(const struct transfer *set, CUcontext context)
{
    struct space_range range;
    const struct transfer_end *to = &set->to;
    CALL_REFUSE(to->address % set->width != 0 || to->pitch % set->width != 0, INVALID_VALUE);
    CALL_REFUSE(set->rows > 1 && to->pitch < set->bytes, INVALID_VALUE);
    if (space_find(to->address, &range) != CUDA_SUCCESS || range.device == context->device)
        return CUDA_SUCCESS;
    int is_open = range.pool != NULL ? (range.open_to & 1u << context->device) != 0 : context_reaches(context, range.context);
    return is_open ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult transfer_create(struct operation **out, const struct transfer *transfer, CUcontext context)
{
    int is_set = transfer->width != 0;
    CALL_TRY(check_end(transfer, &transfer->to, 1, context));
    CALL_TRY(is_set ? check_set(transfer, context) : check_end(transfer, &transfer->from, 0, context));
    *out = operation_create(is_set ? OPERATION_SET : OPERATION_COPY);
    (*out)->copy.transfer = *transfer;
    return CUDA_SUCCESS;
}

static int is_pageable(uint64_t address)
{
    struct space_range range;
    return !space_is_device(address) && !host_find(address, &range);
}

/* With a given stream, only a copy to memory that is not page-locked has ended when it returns. */
static int is_waited_for(const struct transfer *copy, int is_sync, int is_capturing)
{
    if (is_sync)
        return !space_is_device(copy->to.address) || !space_is_device(copy->from.address);
    return !is_capturing && is_pageable(copy->to.address);
}

CUresult transfer_submit(const struct transfer *transfer, CUstream handle, int is_sync)
{
    CUstream stream;
    CUcontext context;
    int is_capturing;
    struct operation *operation;
    {
        HOLD(&queue_lock);
        CALL_TRY(stream_find_locked(handle, &stream));
        context = stream->context;
        is_capturing = stream->capture != NULL;
    }
    if (transfer->bytes == 0 || transfer->rows == 0 || transfer->slices == 0)
        return CUDA_SUCCESS;
    CALL_TRY(transfer_create(&operation, transfer, context));
    if (transfer->width != 0)
        return stream_submit(handle, operation, SUBMIT_ASYNC);
    /* A graph reads host memory at each launch; a plain small copy reads it now. */
    if (!is_sync && !is_capturing && transfer->bytes <= STAGED_BYTES && transfer->rows == 1 && transfer->slices == 1 &&
        is_pageable(transfer->from.address))
        operation->copy.staging = memory_copy((const void *)(uintptr_t)transfer->from.address, transfer->bytes);
    return stream_submit(handle, operation, is_waited_for(transfer, is_sync, is_capturing) ? SUBMIT_AND_WAIT : SUBMIT_ASYNC);
}

CUresult transfer_set(struct transfer *set, CUdeviceptr to, size_t pitch, uint32_t value, unsigned width, size_t count,
                      size_t rows)
{
    *set = (struct transfer){
        .to = {CU_MEMORYTYPE_DEVICE, to, pitch, 0, NULL}, .rows = rows, .slices = 1, .width = width, .value = value};
    return __builtin_mul_overflow(count, width, &set->bytes) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* ---- the forms ---- */

CUresult transfer_row(uint64_t to, CUmemorytype to_type, uint64_t from, CUmemorytype from_type, size_t bytes, CUstream stream,
                      int is_sync)
{
    const struct transfer copy = {
        .to = {to_type, to, 0, 0, NULL}, .from = {from_type, from, 0, 0, NULL}, .bytes = bytes, .rows = 1, .slices = 1};
    return transfer_submit(&copy, stream, is_sync);
}

/* Both forms of a transfer: on the legacy default stream, and on a given stream. */
#define FORMS(base, name, async, since, pairs, submit)                                                                         \
    DRIVER_TWIN_FORM(base, name, ptds, since, pairs)                                                                           \
    {                                                                                                                          \
        const int is_sync = 1;                                                                                                 \
        const CUstream stream = NULL;                                                                                          \
        return submit;                                                                                                         \
    }                                                                                                                          \
    DRIVER_TWIN_FORM(base "Async", async, ptsz, since, (ALL pairs, CUstream, stream))                                          \
    {                                                                                                                          \
        const int is_sync = 0;                                                                                                 \
        return submit;                                                                                                         \
    }
#define ROW(name, since, to_type, to_place, from_type, from_place)                                                             \
    FORMS(#name, name, name##Async, since, (to_type, to, from_type, from, size_t, bytes),                                      \
          transfer_row((uintptr_t)to, CU_MEMORYTYPE_##to_place, (uintptr_t)from, CU_MEMORYTYPE_##from_place, bytes, stream,    \
                       is_sync))
ROW(cuMemcpy, 4000, CUdeviceptr, UNIFIED, CUdeviceptr, UNIFIED)
ROW(cuMemcpyDtoD, 3020, CUdeviceptr, DEVICE, CUdeviceptr, DEVICE)
ROW(cuMemcpyDtoH, 3020, void *, UNIFIED, CUdeviceptr, DEVICE)
ROW(cuMemcpyHtoD, 3020, CUdeviceptr, DEVICE, const void *, UNIFIED)

/* CUDA_MEMCPY3D_PEER, and its two sides, which lie alike. CUDA_MEMCPY3D is the same, but has no contexts. */
struct shape {
    size_t x, y, z, lod;
    CUmemorytype type;
    const void *host;
    CUdeviceptr device;
    CUarray array;
    CUcontext context;
    size_t pitch, height;
};
struct volume {
    struct shape from, to;
    size_t bytes, rows, slices;
};
_Static_assert(sizeof(struct volume) == sizeof(CUDA_MEMCPY3D_PEER) && sizeof(struct volume) == sizeof(CUDA_MEMCPY3D), "alike");

static CUresult make_end(struct transfer_end *end, const struct shape *shape, const struct transfer *transfer)
{
    int is_host = shape->type == CU_MEMORYTYPE_HOST;
    *end = (struct transfer_end){.type = shape->type,
                                 .address = is_host ? (uintptr_t)shape->host : shape->device,
                                 .pitch = shape->pitch,
                                 .slice = shape->pitch * shape->height,
                                 .context = shape->context};
    CALL_REFUSE(shape->type == CU_MEMORYTYPE_ARRAY, NOT_SUPPORTED);
    if (shape->lod != 0 || (transfer->rows > 1 && end->pitch < shape->x + transfer->bytes) ||
        (transfer->slices > 1 && end->slice < end->pitch * transfer->rows))
        return CUDA_ERROR_INVALID_VALUE;
    end->address += shape->z * end->slice + shape->y * end->pitch + shape->x;
    return CUDA_SUCCESS;
}

CUresult transfer_volume(struct transfer *transfer, const void *copy, int is_peer)
{
    struct volume volume;
    CALL_REFUSE(copy == NULL, INVALID_VALUE);
    memcpy(&volume, copy, sizeof volume);
    if (!is_peer)
        volume.to.context = volume.from.context = NULL;
    *transfer = (struct transfer){.bytes = volume.bytes, .rows = volume.rows, .slices = volume.slices};
    CALL_TRY(make_end(&transfer->to, &volume.to, transfer));
    return make_end(&transfer->from, &volume.from, transfer);
}

/* Between devices, each side is that of a context. */
static CUresult copy_volume(const void *copy, int is_peer, CUstream stream, int is_sync)
{
    struct transfer transfer;
    CALL_TRY(transfer_volume(&transfer, copy, is_peer));
    if (is_peer) {
        CALL_TRY(context_validate(transfer.to.context));
        CALL_TRY(context_validate(transfer.from.context));
    }
    return transfer_submit(&transfer, stream, is_sync);
}

static CUresult copy_2d(const CUDA_MEMCPY2D *copy, CUstream stream, int is_sync)
{
#define SIDE(side)                                                                                                             \
    .side##XInBytes = copy->side##XInBytes, .side##Y = copy->side##Y, .side##MemoryType = copy->side##MemoryType,              \
    .side##Host = copy->side##Host, .side##Device = copy->side##Device, .side##Pitch = copy->side##Pitch
    CALL_REFUSE(copy == NULL, INVALID_VALUE);
    const CUDA_MEMCPY3D volume = {SIDE(src), SIDE(dst), .WidthInBytes = copy->WidthInBytes, .Height = copy->Height, .Depth = 1};
    return copy_volume(&volume, 0, stream, is_sync);
}

static CUresult copy_row_peer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                              CUstream stream, int is_sync)
{
    const struct transfer copy = {.to = {CU_MEMORYTYPE_DEVICE, to, 0, 0, to_context},
                                  .from = {CU_MEMORYTYPE_DEVICE, from, 0, 0, from_context},
                                  .bytes = bytes,
                                  .rows = 1,
                                  .slices = 1};
    CALL_TRY(context_validate(to_context));
    CALL_TRY(context_validate(from_context));
    return transfer_submit(&copy, stream, is_sync);
}

FORMS("cuMemcpy2D", cuMemcpy2D, cuMemcpy2DAsync, 3020, (const CUDA_MEMCPY2D *, copy), copy_2d(copy, stream, is_sync))
FORMS("cuMemcpy3D", cuMemcpy3D, cuMemcpy3DAsync, 3020, (const CUDA_MEMCPY3D *, copy), copy_volume(copy, 0, stream, is_sync))
FORMS("cuMemcpy3DPeer", cuMemcpy3DPeer, cuMemcpy3DPeerAsync, 4000, (const CUDA_MEMCPY3D_PEER *, copy),
      copy_volume(copy, 1, stream, is_sync))
FORMS("cuMemcpyPeer", cuMemcpyPeer, cuMemcpyPeerAsync, 4000,
      (CUdeviceptr, to, CUcontext, to_context, CUdeviceptr, from, CUcontext, from_context, size_t, bytes),
      copy_row_peer(to, to_context, from, from_context, bytes, stream, is_sync))

DRIVER_TWIN_IS(cuMemcpy2DUnaligned, ptds, 3020, (const CUDA_MEMCPY2D *, pCopy), copy_2d(pCopy, NULL, 1))

/* Many at once. The order of access and the hints make no difference here. */

DRIVER_TWIN(cuMemcpyBatchAsync, ptsz, 13000,
            (CUdeviceptr *, dsts, CUdeviceptr *, srcs, size_t *, sizes, size_t, count, CUmemcpyAttributes *, attrs, size_t *,
             attrsIdxs, size_t, numAttrs, CUstream, hStream))
{
    CALL_REFUSE(dsts == NULL || srcs == NULL || sizes == NULL || count == 0, INVALID_VALUE);
    CALL_REFUSE(attrs == NULL || attrsIdxs == NULL || numAttrs == 0 || numAttrs > count || attrsIdxs[0] != 0, INVALID_VALUE);
    for (size_t i = 0; i < count; i++)
        CALL_TRY(transfer_row(dsts[i], CU_MEMORYTYPE_UNIFIED, srcs[i], CU_MEMORYTYPE_UNIFIED, sizes[i], hStream, 0));
    return CUDA_SUCCESS;
}

static CUresult make_operand(struct transfer_end *end, const CUmemcpy3DOperand *operand, const struct transfer *transfer)
{
    CALL_REFUSE(operand->type != CU_MEMCPY_OPERAND_TYPE_POINTER, NOT_SUPPORTED); /* an array */
    const struct shape shape = {.type = CU_MEMORYTYPE_UNIFIED,
                                .device = operand->op.ptr.ptr,
                                .pitch = operand->op.ptr.rowLength == 0 ? transfer->bytes : operand->op.ptr.rowLength,
                                .height = operand->op.ptr.layerHeight == 0 ? transfer->rows : operand->op.ptr.layerHeight};
    return make_end(end, &shape, transfer);
}

DRIVER_TWIN(cuMemcpy3DBatchAsync, ptsz, 13000,
            (size_t, numOps, CUDA_MEMCPY3D_BATCH_OP *, opList, unsigned long long, flags, CUstream, hStream))
{
    CALL_REFUSE(numOps == 0 || opList == NULL || flags != 0, INVALID_VALUE);
    for (size_t i = 0; i < numOps; i++) {
        const CUextent3D *extent = &opList[i].extent;
        struct transfer transfer = {.bytes = extent->width, .rows = extent->height, .slices = extent->depth};
        CALL_REFUSE(transfer.bytes == 0 || transfer.rows == 0 || transfer.slices == 0, INVALID_VALUE);
        CALL_TRY(make_operand(&transfer.to, &opList[i].dst, &transfer));
        CALL_TRY(make_operand(&transfer.from, &opList[i].src, &transfer));
        CALL_TRY(transfer_submit(&transfer, hStream, 0));
    }
    return CUDA_SUCCESS;
}

static CUresult submit_set(CUdeviceptr to, size_t pitch, uint32_t value, unsigned width, size_t count, size_t rows,
                           CUstream stream)
{
    struct transfer set;
    CALL_TRY(transfer_set(&set, to, pitch, value, width, count, rows));
    return transfer_submit(&set, stream, 0);
}

/* Of a row, and of rows. */
#define SET(width, type)                                                                                                       \
    FORMS("cuMemsetD" #width, cuMemsetD##width, cuMemsetD##width##Async, 3020, (CUdeviceptr, to, type, value, size_t, count),  \
          ((void)is_sync, submit_set(to, 0, value, sizeof value, count, 1, stream)))                                           \
    FORMS("cuMemsetD2D" #width, cuMemsetD2D##width, cuMemsetD2D##width##Async, 3020,                                           \
          (CUdeviceptr, to, size_t, pitch, type, value, size_t, count, size_t, rows),                                          \
          ((void)is_sync, submit_set(to, pitch, value, sizeof value, count, rows, stream)))
SET(8, unsigned char)
SET(16, unsigned short)
SET(32, unsigned int)

DRIVER_TWIN_IS(cuStreamWriteValue32, ptsz, 11070, (CUstream, stream, CUdeviceptr, addr, cuuint32_t, value, unsigned int, flags),
               (flags & ~(unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) != 0
                   ? CUDA_ERROR_INVALID_VALUE
                   : submit_set(addr, 0, value, sizeof value, 1, 1, stream))
