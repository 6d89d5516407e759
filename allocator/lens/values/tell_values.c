#include "tell_values.h"

#include "analysis/verdict/signature.h"
#include "finding/frames.h"
#include "finding/json_members.h"
#include "finding/report_common.h"
#include "finding/writer.h"

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
        report_put(report, ", %" PRIu64 " zero%s", measured->zeros, measured->zeros == 1 ? "" : "s");
    if (value_is_float(measured->type))
        report_put(report, ", %" PRIu64 " NaN", measured->nans);
    if (measured->nans)
        report_put(report, " (first at %" PRIu64 ")", measured->first_nan);
    if (measured->infinities)
        report_put(report, ", %" PRIu64 " Inf", measured->infinities);
}

static void put_ends(struct report *report, const struct measured *measured)
{
    size_t each = measured->ends < 3 ? measured->ends : 3;
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
    report_begin(report, "", NULL);
    report_put(report, "   %-8s", when);
    if (!measured->finite)
        report_put(report, "no finite number");
    else if (measured->zeros == measured->finite)
        report_put(report, "all are 0");
    else
        report_put(report, "min %s max %s mean %s std %s", element_of(measured->type, measured->least).text,
                   element_of(measured->type, measured->greatest).text, real_of(measured->mean).text,
                   real_of(measured->deviation).text);
    put_counts(report, measured);
    report_end(report, CERTAIN_NOT);
    report_begin(report, "", NULL);
    report_put(report, "   %-8s", "");
    put_ends(report, measured);
    report_end(report, CERTAIN_NOT);
}

static void figures_lines(struct report *report, const struct shown_pointer *pointer)
{
    int is_changed = pointer->before.hash != pointer->after.hash;
    if (is_changed)
        figures_line(report, "before", &pointer->before);
    figures_line(report, is_changed ? "after" : "same", &pointer->after);
}

static void pointer_lines(struct report *report, const struct shown_pointer *pointer)
{
    const struct reached *reached = pointer->reached;
    report_put(report, "buffer #%" PRIu64 " +%" PRIu64, reached->range.id, reached->pointer - reached->range.address);
    if (pointer->buffer.id)
        report_put_label(report, &pointer->buffer);
    if (pointer->is_measured)
        report_put(report, ", %s[%" PRIu64 "]%s", value_name(pointer->type.type), pointer->after.count,
                   pointer->type.from == TYPE_GUESSED ? " (guess)" : "");
    else
        report_put(report, ", %" PRIu64 " bytes%s", reached->bytes,
                   reached->is_out_of_way ? ", which the launch's device cannot reach" : "");
    report_end(report, CERTAIN_NOT);
    if (pointer->is_measured)
        figures_lines(report, pointer);
}

static void put_scalar(struct report *report, const struct shown_launch *launch, uint32_t number,
                       struct launch_argument argument)
{
    const struct visit *visit = launch->visit;
    uint64_t bits = 0;
    if (argument.size > sizeof bits || argument.offset + argument.size > visit->argument_bytes) {
        report_put(report, "%u bytes", argument.size);
        return;
    }
    memcpy(&bits, visit->arguments + argument.offset, argument.size);
    enum value_type type = signature_scalar(launch->names->demangled, visit->function->argument_count, number);
    if (type != VALUE_TYPES && value_width(type) == argument.size)
        report_put(report, "%s %s", value_name(type), element_of(type, bits).text);
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
    if (launch->pointer_count < launch->visit->reached_count) {
        begin_argument(report, &line, -1);
        report_put(report, "and %zu more pointers", launch->visit->reached_count - launch->pointer_count);
        report_end(report, CERTAIN_NOT);
    }
}

static void head_lines(struct report *report, const struct shown_launch *launch)
{
    const struct visit *visit = launch->visit;
    report_begin(report, NULL, NULL);
    report_put(report, "cufence: values of launch #%" PRIu64 ": ", visit->number);
    report_put_name(report, launch->names ? launch->names->plain : "a CUDA graph");
    if (launch->names)
        report_put_grid(report, visit->grid, visit->block);
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
    if (visit->label) {
        report_begin(report, "label", NULL);
        report_put_name(report, visit->label);
        report_end(report, CERTAIN_NOT);
    }
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

static json_t *number(enum value_type type, uint64_t bits)
{
    if (value_is_float(type))
        return real_to_json(value_of_bits(type, bits));
    if (type == VALUE_UINT64 && bits > INT64_MAX)
        return json_string(element_of(type, bits).text);
    return json_integer(value_of_integer(type, bits));
}

static void put_measured(struct members to, const char *key, const struct measured *measured)
{
    struct members made = put_object(to, key);
    put_number(made, "count", measured->count);
    put_number(made, "finite", measured->finite);
    put_number(made, "zeros", measured->zeros);
    put_number(made, "nan", measured->nans);
    if (measured->nans)
        put_number(made, "first_nan", measured->first_nan);
    put_number(made, "inf", measured->infinities);
    if (measured->finite) {
        put(made, "min", number(measured->type, measured->least));
        put(made, "max", number(measured->type, measured->greatest));
        put(made, "mean", real_to_json(measured->mean));
        put(made, "std", real_to_json(measured->deviation));
    }
    json_t *first = json_array(), *last = json_array();
    for (size_t i = 0; i < measured->ends; i++) {
        append(first, number(measured->type, bits_at(measured, measured->first, i)), made.has_failed);
        append(last, number(measured->type, bits_at(measured, measured->last, i)), made.has_failed);
    }
    put(made, "first", first);
    put(made, "last", last);
    put_hex(made, "hash", measured->hash);
}

static json_t *pointer_of(const struct shown_pointer *pointer, int *has_failed)
{
    static const char *const from[] = {NULL, "guess", "signature", "option"};
    const struct reached *reached = pointer->reached;
    struct members made = {json_object(), has_failed};
    if (reached->argument >= 0)
        put(made, "argument", json_integer(reached->argument));
    put(made, "at", json_integer(reached->at));
    put_number(made, "buffer", reached->range.id);
    put_hex(made, "address", reached->range.address);
    put_number(made, "size", reached->range.size);
    put_number(made, "offset", reached->pointer - reached->range.address);
    put_text(made, "label", pointer->buffer.id ? pointer->buffer.label : NULL);
    if (!pointer->is_measured)
        return made.object;
    put_text(made, "type", value_name(pointer->type.type));
    put_text(made, "type_from", from[pointer->type.from]);
    put(made, "changed", json_boolean(pointer->before.hash != pointer->after.hash));
    put_measured(made, "before", &pointer->before);
    put_measured(made, "after", &pointer->after);
    return made.object;
}

static void put_arguments(struct members to, const struct visit *visit)
{
    const struct launch_function *function = visit->function;
    json_t *list = json_array();
    for (uint32_t i = 0; function && function->has_layout && i < function->argument_count; i++) {
        struct launch_argument argument = function->arguments[i];
        struct members made = {json_object(), to.has_failed};
        uint64_t bits = 0;
        put(made, "size", json_integer(argument.size));
        if (argument.size <= sizeof bits && argument.offset + argument.size <= visit->argument_bytes) {
            memcpy(&bits, visit->arguments + argument.offset, argument.size);
            put_hex(made, "value", bits);
        }
        append(list, made.object, to.has_failed);
    }
    put(to, "arguments", list);
}

static void put_frames(struct members to, const struct shown_launch *launch)
{
    json_t *frames = json_array();
    for (size_t i = 0; i < launch->frame_count; i++) {
        struct members frame = {json_object(), to.has_failed};
        put_text(frame, "function", launch->frames[i].function);
        put_text(frame, "file", launch->frames[i].file);
        if (launch->frames[i].line)
            put(frame, "line", json_integer(launch->frames[i].line));
        put_text(frame, "module", launch->frames[i].module);
        append(frames, frame.object, to.has_failed);
    }
    put(to, "frames", frames);
}

static void put_launch(struct members line, const struct shown_launch *launch)
{
    static const char *const words[] = {"done", "lost", "failed", "no room"};
    const struct visit *visit = launch->visit;
    put(line, "schema", json_integer(1));
    put_number(line, "launch", visit->number);
    put(line, "pid", json_integer((json_int_t)getpid()));
    put_number(line, "tid", visit->tid);
    put_number(line, "time_ns", visit->time_ns);
    put(line, "device", json_integer(visit->device));
    put_hex(line, "stream", (uint64_t)(uintptr_t)visit->handle);
    put_text(line, "end", words[launch->how]);
    put_text(line, "label", visit->label);
    if (launch->names) {
        put_text(line, "kernel", launch->names->demangled);
        put_text(line, "symbol", launch->names->mangled);
        put_dim(line, "grid", visit->grid);
        put_dim(line, "block", visit->block);
    } else {
        put_hex(line, "graph", (uint64_t)(uintptr_t)visit->graph);
        put_text(line, "kernels", launch->graph_kernels);
    }
}

char *values_json(const struct shown_launch *launch)
{
    int has_failed = 0;
    struct members line = {json_object(), &has_failed};
    put_launch(line, launch);
    put_frames(line, launch);
    put_arguments(line, launch->visit);
    json_t *pointers = json_array();
    for (size_t i = 0; i < launch->pointer_count; i++)
        append(pointers, pointer_of(&launch->pointers[i], &has_failed), &has_failed);
    put(line, "pointers", pointers);
    return members_line(line);
}
