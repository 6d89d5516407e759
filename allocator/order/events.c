/* What orders streams: events, synchronisations, and what cufence cannot follow. */
#include "order_internal.h"

/* What is one step of the clocks. */
#define STEP(name, parameters, ...)                                                                                            \
    void name parameters                                                                                                       \
    {                                                                                                                          \
        HOLD(&order_lock);                                                                                                     \
        __VA_ARGS__;                                                                                                           \
    }
STEP(order_event_gone, (CUevent event), clocks_event_gone(&order_state->clocks, name_of(event)))
STEP(order_event_hidden, (CUevent event), clocks_event_hidden(&order_state->clocks, name_of(event)))
STEP(order_event_records_all, (CUevent event), clocks_event_all(&order_state->clocks, name_of(event)))
STEP(order_graph_waits, (void), order_state->clocks.graphs_wait = 1)
STEP(order_graph_tells, (void), order_state->clocks.graphs_tell = 1)
STEP(order_graph_gone, (CUgraphExec graph), clocks_graph_gone(&order_state->clocks, name_of(graph)))
STEP(order_sees_event, (struct order_clock * seen, CUevent event),
     *seen = clocks_of_event(&order_state->clocks, name_of(event)))
STEP(order_sees_context, (struct order_clock * seen, const struct context *context),
     *seen = clocks_of_context(&order_state->clocks, context))
STEP(order_host_knows, (const struct order_clock *seen), clocks_host_knows(&order_state->clocks, seen))

/* ---- events ---- */

void order_event_made(CUevent event, unsigned flags)
{
    HOLD(&order_lock);
    clocks_event_made(&order_state->clocks, name_of(event));
    if (flags & CU_EVENT_INTERPROCESS) /* other processes may record it, behind work that waits for ours */
        clocks_event_hidden(&order_state->clocks, name_of(event));
}

void order_event_recorded(CUevent event, CUstream handle, unsigned flags)
{
    if (flags & CU_EVENT_RECORD_EXTERNAL) {
        order_event_hidden(event); /* a graph records it, if the stream is captured */
        return;
    }
    struct stream *stream = stream_resolve(handle);
    enum followed is = follow(stream);
    if (is == LOST)
        order_event_hidden(event);
    if (is != FOLLOWED)
        return;
    HOLD(&order_lock);
    clocks_event_recorded(&order_state->clocks, name_of(event), index_of(stream));
}

void order_event_waited(CUstream handle, CUevent event, unsigned flags)
{
    if (flags & CU_EVENT_WAIT_EXTERNAL)
        order_graph_waits();
    struct stream *stream = stream_resolve(handle);
    if (follow(stream) != FOLLOWED)
        return;
    HOLD(&order_lock);
    clocks_wait(&order_state->clocks, index_of(stream), name_of(event));
}

/* The host knows, or will, without a call that could compare what has been copied before it goes on. */
static void knows_by_the_way(const struct order_clock *seen)
{
    HOLD(&order_lock);
    clocks_host_knows(&order_state->clocks, seen);
    host_copies_forget_done();
}

void order_event_has_passed(CUevent event)
{
    struct order_clock seen;
    order_sees_event(&seen, event);
    knows_by_the_way(&seen);
}

/* ---- what cufence can't follow ---- */

void order_stream_waits_unseen(CUstream handle)
{
    struct stream *stream = stream_resolve(handle);
    enum followed is = follow(stream);
    if (is != FOLLOWED) {
        order_graph_waits();
        return;
    }
    HOLD(&order_lock);
    clocks_wait_for_all(&order_state->clocks, index_of(stream));
}

void order_host_learns(CUstream handle)
{
    struct order_clock seen;
    if (follow(stream_resolve(handle)) != FOLLOWED) {
        order_graph_tells();
        return;
    }
    order_sees_stream(&seen, handle);
    knows_by_the_way(&seen);
}

void order_value_written(const struct order_copy *copy)
{
    struct order_race ignored;
    if (!order_state->finds_races) /* what is launched next may run beside it, for all that the host knows */
        order_host_learns(copy->stream);
    order_copied(copy, &ignored);
    if (order_state->finds_races)
        order_host_learns(copy->stream);
}

void order_node_added(const CUgraphNodeParams *node)
{
    switch ((int)node->type) {
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        order_event_hidden(node->eventRecord.event);
        break;
    case CU_GRAPH_NODE_TYPE_HOST:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
        order_graph_tells();
        break;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
        order_graph_waits();
        break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: /* may wait, and may write what the host polls */
        order_graph_waits();
        order_graph_tells();
        break;
    default:
        break;
    }
}

/* ---- synchronisation ---- */

void order_sees_stream(struct order_clock *seen, CUstream handle)
{
    struct stream *stream = stream_resolve(handle);
    unsigned is = follow(stream);
    HOLD(&order_lock);
    *seen = clocks_of_stream(&order_state->clocks, is == FOLLOWED ? index_of(stream) : ORDER_NOT_TRACKED);
}
