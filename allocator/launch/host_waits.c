#include "host_waits.h"

#include "base/clock.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct lock lock = LOCK(RANK_LEAF);
static struct host_wait waits[HOST_WAITS]; /* free where `call` is NULL */

unsigned host_wait_begins(const char *call, const void *frame)
{
    struct host_wait wait = {.call = call, .tid = thread_id(), .since_ns = monotonic_ns()};
    unsigned number = 0;
    stack_capture_from(&wait.stack, frame);
    HOLD(&lock);
    while (number < HOST_WAITS && waits[number].call)
        number++;
    if (number < HOST_WAITS)
        waits[number] = wait;
    return number;
}

void host_wait_ends(unsigned number)
{
    HOLD(&lock);
    if (waits[number].tid == thread_id())
        waits[number].call = NULL;
}

static int compare(const void *left, const void *right)
{
    const struct host_wait *a = left, *b = right;
    return LIST_ORDER(a->since_ns, b->since_ns);
}

size_t host_waits_read(struct host_wait out[HOST_WAITS])
{
    size_t count = 0;
    HOLD(&lock);
    for (struct host_wait *wait = waits; wait < waits + HOST_WAITS; wait++) {
        /* A thread that was cancelled in the call takes no note back. */
        if (wait->call && syscall(SYS_tgkill, getpid(), wait->tid, 0) < 0 && errno == ESRCH)
            wait->call = NULL;
        if (wait->call)
            out[count++] = *wait;
    }
    qsort(out, count, sizeof *out, compare);
    return count;
}
