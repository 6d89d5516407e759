#include "finding.h"

#include "parts.h"
#include "writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void finding_of_leak(struct finding *finding, struct leak *leak, const struct finding_origin *origin)
{
    const struct amount amount = amount_of(leak->bytes);
    const char *unit = strchr(amount.text, 'B') ? "" : " bytes";
    *finding = (struct finding){.origin = *origin,
                                .kind = "leak",
                                .reason = leak->reason,
                                .identity = identity_of_leak(leak->largest),
                                .access = {.source = NO_ARGUMENT},
                                .now_ns = leak->now_ns};
    snprintf(leak->reason, sizeof leak->reason, "nobody has freed %s",
             leak->buffers == 1 ? "this buffer" : "these buffers, allocated at one place; the largest is");
    part_add(finding->what, "leak of %" PRIu64 " buffer%s", leak->buffers, plural(leak->buffers));
    part_add(finding->headline, "%s, %s%s in all", finding->what, amount.text, unit);
    finding->buffer = part_buffer(leak->largest, leak->frames);
    finding->buffer.certainty = CERTAIN_EXACT;
    finding_complete(finding);
}
