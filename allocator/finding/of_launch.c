/* Findings about a launch of which no core dump tells. */
#include "finding.h"

#include "parts.h"
#include "report_common.h"

#include <inttypes.h>
#include <string.h>

/* ---- a NaN ---- */

static int has_any(const char *name, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strstr(name, words[i]))
            return 1;
    }
    return 0;
}

/* What may have made the NaN, going by the inputs. "" if no rule knows. */
static void add_nan_hint(struct finding *finding, const struct nan_fact *nan)
{
    static const char *const roots[] = {"log", "sqrt", "pow", "acos", "asin"};
    uint64_t infinities = 0, zeros = 0;
    int has_negative = 0;
    for (size_t i = 0; i < nan->input_count; i++) {
        const struct nan_input *input = &nan->inputs[i];
        if (input->is_unwritten)
            continue;
        infinities += input->infinities;
        zeros += input->finite ? input->zeros : 0;
        has_negative |= input->finite && input->min < 0;
    }
    const char *name = nan->by.kernel ? nan->by.kernel : nan->by.plain;
    if (nan->is_of_unwritten)
        part_add(finding->hint, "an uninitialised input holds NaN: is memory used before it is filled?");
    else if (!strcmp(nan->kind, FINDING_INF))
        part_add(finding->hint, "a number too large for %s, a division by 0, or log(0)?", value_names[nan->type]);
    else if (infinities)
        part_add(finding->hint,
                 "the inputs have Inf: Inf - Inf, 0 * Inf and Inf / Inf are NaN; nan=report+inf finds who made them");
    else if (has_negative && has_any(name, roots, sizeof roots / sizeof *roots))
        part_add(finding->hint, "some inputs are negative: a logarithm or root of one is NaN");
    else if (nan->type == VALUE_FLOAT16)
        part_add(finding->hint, "numbers beyond 65504 are Inf in float16, and Inf - Inf is NaN within a kernel");
    else if (zeros)
        part_add(finding->hint, "the inputs have zeros: 0 / 0 is NaN");
}

void finding_of_nan(struct finding *finding, const struct nan_fact *nan, const struct finding_source *origin)
{
    const char *what = strcmp(nan->kind, FINDING_INF) == 0 ? "Inf" : "NaN";
    char other[256];
    *finding = (struct finding){.origin = *origin,
                                .kind = nan->kind,
                                .nan = nan,
                                .by = &nan->by,
                                .access = {.source = unnamed_argument},
                                .now_ns = nan->now_ns};
    part_add(finding->what, "%s", nan->kind);
    part_add(finding->headline, "%s: %s", nan->kind, nan->by.kernel ? nan->by.plain : "a CUDA graph");
    if (nan->other)
        part_add(finding->headline, ", or %s on another stream,", use_name(nan->other, other, sizeof other));
    part_add(finding->headline, " writes %" PRIu64 " %s", nan->made, what);
    if (nan->buffer->id)
        part_add(finding->headline, " to buffer #%" PRIu64, nan->buffer->id);
    if (nan->buffer->id && nan->buffer->label[0])
        part_add(finding->headline, ", \"%s\"", nan->buffer->label);
    if (!nan->buffer->id && nan->argument >= 0)
        part_add(finding->headline, " to argument %d", nan->argument);
    part_add(finding->headline, ", first to element %" PRIu64 " of %s[%" PRIu64 "]", nan->index, value_names[nan->type],
             nan->count);
    if (nan->fresh) {
        part_add(finding->headline, "; buffer #%" PRIu64 " had %" PRIu64 " uninitialised element%s", nan->fresh->id,
                 nan->fresh_count, plural(nan->fresh_count));
        finding->buffer = part_buffer(nan->fresh, nan->buffer_frames);
        finding->buffer.certainty = CERTAIN_CANDIDATE;
    } else if (nan->buffer->id) {
        part_inside(finding, nan->buffer, nan->buffer_frames, nan->pointer + nan->index * value_width(nan->type),
                    CERTAIN_EXACT);
    }
    add_nan_hint(finding, nan);
    finding_complete(finding);
}

/* ---- text ---- */

void nan_launch_lines(struct report *report, const struct finding *finding)
{
    const struct nan_fact *nan = finding->nan;
    launched_kernel_line(report, &nan->by, nan->other ? CERTAIN_CANDIDATE : CERTAIN_EXACT);
    launched_lines(report, &nan->by);
    if (nan->other)
        use_lines(report, "or", nan->other, CERTAIN_CANDIDATE, finding->now_ns);
}

static void put_figures(struct report *report, const struct nan_input *input)
{
    report_begin(report, "", NULL);
    report_put(report, "   ");
    if (input->finite)
        report_put(report, "min %s max %s mean %s std %s, %" PRIu64 " zero%s, ", real_of(input->min).text,
                   real_of(input->max).text, real_of(input->mean).text, real_of(input->deviation).text, input->zeros,
                   plural(input->zeros));
    report_put(report, "%" PRIu64 " NaN, %" PRIu64 " Inf", input->nans, input->infinities);
    report_end(report, CERTAIN_NOT);
}

void nan_input_lines(struct report *report, const struct finding *finding)
{
    const struct nan_fact *nan = finding->nan;
    for (size_t i = 0; i < nan->input_count; i++) {
        const struct nan_input *input = &nan->inputs[i];
        report_begin(report, i ? "" : "before", NULL);
        if (input->argument >= 0)
            report_put(report, "%-2d ", input->argument);
        if (input->at)
            report_put(report, "at byte %" PRIu32 ": ", input->at);
        report_put(report, "buffer #%" PRIu64 " +%" PRIu64, input->buffer, input->offset);
        if (input->label && *input->label)
            report_put(report, " \"%s\"", input->label);
        report_put(report, ", %s[%" PRIu64 "]%s", value_names[input->type], input->count,
                   input->is_unwritten ? ", never written" : "");
        if (input->fresh && !input->is_unwritten)
            report_put(report, ", %" PRIu64 " never written", input->fresh);
        report_end(report, i ? CERTAIN_NOT : CERTAIN_EXACT);
        if (!input->is_unwritten || input->nans)
            put_figures(report, input);
    }
}
