/* Stories about captures, graphs, contexts and threads. */
#include "program.h"

#include <pthread.h>

STORY(capture)
{
    int overruns = count > 2 && strcmp(arguments[2], "overrun") == 0;
    CUgraph graph;
    CUgraphExec executable;
    CUdeviceptr kept, first, second;
    uint32_t last = 0;
    start();
    CUstream stream = new_stream();
    MUST(cu.cuMemAlloc(&kept, 4096));
    MUST(cu.cuMemsetD32(kept, 0, 1024));
    MUST(cu.cuCtxSynchronize()); /* the stream to come does not wait for the default one */
    MUST(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    MUST(cu.cuMemAllocAsync(&first, 4096, stream));
    MUST(cu.cuMemcpyDtoDAsync(first, kept, 4096, stream));
    MUST(add_one(first, 1024, stream));
    MUST(cu.cuMemAllocAsync(&second, 4096, stream));
    MUST(cu.cuMemcpyDtoDAsync(second, first, 4096, stream));
    MUST(cu.cuMemFreeAsync(first, stream));
    if (overruns)
        MUST(store(second + 4096, 1, stream));
    MUST(add_one(second, 1024, stream));
    MUST(cu.cuMemcpyDtoDAsync(kept, second, 4096, stream));
    MUST(cu.cuMemFreeAsync(second, stream));
    say("end of the capture", cu.cuStreamEndCapture(stream, &graph));
    MUST(cu.cuGraphInstantiateWithFlags(&executable, graph, 0));
    MUST(cu.cuGraphDestroy(graph));
    for (int i = 0; i < 3; i++) {
        CUdeviceptr between;
        MUST(cu.cuGraphLaunch(executable, stream));
        if (say("replay", cu.cuStreamSynchronize(stream)) != CUDA_SUCCESS)
            return 1;
        /* What is allocated and filled between two replays does not meet the graph's memory. */
        MUST(cu.cuMemAllocAsync(&between, 4096, stream));
        MUST(cu.cuMemsetD32Async(between, 77, 1024, stream));
        MUST(cu.cuMemFreeAsync(between, stream));
    }
    MUST(cu.cuMemcpyDtoH(&last, kept + 4092, 4));
    printf("after three replays %u\n", last);
    MUST(cu.cuGraphExecDestroy(executable));
    MUST(cu.cuMemFree(kept));
    return 0;
}

STORY(graph_nodes)
{
    CUgraph graph;
    CUgraphExec executable;
    CUgraphNode allocation, set, release;
    CUcontext context;
    CUDA_MEM_ALLOC_NODE_PARAMS memory = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}},
        .bytesize = 4096};
    uint32_t word = 0;
    start();
    MUST(cu.cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cu.cuGraphCreate(&graph, 0));
    MUST(cu.cuGraphAddMemAllocNode(&allocation, graph, NULL, 0, &memory));
    const CUDA_MEMSET_NODE_PARAMS fives = {.dst = memory.dptr, .value = 5, .elementSize = 4, .width = 1024, .height = 1};
    MUST(cu.cuGraphAddMemsetNode(&set, graph, &allocation, 1, &fives, context));
    MUST(cu.cuGraphInstantiateWithFlags(&executable, graph, 0));
    MUST(cu.cuGraphLaunch(executable, NULL));
    MUST(cu.cuMemcpyDtoH(&word, memory.dptr + 4092, 4));
    printf("the graph's memory holds %u\n", word);
    say("cuMemFreeAsync of the graph's memory", cu.cuMemFreeAsync(memory.dptr, NULL));
    say("launch again", cu.cuGraphLaunch(executable, NULL));
    MUST(cu.cuCtxSynchronize());
    say("a node that frees it", cu.cuGraphAddMemFreeNode(&release, graph, &set, 1, memory.dptr));
    MUST(cu.cuGraphExecDestroy(executable));
    MUST(cu.cuGraphDestroy(graph));
    return 0;
}

STORY(reset)
{
    int overruns = count > 2 && strcmp(arguments[2], "overrun") == 0;
    CUdeviceptr before, after, pooled;
    uint32_t word = 0;
    start();
    MUST(cu.cuMemAlloc(&before, 4096));
    MUST(cu.cuMemAllocAsync(&pooled, 4096, NULL));
    MUST(cu.cuMemsetD32(before, 3, 1024));
    MUST(cu.cuCtxSynchronize());
    say("cuDevicePrimaryCtxReset", cu.cuDevicePrimaryCtxReset(0));
    use_device(0);
    say("memory of before", cu.cuMemcpyDtoH(&word, before, 4));
    say("free of before", cu.cuMemFree(before));
    MUST(cu.cuMemAlloc(&after, 4096));
    MUST(cu.cuMemsetD32(after, 6, 1024));
    MUST(add_one(after, 1024, NULL));
    MUST(cu.cuMemcpyDtoH(&word, after + 4092, 4));
    printf("after the reset %u\n", word);
    if (overruns) {
        MUST(store(after + 4096, 1, NULL));
        return say("overrun", cu.cuCtxSynchronize()) == CUDA_SUCCESS ? 0 : 1;
    }
    MUST(cu.cuMemFree(after));
    return 0;
}

static CUcontext shared_context;

static void *work(void *argument)
{
    uint32_t id = *(const uint32_t *)argument, word;
    MUST(cu.cuCtxSetCurrent(shared_context));
    CUstream stream = new_stream();
    for (uint32_t i = 0; i < 100; i++) {
        CUdeviceptr a, b;
        size_t size = 64 + (size_t)(i * 37 % 50) * 64;
        MUST(cu.cuMemAllocAsync(&a, size, stream));
        MUST(cu.cuMemAlloc(&b, size));
        MUST(cu.cuMemsetD32Async(a, id * 1000 + i, size / 4, stream));
        MUST(add_one(a, (uint32_t)(size / 4), stream));
        MUST(cu.cuMemcpyDtoDAsync(b, a, size, stream));
        MUST(cu.cuStreamSynchronize(stream));
        MUST(cu.cuMemcpyDtoHAsync(&word, b + size - 4, 4, stream));
        MUST(cu.cuStreamSynchronize(stream));
        if (word != id * 1000 + i + 1) {
            printf("thread %u: %u in round %u\n", id, word, i);
            exit(1);
        }
        MUST(cu.cuMemFreeAsync(a, stream));
        MUST(cu.cuMemFree(b));
    }
    MUST(cu.cuStreamDestroy(stream));
    return NULL;
}

STORY(threads)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    uint32_t ids[THREADS];
    start();
    MUST(cu.cuDevicePrimaryCtxRetain(&shared_context, 0));
    for (uint32_t i = 0; i < THREADS; i++) {
        ids[i] = i + 1;
        pthread_create(&threads[i], NULL, work, &ids[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CUmemoryPool pool;
    cuuint64_t used = 77;
    MUST(cu.cuDeviceGetDefaultMemPool(&pool, 0));
    MUST(cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    printf("all well, used %llu\n", (unsigned long long)used);
    return 0;
}
