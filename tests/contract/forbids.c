/* What a capture forbids, and to whom; on which streams it may begin, and who may end it. */
#include "contract.h"

#include <pthread.h>

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
            else if (pthread_create(&thread, NULL, call_elsewhere, who == 2 ? &thread : NULL) != 0 ||
                     pthread_join(thread, NULL) != 0)
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
