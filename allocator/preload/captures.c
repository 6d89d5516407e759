/* Which captures are under way: while one is, nothing of ours may synchronise a context. And that their memory is followed. */
#include "internal.h"

/* To be called first: where the capture's memory will be has to be known by then. */
static void about_to_begin(void)
{
    if (is_active()) {
        heap_enter_context();
        heap_prepare_capture();
    }
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

static CUresult instantiated(CUresult result, CUgraphExec *executable, CUgraph graph, unsigned long long flags)
{
    if (result == CUDA_SUCCESS && is_active())
        heap_graph_instantiated(*executable, graph, (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0);
    return result;
}

CUresult hook_cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long flags)
{
    return instantiated(real.cuGraphInstantiateWithFlags(executable, graph, flags), executable, graph, flags);
}

CUresult hook_cuGraphInstantiateWithParams(CUgraphExec *executable, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters)
{
    CUresult result = real.cuGraphInstantiateWithParams(executable, graph, parameters);
    return instantiated(result, executable, graph, parameters ? parameters->flags : 0);
}

CUresult hook_cuGraphInstantiateWithParams_ptsz(CUgraphExec *executable, CUgraph graph,
                                                CUDA_GRAPH_INSTANTIATE_PARAMS *parameters)
{
    CUresult result = real.cuGraphInstantiateWithParams_ptsz(executable, graph, parameters);
    return instantiated(result, executable, graph, parameters ? parameters->flags : 0);
}

CUresult hook_cuGraphExecDestroy(CUgraphExec executable)
{
    if (is_active())
        heap_executable_gone(executable);
    return real.cuGraphExecDestroy(executable);
}

/* Whether the body of a conditional node keeps the user objects of what is in it is not documented. */
CUresult hook_cuGraphConditionalHandleCreate(CUgraphConditionalHandle *handle, CUgraph graph, CUcontext context,
                                             unsigned initial, unsigned flags)
{
    if (is_active())
        heap_keep_captures();
    return real.cuGraphConditionalHandleCreate(handle, graph, context, initial, flags);
}
