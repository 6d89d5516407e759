/* How much memory there is, of the device and of its pools; and how it is aligned. */
#include "contract.h"

PROMISE(info, 1, "cuda.h, cuMemGetInfo: returns the amount of memory on the device that is free according to the OS")
{
    CUstream stream = stream_new();
    printf("at first: %u\n", free_per_cent());
    CUdeviceptr pointer = plain_memory(share(30));
    printf("allocated: %u\n", free_per_cent());
    MUST(cuMemFree(pointer));
    printf("freed: %u\n", free_per_cent());
    MUST(cuMemAllocAsync(&pointer, share(30), stream));
    printf("allocated in the order of a stream: %u\n", free_per_cent());
    MUST(cuStreamSynchronize(stream));
    printf("synchronised: %u\n", free_per_cent());
    free_and_await(pointer, stream);
    printf("freed and synchronised: %u\n", free_per_cent());
    MUST(cuMemAllocAsync(&pointer, share(30), stream));
    MUST(cuStreamSynchronize(stream));
    MUST(cuMemFree(pointer));
    printf("freed by cuMemFree: %u\n", free_per_cent());
    MUST(cuCtxSynchronize());
    printf("synchronised: %u\n", free_per_cent());
}

static void show(CUmemoryPool pool, const char *when)
{
    static const CUmemPool_attribute wanted[] = {CU_MEMPOOL_ATTR_USED_MEM_CURRENT, CU_MEMPOOL_ATTR_USED_MEM_HIGH,
                                                 CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH};
    printf("%s:", when);
    for (unsigned i = 0; i < 4; i++) {
        cuuint64_t bytes;
        MUST(cuMemPoolGetAttribute(pool, wanted[i], &bytes));
        printf(" %llu", (unsigned long long)(i < 2 ? bytes : bytes >> 25)); /* reserved: in steps of 32 MiB */
    }
    printf(", free %u\n", free_per_cent());
}

static void play_figures(CUmemoryPool pool)
{
    CUdeviceptr pointer, small;
    CUstream stream = stream_new();
    cuuint64_t none = 0;
    show(pool, "at first");
    MUST(cuMemAllocFromPoolAsync(&pointer, (size_t)1 << 30, pool, stream));
    show(pool, "1 GiB");
    MUST(cuMemAllocFromPoolAsync(&small, 1000, pool, stream));
    show(pool, "1000 bytes more");
    MUST(cuStreamSynchronize(stream));
    free_and_await(pointer, stream);
    show(pool, "1 GiB freed");
    MUST(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &none));
    MUST(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &none));
    show(pool, "high-water marks reset");
    free_and_await(small, stream);
    show(pool, "all freed");
    MUST(cuMemPoolTrimTo(pool, 0));
    show(pool, "trimmed");
}

PROMISE(pool_figures, 1, "cuda.h, CU_MEMPOOL_ATTR_USED_MEM_CURRENT and its relatives")
{
    CUmemoryPool pool = pool_of_device();
    play_figures(pool);
}

PROMISE(pool_figures_own, 1, "cuda.h, CU_MEMPOOL_ATTR_USED_MEM_CURRENT and its relatives")
{
    CUmemoryPool pool = pool_new(0, 0);
    play_figures(pool);
}

PROMISE(pool_figures_kept, 1,
        "cuda.h, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: bytes to hold on to before trying to release memory to the OS")
{
    cuuint64_t all = UINT64_MAX;
    CUmemoryPool pool = pool_of_device();
    MUST(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    play_figures(pool);
}

static void show_reserved(CUmemoryPool pool, const char *when)
{
    cuuint64_t bytes;
    MUST(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes));
    printf("%s: reserved %llu GiB\n", when, (unsigned long long)bytes >> 30);
}

PROMISE(pool_figures_taken, 1,
        "cuda.h, cuMemPoolTrimTo: the pool holds fewer than minBytesToKeep bytes, or no more can be released")
{
    CUstream stream = stream_new();
    cuuint64_t all = UINT64_MAX;
    CUmemoryPool pool = pool_of_device();
    MUST(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    CUdeviceptr pointer = pool_memory((size_t)4 << 30, stream), other = pool_memory((size_t)4 << 30, stream);
    MUST(cuMemFreeAsync(pointer, stream));
    free_and_await(other, stream);
    show_reserved(pool, "kept");
    MUST(cuMemPoolTrimTo(pool, (size_t)4 << 30));
    show_reserved(pool, "trimmed to 4 GiB");
    ASK(cuMemAlloc(&pointer, share(98)));
    show_reserved(pool, "taken");
    ASK(cuMemFree(pointer));
    show_reserved(pool, "freed");
}

PROMISE(pool_figures_of_graphs, 1,
        "CUDA Programming Guide, Graph Memory Nodes: graph memory is not in the figures of stream-ordered pools")
{
    CUstream stream = stream_new();
    CUmemoryPool pool = pool_of_device();
    capture_begin(stream);
    CUdeviceptr pointer = pool_memory(1000, stream);
    MUST(cuMemsetD8Async(pointer, 7, 1000, stream));
    CUdeviceptr temporary = pool_memory(500, stream);
    MUST(cuMemFreeAsync(temporary, stream));
    CUgraph graph = capture_end(stream);
    show(pool, "captured");
    CUgraphExec executable = instantiated(graph, 0);
    for (int i = 0; i < 2; i++) {
        MUST(cuGraphLaunch(executable, stream));
        MUST(cuStreamSynchronize(stream));
        show(pool, "launched");
        free_and_await(pointer, stream);
        show(pool, "freed");
    }
}

PROMISE(pool_limit, 1, "cuda.h, CUmemPoolProps_v1.maxSize: maximum pool size; when 0 defaults to a system dependent value")
{
    CUdeviceptr pointer, more;
    CUstream stream = stream_new();
    CUmemoryPool pool = pool_new(0, (size_t)64 << 20);
    ASK(cuMemAllocFromPoolAsync(&pointer, (size_t)256 << 20, pool, stream));
    ASK(cuMemAllocFromPoolAsync(&pointer, (size_t)32 << 20, pool, stream));
    ASK(cuMemAllocFromPoolAsync(&more, (size_t)64 << 20, pool, stream));
    free_and_await(pointer, stream);
    ASK(cuMemAllocFromPoolAsync(&more, (size_t)60 << 20, pool, stream));
    CUmemoryPool small = pool_new(0, 1);
    ASK(cuMemAllocFromPoolAsync(&more, (size_t)2 << 20, small, stream));
    ASK(cuMemAllocFromPoolAsync(&more, (size_t)32 << 20, small, stream));
}

/* ---- alignment ---- */

static unsigned long long least(CUresult (*allocate)(CUdeviceptr *pointer, size_t bytes))
{
    unsigned long long least = 4096;
    for (size_t bytes = 1; bytes < 3000000; bytes = bytes * 3 + 1) {
        CUdeviceptr pointer;
        MUST(allocate(&pointer, bytes));
        if ((pointer & -pointer) < least)
            least = pointer & -pointer;
    }
    return least;
}

static CUresult allocate_async(CUdeviceptr *pointer, size_t bytes)
{
    return cuMemAllocAsync(pointer, bytes, NULL);
}

PROMISE(alignment, 1,
        "CUDA Programming Guide, Device Memory Accesses: addresses of allocations are aligned to at least 256 bytes")
{
    printf("cuMemAlloc: %s\n", least(cuMemAlloc) >= 256 ? "256 or more" : "less than 256");
    printf("cuMemAllocAsync: %s\n", least(allocate_async) >= 256 ? "256 or more" : "less than 256");
}

PROMISE(alignment_of_rows, 1, "cuda.h, cuMemAllocPitch: the pitch is at least the width, and rows suit coalescing")
{
    CUdeviceptr pointer;
    size_t pitch;
    MUST(cuMemAllocPitch(&pointer, &pitch, 1000, 7, 16));
    printf("pitch %zu, address a multiple of 512: %d\n", pitch, pointer % 512 == 0);
    MUST(cuMemAllocPitch(&pointer, &pitch, 1, 3, 4));
    printf("pitch %zu, address a multiple of 512: %d\n", pitch, pointer % 512 == 0);
}
