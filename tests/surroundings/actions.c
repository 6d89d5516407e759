/* Steps with memory, copies, launches and streams. */
#include "play.h"

#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <unistd.h>

CUstream act_streams[2];

static CUcontext context;
static CUmodule module;
static uint32_t host[WORDS_MOST]; /* copies on their way; not on the stack, which may be small */

struct hosted { /* kernels.c */
    CUdeviceptr to;
    uint32_t words;
};

CUfunction act_kernel(const char *name)
{
    CUfunction function;
    NEED(cu.cuModuleGetFunction(&function, module, name));
    return function;
}

static CUresult launch(CUfunction function, CUstream stream, uint32_t threads, void **arguments)
{
    return cu.cuLaunchKernel(function, (threads + 63) / 64, 1, 1, threads < 64 ? threads : 64, 1, 1, 0, stream, arguments,
                             NULL);
}

CUresult act_fill(CUstream stream, CUdeviceptr to, uint32_t words, uint32_t value)
{
    return launch(act_kernel("fill"), stream, 1, (void *[]){&to, &words, &value});
}

static uint64_t hash_of_host(size_t bytes)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ ((const unsigned char *)host)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

uint64_t act_hash(CUdeviceptr from, size_t bytes)
{
    NEED(cu.cuMemcpyDtoH(host, from, bytes));
    return hash_of_host(bytes);
}

/* ---- buffers that live for several steps ---- */

static struct buffer {
    CUdeviceptr address;
    size_t bytes;
    enum { SYNCHRONOUS, ORDERED, MANAGED, PITCHED } kind;
} buffers[8];

#define BUFFERS (sizeof buffers / sizeof *buffers)

static struct buffer *any_buffer(void)
{
    for (unsigned i = 0, at = pick(BUFFERS); i < BUFFERS; i++) {
        if (buffers[(at + i) % BUFFERS].address)
            return &buffers[(at + i) % BUFFERS];
    }
    return NULL;
}

static size_t draw_bytes(void)
{
    static const size_t bytes[] = {4, 100, 1000, 4096, 10000, 65536};
    return bytes[pick(6)] & ~(size_t)3;
}

static void free_buffer(struct buffer *buffer)
{
    if (buffer->kind == ORDERED) {
        NEED(cu.cuMemFreeAsync(buffer->address, act_streams[0]));
    } else {
        NEED(cu.cuMemFree(buffer->address));
    }
    buffer->address = 0;
}

static void allocate(struct buffer *buffer)
{
    size_t pitch;
    buffer->bytes = draw_bytes();
    buffer->kind = pick(8);
    if (buffer->kind > PITCHED)
        buffer->kind = pick(2) ? SYNCHRONOUS : ORDERED;
    if (buffer->kind == SYNCHRONOUS)
        NEED(cu.cuMemAlloc(&buffer->address, buffer->bytes));
    else if (buffer->kind == ORDERED)
        NEED(cu.cuMemAllocAsync(&buffer->address, buffer->bytes, act_streams[0]));
    else if (buffer->kind == MANAGED)
        NEED(cu.cuMemAllocManaged(&buffer->address, buffer->bytes, CU_MEM_ATTACH_GLOBAL));
    else
        NEED(cu.cuMemAllocPitch(&buffer->address, &pitch, buffer->bytes, 1, 4));
    NEED(act_fill(act_streams[0], buffer->address, (uint32_t)(buffer->bytes / 4), pick(1000)));
    NEED(cu.cuStreamSynchronize(act_streams[0]));
}

static void act_on_buffer(void)
{
    struct buffer *buffer = &buffers[pick(BUFFERS)];
    if (buffer->address) {
        step_record("contents", act_hash(buffer->address, buffer->bytes));
        free_buffer(buffer);
    } else {
        allocate(buffer);
    }
}

/* Many at once, or many one after the other. */
static void act_churn(void)
{
    CUdeviceptr held[48];
    unsigned count = 4 + pick(44), at_once = pick(2);
    for (unsigned i = 0; i < count; i++) {
        CUstream stream = act_streams[pick(2)];
        if (at_once || pick(2)) {
            NEED(cu.cuMemAlloc(&held[i], draw_bytes()));
            if (!at_once)
                NEED(cu.cuMemFree(held[i]));
        } else {
            NEED(cu.cuMemAllocAsync(&held[i], draw_bytes(), stream));
            NEED(act_fill(stream, held[i], 1, i));
            NEED(cu.cuMemFreeAsync(held[i], stream));
        }
    }
    for (unsigned i = 0; at_once && i < count; i++)
        NEED(cu.cuMemFree(held[i]));
}

/* ---- copies and sets ---- */

static CUresult copy(unsigned how, const struct buffer *to, const struct buffer *from, size_t bytes)
{
    size_t rows = bytes / 4 >= 8 ? 8 : 1, width = bytes / rows & ~(size_t)3; /* of `bytes`, as much as rows cover */
    CUDA_MEMCPY2D flat = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = from->address,
                          .srcPitch = width,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = to->address,
                          .dstPitch = width,
                          .WidthInBytes = width,
                          .Height = rows};
    CUDA_MEMCPY3D deep = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = from->address,
                          .srcPitch = width,
                          .srcHeight = rows,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = to->address,
                          .dstPitch = width,
                          .dstHeight = rows,
                          .WidthInBytes = width,
                          .Height = rows,
                          .Depth = 1};
    switch (how) {
    case 0:
        return cu.cuMemcpyDtoD(to->address, from->address, bytes);
    case 1:
        return cu.cuMemcpyDtoDAsync(to->address, from->address, bytes, act_streams[1]);
    case 2:
        return cu.cuMemcpy2D(&flat);
    case 3:
        return cu.cuMemcpy2DAsync(&flat, act_streams[1]);
    case 4:
        return cu.cuMemcpy2DUnaligned(&flat);
    case 5:
        return cu.cuMemcpy3D(&deep);
    case 6:
        return cu.cuMemcpy3DAsync(&deep, act_streams[0]);
    case 7:
        return cu.cuMemcpyPeer(to->address, context, from->address, context, bytes);
    case 8:
        return cu.cuMemcpyPeerAsync(to->address, context, from->address, context, bytes, act_streams[0]);
    case 9:
        return cu.cuMemcpy(to->address, from->address, bytes);
    case 10:
        return cu.cuMemcpyAsync(to->address, from->address, bytes, act_streams[1]);
    default:
        memset(host, (int)pick(256), bytes);
        return cu.cuMemcpyHtoD(to->address, host, bytes);
    }
}

static void act_copy(void)
{
    struct buffer *to = any_buffer(), *from = any_buffer();
    if (!to || to == from)
        return;
    step_record("copy", copy(pick(12), to, from, to->bytes < from->bytes ? to->bytes : from->bytes));
    NEED(cu.cuCtxSynchronize());
    step_record("copied", act_hash(to->address, to->bytes));
}

static CUresult set(const struct buffer *to)
{
    switch (pick(4)) {
    case 0:
        return cu.cuMemsetD8(to->address, (unsigned char)pick(256), to->bytes);
    case 1:
        return cu.cuMemsetD16Async(to->address, (unsigned short)pick(65536), to->bytes / 2, act_streams[0]);
    case 2:
        return cu.cuMemsetD32Async(to->address, pick(1 << 30), to->bytes / 4, act_streams[1]);
    default:
        return cu.cuMemsetD2D8(to->address, to->bytes / 2, (unsigned char)pick(256), 2, 2);
    }
}

static void act_set(void)
{
    struct buffer *to = any_buffer();
    if (!to)
        return;
    step_record("set", set(to));
    NEED(cu.cuCtxSynchronize());
    step_record("has been set", act_hash(to->address, to->bytes));
}

/* ---- launches ---- */

static void act_launch(void)
{
    struct buffer *buffer = any_buffer();
    if (!buffer)
        return;
    uint32_t words = (uint32_t)(buffer->bytes / 4 < 512 ? buffer->bytes / 4 : 512), by = pick(100);
    void *arguments[] = {&buffer->address, &words, &by};
    CUfunction function = act_kernel("add");
    CUlaunchAttribute attributes[] = {
        {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, .value = {.programmaticStreamSerializationAllowed = 1}},
        {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value = {.clusterDim = {1, 1, 1}}},
        {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value = {.cooperative = 1}},
    };
    CUlaunchConfig configuration = {.gridDimX = (words + 63) / 64,
                                    .gridDimY = 1,
                                    .gridDimZ = 1,
                                    .blockDimX = 64,
                                    .blockDimY = 1,
                                    .blockDimZ = 1,
                                    .hStream = act_streams[1],
                                    .attrs = &attributes[pick(3)],
                                    .numAttrs = 1};
    CUresult result;
    switch (pick(4)) {
    case 0:
        result = cu.cuLaunchKernelEx(&configuration, function, arguments, NULL);
        break;
    case 1:
        result = cu.cuLaunchCooperativeKernel(function, (words + 63) / 64, 1, 1, 64, 1, 1, 0, act_streams[0], arguments);
        break;
    default:
        result = launch(function, act_streams[pick(2)], words, arguments);
    }
    step_record("launch", result);
    NEED(cu.cuCtxSynchronize());
    step_record("launched", act_hash(buffer->address, buffer->bytes));
}

/* Memory that is freed, and that comes back, while a kernel still works on it. */
static void act_nap(void)
{
    CUdeviceptr address[3];
    uint32_t words = 1000, us = 200 + pick(1500);
    CUfunction function = act_kernel("nap");
    for (int i = 0; i < 3; i++) {
        NEED(cu.cuMemAllocAsync(&address[i], words * 4, act_streams[0]));
        NEED(launch(function, act_streams[0], 1, (void *[]){&address[i], &words, &us}));
        if (i < 2)
            NEED(cu.cuMemFreeAsync(address[i], act_streams[0]));
    }
    NEED(cu.cuStreamSynchronize(act_streams[0]));
    step_record("after a nap", act_hash(address[2], words * 4));
    NEED(cu.cuMemFree(address[2]));
}

static void act_unload(void)
{
    CUmodule other;
    CUfunction function;
    CUdeviceptr address;
    uint32_t words = 64, value = pick(1000);
    NEED(cu.cuMemAlloc(&address, 256));
    NEED(cu.cuModuleLoadData(&other, "an image"));
    NEED(cu.cuModuleGetFunction(&function, other, "fill"));
    NEED(launch(function, act_streams[0], 1, (void *[]){&address, &words, &value}));
    NEED(cu.cuStreamSynchronize(act_streams[0]));
    NEED(cu.cuModuleUnload(other));
    step_record("unloaded", act_hash(address, 256));
    NEED(cu.cuMemFree(address));
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

static void act_host_function(void)
{
    static uint32_t called;
    NEED(cu.cuLaunchHostFunc(act_streams[0], count_up, &called));
    NEED(cu.cuStreamAddCallback(act_streams[1], count_calls, &called, 0));
    NEED(cu.cuCtxSynchronize());
    step_record("host functions", __atomic_load_n(&called, __ATOMIC_RELAXED));
}

/* One stream waits for a word that the host or the other stream writes. */
static void act_wait_value(void)
{
    CUdeviceptr word;
    uint32_t value = 1 + pick(100);
    NEED(cu.cuMemAlloc(&word, 256));
    NEED(cu.cuMemsetD32(word, 0, 64));
    NEED(cu.cuCtxSynchronize());
    NEED(cu.cuStreamWaitValue32(act_streams[0], word, value, CU_STREAM_WAIT_VALUE_GEQ));
    NEED(act_fill(act_streams[0], word + 4, 63, value));
    NEED(cu.cuStreamWriteValue32(act_streams[1], word, value, 0));
    NEED(cu.cuStreamSynchronize(act_streams[0]));
    step_record("waited", act_hash(word, 256));
    NEED(cu.cuMemFree(word));
}

static void act_host_memory(void)
{
    void *pinned, *registered = aligned_alloc(4096, 8192);
    CUdeviceptr seen;
    need("aligned_alloc", registered != NULL);
    NEED(cu.cuMemHostAlloc(&pinned, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    NEED(cu.cuMemHostGetDevicePointer(&seen, pinned, 0));
    NEED(act_fill(act_streams[0], seen, 1000, pick(1000)));
    NEED(cu.cuMemHostRegister(registered, 8192, CU_MEMHOSTREGISTER_DEVICEMAP));
    NEED(cu.cuStreamSynchronize(act_streams[0]));
    memcpy(registered, pinned, 4000);
    memcpy(host, registered, 4000);
    step_record("host memory", hash_of_host(4000));
    NEED(cu.cuMemHostUnregister(registered));
    NEED(cu.cuMemFreeHost(pinned));
    free(registered);
}

static void act_context(void)
{
    CUcontext other;
    CUdeviceptr address;
    NEED(cu.cuCtxCreate(&other, NULL, 0, 0));
    NEED(cu.cuMemAlloc(&address, 1000));
    NEED(cu.cuMemsetD8(address, 7, 1000));
    step_record("other context", act_hash(address, 1000));
    if (pick(2))
        NEED(cu.cuMemFree(address));
    NEED(cu.cuCtxDestroy(other));
    NEED(cu.cuCtxSetCurrent(context));
}

static void act_stream(void)
{
    CUstream stream;
    CUevent event;
    CUdeviceptr address;
    NEED(cu.cuStreamCreate(&stream, pick(2)));
    NEED(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    NEED(cu.cuMemAllocAsync(&address, 4000, stream));
    NEED(act_fill(stream, address, 1000, pick(1000)));
    NEED(cu.cuEventRecord(event, stream));
    NEED(cu.cuStreamWaitEvent(act_streams[1], event, 0));
    NEED(cu.cuMemFreeAsync(address, act_streams[1]));
    NEED(cu.cuStreamDestroy(stream));
    NEED(cu.cuEventSynchronize(event));
    NEED(cu.cuEventDestroy(event));
}

/* ---- which ---- */

static const struct {
    void (*act)(void);
    int is_plain;       /* without a cancellation point of its own */
    int starts_threads; /* the simulated device has a thread for each stream */
} actions[] = {
    {act_on_buffer, 1, 0}, {act_on_buffer, 1, 0},     {act_on_buffer, 1, 0},  {act_churn, 1, 0},
    {act_copy, 1, 0},      {act_set, 1, 0},           {act_launch, 1, 0},     {act_nap, 1, 0},
    {act_unload, 1, 0},    {act_host_function, 1, 0}, {act_wait_value, 1, 0}, {act_host_memory, 1, 0},
    {act_on_graph, 1, 0},  {act_context, 1, 1},       {act_stream, 1, 1},     {act_on_process, 0, 0},
};

static void act_one(int is_plain)
{
    size_t which;
    do {
        which = pick(sizeof actions / sizeof *actions);
    } while ((is_plain && !actions[which].is_plain) ||
             (surround_has(SURROUNDING_no_processes) && actions[which].starts_threads));
    NEED(cu.cuCtxSetCurrent(context));
    actions[which].act();
}

void act(void)
{
    act_one(0);
}

void act_plainly(void)
{
    act_one(1);
}

void act_begin(void)
{
    NEED(cu.cuInit(0));
    NEED(cu.cuDevicePrimaryCtxRetain(&context, 0));
    NEED(cu.cuCtxSetCurrent(context));
    NEED(cu.cuModuleLoadData(&module, "an image"));
    for (int i = 0; i < 2; i++)
        NEED(cu.cuStreamCreate(&act_streams[i], CU_STREAM_NON_BLOCKING));
    CUstream used[] = {act_streams[0], act_streams[1], NULL};
    static uint32_t counter;
    for (int i = 0; i < 3; i++) /* the simulated device's threads start */
        NEED(cu.cuLaunchHostFunc(used[i], count_up, &counter));
    NEED(cu.cuCtxSynchronize());
}

void act_end(void)
{
    NEED(cu.cuCtxSetCurrent(context));
    for (struct buffer *buffer = buffers; buffer < buffers + BUFFERS; buffer++) {
        if (buffer->address)
            free_buffer(buffer);
    }
    for (int i = 0; i < 2; i++)
        NEED(cu.cuStreamDestroy(act_streams[i]));
    NEED(cu.cuDevicePrimaryCtxReset(0));
}

void act_spin(void)
{
    static uint32_t flag;
    uint32_t *never = &flag;
    step_record("spin", launch(act_kernel("cusim_spin"), act_streams[0], 1, (void *[]){&never}));
}

/* Each of these ends with a call that fails, without cufence as well. */
void act_plant(void)
{
    struct hosted *hosted;
    const size_t bytes = 2 << 20;
    CUdeviceptr address, null = 0;
    NEED(cu.cuCtxSetCurrent(context));
    NEED(cu.cuMemAlloc(&address, bytes));
    NEED(cu.cuMemHostAlloc((void **)&hosted, sizeof *hosted, CU_MEMHOSTALLOC_DEVICEMAP));
    CUdeviceptr last = address + bytes - 4 * 63; /* 64 words from there are one too many */
    uint32_t words = 64;
    player.record->is_planted = 1;
    *hosted = (struct hosted){last, words};
    switch (player.plan->planted) {
    case PLANTED_FREE:
        step_record("bad free", cu.cuMemFree(address + 8) != CUDA_SUCCESS);
        return;
    case PLANTED_COPY:
        step_record("bad copy", cu.cuMemcpyDtoH(host, address, bytes + 1) != CUDA_SUCCESS);
        return;
    case PLANTED_NULL:
        NEED(launch(act_kernel("store"), act_streams[0], 1, (void *[]){&null, &words}));
        break;
    case PLANTED_HOSTED:
        NEED(launch(act_kernel("store_hosted"), act_streams[0], words, (void *[]){&hosted}));
        break;
    case PLANTED_OVERRUN:
        NEED(launch(act_kernel("store"), act_streams[0], words, (void *[]){&last, &words}));
        break;
    default:
        NEED(launch(act_kernel("hang_later"), act_streams[0], words, (void *[]){&last, &words}));
    }
    step_record("fault", cu.cuCtxSynchronize());
}
