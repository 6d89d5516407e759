/* The simulated device's streams: their handles, what waits beside a full queue, and launches on them. tests/contract and
 * tests/torture hold the order of work. */
#include "results.h"

#include <unistd.h>

static CUcontext context;
static CUfunction spin;

static int set_up(void **state)
{
    setenv("CUFENCE_SIM", "depth=32", 1);
    context = use_device(0);
    CUmodule module;
    OK(cuModuleLoadData(&module, "any image"));
    OK(cuModuleGetFunction(&spin, module, "cusim_spin"));
    CUfunction missing;
    assert_result(cuModuleGetFunction(&missing, module, "no such kernel"), CUDA_ERROR_NOT_FOUND);
    return 0;
}

struct own_stream {
    pid_t thread;
    unsigned long long id;
    CUresult state;
    uint32_t *flag; /* spun on, if there is one */
};

/*
 * A thread with the id of one that has ended, as programs get it after 4 million threads. Linux hands ids out in order, and
 * says where it stands in ns_last_pid; whoever may write there (root, mostly) has the id at once. Otherwise, or where another
 * process is quicker, threads are made until the id comes round, which may take seconds.
 */
struct thread_with_id {
    pid_t wanted;
    int has_run;
    void *(*run)(void *);
    void *argument;
};

static void *run_if_wanted(void *argument)
{
    struct thread_with_id *thread = argument;
    if (gettid() == thread->wanted) {
        thread->has_run = 1;
        thread->run(thread->argument);
    }
    return NULL;
}

/* Runs the function to its end in a new thread whose gettid() is `id`, which no thread has now. Returns 0, or -1 if none got
 * it. */
static int run_in_thread_with_id(pid_t id, void *(*run)(void *), void *argument)
{
    struct thread_with_id thread = {.wanted = id, .run = run, .argument = argument};
    for (long tries = 0; tries < 5000000 && !thread.has_run; tries++) {
        pthread_t handle;
        FILE *last = fopen("/proc/sys/kernel/ns_last_pid", "w");
        if (last != NULL) {
            fprintf(last, "%d", (int)id - 1);
            fclose(last);
        }
        if (pthread_create(&handle, NULL, run_if_wanted, &thread) != 0)
            return -1;
        pthread_join(handle, NULL);
    }
    return thread.has_run ? 0 : -1;
}

static void *note_own_stream(void *argument)
{
    struct own_stream *own = argument;
    own->thread = gettid();
    OK(cuCtxSetCurrent(context));
    OK(cuStreamGetId(CU_STREAM_PER_THREAD, &own->id));
    own->state = cuStreamQuery(CU_STREAM_PER_THREAD);
    if (own->flag != NULL)
        launch_spin(spin, own->flag, CU_STREAM_PER_THREAD);
    return NULL;
}

TEST(a_thread_with_an_id_of_before_has_another_stream)
{
    uint32_t flag = 0;
    struct own_stream first = {.flag = &flag}, second = {0};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, note_own_stream, &first), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(run_in_thread_with_id(first.thread, note_own_stream, &second), 0);
    assert_int_equal(first.thread, second.thread);
    assert_int_not_equal(first.id, second.id);
    assert_result(second.state, CUDA_SUCCESS); /* while the first one's work goes on */
    let_go(&flag);
    OK(cuCtxSynchronize());
}

static void *let_go_later(void *flag)
{
    usleep(50000);
    let_go(flag);
    return NULL;
}

/* As the driver does: only to page-locked memory does a copy go on behind the call. */
TEST(a_copy_to_pageable_memory_is_waited_for)
{
    static uint32_t flag, word;
    CUdeviceptr from;
    CUstream stream;
    pthread_t thread;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&from, sizeof word));
    launch_spin(spin, &flag, stream);
    assert_int_equal(pthread_create(&thread, NULL, let_go_later, &flag), 0);
    OK(cuMemcpyDtoHAsync(&word, from, sizeof word, stream));
    OK(cuStreamQuery(stream));
    pthread_join(thread, NULL);
}

static void coordinates_kernel(const cusim_thread *thread, void *const *arguments)
{
    uint32_t block =
        thread->block_index[0] + thread->grid[0] * (thread->block_index[1] + thread->grid[1] * thread->block_index[2]);
    uint32_t lane =
        thread->thread_index[0] + thread->block[0] * (thread->thread_index[1] + thread->block[1] * thread->thread_index[2]);
    uint32_t index = block * thread->block[0] * thread->block[1] * thread->block[2] + lane;
    uint32_t *out = *(uint32_t *const *)arguments[1];
    out[index] = index + *(const unsigned char *)arguments[0];
}

TEST(kernels_see_every_thread_and_their_arguments)
{
    static const size_t bytes[] = {1, 8};
    const cusim_kernel kernel = {
        .name = "coordinates", .function = coordinates_kernel, .argument_bytes = bytes, .argument_count = 2};
    cusim_register_kernel(&kernel);
    CUlibrary library;
    CUkernel handle;
    CUdeviceptr memory;
    uint32_t back[2 * 3 * 2 * 5 * 2 * 1];
    OK(cuLibraryLoadData(&library, "any image", NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&handle, library, "coordinates"));
    const char *name;
    OK(cuKernelGetName(&name, handle));
    assert_string_equal(name, "coordinates");
    size_t offset, size;
    OK(cuKernelGetParamInfo(handle, 1, &offset, &size));
    assert_int_equal(offset, 8);
    assert_int_equal(size, 8);
    OK(cuMemAlloc(&memory, sizeof back));

    /* Once through kernelParams, once through the packed buffer. */
    struct {
        unsigned char addend;
        CUdeviceptr out;
    } packed = {3, memory};
    size_t packed_size = sizeof packed;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &packed_size, CU_LAUNCH_PARAM_END};
    unsigned char addend = 2;
    CUlaunchConfig config = {.gridDimX = 2, .gridDimY = 3, .gridDimZ = 2, .blockDimX = 5, .blockDimY = 2, .blockDimZ = 1};
    for (unsigned round = 0; round < 2; round++) {
        OK(cuLaunchKernelEx(&config, (CUfunction)handle, round == 0 ? (void *[]){&addend, &memory} : NULL,
                            round == 0 ? NULL : extra));
        OK(cuMemcpyDtoH(back, memory, sizeof back));
        for (uint32_t i = 0; i < sizeof back / sizeof back[0]; i++)
            assert_int_equal(back[i], i + 2 + round);
    }
    assert_result(cuLaunchKernel((CUfunction)handle, 1, 1, 1, 2048, 1, 1, 0, NULL, (void *[]){&addend, &memory}, NULL),
                  CUDA_ERROR_INVALID_VALUE);
}

TEST(a_destroyed_streams_handle_is_the_next_ones)
{
    CUstream first, second;
    CUevent event;
    unsigned long long first_id, second_id;
    uint32_t flag = 0;
    OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
    OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
    OK(cuStreamGetId(first, &first_id));
    launch_spin(spin, &flag, first);
    OK(cuEventRecord(event, first));
    OK(cuStreamDestroy(first));
    OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING)); /* though work is queued, and an event knows the first */
    assert_ptr_equal(first, second);
    OK(cuStreamGetId(second, &second_id));
    assert_int_not_equal(first_id, second_id);
    OK(cuStreamQuery(second));
    assert_result(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    let_go(&flag);
    OK(cuEventSynchronize(event));
}

/* What goes on beside a full queue is promised by full_queue... of tests/contract; this is what waits. */
static CUstream full;
static uint32_t flag_of_full;
static CUstream made;
static CUevent made_event;
static CUdeviceptr made_memory;

static void *submit_until_full(void *unused)
{
    OK(cuCtxSetCurrent(context));
    for (int i = 0; i < 33; i++)
        OK(cuMemsetD8Async(made_memory, 1, 1, full));
    return unused;
}

static CUresult query_full(void)
{
    CUresult result = cuStreamQuery(full);
    return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
}

static CUresult create_stream(void)
{
    return cuStreamCreate(&made, CU_STREAM_NON_BLOCKING);
}

static CUresult begin_capture(void)
{
    return cuStreamBeginCapture(made, CU_STREAM_CAPTURE_MODE_RELAXED);
}

static CUresult destroy_stream(void)
{
    return cuStreamDestroy(made);
}

static CUresult create_event(void)
{
    return cuEventCreate(&made_event, CU_EVENT_DEFAULT);
}

static CUresult destroy_event(void)
{
    return cuEventDestroy(made_event);
}

static CUresult allocate(void)
{
    CUdeviceptr address;
    return cuMemAlloc(&address, 2 << 20);
}

static CUresult allocate_host(void)
{
    void *address;
    return cuMemHostAlloc(&address, 10, 0);
}

TEST(beside_a_full_queue_some_calls_wait)
{
    CUresult (*const calls[])(void) = {query_full,   create_stream, begin_capture, destroy_stream,
                                       create_event, destroy_event, allocate,      allocate_host};
    OK(cuStreamCreate(&full, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&made_memory, 16));
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        pthread_t submitting, releasing;
        uint64_t before = cusim_call_count("cuMemsetD8Async");
        flag_of_full = 0;
        launch_spin(spin, &flag_of_full, full);
        assert_int_equal(pthread_create(&submitting, NULL, submit_until_full, NULL), 0);
        while (cusim_call_count("cuMemsetD8Async") - before < 32)
            usleep(1000);
        usleep(20000); /* the last one waits: the kernel has a place, too */
        assert_int_equal(pthread_create(&releasing, NULL, let_go_later, &flag_of_full), 0);
        OK(calls[i]());
        assert_int_equal(__atomic_load_n(&flag_of_full, __ATOMIC_ACQUIRE), 1);
        pthread_join(submitting, NULL);
        pthread_join(releasing, NULL);
        OK(cuStreamSynchronize(full));
    }
}

TEST(stale_handles_are_counted)
{
    CUstream stream;
    CUevent event;
    int bogus = 0;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
    uint64_t before = cusim_stale_handles();
    OK(cuEventRecord(event, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuStreamDestroy(stream));
    assert_int_equal(cusim_stale_handles(), before);
    assert_result(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
    assert_result(cuStreamDestroy((CUstream)&bogus), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventDestroy(event));
    assert_result(cuEventDestroy(event), CUDA_ERROR_INVALID_HANDLE);
    assert_result(cuCtxSetCurrent((CUcontext)&bogus), CUDA_ERROR_INVALID_CONTEXT);
    assert_result(cuMemRelease(12345), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cusim_stale_handles(), before + 5);
}

TEST_GROUP(set_up, NULL)
TEST_CONCURRENTLY
