#include "event.h"
#include "call.h"
#include "handle.h"

#include <stdlib.h>
#include <time.h>

static void forget_locked(struct CUevent_st *event)
{
    ticket_drop_locked(&event->ticket);
    if (event->capture != NULL)
        capture_release_locked(event->capture);
    event->capture = NULL;
}

void event_release(struct CUevent_st *event)
{
    if (atomic_fetch_sub(&event->references, 1) != 1)
        return;
    queue_lock();
    forget_locked(event);
    queue_unlock();
    handle_free(event);
}

void event_complete(struct CUevent_st *event, uint64_t generation)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    queue_lock();
    if (event->generation == generation)
        event->completed_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    queue_unlock();
}

SIM_API CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
    CALL_ENTER("cuEventCreate");
    CUcontext context;
    CALL_TRY(context_current(&context));
    const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING;
    if (phEvent == NULL || (Flags & ~known) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUevent event = calloc(1, sizeof *event);
    if (event == NULL || handle_add(HANDLE_EVENT, event, context->home) != 0) {
        free(event);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    atomic_init(&event->references, 1);
    event->context = context->home;
    event->flags = Flags;
    *phEvent = event;
    return CUDA_SUCCESS;
}

void event_destroy_all(CUcontext context)
{
    for (CUevent event; (event = handle_remove_owned(HANDLE_EVENT, context)) != NULL;)
        event_release(event);
}

SIM_API CUresult cuEventDestroy(CUevent hEvent)
{
    CALL_ENTER("cuEventDestroy");
    if (!handle_remove(HANDLE_EVENT, hEvent))
        return CUDA_ERROR_INVALID_HANDLE;
    event_release(hEvent);
    return CUDA_SUCCESS;
}

static void keep_locked(CUevent event, struct ticket ticket)
{
    forget_locked(event);
    event->generation++;
    event->completed_ns = 0;
    event->ticket = ticket;
    stream_retain_locked(ticket.stream);
}

static CUresult record_locked(CUcontext context, CUevent event, CUstream handle, struct operation *operation)
{
    CUstream stream;
    CALL_TRY(stream_find_locked(context, handle, &stream));
    if (stream->context->home != event->context)
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture != NULL) {
        struct capture *capture;
        struct capture_clock clock;
        CALL_TRY(capture_position_locked(stream, &capture, &clock));
        capture_retain_locked(capture);
        forget_locked(event);
        event->capture = capture;
        event->clock = clock;
        return CUDA_SUCCESS;
    }
    CALL_TRY(capture_check_implicit_locked(stream));
    struct ticket ticket;
    operation->event.generation = event->generation + 1;
    CALL_TRY(stream_enqueue_locked(stream, operation, NULL, &ticket));
    keep_locked(event, ticket);
    return CUDA_SUCCESS;
}

static struct operation *create_operation(CUevent event)
{
    struct operation *operation = operation_create(OPERATION_EVENT);
    if (operation == NULL)
        return NULL;
    atomic_fetch_add(&event->references, 1);
    operation->event.event = event;
    return operation;
}

static CUresult record(CUevent event, CUstream stream)
{
    CUcontext context;
    CALL_TRY(context_current(&context));
    if (!handle_is_valid(HANDLE_EVENT, event))
        return CUDA_ERROR_INVALID_HANDLE;
    struct operation *operation = create_operation(event);
    if (operation == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    queue_lock();
    CUresult result = record_locked(context, event, stream, operation);
    queue_unlock();
    operation_release(operation);
    return result;
}

SIM_API CUresult cuEventRecord(CUevent hEvent, CUstream hStream)
{
    CALL_ENTER("cuEventRecord");
    return record(hEvent, hStream);
}

SIM_API CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
    CALL_ENTER("cuEventRecordWithFlags");
    if (flags != CU_EVENT_RECORD_DEFAULT)
        return CUDA_ERROR_NOT_SUPPORTED;
    return record(hEvent, hStream);
}

/* For a call that observes the event from the host. */
static CUresult check_observable_locked(CUevent event)
{
    CALL_TRY(capture_check_unsafe_locked());
    if (event->capture == NULL)
        return CUDA_SUCCESS;
    if (event->capture->is_ended)
        return CUDA_ERROR_CAPTURED_EVENT;
    event->capture->is_invalid = 1;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

SIM_API CUresult cuEventQuery(CUevent hEvent)
{
    CALL_ENTER("cuEventQuery");
    if (!handle_is_valid(HANDLE_EVENT, hEvent))
        return CUDA_ERROR_INVALID_HANDLE;
    queue_lock();
    CUresult result = check_observable_locked(hEvent);
    if (result == CUDA_SUCCESS && !ticket_is_done_locked(&hEvent->ticket))
        result = CUDA_ERROR_NOT_READY;
    queue_unlock();
    return result == CUDA_SUCCESS ? context_error(hEvent->context) : result;
}

SIM_API CUresult cuEventSynchronize(CUevent hEvent)
{
    CALL_ENTER("cuEventSynchronize");
    if (!handle_is_valid(HANDLE_EVENT, hEvent))
        return CUDA_ERROR_INVALID_HANDLE;
    CUcontext context = hEvent->context;
    queue_lock();
    CUresult result = check_observable_locked(hEvent);
    if (result == CUDA_SUCCESS)
        ticket_wait_locked(&hEvent->ticket);
    queue_unlock();
    return result == CUDA_SUCCESS ? context_error(context) : result;
}

SIM_API CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    CALL_ENTER("cuEventElapsedTime");
    if (pMilliseconds == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!handle_is_valid(HANDLE_EVENT, hStart) || !handle_is_valid(HANDLE_EVENT, hEnd) || hStart->context != hEnd->context ||
        ((hStart->flags | hEnd->flags) & CU_EVENT_DISABLE_TIMING) != 0)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = CUDA_SUCCESS;
    queue_lock();
    if (hStart->generation == 0 || hEnd->generation == 0)
        result = CUDA_ERROR_INVALID_HANDLE;
    else if (hStart->completed_ns == 0 || hEnd->completed_ns == 0)
        result = CUDA_ERROR_NOT_READY;
    else
        *pMilliseconds = (float)((double)hEnd->completed_ns - (double)hStart->completed_ns) / 1e6f;
    queue_unlock();
    return result;
}

static CUresult wait_locked(CUcontext context, CUstream handle, CUevent event, struct operation *operation)
{
    CUstream stream;
    CALL_TRY(stream_find_locked(context, handle, &stream));
    if (event->capture != NULL)
        return capture_join_locked(stream, event->capture, &event->clock);
    if (stream->capture != NULL) {
        stream->capture->is_invalid = 1;
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    CALL_TRY(capture_check_implicit_locked(stream));
    return ticket_is_done_locked(&event->ticket) ? CUDA_SUCCESS
                                                 : stream_enqueue_locked(stream, operation, &event->ticket, NULL);
}

SIM_API CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
    CALL_ENTER("cuStreamWaitEvent");
    CUcontext context;
    CALL_TRY(context_current(&context));
    if (!handle_is_valid(HANDLE_EVENT, hEvent))
        return CUDA_ERROR_INVALID_HANDLE;
    if (Flags != CU_EVENT_WAIT_DEFAULT)
        return CUDA_ERROR_INVALID_VALUE;
    struct operation *operation = operation_create(OPERATION_NOTHING);
    if (operation == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    queue_lock();
    CUresult result = wait_locked(context, hStream, hEvent, operation);
    queue_unlock();
    operation_release(operation);
    return result;
}

/* Events and waits of a whole context cannot be captured. */
static CUresult refuse_captures_locked(CUcontext context)
{
    CUresult result = CUDA_SUCCESS;
    for (struct CUstream_st *stream = context->home->streams; stream != NULL; stream = stream->next) {
        if (stream->capture != NULL && (stream->context == context || context == context->home))
            result = capture_refuse_locked(stream);
    }
    return result;
}

static CUresult record_context_locked(CUevent event, CUcontext context, struct operation *operation)
{
    struct ticket ticket;
    CALL_TRY(refuse_captures_locked(context));
    operation->event.generation = event->generation + 1;
    CALL_TRY(stream_mark_context_locked(context, operation, &ticket));
    keep_locked(event, ticket);
    return CUDA_SUCCESS;
}

CUresult event_record_context(CUevent event, CUcontext context)
{
    if (!handle_is_valid(HANDLE_EVENT, event) || event->context != context->home)
        return CUDA_ERROR_INVALID_HANDLE;
    struct operation *operation = create_operation(event);
    if (operation == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    queue_lock();
    CUresult result = record_context_locked(event, context, operation);
    queue_unlock();
    operation_release(operation);
    return result;
}

static CUresult hold_context_locked(CUevent event, CUcontext context, struct operation *operation)
{
    CALL_TRY(refuse_captures_locked(context));
    if (event->capture != NULL) {
        event->capture->is_invalid = 1;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return stream_hold_context_locked(context, operation, &event->ticket);
}

CUresult event_hold_context(CUevent event, CUcontext context)
{
    if (!handle_is_valid(HANDLE_EVENT, event))
        return CUDA_ERROR_INVALID_HANDLE;
    struct operation *operation = operation_create(OPERATION_NOTHING);
    if (operation == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    queue_lock();
    CUresult result = hold_context_locked(event, context, operation);
    queue_unlock();
    operation_release(operation);
    return result;
}
