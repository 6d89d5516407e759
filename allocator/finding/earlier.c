#include "earlier.h"

#include <inttypes.h>

struct earlier_order earlier_order(const struct earlier_use *use)
{
    struct earlier_order order;
    if (use->by_host)
        snprintf(order.text, sizeof order.text, "this call does not wait for that stream, and neither has the host");
    else
        snprintf(order.text, sizeof order.text,
                 "stream 0x%" PRIx64 " has not waited for an event after that work, and neither has the host", use->by_stream);
    return order;
}

const char *earlier_hint(const struct misuse *misuse)
{
    if (misuse->access == ACCESS_UNKNOWN)
        return "call tensor.record_stream(stream) or cufence_record_stream(), or let the freeing stream wait for an event "
               "recorded after that work";
    return "let the stream of this call wait for an event recorded after that work";
}

/* Puts what may still use the buffer, who launched it, and that nothing orders it before the call. */
void earlier_lines(struct report *report, const struct finding *finding)
{
    const struct earlier_use *use = finding->earlier;
    char kernel[256];
    if (!use)
        return;
    report_begin(report, "in use by", NULL);
    if (use->kernel) {
        finding_kernel_of(use->kernel, kernel, sizeof kernel);
        report_put_name(report, kernel[0] ? kernel : "a kernel");
        if (use->entry)
            report_put_grid(report, use->entry->grid, use->entry->block);
    } else {
        report_put(report, "%s", use->call);
    }
    report_end(report, CERTAIN_DERIVED);
    report_begin(report, "", NULL);
    if (use->time_ns)
        report_put_age(report, finding->now_ns, use->time_ns);
    report_put(report, "by thread %" PRIu64 " on stream 0x%" PRIx64, use->tid, use->stream);
    report_end(report, CERTAIN_NOT);
    report_frame_lines(
        report, &(struct report_stack){
                    .key = "", .subkey = "from", .certainty = CERTAIN_NOT, .frames = use->frames, .count = use->frame_count});
    report_sentence(report, "order", earlier_order(use).text, CERTAIN_DERIVED);
}
