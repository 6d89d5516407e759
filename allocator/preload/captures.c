/* Which captures are under way: while one is, nothing of ours may synchronise a context. */
#include "internal.h"

static CUresult begun(CUresult result)
{
    if (result == CUDA_SUCCESS && is_active())
        heap_count_captures(1);
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
    return begun(real.cuStreamBeginCapture(stream));
}

CUresult hook_cuStreamBeginCapture_ptsz(CUstream stream)
{
    return begun(real.cuStreamBeginCapture_ptsz(stream));
}

CUresult hook_cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    return begun(real.cuStreamBeginCapture_v2(stream, mode));
}

CUresult hook_cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode)
{
    return begun(real.cuStreamBeginCapture_v2_ptsz(stream, mode));
}

CUresult hook_cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    return ended(real.cuStreamEndCapture(stream, graph));
}

CUresult hook_cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
    return ended(real.cuStreamEndCapture_ptsz(stream, graph));
}
