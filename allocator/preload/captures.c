/* Which captures are under way: while one is, nothing of ours may synchronise a context. And that their memory is followed. */
#include "internal.h"

/* To be called first: where the capture's memory will be has to be known by then. */
static void about_to_begin(void)
{
    if (is_active())
        heap_enter_context();
}

static CUresult begun(CUresult result, CUstream stream)
{
    if (result == CUDA_SUCCESS && is_active()) {
        heap_count_captures(1);
        heap_follow_capture(stream);
    }
    return result;
}

/* A capture that went wrong has ended too; a stream that was in none gives ILLEGAL_STATE. */
static CUresult ended(CUresult result)
{
    if (result != CUDA_ERROR_ILLEGAL_STATE && result != CUDA_ERROR_INVALID_VALUE && is_active())
        heap_count_captures(-1);
    return result;
}

CUresult hook_cuStreamBeginCapture(CUstream stream)
{
    about_to_begin();
    return begun(real.cuStreamBeginCapture(stream), stream);
}

CUresult hook_cuStreamBeginCapture_ptsz(CUstream stream)
{
    about_to_begin();
    return begun(real.cuStreamBeginCapture_ptsz(stream), own_default(stream));
}

CUresult hook_cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    about_to_begin();
    return begun(real.cuStreamBeginCapture_v2(stream, mode), stream);
}

CUresult hook_cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode)
{
    about_to_begin();
    return begun(real.cuStreamBeginCapture_v2_ptsz(stream, mode), own_default(stream));
}

CUresult hook_cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    return ended(real.cuStreamEndCapture(stream, graph));
}

CUresult hook_cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
    return ended(real.cuStreamEndCapture_ptsz(stream, graph));
}

static void note_flags(CUgraph graph, unsigned long long flags)
{
    if (is_active() && (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH))
        heap_auto_free(graph);
}

CUresult hook_cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long flags)
{
    note_flags(graph, flags);
    return real.cuGraphInstantiateWithFlags(executable, graph, flags);
}

CUresult hook_cuGraphInstantiateWithParams(CUgraphExec *executable, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters)
{
    note_flags(graph, parameters ? parameters->flags : 0);
    return real.cuGraphInstantiateWithParams(executable, graph, parameters);
}

CUresult hook_cuGraphInstantiateWithParams_ptsz(CUgraphExec *executable, CUgraph graph,
                                                CUDA_GRAPH_INSTANTIATE_PARAMS *parameters)
{
    note_flags(graph, parameters ? parameters->flags : 0);
    return real.cuGraphInstantiateWithParams_ptsz(executable, graph, parameters);
}

/* Whether the body of a conditional node keeps the user objects of what is in it is not documented. */
CUresult hook_cuGraphConditionalHandleCreate(CUgraphConditionalHandle *handle, CUgraph graph, CUcontext context,
                                             unsigned initial, unsigned flags)
{
    if (is_active())
        heap_keep_captures();
    return real.cuGraphConditionalHandleCreate(handle, graph, context, initial, flags);
}
