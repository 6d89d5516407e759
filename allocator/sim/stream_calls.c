#include "capture.h"
#include "virtual_memory.h"

static CUresult check_observable_locked(CUstream stream)
{
    if (stream->capture != NULL)
        return capture_refuse_locked(stream);
    CALL_TRY(capture_check_implicit_locked(stream, 1));
    return capture_check_unsafe_locked();
}

DRIVER_TWIN(cuStreamSynchronize, ptsz, 2000, (CUstream, hStream))
{
    STREAM_HELD(stream, hStream);
    CUcontext context = stream->context;
    CALL_TRY(check_observable_locked(stream));
    stream_wait_locked(stream);
    space_settle();
    return context_error(context);
}

DRIVER_FORM("cuCtxSynchronize", cuCtxSynchronize_v2, 13000, (CUcontext, ctx))
{
    CALL_TRY(ctx == NULL ? context_current(&ctx) : context_validate(ctx));
    HOLD(&queue_lock);
    CALL_TRY(capture_check_unsafe_locked());
    CALL_TRY(capture_refuse_all_locked(ctx));
    context_wait_locked(ctx);
    space_settle();
    return context_error(ctx);
}

FORM_IS("cuCtxSynchronize", cuCtxSynchronize, 2000, (void, ), cuCtxSynchronize_v2(NULL))

DRIVER_TWIN(cuStreamQuery, ptsz, 2000, (CUstream, hStream))
{
    STREAM_HELD(stream, hStream);
    if (stream->submitters != 0) { /* measured: it waits for the thread that waits for room in that stream's queue */
        stream_await_submitters_locked(stream->context);
        CALL_TRY(stream_find_locked(hStream, &stream));
    }
    CALL_TRY(check_observable_locked(stream));
    return stream_is_idle_locked(stream) ? context_error(stream->context) : CUDA_ERROR_NOT_READY;
}

/* What a stream tells of itself. */
#define STREAM_GETTER(symbol, since, type, field)                                                                              \
    DRIVER_TWIN_FORM(#symbol, symbol, ptsz, since, (CUstream, hStream, type *, out))                                           \
    {                                                                                                                          \
        CALL_REFUSE(out == NULL, INVALID_VALUE);                                                                               \
        STREAM_HELD(stream, hStream);                                                                                          \
        *out = stream->field;                                                                                                  \
        return CUDA_SUCCESS;                                                                                                   \
    }
STREAM_GETTER(cuStreamGetFlags, 5050, unsigned int, flags)
STREAM_GETTER(cuStreamGetId, 12000, unsigned long long, id)
STREAM_GETTER(cuStreamGetCtx, 9020, CUcontext, context)

/* cuStreamWriteValue32() is a set. */
DRIVER_TWIN(cuStreamWaitValue32, ptsz, 11070, (CUstream, stream, CUdeviceptr, addr, cuuint32_t, value, unsigned int, flags))
{
    CALL_REFUSE(addr == 0 || addr % sizeof value != 0 || flags > CU_STREAM_WAIT_VALUE_NOR, INVALID_VALUE);
    CALL_REFUSE(flags != CU_STREAM_WAIT_VALUE_GEQ, NOT_SUPPORTED);
    struct operation *operation = operation_create(OPERATION_WAIT);
    operation->wait.address = addr;
    operation->wait.value = value;
    return stream_submit(stream, operation, SUBMIT_ASYNC);
}

DRIVER(cuStreamCreate, 2000, (CUstream *, out, unsigned, flags))
{
    CONTEXT_CURRENT(context);
    CALL_REFUSE(out == NULL || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING) != 0, INVALID_VALUE);
    stream_await_submitters(context);
    *out = stream_create(context, flags)->handle;
    return CUDA_SUCCESS;
}

FORM("cuStreamCreateWithPriority", cuStreamCreateWithPriority, 5050, (CUstream *, phStream, unsigned int, flags, int, priority))
{
    (void)priority; /* no work is preferred to other work */
    return cuStreamCreate(phStream, flags);
}
