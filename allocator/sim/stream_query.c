#include "call.h"
#include "capture.h"
#include "space.h"
#include "stream.h"

/* Common to all calls about one stream: finds it, and holds the queue lock from then on. */
#define STREAM_HELD(name, handle)                                                                                              \
    CUstream name;                                                                                                             \
    HOLD(&queue_lock);                                                                                                         \
    CALL_TRY(stream_find_locked(handle, &(name)))

static CUresult check_observable_locked(CUstream stream)
{
    if (stream->capture != NULL)
        return capture_refuse_locked(stream);
    CALL_TRY(capture_check_implicit_locked(stream, 1));
    return capture_check_unsafe_locked();
}

SIM_API CUresult cuStreamSynchronize(CUstream hStream)
{
    CALL_ENTER("cuStreamSynchronize");
    STREAM_HELD(stream, hStream);
    CUcontext context = stream->context;
    CALL_TRY(check_observable_locked(stream));
    stream_wait_locked(stream);
    space_settle();
    return context_error(context);
}

SIM_API CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
    CALL_ENTER("cuCtxSynchronize");
    CALL_TRY(ctx == NULL ? context_current(&ctx) : context_validate(ctx));
    HOLD(&queue_lock);
    CALL_TRY(capture_check_unsafe_locked());
    CALL_TRY(capture_refuse_all_locked(ctx));
    context_wait_locked(ctx);
    space_settle();
    return context_error(ctx);
}

SIM_API CUresult cuCtxSynchronize(void)
{
    return cuCtxSynchronize_v2(NULL);
}

SIM_API CUresult cuStreamQuery(CUstream hStream)
{
    CALL_ENTER("cuStreamQuery");
    STREAM_HELD(stream, hStream);
    if (stream->submitters != 0) { /* measured: it waits for the thread that waits for room in that stream's queue */
        stream_await_submitters_locked(stream->context);
        CALL_TRY(stream_find_locked(hStream, &stream));
    }
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

SIM_API CUresult cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx)
{
    CALL_ENTER("cuStreamGetCtx");
    CALL_REFUSE(pCtx == NULL || pGreenCtx == NULL, INVALID_VALUE);
    STREAM_HELD(stream, hStream);
    *pCtx = stream->context->home;
    *pGreenCtx = stream->context->green;
    return CUDA_SUCCESS;
}

/* Streams that wait for a word of memory, and write one: for the order between a device and whatever else sees that memory. */
#define ADDRESS_ALIGNMENT 4

SIM_API CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags)
{
    CALL_ENTER("cuStreamWaitValue32");
    CALL_REFUSE(addr == 0 || addr % ADDRESS_ALIGNMENT != 0 || flags > CU_STREAM_WAIT_VALUE_NOR, INVALID_VALUE);
    struct operation *operation = operation_create(OPERATION_WAIT);
    if (operation != NULL) {
        operation->wait.address = addr;
        operation->wait.value = value;
        operation->wait.flags = flags;
    }
    return stream_submit(stream, operation, SUBMIT_ASYNC);
}

SIM_API CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags)
{
    CALL_ENTER("cuStreamWriteValue32");
    if (addr % ADDRESS_ALIGNMENT != 0 || (flags & ~(unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return transfer_set(addr, 0, value, sizeof value, 1, 1, stream);
}
