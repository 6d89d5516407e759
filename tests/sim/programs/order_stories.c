/* Stories about buffers that are used on two streams: `order CASE`. The first cases are wrong, the others are not. */
#include "program.h"

#include <pthread.h>

#define BYTES 4096u
#define WORDS (BYTES / 4)

static CUstream first, second; /* neither blocks the other, nor the default stream */
static CUdeviceptr buffer;     /* allocated on `first`, used on both */

static CUevent new_event(void)
{
    CUevent event;
    MUST(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

/* `to` waits for the work of `from`. */
static void follow(CUstream to, CUstream from)
{
    CUevent event = new_event();
    MUST(cu.cuEventRecord(event, from));
    MUST(cu.cuStreamWaitEvent(to, event, 0));
    MUST(cu.cuEventDestroy(event));
}

/* The other stream uses what `first` has made. */
static void use_on(CUstream other)
{
    follow(other, first);
    MUST(add_one(buffer, WORDS, other));
}

static void free_on(CUstream stream)
{
    MUST(cu.cuMemFreeAsync(buffer, stream));
}

/* ---- wrong ---- */

/* The classic one: freed on the stream of its allocation, with nothing that says that another one uses it. */
CASE(order, not_recorded)
{
    use_on(second);
    free_on(first);
}

/* The handle of an event that was recorded behind the launch now stands for another one. */
CASE(order, handle_again)
{
    CUevent events[64];
    use_on(second);
    for (int i = 0; i < 64; i++) {
        events[i] = new_event();
        MUST(cu.cuEventRecord(events[i], second));
    }
    for (int i = 0; i < 64; i++)
        MUST(cu.cuEventDestroy(events[i]));
    for (int i = 0; i < 64; i++)
        MUST(cu.cuStreamWaitEvent(first, new_event(), 0));
    free_on(first);
}

CASE(order, overwritten)
{
    static uint32_t words[WORDS];
    use_on(second);
    MUST(cu.cuMemcpyHtoDAsync(buffer, words, BYTES, first));
    MUST(cu.cuCtxSynchronize());
    free_on(first);
}

CASE(order, overwritten_by_host)
{
    static uint32_t words[WORDS];
    use_on(second);
    MUST(cu.cuMemcpyHtoD(buffer, words, BYTES));
    MUST(cu.cuCtxSynchronize());
    free_on(first);
}

CASE(order, set_while_copied)
{
    void *words;
    MUST(cu.cuMemHostAlloc(&words, BYTES, 0));
    follow(second, first);
    MUST(cu.cuMemcpyDtoHAsync(words, buffer + 8, BYTES / 2, second));
    MUST(cu.cuMemsetD32Async(buffer + 1024, 3, 16, first));
    MUST(cu.cuCtxSynchronize());
    free_on(first);
    MUST(cu.cuMemFreeHost(words));
}

CASE(order, stream_is_gone)
{
    CUstream third = new_stream();
    use_on(third);
    MUST(cu.cuStreamDestroy(third));
    free_on(first);
}

static CUcontext current;

static void *free_in_thread(void *unused)
{
    MUST(cu.cuCtxSetCurrent(current));
    free_on(first);
    return NULL;
}

CASE(order, by_another_thread)
{
    pthread_t thread;
    MUST(cu.cuDevicePrimaryCtxRetain(&current, 0));
    use_on(second);
    pthread_create(&thread, NULL, free_in_thread, NULL);
    pthread_join(thread, NULL);
}

/* Each thread's own default stream is another one. */
CASE(order, own_default_streams)
{
    pthread_t thread;
    MUST(cu.cuDevicePrimaryCtxRetain(&current, 0));
    use_on(CU_STREAM_PER_THREAD);
    pthread_create(&thread, NULL, free_in_thread, NULL);
    pthread_join(thread, NULL);
}

struct span {
    uint32_t count;
    CUdeviceptr start;
};

static void clear_kernel(const cusim_thread *thread, void *const *arguments)
{
    const struct span *span = arguments[0];
    memset((void *)(uintptr_t)span->start, 0, span->count);
}

/* bytes: of its argument, which begins with a span. */
static CUfunction clear_function(size_t bytes)
{
    static size_t argument;
    CUmodule module;
    CUfunction function;
    argument = bytes;
    driver_register_kernel(&(cusim_kernel){
        .name = "clear", .function = clear_kernel, .argument_bytes = &argument, .argument_count = 1, .access_bytes = 4});
    MUST(cu.cuModuleLoadData(&module, "an image"));
    MUST(cu.cuModuleGetFunction(&function, module, "clear"));
    return function;
}

/* The launch is given the buffer within a struct, and an address in its middle. */
CASE(order, in_a_struct)
{
    struct span span = {64, buffer + 1024};
    follow(second, first);
    MUST(cu.cuLaunchKernel(clear_function(sizeof span), 1, 1, 1, 1, 1, 1, 0, second, (void *[]){&span}, NULL));
    free_on(first);
}

/* A large struct, in which a pointer of an earlier launch is left over. */
CASE(order, in_a_stale_member)
{
    struct {
        struct span span;
        uint64_t unused[16];
    } left_over = {.span = {0, 16}, .unused = {[7] = buffer}};
    follow(second, first);
    MUST(cu.cuLaunchKernel(clear_function(sizeof left_over), 1, 1, 1, 1, 1, 1, 0, second, (void *[]){&left_over}, NULL));
    free_on(first);
}

/* All arguments are in one buffer on the host. */
CASE(order, in_one_buffer)
{
    struct span span = {64, buffer + 1024};
    size_t size = sizeof span;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &span, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    follow(second, first);
    MUST(cu.cuLaunchKernel(clear_function(sizeof span), 1, 1, 1, 1, 1, 1, 0, second, NULL, extra));
    free_on(first);
}

/* A context of its own, whose work the other one's synchronisation does not wait for. */
CASE(order, two_contexts)
{
    CUcontext other;
    CUstream far;
    CUevent event = new_event();
    MUST(cu.cuDevicePrimaryCtxRetain(&current, 0));
    MUST(cu.cuEventRecord(event, first));
    MUST(cu.cuCtxCreate(&other, NULL, 0, 0));
    far = new_stream();
    MUST(cu.cuStreamWaitEvent(far, event, 0));
    MUST(cu.cuMemsetD32Async(buffer, 5, WORDS, far));
    MUST(cu.cuCtxSetCurrent(current));
    MUST(cu.cuCtxSynchronize());
    free_on(first);
}

/* ---- not wrong ---- */

/* Through a third stream, as PyTorch frees a tensor with recorded streams. */
CASE(order, unified)
{
    CUstream third = new_stream();
    use_on(second);
    follow(third, first);
    follow(third, second);
    free_on(third);
}

CASE(order, event_synchronised)
{
    CUevent event = new_event();
    use_on(second);
    MUST(cu.cuEventRecord(event, second));
    MUST(cu.cuEventSynchronize(event));
    free_on(first);
}

CASE(order, event_polled)
{
    CUevent event = new_event();
    use_on(second);
    MUST(cu.cuEventRecord(event, second));
    while (cu.cuEventQuery(event) != CUDA_SUCCESS)
        ;
    free_on(first);
}

CASE(order, stream_polled)
{
    use_on(second);
    while (cu.cuStreamQuery(second) != CUDA_SUCCESS)
        ;
    free_on(first);
}

/* A copy to memory that is not page-locked has ended when it returns. */
CASE(order, copied_to_host)
{
    static uint32_t words[WORDS];
    use_on(second);
    MUST(cu.cuMemcpyDtoHAsync(words, buffer, BYTES, second));
    free_on(first);
}

/* Chunks of one buffer, each on its own stream. */
CASE(order, pipelined)
{
    static uint32_t words[WORDS];
    follow(second, first);
    for (int i = 0; i < 2; i++) {
        MUST(cu.cuMemcpyHtoDAsync(buffer, words, BYTES / 2, first));
        MUST(add_one(buffer, WORDS / 2, first));
        MUST(cu.cuMemcpyHtoDAsync(buffer + BYTES / 2, words, BYTES / 2, second));
        MUST(add_one(buffer + BYTES / 2, WORDS / 2, second));
    }
    follow(first, second);
    free_on(first);
}

/* Launches of a graph do not overlap, whichever streams they are on; and capturing calls submit nothing. */
CASE(order, graph)
{
    CUgraph captured;
    CUgraphExec executable;
    follow(second, first);
    MUST(cu.cuStreamBeginCapture(second, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(add_one(buffer, WORDS, second));
    MUST(cu.cuStreamEndCapture(second, &captured));
    MUST(cu.cuGraphInstantiateWithFlags(&executable, captured, 0));
    MUST(add_one(buffer, WORDS, second));
    MUST(cu.cuGraphLaunch(executable, second));
    MUST(cu.cuGraphLaunch(executable, first));
    free_on(first);
    MUST(cu.cuStreamSynchronize(first));
    MUST(cu.cuGraphExecDestroy(executable));
    MUST(cu.cuGraphDestroy(captured));
}

/* The host function may tell another thread, which may free the buffer. */
CASE(order, host_told)
{
    static uint32_t flag;
    use_on(second);
    MUST(cu.cuLaunchHostFunc(second, let_go, &flag));
    while (!__atomic_load_n(&flag, __ATOMIC_ACQUIRE))
        ;
    free_on(first);
}

STORY(order)
{
    start();
    first = new_stream();
    second = new_stream();
    MUST(cu.cuMemAllocAsync(&buffer, BYTES, first));
    MUST(cu.cuMemsetD32Async(buffer, 7, WORDS, first));
    int status = play_case(count, arguments);
    puts(status ? "not played" : "played");
    return status;
}
