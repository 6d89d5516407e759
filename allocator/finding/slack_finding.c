#include "slack_finding.h"

#include "finding.h"
#include "parts.h"
#include "report_common.h"

#include "analysis/verdict/signature.h"
#include "base/reader.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MOST_HEX 16 /* bytes in the line */
#define ROOM 40     /* columns for a number, " ..." and the certainty */

static enum certainty launch_certainty(const struct slack_write *write)
{
    if (write->again.stop)
        return CERTAIN_RERUN;
    if (!write->launch_total)
        return CERTAIN_NOT;
    int is_all = !write->apart && !write->graphs && !write->found.poison.copies && !write->is_incomplete;
    return write->launch_total == 1 && is_all ? CERTAIN_DERIVED : CERTAIN_CANDIDATE;
}

static uint64_t distance_of(const struct slack_write *write)
{
    uint64_t address = write->found.address, start = write->buffer->address;
    if (write->found.is_before && !write->found.poison.bytes)
        return start - address;
    return address - start - (write->found.poison.bytes ? 0 : write->buffer->size);
}

static void take_notes(struct finding *finding, const struct slack_write *write)
{
    if (write->found.buffers > 1)
        note_add(finding,
                 "%" PRIu64
                 " buffers had this memory since it was last checked, one after the other, the first of them #%" PRIu64
                 ": it may have been written for any of them; cufence run --preset thorough checks each at its free",
                 write->found.buffers, write->found.first_id);
    if (write->graphs)
        note_add(finding,
                 "%zu graph%s came in between; which buffers a graph is given is not on record, so %s kernels may have "
                 "written this",
                 write->graphs, plural(write->graphs), write->graphs == 1 ? "its" : "their");
    if (write->is_incomplete)
        note_add(finding, "older launches are no longer on record; remember=65536/16384 keeps more of them");
    if (write->apart)
        note_add(finding, "%zu of the launches came at another time, on a stream that may not have waited", write->apart);
    if (write->found.poison.copies)
        note_add(finding, "%s%s was given some of these bytes to write while they were poisoned, and may have done it",
                 write->found.poison.copy, write->found.poison.copies > 1 ? ", and further calls," : "");
    if (write->untold[0] && !write->again.stop)
        note_add(finding, "launched again with the buffer's edge at a guard, it is not known which did it: %s", write->untold);
}

static void take_again(struct finding *finding, const struct slack_again *again)
{
    finding->where = (struct where_fact){.is_known = 1,
                                         .certainty = CERTAIN_RERUN,
                                         .stop = *again->stop,
                                         .has_kernel = 1,
                                         .is_warp_of_rerun = 1,
                                         .is_grid_of_rerun = 1,
                                         .lane = again->lane,
                                         .threads = again->threads,
                                         .warps = again->warps};
    finding->access.bytes = again->stop->access_bytes;
    finding->access.kind = again->stop->access;
    finding->address =
        (struct address_fact){.certainty = CERTAIN_RERUN, .is_one = 1, .value = again->address, .is_in_arena = 1};
}

/* "slack WRITE: 4 bytes changed, 4 bytes before the start of buffer #7" */
static void say_what(struct finding *finding, const struct slack_write *write, uint64_t distance)
{
    const struct poison_fact *poison = &write->found.poison;
    part_add(finding->what, poison->bytes ? "WRITE to poisoned memory" : "slack WRITE");
    part_add(finding->headline, "%s: %" PRIu64 " byte%s changed, ", finding->what, write->found.changed,
             plural(write->found.changed));
    if (poison->bytes)
        part_add(finding->headline, "from byte %" PRIu64 " of the %" PRIu64 " poisoned ones on, in",
                 write->found.address - poison->start, poison->bytes);
    else
        part_add(finding->headline, "%" PRIu64 " byte%s %s", distance, plural(distance),
                 write->found.is_before ? "before the start of" : "past the end of");
    part_add(finding->headline, " buffer #%" PRIu64, write->buffer->id);
    if (write->buffer->label[0])
        part_add(finding->headline, " \"%s\"", write->buffer->label);
}

/* VALUE_TYPES if it is not known of each, or not the same. */
static enum value_type type_given(const char *name, const struct launch_argument *layout, size_t count, struct span arguments,
                                  const cufence_buffer *buffer)
{
    enum value_type all = VALUE_TYPES;
    for (size_t i = 0; i < count; i++) {
        const struct launch_argument *argument = &layout[i];
        if (argument->offset + (uint64_t)argument->size > arguments.size ||
            !has_word(arguments.bytes + argument->offset, argument->size, buffer->mapping_start, buffer->mapping_end))
            continue;
        enum value_type type = argument->size == 8 ? signature_elements(name, count, i) : VALUE_TYPES;
        if (type == VALUE_TYPES || (all != VALUE_TYPES && all != type))
            return VALUE_TYPES;
        all = type;
    }
    return all;
}

void slack_take_type(struct slack_write *write, const char *symbol, const struct launch_argument *layout, size_t count,
                     struct span arguments)
{
    char *name = symbol ? text_demangled(symbol) : NULL;
    enum value_type type = name ? type_given(name, layout, count, arguments, write->buffer) : VALUE_TYPES;
    write->has_type = type != VALUE_TYPES && (!write->launch_total || (write->has_type && write->type == type));
    write->type = type;
    free(name);
}

/* The bytes as elements, if they are whole ones. */
static void take_values(struct slack_write *write)
{
    const struct slack_found *found = &write->found;
    size_t width = write->has_type ? value_width(write->type) : 0;
    write->value_count = 0;
    if (!width || (found->address | found->span) % width)
        return;
    for (size_t at = 0; at + width <= found->byte_count && write->value_count < SLACK_VALUES; at += width)
        write->values[write->value_count++] = value_scalar(write->type, value_bits(write->type, found->bytes + at));
}

void finding_of_slack(struct finding *finding, struct slack_write *write, const struct finding_source *origin)
{
    const cufence_buffer *buffer = write->buffer;
    *finding = (struct finding){.origin = *origin,
                                .kind = write->found.poison.bytes ? FINDING_POISON : FINDING_SLACK,
                                .slack = write,
                                .now_ns = write->now_ns};
    uint64_t distance = distance_of(write);
    write->certainty = launch_certainty(write);
    say_what(finding, write, distance);
    finding->access = (struct access_fact){.is_known = 1, .kind = ACCESS_WRITE, .source = unnamed_argument};
    finding->address =
        (struct address_fact){.certainty = CERTAIN_EXACT, .is_one = 1, .value = write->found.address, .is_in_arena = 1};
    finding->buffer = part_buffer(buffer, write->buffer_frames);
    finding->buffer.certainty = write->found.buffers > 1 ? CERTAIN_CANDIDATE : CERTAIN_EXACT;
    finding->buffer.from = write->found.poison.bytes ? FROM_START : write->found.is_before ? BEFORE_START : PAST_END;
    finding->buffer.distance = distance;
    if (write->again.stop)
        take_again(finding, &write->again);
    take_values(write);
    take_notes(finding, write);
    if (!write->found.poison.bytes)
        hint_take_slack(finding, write);
    finding_complete(finding);
}

/* ---- text ---- */

static void put_scalar(struct report *report, const struct scalar *scalar)
{
    if (scalar->kind == SCALAR_REAL)
        report_put(report, " %s", real_of(scalar->value).text);
    else if (scalar->kind == SCALAR_HUGE)
        report_put(report, " %" PRIu64, (uint64_t)scalar->whole);
    else
        report_put(report, " %" PRId64, scalar->whole);
}

static void found_lines(struct report *report, const struct slack_write *write)
{
    const struct slack_found *found = &write->found;
    uint64_t width = write->again.stop ? write->again.stop->access_bytes : 0;
    report_begin(report, "found", NULL);
    for (size_t i = 0; i < found->byte_count && i < MOST_HEX; i++)
        report_put(report, "%s%02x", i ? " " : "", found->bytes[i]);
    report_put(report, "%s", found->span > MOST_HEX ? " ..." : "");
    report_end(report, CERTAIN_EXACT);
    if (!write->value_count && (width < 2 || (found->address | found->span) % width))
        return; /* nobody knows what they are */
    report_begin(report, "", NULL);
    if (write->value_count) {
        report_put(report, "as %s:", value_names[write->type]);
        for (size_t i = 0; i < write->value_count && report_room(report) > ROOM; i++)
            put_scalar(report, &write->values[i]);
        report_put(report, "%s", found->span > write->value_count * value_width(write->type) ? " ..." : "");
    } else {
        struct rerun_write shown = {.address = found->address, .bytes = found->span, .value_bytes = found->byte_count};
        memcpy(shown.values, found->bytes, found->byte_count);
        report_put(report, "as %" PRIu64 "-byte values", width);
        written_put_values(report, &shown, width);
    }
    report_end(report, CERTAIN_NOT);
}

static void put_kernel(struct report *report, const struct launch_entry *entry)
{
    char own[256];
    finding_kernel_of(entry->function ? entry->function->name : "", own, sizeof own);
    report_put(report, "%s%s", own[0] ? own : "a kernel whose name the driver does not tell",
               grid_of(entry->grid, entry->block).text);
}

static void launch_lines(struct report *report, const struct slack_write *write)
{
    for (size_t i = 0; i < write->launch_count; i++) {
        const struct fault_launch *launch = &write->launches[i];
        int is_other = i && write->again.stop; /* only the first did it */
        report_begin(report, !i ? "given to" : !is_other ? "" : i <= write->again.later ? "later" : "earlier", NULL);
        put_kernel(report, launch->entry);
        report_end(report, is_other ? CERTAIN_NOT : write->certainty);
        if (!is_other)
            report_when_line(report, "launched", write->now_ns, launch->entry->time_ns, launch->entry->tid,
                             launch->entry->stream);
        report_frame_lines(report, "", "launched at", NULL, CERTAIN_NOT, launch->frames,
                           is_other && launch->frame_count ? 1 : launch->frame_count);
    }
    size_t more = write->launch_total - write->launch_count;
    if (more)
        report_line(report, "", NULL, CERTAIN_NOT, "and %zu more launch%s since it was %s", more, plural_es(more),
                    write->found.poison.bytes ? "poisoned" : "last checked");
}

void slack_lines(struct report *report, const struct slack_write *write)
{
    const struct poison_fact *poison = &write->found.poison;
    if (poison->bytes) {
        report_line(report, "poisoned", NULL, CERTAIN_EXACT, "%" PRIu64 " bytes from byte %" PRIu64 " of the buffer on",
                    poison->bytes, poison->start - write->buffer->address);
        report_when_line(report, "poisoned", write->now_ns, poison->ns, poison->tid, poison->stream);
        report_frame_lines(report, "", "poisoned at", NULL, CERTAIN_NOT, poison->frames, poison->frame_count);
    }
    found_lines(report, write);
    launch_lines(report, write);
}
