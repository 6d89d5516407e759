/* The calls about streams, and about events. */
#include "capture.h"
#include "virtual_memory.h"

#include <time.h>

static CUresult check_observable_locked(CUstream stream)
{
    if (stream->capture != NULL)
        return CAPTURE_REFUSE(stream->capture);
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

DRIVER_TWIN(cuStreamBatchMemOp, ptsz, 11070,
            (CUstream, stream, unsigned int, count, CUstreamBatchMemOpParams *, operations, unsigned int, flags))
{
    CALL_REFUSE(operations == NULL || count > 256 || flags != 0, INVALID_VALUE);
    for (unsigned i = 0; i < count; i++) {
        const CUstreamBatchMemOpParams *next = &operations[i];
        if (next->operation == CU_STREAM_MEM_OP_WRITE_VALUE_32)
            CALL_TRY(cuStreamWriteValue32(stream, next->writeValue.address, next->writeValue.value, next->writeValue.flags));
        else if (next->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32)
            CALL_TRY(cuStreamWaitValue32(stream, next->waitValue.address, next->waitValue.value, next->waitValue.flags));
        else
            return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

DRIVER(cuStreamCreate, 2000, (CUstream *, out, unsigned, flags))
{
    CONTEXT_CURRENT(context);
    CALL_REFUSE(out == NULL || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING) != 0, INVALID_VALUE);
    stream_await_submitters(context);
    *out = stream_create(context, flags)->handle;
    return CUDA_SUCCESS;
}

/* No work is preferred to other work. */
FORM_IS("cuStreamCreateWithPriority", cuStreamCreateWithPriority, 5050,
        (CUstream *, phStream, unsigned int, flags, int, priority), cuStreamCreate(phStream, flags))

/* ---- events ---- */

static uint64_t last_generation; /* under queue_lock */

void event_complete(struct CUevent_st *event, uint64_t generation)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    HOLD(&queue_lock);
    if (event->generation == generation)
        event->completed_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

DRIVER(cuEventCreate, 2000, (CUevent *, phEvent, unsigned int, Flags))
{
    CONTEXT_CURRENT(context);
    stream_await_submitters(context);
    const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING;
    CALL_REFUSE(phEvent == NULL || (Flags & ~known) != 0, INVALID_VALUE);
    HOLD(&queue_lock); /* a record of the event that had this memory may look at it now */
    CUevent event = handle_create(HANDLE_EVENT, sizeof *event, context->home);
    event->context = context->home;
    event->flags = Flags;
    *phEvent = event;
    return CUDA_SUCCESS;
}

DRIVER(cuEventDestroy, 4000, (CUevent, hEvent))
{
    CALL_REFUSE(!handle_is_valid(HANDLE_EVENT, hEvent), INVALID_HANDLE);
    stream_await_submitters(hEvent->context);
    return handle_destroy(HANDLE_EVENT, hEvent) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

DRIVER_TWIN(cuEventRecord, ptsz, 2000, (CUevent, event, CUstream, handle))
{
    CALL_REFUSE(!handle_is_valid(HANDLE_EVENT, event), INVALID_HANDLE);
    OPERATION(operation, operation_create(OPERATION_EVENT));
    operation->event.event = event;
    STREAM_READY(stream, handle);
    CALL_REFUSE(stream->context->home != event->context, INVALID_HANDLE);
    if (stream->capture != NULL) {
        CALL_REFUSE(stream->capture->is_invalid, STREAM_CAPTURE_INVALIDATED);
        event->clock = stream->capture->clocks[stream->component];
        event->capture = stream->capture->id;
        event->ticket = (struct ticket){0};
        return CUDA_SUCCESS;
    }
    CALL_TRY(capture_check_implicit_locked(stream, 1));
    struct ticket ticket;
    operation->event.generation = ++last_generation;
    CALL_TRY(stream_enqueue_locked(stream, operation, NULL, &ticket));
    event->capture = 0;
    event->generation = last_generation;
    event->completed_ns = 0;
    event->ticket = ticket;
    return CUDA_SUCCESS;
}

/* For a call that observes the event from the host. */
static CUresult check_event_locked(CUevent event)
{
    CALL_TRY(capture_check_unsafe_locked());
    if (event->capture == 0)
        return CUDA_SUCCESS;
    struct capture *capture = capture_find_locked(event->capture);
    CALL_REFUSE(capture == NULL, CAPTURED_EVENT);
    return CAPTURE_REFUSE(capture);
}

DRIVER(cuEventQuery, 2000, (CUevent, hEvent))
{
    CALL_REFUSE(!handle_is_valid(HANDLE_EVENT, hEvent), INVALID_HANDLE);
    HOLD(&queue_lock);
    CALL_TRY(check_event_locked(hEvent));
    return ticket_is_done_locked(&hEvent->ticket) ? context_error(hEvent->context) : CUDA_ERROR_NOT_READY;
}

DRIVER(cuEventSynchronize, 2000, (CUevent, hEvent))
{
    CALL_REFUSE(!handle_is_valid(HANDLE_EVENT, hEvent), INVALID_HANDLE);
    CUcontext context = hEvent->context;
    HOLD(&queue_lock);
    CALL_TRY(check_event_locked(hEvent));
    ticket_wait_locked(hEvent->ticket);
    space_settle();
    return context_error(context);
}

DRIVER(cuEventElapsedTime, 12080, (float *, pMilliseconds, CUevent, hStart, CUevent, hEnd))
{
    CALL_REFUSE(pMilliseconds == NULL, INVALID_VALUE);
    if (!handle_is_valid(HANDLE_EVENT, hStart) || !handle_is_valid(HANDLE_EVENT, hEnd) || hStart->context != hEnd->context ||
        ((hStart->flags | hEnd->flags) & CU_EVENT_DISABLE_TIMING) != 0)
        return CUDA_ERROR_INVALID_HANDLE;
    HOLD(&queue_lock);
    CALL_REFUSE(hStart->generation == 0 || hEnd->generation == 0, INVALID_HANDLE);
    CALL_REFUSE(hStart->completed_ns == 0 || hEnd->completed_ns == 0, NOT_READY);
    *pMilliseconds = (float)((double)hEnd->completed_ns - (double)hStart->completed_ns) / 1e6f;
    return CUDA_SUCCESS;
}

DRIVER_TWIN(cuStreamWaitEvent, ptsz, 3020, (CUstream, hStream, CUevent, hEvent, unsigned int, Flags))
{
    CALL_REFUSE(!handle_is_valid(HANDLE_EVENT, hEvent), INVALID_HANDLE);
    CALL_REFUSE(Flags != CU_EVENT_WAIT_DEFAULT, INVALID_VALUE);
    OPERATION(operation, operation_create(OPERATION_NOTHING));
    STREAM_READY(stream, hStream);
    if (hEvent->capture != 0)
        return capture_join_locked(stream, hEvent->capture, &hEvent->clock);
    if (stream->capture != NULL)
        return capture_fail_locked(stream->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    CALL_TRY(capture_check_implicit_locked(stream, 1));
    if (ticket_is_done_locked(&hEvent->ticket))
        return CUDA_SUCCESS;
    return stream_enqueue_locked(stream, operation, &hEvent->ticket, NULL);
}
