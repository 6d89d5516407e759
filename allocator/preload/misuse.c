#include "internal.h"

#include "base/thread.h"
#include "witness/monitor.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define CALLERS_NAMED 16 /* per process: each takes up to 0.1 s, and a program may free twice in a loop */

/* Too large for the stack. */
struct caller {
    struct stack stack;
    struct stack_frame frames[STACK_READ];
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

CUresult misuse(const struct host_call *call, struct misuse what)
{
    static unsigned named; /* atomic */
    struct caller *caller = __atomic_fetch_add(&named, 1, __ATOMIC_RELAXED) < CALLERS_NAMED ? malloc(sizeof *caller) : NULL;
    if (!what.now_ns)
        what.now_ns = now_ns(); /* taken first: resolving frames takes a while */
    if (caller) {
        stack_capture_from(&caller->stack, call->frame);
        what.frames = caller->frames;
        what.frame_count = stack_frames(&caller->stack, caller->frames, STACK_READ);
    }
    /* The hook's own frame: its return address is the word above the saved frame pointer. */
    what.caller = ((const uint64_t *)call->frame)[1] ^ (uint64_t)stack_capture_python() << 48;
    what.call = call->name;
    what.tid = thread_id();
    what.sentence = cufence_error_detail();
    what.buffer_frames.read = stack_buffer_frames;
    monitor_misuse(&what);
    free(caller);
    return CUDA_ERROR_INVALID_VALUE;
}
