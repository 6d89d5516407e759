#include "capture.h"

static struct capture *active;         /* under the queue lock */
static unsigned long long next_id = 1; /* under the queue lock */
static __thread CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

struct capture *capture_find_locked(unsigned long long id)
{
    struct capture *capture = active;
    while (capture != NULL && capture->id != id)
        capture = capture->next;
    return capture;
}

static int forbids_unsafe(const struct capture *capture)
{
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return 0;
    if (capture->owner == thread_number())
        return capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult capture_check_unsafe_locked(void)
{
    CUresult result = CUDA_SUCCESS;
    for (struct capture *capture = active; capture != NULL; capture = capture->next) {
        if (forbids_unsafe(capture))
            result = CAPTURE_REFUSE(capture);
    }
    return result;
}

CUresult capture_check_unsafe(void)
{
    HOLD(&queue_lock);
    return capture_check_unsafe_locked();
}

CUresult capture_check_implicit_locked(CUstream stream, int invalidates)
{
    CUresult result = CUDA_SUCCESS;
    if (stream != stream->context->legacy)
        return result;
    for (struct CUstream_st *other = stream->context->home->streams; other != NULL; other = other->next) {
        if (other->capture == NULL || other->context != stream->context || (other->flags & CU_STREAM_NON_BLOCKING) != 0)
            continue;
        if (invalidates)
            other->capture->is_invalid = 1;
        result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    return result;
}

/* Returns the next capturing stream of a context, or of its green ones, from `stream` on; NULL: there is none. */
static CUstream next_capturing(CUcontext context, CUstream stream)
{
    while (stream != NULL && (stream->capture == NULL || (stream->context != context && context != context->home)))
        stream = stream->next;
    return stream;
}

CUresult capture_refuse_all_locked(CUcontext context)
{
    CUresult result = CUDA_SUCCESS;
    CUstream stream = context->home->streams;
    for (; (stream = next_capturing(context, stream)) != NULL; stream = stream->next)
        result = CAPTURE_REFUSE(stream->capture);
    return result;
}

static struct capture_clock *clock_of(const struct CUstream_st *stream)
{
    return &stream->capture->clocks[stream->component];
}

static void raise_clock(struct capture_clock *clock, const struct capture_clock *other)
{
    for (unsigned i = 0; i < CAPTURE_STREAMS; i++) {
        if (other->counts[i] > clock->counts[i])
            clock->counts[i] = other->counts[i];
    }
}

CUresult capture_append_locked(CUstream stream, struct operation *operation)
{
    struct capture *capture = stream->capture;
    CALL_REFUSE(capture->is_invalid, STREAM_CAPTURE_INVALIDATED);
    recording_append(capture->graph->recording, operation);
    struct capture_clock *clock = clock_of(stream);
    clock->counts[stream->component]++;
    const struct capture_node node = {operation, *clock, stream->component};
    append(&capture->nodes, &capture->node_count, &node, sizeof node);
    return CUDA_SUCCESS;
}

/* Continues the stream in a component of its own, behind everything that `clock` has seen. It counts as unjoined until the
 * origin has waited for it, even without any work. */
static CUresult continue_behind(struct capture *capture, CUstream stream, const struct capture_clock *clock)
{
    CALL_REFUSE(capture->component_count == CAPTURE_STREAMS, NOT_SUPPORTED);
    stream->component = capture->component_count++;
    capture->clocks[stream->component] = *clock;
    capture->clocks[stream->component].counts[stream->component] = 1;
    return CUDA_SUCCESS;
}

static CUresult add_stream(struct capture *capture, CUstream stream)
{
    static const struct capture_clock nothing;
    CALL_TRY(continue_behind(capture, stream, &nothing));
    stream->capture = capture;
    capture->streams[capture->stream_count++] = stream;
    return CUDA_SUCCESS;
}

CUresult capture_join_locked(CUstream stream, unsigned long long id, const struct capture_clock *clock)
{
    struct capture *capture = capture_find_locked(id);
    int is_legacy = stream == stream->context->legacy, is_other = stream->capture != NULL && stream->capture != capture;
    if (capture != NULL && (is_legacy || is_other))
        capture->is_invalid = 1;
    CALL_REFUSE(is_legacy, STREAM_CAPTURE_IMPLICIT);
    if (is_other)
        stream->capture->is_invalid = 1;
    CALL_REFUSE(capture == NULL, STREAM_CAPTURE_ISOLATION);
    CALL_REFUSE(is_other, STREAM_CAPTURE_MERGE);
    CALL_REFUSE(capture->is_invalid, STREAM_CAPTURE_INVALIDATED);
    if (stream->capture == NULL)
        CALL_TRY(add_stream(capture, stream));
    raise_clock(clock_of(stream), clock);
    return CUDA_SUCCESS;
}

/* `into` is the graph to add to; NULL: create one. */
static CUresult begin(CUstream handle, CUstreamCaptureMode mode, CUgraph into)
{
    CALL_REFUSE((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED, INVALID_VALUE);
    STREAM_HELD(stream, handle);
    stream_await_submitters_locked(stream->context);
    CALL_TRY(stream_find_locked(handle, &stream));
    CALL_REFUSE(stream == stream->context->legacy, STREAM_CAPTURE_UNSUPPORTED);
    CALL_REFUSE(stream->capture != NULL || (into != NULL && capture_find_locked(into->capture_id) != NULL), ILLEGAL_STATE);
    CUgraph graph = into != NULL ? into : graph_create(NULL);
    if (graph->capture_id == 0)
        graph->capture_id = next_id++;
    struct capture *capture = memory_new(sizeof *capture);
    *capture = (struct capture){
        .id = graph->capture_id, .mode = mode, .owner = thread_number(), .graph = graph, .is_into_graph = into != NULL};
    LL_PREPEND(active, capture);
    return add_stream(capture, stream);
}

DRIVER_TWIN_IS(cuStreamBeginCapture, ptsz, 10010, (CUstream, hStream, CUstreamCaptureMode, mode), begin(hStream, mode, NULL))

/* Captured work runs behind everything in the graph, whatever the dependencies say. */
DRIVER_TWIN_IS(cuStreamBeginCaptureToGraph, ptsz, 12030,
               (CUstream, stream, CUgraph, graph, const CUgraphNode *, nodes, const CUgraphEdgeData *, edges, size_t, count,
                CUstreamCaptureMode, mode),
               !handle_is_valid(HANDLE_GRAPH, graph) || (count != 0 && nodes == NULL) ? CUDA_ERROR_INVALID_VALUE
                                                                                      : begin(stream, mode, graph))

static int is_joined(const struct capture *capture)
{
    const struct capture_clock *origin = clock_of(capture->streams[0]);
    for (unsigned i = 0; i < capture->stream_count; i++) {
        unsigned component = capture->streams[i]->component;
        if (origin->counts[component] < capture->clocks[component].counts[component])
            return 0;
    }
    return 1;
}

CUgraph capture_end_locked(struct capture *capture)
{
    LL_DELETE(active, capture);
    for (unsigned i = 0; i < capture->stream_count; i++)
        capture->streams[i]->capture = NULL;
    CUgraph graph = capture->is_into_graph ? NULL : capture->graph;
    free(capture->nodes);
    free(capture);
    return graph;
}

void capture_end_all(CUcontext context)
{
    for (int is_over = 0; !is_over;) {
        CUgraph graph = NULL;
        {
            HOLD(&queue_lock);
            CUstream stream = next_capturing(context, context->home->streams);
            is_over = stream == NULL;
            if (!is_over)
                graph = capture_end_locked(stream->capture);
        }
        if (graph != NULL)
            graph_free(graph); /* outside the queue lock, because of destructors */
    }
}

/* Sets *out also where the capture has failed. */
static CUresult finish(CUstream handle, CUgraph *out)
{
    STREAM_HELD(stream, handle);
    struct capture *capture = stream->capture;
    CALL_REFUSE(capture == NULL, ILLEGAL_STATE);
    if (stream != capture->streams[0])
        return capture_fail_locked(capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    CUresult result = CUDA_SUCCESS;
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->owner != thread_number())
        result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    else if (capture->is_invalid)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!is_joined(capture))
        result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    *out = capture->graph;
    CUgraph own = capture_end_locked(capture);
    if (result != CUDA_SUCCESS)
        *out = own;
    return result;
}

DRIVER_TWIN(cuStreamEndCapture, ptsz, 10000, (CUstream, hStream, CUgraph *, phGraph))
{
    CALL_REFUSE(phGraph == NULL, INVALID_VALUE);
    CUgraph graph = NULL;
    CUresult result = finish(hStream, &graph);
    if (result != CUDA_SUCCESS && graph != NULL) {
        graph_free(graph); /* outside the queue lock, because of destructors */
        graph = NULL;
    }
    *phGraph = graph;
    return result;
}

static struct capture_node *find_node(struct capture *capture, CUgraphNode handle)
{
    for (size_t i = 0; i < capture->node_count; i++) {
        if ((CUgraphNode)capture->nodes[i].operation == handle)
            return &capture->nodes[i];
    }
    return NULL;
}

static int has_seen(const struct capture_clock *clock, const struct capture_node *node)
{
    return clock->counts[node->component] >= node->clock.counts[node->component];
}

/* Finds what the stream's next node depends on: each node before it that comes before no other of them. Fills frontier. */
static size_t find_frontier(const struct CUstream_st *stream)
{
    struct capture *capture = stream->capture;
    size_t count = 0;
    for (size_t i = 0; i < capture->node_count; i++) {
        const struct capture_node *node = &capture->nodes[i], *other = &capture->nodes[capture->node_count - 1];
        int is_last = has_seen(clock_of(stream), node);
        for (; is_last && other != node; other--)
            is_last = !has_seen(clock_of(stream), other) || !has_seen(&other->clock, node);
        if (is_last)
            capture->frontier[count++] = (CUgraphNode)node->operation;
    }
    return count;
}

DRIVER_TWIN(cuStreamUpdateCaptureDependencies, ptsz, 12030,
            (CUstream, handle, CUgraphNode *, nodes, const CUgraphEdgeData *, edges, size_t, count, unsigned int, flags))
{
    struct capture_clock clock = {{0}};
    CALL_REFUSE(flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (count != 0 && nodes == NULL), INVALID_VALUE);
    STREAM_HELD(stream, handle);
    CALL_REFUSE(stream->capture == NULL, ILLEGAL_STATE);
    CALL_REFUSE(stream->capture->is_invalid, STREAM_CAPTURE_INVALIDATED);
    for (size_t i = 0; i < count; i++) {
        const struct capture_node *node = find_node(stream->capture, nodes[i]);
        CALL_REFUSE(node == NULL, INVALID_VALUE);
        raise_clock(&clock, &node->clock);
    }
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        return continue_behind(stream->capture, stream, &clock);
    raise_clock(clock_of(stream), &clock);
    return CUDA_SUCCESS;
}

/* The dependencies are valid until the capture continues. */
DRIVER_TWIN(cuStreamGetCaptureInfo, ptsz, 12030,
            (CUstream, handle, CUstreamCaptureStatus *, status, cuuint64_t *, id, CUgraph *, graph, const CUgraphNode **,
             dependencies, const CUgraphEdgeData **, edges, size_t *, count))
{
    CALL_REFUSE(status == NULL, INVALID_VALUE);
    STREAM_HELD(stream, handle);
    CALL_TRY(capture_check_implicit_locked(stream, 0));
    struct capture *capture = stream->capture;
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (capture != NULL)
        *status = capture->is_invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return CUDA_SUCCESS;
    size_t found = find_frontier(stream);
    if (id != NULL)
        *id = capture->id;
    if (graph != NULL)
        *graph = capture->graph;
    if (dependencies != NULL)
        *dependencies = capture->frontier;
    if (edges != NULL)
        *edges = NULL;
    if (count != NULL)
        *count = found;
    return CUDA_SUCCESS;
}

DRIVER_TWIN_IS(cuStreamIsCapturing, ptsz, 10000, (CUstream, hStream, CUstreamCaptureStatus *, captureStatus),
               cuStreamGetCaptureInfo(hStream, captureStatus, NULL, NULL, NULL, NULL, NULL))

DRIVER(cuThreadExchangeStreamCaptureMode, 10010, (CUstreamCaptureMode *, mode))
{
    CALL_REFUSE(mode == NULL || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED, INVALID_VALUE);
    CUstreamCaptureMode previous = thread_mode;
    thread_mode = *mode;
    *mode = previous;
    return CUDA_SUCCESS;
}
