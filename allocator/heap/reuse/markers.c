/* Events that show how far a stream has got with the frees on it. */
#include "reuse.h"

void freelist_ask_markers(struct freelist *list)
{
    list_expect(list);
    unsigned done = 0;
    while (done < list->marker_count && driver->cuEventQuery(list->markers[done].event) == CUDA_SUCCESS) {
        if (list->markers[done].sequence > list->passed)
            list->passed = list->markers[done].sequence;
        event_give(list->books, list->markers[done].event);
        done++;
    }
    list->marker_count -= done;
    for (unsigned i = 0; i < list->marker_count; i++)
        list->markers[i] = list->markers[i + done];
}

int freelist_is_unmarked(struct freelist *list)
{
    list_lock(list);
    int is_unmarked = list->freed != list->marked && list->freed > list->passed;
    list_unlock(list);
    return is_unmarked;
}

void freelist_mark_touched(struct freelist *list, struct stream *stream)
{
    lock_expect(RANK_TOUCH);
    list_lock(list);
    if (list->marker_count == MARKERS)
        freelist_ask_markers(list);
    int has_room = list->marker_count < MARKERS;
    uint64_t sequence = list->freed;
    list_unlock(list);
    if (!has_room)
        return;
    SCOPE scope = scope_enter_stream(stream);
    CUevent event = scope.pushed ? event_take(list->books) : NULL;
    if (event && driver->cuEventRecord(event, stream->handle) == CUDA_SUCCESS) {
        list_lock(list);
        list->markers[list->marker_count++] = (struct marker){.event = event, .sequence = sequence};
        list->marked = sequence;
        list_unlock(list);
    } else if (event) {
        event_give(list->books, event);
    }
}

void freelist_mark(struct freelist *list)
{
    struct stream *stream = __atomic_load_n(&list->stream, __ATOMIC_RELAXED);
    if (!stream || !stream_touch_try(stream)) /* also keeps other threads from adding markers */
        return;
    if (__atomic_load_n(&list->stream, __ATOMIC_RELAXED) == stream)
        freelist_mark_touched(list, stream);
    stream_touch_end(stream);
}

int freelist_is_behind(struct freelist *list)
{
    list_lock(list);
    freelist_ask_markers(list);
    int is_behind = list->marker_count != 0;
    list_unlock(list);
    return is_behind;
}

int freelist_pass_touched(struct freelist *list, struct stream *stream)
{
    lock_expect(RANK_TOUCH);
    list_lock(list);
    uint64_t sequence = list->freed;
    list_unlock(list);
    struct scope scope = scope_enter_stream(stream);
    int has_passed = scope.pushed && driver->cuStreamQuery(stream->handle) == CUDA_SUCCESS;
    scope_leave(scope);
    if (has_passed) {
        list_lock(list);
        if (sequence > list->passed)
            list->passed = sequence;
        list_unlock(list);
    }
    return has_passed;
}
