#include "call.h"
#include "space.h"
#include "stream.h"

#include <stdlib.h>
#include <string.h>

#define STAGED_BYTES ((size_t)64 << 10) /* up to here the driver takes a copy of pageable memory before it returns */

enum side { SIDE_HOST, SIDE_DEVICE, SIDE_EITHER };

static CUresult check_side(enum side side, uint64_t address, size_t bytes, int is_write)
{
    if (side == SIDE_EITHER)
        side = space_is_device(address) ? SIDE_DEVICE : SIDE_HOST;
    if (side == SIDE_DEVICE)
        return space_is_accessible(address, bytes, is_write) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    return address == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult copy(uint64_t destination, enum side to, uint64_t source, enum side from, size_t bytes, CUstream stream,
                     enum submit_mode mode)
{
    CUcontext context;
    CALL_TRY(context_current(&context));
    if (bytes == 0)
        return CUDA_SUCCESS;
    CALL_TRY(check_side(to, destination, bytes, 1));
    CALL_TRY(check_side(from, source, bytes, 0));
    struct operation *operation = operation_create(OPERATION_COPY);
    if (operation == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    operation->copy.destination = destination;
    operation->copy.source = source;
    operation->copy.bytes = bytes;
    return stream_submit(stream, operation, mode);
}

static uint64_t host(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

/* A graph reads the host's memory at each launch; a plain copy of a little memory reads it now. */
static CUresult copy_from_host(CUdeviceptr destination, const void *source, size_t bytes, CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUcontext context;
    CALL_TRY(context_current(&context));
    int is_staged = bytes <= STAGED_BYTES && bytes != 0 && source != NULL && !space_is_device(host(source));
    queue_lock();
    CUstream found;
    if (stream_find_locked(context, stream, &found) == CUDA_SUCCESS && found->capture != NULL)
        status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    queue_unlock();
    if (!is_staged || status != CU_STREAM_CAPTURE_STATUS_NONE)
        return copy(destination, SIDE_DEVICE, host(source), SIDE_EITHER, bytes, stream, SUBMIT_ASYNC);
    CALL_TRY(check_side(SIDE_DEVICE, destination, bytes, 1));
    struct operation *operation = operation_create(OPERATION_COPY);
    if (operation == NULL || (operation->copy.staging = malloc(bytes)) == NULL) {
        free(operation);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(operation->copy.staging, source, bytes);
    operation->copy.destination = destination;
    operation->copy.bytes = bytes;
    return stream_submit(stream, operation, SUBMIT_ASYNC);
}

static CUresult set(CUdeviceptr destination, uint32_t value, unsigned width, size_t count, CUstream stream,
                    enum submit_mode mode)
{
    CUcontext context;
    CALL_TRY(context_current(&context));
    size_t bytes;
    if (__builtin_mul_overflow(count, width, &bytes) || destination % width != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (count == 0)
        return CUDA_SUCCESS;
    CALL_TRY(check_side(SIDE_DEVICE, destination, bytes, 1));
    struct operation *operation = operation_create(OPERATION_SET);
    if (operation == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    operation->set.destination = destination;
    operation->set.value = value;
    operation->set.width = width;
    operation->set.count = count;
    return stream_submit(stream, operation, mode);
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

SIM_API CUresult cuMemsetD8(CUdeviceptr dstDevice, unsigned char uc, size_t N)
{
    CALL_ENTER("cuMemsetD8");
    return set(dstDevice, uc, 1, N, NULL, SUBMIT_ASYNC);
}

SIM_API CUresult cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream)
{
    CALL_ENTER("cuMemsetD8Async");
    return set(dstDevice, uc, 1, N, hStream, SUBMIT_ASYNC);
}

SIM_API CUresult cuMemsetD16(CUdeviceptr dstDevice, unsigned short us, size_t N)
{
    CALL_ENTER("cuMemsetD16");
    return set(dstDevice, us, 2, N, NULL, SUBMIT_ASYNC);
}

SIM_API CUresult cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream)
{
    CALL_ENTER("cuMemsetD16Async");
    return set(dstDevice, us, 2, N, hStream, SUBMIT_ASYNC);
}

SIM_API CUresult cuMemsetD32(CUdeviceptr dstDevice, unsigned int ui, size_t N)
{
    CALL_ENTER("cuMemsetD32");
    return set(dstDevice, ui, 4, N, NULL, SUBMIT_ASYNC);
}

SIM_API CUresult cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream)
{
    CALL_ENTER("cuMemsetD32Async");
    return set(dstDevice, ui, 4, N, hStream, SUBMIT_ASYNC);
}
