/* Copies and sets of more than one row, and copies between contexts. */
#include "call.h"
#include "transfer.h"

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
    return transfer_copy(&transfer, stream, mode);
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
    return transfer_copy(&transfer, stream, mode);
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
    const struct transfer transfer = {.to = {.side = SIDE_DEVICE, .address = to},
                                      .from = {.side = SIDE_DEVICE, .address = from},
                                      .bytes = bytes,
                                      .rows = 1,
                                      .slices = 1};
    return transfer_copy(&transfer, stream, SUBMIT_ASYNC);
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

/* Both forms of a set: on the legacy default stream, and on a given stream. */
#define SET_ROWS(name, element)                                                                                                \
    SIM_API CUresult name(CUdeviceptr dstDevice, size_t dstPitch, element value, size_t Width, size_t Height)                  \
    {                                                                                                                          \
        CALL_ENTER(#name);                                                                                                     \
        return transfer_set(dstDevice, dstPitch, value, sizeof value, Width, Height, NULL);                                    \
    }                                                                                                                          \
    SIM_API CUresult name##Async(CUdeviceptr dstDevice, size_t dstPitch, element value, size_t Width, size_t Height,           \
                                 CUstream hStream)                                                                             \
    {                                                                                                                          \
        CALL_ENTER(#name "Async");                                                                                             \
        return transfer_set(dstDevice, dstPitch, value, sizeof value, Width, Height, hStream);                                 \
    }
SET_ROWS(cuMemsetD2D8, unsigned char)
SET_ROWS(cuMemsetD2D16, unsigned short)
SET_ROWS(cuMemsetD2D32, unsigned int)
