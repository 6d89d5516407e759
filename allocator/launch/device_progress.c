#include "device_progress.h"

#include "base/lock.h"
#include "driver/driver.h"

#define MARKS 1024u
#define SPARSE 16u /* launches for each event, where half of the marks are taken */

enum state { FREE, HELD, UNDER_WAY };

static struct mark {
    enum state state; /* atomic */
    CUevent event;
    const struct context *context;
} marks[MARKS];
static unsigned launches, under_way;       /* atomic */
static struct lock lock = LOCK(RANK_LEAF); /* for who asks, and for the end of a context */
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

static int record(struct mark *mark, CUstream stream)
{
    if (driver->cuEventCreate(&mark->event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        return 0;
    int is_recorded = driver->cuEventRecord(mark->event, stream) == CUDA_SUCCESS;
    if (!is_recorded)
        driver->cuEventDestroy(mark->event);
    return is_recorded;
}

void progress_launched(struct context *context, CUstream stream)
{
    unsigned number = __atomic_fetch_add(&launches, 1, __ATOMIC_RELAXED);
    struct mark *mark = &marks[number % MARKS];
    int is_sparse = __atomic_load_n(&under_way, __ATOMIC_RELAXED) >= MARKS / 2;
    if ((is_sparse && number % SPARSE) || !stream_is_open(stream) || !take(mark, FREE))
        return;
    mark->context = context;
    int is_recorded = record(mark, stream);
    __atomic_add_fetch(&under_way, is_recorded, __ATOMIC_RELAXED);
    leave(mark, is_recorded ? UNDER_WAY : FREE);
}

static void drop(struct mark *mark)
{
    driver->cuEventDestroy(mark->event);
    __atomic_sub_fetch(&under_way, 1, __ATOMIC_RELAXED);
    leave(mark, FREE);
}

int progress_was_made(void)
{
    int was_made = 0;
    HOLD(&lock);
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
    return was_made;
}

void progress_forget(const struct context *context)
{
    HOLD(&lock);
    for (struct mark *mark = marks; progress_is_wanted() && mark < marks + MARKS; mark++) {
        if (!take(mark, UNDER_WAY))
            continue;
        if (mark->context == context)
            drop(mark);
        else
            leave(mark, UNDER_WAY);
    }
}
