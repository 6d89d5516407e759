
#include "finding.h"

#include <stdlib.h>
#include <string.h>

/* Whether `a` happened after `b`, as far as is known. */
static int is_later(const struct timeline_event *a, const struct timeline_event *b)
{
    if (a->time_ns != b->time_ns || !a->launch || !b->launch || a->launch->tid != b->launch->tid)
        return a->time_ns > b->time_ns;
    return a->launch->sequence > b->launch->sequence;
}

static int is_same(const struct timeline_event *a, const struct timeline_event *b)
{
    if (a->launch && b->launch)
        return a->launch == b->launch;
    return a->buffer && b->buffer && a->buffer->id == b->buffer->id && a->is_free == b->is_free;
}

/* Puts it where it belongs in the order of time. The oldest falls out if there is no room. */
static size_t insert(struct timeline_event *out, size_t count, struct timeline_event event)
{
    size_t at = count;
    for (size_t i = 0; i < count; i++)
        if (is_same(&out[i], &event))
            return count;
    while (at > 0 && is_later(&out[at - 1], &event))
        at--;
    if (count < TIMELINE_MOST) {
        memmove(out + at + 1, out + at, (count - at) * sizeof *out);
        out[at] = event;
        return count + 1;
    }
    if (at > 0) {
        memmove(out, out + 1, (at - 1) * sizeof *out);
        out[at - 1] = event;
    }
    return count;
}

static size_t insert_buffers(struct timeline_event *out, size_t count, const cufence_buffer *buffers, size_t buffer_count)
{
    for (size_t i = 0; i < buffer_count; i++) {
        const cufence_buffer *buffer = &buffers[i];
        if (buffer->allocated_ns)
            count = insert(out, count, (struct timeline_event){.time_ns = buffer->allocated_ns, .buffer = buffer});
        if (buffer->freed_ns)
            count = insert(out, count, (struct timeline_event){.time_ns = buffer->freed_ns, .buffer = buffer, .is_free = 1});
    }
    return count;
}

const char *const timeline_words[] = {"launch", "graph launch", "allocation", "free", NULL};

static void describe_launch(struct timeline_event *event, const struct launch_entry *faulted)
{
    const struct launch_entry *launch = event->launch;
    event->what = timeline_words[launch->graph != 0];
    event->has_kernel = launch->function != NULL;
    if (launch->function)
        finding_kernel_of(launch->function->name, event->kernel, sizeof event->kernel);
    event->tid = launch->tid;
    event->stream = launch->stream;
    event->has_faulted = faulted && faulted->tid == launch->tid && faulted->sequence == launch->sequence &&
                         faulted->function == launch->function && faulted->time_ns == launch->time_ns;
}

static void describe_buffer(struct timeline_event *event)
{
    const cufence_buffer *buffer = event->buffer;
    event->what = timeline_words[2 + event->is_free];
    event->tid = event->is_free ? buffer->freed_tid : buffer->allocated_tid;
    event->stream = event->is_free ? buffer->free_stream : buffer->stream;
}

size_t timeline_of(const struct fault_memory *memory, const struct launch_entry *faulted, struct timeline_event **out)
{
    size_t count = 0;
    struct timeline_event *events = *out = calloc(TIMELINE_MOST, sizeof *events);
    if (!events)
        return 0;
    for (size_t i = 0; i < memory->recent_count; i++)
        count =
            insert(events, count, (struct timeline_event){.time_ns = memory->recent[i].time_ns, .launch = &memory->recent[i]});
    count = insert_buffers(events, count, memory->near, memory->near_count);
    count = insert_buffers(events, count, memory->live, memory->live_count);
    for (size_t i = 0; i < count; i++) {
        if (events[i].launch)
            describe_launch(&events[i], faulted);
        else
            describe_buffer(&events[i]);
    }
    return count;
}
