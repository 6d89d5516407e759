#include "host_waits.h"

#include "base/clock.h"
#include "base/list.h"
#include "base/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum state { FREE, HELD, WAITS, ENDED }; /* HELD: by who writes or reads it; ENDED: meanwhile, who reads it frees it */

static struct slot {
    enum state state; /* atomic */
    struct host_wait wait;
} slots[HOST_WAITS];

static int take(struct slot *slot, enum state expected)
{
    return __atomic_load_n(&slot->state, __ATOMIC_RELAXED) == expected &&
           __atomic_compare_exchange_n(&slot->state, &expected, HELD, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static void leave(struct slot *slot, enum state as)
{
    __atomic_store_n(&slot->state, as, __ATOMIC_RELEASE);
}

unsigned host_wait_begins(const char *call, const void *frame)
{
    const uint32_t tid = thread_id();
    for (unsigned i = 0; i < HOST_WAITS; i++) {
        unsigned number = (tid + i) % HOST_WAITS; /* threads that wait at once take lines of their own */
        struct slot *slot = &slots[number];
        if (!take(slot, FREE))
            continue;
        slot->wait.call = call;
        __atomic_store_n(&slot->wait.tid, tid, __ATOMIC_RELAXED);
        slot->wait.since_ns = monotonic_ns();
        stack_capture_from(&slot->wait.stack, frame);
        leave(slot, WAITS);
        return number;
    }
    return HOST_WAITS;
}

/* Waits for nobody. */
void host_wait_ends(unsigned number)
{
    struct slot *slot = &slots[number];
    if (__atomic_load_n(&slot->wait.tid, __ATOMIC_RELAXED) == thread_id() &&
        __atomic_exchange_n(&slot->state, ENDED, __ATOMIC_ACQ_REL) != HELD)
        leave(slot, FREE);
}

static int compare(const void *left, const void *right)
{
    const struct host_wait *a = left, *b = right;
    return LIST_ORDER(a->since_ns, b->since_ns);
}

size_t host_waits_read(struct host_wait out[HOST_WAITS])
{
    size_t count = 0;
    for (size_t i = 0; i < HOST_WAITS; i++) {
        if (!take(&slots[i], WAITS))
            continue;
        /* A thread that was cancelled in the call takes no note back. */
        int is_gone = syscall(SYS_tgkill, getpid(), slots[i].wait.tid, 0) < 0 && errno == ESRCH;
        enum state held = HELD;
        if (!is_gone)
            out[count++] = slots[i].wait;
        if (!__atomic_compare_exchange_n(&slots[i].state, &held, is_gone ? FREE : WAITS, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            leave(&slots[i], FREE);
    }
    qsort(out, count, sizeof *out, compare);
    return count;
}
