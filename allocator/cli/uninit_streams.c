/* The events of two runs, paired stream by stream. */
#include "uninit_runs.h"

#include "base/list.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STREAMS = 65536 };

/* Events of one side that wait for their counterparts: a ring. */
struct waiting {
    struct seen_at *all;
    size_t room, first, count;
};

struct diff_stream {
    uint64_t number;
    int side; /* of those that wait */
    struct waiting waiting;
    int is_lost; /* the events fit together no more */
};

static cufence_status no_memory(struct problem *problem)
{
    return problem_set(problem, CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory");
}

cufence_status diff_open(struct diff *diff, const char *a, const char *b, struct problem *problem)
{
    cufence_status status = seen_file_open(&diff->files[DIFF_A], a, problem);
    if (status == CUFENCE_OK)
        status = seen_file_open(&diff->files[DIFF_B], b, problem);
    if (status == CUFENCE_OK && seen_has_two_fills(&diff->files[DIFF_A].header, &diff->files[DIFF_B].header))
        diff->how = SEEN_TWO_FILLS;
    diff->found = status == CUFENCE_OK ? calloc(diff->most + 1, sizeof *diff->found) : NULL;
    return status == CUFENCE_OK && !diff->found ? no_memory(problem) : status;
}

void diff_close(struct diff *diff)
{
    for (int i = 0; i < DIFF_SIDES; i++)
        seen_file_close(&diff->files[i]);
    for (size_t i = 0; i < diff->stream_count; i++)
        free(diff->streams[i].waiting.all);
    free(diff->streams);
    free(diff->found);
}

/* ---- streams ---- */

static cufence_status find_stream(struct diff *diff, uint64_t number, struct diff_stream **found, struct problem *problem)
{
    size_t at = 0;
    while (at < diff->stream_count && diff->streams[at].number != number)
        at++;
    if (at == MOST_STREAMS)
        return problem_set(problem, CUFENCE_ERROR_UNSUPPORTED, "a run has more than %d streams", MOST_STREAMS);
    if (at == diff->stream_count) {
        if (!list_make_room(&diff->streams, at, sizeof *diff->streams))
            return no_memory(problem);
        diff->streams[diff->stream_count++] = (struct diff_stream){.number = number};
    }
    *found = &diff->streams[at];
    return CUFENCE_OK;
}

static int wait_for_other(struct waiting *waiting, struct seen_at at)
{
    if (waiting->count == waiting->room) {
        size_t room = waiting->room ? 2 * waiting->room : 64;
        struct seen_at *grown = malloc(room * sizeof *grown);
        if (!grown)
            return 0;
        for (size_t i = 0; i < waiting->count; i++)
            grown[i] = waiting->all[(waiting->first + i) % waiting->room];
        free(waiting->all);
        *waiting = (struct waiting){.all = grown, .room = room, .count = waiting->count};
    }
    waiting->all[(waiting->first + waiting->count++) % waiting->room] = at;
    return 1;
}

static struct seen_at oldest(const struct waiting *waiting)
{
    return waiting->all[waiting->first];
}

static struct seen_at take_oldest(struct waiting *waiting)
{
    struct seen_at at = oldest(waiting);
    waiting->first = (waiting->first + 1) % waiting->room;
    waiting->count--;
    return at;
}

/* ---- differences ---- */

/* By its line in file A; a difference that A lacks, by that in B. */
static uint64_t order_of(const struct diff_found *found)
{
    return found->at[DIFF_A].line ? found->at[DIFF_A].line : found->at[DIFF_B].line;
}

/* Keeps it if it is among the first. */
static void keep(struct diff *diff, const struct diff_found *found)
{
    size_t at = diff->found_count;
    diff->total++;
    while (at > 0 && order_of(&diff->found[at - 1]) > order_of(found))
        at--;
    if (at == diff->most)
        return;
    memmove(&diff->found[at + 1], &diff->found[at], (diff->found_count - at) * sizeof *found);
    diff->found[at] = *found;
    if (diff->found_count < diff->most)
        diff->found_count++;
}

static void note(struct diff *diff, struct diff_stream *stream, struct diff_found *found)
{
    found->stream = stream->number;
    memcpy(found->copied, diff->copied, sizeof found->copied);
    keep(diff, found);
}

/* A copy to the host reads a buffer, and writes none. */
static int is_fresh_copy(const struct diff *diff, const struct seen_event *a, const struct seen_event *b)
{
    size_t index = 0, written = 0;
    for (size_t i = 0; i < a->buffer_count; i++)
        written += (size_t)a->buffers[i].has_after;
    return diff->how & SEEN_TWO_FILLS && a->kind == SEEN_COPY && !written && seen_next_fresh(a, b, &index);
}

static void compare(struct diff *diff, struct diff_stream *stream, const struct seen_event *events[DIFF_SIDES],
                    const struct seen_at at[DIFF_SIDES])
{
    struct diff_found found = {0};
    memcpy(found.at, at, sizeof found.at);
    found.what = seen_compare(events[DIFF_A], diff->files[DIFF_A].writers, at[DIFF_A].line, events[DIFF_B],
                              diff->files[DIFF_B].writers, at[DIFF_B].line, diff->how);
    size_t index = 0;
    found.launch = events[DIFF_A]->launch;
    found.has_fresh = found.what.kind != SEEN_EQUAL && seen_next_fresh(events[DIFF_A], events[DIFF_B], &index);
    if (found.what.kind != SEEN_EQUAL)
        note(diff, stream, &found);
    else if (is_fresh_copy(diff, events[DIFF_A], events[DIFF_B]))
        memcpy(diff->copied, at, sizeof found.at);
    stream->is_lost = found.what.kind == SEEN_OTHER_KERNEL;
}

/* ---- both files ---- */

static cufence_status pair(struct diff *diff, int side, const struct seen_event *event, struct seen_at at,
                           struct problem *problem)
{
    struct diff_stream *stream;
    struct seen_event other;
    struct seen_at both[DIFF_SIDES];
    cufence_status status = find_stream(diff, event->stream, &stream, problem);
    if (status != CUFENCE_OK || stream->is_lost)
        return status;
    if (!stream->waiting.count || stream->side == side) {
        stream->side = side;
        return wait_for_other(&stream->waiting, at) ? CUFENCE_OK : no_memory(problem);
    }
    both[side] = at;
    both[!side] = take_oldest(&stream->waiting);
    status = seen_file_again(&diff->files[!side], both[!side], &other, problem);
    if (status != CUFENCE_OK)
        return status;
    const struct seen_event *events[DIFF_SIDES] = {side == DIFF_A ? event : &other, side == DIFF_A ? &other : event};
    compare(diff, stream, events, both);
    seen_event_free(&other);
    return CUFENCE_OK;
}

/* Most runs do the same in the same order: then both events are at hand. Returns 0 if something waits in their stream. */
static int pair_at_once(struct diff *diff, const struct seen_event events[DIFF_SIDES], const struct seen_at at[DIFF_SIDES],
                        cufence_status *status, struct problem *problem)
{
    struct diff_stream *stream;
    const struct seen_event *both[DIFF_SIDES] = {&events[DIFF_A], &events[DIFF_B]};
    *status = find_stream(diff, events[DIFF_A].stream, &stream, problem);
    if (*status != CUFENCE_OK)
        return 1;
    if (stream->waiting.count)
        return 0;
    if (!stream->is_lost)
        compare(diff, stream, both, at);
    return 1;
}

/* Takes the next event of each file. */
static cufence_status advance(struct diff *diff, struct problem *problem)
{
    struct seen_event events[DIFF_SIDES] = {{0}, {0}};
    struct seen_at at[DIFF_SIDES];
    cufence_status status = CUFENCE_OK;
    for (int i = 0; i < DIFF_SIDES && status == CUFENCE_OK; i++)
        status = seen_file_next(&diff->files[i], &events[i], &at[i], problem);
    int are_alike = status == CUFENCE_OK && events[DIFF_A].stream && events[DIFF_A].stream == events[DIFF_B].stream;
    if (!are_alike || !pair_at_once(diff, events, at, &status, problem)) {
        for (int i = 0; i < DIFF_SIDES && status == CUFENCE_OK; i++)
            if (events[i].stream)
                status = pair(diff, i, &events[i], at[i], problem);
    }
    for (int i = 0; i < DIFF_SIDES; i++)
        seen_event_free(&events[i]);
    return status;
}

/* Whether no further line can hold a difference that comes before those that were found. */
static int is_enough(const struct diff *diff)
{
    if (diff->found_count < diff->most)
        return 0;
    uint64_t last = order_of(&diff->found[diff->most - 1]);
    for (size_t i = 0; i < diff->stream_count; i++) {
        const struct diff_stream *stream = &diff->streams[i];
        if (stream->waiting.count && !stream->is_lost && oldest(&stream->waiting).line < last)
            return 0;
    }
    return diff->files[DIFF_A].lines >= last && diff->files[DIFF_B].lines >= last;
}

/* What waits in the end has no counterpart. */
static void note_rest(struct diff *diff)
{
    for (size_t i = 0; i < diff->stream_count; i++) {
        struct diff_stream *stream = &diff->streams[i];
        struct diff_found found = {.what = {.kind = SEEN_LONGER, .index = SIZE_MAX}};
        if (!stream->waiting.count || stream->is_lost)
            continue;
        found.at[stream->side] = oldest(&stream->waiting);
        note(diff, stream, &found);
    }
}

cufence_status diff_compare(struct diff *diff, struct problem *problem)
{
    cufence_status status = CUFENCE_OK;
    while (status == CUFENCE_OK && !(diff->files[DIFF_A].has_ended && diff->files[DIFF_B].has_ended) && !diff->has_stopped) {
        status = advance(diff, problem);
        diff->has_stopped = is_enough(diff);
    }
    if (status == CUFENCE_OK && !diff->has_stopped)
        note_rest(diff);
    return status;
}

/* ---- to be shown ---- */

cufence_status diff_show(struct diff *diff, const struct diff_found *found, struct diff_shown *shown, struct problem *problem)
{
    cufence_status status = CUFENCE_OK;
    *shown = (struct diff_shown){.found = found};
    for (int i = 0; i < DIFF_SIDES && status == CUFENCE_OK; i++)
        if (found->at[i].line)
            status = seen_file_again(&diff->files[i], found->at[i], &shown->events[i], problem);
    if (status != CUFENCE_OK)
        diff_hide(shown);
    return status;
}

void diff_hide(struct diff_shown *shown)
{
    for (int i = 0; i < DIFF_SIDES; i++)
        seen_event_free(&shown->events[i]);
}

const char *const diff_kinds[SEEN_DIFFERENCES] = {
    [SEEN_EQUAL] = "equal",
    [SEEN_OTHER_KERNEL] = "another kernel",
    [SEEN_OTHER_GRID] = "another grid",
    [SEEN_OTHER_PLACE] = "launched at another place",
    [SEEN_OTHER_SCALAR] = "another argument",
    [SEEN_OTHER_POINTER] = "a pointer to something else",
    [SEEN_OTHER_INPUT] = "other inputs",
    [SEEN_OTHER_COPY] = "the program has copied or set other bytes",
    [SEEN_OTHER_STRUCT] = "equal inputs, another argument, other outputs",
    [SEEN_OTHER_OUTPUT] = "equal inputs and other outputs",
    [SEEN_LONGER] = "one run goes on",
};
