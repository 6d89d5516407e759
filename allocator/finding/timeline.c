#include "timeline.h"

#include "finding.h"

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

size_t timeline_of(const struct fault_memory *memory, struct timeline_event out[TIMELINE_MOST])
{
    size_t count = 0;
    for (size_t i = 0; i < memory->recent_count; i++)
        count = insert(out, count, (struct timeline_event){.time_ns = memory->recent[i].time_ns, .launch = &memory->recent[i]});
    count = insert_buffers(out, count, memory->near, memory->near_count);
    return insert_buffers(out, count, memory->live, memory->live_count);
}

static void put_launch(struct members event, const struct launch_entry *launch, const struct launch_entry *faulted)
{
    char kernel[256];
    put_text(event, "what", launch->graph ? "graph launch" : "launch");
    if (launch->function) {
        finding_kernel_of(launch->function->name, kernel, sizeof kernel);
        put_text(event, "kernel", kernel);
        put_dim(event, "grid", launch->grid);
        put_dim(event, "block", launch->block);
    }
    put_number(event, "tid", launch->tid);
    put_hex(event, "stream", launch->stream);
    put_true(event, "faulted",
             faulted && faulted->tid == launch->tid && faulted->sequence == launch->sequence &&
                 faulted->function == launch->function && faulted->time_ns == launch->time_ns);
}

static void put_buffer(struct members event, const cufence_buffer *buffer, int is_free)
{
    put_text(event, "what", is_free ? "free" : "allocation");
    put_number(event, "buffer", buffer->id);
    put_number(event, "size", buffer->size);
    put_text(event, "label", buffer->label);
    put_number(event, "tid", is_free ? buffer->freed_tid : buffer->allocated_tid);
    put_hex(event, "stream", is_free ? buffer->free_stream : buffer->stream);
}

void json_put_timeline(struct members report, const struct fault_memory *memory, const struct launch_entry *faulted)
{
    struct timeline_event events[TIMELINE_MOST];
    size_t count = timeline_of(memory, events);
    if (!count)
        return;
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        struct members event = {json_object(), report.has_failed};
        put_number(event, "ns", events[i].time_ns);
        if (memory->now_ns >= events[i].time_ns)
            put_number(event, "ago_ns", memory->now_ns - events[i].time_ns);
        if (events[i].launch)
            put_launch(event, events[i].launch, faulted);
        else
            put_buffer(event, events[i].buffer, events[i].is_free);
        append(list, event.object, report.has_failed);
    }
    put(report, "timeline", list);
}
