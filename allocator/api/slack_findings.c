#include "lifecycle.h"

#include "base/clock.h"
#include "base/reader.h"
#include "launch/launch.h"
#include "fault/tell.h"

#include <stdlib.h>

#define MOST_READ 4096        /* launches that are looked at */
#define TICK_NS 10000000u     /* of the clock that launches and buffers are timed with, the longest */
#define MOST_ARGUMENTS 32768u /* bytes */

/* Large: on the heap. */
struct search {
    struct launch_entry entries[MOST_READ];
    struct stack stacks[MOST_READ];
    uint8_t arguments[MOST_ARGUMENTS];
    struct stack_frame frames[SLACK_LAUNCHES][STACK_READ], poisoned[STACK_READ];
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

uint64_t slack_last_launch(void)
{
    struct context *context = context_current();
    const struct launch_mark mark = context ? launch_newest(context) : (struct launch_mark){0};
    struct launch_entry entry;
    struct stack stack;
    return mark.slot && launch_read_marked(&mark, &entry, &stack) ? entry.sequence : 0;
}

/* Of launches of the threads that poisoned the bytes and unpoisoned them, which are told apart exactly. */
static int is_between(const struct launch_entry *entry, const struct poison_fact *poison)
{
    if (entry->tid == poison->tid && poison->after && entry->sequence <= poison->after)
        return 0;
    return !poison->until || entry->tid != poison->until_tid || entry->sequence <= poison->until;
}

/* Finds the launches since the bytes were good. Those after the free of the last buffer may have been given the memory too, by
 * mistake, but it is more likely that they came later and were given the next buffer in it. */
static void find_launches(struct slack_write *write, struct search *search, uint64_t until)
{
    const struct launch_query query = {.device = write->buffer->device, .has_graphs = 1};
    size_t count = launch_read(&query, search->entries, search->stacks, MOST_READ);
    for (size_t i = 0; i < count; i++) {
        const struct launch_entry *entry = &search->entries[i];
        if (entry->time_ns + TICK_NS < write->found.since_ns || entry->time_ns > until ||
            (write->found.poison.bytes && !is_between(entry, &write->found.poison)))
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
    if (write.found.poison.bytes && where.buffer.id == buffer.id)
        buffer = where.buffer; /* else it was freed meanwhile, and its memory has another one */
    if (where.buffer.mapping_start == buffer.mapping_start)
        buffer.guard_start = where.buffer.guard_start;
    struct poison_fact *poison = &write.found.poison;
    if (search && poison->bytes) {
        poison->frames = search->poisoned;
        poison->frame_count = stack_interned_frames(poison->stack, search->poisoned, STACK_READ);
    }
    if (search)
        find_launches(&write, search,
                      poison->bytes     ? poison->until_ns + TICK_NS
                      : buffer.freed_ns ? buffer.freed_ns + TICK_NS
                                        : UINT64_MAX);
    tell_slack(&write, poison->bytes ? NULL : lifecycle_code);
    free(search);
}
