#include "internal.h"

#include "fault/monitor.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Not on the stack, of which stack_capture() takes the top: it would find little else there. */
struct caller {
    struct stack stack;
    struct stack_frame frames[STACK_SHOWN];
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

CUresult misuse(struct misuse what)
{
    struct caller *caller = malloc(sizeof *caller);
    what.now_ns = now_ns(); /* making frames readable takes a while */
    if (caller) {
        stack_capture(&caller->stack);
        what.frames = caller->frames;
        what.frame_count = stack_frames(&caller->stack, caller->frames, STACK_SHOWN);
    }
    what.tid = (uint64_t)gettid();
    what.sentence = cufence_error_detail();
    what.buffer_frames = stack_python_frames;
    monitor_misuse(&what);
    free(caller);
    return CUDA_ERROR_INVALID_VALUE;
}
