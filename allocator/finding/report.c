#include "report.h"

#include "frames.h"
#include "parts.h"
#include "report_common.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_VALUES 32             /* argument lines */
#define STUCK_PLACES 12           /* of threads that hang */
#define PLAIN_LIMIT 1000000000000 /* 8-byte values beyond this are probably no counts, and are printed in hex */

/* ---- what happened, and where ---- */

/* Puts "at train.py:41 in step", or the position in the kernel. */
static void place_piece(struct report *report, const struct finding *finding)
{
    const struct evidence_stop *stop = &finding->where.stop;
    char kernel[256];
    const struct stack_frame *from = finding->by ? finding->by->frames : finding->called.frames;
    size_t count = finding->by ? finding->by->frame_count : finding->called.count;
    if (count) {
        report_put(report, "%sat ", finding->by ? "launched " : "");
        report_put_frame(report, frames_own(from, count));
    }
    if (!finding->where.is_known)
        return;
    finding_kernel(stop, kernel, sizeof kernel);
    if (stop->file && !stop->is_in_driver) {
        report_put(report, "at %s%s%s%s", stop->file, line_text(stop->line).text, kernel[0] ? " in " : "", kernel);
    } else if (kernel[0]) {
        report_put(report, "in %s", kernel);
        if (!stop->is_in_driver && stop->symbol)
            report_put(report, "+0x%" PRIx64, stop->kernel_offset);
    } else if (stop->error_pc) {
        report_put(report, "at PC 0x%" PRIx64, stop->error_pc);
    }
}

static void thread_piece(struct report *report, const struct finding *finding)
{
    if (!finding->where.lane)
        return;
    report_put(report, "block %s thread %s", dim_of(finding->where.stop.block_index).text,
               dim_of(finding->where.lane->thread).text);
    if (finding->where.threads > 1)
        report_put(report, " and %zu more", finding->where.threads - 1);
}

static void device_piece(struct report *report, const struct finding *finding)
{
    const struct finding_source *origin = &finding->origin;
    if (origin->device >= 0)
        report_put(report, "on GPU %d", origin->device);
    else
        report_put(report, "on a GPU");
    if (origin->device_name && *origin->device_name)
        report_put(report, " (%s)", origin->device_name);
    if (origin->rank >= 0)
        report_put(report, ", rank %d", origin->rank);
}

static void source_lines(struct report *report, const struct finding *finding)
{
    for (size_t i = 0; i < finding->where.source_count; i++) {
        const struct source_line *line = &finding->where.source[i];
        report_line(report, NULL, NULL, CERTAIN_NOT, "  %c %5d | %s", line->number == finding->where.stop.line ? '>' : ' ',
                    line->number, line->text);
    }
}

typedef void piece(struct report *report, const struct finding *finding);

/* Returns the piece, which the caller frees; NULL if out of host memory. */
static char *rendered(piece *put, const struct finding *finding)
{
    struct report own;
    if (!report_open(&own, 0))
        return NULL;
    put(&own, finding);
    return report_close(&own);
}

/* Appends a piece to `count` others, on a new line if it doesn't fit. Returns the new count. */
static size_t put_piece(struct report *report, piece *put, const struct finding *finding, size_t count)
{
    char *text = rendered(put, finding);
    size_t length = text ? strlen(text) : 0;
    if (length && count)
        report_flow(report, NULL, NULL, 5, ", ", text, CERTAIN_NOT);
    else if (length)
        report_put(report, "%s", text);
    free(text);
    return count + (length > 0);
}

/* Puts the answer: what, where in the source, which thread and device. */
static void headline(struct report *report, const struct finding *finding)
{
    report_line(report, NULL, NULL, CERTAIN_NOT, "cufence: %s", finding->headline);
    report_begin(report, NULL, NULL);
    report_put(report, "  ");
    size_t count = put_piece(report, place_piece, finding, 0);
    count = put_piece(report, thread_piece, finding, count);
    put_piece(report, device_piece, finding, count);
    report_end(report, CERTAIN_NOT);
    source_lines(report, finding);
    report_begin(report, NULL, NULL);
    report_end(report, CERTAIN_NOT);
}

/* Puts one line to search for. */
static void summary_line(struct report *report, const struct finding *finding)
{
    static const char *const accesses[] = {"access", "read", "write", "atomic"};
    const char *first = finding->called.call ? finding->called.call : "", *rest = finding->headline;
    size_t kind = strlen(finding->kind);
    int is_named = !strncmp(rest, finding->kind, kind) && !strncmp(rest + kind, ": ", 2) && !finding->by && !first[0];
    if (finding->where.is_known && finding->access.is_known && !finding->slack && !is_named)
        first = accesses[finding->access.kind];
    if (first[0]) /* instead of what the kind says already */
        rest += strlen(finding->what);
    if (finding->by || finding->slack)
        rest += strlen(finding->what) + strlen(": ");
    report_begin(report, NULL, NULL);
    char *place = rendered(place_piece, finding);
    int has_place = place && *place;
    report_put(report, "SUMMARY: cufence: ");
    if (is_named && has_place)
        rest += kind + strlen(": ");
    if (has_place || first[0] || strncmp(rest, finding->kind, kind) != 0)
        report_put(report, "%s%s%s: %s", finding->kind, has_place ? " " : "", has_place ? place : "", first);
    report_put(report, "%s", rest);
    report_end(report, CERTAIN_NOT);
    free(place);
}

static void address_line(struct report *report, const struct finding *finding)
{
    const struct address_fact *address = &finding->address;
    if (address->certainty == CERTAIN_NOT)
        return;
    report_begin(report, "address", NULL);
    report_put(report, "0x%" PRIx64, address->value);
    size_t others = address->lanes ? finding->where.stop.lane_count - address->lanes : 0;
    if (address->lanes > 1)
        report_put(report, " to 0x%" PRIx64, address->last);
    if (address->lanes + others > 1)
        report_put(report, " by %zu lane%s", address->lanes, plural(address->lanes));
    if (others)
        report_put(report, " and an unknown one by %zu", others);
    const char *more = address->lanes + others > 1 ? "any of which may have faulted" : address->where;
    report_end(report, more[0] ? report_put_more(report, NULL, more, address->certainty) : address->certainty);
}

/* Puts why this buffer is blamed, unless that is certain. */
static void owner_line(struct report *report, const struct finding *finding)
{
    static const char *const sides[] = {"", "into", "past the end of", "before the start of"};
    const struct buffer_fact *rival = &finding->rival;
    if (!finding->is_disputed)
        return;
    report_line(report, "owner", NULL, finding->buffer.certainty, "#%" PRIu64 ": %s", finding->buffer.buffer->id,
                finding->buffer.reason);
    if (!rival->buffer)
        return;
    report_line(report, "", NULL, rival->certainty, "or %" PRIu64 " byte%s %s buffer #%" PRIu64, rival->distance,
                plural(rival->distance), sides[rival->from], rival->buffer->id);
}

/* ---- the code ---- */

static void kernel_line(struct report *report, const struct finding *finding)
{
    const struct evidence_stop *stop = &finding->where.stop;
    const char *name = stop->kernel ? stop->kernel : stop->symbol;
    if (!name && !stop->error_pc)
        return;
    report_begin(report, "kernel", NULL);
    if (name)
        report_put_kernel(report, name);
    else
        report_put(report, "unknown, at PC 0x%" PRIx64 " ", stop->error_pc);
    int has_grid = stop->has_grid && !finding->where.is_grid_of_rerun;
    if (has_grid)
        report_put(report, "%s", grid_of(stop->grid, stop->block).text);
    if (has_grid && finding->where.has_cluster)
        report_put(report, " in clusters of %s", dim_of(stop->cluster).text);
    enum certainty certainty = finding->where.certainty;
    if (finding->buffer.buffer && (finding->buffer.argument.word >= 0 || finding->buffer.argument.number >= 0)) {
        char argument[96] = "";
        part_append_argument(argument, sizeof argument, finding->buffer.argument);
        part_add(argument, " points to this buffer");
        certainty = report_flow(report, "", NULL, 0, "  ", argument, certainty);
    }
    report_end(report, certainty);
}

static void instruction_line(struct report *report, const struct evidence_stop *stop)
{
    if (!stop->is_in_driver && !stop->instruction && !stop->symbol)
        return;
    report_begin(report, "", "instruction");
    if (stop->is_in_driver)
        report_put(report, "code of the driver's, called by %s", stop->symbol);
    else
        report_put_code(report, &(struct report_code){NULL, 0, stop->instruction, stop->symbol, stop->kernel_offset});
    report_end(report, CERTAIN_NOT);
}

/* Puts a fault at another place at the same time. Nothing else in the report is about it. */
static void also_line(struct report *report, const struct evidence_stop *stop)
{
    report_begin(report, "", "also");
    report_put(report, "%s in ", stop->exception.name);
    if (stop->kernel || stop->symbol)
        report_put_kernel(report, stop->kernel ? stop->kernel : stop->symbol);
    else
        report_put(report, "unknown code at PC 0x%" PRIx64, stop->error_pc);
    report_put(report, " at once");
    if (stop->file)
        report_put(report, ", %s%s", stop->file, line_text(stop->line).text);
    else if (stop->symbol && !stop->is_in_driver)
        report_put(report, ", +0x%" PRIx64, stop->kernel_offset);
    report_end(report, CERTAIN_EXACT);
}

static void also_lines(struct report *report, const struct finding *finding)
{
    size_t others = finding->where.warps + finding->where.sms - 1;
    if (others)
        report_line(report, "", "also", CERTAIN_NOT, "%zu more %s%s at this instruction", others,
                    finding->where.warps ? "warp" : "SM", plural(others));
    for (size_t i = 0; i < finding->where.also_count; i++)
        also_line(report, &finding->where.also[i]);
}

static void note_lines(struct report *report, const char *key, const struct note_fact *notes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        report_sentence(report, i ? "" : key, notes[i].text, notes[i].certainty);
}

/* ---- where the launch came from, and its arguments ---- */

/* Puts the grid and block dimensions too, if the kernel line has none. */
static void launched_line(struct report *report, const struct finding *finding, const struct launch_entry *entry)
{
    report_when_line(report, "launched", finding->now_ns, entry->time_ns, entry->tid, entry->stream);
    if (!finding->where.stop.has_grid || finding->where.is_grid_of_rerun)
        report_line(report, "", "", CERTAIN_NOT, "as %s", grid_of(entry->grid, entry->block).text);
}

static void launch_lines(struct report *report, const struct finding *finding)
{
    const struct launch_match *origin = &finding->launch;
    const struct fault_launch *launch = origin->launch;
    if (!launch)
        return;
    if (origin->fits == 1 || (origin->certainty == CERTAIN_RERUN && !launch->entry->graph))
        launched_line(report, finding, launch->entry);
    report_frame_lines(report, "", "launched at", origin->fits ? NULL : ", perhaps in this graph", origin->certainty,
                       launch->frames, launch->frame_count);
    if (launch->frame_count && origin->fits > 1 && origin->certainty == CERTAIN_CANDIDATE)
        report_line(report, "", "", CERTAIN_NOT, "the newest of %zu launches that it may have been", origin->fits);
    if (origin->fits > 1 && origin->certainty == CERTAIN_RERUN)
        report_line(report, "", "", CERTAIN_NOT, "%zu launches fit; this one faulted again", origin->fits);
}

static void candidate_lines(struct report *report, const struct finding *finding)
{
    for (size_t i = 0; i < finding->candidates.count; i++) {
        const struct buffer_fact *candidate = &finding->candidates.list[i];
        report_begin(report, "buffer", NULL);
        report_put_buffer(report, candidate->buffer);
        if (candidate->buffer->freed_ns)
            report_put(report, ", freed");
        enum certainty certainty = candidate->certainty;
        char argument[64] = "";
        if (candidate->argument.word >= 0)
            part_append_argument(argument, sizeof argument, candidate->argument);
        if (argument[0])
            certainty = report_put_more(report, NULL, argument, certainty);
        report_end(report, report_put_label(report, candidate->buffer, certainty));
    }
    if (finding->candidates.total > finding->candidates.count)
        report_line(report, "", NULL, CERTAIN_NOT, "and %zu more", finding->candidates.total - finding->candidates.count);
}

/* Puts a scalar in decimal, a large 8-byte value in hex, and anything else as a number of bytes. */
static void put_scalar(struct report *report, uint64_t bits, uint32_t size)
{
    unsigned shift = size && size < 8 ? 64 - 8 * size : 0;
    int64_t value = (int64_t)(bits << shift) >> shift;
    if (size > 8 || (size & (size - 1)))
        report_put(report, "%" PRIu32 " bytes", size);
    else if (size < 8 || (value < PLAIN_LIMIT && value > -PLAIN_LIMIT))
        report_put(report, "%" PRId64, value);
    else
        report_put(report, "0x%" PRIx64, bits);
}

static void put_value(struct report *report, const struct value_fact *value)
{
    const cufence_buffer *target = value->target;
    if (value->is_member)
        report_put(report, "   at byte %" PRIu32 "  ", value->at);
    else
        report_put(report, "%-3" PRIu32, value->number);
    if (!value->is_kept)
        report_put(report, "%" PRIu32 " byte%s, not kept", value->size, plural(value->size));
    else if (target)
        report_put(report, "buffer #%" PRIu64 " +%" PRIu64 ", %" PRIu64 " byte%s%s", target->id, value->offset, target->size,
                   plural(target->size), target->freed_ns ? ", freed" : "");
    else
        put_scalar(report, value->bits, value->size);
}

/* Puts a line and those of its figures, unless there have been enough. Returns whether there is room. */
static int value_line(struct report *report, const struct finding *finding, const struct value_fact *value, size_t *shown)
{
    if (*shown == MAX_VALUES)
        return 0;
    report_begin(report, *shown ? "" : "arguments", NULL);
    put_value(report, value);
    report_end(report, *shown ? CERTAIN_NOT : finding->arguments.certainty);
    figures_lines(report, value);
    ++*shown;
    return 1;
}

static void value_lines(struct report *report, const struct finding *finding)
{
    size_t shown = 0, left = 0;
    for (size_t i = 0; i < finding->arguments.count; i++) {
        const struct value_fact *value = &finding->arguments.list[i];
        left += !value_line(report, finding, value, &shown);
        for (size_t k = 0; k < value->member_count; k++)
            value_line(report, finding, &value->members[k], &shown);
    }
    if (left)
        report_line(report, "", NULL, CERTAIN_NOT, "and %zu more", left);
}

/* ---- the strip of memory ---- */

static void put_slack(struct report *report, uint64_t bytes)
{
    if (bytes)
        report_put(report, " slack %s |", amount_of(bytes).text);
}

static void put_block(struct report *report, const char *mark, const cufence_buffer *buffer)
{
    report_put(report, "%s #%" PRIu64 " %s%s |", mark, buffer->id, amount_of(buffer->size).text,
               buffer->freed_ns ? " freed" : "");
}

/* Draws the buffer between its slacks. `mark` precedes the buffer. */
static void put_mapping(struct report *report, const char *mark, const cufence_buffer *buffer)
{
    put_slack(report, buffer->address - buffer->mapping_start);
    put_block(report, mark, buffer);
    put_slack(report, buffer->mapping_end - (buffer->address + buffer->size));
}

static void memory_line(struct report *report, const struct finding *finding)
{
    const cufence_buffer *buffer = finding->buffer.buffer;
    if (finding->strip == STRIP_NONE)
        return;
    report_begin(report, "memory", NULL);
    report_put(report, "|");
    if (finding->previous.buffer && finding->strip != STRIP_PAST_END)
        put_block(report, "", finding->previous.buffer);
    if (finding->strip == STRIP_PAST_END) {
        put_mapping(report, "", buffer);
        report_put(report, "X guard %s .......|", amount_of(buffer->guard_end - buffer->mapping_end).text);
    } else if (finding->strip == STRIP_BEFORE_START) {
        report_put(report, "....... guard %s X|", amount_of(buffer->mapping_start - buffer->guard_start).text);
        put_mapping(report, "", buffer);
    } else if (finding->strip == STRIP_FREED) {
        put_mapping(report, "X", buffer);
        report_put(report, " guard %s |", amount_of(buffer->guard_end - buffer->mapping_end).text);
    } else {
        report_put(report, " ....... X ....... |");
    }
    if (finding->next.buffer && finding->strip != STRIP_BEFORE_START)
        put_block(report, "", finding->next.buffer);
    report_end(report, CERTAIN_NOT);
}

/* ---- the whole ---- */

static void kernel_lines(struct report *report, const struct finding *finding)
{
    kernel_line(report, finding);
    instruction_line(report, &finding->where.stop);
    also_lines(report, finding);
    note_lines(report, "what", finding->meaning.list, finding->meaning.count);
    launch_lines(report, finding);
}

static void memory_lines(struct report *report, const struct finding *finding)
{
    if (finding->rerun)
        written_lines(report, finding);
    note_lines(report, "note", finding->notes.list, finding->notes.count);
    candidate_lines(report, finding);
    value_lines(report, finding);
    memory_line(report, finding);
}

char *finding_text(const struct finding *finding)
{
    struct report report;
    if (!report_open(&report, finding->origin.pid))
        return NULL;
    report.is_verbose = finding->is_verbose;
    headline(&report, finding);
    if (finding->reason && !finding->called.call)
        report_sentence(&report, "reason", finding->reason, CERTAIN_NOT);
    report_frame_lines(&report, "called at", NULL, NULL, CERTAIN_NOT, finding->called.frames, finding->called.count);
    earlier_lines(&report, finding);
    if (finding->where.is_known)
        kernel_lines(&report, finding);
    if (finding->nan)
        nan_launch_lines(&report, finding);
    address_line(&report, finding);
    owner_line(&report, finding);
    note_lines(&report, "cause", finding->cause.said.list, finding->cause.said.count);
    if (finding->buffer.buffer)
        report_buffer_lines(&report, &finding->buffer, finding->now_ns);
    if (finding->slack)
        slack_lines(&report, finding->slack);
    if (finding->where.is_known)
        memory_lines(&report, finding);
    else
        note_lines(&report, "note", finding->notes.list, finding->notes.count);
    if (finding->nan)
        nan_input_lines(&report, finding);
    if (finding->stuck) {
        standing_lines(&report, finding->stuck->standing, STUCK_PLACES);
        report_waiting_lines(&report, &finding->stuck->waiting, finding->now_ns);
    }
    if (finding->hint[0])
        report_sentence(&report, "hint", finding->hint, CERTAIN_CANDIDATE);
    summary_line(&report, finding);
    return report_close(&report);
}
