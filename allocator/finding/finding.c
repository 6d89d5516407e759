#include "finding.h"

#include "earlier.h"
#include "identity.h"
#include "parts.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void part_append(char *text, size_t size, const char *format, ...)
{
    size_t length = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + length, size - length, format, arguments);
    va_end(arguments);
}

void part_append_argument(char *text, size_t size, struct argument_name name)
{
    if (name.number < 0)
        part_append(text, size, "argument word %d", name.word);
    else
        part_append(text, size, "argument %d", name.number);
    if (name.offset)
        part_append(text, size, " at byte %" PRIu32, name.offset);
}

const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

static struct called_from called_from(struct buffer_frames known, uint32_t stack)
{
    struct stack_frame frames[STACK_READ];
    struct called_from from = {NULL, stack && known.read ? known.read(known.from, stack, frames, STACK_READ) : 0};
    if (from.count)
        from.frames = malloc(from.count * sizeof *frames);
    if (!from.frames)
        return (struct called_from){NULL, 0};
    memcpy(from.frames, frames, from.count * sizeof *frames);
    return from;
}

struct buffer_fact part_buffer(const cufence_buffer *buffer, struct buffer_frames frames)
{
    return (struct buffer_fact){.buffer = buffer,
                                .from = FROM_NOWHERE,
                                .argument = {-1, -1, 0},
                                .allocated = called_from(frames, buffer->allocated_stack),
                                .freed = called_from(frames, buffer->freed_stack)};
}

/* Fills in the address, and the buffer found there. */
static void take_place(struct finding *finding, const struct misuse *misuse)
{
    static const enum measured_from from[] = {[CUFENCE_PLACE_INSIDE] = FROM_START,
                                              [CUFENCE_PLACE_PAST_END] = PAST_END,
                                              [CUFENCE_PLACE_BEFORE_START] = BEFORE_START,
                                              [CUFENCE_PLACE_FREED] = FROM_START,
                                              [CUFENCE_PLACE_NO_BUFFER] = FROM_NOWHERE};
    const cufence_description *place = misuse->place;
    finding->address.certainty = CERTAIN_EXACT;
    finding->address.value = misuse->address;
    finding->address.is_in_arena = place->place != CUFENCE_PLACE_UNKNOWN;
    if (!place->buffer.id)
        return;
    finding->buffer = part_buffer(&place->buffer, misuse->buffer_frames);
    finding->buffer.certainty = CERTAIN_EXACT;
    finding->buffer.from = from[place->place];
    finding->buffer.distance = place->offset;
}

void finding_of_misuse(struct finding *finding, const struct misuse *misuse, const struct finding_origin *origin)
{
    const cufence_description *place = misuse->place;
    *finding = (struct finding){.origin = *origin,
                                .kind = misuse->kind,
                                .reason = misuse->sentence,
                                .identity = identity_of_misuse(misuse),
                                .call = misuse->call,
                                .caller_tid = misuse->tid,
                                .caller = misuse->frames,
                                .caller_count = misuse->frame_count,
                                .earlier = misuse->earlier,
                                .now_ns = misuse->now_ns};
    part_add(finding->what, "%s by %s", misuse->kind, misuse->call);
    part_add(finding->headline, "%s: %s", finding->what, misuse->sentence);
    take_place(finding, misuse);
    finding->access.source.word = -1;
    if (misuse->earlier)
        part_add(finding->hint, "%s", earlier_hint(misuse));
    if (misuse->access == ACCESS_UNKNOWN)
        return;
    finding->access.is_known = 1;
    finding->access.kind = misuse->access;
    finding->access.bytes = misuse->bytes;
    if (place->place == CUFENCE_PLACE_INSIDE && !misuse->earlier)
        finding->access.bytes_past_end = misuse->bytes - (place->buffer.size - place->offset);
}

void finding_unexplained(struct finding *finding, const char *reason, const struct finding_origin *origin)
{
    *finding = (struct finding){.origin = *origin, .kind = FINDING_UNEXPLAINED, .reason = reason};
    part_add(finding->what, "unexplained fault of a kernel");
    part_add(finding->headline, "%s", finding->what);
}

static void free_frames(struct buffer_fact *fact)
{
    free(fact->allocated.frames);
    free(fact->freed.frames);
}

void finding_free(struct finding *finding)
{
    struct buffer_fact *const single[] = {&finding->buffer, &finding->rival, &finding->previous, &finding->next};
    for (size_t i = 0; i < sizeof single / sizeof *single; i++)
        free_frames(single[i]);
    for (size_t i = 0; i < finding->candidate_count; i++)
        free_frames(&finding->candidates[i]);
    free(finding->values);
    *finding = (struct finding){0};
}
