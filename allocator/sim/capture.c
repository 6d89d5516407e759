#include "capture.h"
#include "call.h"
#include "handle.h"

#include <stdlib.h>
#include <string.h>

static struct capture *active;         /* captures that have not ended, under the queue lock */
static unsigned long long next_id = 1; /* under the queue lock */
static __thread CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

struct capture *capture_retain_locked(struct capture *capture)
{
    capture->references++;
    return capture;
}

void capture_release_locked(struct capture *capture)
{
    if (--capture->references == 0)
        free(capture);
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
        if (!forbids_unsafe(capture))
            continue;
        capture->is_invalid = 1;
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return result;
}

CUresult capture_check_unsafe(void)
{
    queue_lock();
    CUresult result = capture_check_unsafe_locked();
    queue_unlock();
    return result;
}

/* Whether a blocking stream of the legacy stream's context is being captured; if so, invalidates on demand. */
static CUresult check_implicit(CUstream stream, int invalidates)
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

CUresult capture_check_implicit_locked(CUstream stream)
{
    return check_implicit(stream, 1);
}

CUresult capture_refuse_locked(CUstream stream)
{
    stream->capture->is_invalid = 1;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult capture_append_locked(CUstream stream, struct operation *operation)
{
    struct capture *capture = stream->capture;
    if (capture->is_invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (recording_append(capture->graph->recording, operation) != 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    capture->clocks[stream->participant].counts[stream->participant]++;
    return CUDA_SUCCESS;
}

CUresult capture_position_locked(CUstream stream, struct capture **capture, struct capture_clock *clock)
{
    if (stream->capture->is_invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    *capture = stream->capture;
    *clock = stream->capture->clocks[stream->participant];
    return CUDA_SUCCESS;
}

static CUresult add_stream(struct capture *capture, CUstream stream)
{
    if (capture->stream_count == CAPTURE_STREAMS)
        return CUDA_ERROR_NOT_SUPPORTED;
    stream->capture = capture;
    stream->participant = capture->stream_count;
    /* A stream that is pulled in counts as unjoined until its origin has waited for it, even without work of its own. */
    capture->clocks[capture->stream_count].counts[capture->stream_count] = 1;
    capture->streams[capture->stream_count++] = stream_retain_locked(stream);
    return CUDA_SUCCESS;
}

CUresult capture_join_locked(CUstream stream, struct capture *capture, const struct capture_clock *clock)
{
    if (stream == stream->context->legacy) {
        capture->is_invalid = 1;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (capture->is_ended || (stream->capture != NULL && stream->capture != capture)) {
        capture->is_invalid = 1;
        if (stream->capture != NULL)
            stream->capture->is_invalid = 1;
        return capture->is_ended ? CUDA_ERROR_STREAM_CAPTURE_ISOLATION : CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (capture->is_invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream->capture == NULL)
        CALL_TRY(add_stream(capture, stream));
    struct capture_clock *own = &capture->clocks[stream->participant];
    for (unsigned i = 0; i < capture->stream_count; i++) {
        if (clock->counts[i] > own->counts[i])
            own->counts[i] = clock->counts[i];
    }
    return CUDA_SUCCESS;
}

/* `into` is the graph to add to; NULL: a new one. */
static CUresult begin_locked(CUcontext context, CUstream handle, CUstreamCaptureMode mode, CUgraph into)
{
    CUstream stream;
    CALL_TRY(stream_find_locked(context, handle, &stream));
    if (stream == stream->context->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture != NULL)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct capture *capture = calloc(1, sizeof *capture);
    CUgraph graph = into != NULL ? into : graph_create(NULL);
    if (capture == NULL || graph == NULL) {
        free(capture);
        if (graph != NULL && into == NULL)
            graph_free(graph); /* it is empty, so the queue lock does not matter */
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *capture = (struct capture){.next = active,
                                .references = 1,
                                .id = next_id++,
                                .mode = mode,
                                .owner = thread_number(),
                                .graph = graph,
                                .is_into_graph = into != NULL};
    active = capture;
    return add_stream(capture, stream);
}

static CUresult begin(CUstream stream, CUstreamCaptureMode mode, CUgraph into)
{
    CUcontext context;
    CALL_TRY(context_current(&context));
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    queue_lock();
    CUresult result = begin_locked(context, stream, mode, into);
    queue_unlock();
    return result;
}

SIM_API CUresult cuStreamBeginCapture(CUstream hStream, CUstreamCaptureMode mode)
{
    CALL_ENTER("cuStreamBeginCapture");
    return begin(hStream, mode, NULL);
}

/* What is captured runs behind all that the graph holds, whatever the dependencies say. */
SIM_API CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
                                             const CUgraphEdgeData *dependencyData, size_t numDependencies,
                                             CUstreamCaptureMode mode)
{
    CALL_ENTER("cuStreamBeginCaptureToGraph");
    (void)dependencyData;
    if (!handle_is_valid(HANDLE_GRAPH, hGraph) || (numDependencies != 0 && dependencies == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    return begin(hStream, mode, hGraph);
}

static int is_joined(const struct capture *capture)
{
    for (unsigned i = 1; i < capture->stream_count; i++) {
        if (capture->clocks[0].counts[i] < capture->clocks[i].counts[i])
            return 0;
    }
    return 1;
}

static void end_locked(struct capture *capture)
{
    struct capture **link = &active;
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    capture->is_ended = 1;
    for (unsigned i = 0; i < capture->stream_count; i++) {
        capture->streams[i]->capture = NULL;
        stream_release_locked(capture->streams[i]);
    }
    capture_release_locked(capture);
}

static CUresult finish_locked(CUcontext context, CUstream handle, CUgraph *out)
{
    CUstream stream;
    CALL_TRY(stream_find_locked(context, handle, &stream));
    struct capture *capture = stream->capture;
    if (capture == NULL)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (stream != capture->streams[0]) {
        capture->is_invalid = 1;
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->owner != thread_number())
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    CUresult result = CUDA_SUCCESS;
    if (capture->is_invalid)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!is_joined(capture))
        result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    *out = result != CUDA_SUCCESS && capture->is_into_graph ? NULL : capture->graph;
    end_locked(capture);
    return result;
}

SIM_API CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
    CALL_ENTER("cuStreamEndCapture");
    CUcontext context;
    CALL_TRY(context_current(&context));
    if (phGraph == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraph graph = NULL;
    queue_lock();
    CUresult result = finish_locked(context, hStream, &graph);
    queue_unlock();
    if (result != CUDA_SUCCESS && graph != NULL) {
        graph_free(graph); /* without the queue lock, which the events in it need */
        graph = NULL;
    }
    *phGraph = graph;
    return result;
}

struct capture_info {
    CUstreamCaptureStatus status;
    unsigned long long id;
    CUgraph graph;
};

static CUresult info_get(CUstream handle, struct capture_info *info)
{
    CUcontext context;
    CUstream stream;
    CALL_TRY(context_current(&context));
    *info = (struct capture_info){.status = CU_STREAM_CAPTURE_STATUS_NONE};
    queue_lock();
    CUresult result = stream_find_locked(context, handle, &stream);
    if (result == CUDA_SUCCESS)
        result = check_implicit(stream, 0);
    if (result == CUDA_SUCCESS && stream->capture != NULL) {
        int is_invalid = stream->capture->is_invalid;
        info->status = is_invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
        info->id = stream->capture->id;
        info->graph = stream->capture->graph;
    }
    queue_unlock();
    return result;
}

SIM_API CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
    CALL_ENTER("cuStreamIsCapturing");
    struct capture_info info;
    if (captureStatus == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CALL_TRY(info_get(hStream, &info));
    *captureStatus = info.status;
    return CUDA_SUCCESS;
}

/* The nodes of a recording have no handles, so the dependencies are always reported as none. */
static CUresult get_info(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                         const CUgraphNode **dependencies, const CUgraphEdgeData **edges, size_t *count)
{
    struct capture_info info;
    if (status == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CALL_TRY(info_get(stream, &info));
    *status = info.status;
    if (info.status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return CUDA_SUCCESS;
    if (id != NULL)
        *id = info.id;
    if (graph != NULL)
        *graph = info.graph;
    if (dependencies != NULL)
        *dependencies = NULL;
    if (edges != NULL)
        *edges = NULL;
    if (count != NULL)
        *count = 0;
    return CUDA_SUCCESS;
}

SIM_API CUresult cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
                                        CUgraph *graph_out, const CUgraphNode **dependencies_out,
                                        const CUgraphEdgeData **edgeData_out, size_t *numDependencies_out)
{
    CALL_ENTER("cuStreamGetCaptureInfo");
    return get_info(hStream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out, numDependencies_out);
}

CUresult cuStreamGetCaptureInfo_v2(CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *, const CUgraphNode **, size_t *);

SIM_API CUresult cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
                                           CUgraph *graph_out, const CUgraphNode **dependencies_out,
                                           size_t *numDependencies_out)
{
    CALL_ENTER("cuStreamGetCaptureInfo");
    return get_info(hStream, captureStatus_out, id_out, graph_out, dependencies_out, NULL, numDependencies_out);
}

SIM_API CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    CALL_ENTER("cuThreadExchangeStreamCaptureMode");
    if (mode == NULL || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode previous = thread_mode;
    thread_mode = *mode;
    *mode = previous;
    return CUDA_SUCCESS;
}
