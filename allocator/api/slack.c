#include "lifecycle.h"

#include "base/clock.h"
#include "base/reader.h"
#include "launch/launch.h"
#include "regions/regions.h"
#include "witness/tell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_READ 4096        /* launches that are looked at */
#define TICK_NS 10000000u     /* of the clock that launches and buffers are timed with, the longest */
#define MOST_ARGUMENTS 32768u /* bytes */

/* Large: on the heap. */
struct search {
    struct launch_entry entries[MOST_READ];
    struct stack stacks[MOST_READ];
    uint8_t arguments[MOST_ARGUMENTS];
    struct stack_frame frames[SLACK_LAUNCHES][STACK_READ], released[STACK_READ], taken[STACK_READ];
};

/* Whether an argument, or a word of one that is a struct, points into the memory of the buffer. */
static int is_given(struct search *search, const struct launch_entry *entry, const cufence_buffer *buffer)
{
    size_t bytes = launch_read_arguments(entry, search->arguments, sizeof search->arguments);
    return has_word(search->arguments, bytes, buffer->mapping_start, buffer->mapping_end);
}

static void add(struct slack_write *write, struct search *search, size_t i)
{
    size_t at = write->launch_count;
    write->launch_total++;
    if (at == SLACK_LAUNCHES)
        return;
    size_t frames = stack_frames(&search->stacks[i], search->frames[at], STACK_READ);
    write->launches[write->launch_count++] =
        (struct fault_launch){.entry = &search->entries[i], .frames = search->frames[at], .frame_count = frames};
}

/* Of launches of the threads that released the row and took it again, which are told apart exactly. */
static int is_between(const struct launch_entry *entry, const struct region_write *row)
{
    const struct region *was = &row->at.region, *by = &row->by;
    if (entry->tid == was->freed_tid && entry->sequence <= was->freed_after)
        return 0;
    return !by->taken_after || entry->tid != by->taken_tid || entry->sequence <= by->taken_after;
}

/* Finds the launches since the bytes were good. Those after the free of the last buffer may have been given the memory too, by
 * mistake, but it is more likely that they came later and were given the next buffer in it. */
static void find_launches(struct slack_write *write, struct search *search, uint64_t until, const struct region_write *row)
{
    const struct launch_query query = {.device = write->buffer->device, .has_graphs = 1};
    size_t count = launch_read(&query, search->entries, search->stacks, MOST_READ);
    for (size_t i = 0; i < count; i++) {
        const struct launch_entry *entry = &search->entries[i];
        if (entry->time_ns + TICK_NS < write->found.since_ns || entry->time_ns > until || (row && !is_between(entry, row)))
            continue;
        if (entry->graph)
            write->graphs++;
        else if (is_given(search, entry, write->buffer))
            add(write, search, i);
    }
    write->is_incomplete = count && (count == MOST_READ || !launch_all_kept(query.device)) &&
                           search->entries[count - 1].time_ns + TICK_NS >= write->found.since_ns;
}

void slack_report(const struct heap_slack *slack)
{
    cufence_buffer buffer = slack->buffer;
    cufence_description where;
    struct slack_write write = {
        .buffer = &buffer, .found = slack->found, .now_ns = monotonic_ns(), .buffer_frames = {stack_buffer_frames, NULL}};
    struct search *search = malloc(sizeof *search);
    heap_describe(buffer.mapping_start, &where);
    if (where.buffer.mapping_start == buffer.mapping_start)
        buffer.guard_start = where.buffer.guard_start;
    if (search)
        find_launches(&write, search, buffer.freed_ns ? buffer.freed_ns + TICK_NS : UINT64_MAX, NULL);
    tell_slack(&write, lifecycle_code);
    free(search);
}

static void add_frames(struct region_event *event, uint32_t stack, struct stack_frame *frames)
{
    event->frames = frames;
    event->frame_count = stack_interned_frames(stack, frames, STACK_READ);
}

void region_report(const struct region_write *row)
{
    const struct region_at *at = &row->at;
    const struct region *was = &at->region, *by = &row->by;
    cufence_description where;
    struct search *search = malloc(sizeof *search);
    heap_describe(row->found.address, &where);
    if (where.buffer.id != at->buffer) /* it was freed meanwhile, and its memory has another buffer */
        where.buffer = (cufence_buffer){.id = at->buffer,
                                        .address = at->start,
                                        .size = at->bytes * at->rows,
                                        .mapping_start = at->start,
                                        .mapping_end = at->start + at->bytes * at->rows,
                                        .device = at->context->device};
    struct region_fact region = {.name = at->name,
                                 .row = at->row,
                                 .rows = at->rows,
                                 .bytes = at->bytes,
                                 .offset = row->found.address - at->start - at->row * at->bytes,
                                 .state = REGION_IS_FREE,
                                 .released = {was->freed_ns, was->freed_tid, was->freed_stream, .owner = was->owner}};
    if (by->taken_ns > was->freed_ns)
        region.taken = (struct region_event){by->taken_ns, by->taken_tid, by->taken_stream, .owner = by->owner};
    struct slack_write write = {.buffer = &where.buffer,
                                .region = &region,
                                .found = row->found,
                                .now_ns = monotonic_ns(),
                                .buffer_frames = {stack_buffer_frames, NULL}};
    if (search) {
        add_frames(&region.released, was->freed_stack, search->released);
        if (region.taken.ns)
            add_frames(&region.taken, by->taken_stack, search->taken);
        find_launches(&write, search, row->until_ns + TICK_NS, row);
    }
    tell_slack(&write, NULL);
    free(search);
}

int region_name(uint64_t address, struct tell_row *out)
{
    struct region_at at;
    if (!region_find(address, &at))
        return 0;
    const struct region *region = &at.region;
    int is_free = region->state == REGION_FREE;
    snprintf(out->name, sizeof out->name, "%s", at.name);
    snprintf(out->owner, sizeof out->owner, "%s", region->owner);
    out->fact = (struct region_fact){.name = out->name,
                                     .row = at.row,
                                     .rows = at.rows,
                                     .bytes = at.bytes,
                                     .offset = at.offset,
                                     .state = is_free ? REGION_IS_FREE : REGION_IS_LIVE};
    if (is_free)
        out->fact.released =
            (struct region_event){region->freed_ns, region->freed_tid, region->freed_stream, out->owner, NULL, 0};
    else
        out->fact.taken = (struct region_event){region->taken_ns, region->taken_tid, region->taken_stream, out->owner, NULL, 0};
    return 1;
}
