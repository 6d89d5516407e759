/* The results of calls that are wrong, and that nothing else is wrong behind them; and what is told of addresses. */
#include "contract.h"

PROMISE(wrong_frees, 1, "cuda.h, cuMemFree, cuMemFreeAsync: return INVALID_VALUE for what was not allocated")
{
    CUstream stream = stream_new();
    CUdeviceptr pointer = plain_memory(1000), pool = ready_memory(1000, stream);
    ASK(cuMemFree(0));
    ASK(cuMemFreeAsync(0, stream));
    ASK(cuMemFree(0x1000));
    ASK(cuMemFree(pointer + 16));
    ASK(cuMemFree(pool + 16));
    ASK(cuMemFreeAsync(pool + 16, stream));
    ASK(cuMemFreeAsync(pool, stream));
    ASK(cuMemFreeAsync(pool, stream));
    ASK(cuMemFree(pool));
    MUST(cuStreamSynchronize(stream));
    ASK(cuMemFreeAsync(pool, stream));
    ASK(cuMemFree(pointer));
    ASK(cuMemFree(pointer));
    ASK(cuMemFreeAsync(pointer, stream));
}

PROMISE(no_context, 1, "cuda.h: INVALID_CONTEXT where no context is current")
{
    CUstream stream = stream_new();
    size_t pitch, free_bytes, total;
    CUdeviceptr base;
    CUdeviceptr pointer = ready_memory(1000, stream);
    MUST(cuCtxSetCurrent(NULL));
    CUdeviceptr fresh = 0;
    ASK(cuMemAlloc(&fresh, 100));
    ASK(cuMemAllocPitch(&fresh, &pitch, 100, 100, 4));
    ASK(cuMemAllocAsync(&fresh, 100, NULL));
    ASK(cuMemAllocAsync(&fresh, 100, stream));
    ASK(cuMemGetInfo(&free_bytes, &total));
    ASK(cuMemGetAddressRange(&base, &total, pointer));
    ASK(cuMemsetD8(pointer, 1, 100));
    ASK(cuMemsetD8Async(pointer, 1, 100, stream));
    ASK(cuStreamSynchronize(stream));
}

PROMISE(pools_gone, 1, "cuda.h, cuMemPoolDestroy: outstanding allocations live on; the handle is invalid")
{
    CUdeviceptr other;
    CUmemoryPool now, told = NULL;
    CUstream stream = stream_new();
    CUmemoryPool standard = pool_of_device();
    ASK(cuMemPoolDestroy(standard));
    CUmemoryPool pool = pool_new(0, 0);
    MUST(cuDeviceSetMemPool(0, pool));
    CUdeviceptr pointer = pool_memory(1000, stream);
    ASK(cuPointerGetAttribute(&told, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, pointer));
    printf("the pool's: %d\n", told == pool);
    MUST(cuMemsetD8Async(pointer, 5, 1000, stream));
    ASK(cuMemPoolDestroy(pool));
    MUST(cuDeviceGetMemPool(&now, 0));
    printf("the default pool is current: %d\n", now == standard);
    MUST(cuStreamSynchronize(stream));
    printf("%s\n", ends_of(pointer, 1000));
    ASK(cuMemAllocAsync(&other, 1000, stream));
    ASK(cuMemFreeAsync(other, stream));
    ASK(cuMemFreeAsync(pointer, stream));
    ASK(cuStreamSynchronize(stream));
}

PROMISE(peer_pool, 2, "cuda.h, cuMemAllocFromPoolAsync: a pool of another device can be allocated from")
{
    CUdeviceptr pointer;
    CUstream stream = stream_new();
    int device = -1;
    CUmemoryPool pool = pool_new(1, 0);
    ASK(cuMemAllocFromPoolAsync(&pointer, 1000, pool, stream));
    MUST(cuStreamSynchronize(stream));
    ASK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer));
    printf("device %d\n", device);
    ASK(cuMemFreeAsync(pointer, stream));
    ASK(cuStreamSynchronize(stream));
}

/* ---- what is told of addresses ---- */

#define KNOWS                                                                                                                  \
    "cuda.h, cuPointerGetAttributes: for what CUDA does not know, attributes are 0 and the call succeeds; "                    \
    "cuPointerGetAttribute fails"

static void tell(const char *what, CUdeviceptr pointer)
{
    unsigned type = 77, managed = 77;
    int device = 77;
    size_t size = 77;
    CUdeviceptr start = 77, base = 77;
    CUcontext context = (CUcontext)77;
    void *host = (void *)77;
    unsigned long long id = 0;
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                    CU_POINTER_ATTRIBUTE_RANGE_SIZE,  CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                    CU_POINTER_ATTRIBUTE_CONTEXT,     CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                    CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void *data[] = {&type, &device, &size, &start, &context, &managed, &host};
    printf("%s, all: %s", what, result_name(cuPointerGetAttributes(7, wanted, data, pointer)));
    printf(", type %u, device %d, size %zu, starts there %d, context %d, managed %u, host %d\n", type, device, size,
           start == pointer, context != NULL, managed, host != NULL);
    printf("%s, type: %s", what, result_name(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer)));
    printf(", device: %s", result_name(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer)));
    printf(", id: %s", result_name(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, pointer)));
    printf(", range: %s\n", result_name(cuMemGetAddressRange(&base, &size, pointer)));
}

PROMISE(addresses_live, 1, KNOWS)
{
    CUstream stream = stream_new();
    void *host;
    CUdeviceptr pointer = plain_memory(3000000), pool = pool_memory(3000000, stream);
    MUST(cuMemHostAlloc(&host, 1000, 0));
    MUST(cuStreamSynchronize(stream));
    tell("plain", pointer);
    tell("plain, inside", pointer + 1000);
    tell("pool", pool);
    tell("pool, inside", pool + 1000);
    tell("host", (CUdeviceptr)(uintptr_t)host);
}

PROMISE(addresses_freed, 1, KNOWS)
{
    CUdeviceptr pointer = plain_memory(30000000);
    MUST(cuMemFree(pointer));
    tell("freed", pointer);
    tell("freed, inside", pointer + 1000);
}

PROMISE(addresses_never, 1, KNOWS)
{
    static char own;
    tell("0x1000", 0x1000);
    tell("the program's own", (CUdeviceptr)(uintptr_t)&own);
    tell("far away", (CUdeviceptr)1 << 46);
}

PROMISE(addresses_of_parts, 1,
        "cuda.h, cuPointerGetAttribute, CU_POINTER_ATTRIBUTE_BUFFER_ID: unique in the process for each allocation")
{
    CUdeviceptr pointers[2];
    unsigned long long first = 0, again = 0, other = 0;
    MUST(cuMemAlloc(&pointers[0], 1000));
    MUST(cuMemAlloc(&pointers[1], 1000));
    MUST(cuPointerGetAttribute(&first, CU_POINTER_ATTRIBUTE_BUFFER_ID, pointers[0]));
    MUST(cuPointerGetAttribute(&again, CU_POINTER_ATTRIBUTE_BUFFER_ID, pointers[0] + 100));
    MUST(cuPointerGetAttribute(&other, CU_POINTER_ATTRIBUTE_BUFFER_ID, pointers[1]));
    printf("inside the same: %d, another's differs: %d\n", first == again, first != other);
}

PROMISE(dma_buf, 1, "cuda.h, cuMemGetHandleForAddressRange: address and size are multiples of the host's page size")
{
    CUdeviceptr base;
    size_t size;
    int fd = -1, is_supported = 0;
    MUST(cuDeviceGetAttribute(&is_supported, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0));
    printf("supported: %d\n", is_supported);
    CUdeviceptr pointer = plain_memory(4 << 20);
    ASK(cuMemGetHandleForAddressRange(&fd, pointer, 4 << 20, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    MUST(cuMemAlloc(&pointer, 5000001));
    MUST(cuMemGetAddressRange(&base, &size, pointer));
    printf("%zu bytes, starts there: %d\n", size, base == pointer);
    ASK(cuMemGetHandleForAddressRange(&fd, pointer & ~(CUdeviceptr)4095, 5001216, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
}

PROMISE(ipc_handle, 1, "cuda.h, cuIpcGetMemHandle: takes memory of cuMemAlloc")
{
    CUipcMemHandle handle;
    CUdeviceptr pointer = plain_memory(4 << 20);
    ASK(cuIpcGetMemHandle(&handle, pointer));
}

PROMISE(sync_memops, 1, "cuda.h, cuPointerSetAttribute, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS")
{
    int is_on = 1;
    CUdeviceptr pointer = plain_memory(1000);
    ASK(cuPointerSetAttribute(&is_on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, pointer));
}
