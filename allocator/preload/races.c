/* Reports buffers that are freed or overwritten while work on another stream may still use them (streams=on), and page-locked
 * memory of the host that is changed, freed or read while a copy may still use it (streams=on+host). */
#include "preload_internal.h"

#include "base/aside.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/lost_reports.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define RACES_NAMED 16u /* per process: a program may do it in a loop */

struct describing {
    const struct order_race *race;
    int has_frames;
    struct order_details *details;
};

static void describe(void *argument)
{
    const struct describing *describing = argument;
    order_describe(describing->race, describing->has_frames, describing->details);
}

/* Names the frames of the first ones. */
static struct order_details *details_of(const struct order_race *race)
{
    static unsigned named; /* atomic */
    struct order_details *details = malloc(sizeof *details);
    if (!details) {
        untold_for_ever();
        return NULL;
    }
    struct describing describing = {race, __atomic_fetch_add(&named, 1, __ATOMIC_RELAXED) < RACES_NAMED, details};
    aside_call(describe, &describing);
    return details;
}

/* verb: what the call does to the buffer. */
static void report(const struct host_call *call, const struct order_race *race, struct misuse what, const char *verb)
{
    cufence_description where;
    char name[256], on[48] = "";
    what.now_ns = monotonic_ns(); /* naming the frames takes a while */
    struct order_details *details = details_of(race);
    if (!details)
        return;
    heap_describe(race->address, &where);
    if (!race->by_host)
        snprintf(on, sizeof on, " on stream 0x%" PRIx64, details->use.by_stream);
    error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "%s buffer #%" PRIu64 "%s, which %s on stream 0x%" PRIx64 " may still use", verb,
              where.buffer.id, on, use_name(&details->use, name, sizeof name), details->use.stream);
    what.kind = "stream race";
    what.address = race->address;
    what.where = &where;
    what.earlier = &details->use;
    misuse(call, what);
    free(details);
}

/* ---- memory of the host ---- */

/* The call does something with the memory, which a copy does something with. */
static void report_host(const struct host_call *call, const struct order_race *race, const char *does, const char *copy_does)
{
    static const cufence_description where = {.place = CUFENCE_PLACE_UNKNOWN};
    struct misuse what = {.kind = "stream race", .address = race->address, .where = &where, .now_ns = monotonic_ns()};
    struct order_details *details = details_of(race);
    if (!details)
        return;
    error_set(CUFENCE_ERROR_INVALID_ARGUMENT,
              "%s %" PRIu64 " bytes of pinned memory at 0x%" PRIx64 ", which %s on stream 0x%" PRIx64 " %s", does, race->bytes,
              race->address, details->use.call, details->use.stream, copy_does);
    details->use.is_host_memory = 1;
    what.earlier = &details->use;
    misuse(call, what);
    free(details);
}

void races_host_copy(const struct host_call *call, const void *memory, size_t size, int is_read)
{
    struct order_race race;
    uint64_t start = (uint64_t)(uintptr_t)memory;
    if (!order_host_is_wanted() || heap_owns(start))
        return;
    if (is_read && order_host_conflict(start, size, ORDER_HOST_COPIES, &race))
        report_host(call, &race, "finds a change in", "may still read");
    order_host_begins(call->copy, memory, size, is_read);
}

void races_settle(const struct host_call *call)
{
    struct order_race race;
    while (order_host_next_changed(&race))
        report_host(call, &race, "finds a change in", "might still have read when it was made");
}

void races_before_host_free(const struct host_call *call, void *memory)
{
    struct order_race race;
    struct pinned pinned;
    if (!order_host_is_wanted() || !pinned_find((uint64_t)(uintptr_t)memory, &pinned))
        return;
    if (order_host_conflict(pinned.address, pinned.bytes, ORDER_HOST_FREES, &race))
        report_host(call, &race, "frees", "may still use");
    order_host_forget(pinned.address, pinned.bytes);
}

/* Public: it belongs to the hooks, without which there is nothing to ask. */
__attribute__((visibility("default"))) cufence_status cufence_check_host(const void *memory, size_t size, const char *by)
{
    struct order_race race;
    if (!order_host_is_wanted() || !order_host_conflict((uint64_t)(uintptr_t)memory, size, ORDER_HOST_READS, &race))
        return CUFENCE_OK;
    report_host(HOST_CALL(by ? by : "cufence_check_host"), &race, "reads", "may still write");
    return CUFENCE_ERROR_INVALID_ARGUMENT;
}

/* ---- memory of the device ---- */

void races_tell(const char *call, const void *frame, const struct order_race *race)
{
    report(&(const struct host_call){.name = call, .frame = frame}, race, (struct misuse){.access = ACCESS_UNKNOWN}, "frees");
}

void races_before_free(const struct host_call *call, const struct heap_claim *claim, struct stream *stream)
{
    struct heap_range buffer;
    struct order_race race;
    heap_claimed(claim, &buffer);
    if (order_before_free(&buffer, stream, &race))
        races_tell(call->name, call->frame, &race);
}

void races_copied(const struct host_call *call)
{
    struct order_race race;
    if (order_copied(call->copy, &race))
        report(call, &race, (struct misuse){.access = ACCESS_WRITE, .bytes = race.bytes}, "writes");
}
