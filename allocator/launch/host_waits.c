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

/* A thread that was cancelled in the call takes no note back. */
static int is_gone(const struct host_wait *wait)
{
    return syscall(SYS_tgkill, getpid(), wait->tid, 0) < 0 && errno == ESRCH;
}

static void forget(uint32_t tid)
{
    HOLD(&lock);
    for (struct host_wait *wait = waits; wait < waits + HOST_WAITS; wait++)
        wait->call = wait->tid == tid ? NULL : wait->call;
}

size_t host_waits_read(struct host_wait out[HOST_WAITS])
{
    size_t noted = 0, count = 0;
    lock_take(&lock);
    for (const struct host_wait *wait = waits; wait < waits + HOST_WAITS; wait++) {
        if (wait->call)
            out[noted++] = *wait;
    }
    lock_release(&lock);
    for (size_t i = 0; i < noted; i++) {
        if (is_gone(&out[i])) /* not under the lock: a filter of system calls may end who asks */
            forget(out[i].tid);
        else
            out[count++] = out[i];
    }
    qsort(out, count, sizeof *out, compare);
    return count;
}
