/* The simulated device's contexts: those of several devices, of their own making, and what crosses from one to another. */
#include "results.h"

#include <stdatomic.h>

static CUcontext contexts[2]; /* the primary ones */
static CUmodule modules[2];
static CUfunction spins[2], adds[2];
static atomic_uint counter;

static void add_kernel(const cusim_thread *thread, void *const *arguments)
{
    atomic_fetch_add(&counter, *(const uint32_t *)arguments[0]);
}

static int set_up(void **state)
{
    static const size_t one_number[] = {sizeof(uint32_t)};
    const cusim_kernel kernel = {.name = "add", .function = add_kernel, .argument_bytes = one_number, .argument_count = 1};
    cusim_register_kernel(&kernel);
    setenv("CUFENCE_SIM", "devices=2,memory=64M", 1);
    for (int i = 1; i >= 0; i--) { /* the first stays current */
        contexts[i] = use_device(i);
        OK(cuModuleLoadData(&modules[i], "any image"));
        OK(cuModuleGetFunction(&spins[i], modules[i], "cusim_spin"));
        OK(cuModuleGetFunction(&adds[i], modules[i], "add"));
    }
    return 0;
}

static CUresult launch_add(CUfunction function, uint32_t value, CUstream stream)
{
    return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&value}, NULL);
}

TEST(a_thread_has_a_stream_of_its_own_in_each_context)
{
    static uint32_t flag;
    unsigned long long first, second;
    launch_spin(spins[0], &flag, CU_STREAM_PER_THREAD);
    OK(cuStreamGetId(CU_STREAM_PER_THREAD, &first));
    OK(cuCtxSetCurrent(contexts[1]));
    OK(cuStreamGetId(CU_STREAM_PER_THREAD, &second));
    assert_int_not_equal(first, second);
    OK(launch_add(adds[1], 1, CU_STREAM_PER_THREAD));
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    assert_int_equal(atomic_load(&counter), 1);
    let_go(&flag);
}

TEST(a_launch_goes_where_its_stream_and_function_are)
{
    CUstream there;
    CUlibrary library;
    CUkernel kernel;
    CUcontext of_stream;
    OK(cuLibraryLoadData(&library, "any image", NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "add"));
    OK(cuCtxSetCurrent(contexts[1]));
    OK(cuStreamCreate(&there, CU_STREAM_NON_BLOCKING));
    OK(cuCtxSetCurrent(contexts[0]));
    OK(cuStreamGetCtx(there, &of_stream));
    assert_ptr_equal(of_stream, contexts[1]);
    assert_ptr_not_equal(adds[0], adds[1]);
    assert_result(launch_add(adds[0], 1, there), CUDA_ERROR_INVALID_HANDLE);
    assert_result(launch_add(adds[1], 1, NULL), CUDA_ERROR_INVALID_HANDLE);
    OK(launch_add(adds[1], 1, there));
    OK(launch_add((CUfunction)kernel, 1, there));
    OK(launch_add((CUfunction)kernel, 1, NULL));
    OK(cuStreamSynchronize(there));
    OK(cuCtxSynchronize());
    assert_int_equal(atomic_load(&counter), 3);
}

TEST(a_destroyed_contexts_handle_is_the_next_ones)
{
    CUcontext first, second, current;
    unsigned long long first_id, second_id;
    OK(cuCtxCreate(&first, NULL, 0, 1));
    OK(cuCtxGetCurrent(&current));
    assert_ptr_equal(current, first);
    OK(cuCtxGetId(NULL, &first_id));
    OK(cuCtxPushCurrent(contexts[0]));
    OK(cuCtxDestroy(first));
    assert_result(cuCtxSetCurrent(first), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    OK(cuCtxCreate(&second, NULL, 0, 0));
    assert_ptr_equal(first, second);
    OK(cuCtxGetId(second, &second_id));
    assert_int_not_equal(first_id, second_id);
    /* What was current below is still the one that is gone. */
    OK(cuCtxPopCurrent(NULL));
    OK(cuCtxPopCurrent(NULL));
    assert_result(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    OK(cuCtxPopCurrent(NULL));
    OK(cuCtxDestroy(second));
}

/* The threads of a destroyed context's streams end a little later, when its handle may be in use again. */
TEST(contexts_follow_each_other_closely)
{
    CUlibrary library;
    CUkernel kernel;
    OK(cuLibraryLoadData(&library, "any image", NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "add"));
    for (int i = 0; i < 50; i++) {
        CUcontext own;
        OK(cuCtxCreate(&own, NULL, 0, i % 2));
        OK(launch_add((CUfunction)kernel, 1, NULL));
        OK(launch_add((CUfunction)kernel, 1, CU_STREAM_PER_THREAD));
        OK(cuCtxDestroy(own));
    }
    assert_int_equal(atomic_load(&counter), 100);
}

static CUdevResourceDesc half_of(CUdevice device)
{
    CUdevResource all, halves[2];
    CUdevResourceDesc description;
    unsigned count = 0;
    OK(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
    OK(cuDevSmResourceSplitByCount(NULL, &count, &all, NULL, 0, all.sm.smCount / 2));
    assert_int_equal(count, 2);
    OK(cuDevSmResourceSplitByCount(halves, &count, &all, NULL, 0, all.sm.smCount / 2));
    assert_int_equal(halves[1].sm.smCount, all.sm.smCount / 2);
    OK(cuDevResourceGenerateDesc(&description, halves, 1));
    return description;
}

TEST(a_green_context_is_a_context_of_its_own_on_the_primarys_memory)
{
    CUgreenCtx green;
    CUcontext converted, of_stream, of_memory;
    CUstream stream;
    CUdevice device;
    CUdeviceptr memory;
    unsigned long long id, primary_id, stream_id;
    static uint32_t flag;
    OK(cuGreenCtxCreate(&green, half_of(1), 1, CU_GREEN_CTX_DEFAULT_STREAM));
    assert_result(cuCtxSetCurrent((CUcontext)green), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuCtxFromGreenCtx(&converted, green));
    OK(cuCtxGetId(converted, &id));
    OK(cuCtxGetId(contexts[1], &primary_id));
    assert_int_not_equal(id, primary_id);
    OK(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
    OK(cuStreamGetCtx(stream, &of_stream));
    assert_ptr_equal(of_stream, converted);
    OK(cuCtxSetCurrent(converted));
    OK(cuCtxGetDevice(&device));
    assert_int_equal(device, 1);
    assert_result(cuStreamGetId(CU_STREAM_PER_THREAD, &stream_id), CUDA_ERROR_INVALID_HANDLE);
    OK(cuMemAlloc(&memory, 64));
    OK(cuPointerGetAttribute(&of_memory, CU_POINTER_ATTRIBUTE_CONTEXT, memory));
    assert_ptr_equal(of_memory, contexts[1]);

    /* The primary's functions run there; its default stream does not wait for theirs, and synchronising it waits for all. */
    launch_spin(spins[1], &flag, NULL);
    OK(launch_add(adds[1], 1, NULL));
    OK(cuCtxSetCurrent(contexts[1]));
    OK(launch_add(adds[1], 2, NULL));
    OK(cuStreamSynchronize(NULL));
    assert_int_equal(atomic_load(&counter), 2);
    OK(launch_add(adds[1], 4, stream));
    OK(cuStreamSynchronize(stream));
    assert_int_equal(atomic_load(&counter), 6);
    let_go(&flag);
    OK(cuCtxSynchronize());
    assert_int_equal(atomic_load(&counter), 7);
    OK(cuStreamDestroy(stream));
    OK(cuGreenCtxDestroy(green));
    assert_result(cuCtxSetCurrent(converted), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_result(cuGreenCtxDestroy(green), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuMemFree(memory)); /* the primary's, so it is still there */
}

TEST(a_green_context_ends_while_its_work_goes_on)
{
    static uint32_t flag;
    CUgreenCtx green, next;
    CUcontext first, second;
    CUstream stream;
    unsigned long long first_id, second_id;
    OK(cuGreenCtxCreate(&green, half_of(0), 0, CU_GREEN_CTX_DEFAULT_STREAM));
    OK(cuCtxFromGreenCtx(&first, green));
    OK(cuCtxGetId(first, &first_id));
    OK(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
    launch_spin(spins[0], &flag, stream);
    OK(launch_add(adds[0], 1, stream));
    OK(cuGreenCtxDestroy(green));
    OK(cuGreenCtxCreate(&next, half_of(0), 0, CU_GREEN_CTX_DEFAULT_STREAM));
    OK(cuCtxFromGreenCtx(&second, next));
    assert_ptr_equal(first, second);
    OK(cuCtxGetId(second, &second_id));
    assert_int_not_equal(first_id, second_id);
    OK(cuCtxSetCurrent(second));
    OK(cuCtxSynchronize()); /* knows nothing of the other's work */
    assert_int_equal(atomic_load(&counter), 0);
    let_go(&flag);
    OK(cuCtxSetCurrent(contexts[0]));
    OK(cuCtxSynchronize());
    assert_int_equal(atomic_load(&counter), 1);
}

TEST_GROUP(set_up, NULL)
TEST_CONCURRENTLY
