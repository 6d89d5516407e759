/* What two runs with different fills of fresh memory have saved of one launch. */
#include "uninit.h"

#include "base/options.h"
#include "finding/finding.h"
#include "finding/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The buffer of the bundle to which the launch's argument leads; NULL if that is not known. */
static const struct bundle_buffer *buffer_of(const struct opened *opened, const struct seen_buffer *buffer)
{
    const struct bundle *bundle = opened->bundle;
    uint64_t pointer;
    if (!bundle || buffer->argument < 0 || (size_t)buffer->argument >= bundle->argument_count)
        return NULL;
    uint64_t at = (uint64_t)bundle->layout[buffer->argument].offset + buffer->at;
    if (at + sizeof pointer > opened->launches[0].argument_bytes)
        return NULL;
    memcpy(&pointer, opened->arguments + at, sizeof pointer);
    return bundle_find(bundle, pointer);
}

static void close_both(struct compared states[UNINIT_SIDES])
{
    for (int side = 0; side < UNINIT_SIDES; side++)
        if (states[side].file >= 0)
            close(states[side].file);
}

/* Opens the same buffer of both bundles, as it was before the launch or after it. Returns that of the first; NULL if one does
 * not have its bytes. */
static const struct bundle_buffer *open_both(const struct uninit_pair *pair, const struct seen_buffer *buffer, int is_after,
                                             struct compared states[UNINIT_SIDES])
{
    const struct bundle_buffer *both[UNINIT_SIDES];
    for (int side = 0; side < UNINIT_SIDES; side++)
        both[side] = buffer_of(&pair->opened[side], buffer);
    if (!both[0] || !both[1] || both[0]->size != both[1]->size || !both[0]->file[0] || !both[1]->file[0])
        return NULL;
    for (int side = 0; side < UNINIT_SIDES; side++)
        states[side].file = (is_after ? opened_expected : opened_before)(&pair->opened[side], both[side], &states[side].offset);
    if (states[0].file >= 0 && states[1].file >= 0)
        return both[0];
    close_both(states);
    return NULL;
}

static int read_both(const struct compared states[UNINIT_SIDES], uint64_t at, void *zeros, void *others, size_t size)
{
    return pread(states[0].file, zeros, size, (off_t)(states[0].offset + at)) == (ssize_t)size &&
           pread(states[1].file, others, size, (off_t)(states[1].offset + at)) == (ssize_t)size;
}

/* ---- the results ---- */

static void take_result(const struct uninit_pair *pair, struct uninit_fact *fact, const struct seen_buffer *buffer)
{
    struct compared states[UNINIT_SIDES];
    const struct bundle_buffer *one = open_both(pair, buffer, 1, states);
    fact->argument = buffer->argument;
    if (!one)
        return;
    struct difference found = compared_begin(one);
    if (compared_files(&found, states[0], states[1], 1) && found.different) {
        fact->type = found.type;
        fact->elements = found.elements;
        fact->different = found.different;
        fact->first = found.first;
        memcpy(fact->values[0], found.saved, sizeof fact->values[0]);
        memcpy(fact->values[1], found.now, sizeof fact->values[1]);
    }
    close_both(states);
}

/* ---- what nobody has written ---- */

static void count_unwritten(struct uninit_fact *fact, const struct compared states[UNINIT_SIDES], uint64_t size)
{
    uint8_t zeros[4096], others[4096];
    for (uint64_t at = 0, some; at < size; at += some) {
        some = size - at < sizeof zeros ? size - at : sizeof zeros;
        if (!read_both(states, at, zeros, others, some))
            break;
        for (uint64_t i = 0; i < some; i++)
            if (is_fresh_byte(zeros[i], others[i]) && !fact->unwritten++)
                fact->first_unwritten = at + i;
    }
}

/* Whether the element that differs first had such bytes before. Where that is not known it may. */
static int has_fresh_element(const struct uninit_pair *pair, const struct uninit_fact *fact, const struct seen_buffer *buffer)
{
    struct compared states[UNINIT_SIDES];
    uint8_t bytes[UNINIT_SIDES][8];
    size_t width = value_width(fact->type);
    if (!fact->different || !open_both(pair, buffer, 0, states))
        return 1;
    int has = !read_both(states, fact->first * width, bytes[0], bytes[1], width) || memcmp(bytes[0], bytes[1], width) != 0;
    close_both(states);
    return has;
}

/* As the snapshot has it, with its frames; else as the event does. */
static void take_fresh(struct uninit_pair *pair, struct uninit_fact *fact, const struct seen_buffer *buffer)
{
    struct compared states[UNINIT_SIDES];
    const struct bundle_buffer *one = open_both(pair, buffer, 0, states);
    const struct snapshot *snapshot = pair->opened[0].snapshot;
    pair->fresh = (cufence_buffer){.size = buffer->size};
    snprintf(pair->fresh.label, sizeof pair->fresh.label, "%s", buffer->name);
    fact->fresh = &pair->fresh;
    fact->from = buffer->argument;
    if (!one)
        return;
    count_unwritten(fact, states, one->size);
    close_both(states);
    for (size_t i = 0; snapshot && i < snapshot->memory.near_count; i++)
        if (snapshot->memory.near[i].id == one->id) {
            fact->fresh = &snapshot->memory.near[i];
            fact->frames = snapshot->memory.frames;
        }
}

/* The launch may have used any of its buffers with such bytes. What it writes mostly has them, too: one that it only reads
 * comes first. */
static size_t choose_fresh(const struct seen_event events[UNINIT_SIDES], struct uninit_fact *fact)
{
    size_t chosen[2] = {SIZE_MAX, SIZE_MAX}, count[2] = {0, 0}, i = 0;
    for (; seen_next_fresh(&events[0], &events[1], &i); i++) {
        int is_written = seen_is_written(&events[0].buffers[i]) || seen_is_written(&events[1].buffers[i]);
        if (!count[is_written]++)
            chosen[is_written] = i;
    }
    int kind = !count[0];
    fact->more = count[kind] ? count[kind] - 1 : 0;
    return chosen[kind];
}

void uninit_take(struct uninit_pair *pair, struct uninit_fact *fact, const struct seen_event events[UNINIT_SIDES],
                 size_t result, char *const folders[UNINIT_SIDES])
{
    struct problem ignored;
    const struct seen_event *event = &events[0];
    *pair = (struct uninit_pair){0};
    *fact = (struct uninit_fact){.kernel = event->kind == SEEN_LAUNCH ? event->name : NULL,
                                 .symbol = event->kind == SEEN_LAUNCH ? event->symbol : NULL,
                                 .place = event->place,
                                 .number = event->launch,
                                 .from = -1,
                                 .argument = -1};
    memcpy(fact->grid, event->grid, sizeof fact->grid);
    memcpy(fact->block, event->block, sizeof fact->block);
    int is_saved = 1;
    for (int side = 0; side < UNINIT_SIDES; side++) {
        pair->opened[side] = (struct opened){.folder = -1, .buffers = -1};
        is_saved &= folders && folders[side] && opened_open(folders[side], &pair->opened[side], &ignored) == CUFENCE_OK;
    }
    if (!is_saved)
        uninit_close(pair);
    const struct fault_launch *launched = is_saved ? opened_record(&pair->opened[0], 0) : NULL;
    if (launched) {
        fact->launched = launched;
        fact->now_ns = launched->entry->time_ns;
    }
    size_t fresh = choose_fresh(events, fact);
    if (fresh != SIZE_MAX)
        take_fresh(pair, fact, &event->buffers[fresh]);
    if (result < event->buffer_count)
        take_result(pair, fact, &event->buffers[result]);
    size_t at = result;
    fact->may_be_result = fresh != result && result < event->buffer_count && seen_next_fresh(&events[0], &events[1], &at) &&
                          at == result && has_fresh_element(pair, fact, &event->buffers[result]);
}

void uninit_close(struct uninit_pair *pair)
{
    for (int side = 0; side < UNINIT_SIDES; side++) {
        opened_close(&pair->opened[side]);
        pair->opened[side] = (struct opened){.folder = -1, .buffers = -1};
    }
}

void uninit_report(struct collected *merged, struct uninit_fact *fact, char *const *command)
{
    char time[32];
    struct finding finding;
    const struct finding_process process = collected_process(command, time);
    const struct finding_origin origin = {.pid = (int)getpid(), .rank = options_rank(), .device = -1, .process = &process};
    finding_of_uninit(&finding, fact, &origin);
    char *line = finding_json(&finding);
    if (line)
        collected_take(merged, line);
    free(line);
    finding_free(&finding);
}
