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

/* X(NAME, sentence, what it needs, the call) */
#define CALLS(X)                                                                                                               \
    X(alloc, "cuMemAlloc", , cuMemAlloc(&world.fresh, 3 << 20))                                                                \
    X(pitch, "cuMemAllocPitch", size_t pitch, cuMemAllocPitch(&world.fresh, &pitch, 100, 100, 4))                              \
    X(free, "cuMemFree", , cuMemFree(world.plain))                                                                             \
    X(free_pool, "cuMemFree of pool memory", , cuMemFree(world.pool))                                                          \
    X(free_null, "cuMemFree of nothing", , cuMemFree(0))                                                                       \
    X(alloc_async, "cuMemAllocAsync on another stream", , cuMemAllocAsync(&world.fresh, 3 << 20, world.other))                 \
    X(free_async, "cuMemFreeAsync on another stream", , cuMemFreeAsync(world.pool, world.other))                               \
    X(free_captured, "cuMemFreeAsync of other memory on the stream", , cuMemFreeAsync(world.pool, world.captured))             \
    X(get_info, "cuMemGetInfo", size_t room[2], cuMemGetInfo(&room[0], &room[1]))                                              \
    X(trim, "cuMemPoolTrimTo", CUmemoryPool pool, cuDeviceGetDefaultMemPool(&pool, 0) ?: cuMemPoolTrimTo(pool, 0))             \
    X(sync_context, "cuCtxSynchronize", , cuCtxSynchronize())                                                                  \
    X(sync_other, "cuStreamSynchronize of another stream", , cuStreamSynchronize(world.other))                                 \
    X(sync_captured, "cuStreamSynchronize of the stream", , cuStreamSynchronize(world.captured))                               \
    X(query_other, "cuStreamQuery of another stream", , cuStreamQuery(world.other))                                            \
    X(query_captured, "cuStreamQuery of the stream", , cuStreamQuery(world.captured))                                          \
    X(query_event, "cuEventQuery", , cuEventQuery(world.event))                                                                \
    X(copy, "cuMemcpyDtoH", char byte, cuMemcpyDtoH(&byte, world.plain, 1))                                                    \
    X(set, "cuMemsetD8", , cuMemsetD8(world.plain, 1, 100))                                                                    \
    X(host_alloc, "cuMemHostAlloc", void *memory, cuMemHostAlloc(&memory, 100, 0))                                             \
    X(stream_create, "cuStreamCreate", CUstream stream, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))

#define CALL(name, sentence, needs, call)                                                                                      \
    static CUresult call_##name(void)                                                                                          \
    {                                                                                                                          \
        needs;                                                                                                                 \
        return call;                                                                                                           \
    }
CALLS(CALL)

static const struct {
    const char *name;
    CUresult (*call)(void);
} calls[] = {
#define ROW(name, sentence, needs, call) {sentence, call_##name},
    CALLS(ROW)};

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
