#include "closing.h"

#include "base/clock.h"
#include "base/output.h"
#include "base/tally.h"
#include "base/text.h"
#include "finding/writer.h"
#include "heap/heap.h"
#include "heap/slack/poison.h"
#include "heap/unguarded/unguarded.h"
#include "launch/launch.h"
#include "launch/tensor_maps.h"
#include "stacks/stack.h"
#include "fault/delivery.h"
#include "fault/tell.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    uint64_t count, bytes; /* atomic */
} unguarded[UNGUARDED_KINDS];

void closing_unguarded(enum unguarded kind, uint64_t bytes)
{
    __atomic_fetch_add(&unguarded[kind].count, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&unguarded[kind].bytes, bytes, __ATOMIC_RELAXED);
}

static int is_torch; /* atomic */

void closing_torch(void)
{
    __atomic_store_n(&is_torch, 1, __ATOMIC_RELAXED);
}

struct number {
    char text[64];
};

/* "1,311,200" */
static struct number grouped(uint64_t value)
{
    struct number number;
    int length = snprintf(number.text, sizeof number.text, "%" PRIu64, value);
    for (int at = length - 3; at > 0; at -= 3) {
        memmove(number.text + at + 1, number.text + at, (size_t)(length - at) + 1);
        number.text[at] = ',';
        length++;
    }
    return number;
}

/* Says nothing of a process that ended before the first place had its turn. */
static void say_what_was_tested(const cufence_stats *stats, int is_verbose)
{
    char more[192] = "";
    if (!stats->tested_places && stats->tested_buffers) /* uaf=strict, which counts no places */
        output_note("use after free: tested for %s of %s freed buffer%s", grouped(stats->tested_buffers).text,
                    grouped(stats->frees).text, plural(stats->frees));
    if (!stats->tested_places)
        return;
    if (is_verbose)
        snprintf(more, sizeof more, ", with %s buffer%s in %s full round%s", grouped(stats->tested_buffers).text,
                 plural(stats->tested_buffers), grouped(stats->tested_rounds).text, plural(stats->tested_rounds));
    output_note("use after free: tested for %s of %s allocation site%s%s", grouped(stats->tested_places).text,
                grouped(stats->freed_places).text, plural(stats->freed_places), more);
}

static void say_what_was_packed(const cufence_stats *stats)
{
    if (stats->packed_allocations)
        output_note("packed: %s allocation%s shared pages, with redzones that kernels check%s; small=map gives "
                    "each a page of its own",
                    grouped(stats->packed_allocations).text, plural(stats->packed_allocations),
                    stats->freed_places ? ", and were not tested for use after free" : "");
}

static void say_tensor_maps(void)
{
    const struct maps_figures maps = maps_figures();
    if (maps.encoded)
        output_note("tensor maps: %s of guarded buffers, of which %s reach%s past the end of theirs",
                    grouped(maps.encoded).text, grouped(maps.too_large).text, maps.too_large == 1 ? "es" : "");
}

static void say_unchecked_poison(void)
{
    uint64_t bytes = __atomic_load_n(&poison_unchecked, __ATOMIC_RELAXED);
    if (bytes)
        output_note("poison: %s unpoisoned or freed without a check, as during a capture", bytes_of(bytes).text);
}

static void say_unguarded(void)
{
    static const char *const names[] = {"of managed memory (cuMemAllocManaged)",
                                        "of physical memory that the program maps itself (cuMemCreate)",
                                        "of nodes that the program adds to graphs (cuGraphAddMemAllocNode)"};
    for (int kind = 0; kind < UNGUARDED_KINDS; kind++) {
        uint64_t count = __atomic_load_n(&unguarded[kind].count, __ATOMIC_RELAXED);
        if (count)
            output_note("not guarded: %s allocation%s %s, %s in all: cufence leaves them to the driver", grouped(count).text,
                        plural(count), names[kind], bytes_of(__atomic_load_n(&unguarded[kind].bytes, __ATOMIC_RELAXED)).text);
    }
    for (int why = PASSED_NOT + 1; why < PASSED_REASONS; why++) {
        struct passed_figures passed = passed_figures((enum passed_reason)why);
        if (passed.count)
            output_note("not guarded: %s buffer%s %s, %s in all: the driver allocated them", grouped(passed.count).text,
                        plural(passed.count), passed_word((enum passed_reason)why), bytes_of(passed.bytes).text);
    }
}

/* The device memory that the driver has allocated. */
static void count_left(struct guarded *guarded)
{
    const struct passed_figures passed = passed_sums();
    guarded->left = passed.count;
    guarded->left_bytes = passed.bytes;
    for (int kind = 0; kind < UNGUARDED_KINDS; kind++) {
        guarded->left += __atomic_load_n(&unguarded[kind].count, __ATOMIC_RELAXED);
        guarded->left_bytes += __atomic_load_n(&unguarded[kind].bytes, __ATOMIC_RELAXED);
    }
}

static void say_what_was_guarded(const cufence_stats *stats, uint64_t launches, const struct ending *ending)
{
    uint64_t found = delivery_findings();
    struct guarded left = {0};
    count_left(&left);
    char findings[256] = "", seen[96] = "", most[96] = "";
    if (found)
        snprintf(findings, sizeof findings, "%s finding%s", grouped(found).text, plural(found));
    else if (ending->blind && ending->blind != EMFILE && ending->is_told && !ending->has_faulted)
        snprintf(findings, sizeof findings, "no faults seen, but the driver could not have told of one: %s",
                 strerror(ending->blind));
    else if (ending->unchecked[0] && ending->is_awaited && !ending->has_faulted && ending->is_told && !ending->blind)
        snprintf(findings, sizeof findings, "no faults, but not all buffers were checked for writes beside them: %s",
                 ending->unchecked);
    else
        snprintf(findings, sizeof findings, "%s",
                 ending->has_faulted ? "a kernel has faulted, without a report"
                 : !ending->is_told  ? "something was found, without a report"
                 : ending->blind == EMFILE
                     ? "no faults seen, but no file descriptor was left, and the driver needs one to tell of a fault"
                 : ending->is_awaited ? "no faults"
                                      : "no faults seen, but the devices may still be working");
    if (launches)
        snprintf(seen, sizeof seen, ", %s launch%s seen", grouped(launches).text, plural_es(launches));
    if (stats->peak_live_bytes) /* exact to 1 MiB */
        snprintf(most, sizeof most, " (at most %s at once)", bytes_of(stats->peak_live_bytes).text);
    if (stats->allocations)
        output_note("%s; %s allocation%s guarded%s%s%s", findings, grouped(stats->allocations).text, plural(stats->allocations),
                    most, seen, __atomic_load_n(&is_torch, __ATOMIC_RELAXED) ? "; PyTorch's allocator: cufence" : "");
    else if (!left.left && (found || ending->has_faulted)) /* what was found needed no guard */
        output_note("%s; cufence saw no allocation of device memory%s", findings, seen);
    else
        output_note("NOTHING WAS GUARDED: %s%s%s",
                    left.left ? "every allocation was left to the driver, for the reasons below"
                              : "cufence saw no allocation of device memory",
                    seen, left.left ? "" : "; `cufence doctor` helps to find out why");
}

void closing_report_leaks(void)
{
    struct heap_use *found;
    size_t count = heap_use(-1, &found);
    for (size_t i = 0; found && i < count; i++) {
        struct leak leak = {.largest = &found[i].largest,
                            .buffers = found[i].buffers,
                            .bytes = found[i].bytes,
                            .frames = {stack_buffer_frames, NULL},
                            .now_ns = monotonic_ns()};
        tell_leak(&leak);
    }
    free(found);
}

/* The last report's summary once more. */
static void say_summary(void)
{
    static const char mark[] = "== SUMMARY: cufence: ";
    size_t size = delivery_last_text(NULL, 0);
    char *text = size ? malloc(size) : NULL, *line = NULL;
    if (text && delivery_last_text(text, size) == size && size > 1) {
        text[size - 2] = '\0'; /* the newline */
        line = strrchr(text, '\n');
    }
    if (line && strstr(line, mark))
        output_say("%s\n", line + 1);
    free(text);
}

void closing_say_unused(void)
{
    if (!tally_is_kept())
        output_note("NOTHING WAS GUARDED: this process created no CUDA context");
}

void closing_record(void)
{
    cufence_stats stats;
    if (heap_stats(-1, &stats) != CUFENCE_OK)
        return;
    struct guarded guarded = {.allocations = stats.allocations,
                              .peak_bytes = stats.peak_live_bytes,
                              .launches = launch_total(),
                              .findings = delivery_findings(),
                              .known = delivery_known()};
    count_left(&guarded);
    tell_guarded(&guarded);
}

void closing_say(const struct ending *ending)
{
    cufence_stats stats;
    uint64_t launches = launch_total();
    if (!ending->has_faulted && (ending->blind || !ending->is_awaited || ending->unchecked[0]))
        tally_note(TALLY_BLIND);
    tally_note(TALLY_SAID);
    if (heap_stats(-1, &stats) != CUFENCE_OK || (ending->is_quiet && stats.allocations))
        return;
    say_what_was_guarded(&stats, launches, ending);
    say_what_was_tested(&stats, ending->is_verbose);
    say_what_was_packed(&stats);
    if (ending->is_verbose)
        say_tensor_maps();
    say_unchecked_poison();
    say_unguarded();
    if (ending->exitcode && ending->exitcode != ending->status)
        output_note("exit status %d because of what was found; the program's own was %d (on_fault=error/0 keeps it)",
                    ending->exitcode, ending->status);
    if (ending->status) /* the program has failed: its own message or traceback stands between */
        say_summary();
}
