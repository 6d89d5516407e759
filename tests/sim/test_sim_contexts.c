/* The simulated device's contexts: those of several devices, of their own making, and what crosses from one to another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sim/sim.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static CUcontext contexts[2]; /* the primary ones */
static CUmodule modules[2];
static CUfunction spins[2], adds[2];
static atomic_uint counter;

static void add_kernel(const cusim_thread *thread, void *const *arguments)
{
    (void)thread;
    atomic_fetch_add(&counter, *(const uint32_t *)arguments[0]);
}

static void assert_result(CUresult result, CUresult wanted)
{
    const char *name = "?", *wanted_name = "?";
    cuGetErrorName(result, &name);
    cuGetErrorName(wanted, &wanted_name);
    assert_string_equal(name, wanted_name);
}

#define OK(call) assert_result(call, CUDA_SUCCESS)

static int set_up(void **state)
{
    (void)state;
    static const size_t one_number[] = {sizeof(uint32_t)};
    const cusim_kernel kernel = {.name = "add", .function = add_kernel, .argument_bytes = one_number, .argument_count = 1};
    cusim_register_kernel(&kernel);
    cusim_configure(2, (size_t)64 << 20, 0);
    OK(cuInit(0));
    for (int i = 1; i >= 0; i--) { /* the first stays current */
        OK(cuDevicePrimaryCtxRetain(&contexts[i], i));
        OK(cuCtxSetCurrent(contexts[i]));
        OK(cuModuleLoadData(&modules[i], "any image"));
        OK(cuModuleGetFunction(&spins[i], modules[i], "cusim_spin"));
        OK(cuModuleGetFunction(&adds[i], modules[i], "add"));
    }
    return 0;
}

static int start_anew(void **state)
{
    (void)state;
    atomic_store(&counter, 0);
    OK(cuCtxSetCurrent(contexts[0]));
    return 0;
}

static CUresult launch_add(CUfunction function, uint32_t value, CUstream stream)
{
    return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&value}, NULL);
}

static void launch_spin(CUfunction function, uint32_t *flag, CUstream stream)
{
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&flag}, NULL));
}

static void let_go(uint32_t *flag)
{
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
}

static void each_device_has_a_default_stream(void **state)
{
    (void)state;
    uint32_t flag = 0;
    CUstream blocking;
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    OK(cuCtxSetCurrent(contexts[1]));
    launch_spin(spins[1], &flag, NULL);
    assert_result(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    /* Device 0's streams wait for none of device 1. */
    OK(cuCtxSetCurrent(contexts[0]));
    OK(launch_add(adds[0], 1, NULL));
    OK(launch_add(adds[0], 1, blocking));
    OK(cuCtxSynchronize());
    assert_int_equal(atomic_load(&counter), 2);
    OK(cuStreamQuery(NULL));
    let_go(&flag);
    OK(cuCtxSetCurrent(contexts[1]));
    OK(cuStreamSynchronize(NULL));
    OK(cuStreamDestroy(blocking));
}

static void a_thread_has_a_stream_of_its_own_in_each_context(void **state)
{
    (void)state;
    uint32_t flag = 0;
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

static void a_launch_goes_where_its_stream_and_function_are(void **state)
{
    (void)state;
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
    OK(cuStreamDestroy(there));
    OK(cuLibraryUnload(library));
}

static int device_of(CUdeviceptr memory)
{
    int device = -1;
    OK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory));
    return device;
}

static void memory_comes_from_the_streams_device(void **state)
{
    (void)state;
    CUstream there;
    CUdeviceptr by_stream, by_pool;
    CUmemoryPool pool;
    OK(cuCtxSetCurrent(contexts[1]));
    OK(cuStreamCreate(&there, CU_STREAM_NON_BLOCKING));
    OK(cuCtxSetCurrent(contexts[0]));
    OK(cuMemAllocAsync(&by_stream, 64, there));
    assert_int_equal(device_of(by_stream), 1);
    OK(cuDeviceGetDefaultMemPool(&pool, 1));
    OK(cuMemAllocFromPoolAsync(&by_pool, 64, pool, NULL));
    assert_int_equal(device_of(by_pool), 1);
    OK(cuMemFreeAsync(by_stream, NULL)); /* any stream frees any memory */
    OK(cuMemFreeAsync(by_pool, there));
    OK(cuStreamSynchronize(there));
    OK(cuCtxSynchronize());
    OK(cuStreamDestroy(there));
}

static void events_are_recorded_at_home_and_waited_for_anywhere(void **state)
{
    (void)state;
    uint32_t flag = 0;
    float milliseconds;
    CUevent here, there;
    CUstream stream_there;
    OK(cuEventCreate(&here, CU_EVENT_DEFAULT));
    OK(cuCtxSetCurrent(contexts[1]));
    OK(cuEventCreate(&there, CU_EVENT_DEFAULT));
    OK(cuStreamCreate(&stream_there, CU_STREAM_NON_BLOCKING));
    OK(cuCtxSetCurrent(contexts[0]));
    assert_result(cuEventRecord(here, stream_there), CUDA_ERROR_INVALID_HANDLE);
    assert_result(cuEventRecord(there, NULL), CUDA_ERROR_INVALID_HANDLE);
    launch_spin(spins[0], &flag, NULL);
    OK(cuEventRecord(here, NULL));
    OK(cuStreamWaitEvent(stream_there, here, 0));
    OK(launch_add(adds[1], 1, stream_there));
    OK(cuEventRecord(there, stream_there));
    assert_result(cuEventQuery(there), CUDA_ERROR_NOT_READY);
    assert_int_equal(atomic_load(&counter), 0);
    let_go(&flag);
    OK(cuEventSynchronize(there));
    assert_int_equal(atomic_load(&counter), 1);
    assert_result(cuEventElapsedTime(&milliseconds, here, there), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventDestroy(here));
    OK(cuEventDestroy(there));
    OK(cuStreamDestroy(stream_there));
}

static void a_free_waits_for_the_memorys_context_alone(void **state)
{
    (void)state;
    uint32_t flag = 0, other_flag = 0;
    CUdeviceptr here, there;
    OK(cuMemAlloc(&here, 64));
    OK(cuCtxSetCurrent(contexts[1]));
    launch_spin(spins[1], &flag, NULL);
    OK(cuMemsetD8Async(here, 1, 0, NULL));
    OK(cuMemAllocAsync(&there, 64, NULL));
    OK(cuMemFree(there)); /* of a pool: waits for nothing */
    OK(cuMemFree(here));  /* of device 0, which is idle */
    assert_result(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    let_go(&flag);

    OK(cuMemAlloc(&there, 64));
    OK(cuCtxSetCurrent(contexts[0]));
    launch_spin(spins[0], &other_flag, NULL);
    OK(cuMemFree(there)); /* would not end if it waited for what is current */
    assert_result(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    let_go(&other_flag);
    OK(cuCtxSynchronize());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_device_has_a_default_stream, start_anew),
        cmocka_unit_test_setup(a_thread_has_a_stream_of_its_own_in_each_context, start_anew),
        cmocka_unit_test_setup(a_launch_goes_where_its_stream_and_function_are, start_anew),
        cmocka_unit_test_setup(memory_comes_from_the_streams_device, start_anew),
        cmocka_unit_test_setup(events_are_recorded_at_home_and_waited_for_anywhere, start_anew),
        cmocka_unit_test_setup(a_free_waits_for_the_memorys_context_alone, start_anew),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
