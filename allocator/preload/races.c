/* Reports buffers that are freed or overwritten while work on another stream may still use them (streams=on). */
#include "internal.h"

#include "base/aside.h"
#include "base/clock.h"
#include "base/error.h"
#include "finding/finding.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define RACES_NAMED 16u /* per process: a program may do it in a loop */

static const char *name_of(const struct earlier_use *use, char *name, size_t size)
{
    if (!use->kernel)
        return use->call;
    finding_kernel_of(use->kernel, name, size);
    return name[0] ? name : "a kernel";
}

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

/* verb: what the call does to the buffer. */
static void report(const struct host_call *call, const struct order_race *race, struct misuse what, const char *verb)
{
    static unsigned named; /* atomic */
    cufence_description where;
    char name[256], on[48] = "";
    struct order_details *details = malloc(sizeof *details);
    if (!details)
        return;
    what.now_ns = monotonic_ns(); /* naming the frames takes a while */
    struct describing describing = {race, __atomic_fetch_add(&named, 1, __ATOMIC_RELAXED) < RACES_NAMED, details};
    aside_call(describe, &describing);
    heap_describe(race->address, &where);
    if (!race->by_host)
        snprintf(on, sizeof on, " on stream 0x%" PRIx64, details->use.by_stream);
    error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "%s buffer #%" PRIu64 "%s, which %s on stream 0x%" PRIx64 " may still use", verb,
              where.buffer.id, on, name_of(&details->use, name, sizeof name), details->use.stream);
    what.kind = "stream race";
    what.address = race->address;
    what.where = &where;
    what.earlier = &details->use;
    misuse(call, what);
    free(details);
}

void races_before_free(const struct host_call *call, CUdeviceptr pointer, CUstream stream)
{
    struct order_race race;
    if (order_before_free(pointer, stream, &race))
        report(call, &race, (struct misuse){.access = ACCESS_UNKNOWN}, "frees");
}

void races_copied(const struct host_call *call)
{
    struct order_race race;
    if (order_copied(call->copy, &race))
        report(call, &race, (struct misuse){.access = ACCESS_WRITE, .bytes = race.bytes}, "writes");
}
