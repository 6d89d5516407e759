/* The C API without the preload library: an empty cache, forks, numbers, graphs. tests/torture has the rest of its streams. */
#include "contexts/contexts.h"
#include "heap/heap_internal.h"
#include "heap_story.h" /* last: it has a variable `context` */
#include "torch/torch.h"

#define BYTES 4096

static uint32_t flag;

static void let_go(void)
{
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
}

/* ---- memory that a stream still uses is given back when PyTorch's cache is emptied ---- */

static void *let_go_later(void *buffer)
{
    cufence_description where = {.struct_size = sizeof where};
    for (int i = 0; i < 20; i++) { /* it is not unmapped before */
        usleep(1000);
        CHECK_OK(cufence_describe(buffer, &where));
        CHECK(where.buffer.is_mapped);
    }
    let_go();
    return NULL;
}

STORY(empty_cache_waits_for_streams)
{
    cufence_description where = {.struct_size = sizeof where};
    pthread_t thread;
    CUstream stream = start_with_stream("uaf=off");
    void *buffer = allocate(BYTES, stream);
    spin(stream, &flag);
    CHECK_CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)buffer, 1, BYTES, stream));
    CHECK_OK(cufence_free(buffer, stream));
    CHECK_OK(cufence_trim(-1)); /* does not wait */
    CHECK_OK(cufence_describe(buffer, &where));
    CHECK(where.buffer.is_mapped);
    CHECK(pthread_create(&thread, NULL, let_go_later, buffer) == 0);
    CHECK_OK(cufence_torch_empty_cache());
    CHECK(__atomic_load_n(&flag, __ATOMIC_ACQUIRE) == 1);
    CHECK_OK(cufence_describe(buffer, &where));
    CHECK(!where.buffer.is_mapped);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* ---- forks ---- */

static void *hold_up(void *unused)
{
    CHECK_CU(cuCtxSetCurrent(context));
    allocate(BYTES, new_stream());
    return NULL;
}

STORY(forked_child)
{
    int status = -1;
    pthread_t thread;
    CUstream stream = start_with_stream(NULL);
    void *kept = allocate(BYTES, stream), *freed = allocate(BYTES, stream);
    spin(stream, &flag);
    CHECK_OK(cufence_free(freed, stream));
    cusim_set_latency("cuEventQuery", 500000); /* the other thread asks whether the free has passed, and holds the list */
    uint64_t before = cusim_call_count("cuEventQuery");
    CHECK(pthread_create(&thread, NULL, hold_up, NULL) == 0);
    for (int i = 0; i < 2000 && cusim_call_count("cuEventQuery") == before; i++)
        usleep(1000);
    pid_t child = fork();
    if (child == 0) {
        void *pointer = NULL;
        cufence_stats stats = {.struct_size = sizeof stats};
        alarm(60);
        CHECK(cufence_malloc(&pointer, BYTES, 0, stream) == CUFENCE_ERROR_NOT_INITIALIZED);
        CHECK(strstr(cufence_error_detail(), "was forked from one that uses CUDA") != NULL);
        CHECK(strstr(cufence_error_detail(), "spawn") != NULL);
        CHECK(cufence_free(kept, stream) == CUFENCE_ERROR_NOT_INITIALIZED);
        CHECK(cufence_record_stream(kept, stream) == CUFENCE_ERROR_NOT_INITIALIZED);
        CHECK(cufence_get_stats(0, &stats) == CUFENCE_ERROR_NOT_INITIALIZED);
        CHECK(cufence_init(NULL) == CUFENCE_ERROR_NOT_INITIALIZED);
        CHECK(strstr(cufence_error_detail(), "was forked from one that uses CUDA") != NULL);
#ifdef __SANITIZE_ADDRESS__
        _exit(0); /* its search for leaks misses what the parent's threads hold */
#endif
        exit(0); /* with the exit handlers */
    }
    waitpid(child, &status, 0);
    cusim_set_latency("cuEventQuery", 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    let_go();
    pthread_join(thread, NULL);
    CHECK_OK(cufence_free(kept, stream));
}

/* ---- numbers ---- */

static uint64_t number_of(const void *pointer)
{
    cufence_description where = {.struct_size = sizeof where};
    CHECK_OK(cufence_describe(pointer, &where));
    CHECK(where.place == CUFENCE_PLACE_INSIDE);
    return where.buffer.id;
}

STORY(failures_take_no_numbers)
{
    void *none = NULL;
    setenv("CUFENCE_SIM", "memory=256M", 1);
    start(NULL);
    CHECK(number_of(allocate(BYTES, NULL)) == 1);
    for (int i = 0; i < 3; i++) {
        CHECK(cufence_malloc(&none, 512 * MIB, 0, NULL) == CUFENCE_ERROR_OUT_OF_MEMORY);
        CHECK(cufence_malloc(&none, SIZE_MAX, 0, NULL) == CUFENCE_ERROR_OVERFLOW);
        cusim_fail_call("cuMemMap", 1, CUDA_ERROR_UNKNOWN);
        CHECK(cufence_malloc(&none, BYTES, 0, NULL) == CUFENCE_ERROR_DRIVER);
    }
    CHECK(number_of(allocate(BYTES, NULL)) == 2);
    CHECK(number_of(allocate(BYTES, new_stream())) == 3);
}

/* ---- a stream that lags far behind ---- */

STORY(seldom_asked_while_it_lags)
{
    CUstream stream = start_with_stream("uaf=off");
    spin(stream, &flag);
    uint64_t before = cusim_call_count("cuEventQuery");
    for (int i = 0; i < 20000; i++)
        CHECK_OK(cufence_free(allocate(BYTES, stream), stream));
    let_go();
    uint64_t asked = cusim_call_count("cuEventQuery") - before;
    if (asked > 10000)
        fprintf(stderr, "asked %llu times\n", (unsigned long long)asked);
    CHECK(asked <= 10000); /* a hundred frees are due for a marker; the background asks besides, while this lasts */
}

/* Without the preload library no launch is seen. */
STORY_OF(the_end_says_that_no_stream_was_seen, 0, "cufence: streams=on has seen no stream: ", NULL)
{
    start("streams=on");
    CHECK_OK(cufence_free(allocate(BYTES, NULL), NULL));
}

/* ---- graphs whose context is gone; tests/contract and tests/torture have the rest ---- */

/* A graph of the current context that uses memory of its own, and what stands for it in the books. */
struct made {
    CUgraphExec executable;
    void *memory;
    struct pool *pool;
    CUstream stream;
};

static struct made make_graph(void)
{
    struct made made = {0};
    CUgraph graph;
    CHECK_CU(cuStreamCreate(&made.stream, CU_STREAM_NON_BLOCKING));
    struct stream *stream = stream_resolve(made.stream);
    CHECK(stream != NULL);
    CHECK_CU(cuStreamBeginCapture(made.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    heap_follow_capture(stream, 0);
    CHECK_OK(cufence_malloc(&made.memory, BYTES, -1, made.stream));
    CHECK_CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)made.memory, 1, BYTES, made.stream));
    CHECK_CU(cuStreamEndCapture(made.stream, &graph));
    CHECK_CU(cuGraphInstantiate(&made.executable, graph, 0));
    heap_graph_instantiated(made.executable, graph, 0);
    made.pool = books_of(stream->context)->pools;
    CHECK(made.pool != NULL && made.pool->graph == graph && made.pool->launched == 0);
    return made;
}

/* Launches are counted only while some buffer is a graph's. One of a context that is gone is not: else every launch would be
 * counted, and take a lock, until the process ends. */
STORY(a_context_takes_its_graphs_along)
{
    CUcontext own, primary;
    CHECK_OK(cufence_init(NULL));
    CHECK_CU(cuDevicePrimaryCtxRetain(&primary, 0));
    CHECK_CU(cuCtxCreate(&own, NULL, 0, 0));
    struct made gone = make_graph();
    heap_graph_launched(gone.executable);
    CHECK_OK(cufence_free(gone.memory, gone.stream));
    heap_graph_launched(gone.executable);
    CHECK(gone.pool->launched == 2);
    context_ended(context_ends(own), 0);
    CHECK_CU(cuCtxDestroy(own));
    heap_graph_launched(gone.executable);
    CHECK(gone.pool->launched == 2);

    CHECK_CU(cuCtxSetCurrent(primary));
    struct made left = make_graph();
    heap_graph_launched(left.executable);
    CHECK_OK(cufence_free(left.memory, left.stream));
    heap_graph_launched(left.executable);
    CHECK(left.pool->launched == 4);
}
