#include "use.h"

#include "base/text.h"
#include "frames.h"
#include "json.h"
#include "parts.h"
#include "record/record.h"
#include "writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FILE_SHOWN 36 /* columns of a file's name; its end tells more than its beginning */

static const char *end_of(const char *file)
{
    size_t length = strlen(file);
    const char *end = length > FILE_SHOWN ? file + length - FILE_SHOWN : file;
    const char *slash = end > file && end[-1] != '/' ? strchr(end, '/') : NULL; /* a whole folder's name, or none */
    return slash ? slash + 1 : end;
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
    text_make_plain(out);
}

static struct use_sum sum_of(const struct usage *use, size_t from)
{
    struct use_sum sum = {0};
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
    struct use_sum rest = sum_of(use, USE_SHOWN);
    report_line(report, NULL, NULL, CERTAIN_NOT, "  %10s %9" PRIu64 " %10s %10s  at %zu more place%s",
                amount_of(rest.bytes).text, rest.buffers, "", "", use->count - USE_SHOWN, plural(use->count - USE_SHOWN));
}

char *use_text(const struct usage *use)
{
    struct report report;
    struct use_sum all = sum_of(use, 0);
    if (!report_open(&report, use->pid))
        return NULL;
    report_line(&report, NULL, NULL, CERTAIN_NOT,
                "cufence: allocated%s%s: %" PRIu64 " buffer%s, %s (%s with their pages), at %zu place%s", use->when ? " " : "",
                use->when ? use->when : "", all.buffers, plural(all.buffers), bytes_of(all.bytes).text,
                bytes_of(all.mapped_bytes).text, use->count, plural(use->count));
    if (use->count)
        put_rows(&report, use);
    if (use->unguarded_buffers)
        report_line(&report, NULL, NULL, CERTAIN_NOT,
                    "  besides, %" PRIu64 " buffer%s of %s in all %s not guarded, and allocated at unknown places",
                    use->unguarded_buffers, plural(use->unguarded_buffers), bytes_of(use->unguarded_bytes).text,
                    use->unguarded_buffers == 1 ? "is" : "are");
    return report_close(&report);
}

static const char *const use_word[] = {"use", NULL}, *const version_word[] = {VERSION_TEXT, NULL};

#define FRAME(kind, ...) FIELD(kind, struct stack_frame, __VA_ARGS__)
#define PLACE(kind, ...) FIELD(kind, struct use_place, __VA_ARGS__)
#define USAGE(kind, ...) FIELD(kind, struct usage, __VA_ARGS__)

TABLE(frame_table, struct stack_frame, FRAME(CHARS, file, "file"), FRAME(INT, line, "line", .flags = NOT_ZERO),
      FRAME(CHARS, function, "function"));
TABLE(place_table, struct use_place, PLACE(INT, device, "device"),
      PLACE(PART, frame, NULL, .record = &frame_table, WHEN(struct use_place, has_frame)), PLACE(CHARS, label, "label"),
      PLACE(NUMBER, buffers, "buffers"), PLACE(NUMBER, bytes, "bytes"), PLACE(NUMBER, mapped_bytes, "mapped_bytes"),
      PLACE(NUMBER, largest, "largest"), PLACE(AGO, oldest_ns, "oldest_ns", .flags = EVEN_EMPTY));
TABLE(usage_table, struct usage, {.name = "schema", .type = FIELD_FIXED, .most = JSON_SCHEMA},
      {.name = "cufence", .type = FIELD_FIXED, .words = version_word}, {.name = "kind", .type = FIELD_FIXED, .words = use_word},
      OPEN("process"), USAGE(INT, pid, "pid"), USAGE(INT, rank, "rank", .flags = OR_NONE), CLOSE, USAGE(TEXT, when, "when"),
      USAGE(NUMBER, sum.buffers, "buffers"), USAGE(NUMBER, sum.bytes, "bytes"), USAGE(NUMBER, sum.mapped_bytes, "mapped_bytes"),
      USAGE(NUMBER, unguarded_buffers, "unguarded_buffers"), USAGE(NUMBER, unguarded_bytes, "unguarded_bytes"),
      USAGE(LIST, places, "places", .flags = BEHIND, .record = &place_table, COUNT(struct usage, count)));

char *use_json(const struct usage *use)
{
    struct usage all = *use;
    all.sum = sum_of(use, 0);
    return text_of_json(record_to_json_at(&usage_table, &all, use->now_ns), JSON_COMPACT);
}
