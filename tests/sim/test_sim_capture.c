/* The simulated device's stream capture: what is recorded, what is refused, and what a refusal does to the capture.
 * What waits on the host, what is not joined: tests/contract. test_preload_findings.c launches graphs.
 */
#include "device_memory.h"
#include "results.h"

static CUcontext context;
static CUfunction add;
static CUdeviceptr counter;
static CUstream stream, other, blocking;

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
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
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

static CUresult launch_add(uint32_t amount, CUstream on)
{
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
    assert_result(launch_add(1, which), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_result(cuStreamEndCapture(which, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_null(graph);
    assert_int_equal(status_of(which), CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST(events_pull_streams_into_the_capture_and_join_them)
{
    CUevent fork_event, join_event;
    CUgraph graph;
    OK(cuEventCreate(&fork_event, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&join_event, CU_EVENT_DISABLE_TIMING));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuEventRecord(fork_event, stream));
    OK(cuStreamWaitEvent(other, fork_event, 0));
    assert_int_equal(status_of(other), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(launch_add(1, other));
    OK(cuEventRecord(join_event, other));
    OK(cuStreamWaitEvent(stream, join_event, 0));
    OK(cuStreamEndCapture(stream, &graph));
    assert_int_equal(status_of(other), CU_STREAM_CAPTURE_STATUS_NONE);
    CUgraphExec executable;
    OK(cuGraphInstantiate(&executable, graph, 0));
    OK(cuGraphLaunch(executable, NULL));
    assert_int_equal(counted(), 1);
    OK(cuGraphExecDestroy(executable));
    OK(cuGraphDestroy(graph));
    assert_result(cuEventQuery(join_event), CUDA_ERROR_CAPTURED_EVENT);

    /* Work that the origin does not wait for. */
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuEventRecord(fork_event, stream));
    OK(cuStreamWaitEvent(other, fork_event, 0));
    OK(launch_add(1, other));
    assert_result(cuStreamEndCapture(other, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    assert_ends_invalid(stream);

    /* A capture that waits for work outside of it. */
    OK(cuEventRecord(join_event, other));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_result(cuStreamWaitEvent(stream, join_event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    assert_ends_invalid(stream);
}

TEST(the_legacy_stream_cannot_depend_on_a_capture)
{
    CUstreamCaptureStatus status;
    CUgraph graph;
    assert_result(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    OK(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_result(cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    assert_int_equal(status_of(blocking), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_result(launch_add(1, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    assert_ends_invalid(blocking);

    /* A stream that does not order with it is no obstacle. */
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuStreamIsCapturing(NULL, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
    OK(launch_add(1, NULL));
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

/* A graph of `nodes` launches, with a user object that it alone refers to. */
static CUgraph graph_with_object(unsigned nodes)
{
    CUgraph graph;
    CUuserObject object;
    OK(cuUserObjectCreate(&object, &destroyed, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CUstreamCaptureStatus status;
    OK(cuStreamGetCaptureInfo(stream, &status, NULL, &graph, NULL, NULL, NULL));
    OK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    for (unsigned i = 0; i < nodes; i++)
        OK(launch_add(1, stream));
    OK(cuStreamEndCapture(stream, &graph));
    destroyed = 0;
    return graph;
}

TEST(an_update_takes_the_objects_of_its_graph)
{
    CUgraph first = graph_with_object(1), second = graph_with_object(1), longer = graph_with_object(2);
    CUgraphExec executable;
    CUgraphExecUpdateResultInfo info;
    OK(cuGraphInstantiate(&executable, first, 0));
    OK(cuGraphDestroy(first));
    assert_result(cuGraphExecUpdate(executable, longer, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    assert_int_equal(destroyed, 0);
    OK(cuGraphExecUpdate(executable, second, &info));
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    assert_int_equal(destroyed, 1); /* the first graph's */
    OK(cuGraphDestroy(second));
    assert_int_equal(destroyed, 1);
    OK(cuGraphExecDestroy(executable));
    assert_int_equal(destroyed, 2);
    OK(cuGraphDestroy(longer));
    assert_int_equal(destroyed, 3);
}

TEST(user_objects_are_checked)
{
    CUuserObject object;
    CUgraph graph;
    const unsigned no_sync = CU_USER_OBJECT_NO_DESTRUCTOR_SYNC;
    OK(cuGraphCreate(&graph, 0));
    assert_result(cuUserObjectCreate(&object, &destroyed, destroy, 0, no_sync), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuUserObjectCreate(&object, &destroyed, destroy, 1, 0), CUDA_ERROR_INVALID_VALUE);
    destroyed = 0;
    OK(cuUserObjectCreate(&object, &destroyed, destroy, 1, no_sync));
    OK(cuGraphRetainUserObject(graph, object, 1, 0));
    assert_result(cuUserObjectRelease(object, 3), CUDA_ERROR_INVALID_VALUE);
    OK(cuUserObjectRelease(object, 1));
    assert_int_equal(destroyed, 0);
    OK(cuGraphDestroy(graph));
    assert_int_equal(destroyed, 1);
    assert_result(cuUserObjectRelease(object, 1), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuGraphRetainUserObject(graph, object, 1, 0), CUDA_ERROR_INVALID_VALUE);
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
