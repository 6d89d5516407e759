/* Stories about captures, graphs and contexts. */
#include "program.h"

#include <unistd.h>

/* An overrun by a kernel of a graph. */
STORY(capture)
{
    CUgraph graph;
    CUgraphExec executable;
    CUdeviceptr kept, first, second;
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
    MUST(store(second + 4096, 1, stream));
    MUST(cu.cuMemcpyDtoDAsync(kept, second, 4096, stream));
    MUST(cu.cuMemFreeAsync(second, stream));
    say("end of the capture", cu.cuStreamEndCapture(stream, &graph));
    MUST(cu.cuGraphInstantiateWithFlags(&executable, graph, 0));
    MUST(cu.cuGraphDestroy(graph));
    MUST(cu.cuGraphLaunch(executable, stream));
    return say("replay", cu.cuStreamSynchronize(stream)) == CUDA_SUCCESS ? 0 : 1;
}

/* Buffers of this size that the program has, once the background has done its work. */
#define BIG ((size_t)32 << 20)

static size_t free_memory(void)
{
    size_t free_bytes, total;
    MUST(cu.cuMemGetInfo(&free_bytes, &total));
    return free_bytes;
}

/* An access to memory of a graph that is gone; graph_memory stays: where that cannot be known. */
STORY(graph_memory)
{
    int stays = count > 2;
    CUdeviceptr kept, buffer;
    CUgraph graph;
    start();
    CUstream stream = new_stream();
    MUST(cu.cuMemAlloc(&kept, 4096));
    size_t free_before = free_memory(), held = 1;
    MUST(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    MUST(cu.cuMemAllocAsync(&buffer, BIG, stream));
    MUST(cu.cuMemFreeAsync(buffer, stream));
    MUST(cu.cuStreamEndCapture(stream, &graph));
    MUST(cu.cuGraphDestroy(graph));
    for (int tries = 0; tries < (stays ? 15 : 1000) && held; tries++) {
        usleep(20000);
        held = (free_before - free_memory()) / BIG;
    }
    printf("without: %zu held\n", held);
    MUST(store(buffer + 100, 1, stream));
    say("late access", cu.cuStreamSynchronize(stream));
    return 0;
}

STORY(reset)
{
    CUdeviceptr before, after, pooled;
    start();
    MUST(cu.cuMemAlloc(&before, 4096));
    MUST(cu.cuMemAllocAsync(&pooled, 4096, NULL));
    MUST(cu.cuMemsetD32(before, 3, 1024));
    MUST(cu.cuCtxSynchronize());
    say("cuDevicePrimaryCtxReset", cu.cuDevicePrimaryCtxReset(0));
    use_device(0);
    MUST(cu.cuMemAlloc(&after, 4096));
    MUST(store(after + 4096, 1, NULL));
    return say("overrun", cu.cuCtxSynchronize()) == CUDA_SUCCESS ? 0 : 1;
}
