/* What a capture forbids, to whom, and what is left when it ends, in each way that CUDA has. */
#include "contract.h"

#include <pthread.h>

#define FORBIDS                                                                                                                \
    "cuda.h, cuThreadExchangeStreamCaptureMode: a thread is prohibited from potentially unsafe calls by its own capture unless relaxed, " \
    "and by those of other threads that are global"

static const struct {
    const char *name;
    CUstreamCaptureMode mode;
} modes[] = {{"global", CU_STREAM_CAPTURE_MODE_GLOBAL},
             {"thread-local", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL},
             {"relaxed", CU_STREAM_CAPTURE_MODE_RELAXED}};

/* What a call is made with: memory, streams and an event that have nothing to do with the capture. */
static struct {
    CUcontext context;
    CUstream captured, other;
    CUevent event;
    CUdeviceptr plain, pool, fresh;
    CUresult result;
    CUresult (*call)(void);
} world;

static CUresult call_alloc(void)
{
    return cuMemAlloc(&world.fresh, 3 << 20);
}

static CUresult call_free(void)
{
    return cuMemFree(world.plain);
}

static CUresult call_free_pool(void)
{
    return cuMemFree(world.pool);
}

static CUresult call_free_null(void)
{
    return cuMemFree(0);
}

static CUresult call_alloc_async(void)
{
    return cuMemAllocAsync(&world.fresh, 3 << 20, world.other);
}

static CUresult call_free_async(void)
{
    return cuMemFreeAsync(world.pool, world.other);
}

static CUresult call_free_async_captured(void)
{
    return cuMemFreeAsync(world.pool, world.captured);
}

static CUresult call_get_info(void)
{
    size_t free_bytes, total;
    return cuMemGetInfo(&free_bytes, &total);
}

static CUresult call_sync_context(void)
{
    return cuCtxSynchronize();
}

static CUresult call_sync_other(void)
{
    return cuStreamSynchronize(world.other);
}

static CUresult call_query_other(void)
{
    return cuStreamQuery(world.other);
}

static CUresult call_query_captured(void)
{
    return cuStreamQuery(world.captured);
}

static CUresult call_sync_captured(void)
{
    return cuStreamSynchronize(world.captured);
}

static CUresult call_query_event(void)
{
    return cuEventQuery(world.event);
}

static CUresult call_copy(void)
{
    char byte;
    return cuMemcpyDtoH(&byte, world.plain, 1);
}

static CUresult call_set(void)
{
    return cuMemsetD8(world.plain, 1, 100);
}

static CUresult call_trim(void)
{
    CUmemoryPool pool;
    CUresult result = cuDeviceGetDefaultMemPool(&pool, 0);
    return result == CUDA_SUCCESS ? cuMemPoolTrimTo(pool, 0) : result;
}

static CUresult call_host_alloc(void)
{
    void *memory;
    return cuMemHostAlloc(&memory, 100, 0);
}

static CUresult call_stream_create(void)
{
    CUstream stream;
    return cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
}

static CUresult call_pitch(void)
{
    size_t pitch;
    return cuMemAllocPitch(&world.fresh, &pitch, 100, 100, 4);
}

static const struct {
    const char *name;
    CUresult (*call)(void);
} calls[] = {{"cuMemAlloc", call_alloc},
             {"cuMemAllocPitch", call_pitch},
             {"cuMemFree", call_free},
             {"cuMemFree of pool memory", call_free_pool},
             {"cuMemFree of nothing", call_free_null},
             {"cuMemAllocAsync on another stream", call_alloc_async},
             {"cuMemFreeAsync on another stream", call_free_async},
             {"cuMemFreeAsync of other memory on the stream", call_free_async_captured},
             {"cuMemGetInfo", call_get_info},
             {"cuMemPoolTrimTo", call_trim},
             {"cuCtxSynchronize", call_sync_context},
             {"cuStreamSynchronize of another stream", call_sync_other},
             {"cuStreamSynchronize of the stream", call_sync_captured},
             {"cuStreamQuery of another stream", call_query_other},
             {"cuStreamQuery of the stream", call_query_captured},
             {"cuEventQuery", call_query_event},
             {"cuMemcpyDtoH", call_copy},
             {"cuMemsetD8", call_set},
             {"cuMemHostAlloc", call_host_alloc},
             {"cuStreamCreate", call_stream_create}};

static void *call_elsewhere(void *relaxed)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    MUST(cuCtxSetCurrent(world.context));
    if (relaxed)
        MUST(cuThreadExchangeStreamCaptureMode(&mode));
    world.result = world.call();
    return NULL;
}

static void make_world(void)
{
    world.context = primary(0);
    world.captured = stream_new();
    world.other = stream_new();
    MUST(cuEventCreate(&world.event, CU_EVENT_DISABLE_TIMING));
    MUST(cuEventRecord(world.event, world.other));
    MUST(cuMemAlloc(&world.plain, 1000));
    MUST(cuMemAllocAsync(&world.pool, 1000, world.other));
    MUST(cuCtxSynchronize());
}

/* who: 0 the capturing thread, 1 another, 2 another in relaxed mode. */
static void play_forbidden(int who)
{
    for (size_t mode = 0; mode < 3; mode++) {
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
            CUgraph graph = NULL;
            pthread_t thread;
            make_world();
            MUST(cuStreamBeginCapture(world.captured, modes[mode].mode));
            world.call = calls[i].call;
            if (who == 0)
                world.result = world.call();
            else if (pthread_create(&thread, NULL, call_elsewhere, who == 2 ? &thread : NULL) != 0 || pthread_join(thread, NULL) != 0)
                exit(4);
            CUresult end = cuStreamEndCapture(world.captured, &graph);
            printf("%s, %s: %s; ", modes[mode].name, calls[i].name, result_name(world.result));
            printf("the capture: %s\n", result_name(end));
        }
    }
}

PROMISE(capture_forbids_itself, 1, FORBIDS)
{
    play_forbidden(0);
}

PROMISE(capture_forbids_others, 1, FORBIDS)
{
    play_forbidden(1);
}

PROMISE(capture_forbids_relaxed, 1, FORBIDS)
{
    play_forbidden(2);
}

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
    CUdeviceptr pointer, kept;
    CUgraph graph = NULL;
    CUstream stream = stream_new();
    MUST(cuMemAlloc(&pointer, 1000));
    MUST(cuMemAlloc(&kept, 1000));
    held(stream_new());
    TIMED(cuMemFree(pointer));
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
    CUdeviceptr plain;
    CUgraph graph = NULL;
    CUstream stream = stream_new(), other = stream_new();
    MUST(cuMemAlloc(&plain, 1000));
    MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    relax();
    play_rounds();
    puts("beside work:");
    held(other);
    TIMED(cuMemFree(plain));
    ASK(cuStreamEndCapture(stream, &graph));
}

/* ---- how captures end ---- */

#define ENDS "cuda.h, cuStreamEndCapture, cuStreamDestroy, cuCtxDestroy, cuDevicePrimaryCtxReset; a capture that is over forbids nothing"

/* Begins a capture that allocates a fortieth of the device. */
static CUdeviceptr begin_capture(CUstream stream)
{
    CUdeviceptr pointer;
    MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(cuMemAllocAsync(&pointer, share(3), stream));
    MUST(cuMemsetD8Async(pointer, 1, 100, stream));
    return pointer;
}

PROMISE(capture_ended, 1, ENDS)
{
    CUgraph graph;
    CUstream stream = stream_new();
    for (int i = 0; i < 40; i++) {
        begin_capture(stream);
        MUST(cuStreamEndCapture(stream, &graph));
        MUST(cuGraphDestroy(graph));
    }
    play_after();
}

PROMISE(capture_freed, 1, ENDS)
{
    CUgraph graph;
    CUstream stream = stream_new();
    for (int i = 0; i < 40; i++) {
        MUST(cuMemFreeAsync(begin_capture(stream), stream));
        MUST(cuStreamEndCapture(stream, &graph));
        MUST(cuGraphDestroy(graph));
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
    CUevent event;
    MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
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
    CUcontext own;
    CUcontext first = primary(0);
    for (int i = 0; i < 10; i++) {
        MUST(cuCtxCreate(&own, NULL, 0, 0));
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
    CUdevResource all;
    CUdevResourceDesc description;
    CUgreenCtx green;
    CUstream stream;
    MUST(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    MUST(cuDevResourceGenerateDesc(&description, &all, 1));
    MUST(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    MUST(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
    begin_capture(stream);
    ASK(cuGreenCtxDestroy(green));
    play_after();
}

PROMISE(capture_not_ended, 1, ENDS)
{
    CUdeviceptr pointer;
    CUstream stream = stream_new();
    begin_capture(stream);
    relax();
    MUST(cuMemAlloc(&pointer, 1000));
    held(stream_new());
    TIMED(cuMemFree(pointer));
    play_rounds();
}

PROMISE(capture_never_launched, 1, "CUDA Programming Guide, Graph Memory Nodes: memory is allocated when the graph is launched")
{
    CUgraph graph;
    CUgraphExec executable;
    CUstream stream = stream_new();
    for (int i = 0; i < 40; i++) {
        begin_capture(stream);
        MUST(cuStreamEndCapture(stream, &graph));
        MUST(cuGraphInstantiate(&executable, graph, 0));
        MUST(cuGraphExecDestroy(executable));
        MUST(cuGraphDestroy(graph));
    }
    play_after();
}

PROMISE(captures_kept, 1, "CUDA Programming Guide, Graph Memory Nodes: memory is allocated when the graph is launched")
{
    CUgraph graph;
    CUgraphExec executable;
    CUstream stream = stream_new();
    CUresult result = CUDA_SUCCESS;
    int count = 0;
    for (; count < 40 && result == CUDA_SUCCESS; count++) {
        CUdeviceptr pointer;
        MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        result = cuMemAllocAsync(&pointer, share(5), stream);
        if (result == CUDA_SUCCESS)
            result = cuMemFreeAsync(pointer, stream);
        MUST(cuStreamEndCapture(stream, &graph));
        if (result == CUDA_SUCCESS)
            MUST(cuGraphInstantiate(&executable, graph, 0));
        if (result == CUDA_SUCCESS)
            result = cuGraphLaunch(executable, stream);
    }
    printf("%d graphs that each use a twentieth of the device, one after the other: %s\n", count, result_name(result));
}

PROMISE(captures_1000, 1, "CUDA Programming Guide, Graph Memory Nodes: a graph's memory is reused and returned")
{
    CUdeviceptr pointer;
    CUgraph graph;
    CUgraphExec executable;
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
        MUST(cuStreamEndCapture(stream, &graph));
        MUST(cuGraphInstantiate(&executable, graph, 0));
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

/* ---- which stream, which thread ---- */

PROMISE(capture_begins, 1, "cuda.h, cuStreamBeginCapture: not on CU_STREAM_LEGACY, and only if the stream is not capturing")
{
    CUgraph graph = NULL;
    CUstream stream = stream_new();
    ASK(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_RELAXED));
    ASK(cuStreamBeginCapture(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_RELAXED));
    ASK(cuStreamEndCapture(stream, &graph));
    ASK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    ASK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    ASK(cuStreamEndCapture(stream, &graph));
    ASK(cuStreamEndCapture(stream, &graph));
    ASK(cuStreamBeginCapture(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED));
    ASK(cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph));
}

static void *end_elsewhere(void *stream)
{
    CUgraph graph = NULL;
    MUST(cuCtxSetCurrent(world.context));
    world.result = cuStreamEndCapture(stream, &graph);
    return NULL;
}

PROMISE(capture_wrong_thread, 1, "cuda.h, cuStreamBeginCapture: if it is not relaxed, it must be ended by the same thread")
{
    CUgraph graph = NULL;
    CUstream stream = stream_new();
    pthread_t thread;
    world.context = primary(0);
    for (size_t i = 0; i < 3; i++) {
        MUST(cuStreamBeginCapture(stream, modes[i].mode));
        if (pthread_create(&thread, NULL, end_elsewhere, stream) != 0 || pthread_join(thread, NULL) != 0)
            exit(4);
        printf("%s, ended by another thread: %s; ", modes[i].name, result_name(world.result));
        printf("then by its own: %s\n", result_name(cuStreamEndCapture(stream, &graph)));
    }
}

PROMISE(capture_after_many, 1, FORBIDS)
{
    CUdeviceptr pointer;
    CUstream streams[8];
    CUgraph graph;
    for (int i = 0; i < 8; i++) {
        streams[i] = stream_new();
        MUST(cuStreamBeginCapture(streams[i], CU_STREAM_CAPTURE_MODE_RELAXED));
        MUST(cuMemAllocAsync(&pointer, 1000, streams[i]));
        MUST(cuMemFreeAsync(pointer, streams[i]));
    }
    for (int i = 0; i < 8; i++)
        MUST(cuStreamEndCapture(streams[i], &graph));
    play_after();
}
