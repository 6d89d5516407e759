/* What is free again after a free, for every way to take memory, and at once; and what is told of it. */
#include "contract.h"

#include <spawn.h>
#include <sys/wait.h>

#define AGAIN                                                                                                                  \
    "CUDA Programming Guide, Device Memory Accesses; cuda.h, cuMemFree: frees the memory space; an allocation of what is "     \
    "free succeeds"

extern char **environ;

/* Another process, which is not guarded, allocates. */
static CUresult take_elsewhere(size_t bytes)
{
    char amount[32], *words[] = {"contract", "--take", amount, NULL}, *plain[256];
    size_t count = 0;
    int status;
    pid_t child;
    snprintf(amount, sizeof amount, "%zu", bytes);
    for (char **word = environ; *word != NULL && count < 255; word++) {
        if (strncmp(*word, "LD_PRELOAD=", 11) != 0 && strncmp(*word, "CUFENCE_O", 9) != 0)
            plain[count++] = *word;
    }
    plain[count] = NULL;
    if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, words, plain) != 0 || waitpid(child, &status, 0) != child)
        return CUDA_ERROR_UNKNOWN;
    return WIFEXITED(status) ? (CUresult)WEXITSTATUS(status) : CUDA_ERROR_UNKNOWN;
}

static CUresult take_plain(size_t bytes)
{
    CUdeviceptr pointer;
    CUresult result = cuMemAlloc(&pointer, bytes);
    if (result == CUDA_SUCCESS)
        MUST(cuMemFree(pointer));
    return result;
}

static CUresult take_async(size_t bytes)
{
    CUdeviceptr pointer;
    CUstream stream = stream_new();
    CUresult result = cuMemAllocAsync(&pointer, bytes, stream);
    if (result == CUDA_SUCCESS)
        free_and_await(pointer, stream);
    return result;
}

static CUresult take_create(size_t bytes)
{
    CUmemGenericAllocationHandle handle;
    CUresult result = cuMemCreate(&handle, bytes, &properties, 0);
    if (result == CUDA_SUCCESS)
        MUST(cuMemRelease(handle));
    return result;
}

static CUresult take_array(size_t bytes)
{
    CUarray array;
    const CUDA_ARRAY3D_DESCRIPTOR wanted = {
        .Width = 1024, .Height = 1024, .Depth = bytes >> 22, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 4};
    CUresult result = cuArray3DCreate(&array, &wanted);
    if (result == CUDA_SUCCESS)
        MUST(cuArrayDestroy(array));
    return result;
}

static CUresult take_graph(size_t bytes)
{
    CUDA_MEM_ALLOC_NODE_PARAMS wanted = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
        .bytesize = bytes};
    CUgraphNode allocation, end;
    CUgraphExec executable;
    CUstream stream = stream_new();
    CUgraph graph = graph_new();
    MUST(cuGraphAddMemAllocNode(&allocation, graph, NULL, 0, &wanted));
    MUST(cuGraphAddMemFreeNode(&end, graph, &allocation, 1, wanted.dptr));
    CUresult result = cuGraphInstantiate(&executable, graph, 0);
    if (result == CUDA_SUCCESS) {
        result = cuGraphLaunch(executable, stream);
        MUST(cuStreamSynchronize(stream));
        MUST(cuGraphExecDestroy(executable));
    }
    MUST(cuGraphDestroy(graph));
    MUST(cuDeviceGraphMemTrim(0));
    return result;
}

static const struct way {
    const char *name;
    CUresult (*take)(size_t bytes);
} ways[] = {{"cuMemAlloc", take_plain},      {"cuMemAllocAsync", take_async}, {"cuMemCreate", take_create},
            {"cuArray3DCreate", take_array}, {"a graph", take_graph},         {"another process", take_elsewhere}};

/* Frees 60 per cent of the device anew before each of the first ways to take it. */
static void play_ways(void (*free_again)(size_t bytes), size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free_again(share(60));
        printf("%s: %s\n", ways[i].name, result_name(ways[i].take(share(60))));
    }
}

static void play_again(void (*free_again)(size_t bytes))
{
    play_ways(free_again, sizeof ways / sizeof *ways);
}

#define PROMISE_OF_ALL(name, free_again, sentence)                                                                             \
    PROMISE(name, 1, sentence)                                                                                                 \
    {                                                                                                                          \
        play_again(free_again);                                                                                                \
    }

static void free_plain(size_t bytes)
{
    CUdeviceptr pointer = plain_memory(bytes);
    MUST(cuMemFree(pointer));
}

static void free_pieces(size_t bytes)
{
    CUdeviceptr pointers[40];
    for (unsigned i = 0; i < 40; i++)
        MUST(cuMemAlloc(&pointers[i], bytes / 40));
    for (unsigned i = 0; i < 40; i++)
        MUST(cuMemFree(pointers[i]));
}

static void free_one_after_the_other(size_t bytes)
{
    for (unsigned i = 0; i < 40; i++) {
        CUdeviceptr pointer = plain_memory(bytes / 40 - i * 100);
        MUST(cuMemFree(pointer));
    }
}

static void free_async(size_t bytes)
{
    CUstream stream = stream_new();
    CUdeviceptr pointer = pool_memory(bytes, stream);
    free_and_await(pointer, stream);
}

static void free_pool_by_plain(size_t bytes)
{
    CUstream stream = stream_new();
    CUdeviceptr pointer = ready_memory(bytes, stream);
    MUST(cuMemFree(pointer));
}

static void free_with_context(size_t bytes)
{
    CUcontext own = context_new();
    plain_memory(bytes);
    MUST(cuCtxDestroy(own));
}

static void free_with_pool(size_t bytes)
{
    CUdeviceptr pointer;
    CUstream stream = stream_new();
    cuuint64_t all = UINT64_MAX;
    CUmemoryPool pool = pool_new(0, 0);
    MUST(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    MUST(cuMemAllocFromPoolAsync(&pointer, bytes, pool, stream));
    free_and_await(pointer, stream);
    MUST(cuMemPoolDestroy(pool));
}

static void free_captured(size_t bytes)
{
    CUstream stream = stream_new();
    capture_begin(stream);
    CUdeviceptr pointer = pool_memory(bytes, stream);
    MUST(cuMemsetD8Async(pointer, 1, 100, stream));
    MUST(cuMemFreeAsync(pointer, stream));
    CUgraph graph = capture_end(stream);
    CUgraphExec executable = instantiated(graph, 0);
    MUST(cuGraphLaunch(executable, stream));
    MUST(cuStreamSynchronize(stream));
    MUST(cuGraphExecDestroy(executable));
    MUST(cuGraphDestroy(graph));
    MUST(cuDeviceGraphMemTrim(0));
}
PROMISE_OF_ALL(again_plain, free_plain, AGAIN)
PROMISE_OF_ALL(again_pieces, free_pieces, AGAIN)
PROMISE_OF_ALL(again_sizes, free_one_after_the_other, AGAIN)
PROMISE_OF_ALL(again_async, free_async,
               "cuda.h, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: by default the pool gives memory back at the next synchronisation")

PROMISE(again_pool_by_plain, 1, AGAIN)
{
    play_again(free_pool_by_plain);
    printf("free: %u\n", free_per_cent());
}
PROMISE_OF_ALL(again_context, free_with_context, "cuda.h, cuCtxDestroy: destroys memory of cuMemAlloc with the context")
PROMISE_OF_ALL(again_pool_end, free_with_pool,
               "cuda.h, cuMemPoolDestroy: destroys the pool; its memory is released when nothing is allocated any more")
PROMISE_OF_ALL(again_captured, free_captured, "cuda.h, cuDeviceGraphMemTrim: frees unused memory that was cached for graphs")

/* A pool that is told to keep its memory gives it to the program's own allocations all the same; not to graphs and other
 * processes. */
PROMISE(again_kept_by_pool, 1,
        "cuda.h, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: bytes to hold on to before trying to release memory to the OS")
{
    cuuint64_t all = UINT64_MAX;
    CUmemoryPool pool = pool_of_device();
    MUST(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    free_async(share(60));
    printf("free: %u per cent\n", free_per_cent());
    play_ways(free_async, 4);
}

/* ---- no room ---- */

#define OOM "cuda.h, cuMemAlloc: returns OUT_OF_MEMORY; nothing is said of a wait"

PROMISE(no_room, 1, OOM)
{
    CUdeviceptr pointer;
    size_t pitch;
    CUstream stream = stream_new();
    CUmemGenericAllocationHandle handle;
    BESIDE_WORK(cuMemAlloc(&pointer, (size_t)1 << 42));
    BESIDE_WORK(cuMemAlloc(&pointer, share(100) + ((size_t)1 << 30)));
    BESIDE_WORK(cuMemAllocPitch(&pointer, &pitch, (size_t)1 << 21, (size_t)1 << 21, 4));
    BESIDE_WORK(cuMemAllocAsync(&pointer, (size_t)1 << 42, stream));
    held(stream);
    TIMED(cuMemAllocAsync(&pointer, share(100) + ((size_t)1 << 30), stream));
    BESIDE_WORK(cuMemCreate(&handle, (size_t)1 << 42, &properties, 0));
    ASK(cuMemAlloc(&pointer, 0));
    ASK(cuMemAlloc(NULL, 100));
    ASK(cuMemAlloc(&pointer, ~(size_t)0));
    ASK(cuMemAllocAsync(&pointer, 0, stream));
    ASK(cuMemAllocAsync(NULL, 100, stream));
    ASK(cuMemAllocAsync(&pointer, ~(size_t)0, stream));
    ASK(cuMemAllocPitch(&pointer, &pitch, 0, 5, 4));
    ASK(cuMemAllocPitch(&pointer, &pitch, 5, 0, 4));
    ASK(cuMemAllocPitch(&pointer, &pitch, 100, 5, 3));
    ASK(cuMemAllocPitch(&pointer, NULL, 100, 5, 4));
    ASK(cuMemAllocPitch(&pointer, &pitch, ~(size_t)0, 5, 4));
}

PROMISE(no_room_when_full, 1, OOM)
{
    CUdeviceptr more;
    CUstream stream = stream_new();
    CUdeviceptr pointer = plain_memory(share(60));
    BESIDE_WORK(cuMemAlloc(&more, share(60)));
    BESIDE_WORK(cuMemAllocAsync(&more, share(60), stream));
    ASK(cuMemFree(pointer));
    ASK(cuMemAllocAsync(&more, share(60), stream));
    ASK(cuMemFreeAsync(more, stream));
    MUST(cuStreamSynchronize(stream));
    ASK(cuMemAlloc(&more, share(60)));
}

#define IN_ORDER "CUDA Programming Guide, Stream Ordered Memory Allocator: memory is reused in the order of its stream"

/* The memory has been freed, behind work that goes on. */
static void begin_pending(CUstream stream)
{
    CUdeviceptr pointer = ready_memory(share(60), stream);
    held(stream);
    MUST(cuMemFreeAsync(pointer, stream));
}

PROMISE(pending_same_stream, 1, IN_ORDER)
{
    CUdeviceptr more;
    CUstream stream = stream_new();
    begin_pending(stream);
    TIMED(cuMemAllocAsync(&more, share(60), stream));
}

PROMISE(pending_other_stream, 1,
        "CUDA Programming Guide, Stream Ordered Memory Allocator: REUSE_ALLOW_INTERNAL_DEPENDENCIES is on by default")
{
    CUdeviceptr more;
    CUstream stream = stream_new(), other = stream_new();
    begin_pending(stream);
    TIMED(cuMemAllocAsync(&more, share(60), other));
    MUST(cuStreamSynchronize(other));
}

PROMISE(pending_smaller, 1, IN_ORDER)
{
    CUdeviceptr more;
    CUstream stream = stream_new(), other = stream_new();
    begin_pending(stream);
    TIMED(cuMemAllocAsync(&more, share(55), stream));
    free_and_await(more, stream);
    begin_pending(stream);
    TIMED(cuMemAllocAsync(&more, share(50), other));
    MUST(cuStreamSynchronize(other));
}

PROMISE(pending_larger, 1, IN_ORDER)
{
    CUdeviceptr more;
    CUstream stream = stream_new(), other = stream_new();
    begin_pending(stream);
    TIMED(cuMemAllocAsync(&more, share(65), stream));
    if (more)
        cuMemFreeAsync(more, stream);
    MUST(cuStreamSynchronize(stream));
    begin_pending(stream);
    TIMED(cuMemAllocAsync(&more, share(65), other));
}

PROMISE(pending_plain, 1, OOM)
{
    CUdeviceptr more;
    CUstream stream = stream_new();
    begin_pending(stream);
    TIMED(cuMemAlloc(&more, share(60)));
}

PROMISE(pending_create, 1, OOM)
{
    CUstream stream = stream_new();
    CUmemGenericAllocationHandle handle;
    begin_pending(stream);
    TIMED(cuMemCreate(&handle, share(60), &properties, 0));
}
