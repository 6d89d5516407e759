#include "call.h"
#include "capture.h"

/* Common to all calls about one stream: finds it in the current context, and holds the queue lock from then on. */
#define STREAM_HELD(name, handle)                                                                                              \
    CUstream name;                                                                                                             \
    CONTEXT_CURRENT(context);                                                                                                  \
    HOLD(&queue_lock);                                                                                                         \
    CALL_TRY(stream_find_locked(context, handle, &(name)))

static CUresult check_observable_locked(CUstream stream)
{
    return stream->capture != NULL ? capture_refuse_locked(stream) : capture_check_implicit_locked(stream, 1);
}

SIM_API CUresult cuStreamSynchronize(CUstream hStream)
{
    CALL_ENTER("cuStreamSynchronize");
    STREAM_HELD(stream, hStream);
    context = stream->context;
    CALL_TRY(check_observable_locked(stream));
    stream_wait_locked(stream);
    return context_error(context);
}

SIM_API CUresult cuStreamQuery(CUstream hStream)
{
    CALL_ENTER("cuStreamQuery");
    STREAM_HELD(stream, hStream);
    CALL_TRY(check_observable_locked(stream));
    return stream_is_idle_locked(stream) ? context_error(stream->context) : CUDA_ERROR_NOT_READY;
}

/* What a stream tells of itself. */
#define STREAM_GETTER(symbol, type, field)                                                                                     \
    SIM_API CUresult symbol(CUstream hStream, type *out)                                                                       \
    {                                                                                                                          \
        CALL_ENTER(#symbol);                                                                                                   \
        CALL_REFUSE(out == NULL, INVALID_VALUE);                                                                               \
        STREAM_HELD(stream, hStream);                                                                                          \
        *out = stream->field;                                                                                                  \
        return CUDA_SUCCESS;                                                                                                   \
    }
STREAM_GETTER(cuStreamGetFlags, unsigned int, flags)
STREAM_GETTER(cuStreamGetId, unsigned long long, id)
STREAM_GETTER(cuStreamGetCtx, CUcontext, context)
STREAM_GETTER(cuStreamGetGreenCtx, CUgreenCtx, context->green)

SIM_API CUresult cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx)
{
    CALL_ENTER("cuStreamGetCtx");
    CALL_REFUSE(pCtx == NULL || pGreenCtx == NULL, INVALID_VALUE);
    STREAM_HELD(stream, hStream);
    *pCtx = stream->context->home;
    *pGreenCtx = stream->context->green;
    return CUDA_SUCCESS;
}
