#include "finding.h"

#include "parts.h"
#include "writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Fills in the address, and the buffer found there. */
static void take_buffer(struct finding *finding, const struct misuse *misuse)
{
    static const enum measured_from from[] = {[CUFENCE_PLACE_INSIDE] = FROM_START,
                                              [CUFENCE_PLACE_PAST_END] = PAST_END,
                                              [CUFENCE_PLACE_BEFORE_START] = BEFORE_START,
                                              [CUFENCE_PLACE_FREED] = FROM_START};
    const cufence_description *where = misuse->where;
    finding->address = (struct address_fact){.certainty = CERTAIN_EXACT,
                                             .is_one = 1,
                                             .value = misuse->address,
                                             .is_in_arena = where->place != CUFENCE_PLACE_UNKNOWN};
    if (!where->buffer.id)
        return;
    finding->buffer = part_buffer(&where->buffer, misuse->buffer_frames);
    finding->buffer.certainty = CERTAIN_EXACT;
    finding->buffer.from = from[where->place];
    finding->buffer.distance = where->offset;
}

void finding_of_misuse(struct finding *finding, const struct misuse *misuse, const struct finding_source *origin)
{
    const cufence_description *where = misuse->where;
    *finding = (struct finding){.origin = *origin,
                                .kind = misuse->kind,
                                .reason = misuse->sentence,
                                .called = {misuse->call, misuse->tid, misuse->frames, misuse->frame_count},
                                .access = {.source = unnamed_argument},
                                .now_ns = misuse->now_ns};
    part_add(finding->what, "%s by %s", misuse->kind, misuse->call);
    part_add(finding->headline, "%s: %s", finding->what, misuse->sentence);
    take_buffer(finding, misuse);
    if (misuse->earlier)
        earlier_take(finding, misuse);
    finding->access.is_known = misuse->access != ACCESS_UNKNOWN;
    finding->access.kind = misuse->access;
    finding->access.bytes = misuse->bytes;
    if (where->place == CUFENCE_PLACE_INSIDE && !misuse->earlier)
        finding->access.bytes_past_end = misuse->bytes - (where->buffer.size - where->offset);
    finding_complete(finding);
}

void finding_unexplained(struct finding *finding, const char *reason, const struct finding_source *origin)
{
    *finding = (struct finding){.origin = *origin, .kind = FINDING_UNEXPLAINED, .reason = reason};
    part_add(finding->what, "unexplained fault on the GPU");
    part_add(finding->headline, "%s", finding->what);
    finding_complete(finding);
}

void finding_complete(struct finding *finding)
{
    finding->device.is_known = finding->origin.device >= 0 || finding->origin.device_name;
    finding_name(finding, finding->name, sizeof finding->name);
}

static void free_frames(struct buffer_fact *fact)
{
    free(fact->allocated.frames);
    free(fact->freed.frames);
}

void finding_free_values(struct finding *finding)
{
    for (size_t i = 0; i < finding->arguments.count; i++)
        free(finding->arguments.list[i].members);
    free(finding->arguments.list);
    finding->arguments.list = NULL;
    finding->arguments.count = 0;
}

void finding_free(struct finding *finding)
{
    struct buffer_fact *const single[] = {&finding->buffer, &finding->rival, &finding->previous, &finding->next};
    for (size_t i = 0; i < sizeof single / sizeof *single; i++)
        free_frames(single[i]);
    for (size_t i = 0; i < finding->candidates.count; i++)
        free_frames(&finding->candidates.list[i]);
    finding_free_values(finding);
    *finding = (struct finding){0};
}

void finding_of_leak(struct finding *finding, struct leak *leak, const struct finding_source *origin)
{
    *finding = (struct finding){.origin = *origin,
                                .kind = "leak",
                                .reason = leak->reason,
                                .access = {.source = unnamed_argument},
                                .now_ns = leak->now_ns};
    snprintf(leak->reason, sizeof leak->reason, "nobody has freed %s",
             leak->buffers == 1 ? "this buffer" : "these buffers, allocated at one place; shown is the largest");
    part_add(finding->what, "leak of %" PRIu64 " buffer%s", leak->buffers, plural(leak->buffers));
    part_add(finding->headline, "%s, %s in all", finding->what, bytes_of(leak->bytes).text);
    finding->buffer = part_buffer(leak->largest, leak->frames);
    finding->buffer.certainty = CERTAIN_EXACT;
    finding_complete(finding);
}
