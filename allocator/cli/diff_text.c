/* What `cufence diff` prints for people. Text in a trace comes from a program, and must not reach a terminal unchecked. */
#include "diff.h"

#include "words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PUT(...) words_plain(stdout, __VA_ARGS__)

static const char *side_name(int side)
{
    return side == DIFF_A ? "A" : "B";
}

static void put_header(const struct diff *diff, int side)
{
    const struct trace_header *header = &diff->files[side].header;
    PUT("%s  %s: %s", side_name(side), diff->files[side].path, *header->program ? header->program : "?");
    if (*header->device)
        PUT(", %s", header->device);
    if (header->driver)
        PUT(", CUDA %" PRIu32 ".%" PRIu32, header->driver / 1000, header->driver % 1000 / 10);
    if (*header->filter)
        PUT(", only %s", header->filter);
    if (header->every > 1)
        PUT(", one launch in %" PRIu64, header->every);
    if (*header->fill)
        PUT(", fresh memory filled with %s", header->fill);
    putchar('\n');
}

static void put_event(const struct trace_event *event)
{
    PUT("%s%s",
        event->kind == TRACE_COPY    ? "copy "
        : event->kind == TRACE_SET   ? "set "
        : event->kind == TRACE_GRAPH ? "graph"
                                     : "",
        event->name);
    if (event->kind == TRACE_LAUNCH)
        PUT("<<<(%" PRIu32 ",%" PRIu32 ",%" PRIu32 "), (%" PRIu32 ",%" PRIu32 ",%" PRIu32 ")>>>", event->grid[0],
            event->grid[1], event->grid[2], event->block[0], event->block[1], event->block[2]);
    if (*event->place)
        PUT(" at %s", event->place);
}

static void put_row(const char *name)
{
    printf("\n  %-10s ", name);
}

/* ---- scalars ---- */

/* As an integer, and as a float where that looks like one. */
static void put_value(const struct trace_scalar *scalar)
{
    char *end = NULL;
    uint64_t bits = strtoull(scalar->value, &end, 16);
    uint32_t low = (uint32_t)bits;
    float single;
    double twice;
    PUT("%s", scalar->value);
    if (strncmp(scalar->value, "0x", 2) != 0 || *end || (scalar->bytes != 4 && scalar->bytes != 8))
        return;
    memcpy(&single, &low, sizeof single);
    memcpy(&twice, &bits, sizeof twice);
    double value = scalar->bytes == 4 ? (double)single : twice, size = value < 0 ? -value : value;
    printf(" (%lld", scalar->bytes == 4 ? (long long)(int32_t)low : (long long)bits);
    if (size > 1e-6 && size < 1e9)
        printf(", or %.9g", value);
    putchar(')');
}

/* Of a struct, a few bytes around the first that differ. */
static void put_scalars(const struct diff_shown *shown)
{
    const struct trace_event *events = shown->events;
    size_t index = shown->found->what.index, at = 0;
    int is_struct = index != SIZE_MAX && shown->found->what.kind == TRACE_OTHER_STRUCT;
    while (is_struct && events[DIFF_A].scalars[index].value[at] &&
           events[DIFF_A].scalars[index].value[at] == events[DIFF_B].scalars[index].value[at])
        at++;
    at -= at % 2;
    for (int i = 0; i < DIFF_SIDES; i++) {
        put_row(side_name(i));
        if (index == SIZE_MAX) {
            printf("%zu arguments that are not pointers", events[i].scalar_count);
            continue;
        }
        if (events[i].scalars[index].argument >= 0)
            printf("argument %d: ", events[i].scalars[index].argument);
        else
            printf("arguments: ");
        if (is_struct)
            printf("bytes from +%zu: %.16s", at / 2, events[i].scalars[index].value + at);
        else
            put_value(&events[i].scalars[index]);
    }
}

/* ---- buffers ---- */

static void put_buffer(const struct trace_buffer *buffer)
{
    if (buffer->argument >= 0)
        printf("argument %d: ", buffer->argument);
    PUT("buffer %s +%" PRIu64 ", %" PRIu64 " bytes", buffer->name, buffer->offset, buffer->size);
}

static void put_hash(const char *when, int has, uint64_t hash)
{
    if (has)
        printf(", %s %016" PRIx64, when, hash);
}

static void put_buffers(const struct diff_shown *shown)
{
    size_t index = shown->found->what.index;
    for (int i = 0; i < DIFF_SIDES; i++) {
        put_row(side_name(i));
        if (index == SIZE_MAX) {
            printf("%zu pointers to buffers", shown->events[i].buffer_count);
            continue;
        }
        const struct trace_buffer *buffer = &shown->events[i].buffers[index];
        put_buffer(buffer);
        if (shown->found->what.kind == TRACE_OTHER_POINTER)
            continue;
        put_hash("before", buffer->has_before, buffer->before);
        put_hash("after", buffer->has_after, buffer->after);
    }
}

/* Of two fills: what the launch may have used of what nobody has written. Returns whether there is something. */
static int put_fresh(const struct diff *diff, const struct diff_shown *shown)
{
    int has_some = 0;
    for (size_t i = 0; diff->ignored & TRACE_TWO_FILLS; i++) {
        if (!trace_next_fresh(&shown->events[DIFF_A], &shown->events[DIFF_B], &i))
            break;
        put_row(has_some ? "" : "unwritten");
        put_buffer(&shown->events[DIFF_A].buffers[i]);
        has_some = 1;
    }
    return has_some;
}

/* Who wrote the input last, in each run. */
static cufence_status put_writers(struct diff *diff, const struct diff_shown *shown, struct problem *problem)
{
    for (int i = 0; i < DIFF_SIDES; i++) {
        struct trace_write write;
        struct trace_event event;
        const struct trace_buffer *buffer = &shown->events[i].buffers[shown->found->what.index];
        int is_found = trace_writers_find(diff->files[i].writers, buffer->name, shown->found->at[i].line, &write);
        put_row("came from");
        printf("%s: ", side_name(i));
        if (is_found <= 0) {
            fputs(is_found                                   ? "not known any more: too long ago"
                  : trace_is_partial(&diff->files[i].header) ? "nothing in the trace, which leaves launches out"
                                                             : "nothing in the trace: never written, or written by the host",
                  stdout);
            continue;
        }
        cufence_status status =
            trace_file_again(&diff->files[i], (struct trace_at){.line = write.line, .offset = write.offset}, &event, problem);
        if (status != CUFENCE_OK)
            return status;
        printf("%" PRIu64 " of stream %" PRIu64 ", ", event.number, event.stream);
        put_event(&event);
        if (write.is_whole && buffer->has_before && buffer->bytes == buffer->size && write.after != buffer->before)
            fputs(", and changed since by something that the trace does not see", stdout);
        trace_event_free(&event);
    }
    return CUFENCE_OK;
}

/* ---- hints ---- */

static int has_other_device(const struct diff *diff)
{
    const struct trace_header *a = &diff->files[DIFF_A].header, *b = &diff->files[DIFF_B].header;
    return strcmp(a->device, b->device) != 0 || a->compute != b->compute || a->driver != b->driver;
}

static const char *hint_for(const struct diff *diff, const struct diff_found *found)
{
    static const char *const hints[TRACE_DIFFERENCES] = {
        [TRACE_OTHER_OUTPUT] =
            "a race, an order of atomics, or another compilation of the kernel; or it reads memory that cufence "
            "does not guard",
        [TRACE_OTHER_INPUT] = "the kernel uses memory that nothing in the trace has written",
        [TRACE_OTHER_COPY] = "the host's data differs: another seed or input file, or host memory that nobody has written",
        [TRACE_OTHER_KERNEL] = "the program took another path, or another version of it or of a library chose another kernel",
        [TRACE_OTHER_PLACE] = "if only the source has changed, --ignore place looks further",
        [TRACE_OTHER_GRID] = "--ignore grid looks further",
        [TRACE_OTHER_SCALAR] = "--ignore scalars looks further",
        [TRACE_OTHER_POINTER] =
            "the runs allocate other buffers, or in another order; --ignore buffers compares contents alone",
        [TRACE_LONGER] = "one run stopped earlier, or the program took another path",
    };
    if (found->what.kind == TRACE_OTHER_OUTPUT && has_other_device(diff))
        return "the GPU or the driver differs: other code, or other sums. If not, a race or an order of atomics";
    if (found->what.kind == TRACE_OTHER_INPUT && trace_is_partial(&diff->files[DIFF_A].header))
        return "what wrote the input last may have been left out: traces of all launches tell";
    if (found->what.kind == TRACE_OTHER_INPUT && found->what.is_written)
        return "see what wrote the input last; --all 100 shows the differences that follow";
    return hints[found->what.kind];
}

/* ---- a difference ---- */

/* The event that both runs have, or the one that is over. */
static const struct trace_event *event_of(const struct diff_shown *shown)
{
    return &shown->events[shown->found->at[DIFF_A].line ? DIFF_A : DIFF_B];
}

static void put_place(const struct diff_shown *shown)
{
    const struct diff_found *found = shown->found;
    const struct trace_event *a = &shown->events[DIFF_A], *b = &shown->events[DIFF_B];
    int is_alike = found->what.kind != TRACE_OTHER_KERNEL && found->what.kind != TRACE_OTHER_GRID &&
                   found->what.kind != TRACE_LONGER && !strcmp(a->place, b->place);
    for (int i = 0; i < DIFF_SIDES; i++) {
        if (is_alike && i == DIFF_B)
            break;
        put_row(is_alike ? "in" : side_name(i));
        if (found->at[i].line)
            put_event(&shown->events[i]);
        else
            fputs("ends before", stdout);
        if (found->at[i].line && found->what.kind == TRACE_LONGER)
            printf(", and %" PRIu64 " more", found->more - 1);
    }
    put_row("lines");
    for (int i = 0; i < DIFF_SIDES; i++)
        if (found->at[i].line)
            printf("%s%s:%" PRIu64, i && found->at[DIFF_A].line ? ", " : "", side_name(i), found->at[i].line);
}

static cufence_status put_before(struct diff *diff, const struct diff_found *found, struct problem *problem)
{
    for (int i = 0; i < DIFF_CONTEXT && found->before[i][DIFF_A].line; i++) {
        struct trace_event event;
        cufence_status status = trace_file_again(&diff->files[DIFF_A], found->before[i][DIFF_A], &event, problem);
        if (status != CUFENCE_OK)
            return status;
        put_row(i ? "" : "before it");
        printf("%" PRIu64 "  ", event.number);
        put_event(&event);
        trace_event_free(&event);
    }
    return CUFENCE_OK;
}

static cufence_status put_found(struct diff *diff, const struct diff_shown *shown, struct problem *problem)
{
    cufence_status status = CUFENCE_OK;
    const struct trace_difference *what = &shown->found->what;
    printf("\ndifference at event %" PRIu64 " of stream %" PRIu64 ": %s", event_of(shown)->number, shown->found->stream,
           diff_kinds[what->kind].words);
    put_place(shown);
    if (what->kind == TRACE_OTHER_SCALAR || what->kind == TRACE_OTHER_STRUCT)
        put_scalars(shown);
    else if (what->kind == TRACE_OTHER_POINTER || what->kind == TRACE_OTHER_INPUT || what->kind == TRACE_OTHER_COPY ||
             what->kind == TRACE_OTHER_OUTPUT)
        put_buffers(shown);
    int is_fresh = (what->kind == TRACE_OTHER_OUTPUT || what->kind == TRACE_OTHER_STRUCT) && put_fresh(diff, shown);
    if (what->kind == TRACE_OTHER_INPUT)
        status = put_writers(diff, shown, problem);
    if (status == CUFENCE_OK)
        status = put_before(diff, shown->found, problem);
    const char *hint = is_fresh
                           ? "the kernel computes with bytes that nobody has written, unless the program differs from run to "
                             "run by itself: `cufence hunt --uninit` tells"
                           : hint_for(diff, shown->found);
    if (hint) {
        put_row("hint");
        fputs(hint, stdout);
    }
    putchar('\n');
    return status;
}

/* ---- the whole ---- */

static void put_warnings(const struct diff *diff)
{
    for (int i = 0; i < DIFF_SIDES && !diff->has_stopped; i++) {
        const struct trace_file *file = &diff->files[i];
        if (!file->is_whole)
            printf("%s has no last line%s: its program was killed, or still runs\n", side_name(i),
                   file->is_cut ? ", and ends in the middle of one" : "");
        if (file->missed)
            printf("%s lacks the hashes of %" PRIu64 " events: the device was faster than the trace\n", side_name(i),
                   file->missed);
    }
}

cufence_status diff_print_text(struct diff *diff, struct problem *problem)
{
    cufence_status status = CUFENCE_OK;
    struct diff_shown shown;
    put_header(diff, DIFF_A);
    put_header(diff, DIFF_B);
    put_warnings(diff);
    for (size_t i = 0; i < diff->found_count && status == CUFENCE_OK; i++) {
        status = diff_show(diff, &diff->found[i], &shown, problem);
        if (status == CUFENCE_OK) {
            status = put_found(diff, &shown, problem);
            diff_hide(&shown);
        }
    }
    if (status != CUFENCE_OK)
        return status;
    if (!diff->found_count) {
        printf("SUMMARY: cufence: the runs are equal: %" PRIu64 " events in %zu stream%s\n", diff->compared, diff->stream_count,
               diff->stream_count == 1 ? "" : "s");
        return CUFENCE_OK;
    }
    status = diff_show(diff, &diff->found[0], &shown, problem);
    if (status == CUFENCE_OK) {
        const struct trace_event *event = event_of(&shown);
        PUT("SUMMARY: cufence: the first difference is at event %" PRIu64 " of stream %" PRIu64 ", %s: %s", event->number,
            shown.found->stream, *event->name ? event->name : "a graph", diff_kinds[shown.found->what.kind].words);
        putchar('\n');
        diff_hide(&shown);
    }
    return status;
}
