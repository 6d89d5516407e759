/* Which frees wait, and for what. */
#include "contract.h"

#define FREE                                                                                                                   \
    "cuda.h, cuMemFree: no implicit synchronisation for memory of cuMemAllocAsync; for all other pointers it may synchronise"
#define FREE_ASYNC "cuda.h, cuMemFreeAsync: inserts a free operation into the stream"

PROMISE(free_plain, 1, FREE)
{
    CUdeviceptr pointer = plain_memory(1 << 20), small = plain_memory(1);
    BESIDE_WORK(cuMemFree(pointer));
    BESIDE_WORK(cuMemFree(small));
}

PROMISE(free_pitched, 1, FREE)
{
    CUdeviceptr pointer;
    size_t pitch;
    MUST(cuMemAllocPitch(&pointer, &pitch, 100, 10, 4));
    BESIDE_WORK(cuMemFree(pointer));
}

/* Until not even the driver's cuMemAlloc finds any. */
static void take_all(void)
{
    CUmemGenericAllocationHandle handle;
    for (size_t bytes = share(50); bytes >= (size_t)2 << 20; bytes = bytes / 2 >> 21 << 21) {
        while (cuMemCreate(&handle, bytes, &properties, 0) == CUDA_SUCCESS)
            ;
    }
}

PROMISE(free_on_a_full_device, 1, FREE)
{
    CUstream stream = stream_new();
    CUdeviceptr pointer = plain_memory(64 << 20);
    capture_begin(stream);
    capture_end(stream);
    held(stream);
    let_go();
    take_all();
    held(stream);
    TIMED(cuMemFree(pointer));
}

PROMISE(free_pool, 1, FREE)
{
    CUstream stream = stream_new();
    CUdeviceptr pointer = ready_memory(1 << 20, stream);
    BESIDE_WORK(cuMemFree(pointer));
}

PROMISE(free_own_pool, 1, FREE)
{
    CUdeviceptr pointer;
    CUstream stream = stream_new();
    CUmemoryPool pool = pool_new(0, 0);
    MUST(cuMemAllocFromPoolAsync(&pointer, 1 << 20, pool, stream));
    MUST(cuStreamSynchronize(stream));
    BESIDE_WORK(cuMemFree(pointer));
}

PROMISE(free_pool_beside_own_work, 1, FREE)
{
    CUstream stream = stream_new();
    CUdeviceptr pointer = pool_memory(1 << 20, stream);
    held(stream);
    TIMED(cuMemFree(pointer));
}

PROMISE(free_async, 1, FREE_ASYNC)
{
    CUdeviceptr pointers[3];
    CUstream stream = stream_new();
    MUST(cuMemAllocAsync(&pointers[0], 1 << 20, stream));
    MUST(cuMemAllocAsync(&pointers[1], 1 << 20, stream));
    MUST(cuMemAlloc(&pointers[2], 1 << 20));
    MUST(cuStreamSynchronize(stream));
    BESIDE_WORK(cuMemFreeAsync(pointers[0], stream));
    held(stream);
    TIMED(cuMemFreeAsync(pointers[1], stream));
    held(stream);
    TIMED(cuMemFreeAsync(pointers[2], stream));
}

PROMISE(free_other_context, 1, FREE)
{
    CUcontext first = primary(0), second;
    CUdeviceptr pointer = plain_memory(1 << 20), other = plain_memory(1 << 20);
    MUST(cuCtxCreate(&second, NULL, 0, 0));
    held(stream_new());
    puts("of the primary context, from another one that works:");
    TIMED(cuMemFree(pointer));
    MUST(cuCtxSetCurrent(first));
    CUstream stream = stream_new();
    held(stream);
    MUST(cuCtxSetCurrent(second));
    puts("of the primary context, which works, from another one:");
    TIMED(cuMemFree(other));
}

PROMISE(free_no_context, 1, "cuda.h, cuMemFree: returns INVALID_CONTEXT among others; which of them is asked of the driver")
{
    CUstream stream = stream_new();
    CUcontext context = primary(0);
    CUdeviceptr plain = plain_memory(1000), pool = ready_memory(1000, stream);
    MUST(cuCtxSetCurrent(NULL));
    ASK(cuMemFree(plain));
    ASK(cuMemFreeAsync(pool, NULL));
    ASK(cuMemFreeAsync(pool, CU_STREAM_PER_THREAD));
    ASK(cuMemFreeAsync(pool, stream));
    MUST(cuCtxSetCurrent(context));
    ASK(cuMemFree(plain));
    ASK(cuMemFree(pool));
}

PROMISE(free_other_device, 2, FREE)
{
    CUdeviceptr pointers[3];
    CUcontext first = primary(0), second = primary(1);
    CUstream streams[2];
    streams[1] = stream_new();
    for (int i = 0; i < 3; i++)
        MUST(cuMemAlloc(&pointers[i], 1 << 20));
    MUST(cuCtxSetCurrent(first));
    streams[0] = stream_new();
    held(streams[0]);
    puts("memory of device 1, while device 0 works and is current:");
    TIMED(cuMemFree(pointers[0]));
    MUST(cuCtxSetCurrent(second));
    held(streams[1]);
    MUST(cuCtxSetCurrent(first));
    puts("memory of device 1, which works, while device 0 is current:");
    TIMED(cuMemFree(pointers[1]));
    held(streams[0]);
    MUST(cuCtxSetCurrent(second));
    puts("memory of device 1, which is current, while device 0 works:");
    TIMED(cuMemFree(pointers[2]));
}

PROMISE(free_async_other_device, 2, FREE_ASYNC)
{
    CUcontext first = primary(0);
    CUstream stream = stream_new();
    CUdeviceptr pointer = ready_memory(1 << 20, stream);
    primary(1);
    CUstream other = stream_new();
    ASK(cuMemFreeAsync(pointer, other));
    MUST(cuStreamSynchronize(other));
    MUST(cuCtxSetCurrent(first));
    MUST(cuMemAllocAsync(&pointer, 1 << 20, stream));
    MUST(cuStreamSynchronize(stream));
    primary(1);
    ASK(cuMemFreeAsync(pointer, stream));
    ASK(cuMemFreeAsync(pointer, stream));
    MUST(cuStreamSynchronize(stream));
}

/* ---- other calls that must not wait ---- */

PROMISE(allocations_beside_work, 1, "cuda.h, cuMemAllocAsync: inserts an allocation operation into the stream")
{
    CUdeviceptr pointer;
    CUstream stream = stream_new();
    size_t pitch;
    BESIDE_WORK(cuMemAlloc(&pointer, 3 << 20));
    BESIDE_WORK(cuMemAlloc(&pointer, 100));
    BESIDE_WORK(cuMemAllocPitch(&pointer, &pitch, 100, 100, 4));
    BESIDE_WORK(cuMemAllocAsync(&pointer, 3 << 20, stream));
    held(stream);
    TIMED(cuMemAllocAsync(&pointer, 3 << 20, stream));
}

PROMISE(ends_beside_work, 1, "cuda.h, cuStreamDestroy: returns immediately; pools: cuMemPoolTrimTo releases what it safely can")
{
    CUstream stream = stream_new();
    size_t free_bytes, total;
    CUmemoryPool pool = pool_of_device(), own = pool_new(0, 0);
    CUdeviceptr pointer = pool_memory(1 << 20, stream);
    free_and_await(pointer, stream);
    BESIDE_WORK(cuMemPoolTrimTo(pool, 0));
    BESIDE_WORK(cuMemPoolDestroy(own));
    BESIDE_WORK(cuMemGetInfo(&free_bytes, &total));
    CUstream other = stream_new();
    held(other);
    TIMED(cuStreamDestroy(stream));
    primary(0); /* retains it again */
    BESIDE_WORK(cuDevicePrimaryCtxRelease(0));
}
