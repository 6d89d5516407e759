#include "lifecycle.h"

#include "base/aside.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/lost_reports.h"
#include "contexts/contexts.h"
#include "launch/launch.h"
#include "launch/device_progress.h"
#include "fault/delivery.h"
#include "fault/monitor.h"

#include <stdio.h>

#define REPORT_MS 5000
#define SLACK_MS 2000 /* at most, for the last check of buffers */

static void learn(void *is_context_idle)
{
    fault_learn(*(int *)is_context_idle);
}

void settle_learn(CUresult result, int is_context_idle)
{
    if (result != CUDA_SUCCESS && context_fault() == CUDA_SUCCESS)
        monitor_await_dump();
    struct context *context = context_current();
    uint64_t launches = context ? launch_count(context) : 0;
    if (!context || (contexts_are_watched() && launch_is_settled(context, launches))) /* else launches are not seen */
        return;
    aside_call(learn, &is_context_idle);
    if (is_context_idle)
        launch_settle(context, launches);
}

/* ---- the last check ---- */

static char unchecked[160];

const char *settle_unchecked(void)
{
    return unchecked;
}

static void note_unchecked(void)
{
    static struct lock noting = LOCK(RANK_LEAF);
    HOLD(&noting);
    if (!unchecked[0])
        snprintf(unchecked, sizeof unchecked, "%s", error_detail());
}

void settle_check(struct context *only)
{
    size_t found = 0;
    if (delivery_is_in_handler())
        return;
    if (only ? heap_check_context(only, SLACK_MS) != CUFENCE_OK
             : heap_watches() && heap_check_slack(-1, 0, SLACK_MS, &found) != CUFENCE_OK)
        note_unchecked();
    heap_collect();
    if (only) /* another thread's report may need its memory */
        untold_await(monotonic_ms() + REPORT_MS);
}

/* ---- the end of a context ---- */

struct end {
    CUcontext context;
    CUresult result;
};

static void await_end(void *argument)
{
    struct end *end = argument;
    CUcontext popped;
    struct context *known = NULL;
    CUresult result = driver->cuCtxPushCurrent(end->context);
    if (result == CUDA_SUCCESS) {
        if (context_fault() == CUDA_SUCCESS) {
            result = driver->cuCtxSynchronize();
            if (result == CUDA_SUCCESS || driver_has_faulted(result))
                settle_learn(result, 1);
            if (result == CUDA_SUCCESS && context_fault() == CUDA_SUCCESS && (known = context_current()) != NULL)
                settle_check(known); /* NULL would mean those of contexts that still work */
        }
        driver->cuCtxPopCurrent(&popped);
    }
    monitor_wait(REPORT_MS);
    end->result = result;
}

CUresult settle_before_end(CUcontext context, struct books **held)
{
    struct end end = {.context = context};
    aside_call(await_end, &end);
    struct context *known = context_known(context);
    if (known)
        progress_forget(known);
    *held = heap_hold(known, 1);
    launch_forget_functions(); /* once the context has ended, their handles may be other functions' */
    return end.result;
}
