#include "calls.h"

#include <time.h>

const struct call_record *calls_add(struct calls *calls, const char *name, const void *frame)
{
    struct call_record *record = &calls->records[calls->count % CALLS_KEPT];
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    record->turn = ++calls->count;
    record->name = name;
    record->time_ns = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
    stack_capture_from(&record->stack, frame);
    return record;
}
