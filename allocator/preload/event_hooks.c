/* Events, and waits on the host: also report faults of the work waited for. */
#include "preload_internal.h"

#include "base/aside.h"
#include "base/clock.h"

#define ASKED_US 10u
#define SHORT_NS (2 * NS_PER_MS)  /* how long what our thread gave a stream takes as a rule; */
#define LONG_NS (100 * NS_PER_MS) /* and at most, where it was idle: other streams may keep the device busy */

/* Calls `call`, which waits for what `sees` finds out, or asks whether it is done. */
#define FOLLOWED(name, call, sees)                                                                                             \
    struct order_clock seen;                                                                                                   \
    if (failure() != CUDA_SUCCESS)                                                                                             \
        return failure();                                                                                                      \
    if (!order_is_wanted())                                                                                                    \
        return call;                                                                                                           \
    sees;                                                                                                                      \
    CUresult result = call;                                                                                                    \
    if (result == CUDA_SUCCESS)                                                                                                \
        order_host_knows(&seen), races_learned(HOST_CALL(name));                                                               \
    return result

#define OF_STREAM(symbol, name, stream_meant, result)                                                                          \
    CUresult hook_##symbol(CUstream stream)                                                                                    \
    {                                                                                                                          \
        FOLLOWED(#name, result, order_sees_stream(&seen, stream_meant(stream)));                                               \
    }
/* Synchronises: frees on the stream before this are done after it. */
static CUresult awaited(CUresult (*wait)(CUstream stream), CUstream handle, CUstream meant)
{
    struct stream *stream = is_active() ? stream_resolve(meant) : NULL;
    uint64_t since = stream ? heap_stream_sync_begins(stream) : 0;
    unsigned number = wait_begins("cuStreamSynchronize", __builtin_frame_address(0));
    CUresult result = wait(handle);
    wait_ends(number);
    if (stream && result == CUDA_SUCCESS)
        heap_stream_sync_ended(stream, since, pools_keep(stream->context->device));
    return settled(result, 0);
}

OF_STREAM(cuStreamSynchronize, cuStreamSynchronize, as_it_is, awaited(real.cuStreamSynchronize, stream, stream))
OF_STREAM(cuStreamSynchronize_ptsz, cuStreamSynchronize, own_default,
          awaited(real.cuStreamSynchronize_ptsz, stream, own_default(stream)))

/* A stream that the program has synchronised with is not busy because the background thread uses it. */
static CUresult asked(CUresult (*query)(CUstream stream), CUstream handle, CUstream meant)
{
    CUresult result = query(handle);
    const struct stream *stream = result == CUDA_ERROR_NOT_READY && is_active() ? stream_resolve(meant) : NULL;
    uint64_t used_ns = stream ? stream_behind_ns(stream) : 0, age;
    while (used_ns && result == CUDA_ERROR_NOT_READY && (age = monotonic_ns() - used_ns) < LONG_NS) {
        if (age >= SHORT_NS && !heap_is_alone_on(stream))
            break;
        aside_sleep(ASKED_US);
        result = query(handle);
    }
    return result;
}

OF_STREAM(cuStreamQuery, cuStreamQuery, as_it_is, asked(real.cuStreamQuery, stream, stream))
OF_STREAM(cuStreamQuery_ptsz, cuStreamQuery, own_default, asked(real.cuStreamQuery_ptsz, stream, own_default(stream)))

static CUresult event_awaited(CUevent event)
{
    unsigned number = wait_begins("cuEventSynchronize", __builtin_frame_address(0));
    CUresult result = real.cuEventSynchronize(event);
    wait_ends(number);
    return settled(result, 0);
}

CUresult hook_cuEventSynchronize(CUevent event)
{
    FOLLOWED("cuEventSynchronize", event_awaited(event), order_sees_event(&seen, event));
}

CUresult hook_cuEventQuery(CUevent event)
{
    FOLLOWED("cuEventQuery", real.cuEventQuery(event), order_sees_event(&seen, event));
}
