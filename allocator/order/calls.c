#include "calls.h"

#include "base/clock.h"

const struct call_record *calls_add(struct calls *calls, const char *name, const void *frame)
{
    struct call_record *record = &calls->records[calls->count % CALLS_KEPT];
    record->turn = ++calls->count;
    record->name = name;
    record->time_ns = clock_ns(CLOCK_MONOTONIC_COARSE);
    stack_capture_from(&record->stack, frame);
    return record;
}
