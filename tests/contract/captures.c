/* What goes on beside a capture, and what is left when it ends, in each way that CUDA has. */
#include "contract.h"

/* ---- beside a capture ---- */

static void play_rounds(void)
{
    CUresult result = CUDA_SUCCESS;
    int round = 0;
    for (; round < 60 && result == CUDA_SUCCESS; round++) {
        CUdeviceptr pointer;
        result = cuMemAlloc(&pointer, share(5));
        if (result == CUDA_SUCCESS)
            result = cuMemFree(pointer);
    }
    printf("%d rounds of a twentieth of the device: %s\n", round, result_name(result));
}

/* After whatever came before: cuMemFree waits, memory comes back, and another capture can be made. */
static void play_after(void)
{
    CUgraph graph = NULL;
    CUstream stream = stream_new();
    CUdeviceptr pointer = plain_memory(1000), kept = plain_memory(1000);
    BESIDE_WORK(cuMemFree(pointer));
    play_rounds();
    ASK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    ASK(cuMemsetD8Async(kept, 1, 1000, stream));
    ASK(cuStreamEndCapture(stream, &graph));
    printf("free: %u\n", free_per_cent());
}

static void relax(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    MUST(cuThreadExchangeStreamCaptureMode(&mode));
}

PROMISE(beside_capture, 1, FORBIDS)
{
    CUgraph graph = NULL;
    CUstream stream = stream_new(), other = stream_new();
    CUdeviceptr plain = plain_memory(1000);
    capture_begin(stream);
    relax();
    play_rounds();
    puts("beside work:");
    held(other);
    TIMED(cuMemFree(plain));
    ASK(cuStreamEndCapture(stream, &graph));
}

/* ---- how captures end ---- */

#define ENDS                                                                                                                   \
    "cuda.h, cuStreamEndCapture, cuStreamDestroy, cuCtxDestroy, cuDevicePrimaryCtxReset; a capture that is over forbids "      \
    "nothing"

/* Begins a capture that allocates a fortieth of the device. */
static CUdeviceptr begin_capture(CUstream stream)
{
    capture_begin(stream);
    CUdeviceptr pointer = pool_memory(share(3), stream);
    MUST(cuMemsetD8Async(pointer, 1, 100, stream));
    return pointer;
}

PROMISE(capture_ended, 1, ENDS)
{
    CUstream stream = stream_new();
    for (int i = 0; i < 40; i++) {
        begin_capture(stream);
        MUST(cuGraphDestroy(capture_end(stream)));
    }
    play_after();
}

PROMISE(capture_freed, 1, ENDS)
{
    CUstream stream = stream_new();
    for (int i = 0; i < 40; i++) {
        MUST(cuMemFreeAsync(begin_capture(stream), stream));
        MUST(cuGraphDestroy(capture_end(stream)));
    }
    play_after();
}

PROMISE(capture_invalidated, 1, ENDS)
{
    CUgraph graph = NULL;
    CUstream stream = stream_new();
    CUresult during = CUDA_SUCCESS, end = CUDA_SUCCESS;
    for (int i = 0; i < 40; i++) {
        begin_capture(stream);
        during = cuStreamSynchronize(stream);
        end = cuStreamEndCapture(stream, &graph);
    }
    printf("synchronised: %s; ", result_name(during));
    printf("ended: %s\n", result_name(end));
    play_after();
}

PROMISE(capture_unjoined, 1, ENDS)
{
    CUgraph graph = NULL;
    CUstream stream = stream_new(), other = stream_new();
    CUevent event = event_new();
    CUdeviceptr pointer = begin_capture(stream);
    MUST(cuEventRecord(event, stream));
    MUST(cuStreamWaitEvent(other, event, 0));
    MUST(cuMemsetD8Async(pointer, 2, 100, other));
    ASK(cuStreamEndCapture(stream, &graph));
    play_after();
}

PROMISE(captures_of_destroyed_streams, 1, ENDS)
{
    for (int i = 0; i < 40; i++) {
        CUstream stream = stream_new();
        begin_capture(stream);
        if (cuStreamDestroy(stream) != CUDA_SUCCESS) {
            CUgraph graph = NULL;
            cuStreamEndCapture(stream, &graph);
        }
    }
    play_after();
}

PROMISE(capture_in_destroyed_context, 1, ENDS)
{
    CUcontext first = primary(0);
    for (int i = 0; i < 10; i++) {
        CUcontext own = context_new();
        begin_capture(stream_new());
        CUresult result = cuCtxDestroy(own);
        if (i == 0)
            printf("destroyed: %s\n", result_name(result));
        MUST(cuCtxSetCurrent(first));
    }
    play_after();
}

PROMISE(capture_in_reset_context, 1, ENDS)
{
    begin_capture(stream_new());
    ASK(cuDevicePrimaryCtxReset(0));
    primary(0);
    play_after();
}

PROMISE(capture_in_green_context, 1, ENDS)
{
    CUstream stream;
    CUgreenCtx green = green_new(&stream);
    begin_capture(stream);
    ASK(cuGreenCtxDestroy(green));
    play_after();
}

PROMISE(capture_not_ended, 1, ENDS)
{
    CUstream stream = stream_new();
    begin_capture(stream);
    relax();
    CUdeviceptr pointer = plain_memory(1000);
    BESIDE_WORK(cuMemFree(pointer));
    play_rounds();
}

PROMISE(capture_never_launched, 1, "CUDA Programming Guide, Graph Memory Nodes: memory is allocated when the graph is launched")
{
    CUstream stream = stream_new();
    for (int i = 0; i < 40; i++) {
        begin_capture(stream);
        CUgraph graph = capture_end(stream);
        CUgraphExec executable = instantiated(graph, 0);
        MUST(cuGraphExecDestroy(executable));
        MUST(cuGraphDestroy(graph));
    }
    play_after();
}

PROMISE(captures_kept, 1, "CUDA Programming Guide, Graph Memory Nodes: memory is allocated when the graph is launched")
{
    CUgraphExec executable;
    CUstream stream = stream_new();
    CUresult result = CUDA_SUCCESS;
    int count = 0;
    for (; count < 40 && result == CUDA_SUCCESS; count++) {
        CUdeviceptr pointer;
        capture_begin(stream);
        result = cuMemAllocAsync(&pointer, share(2), stream);
        if (result == CUDA_SUCCESS)
            result = cuMemFreeAsync(pointer, stream);
        CUgraph graph = capture_end(stream);
        if (result == CUDA_SUCCESS)
            MUST(cuGraphInstantiate(&executable, graph, 0));
        if (result == CUDA_SUCCESS)
            result = cuGraphLaunch(executable, stream);
    }
    printf("%d graphs that each use a fiftieth of the device, one after the other: %s\n", count, result_name(result));
}

PROMISE(captures_1000, 1, "CUDA Programming Guide, Graph Memory Nodes: a graph's memory is reused and returned")
{
    CUdeviceptr pointer;
    CUstream stream = stream_new();
    CUresult result = CUDA_SUCCESS;
    int count = 0;
    for (; count < 1000 && result == CUDA_SUCCESS; count++) {
        MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        result = cuMemAllocAsync(&pointer, share(1), stream);
        if (result == CUDA_SUCCESS)
            result = cuMemsetD8Async(pointer, 1, 100, stream);
        if (result == CUDA_SUCCESS && count % 2)
            result = cuMemFreeAsync(pointer, stream);
        CUgraph graph = capture_end(stream);
        CUgraphExec executable = instantiated(graph, 0);
        if (count % 3 == 0) {
            MUST(cuGraphLaunch(executable, stream));
            if (count % 2 == 0)
                MUST(cuMemFreeAsync(pointer, stream));
        }
        MUST(cuGraphExecDestroy(executable));
        MUST(cuGraphDestroy(graph));
    }
    MUST(cuStreamSynchronize(stream));
    printf("%d captures: %s\n", count, result_name(result));
    MUST(cuDeviceGraphMemTrim(0));
    printf("free: %u\n", free_per_cent());
    play_after();
}

PROMISE(capture_after_many, 1, FORBIDS)
{
    CUstream streams[8];
    CUgraph graph;
    for (int i = 0; i < 8; i++) {
        streams[i] = stream_new();
        capture_begin(streams[i]);
        CUdeviceptr pointer = pool_memory(1000, streams[i]);
        MUST(cuMemFreeAsync(pointer, streams[i]));
    }
    for (int i = 0; i < 8; i++)
        MUST(cuStreamEndCapture(streams[i], &graph));
    play_after();
}
