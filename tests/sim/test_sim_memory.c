/* The simulated device's other memory: pools, host and managed memory, pitched copies, graph nodes, the end of a context. */
#include "results.h"

#include <dlfcn.h>

#define GRANULE ((size_t)2 << 20)

static CUcontext context;

static int set_up(void **state)
{
    setenv("CUFENCE_SIM", "devices=2,memory=64M", 1);
    context = use_device(0);
    return 0;
}

static cuuint64_t figure(CUmemoryPool pool, CUmemPool_attribute attribute)
{
    cuuint64_t value = 99;
    OK(cuMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

static CUmemoryPool create_pool(size_t max_bytes)
{
    const CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                       .maxSize = max_bytes};
    CUmemoryPool pool = NULL;
    OK(cuMemPoolCreate(&pool, &properties));
    return pool;
}

#define STEP (16 * GRANULE) /* of what a pool says that it has reserved */

/* What a pool counts is printed by the story `statistics`, without the preload library too (test_preload.c). */
TEST(pools_have_attributes)
{
    CUmemoryPool pool = create_pool(0);
    CUdeviceptr small;
    OK(cuMemAllocFromPoolAsync(&small, 1000, pool, NULL));
    cuuint64_t zero = 0, one = 1;
    assert_result(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &one), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &zero), CUDA_ERROR_INVALID_VALUE);
    int reuse = 0;
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &reuse));
    reuse = 7;
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &reuse));
    assert_int_equal(reuse, 0);
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, &reuse));
    assert_int_equal(reuse, 1);
    OK(cuMemFree(small));
    assert_int_equal(figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
    OK(cuMemPoolDestroy(pool));
    assert_result(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &zero), CUDA_ERROR_INVALID_VALUE);
}

TEST(a_pool_keeps_freed_memory_up_to_its_threshold)
{
    CUmemoryPool pool = create_pool(0);
    cuuint64_t threshold = 2 * GRANULE;
    size_t free_before, free_now, total;
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    OK(cuMemGetInfo(&free_before, &total));
    CUdeviceptr first, second;
    OK(cuMemAllocFromPoolAsync(&first, GRANULE, pool, NULL));
    OK(cuMemFreeAsync(first, NULL));
    assert_result(cuMemFreeAsync(first, NULL), CUDA_ERROR_INVALID_VALUE);
    OK(cuCtxSynchronize());
    assert_int_equal(figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), STEP);
    assert_result(cuMemsetD8(first, 0, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAllocFromPoolAsync(&second, GRANULE - 1, pool, NULL));
    assert_int_equal(second, first);
    assert_int_equal(figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), GRANULE - 1);
    OK(cuMemFreeAsync(second, NULL));
    OK(cuCtxSynchronize());
    OK(cuMemPoolTrimTo(pool, GRANULE));
    assert_int_equal(figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), STEP);
    OK(cuMemPoolTrimTo(pool, 0));
    assert_int_equal(figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
    OK(cuMemGetInfo(&free_now, &total));
    assert_int_equal(free_now, free_before);
}

/* The story `own_pool` has what is allocated from another one. */
TEST(the_devices_pool_can_be_changed_but_not_destroyed)
{
    CUmemoryPool own = NULL, now = NULL, other_device = NULL, pool = create_pool(2 * GRANULE);
    OK(cuDeviceGetDefaultMemPool(&own, 0));
    OK(cuDeviceGetMemPool(&now, 0));
    assert_ptr_equal(now, own);
    assert_result(cuMemPoolDestroy(own), CUDA_ERROR_INVALID_VALUE);
    OK(cuDeviceSetMemPool(0, pool));
    OK(cuDeviceGetMemPool(&now, 0));
    assert_ptr_equal(now, pool);
    OK(cuDeviceGetDefaultMemPool(&other_device, 1));
    assert_result(cuDeviceSetMemPool(0, other_device), CUDA_ERROR_INVALID_VALUE);
    CUdeviceptr address;
    OK(cuMemAllocAsync(&address, 100, NULL));
    CUipcMemHandle handle;
    assert_result(cuIpcGetMemHandle(&handle, address), CUDA_ERROR_INVALID_VALUE);
    CUmemAccess_flags flags;
    CUmemLocation peer = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1};
    const CUmemAccessDesc access = {.location = peer, .flags = CU_MEM_ACCESS_FLAGS_PROT_READ};
    OK(cuMemPoolGetAccess(&flags, pool, &peer));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    OK(cuMemPoolSetAccess(pool, &access, 1));
    OK(cuMemPoolGetAccess(&flags, pool, &peer));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READ);
    OK(cuMemPoolDestroy(pool)); /* what is in use lives on: own_pool */
    OK(cuDeviceGetMemPool(&now, 0));
    assert_ptr_equal(now, own);
    OK(cuMemFreeAsync(address, NULL));
    OK(cuCtxSynchronize());
}

/* The stories `ranges` and `foreign` have what is told of the device's memory, and of none, and how either is freed. */
TEST(attributes_tell_what_memory_it_is)
{
    CUdeviceptr device, managed;
    void *pinned;
    OK(cuMemAlloc(&device, 1000));
    OK(cuMemAllocManaged(&managed, 500, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemHostAlloc(&pinned, 300, CU_MEMHOSTALLOC_DEVICEMAP));
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_HOST_POINTER,
                                   CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    unsigned type;
    int ordinal;
    void *on_host;
    size_t size;
    unsigned long long id, device_id;
    void *answers[] = {&type, &on_host, &size, &id, &ordinal};
    OK(cuPointerGetAttributes(5, asked, answers, device + 10));
    assert_null(on_host);
    device_id = id;
    OK(cuPointerGetAttributes(5, asked, answers, managed + 10));
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    assert_int_equal((uintptr_t)on_host, managed + 10);
    assert_int_equal(size, 500);
    assert_true(id != device_id);
    OK(cuPointerGetAttributes(5, asked, answers, (CUdeviceptr)(uintptr_t)pinned + 10));
    assert_int_equal(type, CU_MEMORYTYPE_HOST);
    assert_int_equal(size, 300);
    OK(cuPointerGetAttributes(5, asked, answers, (CUdeviceptr)(uintptr_t)&id));
    assert_int_equal(ordinal, CU_DEVICE_INVALID);
    assert_ptr_equal(on_host, &id);
    assert_int_equal(size, 300); /* measured: it is left as it was */
    assert_result(cuPointerGetAttribute(&on_host, CU_POINTER_ATTRIBUTE_HOST_POINTER, device), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)&id),
                  CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemFreeHost((void *)(uintptr_t)managed), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFreeHost(pinned));
    assert_result(cuMemFreeHost(pinned), CUDA_ERROR_INVALID_VALUE);
}

TEST(managed_memory_is_copied_as_the_devices)
{
    CUdeviceptr managed, device, mapped;
    static char registered[8192];
    OK(cuMemAllocManaged(&managed, 64, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemAlloc(&device, 64));
    OK(cuMemsetD32(managed, 0x01020304, 16));
    OK(cuMemcpyDtoD(device, managed, 64));
    uint32_t words[16] = {0};
    OK(cuMemcpyDtoH(words, device, 64));
    assert_int_equal(words[15], 0x01020304);
    assert_result(cuMemcpyDtoD(device, managed + 1, 64), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemHostRegister(registered, sizeof registered, CU_MEMHOSTREGISTER_DEVICEMAP));
    assert_result(cuMemHostRegister(registered, 1, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    OK(cuMemHostGetDevicePointer(&mapped, registered, 0));
    OK(cuMemsetD8(mapped, 7, sizeof registered));
    OK(cuCtxSynchronize());
    assert_int_equal(registered[8191], 7);
    OK(cuMemHostUnregister(registered));
    assert_result(cuMemHostUnregister(registered), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

TEST(pitched_copies_and_sets_touch_their_rows_alone)
{
    CUdeviceptr rows;
    size_t pitch;
    OK(cuMemAllocPitch(&rows, &pitch, 100, 4, 4));
    assert_int_equal(pitch, 512);
    OK(cuMemsetD8(rows, 0xee, 4 * pitch));
    OK(cuMemsetD2D16(rows, pitch, 0x0102, 50, 3));
    unsigned char host[4][128];
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = rows,
                          .srcPitch = pitch,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = host,
                          .dstPitch = sizeof host[0],
                          .WidthInBytes = 101,
                          .Height = 4};
    OK(cuMemcpy2D(&copy));
    assert_int_equal(host[0][0], 2);
    assert_int_equal(host[2][99], 1);
    assert_int_equal(host[2][100], 0xee);
    assert_int_equal(host[3][0], 0xee);
    copy.srcY = 1;
    assert_result(cuMemcpy2D(&copy), CUDA_ERROR_INVALID_VALUE); /* one row past the end */
    copy.srcY = 0;
    copy.dstPitch = 64;
    assert_result(cuMemcpy2DAsync(&copy, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemsetD2D32(rows, pitch, 1, 25, 5), CUDA_ERROR_INVALID_VALUE);

    const CUDA_MEMCPY3D volume = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                                  .srcHost = host,
                                  .srcPitch = 128,
                                  .srcHeight = 2,
                                  .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                  .dstDevice = rows,
                                  .dstPitch = 512,
                                  .dstHeight = 2,
                                  .WidthInBytes = 4,
                                  .Height = 1,
                                  .Depth = 2};
    host[2][0] = 0x77;
    OK(cuMemcpy3D(&volume));
    unsigned char byte = 0;
    OK(cuMemcpyDtoH(&byte, rows + 1024, 1));
    assert_int_equal(byte, 0x77);
}

TEST(ipc_is_for_plain_allocations)
{
    CUdeviceptr address;
    CUipcMemHandle handle;
    OK(cuMemAlloc(&address, 100));
    OK(cuIpcGetMemHandle(&handle, address));
    OK(cuMemFree(address));
    assert_result(cuIpcGetMemHandle(&handle, address), CUDA_ERROR_INVALID_VALUE);
}

TEST(a_capture_can_go_into_a_graph_of_the_program)
{
    CUgraph graph, captured;
    CUstream stream;
    CUgraphNode node, none;
    CUdeviceptr words, plain;
    size_t count = 0;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&words, 8));
    OK(cuMemAllocAsync(&plain, 8, stream));
    OK(cuGraphCreate(&graph, 0));
    const CUDA_MEMSET_NODE_PARAMS set = {.dst = words, .value = 5, .elementSize = 4, .width = 1, .height = 1};
    OK(cuGraphAddMemsetNode(&node, graph, NULL, 0, &set, context));
    assert_result(cuGraphAddMemFreeNode(&none, graph, NULL, 0, plain), CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamBeginCaptureToGraph(stream, graph, &node, NULL, 1, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemsetD32Async(words + 4, 6, 1, stream));
    assert_result(cuMemFreeAsync(plain, stream), CUDA_ERROR_INVALID_VALUE); /* no memory of a graph */
    OK(cuStreamEndCapture(stream, &captured));
    assert_ptr_equal(captured, graph);
    OK(cuGraphGetNodes(graph, NULL, &count));
    assert_int_equal(count, 2);
    CUgraphExec executable;
    OK(cuGraphInstantiate(&executable, graph, 0));
    OK(cuGraphLaunch(executable, stream));
    OK(cuStreamSynchronize(stream));
    uint32_t values[2];
    OK(cuMemcpyDtoH(values, words, 8));
    assert_int_equal(values[0], 5);
    assert_int_equal(values[1], 6);
    OK(cuGraphExecDestroy(executable));
    OK(cuGraphDestroy(graph));
    OK(cuMemFreeAsync(plain, stream));
}

TEST(a_reset_ends_the_context_but_not_mappings)
{
    CUcontext second, again;
    CUstream stream;
    CUevent event;
    CUmodule module;
    CUfunction function;
    CUdeviceptr block, pooled, reserved;
    CUmemGenericAllocationHandle handle;
    void *pinned;
    const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1}};
    OK(cuDevicePrimaryCtxRetain(&second, 1));
    OK(cuCtxPushCurrent(second));
    OK(cuStreamCreate(&stream, 0));
    OK(cuEventCreate(&event, 0));
    OK(cuEventRecord(event, stream));
    OK(cuModuleLoadData(&module, "image"));
    OK(cuMemAlloc(&block, 10));
    OK(cuMemAllocAsync(&pooled, 10, stream));
    OK(cuMemAllocHost(&pinned, 10));
    OK(cuMemAddressReserve(&reserved, GRANULE, 0, 0, 0));
    OK(cuMemCreate(&handle, GRANULE, &properties, 0));
    OK(cuMemMap(reserved, GRANULE, 0, handle, 0));

    OK(cuDevicePrimaryCtxReset(1));
    assert_result(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    OK(cuCtxPopCurrent(NULL));
    /* Before anything else can be made where they were. */
    assert_result(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
    assert_result(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
    assert_result(cuModuleGetFunction(&function, module, "cufence_fence"), CUDA_ERROR_INVALID_HANDLE);
    OK(cuDevicePrimaryCtxRetain(&again, 1));
    OK(cuCtxPushCurrent(again));
    assert_result(cuMemGetAddressRange(NULL, NULL, block), CUDA_ERROR_NOT_FOUND);
    assert_result(cuMemGetAddressRange(NULL, NULL, (CUdeviceptr)(uintptr_t)pinned), CUDA_ERROR_NOT_FOUND);
    OK(cuMemsetD8(pooled, 1, 10)); /* it belongs to no context */
    OK(cuCtxSynchronize());
    OK(cuMemFree(pooled));
    OK(cuMemGetAddressRange(NULL, NULL, reserved));
    OK(cuMemUnmap(reserved, GRANULE));
    OK(cuMemRelease(handle));
    OK(cuMemAddressFree(reserved, GRANULE));
    OK(cuMemAlloc(&block, 10));
    OK(cuCtxSynchronize_v2(again));
    OK(cuDevicePrimaryCtxRelease(1)); /* a reset has not released it */
    OK(cuCtxSynchronize_v2(again));
    OK(cuDevicePrimaryCtxRelease(1));
    assert_result(cuDevicePrimaryCtxRelease(1), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuCtxPopCurrent(NULL));
    OK(cuCtxSynchronize());
}

static cuuint64_t of_graphs(CUgraphMem_attribute attribute)
{
    cuuint64_t value = 99;
    OK(cuDeviceGetGraphMemAttribute(0, attribute, &value));
    return value;
}

/* A graph that allocates, and frees what it allocates. */
static CUgraphExec temporary(size_t bytes)
{
    CUDA_MEM_ALLOC_NODE_PARAMS wanted = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
        .bytesize = bytes};
    CUgraph graph;
    CUgraphNode nodes[2];
    CUgraphExec executable;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemAllocNode(&nodes[0], graph, NULL, 0, &wanted));
    OK(cuGraphAddMemFreeNode(&nodes[1], graph, &nodes[0], 1, wanted.dptr));
    OK(cuGraphInstantiate(&executable, graph, 0));
    return executable;
}

TEST(graphs_share_memory_until_somebody_needs_it)
{
    CUgraphExec small = temporary(20 << 20), large = temporary(40 << 20), same = temporary(40 << 20);
    CUdeviceptr plain;
    assert_int_equal(of_graphs(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0);
    OK(cuGraphLaunch(small, NULL));
    OK(cuGraphLaunch(large, NULL));
    OK(cuGraphLaunch(same, NULL)); /* the device has 64 MiB */
    OK(cuCtxSynchronize());
    assert_int_equal(of_graphs(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 2 * STEP);
    assert_int_equal(of_graphs(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0);
    assert_int_equal(of_graphs(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH), 40 << 20);
    OK(cuMemAlloc(&plain, 60 << 20));
    assert_int_equal(of_graphs(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0);
    assert_result(cuGraphLaunch(small, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemFree(plain));
    OK(cuGraphLaunch(small, NULL));
    OK(cuCtxSynchronize());
    OK(cuDeviceGraphMemTrim(0));
    assert_int_equal(of_graphs(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), STEP); /* what was left for the launch that ran out */
}

/* The promises texture_... of tests/contract have what is refused. */
TEST(arrays_and_textures_have_memory)
{
    const CUDA_ARRAY3D_DESCRIPTOR wanted = {.Width = 8, .Height = 4, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 2};
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
    const CUDA_TEXTURE_DESC description = {.filterMode = CU_TR_FILTER_MODE_POINT};
    CUtexObject texture;
    CUdeviceptr row;
    float rows[4][20] = {{0}}, found[16];
    OK(cuMemAlloc(&row, sizeof found));
    OK(cuArray3DCreate(&resource.res.array.hArray, &wanted));
    rows[2][3] = 5;
    const CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                                .srcHost = rows,
                                .srcPitch = sizeof rows[0],
                                .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                                .dstArray = resource.res.array.hArray,
                                .WidthInBytes = 64,
                                .Height = 4};
    OK(cuMemcpy2D(&copy));
    OK(cuMemcpyAtoD(row, resource.res.array.hArray, 128, sizeof found));
    OK(cuMemcpyDtoH(found, row, sizeof found));
    assert_true(found[3] == 5);
    assert_result(cuMemcpyAtoD(row, resource.res.array.hArray, 200, sizeof found), CUDA_ERROR_INVALID_VALUE);
    OK(cuTexObjectCreate(&texture, &resource, &description, NULL));
    assert_true(((const float *)cusim_texture(texture))[35] == 5);
    OK(cuTexObjectDestroy(texture));
    assert_null(cusim_texture(texture));
    OK(cuArrayDestroy(resource.res.array.hArray));
    assert_result(cuMemcpyAtoD(row, resource.res.array.hArray, 0, 4), CUDA_ERROR_INVALID_HANDLE);
}

TEST(first_forms_of_functions_are_found)
{
    static const struct {
        const char *name, *abi_name;
        int version;
    } forms[] = {
        {"cuCtxSynchronize", "cuCtxSynchronize", 12000},
        {"cuCtxSynchronize", "cuCtxSynchronize_v2", 13000},
        {"cuStreamBeginCapture", "cuStreamBeginCapture", 10000},
        {"cuStreamBeginCapture", "cuStreamBeginCapture_v2", 10010},
        {"cuEventElapsedTime", "cuEventElapsedTime", 12000},
        {"cuEventElapsedTime", "cuEventElapsedTime_v2", 12080},
        {"cuGetProcAddress", "cuGetProcAddress_v2", 12000},
        {"cuMemcpy2D", "cuMemcpy2D_v2", 13000},
        {"cuMemAlloc", "cuMemAlloc_v2", 13000},
    };
    void *library = dlopen(CUFENCE_SIM_LIBRARY, RTLD_NOW);
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        void *function = NULL;
        OK(cuGetProcAddress(forms[i].name, &function, forms[i].version, 0, NULL));
        assert_ptr_equal(function, dlsym(library, forms[i].abi_name));
    }
    CUdriverProcAddressQueryResult status;
    void *legacy, *per_thread;
    OK(cuGetProcAddress("cuLaunchKernel", &legacy, 13000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status));
    OK(cuGetProcAddress("cuLaunchKernel", &per_thread, 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
    assert_ptr_not_equal(legacy, per_thread);
    OK(cuGetProcAddress("cuMemCreate", &legacy, 10010, 0, &status));
    assert_int_equal(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    CUresult (*begin)(CUstream);
    *(void **)&begin = dlsym(library, "cuStreamBeginCapture");
    assert_result(begin(NULL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    const void *table = &forms;
    const CUuuid id = {{0}};
    assert_result(cuGetExportTable(&table, &id), CUDA_ERROR_NOT_FOUND);
    dlclose(library);
}

TEST(a_forked_child_cannot_use_the_device)
{
    pid_t child = fork();
    if (child == 0) {
        CUdeviceptr address;
        int is_refused = cuMemAlloc(&address, 1) == CUDA_ERROR_NOT_INITIALIZED && cuInit(0) == CUDA_ERROR_NOT_INITIALIZED;
        _exit(is_refused ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    OK(cuCtxSynchronize());
}

TEST_GROUP(set_up, NULL)
TEST_CONCURRENTLY
