#include "finding.h"

#include "parts.h"

#include <inttypes.h>
#include <string.h>

/* "buffer #3, "x", 4096 bytes", ""train.py:38 in step #1", 4096 bytes" */
static void add_buffer(char *text, size_t size, const cufence_buffer *buffer)
{
    if (buffer->id)
        part_append(text, size, "buffer #%" PRIu64 ", ", buffer->id);
    if (buffer->label[0])
        part_append(text, size, "\"%s\", ", buffer->label);
    part_append(text, size, "%" PRIu64 " bytes", buffer->size);
}

static void take_kernel(struct finding *finding, const struct uninit_fact *fact)
{
    struct evidence_site *site = &finding->where.site;
    finding->where.has_kernel = 1;
    finding->where.certainty = CERTAIN_EXACT;
    site->kernel = fact->kernel;
    site->symbol = fact->symbol;
    site->kernel_offset = UINT64_MAX;
    site->has_grid = 1;
    memcpy(site->grid, fact->grid, sizeof site->grid);
    memcpy(site->block, fact->block, sizeof site->block);
}

static void take_buffer(struct finding *finding, const struct uninit_fact *fact)
{
    finding->buffer = part_buffer(fact->fresh, fact->frames);
    finding->buffer.certainty = fact->more || fact->may_be_result ? CERTAIN_CANDIDATE : CERTAIN_EXACT;
    finding->buffer.from = FROM_START;
    finding->buffer.distance = fact->first_unwritten;
    finding->buffer.argument = (struct argument_name){-1, fact->from, 0};
}

/* What it used, and what came of it: the sentence of the report. */
static void add_reason(char *text, size_t size, const struct uninit_fact *fact)
{
    part_append(text, size, "%s computes with bytes that nobody has written", fact->what ? fact->what : "it");
    if (fact->fresh) {
        part_append(text, size, ": of ");
        add_buffer(text, size, fact->fresh);
    }
    if (fact->unwritten)
        part_append(text, size, ", %" PRIu64 " were never written, the first at byte %" PRIu64, fact->unwritten,
                    fact->first_unwritten);
    if (fact->more)
        part_append(text, size, "; or of %" PRIu64 " more buffer%s that it reads", fact->more, plural(fact->more));
    if (fact->may_be_result)
        part_append(text, size, "; or of its own result, which had such bytes, too");
    if (fact->different) {
        part_append(text, size, "; element %" PRIu64 " of ", fact->first);
        if (fact->argument >= 0)
            part_append(text, size, "argument %d, ", fact->argument);
        part_append(text, size, "%s[%" PRIu64 "], becomes %s where they are 0x00 and %s where they are 0x4b",
                    value_name(fact->type), fact->elements, fact->values[0], fact->values[1]);
    }
    if (!fact->launched && fact->place && *fact->place)
        part_append(text, size, "; %s at %s", fact->what ? "copied" : "launched", fact->place);
}

void finding_of_uninit(struct finding *finding, struct uninit_fact *fact, const struct finding_origin *origin)
{
    char kernel[256];
    *finding = (struct finding){.origin = *origin,
                                .kind = FINDING_UNINIT,
                                .access = {.is_known = 1, .kind = ACCESS_READ, .source = NO_ARGUMENT},
                                .reason = fact->reason,
                                .uninit = fact,
                                .now_ns = fact->now_ns};
    fact->reason[0] = '\0';
    add_reason(fact->reason, sizeof fact->reason, fact);
    if (fact->symbol)
        take_kernel(finding, fact);
    if (fact->kernel)
        finding_kernel(&finding->where.site, kernel, sizeof kernel);
    else
        finding_kernel_of(fact->symbol ? fact->symbol : "", kernel, sizeof kernel);
    part_add(finding->what, FINDING_UNINIT);
    part_add(finding->headline, FINDING_UNINIT " by %s", fact->what ? fact->what : kernel[0] ? kernel : "a CUDA graph");
    if (fact->fresh && fact->fresh->id)
        part_add(finding->headline, " of buffer #%" PRIu64, fact->fresh->id);
    if (fact->launched)
        finding->launch = (struct fault_origin){fact->launched, CERTAIN_EXACT, 1};
    if (fact->fresh)
        take_buffer(finding, fact);
    finding_complete(finding);
}
