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

struct telling {
    const struct order_race *race;
    int has_frames;
    struct order_told *told;
};

static void tell(void *argument)
{
    const struct telling *telling = argument;
    order_tell(telling->race, telling->has_frames, telling->told);
}

/* verb: what the call does to the buffer. */
static void report(const struct host_call *call, const struct order_race *race, struct misuse what, const char *verb)
{
    static unsigned named; /* atomic */
    cufence_description place;
    char name[256], on[48] = "";
    struct order_told *told = malloc(sizeof *told);
    if (!told)
        return;
    what.now_ns = monotonic_ns(); /* naming the frames takes a while */
    struct telling telling = {race, __atomic_fetch_add(&named, 1, __ATOMIC_RELAXED) < RACES_NAMED, told};
    aside_call(tell, &telling);
    heap_describe(race->address, &place);
    if (!race->by_host)
        snprintf(on, sizeof on, " on stream 0x%" PRIx64, told->use.by_stream);
    error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "%s buffer #%" PRIu64 "%s, which %s on stream 0x%" PRIx64 " may still use", verb,
              place.buffer.id, on, name_of(&told->use, name, sizeof name), told->use.stream);
    what.kind = "stream race";
    what.address = race->address;
    what.place = &place;
    what.earlier = &told->use;
    misuse(call, what);
    free(told);
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
