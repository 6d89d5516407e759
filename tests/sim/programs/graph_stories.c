/* Stories about the memory that captures allocate: how long it stays, and when it goes. */
#include "program.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define BIG ((size_t)32 << 20)

static CUstream stream;
static CUdeviceptr kept;   /* counts what the graphs have done */
static size_t free_before; /* with everything that the program needs without a graph */

static size_t free_memory(void)
{
    size_t free_bytes, total;
    MUST(cu.cuMemGetInfo(&free_bytes, &total));
    return free_bytes;
}

static void begin(void)
{
    start();
    stream = new_stream();
    MUST(cu.cuMemAlloc(&kept, 4096));
    MUST(cu.cuMemsetD32(kept, 0, 1024));
    MUST(cu.cuCtxSynchronize());
    free_before = free_memory();
}

static uint32_t counted(void)
{
    uint32_t word = 0;
    MUST(cu.cuStreamSynchronize(stream));
    MUST(cu.cuMemcpyDtoH(&word, kept, 4));
    return word;
}

static int trims; /* trim() has been called */

/* What is kept for reuse goes too: what streams have got behind them by then, because a trim does not wait. */
static void trim(void)
{
    CUmemoryPool pool;
    MUST(cu.cuDeviceGetDefaultMemPool(&pool, 0));
    MUST(cu.cuMemPoolTrimTo(pool, 0));
    trims = 1;
}

static int synchronises; /* trim_behind_all() has been called */

/* What one graph has freed of another is known to be over only then. */
static void trim_behind_all(void)
{
    MUST(cu.cuCtxSynchronize());
    trim();
    synchronises = 1;
}

/* What the program has at least, in buffers of `BIG`, once the background has done its work, and a program that trims has done
 * so again. */
static void say_held(const char *when, size_t wanted)
{
    size_t held = 0;
    for (int tries = 0; tries < 1000; tries++) {
        held = (free_before - free_memory()) / BIG;
        if (held <= wanted)
            break;
        usleep(20000);
        if (synchronises)
            trim_behind_all();
        else if (trims)
            trim();
    }
    printf("%s: %zu held\n", when, held);
}

/* A graph that adds one to *kept by way of a buffer. That one is freed in the capture, unless *left is to have it. */
static CUgraph capture(CUdeviceptr *left)
{
    CUgraph graph;
    CUdeviceptr buffer;
    MUST(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    MUST(cu.cuMemAllocAsync(&buffer, BIG, stream));
    MUST(cu.cuMemcpyDtoDAsync(buffer, kept, 4096, stream));
    MUST(add_one(buffer, 1024, stream));
    MUST(cu.cuMemcpyDtoDAsync(kept, buffer, 4096, stream));
    if (left != NULL)
        *left = buffer;
    else
        MUST(cu.cuMemFreeAsync(buffer, stream));
    MUST(cu.cuStreamEndCapture(stream, &graph));
    return graph;
}

static CUgraphExec instantiate(CUgraph graph)
{
    CUgraphExec executable;
    MUST(cu.cuGraphInstantiateWithFlags(&executable, graph, 0));
    return executable;
}

/* stays: buffers that do, for want of a way to learn of the end. */
static void use_executable(size_t stays)
{
    CUgraph graph = capture(NULL);
    MUST(cu.cuGraphExecDestroy(instantiate(graph))); /* a graph that allocates has one at a time */
    CUgraphExec second = instantiate(graph);
    MUST(cu.cuGraphDestroy(graph));
    usleep(300000);
    MUST(cu.cuGraphLaunch(second, stream));
    printf("counted to %u\n", counted());
    say_held("with an executable", 1);
    MUST(cu.cuGraphExecDestroy(second));
    usleep(stays ? 300000 : 0);
    say_held("without", stays);
}

CASE(graph_memory, executable)
{
    use_executable(0);
}

CASE(graph_memory, unfollowed)
{
    use_executable(1);
}

/* Each launch allocates again what was freed behind the one before. */
CASE(graph_memory, output_again)
{
    CUdeviceptr left;
    uint32_t word = 0;
    CUgraph graph = capture(&left);
    CUgraphExec made = instantiate(graph);
    MUST(cu.cuGraphDestroy(graph));
    for (int i = 0; i < 3; i++) {
        MUST(cu.cuGraphLaunch(made, stream));
        MUST(cu.cuMemcpyDtoHAsync(&word, left, 4, stream));
        MUST(cu.cuStreamSynchronize(stream));
        say("free", cu.cuMemFreeAsync(left, stream));
    }
    printf("the buffer held %u\n", word);
    MUST(cu.cuGraphLaunch(made, stream));
    MUST(cu.cuStreamSynchronize(stream));
    MUST(cu.cuGraphExecDestroy(made));
    usleep(300000);
    MUST(cu.cuMemcpyDtoH(&word, left, 4)); /* allocated by the last launch, and freed by nobody */
    printf("the buffer holds %u\n", word);
    say("free", cu.cuMemFreeAsync(left, stream));
    trim();
    say_held("without", 0);
}

/* Each launch frees what the one before it has left, but nobody frees what the last one has left. */
CASE(graph_memory, auto_free)
{
    CUdeviceptr left;
    CUgraphExec made;
    CUgraph graph = capture(&left);
    MUST(cu.cuGraphInstantiateWithFlags(&made, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
    MUST(cu.cuGraphDestroy(graph));
    for (int i = 0; i < 3; i++)
        MUST(cu.cuGraphLaunch(made, stream));
    printf("counted to %u\n", counted());
    MUST(cu.cuGraphExecDestroy(made));
    usleep(300000);
    say_held("without", 1);
    MUST(cu.cuMemFreeAsync(left, stream));
    say_held("freed", 0);
}

static void launch_by_hand(size_t bytes)
{
    CUgraph graph;
    CUgraphNode allocation, release;
    CUDA_MEM_ALLOC_NODE_PARAMS memory = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
        .bytesize = bytes};
    MUST(cu.cuGraphCreate(&graph, 0));
    MUST(cu.cuGraphAddMemAllocNode(&allocation, graph, NULL, 0, &memory));
    MUST(cu.cuGraphAddMemFreeNode(&release, graph, &allocation, 1, memory.dptr));
    CUgraphExec made = instantiate(graph);
    MUST(cu.cuGraphLaunch(made, stream));
    MUST(cu.cuStreamSynchronize(stream));
    MUST(cu.cuGraphExecDestroy(made));
    MUST(cu.cuGraphDestroy(graph));
}

/* Graphs for which there is room, after one that is gone, and together more than the device has. */
CASE(graph_memory, in_turn)
{
    CUmemoryPool pool;
    CUdeviceptr buffer;
    cuuint64_t keeps = UINT64_MAX;
    launch_by_hand(5 * BIG);
    MUST(cu.cuDeviceGraphMemTrim(0));
    MUST(cu.cuDeviceGetDefaultMemPool(&pool, 0));
    MUST(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keeps));
    MUST(cu.cuMemAllocAsync(&buffer, 3 * BIG, stream));
    MUST(cu.cuMemFreeAsync(buffer, stream));
    for (int i = 0; i < 8; i++)
        launch_by_hand(BIG);
    MUST(cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &keeps));
    printf("the pool keeps %d of 3\n", (int)(keeps / BIG));
}

/* What a loop of `with torch.cuda.graph(CUDAGraph()): y = f(x)` does: the output of one round is freed while the next is
 * captured, when its graph is gone. */
CASE(graph_memory, torch_loop)
{
    CUgraph graph;
    CUgraphExec made = NULL;
    CUdeviceptr output = 0, previous;
    for (int i = 0; i < 100; i++) {
        if (made != NULL)
            MUST(cu.cuGraphExecDestroy(made));
        MUST(cu.cuCtxSynchronize());
        trim();
        previous = output;
        MUST(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        MUST(cu.cuMemAllocAsync(&output, BIG, stream));
        MUST(cu.cuMemcpyDtoDAsync(output, kept, 4096, stream));
        MUST(add_one(output, 1024, stream));
        MUST(cu.cuMemcpyDtoDAsync(kept, output, 4096, stream));
        if (previous != 0)
            MUST(cu.cuMemFreeAsync(previous, stream));
        MUST(cu.cuStreamEndCapture(stream, &graph));
        MUST(cu.cuGraphInstantiateWithFlags(&made, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
        MUST(cu.cuGraphDestroy(graph));
        MUST(cu.cuGraphLaunch(made, stream));
    }
    printf("100 graphs counted to %u\n", counted());
    MUST(cu.cuGraphExecDestroy(made));
    MUST(cu.cuMemFreeAsync(output, stream));
    trim_behind_all();
    say_held("at the end", 0);
}

static atomic_int is_open;

static void wait_until_open(void *unused)
{
    while (!atomic_load(&is_open))
        usleep(1000);
}

/* The graph is gone, but what the program did with its output is still to come. */
CASE(graph_memory, output_in_use)
{
    CUdeviceptr left;
    CUgraph graph = capture(&left);
    CUgraphExec made = instantiate(graph);
    MUST(cu.cuGraphDestroy(graph));
    MUST(cu.cuGraphLaunch(made, stream));
    MUST(cu.cuLaunchHostFunc(stream, wait_until_open, NULL));
    MUST(add_one(left, 1024, stream));
    MUST(cu.cuMemcpyDtoDAsync(kept, left, 4096, stream));
    MUST(cu.cuMemFreeAsync(left, stream));
    MUST(cu.cuGraphExecDestroy(made));
    usleep(300000);
    say_held("while it is used", 1);
    atomic_store(&is_open, 1);
    printf("counted to %u\n", counted());
    say_held("without", 0);
}

/* The launch is under way when its graph is destroyed. */
CASE(graph_memory, in_flight)
{
    CUgraph graph = capture(NULL);
    CUgraphExec made = instantiate(graph);
    MUST(cu.cuGraphDestroy(graph));
    MUST(cu.cuLaunchHostFunc(stream, wait_until_open, NULL));
    MUST(cu.cuGraphLaunch(made, stream));
    MUST(cu.cuGraphExecDestroy(made));
    usleep(300000);
    say_held("before the launch has run", 1);
    atomic_store(&is_open, 1);
    printf("counted to %u\n", counted());
    say_held("without", 0);
}

/* The first graph's output is read and freed by the second one. */
CASE(graph_memory, freed_by_another)
{
    CUdeviceptr left;
    CUgraph graph = capture(&left), second;
    CUgraphExec made = instantiate(graph);
    MUST(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    MUST(add_one(left, 1024, stream));
    MUST(cu.cuMemcpyDtoDAsync(kept, left, 4096, stream));
    MUST(cu.cuMemFreeAsync(left, stream));
    MUST(cu.cuStreamEndCapture(stream, &second));
    CUgraphExec reader = instantiate(second);
    MUST(cu.cuGraphDestroy(second));
    MUST(cu.cuGraphLaunch(made, stream));
    MUST(cu.cuStreamSynchronize(stream));
    MUST(cu.cuGraphDestroy(graph));
    MUST(cu.cuGraphExecDestroy(made));
    usleep(300000);
    MUST(cu.cuGraphLaunch(reader, stream));
    printf("counted to %u\n", counted());
    say_held("with the second graph", 1);
    MUST(cu.cuGraphExecDestroy(reader));
    trim_behind_all();
    say_held("without", 0);
}

CASE(graph_memory, failed)
{
    CUgraph graph;
    CUdeviceptr buffer;
    MUST(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    MUST(cu.cuMemAllocAsync(&buffer, BIG, stream));
    MUST(cu.cuMemFreeAsync(buffer, stream));
    say("synchronise", cu.cuStreamSynchronize(stream));
    say("end of the capture", cu.cuStreamEndCapture(stream, &graph));
    say_held("after a capture that failed", 0);
}

CASE(graph_memory, conditional)
{
    CUgraph graph = capture(NULL);
    CUgraphConditionalHandle handle;
    CUcontext context;
    MUST(cu.cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cu.cuGraphConditionalHandleCreate(&handle, graph, context, 1, 0));
    MUST(cu.cuGraphDestroy(graph));
    say_held("after a graph with a condition", 0);
}

CASE(graph_memory, late)
{
    CUdeviceptr buffer;
    CUgraph graph;
    MUST(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    MUST(cu.cuMemAllocAsync(&buffer, BIG, stream));
    MUST(cu.cuMemFreeAsync(buffer, stream));
    MUST(cu.cuStreamEndCapture(stream, &graph));
    MUST(cu.cuGraphDestroy(graph));
    say_held("without", 0);
    MUST(store(buffer + 100, 1, stream));
    say("late access", cu.cuStreamSynchronize(stream));
}

/* Threads that capture, launch, free and destroy at once. */
static void *capture_often(void *argument)
{
    CUdeviceptr own, left, within;
    CUgraph graph;
    unsigned *count = argument, word = 0;
    CUcontext context;
    MUST(cu.cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cu.cuCtxSetCurrent(context));
    CUstream my_stream = new_stream();
    MUST(cu.cuMemAllocAsync(&own, 4096, my_stream));
    MUST(cu.cuMemsetD32Async(own, 0, 1024, my_stream));
    for (int i = 0; i < 50; i++) {
        MUST(cu.cuStreamBeginCapture(my_stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        MUST(cu.cuMemAllocAsync(&left, 4096, my_stream));
        MUST(cu.cuMemAllocAsync(&within, 4096, my_stream));
        MUST(cu.cuMemcpyDtoDAsync(within, own, 4096, my_stream));
        MUST(add_one(within, 1024, my_stream));
        MUST(cu.cuMemcpyDtoDAsync(left, within, 4096, my_stream));
        MUST(cu.cuMemFreeAsync(within, my_stream));
        MUST(cu.cuStreamEndCapture(my_stream, &graph));
        CUgraphExec made = instantiate(graph);
        MUST(cu.cuGraphLaunch(made, my_stream));
        MUST(cu.cuMemcpyDtoDAsync(own, left, 4096, my_stream));
        if (i % 2)
            MUST(cu.cuGraphExecDestroy(made));
        MUST(cu.cuMemFreeAsync(left, my_stream));
        if (i % 2 == 0)
            MUST(cu.cuGraphExecDestroy(made));
        MUST(cu.cuGraphDestroy(graph));
        MUST(cu.cuStreamSynchronize(my_stream));
    }
    MUST(cu.cuMemcpyDtoHAsync(&word, own, 4, my_stream));
    MUST(cu.cuStreamSynchronize(my_stream));
    MUST(cu.cuMemFreeAsync(own, my_stream));
    *count = word;
    return NULL;
}

CASE(graph_memory, threads)
{
    enum { THREADS = 4 };
    pthread_t ids[THREADS];
    unsigned counts[THREADS], sum = 0;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&ids[i], NULL, capture_often, &counts[i]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
        sum += counts[i];
    }
    MUST(cu.cuCtxSynchronize());
    trim();
    printf("counted to %u\n", sum);
    say_held("at the end", 0);
}

STORY(graph_memory)
{
    begin();
    return play_case(count, arguments);
}
