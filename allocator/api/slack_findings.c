#include "lifecycle.h"

#include "base/clock.h"
#include "base/reader.h"
#include "launch/launch.h"
#include "fault/tell.h"
#include "vmm/arena.h"

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

static void add(struct slack_write *write, struct search *search, size_t i, int is_apart, size_t bytes)
{
    size_t at = write->launch_count;
    const struct launch_function *function = search->entries[i].function;
    slack_take_type(write, function && function->has_layout ? function->name : NULL, function ? function->arguments : NULL,
                    function ? function->argument_count : 0, (struct span){search->arguments, bytes});
    write->launch_total++;
    write->apart += is_apart != 0;
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

/* Whether the launch may have run while the bytes were watched; *is_apart: though it was made at another time, which the
 * threads that poisoned and unpoisoned them know exactly. Behind the free of a buffer a launch may have been given the memory
 * too, by mistake, but it is more likely that it was given the next buffer in it. */
static int may_have_run(const struct launch_entry *entry, const struct slack_found *found, uint64_t until, int device,
                        int *is_apart)
{
    const struct poison_fact none = {0}, *poison = entry->device == device ? &found->poison : &none;
    int is_before = entry->time_ns + TICK_NS < found->since_ns ||
                    (poison->after && entry->tid == poison->tid && entry->sequence <= poison->after);
    int is_behind =
        entry->time_ns > until || (poison->until && entry->tid == poison->until_tid && entry->sequence > poison->until);
    *is_apart = is_before || is_behind;
    if (entry->device != device && (entry->graph || !arena_is_shared(device, entry->device)))
        return 0;
    return (!is_before || (found->since_on != SINCE_ALL && entry->stream != found->since_on)) &&
           (!is_behind || (poison->until && entry->stream != poison->until_stream));
}

/* Finds the launches that were given the memory, in any of its generations. */
static void find_launches(struct slack_write *write, struct search *search, uint64_t until)
{
    const int device = write->buffer->device;
    size_t count =
        launch_read(&(const struct launch_query){.device = -1, .has_graphs = 1}, search->entries, search->stacks, MOST_READ);
    for (size_t i = 0; i < count; i++) {
        const struct launch_entry *entry = &search->entries[i];
        int is_apart;
        if (!may_have_run(entry, &write->found, until, device, &is_apart))
            continue;
        write->graphs += entry->graph && !is_apart;
        size_t bytes = entry->graph ? 0 : launch_read_arguments(entry, search->arguments, sizeof search->arguments);
        if (has_word(search->arguments, bytes, write->buffer->mapping_start, write->buffer->mapping_end)) /* in structs, too */
            add(write, search, i, is_apart, bytes);
    }
    write->is_incomplete = count && (count == MOST_READ || !launch_all_kept(device)) &&
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
    if (search) {
        poison->frames = search->poisoned;
        poison->frame_count = poison->bytes ? stack_interned_frames(poison->stack, search->poisoned, STACK_READ) : 0;
        uint64_t until = poison->bytes ? poison->until_ns : buffer.freed_ns;
        find_launches(&write, search, until ? until + TICK_NS : UINT64_MAX);
    }
    tell_slack(&write, poison->bytes ? NULL : lifecycle_code);
    free(search);
}
