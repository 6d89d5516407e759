/* Events, and waits on the host: also report faults of the work waited for. */
#include "internal.h"

#include <unistd.h>

#define ASKED_US 10u     /* with the timer's slack each 60 us, */
#define ASKED_MOST 1600u /* so for 0.1 s in all: other streams may keep the device busy */

/* Events are destroyed before the driver may give their handles to others. */
CUresult hook_cuEventDestroy(CUevent event)
{
    if (order_is_wanted())
        order_event_gone(event);
    return real.cuEventDestroy(event);
}

CUresult hook_cuEventDestroy_v2(CUevent event)
{
    if (order_is_wanted())
        order_event_gone(event);
    return real.cuEventDestroy_v2(event);
}

/* Calls `call`, which waits for what `sees` finds out, or asks whether it is done. */
#define FOLLOWED(call, sees)                                                                                                   \
    struct order_clock seen;                                                                                                   \
    if (failure() != CUDA_SUCCESS)                                                                                             \
        return failure();                                                                                                      \
    if (!order_is_wanted())                                                                                                    \
        return call;                                                                                                           \
    sees;                                                                                                                      \
    CUresult result = call;                                                                                                    \
    if (result == CUDA_SUCCESS)                                                                                                \
        order_host_knows(&seen);                                                                                               \
    return result

#define OF_STREAM(symbol, stream_meant, result)                                                                                \
    CUresult hook_##symbol(CUstream stream)                                                                                    \
    {                                                                                                                          \
        FOLLOWED(result, order_sees_stream(&seen, stream_meant(stream)));                                                      \
    }
OF_STREAM(cuStreamSynchronize, as_it_is, settled(real.cuStreamSynchronize(stream), 0))
OF_STREAM(cuStreamSynchronize_ptsz, own_default, settled(real.cuStreamSynchronize_ptsz(stream), 0))

/* A stream that the program has synchronised with is not busy because the background thread uses it. */
static CUresult asked(CUresult (*query)(CUstream stream), CUstream handle, CUstream meant)
{
    CUresult result = query(handle);
    for (unsigned again = 0; result == CUDA_ERROR_NOT_READY && again < ASKED_MOST && is_active(); again++) {
        const struct stream *stream = stream_resolve(meant);
        if (!stream_is_used_behind(stream) && !heap_is_alone_on(stream))
            break;
        usleep(ASKED_US);
        result = query(handle);
    }
    return result;
}

OF_STREAM(cuStreamQuery, as_it_is, asked(real.cuStreamQuery, stream, stream))
OF_STREAM(cuStreamQuery_ptsz, own_default, asked(real.cuStreamQuery_ptsz, stream, own_default(stream)))

CUresult hook_cuEventSynchronize(CUevent event)
{
    FOLLOWED(settled(real.cuEventSynchronize(event), 0), order_sees_event(&seen, event));
}

CUresult hook_cuEventQuery(CUevent event)
{
    FOLLOWED(real.cuEventQuery(event), order_sees_event(&seen, event));
}
