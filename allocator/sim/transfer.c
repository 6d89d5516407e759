#include "transfer.h"
#include "call.h"
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

CUresult transfer_copy(const struct transfer *transfer, CUstream stream, enum submit_mode mode)
{
    CONTEXT_CURRENT(context);
    if (transfer->bytes == 0 || transfer->rows == 0 || transfer->slices == 0)
        return CUDA_SUCCESS;
    CALL_TRY(check_end(transfer, &transfer->to, 1));
    CALL_TRY(check_end(transfer, &transfer->from, 0));
    struct operation *operation = operation_create(OPERATION_COPY);
    CALL_REFUSE(operation == NULL, OUT_OF_MEMORY);
    operation->copy.destination = transfer->to.address;
    operation->copy.destination_pitch = transfer->to.pitch;
    operation->copy.destination_slice = transfer->to.slice;
    operation->copy.source = transfer->from.address;
    operation->copy.source_pitch = transfer->from.pitch;
    operation->copy.source_slice = transfer->from.slice;
    operation->copy.bytes = transfer->bytes;
    operation->copy.rows = transfer->rows;
    operation->copy.slices = transfer->slices;
    return stream_submit(stream, operation, mode);
}

static CUresult copy(uint64_t destination, enum transfer_side to, uint64_t source, enum transfer_side from, size_t bytes,
                     CUstream stream, enum submit_mode mode)
{
    const struct transfer transfer = {.to = {.side = to, .address = destination},
                                      .from = {.side = from, .address = source},
                                      .bytes = bytes,
                                      .rows = 1,
                                      .slices = 1};
    return transfer_copy(&transfer, stream, mode);
}

static uint64_t host(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
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
    int is_staged = bytes <= STAGED_BYTES && bytes != 0 && source != NULL && !space_is_device(host(source));
    if (!is_staged || is_capturing(context, stream))
        return copy(destination, SIDE_DEVICE, host(source), SIDE_EITHER, bytes, stream, SUBMIT_ASYNC);
    CALL_TRY(check_side(SIDE_DEVICE, destination, bytes, 1));
    struct operation *operation = operation_create(OPERATION_COPY);
    if (operation == NULL || (operation->copy.rerun = malloc(bytes)) == NULL) {
        free(operation);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(operation->copy.rerun, source, bytes);
    operation->copy.destination = destination;
    operation->copy.bytes = bytes;
    operation->copy.rows = operation->copy.slices = 1;
    return stream_submit(stream, operation, SUBMIT_ASYNC);
}

CUresult transfer_create_set(struct operation **out, CUdeviceptr destination, size_t pitch, uint32_t value, unsigned width,
                             size_t count, size_t rows)
{
    struct transfer transfer = {.rows = rows, .slices = 1};
    const struct transfer_end end = {.side = SIDE_DEVICE, .address = destination, .pitch = pitch};
    if (__builtin_mul_overflow(count, width, &transfer.bytes) || destination % width != 0 || pitch % width != 0 ||
        (rows > 1 && pitch < transfer.bytes))
        return CUDA_ERROR_INVALID_VALUE;
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

static CUresult set(CUdeviceptr destination, uint32_t value, unsigned width, size_t count, CUstream stream)
{
    return transfer_set(destination, 0, value, width, count, 1, stream);
}

SIM_API CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)
{
    CALL_ENTER("cuMemcpy");
    return copy(dst, SIDE_EITHER, src, SIDE_EITHER, ByteCount, NULL, SUBMIT_AND_WAIT);
}

SIM_API CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream)
{
    CALL_ENTER("cuMemcpyAsync");
    return copy(dst, SIDE_EITHER, src, SIDE_EITHER, ByteCount, hStream, SUBMIT_ASYNC);
}

SIM_API CUresult cuMemcpyHtoD(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount)
{
    CALL_ENTER("cuMemcpyHtoD");
    return copy(dstDevice, SIDE_DEVICE, host(srcHost), SIDE_EITHER, ByteCount, NULL, SUBMIT_AND_WAIT);
}

SIM_API CUresult cuMemcpyHtoDAsync(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream)
{
    CALL_ENTER("cuMemcpyHtoDAsync");
    return copy_from_host(dstDevice, srcHost, ByteCount, hStream);
}

SIM_API CUresult cuMemcpyDtoH(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
    CALL_ENTER("cuMemcpyDtoH");
    return copy(host(dstHost), SIDE_EITHER, srcDevice, SIDE_DEVICE, ByteCount, NULL, SUBMIT_AND_WAIT);
}

SIM_API CUresult cuMemcpyDtoHAsync(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
    CALL_ENTER("cuMemcpyDtoHAsync");
    return copy(host(dstHost), SIDE_EITHER, srcDevice, SIDE_DEVICE, ByteCount, hStream, SUBMIT_ASYNC);
}

SIM_API CUresult cuMemcpyDtoD(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount)
{
    CALL_ENTER("cuMemcpyDtoD");
    return copy(dstDevice, SIDE_DEVICE, srcDevice, SIDE_DEVICE, ByteCount, NULL, SUBMIT_ASYNC);
}

SIM_API CUresult cuMemcpyDtoDAsync(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
    CALL_ENTER("cuMemcpyDtoDAsync");
    return copy(dstDevice, SIDE_DEVICE, srcDevice, SIDE_DEVICE, ByteCount, hStream, SUBMIT_ASYNC);
}

/* Both forms of a set: on the legacy default stream, and on a given stream. */
#define SET(name, element)                                                                                                     \
    SIM_API CUresult name(CUdeviceptr dstDevice, element value, size_t N)                                                      \
    {                                                                                                                          \
        CALL_ENTER(#name);                                                                                                     \
        return set(dstDevice, value, sizeof value, N, NULL);                                                                   \
    }                                                                                                                          \
    SIM_API CUresult name##Async(CUdeviceptr dstDevice, element value, size_t N, CUstream hStream)                             \
    {                                                                                                                          \
        CALL_ENTER(#name "Async");                                                                                             \
        return set(dstDevice, value, sizeof value, N, hStream);                                                                \
    }
SET(cuMemsetD8, unsigned char)
SET(cuMemsetD16, unsigned short)
SET(cuMemsetD32, unsigned int)
