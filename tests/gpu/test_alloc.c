/* Buffers on a real GPU, without a fault: streams, reuse, CUDA graphs, full memory, many threads. */
#define TEST_OWN_MAIN
#include "support/test.h"

#include "story.h"

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

static void expect_well(const char *options, int (*tell)(void))
{
    const struct story *story = story_run(options, tell);
    if (story->exit_status != 0 || story->witness->faults != 0)
        fail_msg("status %d, signal %d, %d faults: %s", story->exit_status, story->signal, story->witness->faults,
                 story->stderr_text);
}

static void fill(void *buffer, size_t elements, int value, CUstream stream)
{
    story_ok(story_launch("gpu_fill", 64, stream, ARGUMENTS(&buffer, &elements, &value)), "gpu_fill");
}

/* Adds the number of elements that are not `value` to *others, a device buffer. */
static void count_other(void *buffer, size_t elements, int value, void *others, CUstream stream)
{
    story_ok(story_launch("gpu_count_other", 64, stream, ARGUMENTS(&buffer, &elements, &value, &others)), "gpu_count_other");
}

static int read_int(const void *pointer, CUstream stream)
{
    int value = -1;
    story_ok(driver->cuStreamSynchronize(stream), "cuStreamSynchronize");
    story_ok(driver->cuMemcpyDtoH(&value, (CUdeviceptr)(uintptr_t)pointer, sizeof value), "cuMemcpyDtoH");
    return value;
}

static int tell_sizes(void)
{
    static const size_t sizes[] = {4, 4000, 2 * MIB - 4, 2 * MIB, 2 * MIB + 4, 3 * MIB + MIB / 2, 512 * MIB};
    CUstream stream = story_stream();
    void *others = story_buffer("others", 4, stream);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *buffer = story_buffer("sizes", sizes[i], stream);
        cufence_description found;
        story_check(cufence_describe((char *)buffer + sizes[i], &found) == CUFENCE_OK &&
                        found.place == CUFENCE_PLACE_PAST_END && found.offset == 0 && found.buffer.size == sizes[i],
                    "describe says %d for the end of %zu bytes", (int)found.place, sizes[i]);
        story_check((uintptr_t)buffer % 16 == 0, "%p is not aligned", buffer);
        fill(buffer, sizes[i] / 4, 7, stream);
        count_other(buffer, sizes[i] / 4, 7, others, stream);
        story_check(cufence_free(buffer, stream) == CUFENCE_OK, "free");
    }
    story_check(read_int(others, stream) == 0, "lost stores");
    return 0;
}

/* A freed buffer is given to another stream only after the first has passed: here the first is busy for 200 ms. */
static int tell_streams(void)
{
    CUstream first = story_stream(), second = story_stream();
    unsigned long long wait_ns = 200000000;
    int late = 5;
    void *others = story_buffer("others", 4, second), *slow = story_buffer("slow", 4000, first);
    story_ok(driver->cuStreamSynchronize(first), "cuStreamSynchronize");
    story_ok(story_launch("gpu_wait", 1, first, ARGUMENTS(&wait_ns, &slow, &late)), "gpu_wait");
    story_check(cufence_free(slow, first) == CUFENCE_OK, "free");
    uint64_t start = story_now();
    void *other = story_buffer("other", 4000, second);
    story_check(story_now() - start < 100000000, "an allocation on another stream waited");
    story_check(other != slow, "the buffer was handed to another stream while the first still used it");
    fill(other, 1000, 9, second);
    story_ok(driver->cuStreamSynchronize(first), "cuStreamSynchronize");
    count_other(other, 1000, 9, others, second);
    story_check(read_int(others, second) == 0, "the other stream's buffer was overwritten");
    return 0;
}

/* record_stream: the free takes effect after the other stream's work. */
static int tell_recorded_stream(void)
{
    CUstream owner = story_stream(), user = story_stream();
    unsigned long long wait_ns = 200000000;
    int late = 5;
    void *others = story_buffer("others", 4, owner), *shared = story_buffer("shared", 4000, owner);
    story_ok(driver->cuStreamSynchronize(owner), "cuStreamSynchronize");
    story_ok(story_launch("gpu_wait", 1, user, ARGUMENTS(&wait_ns, &shared, &late)), "gpu_wait");
    story_check(cufence_record_stream(shared, user) == CUFENCE_OK, "record_stream");
    story_check(cufence_free(shared, owner) == CUFENCE_OK, "free");
    void *next = story_buffer("next", 4000, owner);
    story_check(next != shared, "the buffer was handed out while the recorded stream still used it");
    fill(next, 1000, 9, owner);
    story_ok(driver->cuStreamSynchronize(user), "cuStreamSynchronize");
    count_other(next, 1000, 9, others, owner);
    story_check(read_int(others, owner) == 0, "the next buffer was overwritten");
    return 0;
}

/* Memory allocated and freed in a capture stays mapped, so that the graph can be replayed at any time. */
static int tell_graph(void)
{
    CUresult (*begin)(CUstream, CUstreamCaptureMode) = (__typeof__(begin))story_symbol("cuStreamBeginCapture_v2");
    CUresult (*end)(CUstream, CUgraph *) = (__typeof__(end))story_symbol("cuStreamEndCapture");
    CUresult (*instantiate)(CUgraphExec *, CUgraph, unsigned long long) =
        (__typeof__(instantiate))story_symbol("cuGraphInstantiateWithFlags");
    CUresult (*replay)(CUgraphExec, CUstream) = (__typeof__(replay))story_symbol("cuGraphLaunch");
    CUstream stream = story_stream();
    CUgraph graph = NULL;
    CUgraphExec executable;
    size_t elements = 1000;
    int two = 2;
    void *total = story_buffer("total", 4000, stream), *others = story_buffer("others", 4, stream), *temporary = NULL;
    fill(total, elements, 1, stream); /* loads the module, which is not allowed in a capture */
    story_ok(driver->cuStreamSynchronize(stream), "cuStreamSynchronize");

    story_ok(begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "cuStreamBeginCapture");
    story_check(cufence_malloc(&temporary, 4000, 0, stream) == CUFENCE_OK, "cufence_malloc in a capture");
    fill(temporary, elements, 3, stream);
    count_other(temporary, elements, 3, others, stream);
    story_ok(story_launch("gpu_add", 8, stream, ARGUMENTS(&total, &elements, &two)), "gpu_add");
    story_check(cufence_free(temporary, stream) == CUFENCE_OK, "cufence_free in a capture");
    story_ok(end(stream, &graph), "cuStreamEndCapture");
    story_check(graph != NULL, "the capture was invalidated");
    story_ok(instantiate(&executable, graph, 0), "cuGraphInstantiate");

    for (int i = 0; i < 3; i++) {
        void *between = story_buffer("between", 4000, stream);
        story_check(between != temporary, "the graph's memory was handed out");
        story_ok(replay(executable, stream), "cuGraphLaunch");
        story_check(cufence_free(between, stream) == CUFENCE_OK, "free");
        story_check(cufence_trim(0) == CUFENCE_OK, "trim");
    }
    count_other(total, elements, 1 + 3 * 2, others, stream);
    story_check(read_int(others, stream) == 0, "the replays gave other sums");
    return 0;
}

static uint64_t used_of_pool(void)
{
    CUresult (*get)(CUmemoryPool, CUmemPool_attribute, void *) = (__typeof__(get))story_symbol("cuMemPoolGetAttribute");
    CUmemoryPool pool = NULL;
    cuuint64_t used = 0;
    story_ok(driver->cuDeviceGetMemPool(&pool, 0), "cuDeviceGetMemPool");
    story_ok(get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used), "cuMemPoolGetAttribute");
    return used;
}

/* What is left to the driver is freed while a stream captures, its own or a recorded one: the capture goes on, nothing waits
 * for the work before it, and the memory is given back afterwards. */
static int tell_unguarded_in_captures(void)
{
    CUresult (*begin)(CUstream, CUstreamCaptureMode) = (__typeof__(begin))story_symbol("cuStreamBeginCapture_v2");
    CUresult (*end)(CUstream, CUgraph *) = (__typeof__(end))story_symbol("cuStreamEndCapture");
    CUstream own = story_stream(), other = story_stream(), captured[] = {own, other, other};
    unsigned long long wait_ns = 200000000;
    int late = 5;
    void *busy = story_buffer("busy", 4000, own), *freed[3];
    story_ok(story_launch("gpu_wait", 1, own, ARGUMENTS(&wait_ns, &busy, &late)), "gpu_wait"); /* loads the module */
    for (int i = 0; i < 3; i++)
        freed[i] = story_buffer("freed", 1000, own);
    story_ok(driver->cuStreamSynchronize(own), "cuStreamSynchronize");
    uint64_t used = used_of_pool();
    story_check(cufence_record_stream(freed[1], other) == CUFENCE_OK, "record_stream");
    for (int i = 0; i < 3; i++) { /* on its own stream, with a recorded one that captures, and beside a capture of another */
        CUgraph graph = NULL;
        story_ok(story_launch("gpu_wait", 1, own, ARGUMENTS(&wait_ns, &busy, &late)), "gpu_wait");
        uint64_t start = story_now();
        story_ok(begin(captured[i], CU_STREAM_CAPTURE_MODE_GLOBAL), "cuStreamBeginCapture");
        story_check(cufence_free(freed[i], own) == CUFENCE_OK, "free %d", i);
        story_check(story_now() - start < 100000000, "free %d waited", i);
        story_ok(end(captured[i], &graph), "cuStreamEndCapture");
        story_check(graph != NULL, "capture %d was invalidated", i);
    }
    story_check(cufence_trim(0) == CUFENCE_OK, "trim");
    story_ok(driver->cuCtxSynchronize(), "cuCtxSynchronize");
    story_check(used_of_pool() == used - 3000, "%llu bytes are used instead of %llu", (unsigned long long)used_of_pool(),
                (unsigned long long)used - 3000);
    return 0;
}

/* Idle memory is released for a large buffer; a request that is too large gets a clear status. */
static int tell_full_memory(void)
{
    enum { MOST = 1024 };
    static void *chunks[MOST];
    size_t memory_free = 0, memory_total = 0, count = 0;
    void *large = NULL;
    story_ok(driver->cuMemGetInfo(&memory_free, &memory_total), "cuMemGetInfo");
    size_t fits = memory_free / GIB - 2;
    for (; count < fits && count < MOST; count++)
        story_check(cufence_malloc(&chunks[count], GIB, 0, NULL) == CUFENCE_OK, "chunk %zu of %zu", count, fits);
    for (size_t i = 0; i < count; i++)
        story_check(cufence_free(chunks[i], NULL) == CUFENCE_OK, "free");
    story_check(cufence_malloc(&large, count / 2 * GIB, 0, NULL) == CUFENCE_OK, "%zu GiB after %zu GiB were freed", count / 2,
                count);
    fill(large, 1024, 3, NULL);
    story_ok(driver->cuCtxSynchronize(), "cuCtxSynchronize");
    void *too_much = NULL;
    cufence_status status = cufence_malloc(&too_much, memory_total * 2, 0, NULL);
    story_check(status == CUFENCE_ERROR_OUT_OF_MEMORY && !too_much, "status %d for twice the memory", (int)status);
    story_check(cufence_malloc(&too_much, 4000, 0, NULL) == CUFENCE_OK, "a small buffer after the refusal");
    return 0;
}

enum { THREADS = 8, ROUNDS = 400, HELD = 8 };

static void *churn(void *argument)
{
    CUcontext context;
    CUdevice device;
    uint32_t state = (uint32_t)(uintptr_t)argument + 1;
    struct held {
        void *buffer;
        size_t elements;
        int value;
    } held[HELD] = {{0}};
    story_ok(driver->cuDeviceGet(&device, 0), "cuDeviceGet");
    story_ok(driver->cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    story_ok(driver->cuCtxSetCurrent(context), "cuCtxSetCurrent");
    CUstream stream = story_stream();
    void *others = story_buffer("others", 4, stream);
    for (int i = 0; i < ROUNDS; i++) {
        state = state * 1664525u + 1013904223u;
        struct held *it = &held[(state >> 8) % HELD];
        if (it->buffer) {
            count_other(it->buffer, it->elements, it->value, others, stream);
            story_check(cufence_free(it->buffer, stream) == CUFENCE_OK, "free");
        }
        it->elements = 1 + (state >> 11) % (i % 16 ? 20000 : 2 * MIB);
        it->value = (int)(state >> 1);
        story_check(cufence_malloc(&it->buffer, it->elements * 4, 0, stream) == CUFENCE_OK, "malloc");
        fill(it->buffer, it->elements, it->value, stream);
    }
    story_check(read_int(others, stream) == 0, "buffers overwrote each other");
    return NULL;
}

static int tell_threads(void)
{
    pthread_t threads[THREADS];
    void *warm = story_buffer("warm", 4, NULL);
    fill(warm, 1, 1, NULL); /* loads the module before the threads start */
    for (uintptr_t i = 0; i < THREADS; i++)
        story_check(pthread_create(&threads[i], NULL, churn, (void *)i) == 0, "pthread_create");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}

#define STORY(name, options)                                                                                                   \
    TEST(test_##name)                                                                                                          \
    {                                                                                                                          \
        expect_well(options, tell_##name);                                                                                     \
    }
STORY(sizes, "")
STORY(streams, "")
STORY(recorded_stream, "")
STORY(graph, "")
STORY(full_memory, "idle_max=64T")
STORY(threads, "")

TEST(test_threads_strict)
{
    expect_well("uaf=strict", tell_threads);
}

TEST(test_graph_strict)
{
    expect_well("uaf=strict", tell_graph);
}

TEST(test_unguarded_in_captures)
{
    expect_well("skip=smaller:1M", tell_unguarded_in_captures);
}

int main(int argc, char **argv)
{
    story_require_gpu();
    return test_run(argc, argv);
}
