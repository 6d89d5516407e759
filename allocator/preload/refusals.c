#include "preload_internal.h"

#include "base/lock.h"
#include "base/aside.h"
#include "base/clock.h"
#include "base/thread.h"
#include "fault/monitor.h"

#include <stdlib.h>

/* Naming a caller's frames takes up to 0.1 s, and a program may free twice in a loop: each stack is named once, and only so
 * many are. They are kept for the life of the process. */
#define CALLERS_NAMED 16
static struct caller {
    uint64_t hash; /* of its stack */
    size_t frame_count;
    struct stack_frame frames[STACK_READ];
} * callers[CALLERS_NAMED];
static unsigned named;
static struct lock lock = LOCK(RANK_LEAF); /* of the two before it; a leaf */

static const struct caller nameless; /* there is no room any more */

/* Returns NULL if it has not been named yet. */
static const struct caller *find(uint64_t hash)
{
    HOLD(&lock);
    for (unsigned i = 0; i < named; i++)
        if (callers[i]->hash == hash)
            return callers[i];
    return named < CALLERS_NAMED ? NULL : &nameless;
}

static const struct caller *caller_of(const struct stack *stack)
{
    uint64_t hash = stack_native_hash(stack) ^ (uint64_t)stack->python << 48;
    const struct caller *known = find(hash);
    struct caller *fresh = known ? NULL : malloc(sizeof *fresh);
    if (!fresh)
        return known;
    fresh->hash = hash;
    fresh->frame_count = stack_frames(stack, fresh->frames, STACK_READ);
    HOLD(&lock);
    if (named < CALLERS_NAMED)
        return callers[named++] = fresh;
    free(fresh);
    return NULL;
}

struct reported {
    struct misuse *what;
    struct stack stack;
};

static void report(void *argument)
{
    const struct reported *reported = argument;
    const struct caller *caller = caller_of(&reported->stack);
    reported->what->frames = caller ? caller->frames : NULL;
    reported->what->frame_count = caller ? caller->frame_count : 0;
    monitor_misuse(reported->what);
}

CUresult misuse(const struct host_call *call, struct misuse what)
{
    struct reported reported = {.what = &what};
    if (!what.now_ns)
        what.now_ns = monotonic_ns(); /* taken first: resolving frames takes a while */
    stack_capture_from(&reported.stack, call->frame);
    what.call = call->name;
    what.tid = thread_id();
    what.sentence = cufence_error_detail();
    what.buffer_frames.read = stack_buffer_frames;
    aside_call(report, &reported);
    return CUDA_ERROR_INVALID_VALUE;
}
