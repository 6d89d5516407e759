#include "report_common.h"

#include "frames.h"
#include "parts.h"
#include "short_name.h"

#include <inttypes.h>

#define LONGEST_ARGUMENTS 72 /* of a template */

struct amount dim_of(const uint32_t dim[3])
{
    return amount_text("(%" PRIu32 ",%" PRIu32 ",%" PRIu32 ")", dim[0], dim[1], dim[2]);
}

struct grid_text grid_of(const uint32_t grid[3], const uint32_t block[3])
{
    struct grid_text out;
    snprintf(out.text, sizeof out.text, "<<<%.35s, %.35s>>>", dim_of(grid).text, dim_of(block).text);
    return out;
}

struct amount line_text(int line)
{
    return line ? amount_text(":%d", line) : (struct amount){""};
}

void report_put_buffer(struct report *report, const cufence_buffer *buffer)
{
    report_put(report, "#%" PRIu64 ", %" PRIu64 " byte%s", buffer->id, buffer->size, plural(buffer->size));
    if (buffer->size >= MIB)
        report_put(report, " (%s)",
                   amount_in(buffer->size, buffer->size >= GIB ? GIB : MIB, buffer->size >= GIB ? "GiB" : "MiB").text);
    report_put(report, " [0x%" PRIx64 ", 0x%" PRIx64 ")", buffer->address, buffer->address + buffer->size);
}

enum certainty report_put_label(struct report *report, const cufence_buffer *buffer, enum certainty certainty)
{
    char label[sizeof buffer->label + sizeof "label \"\""];
    snprintf(label, sizeof label, "label \"%s\"", buffer->label);
    return buffer->label[0] ? report_put_more(report, NULL, label, certainty) : certainty;
}

void report_put_code(struct report *report, const struct report_code *code)
{
    const char *gap = code->file ? "   " : "";
    if (code->file)
        report_put(report, "%s%s", code->file, line_text(code->line).text);
    if (code->instruction)
        report_put(report, "%s%s", gap, code->instruction);
    if (code->symbol)
        report_put(report, "%s(%s+0x%" PRIx64 ")", code->instruction ? "   " : gap, code->symbol, code->offset);
}

void report_put_kernel(struct report *report, const char *name)
{
    char text[512];
    short_name(name, LONGEST_ARGUMENTS, text, sizeof text);
    report_put(report, "%s", report->is_verbose ? name : text);
}

void report_put_frame(struct report *report, const struct stack_frame *frame)
{
    char function[sizeof frame->function];
    frames_function(frame, function, sizeof function);
    if (frame->file[0])
        report_put(report, "%s%s", frames_file(frame), line_text(frame->line).text);
    if (function[0])
        report_put(report, "%s%s", frame->file[0] ? " in " : "", report->is_verbose ? frame->function : function);
    if (!frame->file[0] && frame->module[0])
        report_put(report, "%s(%s+0x%" PRIx64 ")", function[0] ? " " : "", frame->module, frame->offset);
}

void report_frame_lines(struct report *report, const char *key, const char *subkey, const char *remark,
                        enum certainty certainty, const struct stack_frame *frames, size_t count)
{
    unsigned char shown[STACK_READ];
    size_t first = 0;
    count = frames_without_runner(frames, count);
    frames_choose(frames, count, STACK_SHOWN, shown);
    while (first < count && !shown[first])
        first++;
    for (size_t i = first, next, skipped; i < count; i = next) {
        for (next = i + 1, skipped = 0; next < count && !shown[next]; next++)
            skipped += !frames_is_plumbing(&frames[next]);
        report_begin(report, i > first ? "" : key, i > first && subkey ? "" : subkey);
        report_put_frame(report, &frames[i]);
        if (skipped)
            report_put(report, ", called through %zu more", skipped);
        if (i == first && remark)
            report_put(report, "%s", remark);
        report_end(report, i > first ? CERTAIN_NOT : certainty);
    }
}

void report_when_line(struct report *report, const char *subkey, uint64_t now_ns, uint64_t then_ns, uint64_t tid,
                      uint64_t stream)
{
    report_begin(report, "", subkey);
    if (then_ns)
        report_put_age(report, now_ns, then_ns);
    report_put(report, "by thread %" PRIu64 " on stream 0x%" PRIx64, tid, stream);
    report_end(report, CERTAIN_NOT);
}

void report_waiting_lines(struct report *report, const struct waiting_facts *waiting, uint64_t now_ns)
{
    for (const struct waiting_fact *fact = waiting->list; fact < waiting->list + waiting->count; fact++) {
        report_line(report, fact > waiting->list ? "" : "waits", NULL, CERTAIN_NOT, "thread %" PRIu64 ", for %s, in %s",
                    fact->tid, age_of(now_ns - fact->since_ns).text, fact->call);
        report_frame_lines(report, "", "at", NULL, CERTAIN_NOT, fact->frames, fact->frame_count);
    }
    if (waiting->total > waiting->count)
        report_line(report, "", NULL, CERTAIN_NOT, "and %zu more thread%s", waiting->total - waiting->count,
                    plural(waiting->total - waiting->count));
}

void report_buffer_lines(struct report *report, const struct buffer_fact *fact, uint64_t now_ns)
{
    const cufence_buffer *buffer = fact->buffer;
    report_begin(report, "buffer", NULL);
    report_put_buffer(report, buffer);
    report_put(report, ", stream 0x%" PRIx64, buffer->stream);
    report_put_label(report, buffer, CERTAIN_NOT);
    report_end(report, CERTAIN_NOT);
    if (buffer->redzone_before || buffer->redzone_after)
        report_line(report, "", "redzone", CERTAIN_NOT,
                    "%" PRIu64 " bytes before and %" PRIu64 " after: it shares its page with others", buffer->redzone_before,
                    buffer->redzone_after);
    if (buffer->allocated_ns) {
        report_begin(report, "", "allocated");
        report_put_age(report, now_ns, buffer->allocated_ns);
        report_put(report, "by thread %" PRIu64, buffer->allocated_tid);
        report_end(report, CERTAIN_NOT);
    }
    report_frame_lines(report, "", "allocated at", NULL, CERTAIN_NOT, fact->allocated.frames, fact->allocated.count);
    if (buffer->freed_ns) {
        report_begin(report, "", "freed");
        report_put_age(report, now_ns, buffer->freed_ns);
        if (buffer->freed_tid)
            report_put(report, "by thread %" PRIu64 " on stream 0x%" PRIx64, buffer->freed_tid, buffer->free_stream);
        else
            report_put(report, "with its context, which was destroyed");
        char ago[64];
        snprintf(ago, sizeof ago, "about %" PRIu64 " allocation%s ago", buffer->freed_ago, plural(buffer->freed_ago));
        report_end(report, buffer->freed_ago ? report_put_more(report, "", ago, CERTAIN_NOT) : CERTAIN_NOT);
    }
    report_frame_lines(report, "", "freed at", NULL, CERTAIN_NOT, fact->freed.frames, fact->freed.count);
}

void launched_kernel_line(struct report *report, const struct launched_fact *by, enum certainty certainty)
{
    report_begin(report, "kernel", NULL);
    if (by->kernel)
        report_put_kernel(report, by->kernel);
    report_put(report, "%s%s",
               by->kernel ? "" : "one of a CUDA graph: ", by->kernel ? grid_of(by->grid, by->block).text : by->plain);
    report_end(report, certainty);
}

void launched_lines(struct report *report, const struct launched_fact *by)
{
    report_line(report, "", "launched", CERTAIN_NOT, "#%" PRIu64 ", by thread %" PRIu64 " on stream 0x%" PRIx64, by->launch,
                by->tid, by->stream);
    report_frame_lines(report, "", "launched at", NULL, CERTAIN_EXACT, by->frames, by->frame_count);
}
