/* Stories about captures beside which something else happens: an order made by hand, other threads, ends that are none. */
#include "program.h"

#include <pthread.h>

#define BYTES 4096

static CUcontext context;

static CUstream new_stream(void)
{
    CUstream stream;
    MUST(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

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

/* reordered set|add|none: the work on the first buffer is put aside, so that what comes next may run beside it; or something
 * more is waited for, and the order stays. */
int story_reordered(int count, char **arguments)
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

/* ---- captures that begin while other threads' streams have frees that nothing tells the end of ---- */

enum { CAPTURING = 3, CAPTURES = 60 };

static int broken;    /* atomic */
static int are_ended; /* atomic: threads that capture */

static void *capture_again_and_again(void *argument)
{
    (void)argument;
    CUdeviceptr kept, buffer;
    CUgraph graph;
    MUST(cu.cuCtxSetCurrent(context));
    CUstream stream = new_stream();
    MUST(cu.cuMemAllocAsync(&kept, BYTES, stream));
    for (int i = 0; i < CAPTURES; i++) {
        for (int k = 0; k < 2; k++) { /* of two frees one is marked, at most */
            MUST(cu.cuMemAllocAsync(&buffer, BYTES, stream));
            MUST(cu.cuMemFreeAsync(buffer, stream));
        }
        MUST(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        CUresult inside = cu.cuMemsetD8Async(kept, 1, BYTES, stream);
        for (int k = 0; k < 20; k++)
            cu.cuStreamQuery(CU_STREAM_PER_THREAD);
        CUresult end = cu.cuStreamEndCapture(stream, &graph);
        if (inside != CUDA_SUCCESS || end != CUDA_SUCCESS)
            __atomic_add_fetch(&broken, 1, __ATOMIC_RELAXED);
        else
            MUST(cu.cuGraphDestroy(graph));
        MUST(cu.cuStreamSynchronize(stream));
    }
    MUST(cu.cuStreamDestroy(stream));
    __atomic_add_fetch(&are_ended, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void *destroy_streams(void *argument)
{
    (void)argument;
    CUdeviceptr buffer;
    MUST(cu.cuCtxSetCurrent(context));
    while (__atomic_load_n(&are_ended, __ATOMIC_ACQUIRE) < CAPTURING) {
        CUstream stream = new_stream();
        for (int k = 0; k < 2; k++) {
            MUST(cu.cuMemAllocAsync(&buffer, BYTES, stream));
            MUST(cu.cuMemFreeAsync(buffer, stream));
        }
        MUST(cu.cuStreamDestroy(stream));
    }
    return NULL;
}

/* Recording an event takes a while here, so that others get on meanwhile. */
int story_prepared(int count, char **arguments)
{
    (void)count;
    (void)arguments;
    pthread_t threads[CAPTURING + 1];
    void (*set_latency)(const char *, unsigned);
    uint64_t (*stale_handles)(void);
    start();
    *(void **)&set_latency = driver_of_sim("cusim_set_latency");
    *(void **)&stale_handles = driver_of_sim("cusim_stale_handles");
    set_latency("cuEventRecord", 1000);
    set_latency("cuStreamQuery", 100);
    MUST(cu.cuDevicePrimaryCtxRetain(&context, 0));
    for (int i = 0; i <= CAPTURING; i++)
        pthread_create(&threads[i], NULL, i < CAPTURING ? capture_again_and_again : destroy_streams, NULL);
    for (int i = 0; i <= CAPTURING; i++)
        pthread_join(threads[i], NULL);
    printf("broken %d, calls with a handle that is gone %llu\n", broken, (unsigned long long)stale_handles());
    return 0;
}

/* ---- ends that do not end it, and a begin of another kind: cuMemFree would break a capture by synchronising ---- */

static CUstream captured, untouched;

static void *end_elsewhere(void *argument)
{
    (void)argument;
    CUgraph graph;
    MUST(cu.cuCtxSetCurrent(context));
    say("end by another thread", cu.cuStreamEndCapture(captured, &graph));
    say("end of a stream that is not captured", cu.cuStreamEndCapture(untouched, &graph));
    return NULL;
}

int story_uneven_end(int count, char **arguments)
{
    (void)count;
    (void)arguments;
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
    say("free", cu.cuMemFree(other));
    say("end", cu.cuStreamEndCapture(captured, &graph));

    /* One that ends with an error is over, and a free waits again. */
    MUST(cu.cuMemAlloc(&other, BYTES));
    MUST(cu.cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    say("synchronise", cu.cuStreamSynchronize(captured));
    say("end", cu.cuStreamEndCapture(captured, &graph));
    uint64_t (*calls)(const char *);
    *(void **)&calls = driver_of_sim("cusim_call_count");
    uint64_t before = calls("cuCtxSynchronize");
    MUST(cu.cuMemFree(other));
    printf("synchronisations of a free: %llu\n", (unsigned long long)(calls("cuCtxSynchronize") - before));
    return 0;
}

int story_into_graph(int count, char **arguments)
{
    (void)count;
    (void)arguments;
    CUdeviceptr kept, other;
    CUgraph graph, same;
    start();
    CUstream stream = new_stream();
    MUST(cu.cuMemAlloc(&kept, BYTES));
    MUST(cu.cuMemAlloc(&other, BYTES));
    MUST(cu.cuGraphCreate(&graph, 0));
    MUST(cu.cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL));
    MUST(cu.cuMemsetD8Async(kept, 1, BYTES, stream));
    say("free", cu.cuMemFree(other));
    say("end", cu.cuStreamEndCapture(stream, &same));
    printf("%s\n", same == graph ? "the same graph" : "another graph");
    return 0;
}

/* ---- releases of a primary context that others hold ---- */

/* release capture|kernel */
int story_release(int count, char **arguments)
{
    static uint32_t flag;
    int captures = count > 2 && strcmp(arguments[2], "capture") == 0;
    CUdeviceptr kept;
    CUgraph graph;
    start();
    CUstream stream = new_stream();
    MUST(cu.cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cu.cuMemAlloc(&kept, BYTES));
    if (captures) {
        MUST(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        MUST(cu.cuMemsetD8Async(kept, 1, BYTES, stream));
    } else {
        spin(&flag, stream);
    }
    say("release", cu.cuDevicePrimaryCtxRelease(0));
    if (captures)
        say("end", cu.cuStreamEndCapture(stream, &graph));
    else
        say("the kernel", cu.cuStreamQuery(stream));
    let_go(&flag);
    MUST(cu.cuStreamSynchronize(stream));
    return 0;
}
