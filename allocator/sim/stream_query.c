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

/* What a stream tells of itself. */
#define STREAM_GETTER(symbol, type, field)                                                                                     \
    SIM_API CUresult symbol(CUstream hStream, type *out)                                                                       \
    {                                                                                                                          \
        CALL_ENTER(#symbol);                                                                                                   \
        CUstream stream;                                                                                                       \
        if (out == NULL)                                                                                                       \
            return CUDA_ERROR_INVALID_VALUE;                                                                                   \
        CALL_TRY(enter(hStream, &stream));                                                                                     \
        *out = stream->field;                                                                                                  \
        queue_unlock();                                                                                                        \
        return CUDA_SUCCESS;                                                                                                   \
    }
STREAM_GETTER(cuStreamGetFlags, unsigned int, flags)
STREAM_GETTER(cuStreamGetId, unsigned long long, id)
STREAM_GETTER(cuStreamGetCtx, CUcontext, context)
STREAM_GETTER(cuStreamGetGreenCtx, CUgreenCtx, context->green)

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
