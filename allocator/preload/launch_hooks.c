/* Launches: refused after a fault, as CUDA does, and otherwise recorded, searched for freed pointers, and shown to the
 * inspector. */
#include "preload_internal.h"

#include "base/aside.h"
#include "base/reader.h"
#include "launch/launch.h"
#include "launch/device_progress.h"
#include "launch/tensor_maps.h"
#include "launch/inspect_table.h"
#include "order/order.h"

/* It may be deep. */
static void show_begin(void *event)
{
    inspector_now()->launch_begins(event);
}

static void observe(struct launch_event *event)
{
    if (INSPECTOR_WANTS(launch_begins))
        aside_call(show_begin, event);
}

void look_at_pointers(const struct launch_call *call, const struct launch_function *function, int is_of_graph)
{
    struct launch_span span;
    uint64_t base;
    if (__builtin_expect(!function && call->parameters, 0))
        function = functions_find(call->function);
    for (uint32_t i = 0; launch_span(call, function, i, &span); i++) {
        uint32_t size = span.offset < LAUNCH_KEPT_BYTES ? LAUNCH_KEPT_BYTES - span.offset : 0;
        size = span.size < size ? span.size : size;
        for (uint32_t at = (8 - span.offset % 8) % 8; at + 8 <= size; at += 8) {
            uint64_t word = load_u64(span.bytes + at);
            if (!heap_owns(word))
                continue;
            if (__builtin_expect(is_of_graph, 0))
                heap_given_for_later(word);
            else if (__builtin_expect(heap_looks_freed(word), 0))
                heap_retire_freed(word, span.size <= LAUNCH_STRUCT_SURE);
            else if (__builtin_expect(__atomic_load_n(&maps_are_copied, __ATOMIC_RELAXED), 0) &&
                     (base = maps_base_at(word)) != 0 && heap_owns(base) && heap_looks_freed(base))
                heap_retire_freed(base, 1);
        }
    }
}

/* The node that the launch puts into a graph, as in struct launch_entry. */
static __attribute__((noinline)) uint32_t node_of(CUstream stream)
{
    CUstreamCaptureStatus status;
    cuuint64_t id;
    CUgraph graph = NULL;
    size_t nodes = 0;
    if (driver->stream_capture_info(stream, &status, &id, &graph, NULL, NULL) != CUDA_SUCCESS ||
        status == CU_STREAM_CAPTURE_STATUS_NONE)
        return 0;
    driver->cuGraphGetNodes(graph, NULL, &nodes);
    return 1 + (uint32_t)nodes;
}

static struct launch_event begun(const struct launch_call *call)
{
    struct launch_event event = {
        .context = is_active() ? context_current() : NULL, .call = call, .stream = call->stream, .frame = call->frame};
    struct launch_call captured;
    if (!event.context)
        return event;
    if (__builtin_expect(heap_may_capture(), 0)) {
        captured = *call;
        captured.node = node_of(call->stream);
        call = &captured;
    }
    const struct launch_function *function = launch_record(event.context, call);
    look_at_pointers(call, function, call->node != 0);
    observe(&event);
    return event;
}

struct end {
    const struct launch_event *event;
    CUresult result;
};

static void show_end(void *argument)
{
    const struct end *end = argument;
    if (end->result == CUDA_SUCCESS && order_is_wanted())
        order_launched(end->event);
    if (end->result == CUDA_SUCCESS && progress_is_wanted())
        progress_queued(end->event->context, end->event->stream);
    if (INSPECTOR_WANTS(launch_ended))
        inspector_now()->launch_ended(end->result);
}

static void follow(void *stream)
{
    progress_queued(context_current(), stream);
}

void work_queued(CUstream stream)
{
    if (progress_is_wanted() && is_active())
        aside_call(follow, stream);
}

static CUresult done(const struct launch_event *event, CUresult result)
{
    struct end end = {event, result};
    if (event->context && (order_is_wanted() || progress_is_wanted() || INSPECTOR_WANTS(launch_ended)))
        aside_call(show_end, &end);
    return result;
}

static int has_stale_texture(const struct launch_call *call, const char *name)
{
    return __builtin_expect(__atomic_load_n(&textures_are_known, __ATOMIC_RELAXED), 0) && !keepers_allow_launch(call, name);
}

/* `all` is what the driver is called with; behind it, cuLaunchKernel's parameter that the others do not have. */
#define LAUNCH(symbol, stream_meant, cooperative, extra_meant, all, ...)                                                       \
    CUresult hook_##symbol(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,         \
                           unsigned shared, CUstream stream, void **parameters __VA_ARGS__)                                    \
    {                                                                                                                          \
        struct tried tried;                                                                                                    \
        if (failure() != CUDA_SUCCESS)                                                                                         \
            return failure();                                                                                                  \
        const struct launch_call call = {.function = f,                                                                        \
                                         .grid = {gx, gy, gz},                                                                 \
                                         .block = {bx, by, bz},                                                                \
                                         .shared_bytes = shared,                                                               \
                                         .stream = stream_meant(stream),                                                       \
                                         .parameters = parameters,                                                             \
                                         .extra = extra_meant,                                                                 \
                                         .is_cooperative = cooperative,                                                        \
                                         .frame = __builtin_frame_address(0)};                                                 \
        if (has_stale_texture(&call, cooperative ? "cuLaunchCooperativeKernel" : "cuLaunchKernel"))                            \
            return CUDA_ERROR_INVALID_VALUE;                                                                                   \
        const struct launch_event event = begun(&call);                                                                        \
        return done(&event, RELIEVED(real.symbol all));                                                                        \
    }
#define EACH f, gx, gy, gz, bx, by, bz, shared, stream, parameters
LAUNCH(cuLaunchKernel, as_it_is, 0, extra, (EACH, extra), , void **extra)
LAUNCH(cuLaunchKernel_ptsz, own_default, 0, extra, (EACH, extra), , void **extra)
LAUNCH(cuLaunchCooperativeKernel, as_it_is, 1, NULL, (EACH))
LAUNCH(cuLaunchCooperativeKernel_ptsz, own_default, 1, NULL, (EACH))

static struct launch_call configured(const CUlaunchConfig *config, CUfunction f, CUstream stream, void **parameters,
                                     void **extra, const void *frame)
{
    struct launch_call call = {.function = f,
                               .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
                               .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
                               .shared_bytes = config->sharedMemBytes,
                               .stream = stream,
                               .parameters = parameters,
                               .extra = extra,
                               .frame = frame};
    for (unsigned i = 0; config->attrs && i < config->numAttrs; i++) {
        const CUlaunchAttribute *attribute = &config->attrs[i];
        if (attribute->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
            call.cluster[0] = attribute->value.clusterDim.x;
            call.cluster[1] = attribute->value.clusterDim.y;
            call.cluster[2] = attribute->value.clusterDim.z;
        } else if (attribute->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
            call.is_cooperative = attribute->value.cooperative;
        }
    }
    return call;
}

/* A launch can record events itself. */
static void note_events(const CUlaunchConfig *config, CUstream stream)
{
    for (unsigned i = 0; config->attrs && i < config->numAttrs; i++) {
        const CUlaunchAttribute *attribute = &config->attrs[i];
        if (attribute->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
            order_event_recorded(attribute->value.programmaticEvent.event, stream, 0);
        else if (attribute->id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
            order_event_recorded(attribute->value.launchCompletionEvent.event, stream, 0);
    }
}

#define CONFIGURED(symbol, stream_meant)                                                                                       \
    CUresult hook_##symbol(const CUlaunchConfig *config, CUfunction f, void **parameters, void **extra)                        \
    {                                                                                                                          \
        struct tried tried;                                                                                                    \
        if (failure() != CUDA_SUCCESS)                                                                                         \
            return failure();                                                                                                  \
        if (!config)                                                                                                           \
            return real.symbol(config, f, parameters, extra);                                                                  \
        const struct launch_call call =                                                                                        \
            configured(config, f, stream_meant(config->hStream), parameters, extra, __builtin_frame_address(0));               \
        if (has_stale_texture(&call, "cuLaunchKernelEx"))                                                                      \
            return CUDA_ERROR_INVALID_VALUE;                                                                                   \
        const struct launch_event event = begun(&call);                                                                        \
        CUresult result = done(&event, RELIEVED(real.symbol(config, f, parameters, extra)));                                   \
        if (order_is_wanted() && result == CUDA_SUCCESS)                                                                       \
            note_events(config, call.stream);                                                                                  \
        return result;                                                                                                         \
    }
CONFIGURED(cuLaunchKernelEx, as_it_is)
CONFIGURED(cuLaunchKernelEx_ptsz, own_default)

static struct launch_event graph_begun(CUgraphExec graph, CUstream stream, const void *frame)
{
    struct launch_event event = {
        .context = is_active() ? context_current() : NULL, .graph = graph, .stream = stream, .frame = frame};
    if (event.context) {
        launch_record_graph(event.context, graph, stream, frame);
        observe(&event);
    }
    return event;
}

#define GRAPH(symbol, stream_meant)                                                                                            \
    CUresult hook_##symbol(CUgraphExec graph, CUstream stream)                                                                 \
    {                                                                                                                          \
        struct tried tried;                                                                                                    \
        if (failure() != CUDA_SUCCESS)                                                                                         \
            return failure();                                                                                                  \
        if (is_active() && !keepers_allow_graph(&(const struct host_call){.name = "cuGraphLaunch",                             \
                                                                          .frame = __builtin_frame_address(0),                 \
                                                                          .stream = stream_meant(stream)},                     \
                                                graph))                                                                        \
            return CUDA_ERROR_INVALID_VALUE;                                                                                   \
        const struct launch_event event = graph_begun(graph, stream_meant(stream), __builtin_frame_address(0));                \
        if (is_active()) {                                                                                                     \
            heap_before_graph();                                                                                               \
            graph_makes_room(graph);                                                                                           \
        }                                                                                                                      \
        CUresult result = RELIEVED(real.symbol(graph, stream));                                                                \
        if (result == CUDA_SUCCESS)                                                                                            \
            heap_graph_launched(graph);                                                                                        \
        return done(&event, result);                                                                                           \
    }
GRAPH(cuGraphLaunch, as_it_is)
GRAPH(cuGraphLaunch_ptsz, own_default)
