#include "tell_values.h"

#include "analysis/verdict/signature.h"
#include "base/text.h"
#include "finding/frames.h"
#include "finding/report_common.h"
#include "finding/writer.h"
#include "json/json_table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLAIN_LIMIT 1000000000000
#define MOST_SCALARS 32

static const char *const ends[] = {[VISIT_DONE] = NULL,
                                   [VISIT_LOST] = "a kernel faulted, or the context ended, before they were known",
                                   [VISIT_FAILED] = "the driver refused the launch, or the work that makes them",
                                   [VISIT_NO_ROOM] = "too many launches were waiting to be shown"};

/* ---- numbers ---- */

static struct amount element_of(enum value_type type, uint64_t bits)
{
    struct amount amount;
    if (type == VALUE_WORD) {
        snprintf(amount.text, sizeof amount.text, "0x%08" PRIx64 " (%.30s)", bits, real_of(value_of_bits(type, bits)).text);
        return amount;
    }
    if (value_is_float(type))
        return real_of(value_of_bits(type, bits));
    if (value_is_signed(type))
        snprintf(amount.text, sizeof amount.text, "%" PRId64, value_of_integer(type, bits));
    else
        snprintf(amount.text, sizeof amount.text, "%" PRIu64, bits);
    return amount;
}

/* Of an element of measured->first or last. */
static uint64_t bits_at(const struct measured *measured, const uint8_t *end, size_t index)
{
    return value_bits(measured->type, end + index * value_width(measured->type));
}

/* ---- text ---- */

static void put_counts(struct report *report, const struct measured *measured)
{
    if (measured->zeros && measured->zeros < measured->finite)
        report_put(report, ", %" PRIu64 " zero%s", measured->zeros, plural(measured->zeros));
    if (value_is_float(measured->type))
        report_put(report, ", %" PRIu64 " NaN", measured->nans);
    if (measured->nans)
        report_put(report, " (first at %" PRIu64 ")", measured->first_nan);
    if (measured->infinities)
        report_put(report, ", %" PRIu64 " Inf", measured->infinities);
}

static void put_ends(struct report *report, const struct measured *measured)
{
    size_t most = measured->type == VALUE_WORD ? 2 : 3, each = measured->ends < most ? measured->ends : most;
    report_put(report, "  [");
    for (size_t i = 0; i < each; i++)
        report_put(report, "%s%s", i ? " " : "", element_of(measured->type, bits_at(measured, measured->first, i)).text);
    if (measured->count > 2 * each)
        report_put(report, " ..");
    for (size_t i = measured->count < 2 * each ? 2 * each - (size_t)measured->count : 0; i < each; i++)
        report_put(report, " %s",
                   element_of(measured->type, bits_at(measured, measured->last, measured->ends - each + i)).text);
    report_put(report, "]");
}

static void figures_line(struct report *report, const char *when, const struct measured *measured)
{
    enum value_type plain = measured->type == VALUE_WORD ? VALUE_FLOAT32 : measured->type;
    report_begin(report, "", NULL);
    report_put(report, "   %-8s", when);
    if (!measured->finite)
        report_put(report, "no finite number");
    else if (measured->zeros == measured->finite)
        report_put(report, measured->finite < measured->count ? "all finite are 0" : "all are 0");
    else
        report_put(report, "min %s max %s mean %s std %s", element_of(plain, measured->least).text,
                   element_of(plain, measured->greatest).text, real_of(measured->mean).text, real_of(measured->deviation).text);
    put_counts(report, measured);
    report_end(report, CERTAIN_NOT);
    report_begin(report, "", NULL);
    report_put(report, "   %-8s", "");
    put_ends(report, measured);
    report_end(report, CERTAIN_NOT);
}

static void measured_lines(struct report *report, const struct shown_pointer *pointer)
{
    int is_changed = pointer->before.hash != pointer->after.hash;
    if (is_changed)
        figures_line(report, "before", &pointer->before);
    figures_line(report, is_changed ? "after" : "same", &pointer->after);
    if (pointer->beside[0])
        report_line(report, "", NULL, CERTAIN_CANDIDATE, "   beside  %s may have written, too", pointer->beside);
}

static void pointer_lines(struct report *report, const struct shown_pointer *pointer)
{
    const struct reached *reached = pointer->reached;
    report_put(report, "buffer #%" PRIu64 " +%" PRIu64, reached->range.id, reached->pointer - reached->range.address);
    if (pointer->buffer.id)
        report_put_label(report, &pointer->buffer, CERTAIN_NOT);
    if (pointer->is_measured)
        report_put(report, ", %s[%" PRIu64 "]%s", value_names[pointer->type.type], pointer->after.count,
                   pointer->type.from == TYPE_NAME ? " (by the kernel's name)" : "");
    else
        report_put(report, ", %" PRIu64 " bytes%s", reached->bytes,
                   reached->is_out_of_way ? ", which the launch's device cannot reach" : "");
    report_end(report, CERTAIN_NOT);
    if (pointer->is_measured)
        measured_lines(report, pointer);
}

static void put_scalar(struct report *report, const struct shown_launch *launch, uint32_t number,
                       struct launch_argument argument)
{
    const struct visit *visit = launch->visit;
    uint64_t bits = 0;
    if (argument.size > sizeof bits || argument.offset + argument.size > visit->argument_bytes) {
        report_put(report, "%u byte%s", argument.size, plural(argument.size));
        return;
    }
    memcpy(&bits, visit->arguments + argument.offset, argument.size);
    enum value_type type = signature_scalar(launch->names->demangled, visit->function->argument_count, number);
    if (type != VALUE_TYPES && value_width(type) == argument.size)
        report_put(report, "%s %s", value_names[type], element_of(type, bits).text);
    else if (argument.size == 4)
        report_put(report, "%" PRId32, (int32_t)bits);
    else if (bits < PLAIN_LIMIT)
        report_put(report, "%" PRIu64, bits);
    else
        report_put(report, "0x%" PRIx64, bits);
}

static void begin_argument(struct report *report, size_t *line, int number)
{
    report_begin(report, (*line)++ ? "" : "arguments", NULL);
    if (number >= 0)
        report_put(report, "%-2d ", number);
}

static void argument_lines(struct report *report, const struct shown_launch *launch)
{
    const struct launch_function *function = launch->visit->function;
    size_t line = 0, at = 0;
    for (uint32_t i = 0; function && function->has_layout && i < function->argument_count; i++) {
        size_t first = at;
        for (; at < launch->pointer_count && launch->pointers[at].reached->argument == (int)i; at++) {
            begin_argument(report, &line, (int)i);
            if (function->arguments[i].size > 8)
                report_put(report, "at byte %" PRIu32 ": ", launch->pointers[at].reached->at);
            pointer_lines(report, &launch->pointers[at]);
        }
        if (at > first || line > MOST_SCALARS)
            continue;
        begin_argument(report, &line, (int)i);
        put_scalar(report, launch, i, function->arguments[i]);
        report_end(report, CERTAIN_NOT);
    }
    for (; at < launch->pointer_count; at++) {
        begin_argument(report, &line, -1);
        pointer_lines(report, &launch->pointers[at]);
    }
    size_t more = launch->visit->reached_count - launch->pointer_count;
    if (more) {
        begin_argument(report, &line, -1);
        report_put(report, "and %zu more pointer%s", more, plural(more));
        report_end(report, CERTAIN_NOT);
    }
}

static void head_lines(struct report *report, const struct shown_launch *launch)
{
    const struct visit *visit = launch->visit;
    report_begin(report, NULL, NULL);
    report_put(report, "cufence: values of launch #%" PRIu64 ": %s%s", visit->number,
               launch->names ? launch->names->plain : "a CUDA graph",
               launch->names ? grid_of(visit->grid, visit->block).text : "");
    report_put(report, ", GPU %d, stream 0x%" PRIx64, visit->device, (uint64_t)(uintptr_t)visit->handle);
    report_end(report, CERTAIN_NOT);
    if (launch->graph_kernels && *launch->graph_kernels)
        report_sentence(report, "kernels", launch->graph_kernels, CERTAIN_NOT);
    if (launch->frame_count) {
        report_begin(report, "at", NULL);
        report_put_frame(report, frames_own(launch->frames, launch->frame_count));
        report_end(report, CERTAIN_NOT);
    }
    if (!launch->names)
        report_sentence(report, "note", "before and after the whole graph, not each kernel in it", CERTAIN_NOT);
    if (visit->label)
        report_line(report, "label", NULL, CERTAIN_NOT, "%s", visit->label);
}

char *values_text(const struct shown_launch *launch)
{
    struct report report;
    if (!report_open(&report, (int)getpid()))
        return NULL;
    head_lines(&report, launch);
    if (!launch->visit->argument_bytes && launch->names && !launch->visit->function->has_layout)
        report_sentence(&report, "arguments", "unknown: the driver does not tell their layout (CUDA 12.4 and later)",
                        CERTAIN_NOT);
    if (ends[launch->how])
        report_sentence(&report, "values", ends[launch->how], CERTAIN_NOT);
    argument_lines(&report, launch);
    return report_close(&report);
}

/* ---- JSON ---- */

/* What the tables tell, with copies of what it is made of. */
struct figures_json {
    struct measured measured;
    struct scalar min, max, first[FIGURES_ENDS], last[FIGURES_ENDS];
};

struct pointer_json {
    struct shown_pointer shown;
    struct reached reached;
    uint64_t offset;
    int is_changed;
    struct figures_json before, after;
};

struct argument_json {
    uint32_t size;
    int has_value; /* it is as small as a number */
    uint64_t value;
};

struct line {
    struct shown_launch launch;
    struct visit visit;
    const char *kernel, *symbol;
    int pid, is_graph;
    struct argument_json *arguments;
    struct pointer_json *pointers;
    size_t argument_count;
};

#define FIGURE(kind, ...) FIELD(kind, struct figures_json, __VA_ARGS__)
#define POINTER(kind, ...) FIELD(kind, struct pointer_json, __VA_ARGS__)
#define ARGUMENT(kind, ...) FIELD(kind, struct argument_json, __VA_ARGS__)
#define FRAME(kind, ...) FIELD(kind, struct stack_frame, __VA_ARGS__)
#define LINE(kind, ...) FIELD(kind, struct line, __VA_ARGS__)

static const char *const from_words[] = {"unknown", "name", "signature", NULL};
static const char *const end_words[] = {"done", "lost", "failed", "no room", NULL};

TABLE(element, struct scalar, {.type = FIELD_SCALAR, .size = sizeof(struct scalar)});
TABLE(figures_table, struct figures_json, FIGURE(NUMBER, measured.count, "count"), FIGURE(NUMBER, measured.finite, "finite"),
      FIGURE(NUMBER, measured.zeros, "zeros"), FIGURE(NUMBER, measured.nans, "nan"),
      FIGURE(NUMBER, measured.first_nan, "first_nan", WHEN(struct figures_json, measured.nans)),
      FIGURE(NUMBER, measured.infinities, "inf"), FIGURE(SCALAR, min, "min", WHEN(struct figures_json, measured.finite)),
      FIGURE(SCALAR, max, "max", WHEN(struct figures_json, measured.finite)),
      FIGURE(REAL, measured.mean, "mean", WHEN(struct figures_json, measured.finite)),
      FIGURE(REAL, measured.deviation, "std", WHEN(struct figures_json, measured.finite)),
      FIGURE(LIST, first, "first", .table = &element, COUNT(struct figures_json, measured.ends)),
      FIGURE(LIST, last, "last", .table = &element, COUNT(struct figures_json, measured.ends)),
      FIGURE(HEX, measured.hash, "hash"));
TABLE(pointer_table, struct pointer_json, POINTER(INT, reached.argument, "argument", .flags = OR_NONE),
      POINTER(NUMBER, reached.at, "at"), POINTER(NUMBER, reached.range.id, "buffer"),
      POINTER(HEX, reached.range.address, "address"), POINTER(NUMBER, reached.range.size, "size"),
      POINTER(NUMBER, offset, "offset"),
      POINTER(CHARS, shown.buffer.label, "label", WHEN(struct pointer_json, shown.buffer.id)),
      POINTER(WORD, shown.type.type, "type", .words = value_names, WHEN(struct pointer_json, shown.is_measured)),
      POINTER(WORD, shown.type.from, "type_from", .words = from_words, WHEN(struct pointer_json, shown.is_measured)),
      POINTER(CHARS, shown.beside, "beside"),
      POINTER(BOOL, is_changed, "changed", WHEN(struct pointer_json, shown.is_measured)),
      POINTER(PART, before, "before", .table = &figures_table, WHEN(struct pointer_json, shown.is_measured)),
      POINTER(PART, after, "after", .table = &figures_table, WHEN(struct pointer_json, shown.is_measured)));
TABLE(argument_table, struct argument_json, ARGUMENT(NUMBER, size, "size"),
      ARGUMENT(HEX, value, "value", WHEN(struct argument_json, has_value)));
TABLE(frame_table, struct stack_frame, FRAME(CHARS, function, "function"), FRAME(CHARS, file, "file"),
      FRAME(INT, line, "line", .flags = NOT_ZERO), FRAME(CHARS, module, "module"));
TABLE(line_table, struct line, {.name = "schema", .type = FIELD_FIXED, .most = 1}, LINE(NUMBER, visit.number, "launch"),
      LINE(INT, pid, "pid"), LINE(NUMBER, visit.tid, "tid"), LINE(NUMBER, visit.time_ns, "time_ns"),
      LINE(INT, visit.device, "device"), LINE(HEX, visit.handle, "stream"), LINE(WORD, launch.how, "end", .words = end_words),
      LINE(TEXT, visit.label, "label"), LINE(TEXT, kernel, "kernel"), LINE(TEXT, symbol, "symbol"),
      LINE(TRIPLE, visit.grid, "grid", WHEN(struct line, launch.names)),
      LINE(TRIPLE, visit.block, "block", WHEN(struct line, launch.names)),
      LINE(HEX, visit.graph, "graph", WHEN(struct line, is_graph)),
      LINE(TEXT, launch.graph_kernels, "kernels", WHEN(struct line, is_graph)),
      LINE(LIST, launch.frames, "frames", .flags = BEHIND, .table = &frame_table, COUNT(struct line, launch.frame_count)),
      LINE(LIST, arguments, "arguments", .flags = BEHIND, .table = &argument_table, COUNT(struct line, argument_count)),
      LINE(LIST, pointers, "pointers", .flags = BEHIND, .table = &pointer_table, COUNT(struct line, launch.pointer_count)));

static struct figures_json figures_of(const struct measured *measured)
{
    struct figures_json record = {.measured = *measured,
                                  .min = value_scalar(measured->type, measured->least),
                                  .max = value_scalar(measured->type, measured->greatest)};
    for (size_t i = 0; i < measured->ends; i++) {
        record.first[i] = value_scalar(measured->type, bits_at(measured, measured->first, i));
        record.last[i] = value_scalar(measured->type, bits_at(measured, measured->last, i));
    }
    return record;
}

static struct pointer_json pointer_of(const struct shown_pointer *pointer)
{
    return (struct pointer_json){.shown = *pointer,
                                 .reached = *pointer->reached,
                                 .offset = pointer->reached->pointer - pointer->reached->range.address,
                                 .is_changed = pointer->before.hash != pointer->after.hash,
                                 .before = figures_of(&pointer->before),
                                 .after = figures_of(&pointer->after)};
}

static struct argument_json argument_of(const struct visit *visit, struct launch_argument argument)
{
    struct argument_json record = {.size = argument.size};
    record.has_value = argument.size <= sizeof record.value && argument.offset + argument.size <= visit->argument_bytes;
    if (record.has_value)
        memcpy(&record.value, visit->arguments + argument.offset, argument.size);
    return record;
}

char *values_json(const struct shown_launch *launch)
{
    const struct visit *visit = launch->visit;
    const struct launch_function *function = visit->function;
    struct line line = {.launch = *launch, .visit = *visit, .pid = (int)getpid(), .is_graph = !launch->names};
    if (launch->names) {
        line.kernel = launch->names->demangled;
        line.symbol = launch->names->mangled;
    }
    line.argument_count = function && function->has_layout ? function->argument_count : 0;
    line.arguments = calloc(line.argument_count + 1, sizeof *line.arguments);
    line.pointers = calloc(launch->pointer_count + 1, sizeof *line.pointers);
    int is_ok = line.arguments && line.pointers;
    for (size_t i = 0; is_ok && i < line.argument_count; i++)
        line.arguments[i] = argument_of(visit, function->arguments[i]);
    for (size_t i = 0; is_ok && i < launch->pointer_count; i++)
        line.pointers[i] = pointer_of(&launch->pointers[i]);
    json_t *json = is_ok ? json_table_write(&line_table, &line) : NULL;
    free(line.arguments);
    free(line.pointers);
    return text_of_json(json, JSON_COMPACT);
}
