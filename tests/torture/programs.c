/*
 * Steps that use more of the API than the model knows, each on memory and streams of its own in the primary context of device
 * 0. What they find there is noted. Only in hard surroundings.
 */
#include "surround.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS_MOST 16384

static CUstream streams[2];
static uint32_t host[WORDS_MOST]; /* copies on their way; not on the stack, which may be small */

static CUfunction kernel_named(struct world *world, const char *name)
{
    CUfunction function;
    MUST(world, cu.cuModuleGetFunction(&function, world->contexts[0].kernels.module, name));
    return function;
}

static CUresult launch(CUfunction function, CUstream stream, uint32_t threads, void **arguments)
{
    return cu.cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, stream, arguments, NULL);
}

static void fill(struct world *world, CUstream stream, CUdeviceptr to, size_t bytes, uint32_t value)
{
    MUST(world, launch_fill(&world->contexts[0].kernels, stream, to, bytes, value, 1));
}

static uint64_t hash_of_host(size_t bytes)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ ((const unsigned char *)host)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Notes what a call has returned and, once all is done, what the memory holds. */
static void note_call(struct world *world, const char *name, CUresult result, CUdeviceptr from, size_t bytes)
{
    note(name, result);
    MUST(world, cu.cuCtxSynchronize());
    MUST(world, cu.cuMemcpyDtoH(host, from, bytes));
    note(name, hash_of_host(bytes));
}

/* ---- memory of a step ---- */

struct piece {
    CUdeviceptr address;
    size_t bytes;
    enum { SYNCHRONOUS, ORDERED, MANAGED, PITCHED } kind;
};

static size_t draw_bytes(struct world *world)
{
    static const size_t bytes[] = {4, 100, 1000, 4096, 10000, 65536};
    return bytes[pick(world, 6)];
}

static struct piece make(struct world *world)
{
    struct piece piece = {.bytes = draw_bytes(world), .kind = pick(world, 8) % 6 % 4}; /* mostly the first two */
    size_t pitch;
    context_enter(world, 0);
    if (piece.kind == SYNCHRONOUS)
        MUST(world, cu.cuMemAlloc(&piece.address, piece.bytes));
    else if (piece.kind == ORDERED)
        MUST(world, cu.cuMemAllocAsync(&piece.address, piece.bytes, streams[0]));
    else if (piece.kind == MANAGED)
        MUST(world, cu.cuMemAllocManaged(&piece.address, piece.bytes, CU_MEM_ATTACH_GLOBAL));
    else
        MUST(world, cu.cuMemAllocPitch(&piece.address, &pitch, piece.bytes, 1, 4));
    fill(world, streams[0], piece.address, piece.bytes, pick(world, 1000));
    MUST(world, cu.cuStreamSynchronize(streams[0]));
    return piece;
}

/* One in four stays for ever. */
static int drop(struct world *world, const struct piece *piece)
{
    if (chance(world, 75))
        MUST(world, piece->kind == ORDERED ? cu.cuMemFreeAsync(piece->address, streams[0]) : cu.cuMemFree(piece->address));
    return 1;
}

/* Many at once, or many one after the other. */
int step_many(struct world *world)
{
    CUdeviceptr held[48];
    unsigned count = 4 + pick(world, 44), at_once = pick(world, 2);
    context_enter(world, 0);
    for (unsigned i = 0; i < count; i++) {
        CUstream stream = streams[pick(world, 2)];
        if (at_once || pick(world, 2)) {
            MUST(world, cu.cuMemAlloc(&held[i], draw_bytes(world)));
            if (!at_once)
                MUST(world, cu.cuMemFree(held[i]));
        } else {
            MUST(world, cu.cuMemAllocAsync(&held[i], draw_bytes(world), stream));
            fill(world, stream, held[i], 4, i);
            MUST(world, cu.cuMemFreeAsync(held[i], stream));
        }
    }
    for (unsigned i = 0; at_once && i < count; i++)
        MUST(world, cu.cuMemFree(held[i]));
    return 1;
}

/* ---- copies, sets, launches ---- */

static CUresult copy(unsigned how, CUdeviceptr to, CUdeviceptr from, size_t bytes, CUcontext context)
{
    size_t rows = bytes / 4 >= 8 ? 8 : 1, width = bytes / rows & ~(size_t)3; /* of `bytes`, as much as rows cover */
    CUDA_MEMCPY2D flat = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = from,
                          .srcPitch = width,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = to,
                          .dstPitch = width,
                          .WidthInBytes = width,
                          .Height = rows};
    CUDA_MEMCPY3D deep = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = from,
                          .srcPitch = width,
                          .srcHeight = rows,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = to,
                          .dstPitch = width,
                          .dstHeight = rows,
                          .WidthInBytes = width,
                          .Height = rows,
                          .Depth = 1};
    switch (how) {
    case 0:
        return cu.cuMemcpyDtoD(to, from, bytes);
    case 1:
        return cu.cuMemcpyDtoDAsync(to, from, bytes, streams[1]);
    case 2:
        return cu.cuMemcpy2D(&flat);
    case 3:
        return cu.cuMemcpy2DAsync(&flat, streams[1]);
    case 4:
        return cu.cuMemcpy2DUnaligned(&flat);
    case 5:
        return cu.cuMemcpy3D(&deep);
    case 6:
        return cu.cuMemcpy3DAsync(&deep, streams[0]);
    case 7:
        return cu.cuMemcpyPeer(to, context, from, context, bytes);
    case 8:
        return cu.cuMemcpyPeerAsync(to, context, from, context, bytes, streams[0]);
    case 9:
        return cu.cuMemcpy(to, from, bytes);
    case 10:
        return cu.cuMemcpyAsync(to, from, bytes, streams[1]);
    default:
        memset(host, (int)(bytes & 255), bytes);
        return cu.cuMemcpyHtoD(to, host, bytes);
    }
}

int step_copy_call(struct world *world)
{
    struct piece to = make(world), from = make(world);
    size_t bytes = to.bytes < from.bytes ? to.bytes : from.bytes;
    note_call(world, "copy", copy(pick(world, 12), to.address, from.address, bytes, world->contexts[0].handle), to.address,
              to.bytes);
    return drop(world, &to) && drop(world, &from);
}

static CUresult set(const struct piece *to, unsigned how, unsigned value)
{
    switch (how) {
    case 0:
        return cu.cuMemsetD8(to->address, (unsigned char)value, to->bytes);
    case 1:
        return cu.cuMemsetD16Async(to->address, (unsigned short)value, to->bytes / 2, streams[0]);
    case 2:
        return cu.cuMemsetD32Async(to->address, value, to->bytes / 4, streams[1]);
    default:
        return cu.cuMemsetD2D8(to->address, to->bytes / 2, (unsigned char)value, 2, 2);
    }
}

int step_set_call(struct world *world)
{
    struct piece to = make(world);
    note_call(world, "set", set(&to, pick(world, 4), pick(world, 1 << 30)), to.address, to.bytes);
    return drop(world, &to);
}

int step_launch_call(struct world *world)
{
    struct piece to = make(world);
    uint64_t words = to.bytes / 4;
    uint32_t value = pick(world, 100), step = 7;
    void *arguments[] = {&to.address, &words, &value, &step};
    CUfunction function = world->contexts[0].kernels.fill;
    CUlaunchAttribute attributes[] = {
        {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, .value = {.programmaticStreamSerializationAllowed = 1}},
        {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value = {.clusterDim = {1, 1, 1}}},
        {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value = {.cooperative = 1}},
    };
    CUlaunchConfig configuration = {.gridDimX = 4,
                                    .gridDimY = 1,
                                    .gridDimZ = 1,
                                    .blockDimX = 64,
                                    .blockDimY = 1,
                                    .blockDimZ = 1,
                                    .hStream = streams[1],
                                    .attrs = &attributes[pick(world, 3)],
                                    .numAttrs = 1};
    unsigned how = pick(world, 4);
    note_call(world, "launch",
              how == 0   ? cu.cuLaunchKernelEx(&configuration, function, arguments, NULL)
              : how == 1 ? cu.cuLaunchCooperativeKernel(function, 4, 1, 1, 64, 1, 1, 0, streams[0], arguments)
                         : launch(function, streams[how - 2], 64, arguments),
              to.address, to.bytes);
    return drop(world, &to);
}

int step_unload(struct world *world)
{
    struct piece to = make(world);
    struct kernels other;
    MUST(world, kernels_load(&other));
    MUST(world, launch_fill(&other, streams[0], to.address, to.bytes, pick(world, 1000), 1));
    MUST(world, cu.cuStreamSynchronize(streams[0]));
    note_call(world, "unload", cu.cuModuleUnload(other.module), to.address, to.bytes);
    return drop(world, &to);
}

/* ---- the host and other streams ---- */

static void count_up(void *counter)
{
    __atomic_add_fetch((uint32_t *)counter, 1, __ATOMIC_RELAXED);
}

static void count_calls(CUstream stream, CUresult result, void *counter)
{
    __atomic_add_fetch((uint32_t *)counter, result == CUDA_SUCCESS ? 1 : 100, __ATOMIC_RELAXED);
}

int step_host_function(struct world *world)
{
    static uint32_t called;
    context_enter(world, 0);
    MUST(world, cu.cuLaunchHostFunc(streams[0], count_up, &called));
    MUST(world, cu.cuStreamAddCallback(streams[1], count_calls, &called, 0));
    MUST(world, cu.cuCtxSynchronize());
    note("host functions", __atomic_load_n(&called, __ATOMIC_RELAXED));
    return 1;
}

/* One stream waits for a word that the other one writes. */
int step_wait_value(struct world *world)
{
    struct piece word = make(world);
    uint32_t value = 1 + pick(world, 100);
    MUST(world, cu.cuMemsetD32(word.address, 0, word.bytes / 4));
    MUST(world, cu.cuCtxSynchronize());
    MUST(world, cu.cuStreamWaitValue32(streams[0], word.address, value, CU_STREAM_WAIT_VALUE_GEQ));
    fill(world, streams[0], word.address + 4, word.bytes - 4, value);
    note_call(world, "wait for a value", cu.cuStreamWriteValue32(streams[1], word.address, value, 0), word.address, word.bytes);
    return drop(world, &word);
}

int step_host_memory(struct world *world)
{
    void *pinned, *registered = aligned_alloc(4096, 8192);
    CUdeviceptr seen;
    need("aligned_alloc", registered != NULL);
    context_enter(world, 0);
    MUST(world, cu.cuMemHostAlloc(&pinned, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    MUST(world, cu.cuMemHostGetDevicePointer(&seen, pinned, 0));
    fill(world, streams[0], seen, 4000, pick(world, 1000));
    MUST(world, cu.cuMemHostRegister(registered, 8192, CU_MEMHOSTREGISTER_DEVICEMAP));
    MUST(world, cu.cuStreamSynchronize(streams[0]));
    memcpy(registered, pinned, 4000);
    memcpy(host, registered, 4000);
    note("host memory", hash_of_host(4000));
    MUST(world, cu.cuMemHostUnregister(registered));
    MUST(world, cu.cuMemFreeHost(pinned));
    free(registered);
    return 1;
}

/* ---- graphs: captured and made by hand, with memory of their own, updated, and with other graphs in them ---- */

static void launch_graph(struct world *world, CUgraphExec executable)
{
    MUST(world, cu.cuGraphLaunch(executable, streams[0]));
}

static void end_graph(struct world *world, CUgraphExec executable, CUgraph graph)
{
    launch_graph(world, executable);
    MUST(world, cu.cuStreamSynchronize(streams[0]));
    MUST(world, cu.cuGraphExecDestroy(executable));
    MUST(world, cu.cuGraphDestroy(graph));
}

static void launch_twice(struct world *world, CUgraph graph)
{
    CUgraphExec executable;
    MUST(world, cu.cuGraphInstantiateWithFlags(&executable, graph, 0));
    launch_graph(world, executable);
    end_graph(world, executable, graph);
}

static void capture(struct world *world, CUdeviceptr to)
{
    CUgraph graph;
    CUdeviceptr own;
    MUST(world, cu.cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    MUST(world, cu.cuMemAllocAsync(&own, 4000, streams[0]));
    fill(world, streams[0], own, 4000, 5);
    MUST(world, cu.cuMemsetD32Async(to, pick(world, 1000), 500, streams[0]));
    MUST(world, cu.cuMemcpyDtoDAsync(to + 2000, own, 2000, streams[0]));
    MUST(world, cu.cuMemFreeAsync(own, streams[0]));
    MUST(world, cu.cuStreamEndCapture(streams[0], &graph));
    launch_twice(world, graph);
}

static void add_set(struct world *world, CUgraph graph, CUgraphNode *node, CUdeviceptr to)
{
    CUDA_MEMSET_NODE_PARAMS parameters = {.dst = to, .value = pick(world, 1000), .elementSize = 4, .width = 100, .height = 1};
    MUST(world, cu.cuGraphAddMemsetNode(node, graph, NULL, 0, &parameters, world->contexts[0].handle));
}

/* A kernel behind a set, launched, given another value, launched again. */
static void update(struct world *world, CUdeviceptr to)
{
    CUgraph graph;
    CUgraphExec executable;
    CUgraphNode set, kernel;
    uint64_t words = 1000;
    uint32_t value = pick(world, 1000), step = 1;
    CUDA_KERNEL_NODE_PARAMS parameters = {.func = world->contexts[0].kernels.fill,
                                          .gridDimX = 1,
                                          .gridDimY = 1,
                                          .gridDimZ = 1,
                                          .blockDimX = 1,
                                          .blockDimY = 1,
                                          .blockDimZ = 1,
                                          .kernelParams = (void *[]){&to, &words, &value, &step}};
    MUST(world, cu.cuGraphCreate(&graph, 0));
    add_set(world, graph, &set, to);
    MUST(world, cu.cuGraphAddKernelNode(&kernel, graph, &set, 1, &parameters));
    MUST(world, cu.cuGraphInstantiateWithFlags(&executable, graph, 0));
    launch_graph(world, executable);
    value += 7;
    MUST(world, cu.cuGraphExecKernelNodeSetParams(executable, kernel, &parameters));
    end_graph(world, executable, graph);
}

static void nest(struct world *world, CUdeviceptr to)
{
    CUgraph inner, outer;
    CUgraphNode set, child;
    MUST(world, cu.cuGraphCreate(&inner, 0));
    MUST(world, cu.cuGraphCreate(&outer, 0));
    add_set(world, inner, &set, to);
    MUST(world, cu.cuGraphAddChildGraphNode(&child, outer, NULL, 0, inner));
    MUST(world, cu.cuGraphDestroy(inner));
    launch_twice(world, outer);
}

int step_graph_call(struct world *world)
{
    static void (*const ways[])(struct world * world, CUdeviceptr to) = {capture, update, nest};
    CUdeviceptr to;
    context_enter(world, 0);
    MUST(world, cu.cuMemAlloc(&to, 4000));
    MUST(world, cu.cuMemsetD8(to, 1, 4000));
    MUST(world, cu.cuCtxSynchronize());
    ways[pick(world, 3)](world, to);
    note_call(world, "graph", CUDA_SUCCESS, to, 4000);
    MUST(world, cu.cuMemFree(to));
    return 1;
}

/* ---- the beginning and the end ---- */

void programs_begin(struct world *world)
{
    static uint32_t counter;
    context_enter(world, 0);
    for (int i = 0; i < 2; i++)
        MUST(world, cu.cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    CUstream used[] = {streams[0], streams[1], CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
    for (int i = 0; i < 4; i++)
        MUST(world, cu.cuLaunchHostFunc(used[i], count_up, &counter));
    MUST(world, cu.cuCtxSynchronize());
}

void programs_end(struct world *world)
{
    context_enter(world, 0);
    for (int i = 0; i < 2; i++)
        MUST(world, cu.cuStreamDestroy(streams[i]));
}

void spin(struct world *world)
{
    static uint32_t flag;
    uint32_t *never = &flag;
    note("spin", launch(kernel_named(world, "cusim_spin"), streams[0], 1, (void *[]){&never}));
}

/* Each of these ends with a call that fails, without cufence as well. */
void plant(struct world *world)
{
    const size_t bytes = 2 << 20;
    struct hosted *hosted;
    CUdeviceptr address, null = 0;
    context_enter(world, 0);
    MUST(world, cu.cuMemAlloc(&address, bytes));
    MUST(world, cu.cuMemHostAlloc((void **)&hosted, sizeof *hosted, CU_MEMHOSTALLOC_DEVICEMAP));
    CUdeviceptr last = address + bytes - 4 * 63; /* 64 words from there are one too many */
    uint32_t words = 64;
    player.record->is_planted = 1;
    *hosted = (struct hosted){last, words};
    switch (player.plan->planted) {
    case PLANTED_FREE:
        note("bad free", cu.cuMemFree(address + 8) != CUDA_SUCCESS);
        return;
    case PLANTED_COPY:
        note("bad copy", cu.cuMemcpyDtoH(host, address, bytes + 1) != CUDA_SUCCESS);
        return;
    case PLANTED_NULL:
        MUST(world, launch(kernel_named(world, "store"), streams[0], 1, (void *[]){&null, &words}));
        break;
    case PLANTED_HOSTED:
        MUST(world, launch(kernel_named(world, "store_hosted"), streams[0], words, (void *[]){&hosted}));
        break;
    case PLANTED_OVERRUN:
        MUST(world, launch(kernel_named(world, "store"), streams[0], words, (void *[]){&last, &words}));
        break;
    default:
        MUST(world, launch(kernel_named(world, "hang_later"), streams[0], words, (void *[]){&last, &words}));
    }
    note("fault", cu.cuCtxSynchronize());
}
