/* Memory of captures, from within: what is counted of graphs whose context is gone. The rest is seen from outside:
 * graph_stories.c. */
#include "child.h"

#include "contexts/contexts.h"
#include "heap/heap_internal.h"

#define BYTES 4096

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
    heap_follow_capture(stream);
    CHECK_OK(cufence_malloc(&made.memory, BYTES, -1, made.stream));
    CHECK_CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)made.memory, 1, BYTES, made.stream));
    CHECK_CU(cuStreamEndCapture(made.stream, &graph));
    CHECK_CU(cuGraphInstantiate(&made.executable, graph, 0));
    heap_graph_instantiated(made.executable, graph, 0);
    made.pool = books_of(stream->context)->pools;
    CHECK(made.pool != NULL && made.pool->graph == graph && made.pool->launches == 0);
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
    heap_graph_launch(gone.executable);
    CHECK_OK(cufence_free(gone.memory, gone.stream));
    heap_graph_launch(gone.executable);
    CHECK(gone.pool->launches == 2);
    context_ended(context_ends(own), 0);
    CHECK_CU(cuCtxDestroy(own));
    heap_graph_launch(gone.executable);
    CHECK(gone.pool->launches == 2);

    CHECK_CU(cuCtxSetCurrent(primary));
    struct made left = make_graph();
    heap_graph_launch(left.executable);
    CHECK_OK(cufence_free(left.memory, left.stream));
    heap_graph_launch(left.executable);
    CHECK(left.pool->launches == 2);
}
