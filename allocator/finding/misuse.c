#include "misuse.h"

#include "report_common.h"

#include <inttypes.h>
#include <string.h>

char *misuse_text(const struct misuse *misuse, const struct report_origin *origin)
{
    struct report report;
    if (!report_open(&report, NULL, origin->pid))
        return NULL;
    report_begin(&report, NULL, NULL);
    report_put(&report, "cufence: %s by %s", misuse->kind, misuse->call);
    report_end_headline(&report, origin, "");
    report_begin(&report, "address", NULL);
    if (strncmp(misuse->sentence, "0x", 2) != 0)
        report_put(&report, "0x%" PRIx64 ": ", misuse->address);
    report_put(&report, "%s", misuse->sentence);
    report_end(&report, CERTAIN_EXACT);
    report_frame_lines(
        &report, &(struct report_stack){
                     .key = "called at", .certainty = CERTAIN_NOT, .frames = misuse->frames, .count = misuse->frame_count});
    if (misuse->place->buffer.id)
        report_buffer_lines(&report, &misuse->place->buffer, misuse->now_ns, misuse->buffer_frames);
    return report_close(&report);
}
