#include "device_progress.h"

#include "driver/driver.h"

#include <sched.h>

#define MARKS 1024u
#define SPARSE 16u /* pieces of work for each event, where half of the marks are taken */

enum state { FREE, HELD, UNDER_WAY };

static struct mark {
    enum state state; /* atomic */
    CUevent event;
    const struct context *context; /* atomic */
} marks[MARKS];
static unsigned queued, under_way; /* atomic */
int progress_wanted;

void progress_open(void)
{
    __atomic_store_n(&progress_wanted, 1, __ATOMIC_RELAXED);
}

static int take(struct mark *mark, enum state expected)
{
    return __atomic_compare_exchange_n(&mark->state, &expected, HELD, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static void leave(struct mark *mark, enum state as)
{
    __atomic_store_n(&mark->state, as, __ATOMIC_RELEASE);
}

/* Its event is the context's, until that ends and destroys it, or another one takes the mark. */
static int record(struct mark *mark, const struct context *context, CUstream stream)
{
    if (mark->event && mark->context != context) {
        driver->cuEventDestroy(mark->event);
        mark->event = NULL;
    }
    __atomic_store_n(&mark->context, context, __ATOMIC_RELEASE);
    if (!mark->event && driver->cuEventCreate(&mark->event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        mark->event = NULL;
    int is_recorded = mark->event && driver->cuEventRecord(mark->event, stream) == CUDA_SUCCESS;
    if (mark->event && !is_recorded) { /* of a green context, say */
        driver->cuEventDestroy(mark->event);
        mark->event = NULL;
    }
    return is_recorded;
}

void progress_queued(struct context *context, CUstream stream)
{
    unsigned number = __atomic_fetch_add(&queued, 1, __ATOMIC_RELAXED);
    struct mark *mark = &marks[number % MARKS];
    int is_sparse = __atomic_load_n(&under_way, __ATOMIC_RELAXED) >= MARKS / 2;
    if (!context || (is_sparse && number % SPARSE))
        return;
    const struct stream *named = stream_in(context, stream);
    SCOPE scope = scope_enter_stream(named);
    if (!scope.pushed || !take(mark, FREE))
        return;
    int is_recorded = record(mark, context, named->handle);
    __atomic_add_fetch(&under_way, is_recorded, __ATOMIC_RELAXED);
    leave(mark, is_recorded ? UNDER_WAY : FREE);
}

static void drop(struct mark *mark)
{
    __atomic_sub_fetch(&under_way, 1, __ATOMIC_RELAXED);
    leave(mark, FREE);
}

int progress_was_made(void)
{
    int was_made = 0;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    driver->cuThreadExchangeStreamCaptureMode(&mode); /* another thread's capture forbids to ask, and would be ended by it */
    for (struct mark *mark = marks; mark < marks + MARKS; mark++) {
        if (!take(mark, UNDER_WAY))
            continue;
        if (driver->cuEventQuery(mark->event) == CUDA_ERROR_NOT_READY) {
            leave(mark, UNDER_WAY);
        } else {
            drop(mark);
            was_made = 1;
        }
    }
    driver->cuThreadExchangeStreamCaptureMode(&mode);
    return was_made;
}

void progress_forget(const struct context *context)
{
    for (struct mark *mark = marks; progress_is_wanted() && mark < marks + MARKS; mark++) {
        enum state state = HELD; /* who asks has it, or a launch in another context takes it over */
        while (__atomic_load_n(&mark->context, __ATOMIC_ACQUIRE) == context && state == HELD)
            state = take(mark, UNDER_WAY) ? UNDER_WAY : take(mark, FREE) ? FREE : (sched_yield(), HELD);
        if (state == HELD)
            continue;
        int is_gone = mark->context == context;
        if (is_gone)
            mark->event = NULL;
        if (is_gone && state == UNDER_WAY)
            drop(mark);
        else
            leave(mark, state);
    }
}
