
#include "report_common.h"

#include "base/text.h"

#include <inttypes.h>

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
        if (input->label && *input->label) {
            report_put(report, " \"");
            report_put_name(report, input->label);
            report_put(report, "\"");
        }
        report_put(report, ", %s[%" PRIu64 "]%s", value_names[input->type], input->count,
                   input->is_unwritten ? ", never written" : "");
        if (input->fresh && !input->is_unwritten)
            report_put(report, ", %" PRIu64 " never written", input->fresh);
        report_end(report, i ? CERTAIN_NOT : CERTAIN_EXACT);
        if (!input->is_unwritten || input->nans)
            put_figures(report, input);
    }
}
