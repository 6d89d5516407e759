#include "report_common.h"

#include "report_launch.h"

#include <inttypes.h>

void report_end_headline(struct report *report, const struct report_origin *origin, const char *device_name)
{
    const char *name = origin->device_name ? origin->device_name : device_name;
    if (origin->device >= 0)
        report_put(report, " on GPU %d", origin->device);
    else
        report_put(report, " on a GPU");
    if (*name) {
        report_put(report, " (");
        report_put_name(report, name);
        report_put(report, ")");
    }
    if (origin->rank >= 0)
        report_put(report, ", rank %d", origin->rank);
    report_end(report, CERTAIN_NOT);
    report_begin(report, NULL, NULL);
    report_end(report, CERTAIN_NOT);
}

void report_put_buffer(struct report *report, const cufence_buffer *buffer)
{
    report_put(report, "#%" PRIu64 ", %" PRIu64 " byte%s", buffer->id, buffer->size, plural(buffer->size));
    if (buffer->size >= MIB)
        report_put(report, " (%s)",
                   amount_in(buffer->size, buffer->size >= GIB ? GIB : MIB, buffer->size >= GIB ? "GiB" : "MiB").text);
    report_put(report, " [0x%" PRIx64 ", 0x%" PRIx64 ")", buffer->address, buffer->address + buffer->size);
}

void report_put_label(struct report *report, const cufence_buffer *buffer)
{
    if (!buffer->label[0])
        return;
    report_put(report, ", label \"");
    report_put_name(report, buffer->label);
    report_put(report, "\"");
}

void report_frame_lines(struct report *report, const char *key, const char *subkey, const struct stack_frame *frames,
                        size_t count)
{
    for (size_t i = 0; i < count; i++) {
        report_begin(report, i ? "" : key, i && subkey ? "" : subkey);
        report_put_frame(report, &frames[i]);
        report_end(report, CERTAIN_NOT);
    }
}

static void place_lines(struct report *report, const char *event, uint32_t stack, buffer_frames_reader *read)
{
    struct stack_frame frames[BUFFER_FRAMES];
    report_frame_lines(report, "", event, frames, stack && read ? read(stack, frames, BUFFER_FRAMES) : 0);
}

void report_buffer_lines(struct report *report, const cufence_buffer *buffer, uint64_t now_ns, buffer_frames_reader *frames)
{
    report_begin(report, "buffer", NULL);
    report_put_buffer(report, buffer);
    report_put(report, ", stream 0x%" PRIx64, buffer->stream);
    report_put_label(report, buffer);
    report_end(report, CERTAIN_NOT);
    if (buffer->allocated_ns) {
        report_begin(report, "", "allocated");
        report_put_age(report, now_ns, buffer->allocated_ns);
        report_put(report, "by thread %" PRIu64, buffer->allocated_tid);
        report_end(report, CERTAIN_NOT);
    }
    place_lines(report, "allocated at", buffer->allocated_stack, frames);
    if (buffer->freed_ns) {
        report_begin(report, "", "freed");
        report_put_age(report, now_ns, buffer->freed_ns);
        report_put(report, "by thread %" PRIu64 " on stream 0x%" PRIx64, buffer->freed_tid, buffer->free_stream);
        report_end(report, CERTAIN_NOT);
    }
    place_lines(report, "freed at", buffer->freed_stack, frames);
}
