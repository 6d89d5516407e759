/* Stories about launches that are given freed pointers: `freed CASE`. Kernels of the first cases use them, those of the others
 * do not, or are right to. */
#include "buffers.h"

#include <unistd.h>

static CUstream first, second;

static CUdeviceptr freed(CUstream stream)
{
    CUdeviceptr buffer = allocate(BYTES, stream);
    MUST(cu.cuMemFreeAsync(buffer, stream));
    return buffer;
}

/* ---- wrong ---- */

CASE(freed, same_stream)
{
    MUST(add_one(freed(first), WORDS, first));
}

/* The program goes on until it hears of the fault. */
CASE(freed, in_a_loop)
{
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i < TIMES && result == CUDA_SUCCESS; i++) {
        CUdeviceptr buffer = 0;
        result = cu.cuMemAllocAsync(&buffer, BYTES, first);
        if (result == CUDA_SUCCESS)
            result = add_one(buffer, WORDS, first);
        cu.cuMemFreeAsync(buffer, first);
        if (result == CUDA_SUCCESS)
            result = add_one(buffer, WORDS, first);
    }
}

CASE(freed, other_stream)
{
    CUdeviceptr buffer = freed(first);
    MUST(cu.cuStreamSynchronize(first));
    MUST(add_one(buffer, WORDS, second));
}

CASE(freed, waited_free)
{
    CUdeviceptr buffer;
    MUST(cu.cuMemAlloc(&buffer, BYTES));
    MUST(cu.cuMemFree(buffer));
    MUST(add_one(buffer, WORDS, first));
}

/* All launches together wait half a second for frees, and a hundredth of the time that has passed. That is short on a busy
 * machine: then there is another try. */
static int is_to_try(int tries)
{
    if (cu.cuStreamSynchronize(first) != CUDA_SUCCESS || tries == 20)
        return 0;
    usleep(tries ? 500000 : 0);
    return 1;
}

#define UNTIL_FOUND for (int tries = 0; is_to_try(tries); tries++)

CASE(freed, within)
{
    UNTIL_FOUND
    {
        CUdeviceptr buffer = allocate(5u << 20, first);
        MUST(cu.cuStreamSynchronize(first)); /* a sanitizer takes its time with all these bytes */
        MUST(cu.cuMemFreeAsync(buffer, first));
        MUST(add_one(buffer + (4u << 20), WORDS, first));
    }
}

/* The stream has work to do before the free. */
CASE(freed, busy)
{
    UNTIL_FOUND
    {
        CUdeviceptr buffer = allocate(BYTES, first);
        for (int i = 0; i < 100; i++)
            MUST(add_one(buffer, WORDS, first));
        MUST(cu.cuMemFreeAsync(buffer, first));
        MUST(add_one(buffer, WORDS, first));
    }
}

/* A graph of one kernel. */
static CUgraphExec graph_of(CUdeviceptr buffer)
{
    CUgraph graph;
    MUST(cu.cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_GLOBAL));
    MUST(cu.cuMemsetD32Async(kept, 0, WORDS, first));
    MUST(add_one(buffer, WORDS, first));
    MUST(cu.cuStreamEndCapture(first, &graph));
    return executable_of(graph);
}

/* Its buffer is freed before the third launch, and its memory would serve the next one. */
CASE(freed, graph)
{
    CUdeviceptr buffer = allocate(BYTES, first);
    CUgraphExec executable = graph_of(buffer);
    MUST(cu.cuGraphLaunch(executable, first));
    MUST(cu.cuGraphLaunch(executable, first));
    MUST(cu.cuMemFreeAsync(buffer, first));
    CUdeviceptr next = allocate(BYTES, first);
    MUST(cu.cuGraphLaunch(executable, first));
    cu.cuMemFreeAsync(next, first);
}

/* ---- wrong with streams=on: the buffer is in use elsewhere when it is freed ---- */

/* A kernel of the other device uses the buffer. */
static CUstream use_far(CUdeviceptr buffer)
{
    CUcontext near;
    MUST(cu.cuDevicePrimaryCtxRetain(&near, 0));
    MUST(cu.cuStreamSynchronize(first));
    use_device(1);
    MUST(cu.cuCtxEnablePeerAccess(near, 0));
    CUstream stream = new_stream();
    MUST(add_one(buffer, WORDS, stream));
    MUST(cu.cuCtxSetCurrent(near));
    return stream;
}

/* A free that waits does so for the buffer's own device. */
CASE(freed, far)
{
    CUdeviceptr buffer = allocate(BYTES, first);
    use_far(buffer);
    MUST(cu.cuMemFree(buffer));
}

CASE(freed, far_async)
{
    CUdeviceptr buffer = allocate(BYTES, first);
    use_far(buffer);
    MUST(cu.cuMemFreeAsync(buffer, first));
}

static CUdeviceptr used_on_second(void)
{
    CUdeviceptr buffer = allocate(BYTES, first);
    MUST(cu.cuStreamSynchronize(first));
    MUST(add_one(buffer, WORDS, second));
    return buffer;
}

/* By cufence's own function, as programs that allocate with it do. */
CASE(freed, by_api)
{
    int (*release)(void *, CUstream) = (int (*)(void *, CUstream))driver_of_cufence("cufence_free");
    release((void *)(uintptr_t)used_on_second(), first);
}

CASE(freed, by_torch)
{
    char freed_one[256];
    int (*release)(void *, void *) = (int (*)(void *, void *))driver_of_cufence("cufence_torch_free");
    release((void *)(uintptr_t)used_on_second(), freed_one);
}

/* ---- right ---- */

CASE(freed, far_done)
{
    CUdeviceptr buffer = allocate(BYTES, first);
    MUST(cu.cuStreamSynchronize(use_far(buffer)));
    MUST(cu.cuMemFree(buffer));
}

CASE(freed, untouched)
{
    for (int i = 0; i < TIMES; i++) {
        CUdeviceptr buffer = freed(first), next;
        MUST(add_one(buffer, 0, i % 2 ? second : first));
        next = allocate(BYTES, first);
        MUST(add_one(next, WORDS, first));
        MUST(cu.cuMemFreeAsync(next, first));
    }
}

/* The pointers of a struct that a launch does not use, as of PyTorch's lists of tensors. */
CASE(freed, used_again)
{
    uint32_t word = 0;
    CUdeviceptr buffer = 0;
    for (int i = 0; i < TIMES; i++) {
        buffer = allocate(BYTES, first);
        MUST(add_one(buffer, WORDS, first));
        MUST(cu.cuMemcpyDtoHAsync(&word, buffer + BYTES - 4, 4, first));
        MUST(cu.cuMemFreeAsync(buffer, first));
        MUST(cu.cuStreamSynchronize(first));
        if (word != 1)
            printf("a buffer holds %u\n", word);
    }
}

/* What the stream waits for comes after the launch. */
CASE(freed, later)
{
    static uint32_t flag;
    CUdeviceptr buffer = allocate(BYTES, first);
    spin(&flag, first);
    MUST(cu.cuMemFreeAsync(buffer, first));
    MUST(add_one(buffer, 0, first));
    MUST(add_one(buffer, 0, second));
    let_go(&flag);
}

CASE(freed, retired)
{
    freed(first);
    for (int ms = 0; ms < 60000 && !stats_of_cufence().retired_mappings; ms++)
        usleep(1000);
}

/* The free comes behind what the other stream does with the buffer, in the order of the device alone. */
CASE(freed, before_the_free)
{
    static uint32_t flag;
    CUdeviceptr buffer = allocate(BYTES, first);
    MUST(cu.cuStreamSynchronize(first));
    spin(&flag, first);
    MUST(cu.cuMemFreeAsync(buffer, first));
    MUST(add_one(buffer, WORDS, second));
    MUST(cu.cuStreamSynchronize(second));
    let_go(&flag);
}

CASE(freed, graph_in_order)
{
    CUdeviceptr buffer = allocate(BYTES, first), other = allocate(BYTES, first);
    CUgraphExec executable = graph_of(buffer);
    for (int i = 0; i < TIMES; i++) {
        MUST(cu.cuGraphLaunch(executable, first));
        MUST(cu.cuMemFreeAsync(other, first));
        other = allocate(BYTES, first);
        MUST(add_one(other, WORDS, first));
    }
    MUST(cu.cuGraphExecDestroy(executable));
    MUST(cu.cuMemFreeAsync(buffer, first));
    CUdeviceptr next = allocate(BYTES, first);
    MUST(add_one(next, WORDS, first));
}

STORY(freed)
{
    start();
    first = new_stream();
    second = new_stream();
    if (strncmp(arguments[count - 1], "graph", 5) == 0)
        MUST(cu.cuMemAlloc(&kept, BYTES));
    if (count > 2)
        play_case(count, arguments);
    return say("the end", cu.cuCtxSynchronize()) == CUDA_SUCCESS ? 0 : 1;
}
