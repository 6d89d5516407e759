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

STORY(statistics)
{
    CUmemoryPool pool;
    CUdeviceptr small, large;
    CUstream stream;
    cuuint64_t zero = 0;
    start();
    MUST(cu.cuStreamCreate(&stream, 0));
    MUST(cu.cuDeviceGetDefaultMemPool(&pool, 0));
#define FIGURE(when, attribute)                                                                                                \
    do {                                                                                                                       \
        cuuint64_t figure = 77;                                                                                                \
        MUST(cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_##attribute, &figure));                                            \
        printf("%s %s %llu\n", when, #attribute, (unsigned long long)figure);                                                  \
    } while (0)
    FIGURE("first", USED_MEM_CURRENT);
    FIGURE("first", RESERVED_MEM_CURRENT);
    MUST(cu.cuMemAllocAsync(&small, 1000, stream));
    MUST(cu.cuMemAllocAsync(&large, 3 * GRANULE, stream));
    FIGURE("both", USED_MEM_CURRENT);
    FIGURE("both", RESERVED_MEM_CURRENT);
    MUST(cu.cuMemFreeAsync(large, stream));
    MUST(cu.cuStreamSynchronize(stream));
    FIGURE("small", USED_MEM_CURRENT);
    FIGURE("small", USED_MEM_HIGH);
    FIGURE("small", RESERVED_MEM_HIGH);
    MUST(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
    FIGURE("after-reset", USED_MEM_HIGH);
    MUST(cu.cuMemFreeAsync(small, stream));
    MUST(cu.cuStreamSynchronize(stream));
    cuuint64_t reserved = 1;
    for (int i = 0; i < 1000 && reserved; i++) { /* the background may hold a block when it is trimmed */
        MUST(cu.cuMemPoolTrimTo(pool, 0));
        MUST(cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
    }
    FIGURE("trimmed", USED_MEM_CURRENT);
    FIGURE("trimmed", RESERVED_MEM_CURRENT);
    cuuint64_t threshold = 5 * GRANULE;
    MUST(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    FIGURE("set", RELEASE_THRESHOLD);
    return 0;
}

STORY(memory_info)
{
    size_t before, during, after, total;
    CUdeviceptr address;
    start();
    MUST(cu.cuMemAlloc(&address, 16)); /* what the first use takes is not what is asked about */
    MUST(cu.cuMemFree(address));
    MUST(cu.cuMemGetInfo(&before, &total));
    MUST(cu.cuMemAlloc(&address, 32 * GRANULE));
    MUST(cu.cuMemGetInfo(&during, &total));
    MUST(cu.cuMemFree(address));
    MUST(cu.cuMemGetInfo(&after, &total));
    printf("taken %zu given back %zu total %zu\n", (before - during) / GRANULE, (after - during) / GRANULE, total / GRANULE);
    return 0;
}

STORY(ranges)
{
    CUdeviceptr address, start_address = 0, base = 0;
    CUmemoryPool pool, standard;
    CUcontext context = NULL;
    size_t size = 0, range = 0;
    unsigned type = 0, is_managed = 9;
    int ordinal = -5;
    start();
    MUST(cu.cuDeviceGetDefaultMemPool(&standard, 0));
    MUST(cu.cuMemAllocAsync(&address, 1000, NULL));
    MUST(cu.cuStreamSynchronize(NULL));
    MUST(cu.cuMemGetAddressRange(&base, &size, address + 900));
    printf("range begins at %lld, has %zu\n", (long long)(base - address), size);
    MUST(cu.cuPointerGetAttribute(&start_address, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address + 900));
    MUST(cu.cuPointerGetAttribute(&range, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address + 900));
    printf("attribute begins at %lld, has %zu\n", (long long)(start_address - address), range);
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_CONTEXT,        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                   CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE};
    void *answers[] = {&context, &type, &base, &is_managed, &ordinal, &range, &pool};
    MUST(cu.cuPointerGetAttributes(7, asked, answers, address + 1));
    printf("context %s type %u pointer +%lld managed %u device %d size %zu pool %s\n", context != NULL ? "known" : "none", type,
           (long long)(base - address), is_managed, ordinal, range, pool == standard ? "default" : "other");
    say("range of a host address", cu.cuMemGetAddressRange(&base, &size, (CUdeviceptr)(uintptr_t)&base));
    MUST(cu.cuPointerGetAttributes(2, asked, answers, (CUdeviceptr)(uintptr_t)&base));
    printf("host address: context %s type %u\n", context != NULL ? "known" : "none", type);
    MUST(cu.cuMemFreeAsync(address, NULL));
    MUST(cu.cuStreamSynchronize(NULL));
    say("range of freed memory", cu.cuMemGetAddressRange(&base, &size, address));
    say("attribute of freed memory", cu.cuPointerGetAttribute(&range, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address));
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

STORY(own_pool)
{
    const CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                       .maxSize = 4 * GRANULE};
    CUmemoryPool pool, standard, answer = NULL;
    CUdeviceptr address, more;
    cuuint64_t used = 77;
    start();
    MUST(cu.cuMemPoolCreate(&pool, &properties));
    MUST(cu.cuMemAllocFromPoolAsync(&address, 5000, pool, NULL));
    MUST(cu.cuStreamSynchronize(NULL));
    describe("own pool", address, 5000);
    MUST(cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    printf("own pool used %llu\n", (unsigned long long)used);
    MUST(cu.cuDeviceGetDefaultMemPool(&standard, 0));
    MUST(cu.cuMemPoolGetAttribute(standard, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    printf("default pool used %llu\n", (unsigned long long)used);
    MUST(cu.cuPointerGetAttribute(&answer, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address));
    printf("pool of the buffer: %s\n", answer == pool ? "own" : "other");
    say("more than it may have", cu.cuMemAllocFromPoolAsync(&more, 4 * GRANULE, pool, NULL));
    MUST(cu.cuDeviceSetMemPool(0, pool));
    MUST(cu.cuMemAllocAsync(&more, 100, NULL));
    MUST(cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    printf("as the device's pool used %llu\n", (unsigned long long)used);
    MUST(cu.cuMemFreeAsync(more, NULL));
    MUST(cu.cuMemPoolDestroy(pool));
    printf("after its end: %s\n", usable(address, 5000));
    MUST(cu.cuMemFreeAsync(address, NULL));
    MUST(cu.cuStreamSynchronize(NULL));
    say("from a destroyed pool", cu.cuMemAllocFromPoolAsync(&more, 100, pool, NULL));
    MUST(cu.cuMemAllocAsync(&more, 100, NULL));
    MUST(cu.cuMemFreeAsync(more, NULL));
    return 0;
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
