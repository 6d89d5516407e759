/* Stories about hardship: a host that has no memory, little address space. */
#include "program.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES 4096

/* ---- no memory ---- */

static void (*fail_malloc)(unsigned);
static unsigned (*fail_malloc_count)(void);

/* An allocation may be refused; everything else goes on. */
static int take(CUdeviceptr *out, size_t size, CUstream stream)
{
    CUresult result = cu.cuMemAllocAsync(out, size, stream);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY)
        say("cuMemAllocAsync", result);
    return result == CUDA_SUCCESS;
}

static void use_graphs(void)
{
    CUstream stream, other;
    CUevent event;
    CUdeviceptr kept, buffers[4];
    CUgraph graph;
    CUgraphExec executable;
    stream = new_stream();
    other = new_stream();
    MUST(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    if (!take(&kept, BYTES, stream))
        return;
    for (int round = 0; round < 2; round++) {
        int has_left, has_inner;
        MUST(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        has_inner = take(&buffers[0], BYTES, stream);
        if (has_inner) {
            MUST(cu.cuMemcpyDtoDAsync(buffers[0], kept, BYTES, stream));
            MUST(cu.cuMemFreeAsync(buffers[0], stream));
        }
        has_left = take(&buffers[1], 2 * BYTES, stream);
        if (has_left)
            MUST(cu.cuMemsetD8Async(buffers[1], 1, 2 * BYTES, stream));
        MUST(cu.cuEventRecord(event, stream));
        MUST(cu.cuStreamWaitEvent(other, event, 0));
        if (take(&buffers[2], BYTES, other))
            MUST(cu.cuMemFreeAsync(buffers[2], other));
        MUST(cu.cuEventRecord(event, other));
        MUST(cu.cuStreamWaitEvent(stream, event, 0));
        MUST(cu.cuStreamEndCapture(stream, &graph));
        MUST(cu.cuGraphInstantiateWithFlags(&executable, graph, 0));
        MUST(cu.cuGraphLaunch(executable, stream));
        if (has_left)
            MUST(cu.cuMemFreeAsync(buffers[1], stream));
        MUST(cu.cuGraphLaunch(executable, stream));
        if (take(&buffers[3], 3 * BYTES, other)) /* of another stream than the one it is freed on */
            MUST(cu.cuMemFreeAsync(buffers[3], stream));
        MUST(cu.cuStreamSynchronize(stream));
        if (has_left)
            MUST(cu.cuMemFreeAsync(buffers[1], stream));
        MUST(cu.cuGraphExecDestroy(executable));
        MUST(cu.cuGraphDestroy(graph));
    }
    MUST(cu.cuMemFreeAsync(kept, stream));
    MUST(cu.cuStreamDestroy(other));
    MUST(cu.cuStreamDestroy(stream));
}

/* In a child, whose nth allocation fails: 0 if there was none, 1 if it went well nevertheless. */
static int try(unsigned nth)
{
    int status = -1;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        start();
        fail_malloc(nth);
        use_graphs();
        unsigned made = fail_malloc_count();
        fail_malloc(0);
        fflush(NULL);
        _Exit(made >= nth ? 1 : 0);
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Each allocation of cufence's fails once: in captures, and with graphs. */
STORY(little_memory)
{
    unsigned nth = 1;
    int answer = 1;
    *(void **)&fail_malloc = dlsym(RTLD_DEFAULT, "fail_malloc");
    *(void **)&fail_malloc_count = dlsym(RTLD_DEFAULT, "fail_malloc_count");
    if (fail_malloc == NULL || fail_malloc_count == NULL)
        return 3;
    for (; nth < 1000 && answer == 1; nth++) {
        answer = try(nth);
        if (answer > 1)
            printf("allocation %u: ended with %d\n", nth, answer);
        if (answer > 1)
            answer = 1; /* the next one */
    }
    printf("%s\n", nth < 10 ? "hardly any was made to fail" : nth == 1000 ? "there is no end of them" : "each has failed once");
    return 0;
}

/* Buffers of many sizes, beside memory of the host's, in an address space of so many MiB. */
STORY(short_of_space)
{
    enum { SMALL = 600, LARGE = 100, ROUNDS = 3 };
    static CUdeviceptr small[SMALL], large[LARGE];
    size_t bytes = (size_t)(count > 2 ? atoi(arguments[2]) : 0) << 20;
    const struct rlimit limit = {bytes, bytes};
    unsigned wrong = 0;
    setrlimit(RLIMIT_AS, &limit);
    start();
    for (int round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < SMALL; i++) {
            MUST(i % 2 ? cu.cuMemAlloc(&small[i], 4 + i) : cu.cuMemAllocAsync(&small[i], 4 + i, NULL));
            MUST(cu.cuMemsetD32(small[i], i, 1));
        }
        for (unsigned i = 0; i < LARGE; i++)
            MUST(cu.cuMemAlloc(&large[i], ((i % 7) << 20) + 1));
        void *host = malloc(bytes / 16);
        printf("of the host: %s\n", host ? "yes" : "no");
        free(host);
        for (unsigned i = 0; i < SMALL; i++) {
            unsigned value = 0;
            MUST(cu.cuMemcpyDtoH(&value, small[i], sizeof value));
            wrong += value != i;
            MUST(i % 2 ? cu.cuMemFree(small[i]) : cu.cuMemFreeAsync(small[i], NULL));
        }
        for (unsigned i = 0; i < LARGE; i++)
            MUST(cu.cuMemFree(large[i]));
    }
    printf("wrong: %u\n", wrong);
    return 0;
}
