#include "misuse.h"

#include "report_launch.h"
#include "writer.h"

#include <inttypes.h>
#include <string.h>

static void put_buffer(struct report *report, const cufence_buffer *buffer, const struct misuse *misuse)
{
    report_begin(report, "buffer", NULL);
    report_put(report, "#%" PRIu64 ", %" PRIu64 " byte%s [0x%" PRIx64 ", 0x%" PRIx64 ")", buffer->id, buffer->size,
               plural(buffer->size), buffer->address, buffer->address + buffer->size);
    if (buffer->label[0]) {
        report_put(report, ", label \"");
        report_put_name(report, buffer->label);
        report_put(report, "\"");
    }
    report_end(report, CERTAIN_NOT);
    report_begin(report, "", "allocated");
    report_put(report, "%s ago by thread %" PRIu64, duration_of(misuse->now_ns - buffer->allocated_ns).text,
               buffer->allocated_tid);
    report_end(report, CERTAIN_NOT);
    report_buffer_frames(report, "allocated at", buffer->allocated_stack, misuse->buffer_frames);
    if (!buffer->freed_ns)
        return;
    report_begin(report, "", "freed");
    report_put(report, "%s ago by thread %" PRIu64, duration_of(misuse->now_ns - buffer->freed_ns).text, buffer->freed_tid);
    report_end(report, CERTAIN_NOT);
    report_buffer_frames(report, "freed at", buffer->freed_stack, misuse->buffer_frames);
}

char *misuse_text(const struct misuse *misuse, int pid)
{
    struct report report;
    if (!report_open(&report, NULL, pid))
        return NULL;
    const cufence_buffer *buffer = misuse->place->buffer.id ? &misuse->place->buffer : NULL;
    report_begin(&report, NULL, NULL);
    report_put(&report, "cufence: %s by %s", misuse->kind, misuse->call);
    if (buffer)
        report_put(&report, " on GPU %d", buffer->device);
    report_end(&report, CERTAIN_NOT);
    report_begin(&report, NULL, NULL);
    report_end(&report, CERTAIN_NOT);
    report_begin(&report, "address", NULL);
    if (strncmp(misuse->sentence, "0x", 2) != 0)
        report_put(&report, "0x%" PRIx64 ": ", misuse->address);
    report_put(&report, "%s", misuse->sentence);
    report_end(&report, CERTAIN_EXACT);
    if (buffer)
        put_buffer(&report, buffer, misuse);
    return report_close(&report);
}
