/* The simulated device's stream capture: what the legacy stream must not do, and the order that a program sets itself. All else
 * of captures: tests/contract and tests/torture. */
#include "device_memory.h"
#include "results.h"

static CUcontext context;
static CUfunction add;
static CUdeviceptr counter;
static CUstream stream, blocking;

static void add_kernel(const cusim_thread *thread, void *const *arguments)
{
    **(uint32_t *const *)arguments[0] += *(const uint32_t *)arguments[1];
}

static int set_up(void **state)
{
    static const size_t bytes[] = {8, 4};
    const cusim_kernel kernel = {.name = "add", .function = add_kernel, .argument_bytes = bytes, .argument_count = 2};
    cusim_register_kernel(&kernel);
    context = use_device(0);
    CUmodule module;
    OK(cuModuleLoadData(&module, "any image"));
    OK(cuModuleGetFunction(&add, module, "add"));
    OK(cuMemAlloc(&counter, 4));
    OK(cuMemsetD32(counter, 0, 1));
    OK(cuCtxSynchronize());
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    return 0;
}

static uint32_t counted(void)
{
    uint32_t value = 0;
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH(&value, counter, sizeof value));
    return value;
}

static CUresult launch_add(CUstream on)
{
    uint32_t amount = 1;
    return cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, on, (void *[]){&counter, &amount}, NULL);
}

static CUstreamCaptureStatus status_of(CUstream which)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    OK(cuStreamIsCapturing(which, &status));
    return status;
}

static void assert_ends_invalid(CUstream which)
{
    CUgraph graph = (CUgraph)1;
    assert_int_equal(status_of(which), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    assert_result(launch_add(which), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_result(cuStreamEndCapture(which, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_null(graph);
    assert_int_equal(status_of(which), CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST(the_legacy_stream_cannot_depend_on_a_capture)
{
    CUstreamCaptureStatus status;
    CUgraph graph;
    assert_result(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    OK(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_result(cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    assert_int_equal(status_of(blocking), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_result(launch_add(NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    assert_ends_invalid(blocking);

    /* A stream that does not order with it is no obstacle. */
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuStreamIsCapturing(NULL, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
    OK(launch_add(NULL));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphDestroy(graph));
    assert_int_equal(counted(), 1);
}

static unsigned destroyed;

static void CUDA_CB destroy(void *user)
{
    assert_ptr_equal(user, &destroyed);
    destroyed++;
}

static size_t dependencies_of(CUstream captured, CUgraphNode out[4])
{
    CUstreamCaptureStatus status;
    const CUgraphNode *nodes;
    size_t count = 0;
    OK(cuStreamGetCaptureInfo(captured, &status, NULL, NULL, &nodes, NULL, &count));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_true(count <= 4);
    for (size_t i = 0; i < count; i++)
        out[i] = nodes[i];
    return count;
}

TEST(dependencies_can_be_read_added_and_set)
{
    CUstream third;
    CUevent event;
    CUgraph graph;
    CUgraphNode first, second, nodes[4];
    OK(cuStreamCreate(&third, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    assert_result(cuStreamUpdateCaptureDependencies(stream, NULL, NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES),
                  CUDA_ERROR_ILLEGAL_STATE);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_int_equal(dependencies_of(stream, nodes), 0);
    OK(cuLaunchHostFunc(stream, destroy, &destroyed));
    assert_int_equal(dependencies_of(stream, nodes), 1);
    first = nodes[0];
    OK(cuLaunchHostFunc(stream, destroy, &destroyed));
    assert_int_equal(dependencies_of(stream, nodes), 1);
    second = nodes[0];
    assert_ptr_not_equal(first, second);

    /* Set: what comes next is behind the first alone; then behind both. */
    OK(cuStreamUpdateCaptureDependencies(stream, &first, NULL, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    assert_int_equal(dependencies_of(stream, nodes), 1);
    assert_ptr_equal(nodes[0], first);
    OK(cuLaunchHostFunc(stream, destroy, &destroyed));
    assert_int_equal(dependencies_of(stream, nodes), 1);
    OK(cuStreamUpdateCaptureDependencies(stream, &second, NULL, 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
    assert_int_equal(dependencies_of(stream, nodes), 2);

    /* Another stream starts behind the two, and its work needs no join once the origin has been set to it. */
    OK(cuEventRecord(event, stream));
    OK(cuStreamWaitEvent(third, event, 0));
    assert_int_equal(dependencies_of(third, nodes), 2);
    OK(cuLaunchHostFunc(third, destroy, &destroyed));
    assert_int_equal(dependencies_of(third, nodes), 1);
    assert_result(cuStreamUpdateCaptureDependencies(stream, (CUgraphNode[]){(CUgraphNode)&graph}, NULL, 1, 0),
                  CUDA_ERROR_INVALID_VALUE);
    OK(cuEventRecord(event, third));
    OK(cuStreamWaitEvent(stream, event, 0));
    OK(cuStreamUpdateCaptureDependencies(stream, NULL, NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    assert_int_equal(dependencies_of(stream, nodes), 0);
    OK(cuStreamUpdateCaptureDependencies(stream, &second, NULL, 1, 0));
    OK(cuStreamUpdateCaptureDependencies(third, NULL, NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    OK(cuEventRecord(event, third));
    OK(cuStreamWaitEvent(stream, event, 0));
    OK(cuStreamEndCapture(stream, &graph));
}

TEST_GROUP(set_up, NULL)
TEST_CONCURRENTLY
