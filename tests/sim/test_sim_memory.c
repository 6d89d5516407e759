/* The simulated device's other memory, beside what tests/contract holds: pitched copies, and what graphs share; and its
 * functions. */
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

#define STEP (16 * GRANULE) /* of what a pool says that it has reserved */

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
