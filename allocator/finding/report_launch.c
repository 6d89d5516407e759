#include "report_launch.h"

#include "analysis/verdict/arguments.h"
#include "analysis/verdict/launches.h"
#include "report_common.h"

#include <inttypes.h>
#include <string.h>

#define MAX_LINES 32              /* of arguments */
#define PLAIN_LIMIT 1000000000000 /* larger 8-byte values are no counts, and are read as bits */

void report_put_argument(struct report *report, int word)
{
    uint32_t offset = 0;
    int argument = launch_argument_of(report->diagnosis->arguments.layout, (size_t)word, &offset);
    if (argument < 0)
        report_put(report, "argument word %d", word);
    else
        report_put(report, "argument %d", argument);
    if (offset)
        report_put(report, " at byte %" PRIu32, offset);
}

void report_put_dim(struct report *report, const uint32_t dim[3])
{
    report_put(report, "(%" PRIu32 ",%" PRIu32 ",%" PRIu32 ")", dim[0], dim[1], dim[2]);
}

/* ---- where the launch came from ---- */

/* With the dimensions, where the kernel line has none. */
static void launched_line(struct report *report, const struct launch_entry *entry)
{
    report_begin(report, "", "launched");
    report_put_age(report, report->diagnosis->memory->now_ns, entry->time_ns);
    report_put(report, "by thread %" PRIu32 " on stream 0x%" PRIx64, entry->tid, entry->stream);
    if (!fault_site(report->diagnosis)->has_grid) {
        report_put(report, " as <<<");
        report_put_dim(report, entry->grid);
        report_put(report, ", ");
        report_put_dim(report, entry->block);
        report_put(report, ">>>");
    }
    report_end(report, CERTAIN_NOT);
}

void report_launch_lines(struct report *report)
{
    const struct fault_origin *origin = &report->diagnosis->origin;
    const struct fault_launch *launch = origin->launch;
    if (!launch)
        return;
    if (origin->fits == 1)
        launched_line(report, launch->entry);
    report_frame_lines(report, &(struct report_stack){.key = "",
                                                      .subkey = "launched at",
                                                      .remark = origin->fits ? NULL : ", perhaps in this graph",
                                                      .certainty = origin->certainty,
                                                      .frames = launch->frames,
                                                      .count = launch->frame_count});
    if (launch->frame_count && origin->fits > 1 && origin->certainty == CERTAIN_CANDIDATE) {
        report_begin(report, "", "");
        report_put(report, "the newest of %zu launches that it may have been", origin->fits);
        report_end(report, CERTAIN_NOT);
    }
}

/* ---- arguments ---- */

static int64_t sign_extended(const uint8_t *bytes, uint32_t size)
{
    int64_t value = 0;
    memcpy(&value, bytes, size);
    unsigned shift = 64 - 8 * size;
    return (int64_t)((uint64_t)value << shift) >> shift;
}

/* A scalar: integers of up to 4 bytes, and what may be one of 8. */
static void put_value(struct report *report, const uint8_t *bytes, uint32_t size)
{
    int64_t value = size <= sizeof value ? sign_extended(bytes, size) : 0;
    if (size > 8 || (size & (size - 1)))
        report_put(report, "%" PRIu32 " bytes", size);
    else if (size < 8 || (value < PLAIN_LIMIT && value > -PLAIN_LIMIT))
        report_put(report, "%" PRId64, value);
    else
        report_put(report, "0x%" PRIx64, (uint64_t)value);
}

static void put_target(struct report *report, const cufence_buffer *buffer, uint64_t word)
{
    report_put(report, "buffer #%" PRIu64 " +%" PRIu64 ", %" PRIu64 " byte%s%s", buffer->id, word - buffer->address,
               buffer->size, plural(buffer->size), buffer->freed_ns ? ", freed" : "");
}

struct lines {
    size_t count;
    enum certainty certainty; /* for the first one */
};

static void begin_line(struct report *report, const struct lines *lines)
{
    report_begin(report, lines->count ? "" : "arguments", NULL);
}

static void end_line(struct report *report, struct lines *lines)
{
    report_end(report, lines->count++ ? CERTAIN_NOT : lines->certainty);
}

static const cufence_buffer *target_of(const struct report *report, const uint8_t *bytes, uint64_t *word)
{
    memcpy(word, bytes, sizeof *word);
    return word_buffer(report->diagnosis->memory, *word, report->diagnosis->arguments.time_ns);
}

/* The pointers in a struct that is passed by value, which stands at an address of the alignment of its widest member. */
static void member_lines(struct report *report, struct lines *lines, const uint8_t *bytes, struct launch_argument argument)
{
    uint64_t word;
    for (uint32_t at = (8 - argument.offset % 8) % 8; at + 8 <= argument.size && lines->count < MAX_LINES; at += 8) {
        const cufence_buffer *buffer = target_of(report, bytes + at, &word);
        if (!buffer)
            continue;
        begin_line(report, lines);
        report_put(report, "   at byte %" PRIu32 "  ", at);
        put_target(report, buffer, word);
        end_line(report, lines);
    }
}

static void argument_line(struct report *report, struct lines *lines, uint32_t index)
{
    const struct fault_arguments *arguments = &report->diagnosis->arguments;
    struct launch_argument argument = arguments->layout->arguments[index];
    const uint8_t *bytes = arguments->bytes + argument.offset;
    int is_kept = (size_t)argument.offset + argument.size <= arguments->count;
    uint64_t word;
    const cufence_buffer *buffer = is_kept && argument.size == sizeof word ? target_of(report, bytes, &word) : NULL;
    begin_line(report, lines);
    report_put(report, "%-3" PRIu32, index);
    if (!is_kept)
        report_put(report, "%" PRIu32 " byte%s, not kept", argument.size, plural(argument.size));
    else if (buffer)
        put_target(report, buffer, word);
    else
        put_value(report, bytes, argument.size);
    end_line(report, lines);
    if (is_kept && argument.size > sizeof word)
        member_lines(report, lines, bytes, argument);
}

void report_argument_lines(struct report *report)
{
    const struct fault_arguments *arguments = &report->diagnosis->arguments;
    struct lines lines = {0, arguments->certainty};
    uint32_t count = arguments->bytes && arguments->layout ? arguments->layout->argument_count : 0, i = 0;
    for (; i < count && lines.count < MAX_LINES; i++)
        argument_line(report, &lines, i);
    if (i < count) {
        report_begin(report, "", NULL);
        report_put(report, "and %" PRIu32 " more", count - i);
        report_end(report, CERTAIN_NOT);
    }
}
