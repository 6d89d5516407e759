/* Stories about captures beside which something else happens: an order made by hand, other threads, ends that are none. */
#include "program.h"

#include <pthread.h>
#include <unistd.h>

#define BYTES 4096

static CUcontext context;

static size_t last_nodes(CUstream stream, CUgraphNode *out, size_t most)
{
    CUstreamCaptureStatus status;
    const CUgraphNode *nodes = NULL;
    size_t count = 0;
    MUST(cu.cuStreamGetCaptureInfo(stream, &status, NULL, NULL, &nodes, NULL, &count));
    for (size_t i = 0; i < count && i < most; i++)
        out[i] = nodes[i];
    return count;
}

/* Ends while a stream captures, so nothing of ours can run any more. */
STORY(capture_at_end)
{
    CUdeviceptr buffer;
    start();
    MUST(cu.cuMemAlloc(&buffer, BYTES));
    MUST(cu.cuStreamBeginCapture(new_stream(), CU_STREAM_CAPTURE_MODE_RELAXED));
    return 0;
}

/* reordered set|add|none: the work on the first buffer is put aside, so that what comes next may run beside it; or something
 * more is waited for, and the order stays. */
STORY(reordered)
{
    const char *how = count > 2 ? arguments[2] : "none";
    CUdeviceptr kept, buffer, next;
    CUgraphNode before[4];
    CUgraph graph;
    start();
    CUstream stream = new_stream();
    MUST(cu.cuMemAlloc(&kept, BYTES));
    MUST(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    MUST(cu.cuMemsetD8Async(kept, 0, BYTES, stream));
    size_t nodes = last_nodes(stream, before, 4);
    MUST(cu.cuMemAllocAsync(&buffer, BYTES, stream));
    MUST(cu.cuMemsetD8Async(buffer, 1, BYTES, stream));
    MUST(cu.cuMemFreeAsync(buffer, stream));
    if (strcmp(how, "set") == 0)
        MUST(cu.cuStreamUpdateCaptureDependencies(stream, before, NULL, nodes, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    else if (strcmp(how, "add") == 0)
        MUST(cu.cuStreamUpdateCaptureDependencies(stream, before, NULL, nodes, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
    MUST(cu.cuMemAllocAsync(&next, BYTES, stream));
    printf("%s: %s\n", how, next == buffer ? "the same memory" : "other memory");
    MUST(cu.cuMemFreeAsync(next, stream));
    MUST(cu.cuMemAllocAsync(&buffer, BYTES, stream));
    printf("once more: %s\n", next == buffer ? "the same memory" : "other memory");
    MUST(cu.cuMemsetD8Async(buffer, 2, BYTES, stream));
    MUST(cu.cuMemFreeAsync(buffer, stream));
    say("end", cu.cuStreamEndCapture(stream, &graph));
    return 0;
}

/* ---- a capture that begins while another thread prepares one, and has come to this one's stream ---- */

static CUresult others_end;

static void *begin_another(void *unused)
{
    CUdeviceptr kept;
    CUgraph graph;
    MUST(cu.cuCtxSetCurrent(context));
    CUstream stream = new_stream();
    MUST(cu.cuMemAllocAsync(&kept, BYTES, stream));
    MUST(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    MUST(cu.cuMemsetD8Async(kept, 1, BYTES, stream));
    others_end = cu.cuStreamEndCapture(stream, &graph);
    return NULL;
}

/* prepared capture|destroy: the stream has frees behind which nothing has been recorded. Where the other thread sees to that,
 * it is held up, and the stream's own thread goes on meanwhile. */
STORY(prepared)
{
    int captures = count > 2 && strcmp(arguments[2], "capture") == 0;
    enum { FREES = 16 };
    CUdeviceptr kept, buffers[FREES];
    CUgraph graph;
    pthread_t thread;
    uint64_t (*stale_handles)(void);
    start();
    *(void **)&stale_handles = driver_of_sim("cusim_stale_handles");
    MUST(cu.cuDevicePrimaryCtxRetain(&context, 0));
    CUstream stream = new_stream();
    MUST(cu.cuMemAllocAsync(&kept, BYTES, stream));
    for (int i = 0; i < FREES; i++)
        MUST(cu.cuMemAllocAsync(&buffers[i], BYTES, stream));
    for (int i = 0; i < FREES; i++)
        MUST(cu.cuMemFreeAsync(buffers[i], stream));
    begin_and_hold_up(&thread, begin_another, "cuEventRecord", 300000);
    set_latency("cuEventRecord", 0); /* the other's call has begun */
    if (captures) {
        MUST(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        say("in the capture", cu.cuMemsetD8Async(kept, 1, BYTES, stream));
        pthread_join(thread, NULL);
        /* Whether the frees have passed is asked for another stream's sake: of an event in the capture that would break it. */
        MUST(cu.cuMemAllocAsync(&buffers[0], BYTES, new_stream()));
        say("end", cu.cuStreamEndCapture(stream, &graph));
    } else {
        MUST(cu.cuStreamDestroy(stream));
        pthread_join(thread, NULL);
    }
    say("the other's end", others_end);
    printf("calls with a handle that is gone: %llu\n", (unsigned long long)stale_handles());
    return 0;
}

/* ---- ends that do not end it, and a begin of another kind: cuMemFree would break a capture by synchronising ---- */

static CUstream captured, untouched;

static void *end_elsewhere(void *argument)
{
    CUgraph graph;
    MUST(cu.cuCtxSetCurrent(context));
    say("end by another thread", cu.cuStreamEndCapture(captured, &graph));
    say("end of a stream that is not captured", cu.cuStreamEndCapture(untouched, &graph));
    return NULL;
}

STORY(uneven_end)
{
    pthread_t thread;
    CUdeviceptr kept, other;
    CUgraph graph;
    start();
    MUST(cu.cuDevicePrimaryCtxRetain(&context, 0));
    captured = new_stream();
    untouched = new_stream();
    MUST(cu.cuMemAlloc(&kept, BYTES));
    MUST(cu.cuMemAlloc(&other, BYTES));
    MUST(cu.cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    MUST(cu.cuMemsetD8Async(kept, 1, BYTES, captured));
    pthread_create(&thread, NULL, end_elsewhere, NULL);
    pthread_join(thread, NULL);
    /* That has ended it. A second capture, into which a third stream is drawn that cannot end it. */
    CUstream drawn = new_stream();
    CUevent event;
    MUST(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    MUST(cu.cuStreamBeginCapture(untouched, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(cu.cuEventRecord(event, untouched));
    MUST(cu.cuStreamWaitEvent(drawn, event, 0));
    say("end by a stream that was drawn in", cu.cuStreamEndCapture(drawn, &graph));
    say("the second's end", cu.cuStreamEndCapture(untouched, &graph));
    say("free", cu.cuMemFree(other));
    say("end", cu.cuStreamEndCapture(captured, &graph));

    /* One that ends with an error is over, and a free waits again. */
    MUST(cu.cuMemAlloc(&other, BYTES));
    MUST(cu.cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    say("synchronise", cu.cuStreamSynchronize(captured));
    say("end", cu.cuStreamEndCapture(captured, &graph));
    uint64_t before = calls_of("cuCtxSynchronize") + calls_of("cuMemAlloc");
    MUST(cu.cuMemFree(other));
    printf("waits of a free: %llu\n", (unsigned long long)(calls_of("cuCtxSynchronize") + calls_of("cuMemAlloc") - before));
    return 0;
}

STORY(into_graph)
{
    CUdeviceptr kept, other;
    CUgraph graph, same;
    start();
    CUstream stream = new_stream();
    MUST(cu.cuMemAlloc(&kept, BYTES));
    MUST(cu.cuMemAlloc(&other, BYTES));
    MUST(cu.cuGraphCreate(&graph, 0));
    MUST(cu.cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(cu.cuMemsetD8Async(kept, 1, BYTES, stream));
    say("free", cu.cuMemFree(other));
    say("end", cu.cuStreamEndCapture(stream, &same));
    printf("%s\n", same == graph ? "the same graph" : "another graph");
    return 0;
}

/* ---- the last release of a primary context, behind a kernel that faults ---- */

STORY(release)
{
    CUdeviceptr kept;
    start();
    CUstream stream = new_stream();
    MUST(cu.cuMemAlloc(&kept, BYTES));
    MUST(store(kept + BYTES, 1, stream));
    say("release", cu.cuDevicePrimaryCtxRelease(0));
    return 0;
}
