#include "capture.h"
#include "host.h"
#include "space.h"

#define STAGED_BYTES ((size_t)64 << 10) /* up to this size the driver copies pageable memory before it returns */

/* Where the work of a stream runs. */
struct place {
    CUcontext context;
    int is_capturing;
};

static CUresult find_place(CUstream handle, struct place *place)
{
    CUstream stream;
    HOLD(&queue_lock);
    CALL_TRY(stream_find_locked(handle, &stream));
    *place = (struct place){stream->context, stream->capture != NULL};
    return CUDA_SUCCESS;
}

static CUresult check_side(enum transfer_side side, uint64_t address, size_t bytes, int is_write, CUcontext context)
{
    struct host_range range;
    int is_device = space_is_device(address);
    if (side == SIDE_DEVICE && !is_device && host_find(address, &range))
        return bytes > range.start + range.size - address ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    if (side == SIDE_DEVICE || (side == SIDE_EITHER && is_device))
        return space_is_accessible(address, bytes, is_write, context->device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    return address == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

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
    size_t bytes = span(transfer, end);
    CALL_REFUSE(bytes == 0, INVALID_VALUE);
    return check_side(end->side, end->address, bytes, is_write, end->context != NULL ? end->context : context);
}

static CUresult create_copy(struct operation **out, const struct transfer *transfer, CUcontext context)
{
    CALL_TRY(check_end(transfer, &transfer->to, 1, context));
    CALL_TRY(check_end(transfer, &transfer->from, 0, context));
    *out = operation_create(OPERATION_COPY);
    (*out)->copy.transfer = *transfer;
    return CUDA_SUCCESS;
}

static CUresult copy_all(const struct transfer *transfer, CUstream stream, enum submit_mode mode)
{
    struct place place;
    struct operation *operation;
    CALL_TRY(find_place(stream, &place));
    if (transfer->bytes == 0 || transfer->rows == 0 || transfer->slices == 0)
        return CUDA_SUCCESS;
    CALL_TRY(create_copy(&operation, transfer, place.context));
    return stream_submit(stream, operation, mode);
}

CUresult transfer_copy(const struct transfer_end *to, const struct transfer_end *from, size_t bytes, CUstream stream,
                       enum submit_mode mode)
{
    const struct transfer transfer = {.to = *to, .from = *from, .bytes = bytes, .rows = 1, .slices = 1};
    return copy_all(&transfer, stream, mode);
}

static CUresult copy(uint64_t destination, enum transfer_side to, uint64_t source, enum transfer_side from, size_t bytes,
                     CUstream stream, enum submit_mode mode)
{
    return transfer_copy(&(struct transfer_end){.side = to, .address = destination},
                         &(struct transfer_end){.side = from, .address = source}, bytes, stream, mode);
}

/* A graph reads host memory at each launch; a plain small copy reads it now. */
static CUresult copy_from_host(CUdeviceptr destination, const void *source, size_t bytes, CUstream stream)
{
    struct place place;
    CALL_TRY(find_place(stream, &place));
    int is_staged = bytes <= STAGED_BYTES && bytes != 0 && source != NULL && !space_is_device((uintptr_t)source);
    if (!is_staged || place.is_capturing)
        return copy(destination, SIDE_DEVICE, (uintptr_t)source, SIDE_EITHER, bytes, stream, SUBMIT_ASYNC);
    CALL_TRY(check_side(SIDE_DEVICE, destination, bytes, 1, place.context));
    struct operation *operation = operation_create(OPERATION_COPY);
    operation->copy.transfer = (struct transfer){.to = {.address = destination}, .bytes = bytes, .rows = 1, .slices = 1};
    operation->copy.staging = memory_copy(source, bytes);
    return stream_submit(stream, operation, SUBMIT_ASYNC);
}

/* Whether a set may write there: unlike a copy it needs peer access, or access to the pool, for another device's memory. */
static int is_within_reach(CUcontext context, CUdeviceptr address)
{
    struct space_range range;
    if (space_find(address, &range) != CUDA_SUCCESS || range.device == context->device)
        return 1;
    return range.pool != NULL ? (range.open_to & 1u << context->device) != 0 : context_reaches(context, range.context);
}

CUresult transfer_create_set(struct operation **out, CUdeviceptr destination, size_t pitch, uint32_t value, unsigned width,
                             size_t count, size_t rows, CUcontext context)
{
    struct transfer transfer = {.rows = rows, .slices = 1};
    const struct transfer_end end = {.side = SIDE_DEVICE, .address = destination, .pitch = pitch};
    CALL_REFUSE(__builtin_mul_overflow(count, width, &transfer.bytes) || destination % width != 0, INVALID_VALUE);
    CALL_REFUSE(pitch % width != 0 || (rows > 1 && pitch < transfer.bytes), INVALID_VALUE);
    CALL_TRY(check_end(&transfer, &end, 1, context));
    CALL_REFUSE(!is_within_reach(context, destination), INVALID_VALUE);
    struct operation *operation = *out = operation_create(OPERATION_SET);
    operation->set.destination = destination;
    operation->set.pitch = pitch;
    operation->set.rows = rows;
    operation->set.value = value;
    operation->set.width = width;
    operation->set.count = count;
    return CUDA_SUCCESS;
}

CUresult transfer_set(CUdeviceptr destination, size_t pitch, uint32_t value, unsigned width, size_t count, size_t rows,
                      CUstream stream)
{
    struct place place;
    struct operation *operation;
    CALL_TRY(find_place(stream, &place));
    if (count == 0 || rows == 0)
        return CUDA_SUCCESS;
    CALL_TRY(transfer_create_set(&operation, destination, pitch, value, width, count, rows, place.context));
    return stream_submit(stream, operation, SUBMIT_ASYNC);
}

/* One to memory that is not page-locked has ended when it returns. */
static enum submit_mode how_to_host(const void *destination, CUstream stream)
{
    struct place place;
    struct host_range range;
    uint64_t address = (uintptr_t)destination;
    int waits = !space_is_device(address) && !host_find(address, &range) && find_place(stream, &place) == CUDA_SUCCESS &&
                !place.is_capturing;
    return waits ? SUBMIT_AND_WAIT : SUBMIT_ASYNC;
}

/* Both forms of a copy: on the legacy default stream, and on a given stream. */
#define COPY(name, since, to_type, to_side, from_type, from_side, mode)                                                        \
    DRIVER_TWIN_FORM(#name, name, ptds, since, (to_type to, from_type from, size_t ByteCount), (to, from, ByteCount))          \
    {                                                                                                                          \
        return copy((uintptr_t)to, to_side, (uintptr_t)from, from_side, ByteCount, NULL, mode);                                \
    }                                                                                                                          \
    DRIVER_TWIN_FORM(#name "Async", name##Async, ptsz, since,                                                                  \
                     (to_type to, from_type from, size_t ByteCount, CUstream hStream), (to, from, ByteCount, hStream))         \
    {                                                                                                                          \
        return copy((uintptr_t)to, to_side, (uintptr_t)from, from_side, ByteCount, hStream, SUBMIT_ASYNC);                     \
    }
COPY(cuMemcpy, 4000, CUdeviceptr, SIDE_EITHER, CUdeviceptr, SIDE_EITHER, SUBMIT_AND_WAIT)
COPY(cuMemcpyDtoD, 3020, CUdeviceptr, SIDE_DEVICE, CUdeviceptr, SIDE_DEVICE, SUBMIT_ASYNC)

DRIVER_TWIN(cuMemcpyDtoH, ptds, 3020, (void *dstHost, CUdeviceptr srcDevice, size_t ByteCount), (dstHost, srcDevice, ByteCount))
{
    return copy((uintptr_t)dstHost, SIDE_EITHER, srcDevice, SIDE_DEVICE, ByteCount, NULL, SUBMIT_AND_WAIT);
}

DRIVER_TWIN(cuMemcpyDtoHAsync, ptsz, 3020, (void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream),
            (dstHost, srcDevice, ByteCount, hStream))
{
    return copy((uintptr_t)dstHost, SIDE_EITHER, srcDevice, SIDE_DEVICE, ByteCount, hStream, how_to_host(dstHost, hStream));
}

DRIVER_TWIN(cuMemcpyHtoD, ptds, 3020, (CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount),
            (dstDevice, srcHost, ByteCount))
{
    return copy(dstDevice, SIDE_DEVICE, (uintptr_t)srcHost, SIDE_EITHER, ByteCount, NULL, SUBMIT_AND_WAIT);
}

DRIVER_TWIN(cuMemcpyHtoDAsync, ptsz, 3020, (CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream),
            (dstDevice, srcHost, ByteCount, hStream))
{
    return copy_from_host(dstDevice, srcHost, ByteCount, hStream);
}

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
    *end = (struct transfer_end){.side = SIDE_DEVICE,
                                 .address = shape->device,
                                 .pitch = shape->pitch,
                                 .slice = shape->pitch * shape->height,
                                 .context = shape->context};
    if (shape->type == CU_MEMORYTYPE_HOST) {
        end->side = SIDE_HOST;
        end->address = (uint64_t)(uintptr_t)shape->host;
    } else if (shape->type == CU_MEMORYTYPE_UNIFIED) {
        end->side = SIDE_EITHER;
    }
    CALL_REFUSE(shape->type == CU_MEMORYTYPE_ARRAY, NOT_SUPPORTED);
    if (shape->lod != 0 || (transfer->rows > 1 && end->pitch < shape->x + transfer->bytes) ||
        (transfer->slices > 1 && end->slice < end->pitch * transfer->rows))
        return CUDA_ERROR_INVALID_VALUE;
    end->address += shape->z * end->slice + shape->y * end->pitch + shape->x;
    return CUDA_SUCCESS;
}

static CUresult make_transfer(struct transfer *transfer, const struct volume *volume)
{
    *transfer = (struct transfer){.bytes = volume->bytes, .rows = volume->rows, .slices = volume->slices};
    CALL_TRY(make_end(&transfer->to, &volume->to, transfer));
    return make_end(&transfer->from, &volume->from, transfer);
}

static CUresult copy_2d(const CUDA_MEMCPY2D *copy, CUstream stream, enum submit_mode mode)
{
    struct transfer transfer;
    CALL_REFUSE(copy == NULL, INVALID_VALUE);
    const struct volume volume = {{copy->srcXInBytes, copy->srcY, 0, 0, copy->srcMemoryType, copy->srcHost, copy->srcDevice,
                                   copy->srcArray, NULL, copy->srcPitch, 0},
                                  {copy->dstXInBytes, copy->dstY, 0, 0, copy->dstMemoryType, copy->dstHost, copy->dstDevice,
                                   copy->dstArray, NULL, copy->dstPitch, 0},
                                  copy->WidthInBytes,
                                  copy->Height,
                                  1};
    CALL_TRY(make_transfer(&transfer, &volume));
    return copy_all(&transfer, stream, mode);
}

static CUresult make_3d(struct transfer *transfer, const void *copy, int is_peer)
{
    struct volume volume;
    CALL_REFUSE(copy == NULL, INVALID_VALUE);
    memcpy(&volume, copy, sizeof volume);
    if (!is_peer)
        volume.to.context = volume.from.context = NULL;
    return make_transfer(transfer, &volume);
}

static CUresult copy_3d(const CUDA_MEMCPY3D *copy, CUstream stream, enum submit_mode mode)
{
    struct transfer transfer;
    CALL_TRY(make_3d(&transfer, copy, 0));
    return copy_all(&transfer, stream, mode);
}

CUresult transfer_create_copy(struct operation **out, const CUDA_MEMCPY3D *copy, CUcontext context)
{
    struct transfer transfer;
    CALL_TRY(make_3d(&transfer, copy, 0));
    return create_copy(out, &transfer, context);
}

/* Both forms of such a copy. */
#define COPY_ROWS(name, since, type, copy)                                                                                     \
    DRIVER_TWIN_FORM(#name, name, ptds, since, (const type *pCopy), (pCopy))                                                   \
    {                                                                                                                          \
        return copy(pCopy, NULL, SUBMIT_AND_WAIT);                                                                             \
    }                                                                                                                          \
    DRIVER_TWIN_FORM(#name "Async", name##Async, ptsz, since, (const type *pCopy, CUstream hStream), (pCopy, hStream))         \
    {                                                                                                                          \
        return copy(pCopy, hStream, SUBMIT_ASYNC);                                                                             \
    }
COPY_ROWS(cuMemcpy2D, 3020, CUDA_MEMCPY2D, copy_2d)
COPY_ROWS(cuMemcpy3D, 3020, CUDA_MEMCPY3D, copy_3d)

DRIVER_TWIN(cuMemcpy2DUnaligned, ptds, 3020, (const CUDA_MEMCPY2D *pCopy), (pCopy))
{
    return copy_2d(pCopy, NULL, SUBMIT_AND_WAIT);
}

/* ---- between devices: each side is that of a context ---- */

static CUresult copy_peer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                          CUstream stream)
{
    CALL_TRY(context_validate(to_context));
    CALL_TRY(context_validate(from_context));
    return transfer_copy(&(struct transfer_end){.side = SIDE_DEVICE, .address = to, .context = to_context},
                         &(struct transfer_end){.side = SIDE_DEVICE, .address = from, .context = from_context}, bytes, stream,
                         SUBMIT_ASYNC);
}

DRIVER_TWIN(cuMemcpyPeer, ptds, 4000,
            (CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount),
            (dstDevice, dstContext, srcDevice, srcContext, ByteCount))
{
    return copy_peer(dstDevice, dstContext, srcDevice, srcContext, ByteCount, NULL);
}

DRIVER_TWIN(cuMemcpyPeerAsync, ptsz, 4000,
            (CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount,
             CUstream hStream),
            (dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream))
{
    return copy_peer(dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream);
}

static CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER *copy, CUstream stream, enum submit_mode mode)
{
    struct transfer transfer;
    CALL_TRY(make_3d(&transfer, copy, 1));
    CALL_TRY(context_validate(copy->dstContext));
    CALL_TRY(context_validate(copy->srcContext));
    return copy_all(&transfer, stream, mode);
}

COPY_ROWS(cuMemcpy3DPeer, 4000, CUDA_MEMCPY3D_PEER, copy_3d_peer)

/* ---- many at once. The order of access and the hints make no difference here ---- */

DRIVER_TWIN(cuMemcpyBatchAsync, ptsz, 13000,
            (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs,
             size_t numAttrs, CUstream hStream),
            (dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, hStream))
{
    CALL_REFUSE(dsts == NULL || srcs == NULL || sizes == NULL || count == 0, INVALID_VALUE);
    CALL_REFUSE(attrs == NULL || attrsIdxs == NULL || numAttrs == 0 || numAttrs > count || attrsIdxs[0] != 0, INVALID_VALUE);
    for (size_t i = 0; i < count; i++)
        CALL_TRY(copy(dsts[i], SIDE_EITHER, srcs[i], SIDE_EITHER, sizes[i], hStream, SUBMIT_ASYNC));
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
            (size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, unsigned long long flags, CUstream hStream),
            (numOps, opList, flags, hStream))
{
    CALL_REFUSE(numOps == 0 || opList == NULL || flags != 0, INVALID_VALUE);
    for (size_t i = 0; i < numOps; i++) {
        const CUextent3D *extent = &opList[i].extent;
        struct transfer transfer = {.bytes = extent->width, .rows = extent->height, .slices = extent->depth};
        CALL_REFUSE(transfer.bytes == 0 || transfer.rows == 0 || transfer.slices == 0, INVALID_VALUE);
        CALL_TRY(make_operand(&transfer.to, &opList[i].dst, &transfer));
        CALL_TRY(make_operand(&transfer.from, &opList[i].src, &transfer));
        CALL_TRY(copy_all(&transfer, hStream, SUBMIT_ASYNC));
    }
    return CUDA_SUCCESS;
}

/* Both forms of a set, on the legacy default stream and on a given stream: of a row, and of rows. */
#define SET(name, type)                                                                                                        \
    DRIVER_TWIN_FORM(#name, name, ptds, 3020, (CUdeviceptr to, type value, size_t count), (to, value, count))                  \
    {                                                                                                                          \
        return transfer_set(to, 0, value, sizeof value, count, 1, NULL);                                                       \
    }                                                                                                                          \
    DRIVER_TWIN_FORM(#name "Async", name##Async, ptsz, 3020, (CUdeviceptr to, type value, size_t count, CUstream stream),      \
                     (to, value, count, stream))                                                                               \
    {                                                                                                                          \
        return transfer_set(to, 0, value, sizeof value, count, 1, stream);                                                     \
    }
#define SET_ROWS(name, type)                                                                                                   \
    DRIVER_TWIN_FORM(#name, name, ptds, 3020, (CUdeviceptr to, size_t pitch, type value, size_t width, size_t height),         \
                     (to, pitch, value, width, height))                                                                        \
    {                                                                                                                          \
        return transfer_set(to, pitch, value, sizeof value, width, height, NULL);                                              \
    }                                                                                                                          \
    DRIVER_TWIN_FORM(#name "Async", name##Async, ptsz, 3020,                                                                   \
                     (CUdeviceptr to, size_t pitch, type value, size_t width, size_t height, CUstream stream),                 \
                     (to, pitch, value, width, height, stream))                                                                \
    {                                                                                                                          \
        return transfer_set(to, pitch, value, sizeof value, width, height, stream);                                            \
    }
SET(cuMemsetD8, unsigned char)
SET(cuMemsetD16, unsigned short)
SET(cuMemsetD32, unsigned int)
SET_ROWS(cuMemsetD2D8, unsigned char)
SET_ROWS(cuMemsetD2D16, unsigned short)
SET_ROWS(cuMemsetD2D32, unsigned int)
