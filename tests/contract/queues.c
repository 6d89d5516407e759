/* A stream whose queue is full: whoever submits to it waits. What else waits natively (cuMemAlloc, cuStreamCreate,
 * cuEventCreate and others do; H200, driver 580.159) may wait; what does not wait natively must not. */
#include "contract.h"

#include <pthread.h>

static struct {
    CUcontext context;
    CUstream full, other;
    CUdeviceptr memory, pool, freed, small;
    CUevent event, behind;
    CUfunction function;
    pthread_t thread;
    unsigned submitted; /* atomic */
    int is_filled;      /* atomic: the thread has ended */
} queue;

static CUresult submit(CUstream stream)
{
    uint64_t bytes = 1;
    uint32_t value = 0;
    return cuLaunchKernel(queue.function, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&queue.small, &bytes, &value}, NULL);
}

static void *fill_queue(void *unused)
{
    (void)unused;
    MUST(cuCtxSetCurrent(queue.context));
    for (unsigned i = 0; i < 6000; i++) {
        MUST(submit(queue.full));
        __atomic_add_fetch(&queue.submitted, 1, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&queue.is_filled, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void begin(void)
{
    queue.context = primary(0);
    queue.full = stream_new();
    queue.other = stream_new();
    queue.function = kernel("contract_fill");
    MUST(cuEventCreate(&queue.event, CU_EVENT_DISABLE_TIMING));
    MUST(cuEventCreate(&queue.behind, CU_EVENT_DISABLE_TIMING));
    MUST(cuMemAlloc(&queue.memory, 4096));
    MUST(cuMemAlloc(&queue.small, 4096));
    MUST(cuMemAllocAsync(&queue.pool, 4096, queue.other));
    MUST(cuMemAllocAsync(&queue.freed, 4096, queue.full));
    MUST(cuEventRecord(queue.event, queue.other));
    MUST(cuCtxSynchronize());
}

/* Holds the stream, frees memory on it, and has another thread submit until it waits. */
static void make_full(void)
{
    unsigned before = 1, now;
    held(queue.full);
    MUST(cuEventRecord(queue.behind, queue.full));
    MUST(cuMemFreeAsync(queue.freed, queue.full));
    queue.submitted = 0;
    queue.is_filled = 0;
    if (pthread_create(&queue.thread, NULL, fill_queue, NULL) != 0)
        exit(4);
    do {
        usleep(150000);
        now = __atomic_load_n(&queue.submitted, __ATOMIC_RELAXED);
    } while (now != before && (before = now, 1));
}

static void end(void)
{
    let_go();
    pthread_join(queue.thread, NULL);
    MUST(cuStreamSynchronize(queue.full));
    MUST(cuMemAllocAsync(&queue.freed, 4096, queue.full));
    MUST(cuStreamSynchronize(queue.full));
}

#define BESIDE(call)                                                                                                           \
    do {                                                                                                                       \
        make_full();                                                                                                           \
        timed_begin();                                                                                                         \
        timed_end(#call, call);                                                                                                \
        end();                                                                                                                 \
    } while (0)

PROMISE(full_queue, 1, "CUDA Programming Guide, Asynchronous Execution: nothing is said of a full queue; other streams go on")
{
    CUdeviceptr pointer = 0;
    size_t free_bytes, total;
    begin();
    make_full();
    printf("6000 launches behind a kernel that waits: %s\n", queue.is_filled ? "all submitted" : "the queue is full");
    end();
    BESIDE(cuStreamQuery(queue.other));
    BESIDE(cuEventQuery(queue.event));
    BESIDE(cuEventQuery(queue.behind));
    BESIDE(cuEventRecord(queue.event, queue.other));
    BESIDE(submit(queue.other));
    BESIDE(cuMemsetD8Async(queue.memory, 1, 100, queue.other));
    BESIDE(cuStreamSynchronize(queue.other));
    BESIDE(cuMemAllocAsync(&pointer, 4096, queue.other));
    BESIDE(cuMemAllocAsync(&pointer, 50 << 20, queue.other));
    BESIDE(cuMemFreeAsync(pointer, queue.other));
    BESIDE(cuMemFree(queue.pool));
    BESIDE(cuMemGetInfo(&free_bytes, &total));
    BESIDE(cuCtxSetCurrent(queue.context));
    BESIDE(cuPointerGetAttribute(&pointer, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, queue.memory));
}

PROMISE(full_queue_own, 1,
        "CUDA Programming Guide, Stream Ordered Memory Allocator: an allocation is an operation of the stream")
{
    CUdeviceptr pointer = 0;
    begin();
    BESIDE(cuMemAllocAsync(&pointer, 4096, queue.full));
    BESIDE(cuMemFreeAsync(pointer, queue.full));
}

PROMISE(full_queue_mapping, 1, "cuda.h, virtual memory management: no call of it takes a stream")
{
    const CUmemAccessDesc access = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr range = 0;
    begin();
    BESIDE(cuMemAddressReserve(&range, 2 << 20, 0, 0, 0));
    BESIDE(cuMemCreate(&handle, 2 << 20, &properties, 0));
    BESIDE(cuMemMap(range, 2 << 20, 0, handle, 0));
    BESIDE(cuMemSetAccess(range, 2 << 20, &access, 1));
    BESIDE(cuMemUnmap(range, 2 << 20));
    BESIDE(cuMemRelease(handle));
}

/* A kernel of one's own on a stream that is idle: the device is not full. */
PROMISE(wait_of_host, 1, "cuda.h, cuStreamWaitValue32: the stream waits for the host; other streams go on")
{
    uint32_t *word;
    CUstream waiting = stream_new(), stream = stream_new();
    MUST(cuMemHostAlloc((void **)&word, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    *word = 0;
    CUdeviceptr pointer = pool_memory(1000, stream), other = ready_memory(1000, stream);
    MUST(cuStreamWaitValue32(waiting, (CUdeviceptr)(uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_GEQ));
    ASK(cuMemFree(pointer));
    ASK(cuMemFreeAsync(other, stream));
    ASK(cuMemAllocAsync(&pointer, 1000, stream));
    ASK(cuMemAlloc(&other, 1000));
    ASK(cuMemAlloc(&other, (size_t)1 << 42));
    ASK(cuStreamSynchronize(stream));
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    ASK(cuStreamSynchronize(waiting));
}
