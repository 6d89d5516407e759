#include "host.h"
#include "space.h"
#include "stream.h"

#include <stdlib.h>
#include <string.h>

#define STAGED_BYTES ((size_t)64 << 10) /* up to this size the driver copies pageable memory before it returns */

static CUresult check_side(enum transfer_side side, uint64_t address, size_t bytes, int is_write)
{
    struct host_range range;
    int is_device = space_is_device(address);
    if (side == SIDE_DEVICE && !is_device && host_find(address, &range))
        return bytes > range.start + range.size - address ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    if (side == SIDE_DEVICE || (side == SIDE_EITHER && is_device))
        return space_is_accessible(address, bytes, is_write) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
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

static CUresult check_end(const struct transfer *transfer, const struct transfer_end *end, int is_write)
{
    size_t bytes = span(transfer, end);
    return bytes == 0 ? CUDA_ERROR_INVALID_VALUE : check_side(end->side, end->address, bytes, is_write);
}

static CUresult copy_all(const struct transfer *transfer, CUstream stream, enum submit_mode mode)
{
    CONTEXT_CURRENT(context);
    if (transfer->bytes == 0 || transfer->rows == 0 || transfer->slices == 0)
        return CUDA_SUCCESS;
    CALL_TRY(check_end(transfer, &transfer->to, 1));
    CALL_TRY(check_end(transfer, &transfer->from, 0));
    OPERATION(operation, operation_create(OPERATION_COPY));
    operation->copy.transfer = *transfer;
    return stream_submit(stream, operation_retain(operation), mode);
}

static CUresult copy(uint64_t destination, enum transfer_side to, uint64_t source, enum transfer_side from, size_t bytes,
                     CUstream stream, enum submit_mode mode)
{
    const struct transfer transfer = {.to = {.side = to, .address = destination},
                                      .from = {.side = from, .address = source},
                                      .bytes = bytes,
                                      .rows = 1,
                                      .slices = 1};
    return copy_all(&transfer, stream, mode);
}

static int is_capturing(CUcontext context, CUstream handle)
{
    CUstream stream;
    HOLD(&queue_lock);
    return stream_find_locked(context, handle, &stream) == CUDA_SUCCESS && stream->capture != NULL;
}

/* A graph reads host memory at each launch; a plain small copy reads it now. */
static CUresult copy_from_host(CUdeviceptr destination, const void *source, size_t bytes, CUstream stream)
{
    CONTEXT_CURRENT(context);
    int is_staged = bytes <= STAGED_BYTES && bytes != 0 && source != NULL && !space_is_device((uintptr_t)source);
    if (!is_staged || is_capturing(context, stream))
        return copy(destination, SIDE_DEVICE, (uintptr_t)source, SIDE_EITHER, bytes, stream, SUBMIT_ASYNC);
    CALL_TRY(check_side(SIDE_DEVICE, destination, bytes, 1));
    OPERATION(operation, operation_create(OPERATION_COPY));
    operation->copy.transfer = (struct transfer){.to = {.address = destination}, .bytes = bytes, .rows = 1, .slices = 1};
    operation->copy.staging = malloc(bytes);
    CALL_REFUSE(operation->copy.staging == NULL, OUT_OF_MEMORY);
    memcpy(operation->copy.staging, source, bytes);
    return stream_submit(stream, operation_retain(operation), SUBMIT_ASYNC);
}

CUresult transfer_create_set(struct operation **out, CUdeviceptr destination, size_t pitch, uint32_t value, unsigned width,
                             size_t count, size_t rows)
{
    struct transfer transfer = {.rows = rows, .slices = 1};
    const struct transfer_end end = {.side = SIDE_DEVICE, .address = destination, .pitch = pitch};
    CALL_REFUSE(__builtin_mul_overflow(count, width, &transfer.bytes) || destination % width != 0, INVALID_VALUE);
    CALL_REFUSE(pitch % width != 0 || (rows > 1 && pitch < transfer.bytes), INVALID_VALUE);
    CALL_TRY(check_end(&transfer, &end, 1));
    struct operation *operation = operation_create(OPERATION_SET);
    CALL_REFUSE(operation == NULL, OUT_OF_MEMORY);
    operation->set.destination = destination;
    operation->set.pitch = pitch;
    operation->set.rows = rows;
    operation->set.value = value;
    operation->set.width = width;
    operation->set.count = count;
    *out = operation;
    return CUDA_SUCCESS;
}

CUresult transfer_set(CUdeviceptr destination, size_t pitch, uint32_t value, unsigned width, size_t count, size_t rows,
                      CUstream stream)
{
    CUcontext context;
    struct operation *operation;
    CALL_TRY(context_current(&context));
    if (count == 0 || rows == 0)
        return CUDA_SUCCESS;
    CALL_TRY(transfer_create_set(&operation, destination, pitch, value, width, count, rows));
    return stream_submit(stream, operation, SUBMIT_ASYNC);
}

/* One to memory that is not page-locked has ended when it returns. */
static enum submit_mode how_to_host(const void *destination, CUstream stream)
{
    CUcontext context;
    struct host_range range;
    uint64_t address = (uintptr_t)destination;
    int waits = !space_is_device(address) && !host_find(address, &range) && context_current(&context) == CUDA_SUCCESS &&
                !is_capturing(context, stream);
    return waits ? SUBMIT_AND_WAIT : SUBMIT_ASYNC;
}

/* Both forms of a copy: on the legacy default stream, and on a given stream. */
#define COPY(name, to_type, to_side, from_type, from_side, mode)                                                               \
    SIM_API CUresult name(to_type to, from_type from, size_t ByteCount)                                                        \
    {                                                                                                                          \
        CALL_ENTER(#name);                                                                                                     \
        return copy((uintptr_t)to, to_side, (uintptr_t)from, from_side, ByteCount, NULL, mode);                                \
    }                                                                                                                          \
    SIM_API CUresult name##Async(to_type to, from_type from, size_t ByteCount, CUstream hStream)                               \
    {                                                                                                                          \
        CALL_ENTER(#name "Async");                                                                                             \
        return copy((uintptr_t)to, to_side, (uintptr_t)from, from_side, ByteCount, hStream, SUBMIT_ASYNC);                     \
    }
COPY(cuMemcpy, CUdeviceptr, SIDE_EITHER, CUdeviceptr, SIDE_EITHER, SUBMIT_AND_WAIT)
COPY(cuMemcpyDtoD, CUdeviceptr, SIDE_DEVICE, CUdeviceptr, SIDE_DEVICE, SUBMIT_ASYNC)

SIM_API CUresult cuMemcpyDtoH(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
    CALL_ENTER("cuMemcpyDtoH");
    return copy((uintptr_t)dstHost, SIDE_EITHER, srcDevice, SIDE_DEVICE, ByteCount, NULL, SUBMIT_AND_WAIT);
}

SIM_API CUresult cuMemcpyDtoHAsync(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
    CALL_ENTER("cuMemcpyDtoHAsync");
    return copy((uintptr_t)dstHost, SIDE_EITHER, srcDevice, SIDE_DEVICE, ByteCount, hStream, how_to_host(dstHost, hStream));
}

SIM_API CUresult cuMemcpyHtoD(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount)
{
    CALL_ENTER("cuMemcpyHtoD");
    return copy(dstDevice, SIDE_DEVICE, (uintptr_t)srcHost, SIDE_EITHER, ByteCount, NULL, SUBMIT_AND_WAIT);
}

SIM_API CUresult cuMemcpyHtoDAsync(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream)
{
    CALL_ENTER("cuMemcpyHtoDAsync");
    return copy_from_host(dstDevice, srcHost, ByteCount, hStream);
}

static CUresult make_end(struct transfer_end *end, CUmemorytype type, const void *host, CUdeviceptr device, size_t offset)
{
    switch (type) {
    case CU_MEMORYTYPE_HOST:
        end->side = SIDE_HOST;
        end->address = (uint64_t)(uintptr_t)host;
        break;
    case CU_MEMORYTYPE_DEVICE:
        end->side = SIDE_DEVICE;
        end->address = device;
        break;
    case CU_MEMORYTYPE_UNIFIED:
        end->side = SIDE_EITHER;
        end->address = device;
        break;
    default:
        return CUDA_ERROR_NOT_SUPPORTED; /* arrays */
    }
    end->address += offset;
    return CUDA_SUCCESS;
}

static CUresult copy_2d(const CUDA_MEMCPY2D *copy, CUstream stream, enum submit_mode mode)
{
    if (copy == NULL || (copy->Height > 1 && (copy->srcPitch < copy->srcXInBytes + copy->WidthInBytes ||
                                              copy->dstPitch < copy->dstXInBytes + copy->WidthInBytes)))
        return CUDA_ERROR_INVALID_VALUE;
    struct transfer transfer = {.to = {.pitch = copy->dstPitch},
                                .from = {.pitch = copy->srcPitch},
                                .bytes = copy->WidthInBytes,
                                .rows = copy->Height,
                                .slices = 1};
    CALL_TRY(make_end(&transfer.to, copy->dstMemoryType, copy->dstHost, copy->dstDevice,
                      copy->dstY * copy->dstPitch + copy->dstXInBytes));
    CALL_TRY(make_end(&transfer.from, copy->srcMemoryType, copy->srcHost, copy->srcDevice,
                      copy->srcY * copy->srcPitch + copy->srcXInBytes));
    return copy_all(&transfer, stream, mode);
}

SIM_API CUresult cuMemcpy2D(const CUDA_MEMCPY2D *pCopy)
{
    CALL_ENTER("cuMemcpy2D");
    return copy_2d(pCopy, NULL, SUBMIT_AND_WAIT);
}

SIM_API CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D *pCopy)
{
    CALL_ENTER("cuMemcpy2DUnaligned");
    return copy_2d(pCopy, NULL, SUBMIT_AND_WAIT);
}

SIM_API CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
    CALL_ENTER("cuMemcpy2DAsync");
    return copy_2d(pCopy, hStream, SUBMIT_ASYNC);
}

static CUresult copy_3d(const CUDA_MEMCPY3D *copy, CUstream stream, enum submit_mode mode)
{
    if (copy == NULL || copy->srcLOD != 0 || copy->dstLOD != 0 ||
        (copy->Depth > 1 && (copy->srcHeight < copy->Height || copy->dstHeight < copy->Height)) ||
        (copy->Height > 1 &&
         (copy->srcPitch < copy->srcXInBytes + copy->WidthInBytes || copy->dstPitch < copy->dstXInBytes + copy->WidthInBytes)))
        return CUDA_ERROR_INVALID_VALUE;
    struct transfer transfer = {.to = {.pitch = copy->dstPitch, .slice = copy->dstPitch * copy->dstHeight},
                                .from = {.pitch = copy->srcPitch, .slice = copy->srcPitch * copy->srcHeight},
                                .bytes = copy->WidthInBytes,
                                .rows = copy->Height,
                                .slices = copy->Depth};
    CALL_TRY(make_end(&transfer.to, copy->dstMemoryType, copy->dstHost, copy->dstDevice,
                      copy->dstZ * transfer.to.slice + copy->dstY * copy->dstPitch + copy->dstXInBytes));
    CALL_TRY(make_end(&transfer.from, copy->srcMemoryType, copy->srcHost, copy->srcDevice,
                      copy->srcZ * transfer.from.slice + copy->srcY * copy->srcPitch + copy->srcXInBytes));
    return copy_all(&transfer, stream, mode);
}

SIM_API CUresult cuMemcpy3D(const CUDA_MEMCPY3D *pCopy)
{
    CALL_ENTER("cuMemcpy3D");
    return copy_3d(pCopy, NULL, SUBMIT_AND_WAIT);
}

SIM_API CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
    CALL_ENTER("cuMemcpy3DAsync");
    return copy_3d(pCopy, hStream, SUBMIT_ASYNC);
}

static CUresult copy_peer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                          CUstream stream)
{
    CALL_TRY(context_validate(to_context));
    CALL_TRY(context_validate(from_context));
    return copy(to, SIDE_DEVICE, from, SIDE_DEVICE, bytes, stream, SUBMIT_ASYNC);
}

SIM_API CUresult cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
                              size_t ByteCount)
{
    CALL_ENTER("cuMemcpyPeer");
    return copy_peer(dstDevice, dstContext, srcDevice, srcContext, ByteCount, NULL);
}

SIM_API CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
                                   size_t ByteCount, CUstream hStream)
{
    CALL_ENTER("cuMemcpyPeerAsync");
    return copy_peer(dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream);
}

/* Both forms of a set, of bytes in a row and of rows: on the legacy default stream, and on a given stream. */
#define SET(name, at, ...)                                                                                                     \
    SIM_API CUresult name(CUdeviceptr to, __VA_ARGS__)                                                                         \
    {                                                                                                                          \
        CALL_ENTER(#name);                                                                                                     \
        return transfer_set(to, at, NULL);                                                                                     \
    }                                                                                                                          \
    SIM_API CUresult name##Async(CUdeviceptr to, __VA_ARGS__, CUstream hStream)                                                \
    {                                                                                                                          \
        CALL_ENTER(#name "Async");                                                                                             \
        return transfer_set(to, at, hStream);                                                                                  \
    }
#define IN_ROW 0, value, sizeof value, N, 1
#define IN_ROWS pitch, value, sizeof value, width, height
SET(cuMemsetD8, IN_ROW, unsigned char value, size_t N)
SET(cuMemsetD16, IN_ROW, unsigned short value, size_t N)
SET(cuMemsetD32, IN_ROW, unsigned int value, size_t N)
SET(cuMemsetD2D8, IN_ROWS, size_t pitch, unsigned char value, size_t width, size_t height)
SET(cuMemsetD2D16, IN_ROWS, size_t pitch, unsigned short value, size_t width, size_t height)
SET(cuMemsetD2D32, IN_ROWS, size_t pitch, unsigned int value, size_t width, size_t height)
