/* Stories about launches that are given freed pointers: `freed CASE`. Kernels of the first cases use them, those of the others
 * do not, or are right to. */
#include "program.h"

#include <unistd.h>

#define BYTES 4096u
#define WORDS (BYTES / 4)
#define TIMES 60

static CUstream first, second;
static CUdeviceptr kept; /* never freed */

static CUstream new_stream(void)
{
    CUstream stream;
    MUST(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static CUdeviceptr allocate(size_t bytes, CUstream stream)
{
    CUdeviceptr buffer;
    MUST(cu.cuMemAllocAsync(&buffer, bytes, stream));
    MUST(cu.cuMemsetD32Async(buffer, 0, bytes / 4, stream));
    return buffer;
}

static CUdeviceptr freed(CUstream stream)
{
    CUdeviceptr buffer = allocate(BYTES, stream);
    MUST(cu.cuMemFreeAsync(buffer, stream));
    return buffer;
}

/* ---- wrong ---- */

static void same_stream(void)
{
    MUST(add_one(freed(first), WORDS, first));
}

/* The program goes on until it hears of the fault. */
static void in_a_loop(void)
{
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i < TIMES && result == CUDA_SUCCESS; i++) {
        CUdeviceptr buffer = 0;
        result = cu.cuMemAllocAsync(&buffer, BYTES, first);
        if (result == CUDA_SUCCESS)
            result = add_one(buffer, WORDS, first);
        cu.cuMemFreeAsync(buffer, first);
        if (result == CUDA_SUCCESS)
            result = add_one(buffer, WORDS, first);
    }
}

static void other_stream(void)
{
    CUdeviceptr buffer = freed(first);
    MUST(cu.cuStreamSynchronize(first));
    MUST(add_one(buffer, WORDS, second));
}

static void waited_free(void)
{
    CUdeviceptr buffer;
    MUST(cu.cuMemAlloc(&buffer, BYTES));
    MUST(cu.cuMemFree(buffer));
    MUST(add_one(buffer, WORDS, first));
}

static void within(void)
{
    CUdeviceptr buffer = allocate(5u << 20, first);
    MUST(cu.cuMemFreeAsync(buffer, first));
    MUST(add_one(buffer + (4u << 20), WORDS, first));
}

/* The stream has work to do before the free. */
static void busy(void)
{
    CUdeviceptr buffer = allocate(BYTES, first);
    for (int i = 0; i < 1000; i++)
        MUST(add_one(buffer, WORDS, first));
    MUST(cu.cuMemFreeAsync(buffer, first));
    MUST(add_one(buffer, WORDS, first));
}

/* A graph of one kernel. */
static CUgraphExec graph_of(CUdeviceptr buffer)
{
    CUgraph graph;
    CUgraphExec executable;
    MUST(cu.cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_GLOBAL));
    MUST(cu.cuMemsetD32Async(kept, 0, WORDS, first));
    MUST(add_one(buffer, WORDS, first));
    MUST(cu.cuStreamEndCapture(first, &graph));
    MUST(cu.cuGraphInstantiateWithFlags(&executable, graph, 0));
    return executable;
}

/* Its buffer is freed before the third launch, and its memory would serve the next one. */
static void graph(void)
{
    CUdeviceptr buffer = allocate(BYTES, first);
    CUgraphExec executable = graph_of(buffer);
    MUST(cu.cuGraphLaunch(executable, first));
    MUST(cu.cuGraphLaunch(executable, first));
    MUST(cu.cuMemFreeAsync(buffer, first));
    CUdeviceptr next = allocate(BYTES, first);
    MUST(cu.cuGraphLaunch(executable, first));
    cu.cuMemFreeAsync(next, first);
}

/* ---- wrong with streams=on: the buffer is in use elsewhere when it is freed ---- */

/* A kernel of the other device uses the buffer. */
static CUstream use_far(CUdeviceptr buffer)
{
    CUcontext near;
    MUST(cu.cuDevicePrimaryCtxRetain(&near, 0));
    MUST(cu.cuStreamSynchronize(first));
    use_device(1);
    MUST(cu.cuCtxEnablePeerAccess(near, 0));
    CUstream stream = new_stream();
    MUST(add_one(buffer, WORDS, stream));
    MUST(cu.cuCtxSetCurrent(near));
    return stream;
}

/* A free that waits does so for the buffer's own device. */
static void far(void)
{
    CUdeviceptr buffer = allocate(BYTES, first);
    use_far(buffer);
    MUST(cu.cuMemFree(buffer));
}

static void far_async(void)
{
    CUdeviceptr buffer = allocate(BYTES, first);
    use_far(buffer);
    MUST(cu.cuMemFreeAsync(buffer, first));
}

static CUdeviceptr used_on_second(void)
{
    CUdeviceptr buffer = allocate(BYTES, first);
    MUST(cu.cuStreamSynchronize(first));
    MUST(add_one(buffer, WORDS, second));
    return buffer;
}

/* By cufence's own function, as programs that allocate with it do. */
static void by_api(void)
{
    int (*release)(void *, CUstream) = (int (*)(void *, CUstream))driver_of_cufence("cufence_free");
    release((void *)(uintptr_t)used_on_second(), first);
}

static void by_torch(void)
{
    char freed_one[256];
    int (*release)(void *, void *) = (int (*)(void *, void *))driver_of_cufence("cufence_torch_free");
    release((void *)(uintptr_t)used_on_second(), freed_one);
}

/* ---- right ---- */

static void far_done(void)
{
    CUdeviceptr buffer = allocate(BYTES, first);
    MUST(cu.cuStreamSynchronize(use_far(buffer)));
    MUST(cu.cuMemFree(buffer));
}

static void untouched(void)
{
    for (int i = 0; i < TIMES; i++) {
        CUdeviceptr buffer = freed(first), next;
        MUST(add_one(buffer, 0, i % 2 ? second : first));
        next = allocate(BYTES, first);
        MUST(add_one(next, WORDS, first));
        MUST(cu.cuMemFreeAsync(next, first));
    }
}

/* The pointers of a struct that a launch does not use, as of PyTorch's lists of tensors. */
static void used_again(void)
{
    uint32_t word = 0;
    CUdeviceptr buffer = 0;
    for (int i = 0; i < TIMES; i++) {
        buffer = allocate(BYTES, first);
        MUST(add_one(buffer, WORDS, first));
        MUST(cu.cuMemcpyDtoHAsync(&word, buffer + BYTES - 4, 4, first));
        MUST(cu.cuMemFreeAsync(buffer, first));
        MUST(cu.cuStreamSynchronize(first));
        if (word != 1)
            printf("a buffer holds %u\n", word);
    }
}

/* What the stream waits for comes after the launch. */
static void later(void)
{
    static uint32_t flag;
    CUdeviceptr buffer = allocate(BYTES, first);
    spin(&flag, first);
    MUST(cu.cuMemFreeAsync(buffer, first));
    MUST(add_one(buffer, 0, first));
    MUST(add_one(buffer, 0, second));
    let_go(&flag);
}

/* The free comes behind what the other stream does with the buffer, in the order of the device alone. */
static void before_the_free(void)
{
    static uint32_t flag;
    CUdeviceptr buffer = allocate(BYTES, first);
    MUST(cu.cuStreamSynchronize(first));
    spin(&flag, first);
    MUST(cu.cuMemFreeAsync(buffer, first));
    MUST(add_one(buffer, WORDS, second));
    MUST(cu.cuStreamSynchronize(second));
    let_go(&flag);
}

static void graph_in_order(void)
{
    CUdeviceptr buffer = allocate(BYTES, first), other = allocate(BYTES, first);
    CUgraphExec executable = graph_of(buffer);
    for (int i = 0; i < TIMES; i++) {
        MUST(cu.cuGraphLaunch(executable, first));
        MUST(cu.cuMemFreeAsync(other, first));
        other = allocate(BYTES, first);
        MUST(add_one(other, WORDS, first));
    }
    MUST(cu.cuGraphExecDestroy(executable));
    MUST(cu.cuMemFreeAsync(buffer, first));
    CUdeviceptr next = allocate(BYTES, first);
    MUST(add_one(next, WORDS, first));
}

int story_freed(int count, char **arguments)
{
    static const struct {
        const char *name;
        void (*tell)(void);
    } cases[] = {{"same_stream", same_stream},
                 {"in_a_loop", in_a_loop},
                 {"other_stream", other_stream},
                 {"waited_free", waited_free},
                 {"within", within},
                 {"busy", busy},
                 {"graph", graph},
                 {"far", far},
                 {"far_async", far_async},
                 {"by_api", by_api},
                 {"by_torch", by_torch},
                 {"far_done", far_done},
                 {"untouched", untouched},
                 {"used_again", used_again},
                 {"later", later},
                 {"before_the_free", before_the_free},
                 {"graph_in_order", graph_in_order}};
    start();
    first = new_stream();
    second = new_stream();
    if (strncmp(arguments[count - 1], "graph", 5) == 0)
        MUST(cu.cuMemAlloc(&kept, BYTES));
    for (size_t i = 0; count > 2 && i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(cases[i].name, arguments[2]) == 0)
            cases[i].tell();
    }
    return say("the end", cu.cuCtxSynchronize()) == CUDA_SUCCESS ? 0 : 1;
}
