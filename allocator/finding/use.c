#include "use.h"

#include "base/text.h"
#include "base/version.h"
#include "frames.h"
#include "json.h"
#include "json_members.h"
#include "parts.h"
#include "writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_SHOWN 36 /* columns of a file's name; its end tells more than its beginning */

static const char *end_of(const char *file)
{
    size_t length = strlen(file);
    return length > FILE_SHOWN ? file + length - FILE_SHOWN : file;
}

void use_place_name(const struct use_place *place, char *out, size_t size)
{
    const struct stack_frame *frame = &place->frame;
    const char *file = place->has_frame ? end_of(frames_file(frame)) : "";
    out[0] = '\0';
    if (file[0] && frame->line)
        part_append(out, size, "%s:%d in ", file, frame->line);
    else if (file[0])
        part_append(out, size, "%s in ", file);
    char function[sizeof frame->function] = "";
    if (place->has_frame)
        frames_function(frame, function, sizeof function);
    if (place->has_frame)
        part_append(out, size, "%s", function[0] ? function : frame->module);
    if (place->label[0])
        part_append(out, size, "%slabel \"%s\"", place->has_frame ? ", " : "", place->label);
    if (!out[0])
        part_append(out, size, "an unknown place");
    for (char *letter = out; *letter; letter++)
        *letter = (unsigned char)*letter < ' ' || *letter == 0x7f ? '?' : *letter;
}

static const char *unit_of(struct amount amount)
{
    return strchr(amount.text, 'B') ? "" : " bytes";
}

struct sum {
    uint64_t buffers, bytes, mapped_bytes;
};

static struct sum sum_of(const struct usage *use, size_t from)
{
    struct sum sum = {0};
    for (size_t i = from; i < use->count; i++) {
        sum.buffers += use->places[i].buffers;
        sum.bytes += use->places[i].bytes;
        sum.mapped_bytes += use->places[i].mapped_bytes;
    }
    return sum;
}

static int has_several_devices(const struct usage *use)
{
    for (size_t i = 1; i < use->count; i++)
        if (use->places[i].device != use->places[0].device)
            return 1;
    return 0;
}

static void put_row(struct report *report, const struct usage *use, const struct use_place *place, int has_devices)
{
    char name[400];
    use_place_name(place, name, sizeof name);
    report_begin(report, NULL, NULL);
    report_put(report, "  %10s %9" PRIu64 " %10s %10s  ", amount_of(place->bytes).text, place->buffers,
               amount_of(place->largest).text,
               age_of(use->now_ns > place->oldest_ns ? use->now_ns - place->oldest_ns : 0).text);
    if (has_devices)
        report_put(report, "GPU %d, ", place->device);
    report_put_name(report, name);
    report_end(report, CERTAIN_NOT);
}

static void put_rows(struct report *report, const struct usage *use)
{
    int has_devices = has_several_devices(use);
    report_line(report, NULL, NULL, CERTAIN_NOT, "  %10s %9s %10s %10s  %s", "bytes", "buffers", "largest", "oldest",
                "allocated at");
    for (size_t i = 0; i < use->count && i < USE_SHOWN; i++)
        put_row(report, use, &use->places[i], has_devices);
    if (use->count <= USE_SHOWN)
        return;
    struct sum rest = sum_of(use, USE_SHOWN);
    report_line(report, NULL, NULL, CERTAIN_NOT, "  %10s %9" PRIu64 " %10s %10s  at %zu more place%s",
                amount_of(rest.bytes).text, rest.buffers, "", "", use->count - USE_SHOWN, plural(use->count - USE_SHOWN));
}

char *use_text(const struct usage *use)
{
    struct report report;
    struct sum all = sum_of(use, 0);
    if (!report_open(&report, use->pid))
        return NULL;
    report_line(&report, NULL, NULL, CERTAIN_NOT,
                "cufence: allocated%s%s: %" PRIu64 " buffer%s, %s%s (%s%s with their pages), at %zu place%s",
                use->when ? " " : "", use->when ? use->when : "", all.buffers, plural(all.buffers), amount_of(all.bytes).text,
                unit_of(amount_of(all.bytes)), amount_of(all.mapped_bytes).text, unit_of(amount_of(all.mapped_bytes)),
                use->count, plural(use->count));
    if (use->count)
        put_rows(&report, use);
    if (use->unguarded_buffers)
        report_line(&report, NULL, NULL, CERTAIN_NOT,
                    "  besides, %" PRIu64 " buffer%s of %s%s in all %s not guarded: where they were allocated is not known",
                    use->unguarded_buffers, plural(use->unguarded_buffers), amount_of(use->unguarded_bytes).text,
                    unit_of(amount_of(use->unguarded_bytes)), use->unguarded_buffers == 1 ? "is" : "are");
    return report_close(&report);
}

static json_t *place_to_json(const struct usage *use, const struct use_place *place, int *has_failed)
{
    struct members row = {json_object(), has_failed};
    put(row, "device", json_integer(place->device));
    if (place->has_frame && place->frame.file[0])
        put(row, "file", text_to_json(place->frame.file));
    if (place->has_frame && place->frame.line)
        put(row, "line", json_integer(place->frame.line));
    if (place->has_frame && place->frame.function[0])
        put(row, "function", text_to_json(place->frame.function));
    if (place->label[0])
        put(row, "label", text_to_json(place->label));
    put_number(row, "buffers", place->buffers);
    put_number(row, "bytes", place->bytes);
    put_number(row, "mapped_bytes", place->mapped_bytes);
    put_number(row, "largest", place->largest);
    put_number(row, "oldest_ns", use->now_ns > place->oldest_ns ? use->now_ns - place->oldest_ns : 0);
    return row.object;
}

char *use_json(const struct usage *use)
{
    int has_failed = 0;
    struct sum all = sum_of(use, 0);
    struct members report = {json_object(), &has_failed};
    put(report, "schema", json_integer(JSON_SCHEMA));
    put(report, "cufence", json_string(VERSION_TEXT));
    put(report, "kind", json_string("use"));
    struct members process = put_object(report, "process");
    put(process, "pid", json_integer(use->pid));
    if (use->rank >= 0)
        put(process, "rank", json_integer(use->rank));
    if (use->when)
        put(report, "when", json_string(use->when));
    put_number(report, "buffers", all.buffers);
    put_number(report, "bytes", all.bytes);
    put_number(report, "mapped_bytes", all.mapped_bytes);
    put_number(report, "unguarded_buffers", use->unguarded_buffers);
    put_number(report, "unguarded_bytes", use->unguarded_bytes);
    json_t *places = json_array();
    for (size_t i = 0; i < use->count; i++)
        append(places, place_to_json(use, &use->places[i], &has_failed), &has_failed);
    put(report, "places", places);
    return members_line(report);
}
