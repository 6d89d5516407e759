/* Stories about memory: taking it, giving it back, asking about it. */
#include "program.h"

#include <unistd.h>

#define GRANULE ((size_t)2 << 20)

/* Whether the buffer is what it should be: every byte can be written and read. */
static const char *usable(CUdeviceptr address, size_t size)
{
    unsigned char last = 0, first = 0;
    if (cu.cuMemsetD8(address, 0x5a, size) != CUDA_SUCCESS || cu.cuMemcpyDtoH(&first, address, 1) != CUDA_SUCCESS ||
        cu.cuMemcpyDtoH(&last, address + size - 1, 1) != CUDA_SUCCESS)
        return "unusable";
    return first == 0x5a && last == 0x5a ? "usable" : "wrong";
}

static void describe(const char *what, CUdeviceptr address, size_t size)
{
    CUdeviceptr end = (address + size + 15) / 16 * 16; /* what cuMemAlloc aligns to, at least */
    printf("%s: %s, ends %s a mapping\n", what, usable(address, size), end % GRANULE == 0 ? "with" : "within");
}

STORY(allocations)
{
    CUdeviceptr address;
    CUmemoryPool pool;
    size_t pitch;
    start();
    CUstream stream = new_stream();
    MUST(cu.cuDeviceGetDefaultMemPool(&pool, 0));

    MUST(cu.cuMemAlloc(&address, 4000));
    describe("cuMemAlloc", address, 4000);
    MUST(cu.cuMemFree(address));
    MUST(cu.cuMemAllocPitch(&address, &pitch, 100, 3, 4));
    describe("cuMemAllocPitch", address, 3 * pitch);
    MUST(cu.cuMemFree(address));
    MUST(cu.cuMemAllocAsync(&address, 4000, stream));
    MUST(cu.cuStreamSynchronize(stream));
    describe("cuMemAllocAsync", address, 4000);
    MUST(cu.cuMemFreeAsync(address, stream));
    MUST(cu.cuMemAllocAsync(&address, 4000, NULL));
    MUST(cu.cuStreamSynchronize(NULL));
    describe("cuMemAllocAsync, default stream", address, 4000);
    MUST(cu.cuMemFreeAsync(address, NULL));
    MUST(cu.cuMemAllocFromPoolAsync(&address, 4000, pool, stream));
    MUST(cu.cuStreamSynchronize(stream));
    describe("cuMemAllocFromPoolAsync", address, 4000);
    MUST(cu.cuMemFree(address)); /* a stream-ordered allocation may be freed so, too */
    MUST(cu.cuMemAlloc(&address, 4000));
    MUST(cu.cuMemFreeAsync(address, stream)); /* and the other way round */
    MUST(cu.cuStreamDestroy(stream));
    MUST(cu.cuMemFree(0));

    say("cuMemAlloc of nothing", cu.cuMemAlloc(&address, 0));
    say("cuMemAlloc to nowhere", cu.cuMemAlloc(NULL, 1));
    say("cuMemAllocPitch of odd elements", cu.cuMemAllocPitch(&address, &pitch, 100, 3, 5));
    return 0;
}

/* Of 4000 bytes, flush with the end of a mapping: 96 where 16 bytes of alignment are enough. */
static void say_alignment(const char *what, CUdeviceptr address)
{
    printf("%s: %u past a multiple of 256\n", what, (unsigned)(address % 256));
    MUST(cu.cuMemFree(address));
}

/* So many small buffers at once. */
STORY(small_ones)
{
    enum { MOST = 1000 };
    static CUdeviceptr held[MOST];
    int wanted = count > 2 ? atoi(arguments[2]) : MOST;
    start();
    for (int i = 0; i < wanted && i < MOST; i++)
        MUST(cu.cuMemAlloc(&held[i], 4096));
    for (int i = 0; i < wanted && i < MOST; i++)
        MUST(cu.cuMemFree(held[i]));
    return 0;
}

STORY(alignment)
{
    CUdeviceptr address;
    CUmemoryPool pool;
    size_t pitch;
    start();
    MUST(cu.cuDeviceGetDefaultMemPool(&pool, 0));
    MUST(cu.cuMemAlloc(&address, 4000));
    say_alignment("cuMemAlloc", address);
    MUST(cu.cuMemAllocPitch(&address, &pitch, 512, 3, 4));
    say_alignment("cuMemAllocPitch", address);
    MUST(cu.cuMemAllocAsync(&address, 4000, NULL));
    say_alignment("cuMemAllocAsync", address);
    MUST(cu.cuMemAllocFromPoolAsync(&address, 4000, pool, NULL));
    say_alignment("cuMemAllocFromPoolAsync", address);
    return 0;
}

STORY(foreign)
{
    CUdeviceptr managed, mapped;
    void *pinned, *other;
    unsigned is_managed = 0;
    start();
    MUST(cu.cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    MUST(cu.cuMemAllocHost(&pinned, 4096));
    MUST(cu.cuMemHostAlloc(&other, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    MUST(cu.cuMemHostGetDevicePointer(&mapped, other, 0));
    MUST(cu.cuMemsetD32(managed, 41, 1024));
    MUST(add_one(managed, 1024, NULL));
    MUST(cu.cuCtxSynchronize());
    printf("managed %u\n", ((uint32_t *)(uintptr_t)managed)[1023]);
    MUST(cu.cuMemcpyDtoH(pinned, managed, 4096));
    printf("pinned %u\n", ((uint32_t *)pinned)[1023]);
    MUST(cu.cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, managed));
    printf("is managed %u\n", is_managed);
    say("cuMemFree of managed", cu.cuMemFree(managed));
    say("cuMemFree of managed again", cu.cuMemFree(managed));
    say("cuMemFree of pinned", cu.cuMemFree((CUdeviceptr)(uintptr_t)pinned));
    say("cuMemFreeHost", cu.cuMemFreeHost(pinned));
    say("cuMemFreeHost", cu.cuMemFreeHost(other));
    return 0;
}

STORY(double_free)
{
    const char *how = count > 2 ? arguments[2] : "plain";
    CUdeviceptr address;
    CUresult result;
    start();
    if (strcmp(how, "async") == 0) {
        MUST(cu.cuMemAllocAsync(&address, 1000, NULL));
        MUST(cu.cuMemFreeAsync(address, NULL));
        result = say("second cuMemFreeAsync", cu.cuMemFreeAsync(address, NULL));
    } else if (strcmp(how, "interior") == 0) {
        MUST(cu.cuMemAlloc(&address, 1000));
        result = say("cuMemFree of the middle", cu.cuMemFree(address + 16));
        MUST(cu.cuMemFree(address));
    } else if (strcmp(how, "late") == 0) {
        CUdeviceptr other;
        MUST(cu.cuMemAlloc(&address, 1000));
        MUST(cu.cuMemFree(address));
        MUST(cu.cuMemAlloc(&other, 2000));
        usleep(60000);
        result = say("second cuMemFree", cu.cuMemFree(address));
        MUST(cu.cuMemFree(other));
    } else if (strcmp(how, "often") == 0) {
        for (int i = 0; i < 20; i++) {
            MUST(cu.cuMemAlloc(&address, 1000));
            MUST(cu.cuMemFree(address));
            result = cu.cuMemFree(address);
        }
        result = say("another cuMemFree", cu.cuMemFree(address));
    } else {
        MUST(cu.cuMemAlloc(&address, 1000));
        MUST(cu.cuMemFree(address));
        result = say("second cuMemFree", cu.cuMemFree(address));
    }
    say("cuMemAlloc afterwards", cu.cuMemAlloc(&address, 1000));
    say("cuMemFree afterwards", cu.cuMemFree(address));
    return result == CUDA_SUCCESS ? 0 : 1;
}

STORY(two_devices)
{
    CUdeviceptr address[2];
    int ordinal[2] = {-1, -1};
    cuuint64_t used[2];
    start();
    for (int i = 0; i < 2; i++) {
        CUmemoryPool pool;
        if (i == 1)
            use_device(1);
        MUST(cu.cuMemAllocAsync(&address[i], 4000, NULL));
        MUST(cu.cuStreamSynchronize(NULL));
        MUST(cu.cuPointerGetAttribute(&ordinal[i], CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address[i]));
        MUST(cu.cuDeviceGetDefaultMemPool(&pool, i));
        MUST(cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used[i]));
        MUST(cu.cuMemsetD32(address[i], (unsigned)i + 10, 1000));
        MUST(add_one(address[i], 1000, NULL));
    }
    uint32_t values[2];
    MUST(cu.cuMemcpyDtoH(&values[1], address[1] + 3996, 4));
    use_device(0);
    MUST(cu.cuMemcpyDtoH(&values[0], address[0] + 3996, 4));
    printf("devices %d %d used %llu %llu values %u %u\n", ordinal[0], ordinal[1], (unsigned long long)used[0],
           (unsigned long long)used[1], values[0], values[1]);
    use_device(1);
    MUST(store(address[1] + 4000, 1, NULL));
    int has_failed = say("overrun on device 1", cu.cuCtxSynchronize()) != CUDA_SUCCESS;
    return has_failed;
}

static void say_access(const char *when, CUdeviceptr address)
{
    const CUmemLocation other = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1};
    unsigned long long flags = 77;
    MUST(cu.cuMemGetAccess(&flags, &other, address));
    printf("%s: %s\n", when, flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? "yes" : "no");
}

/* peers pool|context|copy: whether device 1 has access to buffers of device 0. Only cufence's can be asked about. */
STORY(peers)
{
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr early, idle, late;
    CUmemoryPool pool;
    CUcontext own, other;
    start();
    MUST(cu.cuDevicePrimaryCtxRetain(&own, 0));
    MUST(cu.cuDevicePrimaryCtxRetain(&other, 1));
    MUST(cu.cuMemAlloc(&early, 4000));
    MUST(cu.cuMemAllocAsync(&idle, 3 * GRANULE, NULL));
    say_access("before", early);
    MUST(cu.cuMemFreeAsync(idle, NULL));
    MUST(cu.cuStreamSynchronize(NULL));
    if (count > 2 && strcmp(arguments[2], "pool") == 0) {
        MUST(cu.cuDeviceGetDefaultMemPool(&pool, 0));
        MUST(cu.cuMemPoolSetAccess(pool, &access, 1));
    } else {
        MUST(cu.cuCtxSetCurrent(other));
        if (count > 2 && strcmp(arguments[2], "copy") == 0) {
            MUST(cu.cuMemAlloc(&late, 4000));
            MUST(cu.cuMemcpyDtoD(late, early, 4000));
        } else {
            MUST(cu.cuCtxEnablePeerAccess(own, 0));
        }
        MUST(cu.cuCtxSetCurrent(own));
    }
    say_access("an early buffer", early);
    MUST(cu.cuMemAllocAsync(&late, 3 * GRANULE, NULL));
    say_access("one that is used again", late);
    MUST(cu.cuMemAlloc(&late, 5 * GRANULE));
    say_access("a late one", late);
    return 0;
}

STORY(ipc)
{
    CUdeviceptr address;
    CUipcMemHandle handle;
    start();
    MUST(cu.cuMemAlloc(&address, 4000));
    CUresult result = say("cuIpcGetMemHandle", cu.cuIpcGetMemHandle(&handle, address));
    describe("buffer", address, 4000);
    MUST(cu.cuMemFree(address));
    return result == CUDA_SUCCESS ? 0 : 1;
}

STORY(out_of_bounds)
{
    const char *how = count > 2 ? arguments[2] : "copy";
    static unsigned char host[8192];
    CUdeviceptr address, other;
    CUresult result;
    start();
    MUST(cu.cuMemAlloc(&address, 4000));
    MUST(cu.cuMemAlloc(&other, 8000));
    const CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                                .srcHost = host,
                                .srcPitch = 1000,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = address,
                                .dstPitch = 1000,
                                .WidthInBytes = 1000,
                                .Height = 5};
    if (strcmp(how, "copy") == 0)
        result = say("cuMemcpyHtoD", cu.cuMemcpyHtoD(address, host, 4001));
    else if (strcmp(how, "copy_async") == 0)
        result = say("cuMemcpyDtoHAsync", cu.cuMemcpyDtoHAsync(host, address + 8, 3996, NULL));
    else if (strcmp(how, "device") == 0)
        result = say("cuMemcpyDtoD", cu.cuMemcpyDtoD(address, other, 4100));
    else if (strcmp(how, "unified") == 0)
        result = say("cuMemcpy", cu.cuMemcpy(other, address, 4004));
    else if (strcmp(how, "rows") == 0)
        result = say("cuMemcpy2D", cu.cuMemcpy2D(&rows));
    else if (strcmp(how, "set_rows") == 0)
        result = say("cuMemsetD2D8", cu.cuMemsetD2D8(address, 1000, 1, 1000, 5));
    else
        result = say("cuMemsetD32", cu.cuMemsetD32(address, 1, 1001));
    say("a good copy afterwards", cu.cuMemcpyHtoD(address, host, 4000));
    say("cuCtxSynchronize", cu.cuCtxSynchronize());
    return result == CUDA_SUCCESS ? 0 : 1;
}
