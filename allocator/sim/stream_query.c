#include "call.h"
#include "capture.h"

/* Common to all calls about one stream: gets the current context and the stream, under the queue lock. */
static CUresult enter(CUstream handle, CUstream *stream)
{
    CUcontext context;
    CALL_TRY(context_current(&context));
    queue_lock();
    CUresult result = stream_find_locked(context, handle, stream);
    if (result != CUDA_SUCCESS)
        queue_unlock();
    return result;
}

static CUresult check_observable_locked(CUstream stream)
{
    return stream->capture != NULL ? capture_refuse_locked(stream) : capture_check_implicit_locked(stream);
}

SIM_API CUresult cuStreamSynchronize(CUstream hStream)
{
    CALL_ENTER("cuStreamSynchronize");
    CUstream stream;
    CALL_TRY(enter(hStream, &stream));
    CUcontext context = stream->context;
    CUresult result = check_observable_locked(stream);
    if (result == CUDA_SUCCESS)
        stream_wait_locked(stream);
    queue_unlock();
    return result == CUDA_SUCCESS ? context_error(context) : result;
}

SIM_API CUresult cuStreamQuery(CUstream hStream)
{
    CALL_ENTER("cuStreamQuery");
    CUstream stream;
    CALL_TRY(enter(hStream, &stream));
    CUresult result = check_observable_locked(stream);
    if (result == CUDA_SUCCESS && !stream_is_idle_locked(stream))
        result = CUDA_ERROR_NOT_READY;
    CUcontext context = stream->context;
    queue_unlock();
    return result == CUDA_SUCCESS ? context_error(context) : result;
}

SIM_API CUresult cuStreamGetFlags(CUstream hStream, unsigned int *flags)
{
    CALL_ENTER("cuStreamGetFlags");
    CUstream stream;
    if (flags == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CALL_TRY(enter(hStream, &stream));
    *flags = stream->flags;
    queue_unlock();
    return CUDA_SUCCESS;
}

SIM_API CUresult cuStreamGetPriority(CUstream hStream, int *priority)
{
    CALL_ENTER("cuStreamGetPriority");
    CUstream stream;
    if (priority == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CALL_TRY(enter(hStream, &stream));
    *priority = stream->priority;
    queue_unlock();
    return CUDA_SUCCESS;
}

SIM_API CUresult cuStreamGetId(CUstream hStream, unsigned long long *streamId)
{
    CALL_ENTER("cuStreamGetId");
    CUstream stream;
    if (streamId == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CALL_TRY(enter(hStream, &stream));
    *streamId = stream->id;
    queue_unlock();
    return CUDA_SUCCESS;
}

SIM_API CUresult cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
    CALL_ENTER("cuStreamGetCtx");
    CUstream stream;
    if (pctx == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CALL_TRY(enter(hStream, &stream));
    *pctx = stream->context;
    queue_unlock();
    return CUDA_SUCCESS;
}

SIM_API CUresult cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx)
{
    CALL_ENTER("cuStreamGetCtx");
    CUstream stream;
    if (pCtx == NULL || pGreenCtx == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CALL_TRY(enter(hStream, &stream));
    *pCtx = stream->context->home;
    *pGreenCtx = stream->context->green;
    queue_unlock();
    return CUDA_SUCCESS;
}

SIM_API CUresult cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx *phCtx)
{
    CALL_ENTER("cuStreamGetGreenCtx");
    CUstream stream;
    if (phCtx == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CALL_TRY(enter(hStream, &stream));
    *phCtx = stream->context->green;
    queue_unlock();
    return CUDA_SUCCESS;
}

SIM_API CUresult cuStreamGetDevice(CUstream hStream, CUdevice *device)
{
    CALL_ENTER("cuStreamGetDevice");
    CUstream stream;
    if (device == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CALL_TRY(enter(hStream, &stream));
    *device = stream->context->device;
    queue_unlock();
    return CUDA_SUCCESS;
}

SIM_API CUresult cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
    CALL_ENTER("cuCtxGetStreamPriorityRange");
    if (leastPriority != NULL)
        *leastPriority = 0;
    if (greatestPriority != NULL)
        *greatestPriority = -5;
    return CUDA_SUCCESS;
}
