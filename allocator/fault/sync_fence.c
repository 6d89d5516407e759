/*
 * Finds out about faults that the host cannot see yet. A driver with dumps armed lets a synchronisation succeed after a fault,
 * and begins to write the dump some time later; under load that takes seconds. Until then the device answers no launch. So
 * after a synchronisation a kernel of ours is launched, the fence. If it does not end although all work is done, and nobody has
 * launched anything since, the driver has swallowed a fault: the dump is waited for.
 */
#include "monitor.h"

#include "base/aside.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/tunables.h"
#include "kernels/kernels.h"
#include "launch/launch.h"
#include "delivery.h"
#include "tell.h"

#define READING_MS 30000 /* for a dump that has begun: 5 s with every multiprocessor full, and others may be written too */
#define STICKY_MS 5000   /* for the context's error to become sticky */
#define BUSY_MS 300      /* while other streams may keep the device busy */
#define UNSEEN_MS 1000   /* without the preload library: other threads may have launched something */

struct patience {
    const struct context *context; /* gives up if it has more launches meanwhile; NULL: only after the time */
    uint64_t launches, until_ns;
    int is_out; /* given up, and no dump has begun */
};

static int is_swallowed; /* atomic: a fault, of which no dump came */

int fault_is_swallowed(void)
{
    return __atomic_load_n(&is_swallowed, __ATOMIC_ACQUIRE);
}

static void tell_swallowed(void *device)
{
    tell_unexplained(*(int *)device, "the driver does not say so: it calls all work done, and the device answers nothing more. "
                                     "Without a core dump, nothing more is known");
}

void fault_swallow(int device)
{
    if (__atomic_exchange_n(&is_swallowed, 1, __ATOMIC_ACQ_REL))
        return;
    aside_call(tell_swallowed, &device);
    if (monitor_returns_errors())
        contexts_set_faulted(device, CUDA_ERROR_LAUNCH_FAILED);
}

static int has_lost_patience(void *user)
{
    struct patience *patience = user;
    if (monitor_is_under_way())
        return 1;
    patience->is_out =
        monotonic_ns() >= patience->until_ns || (patience->context && launch_count(patience->context) != patience->launches);
    return patience->is_out;
}

/* Waits until a fault that the host can't see yet becomes visible. Returns 0 if the device was too busy to tell within `ms`, or
 * launches have come in between. */
static int fence(const struct context *context, unsigned ms, int may_launch)
{
    struct patience patience = {.context = may_launch ? NULL : context, .until_ns = monotonic_ns() + ms * NS_PER_MS};
    patience.launches = patience.context ? launch_count(context) : 0;
    kernels_fence(context, monitor_knows_fault, has_lost_patience, &patience);
    return !patience.is_out;
}

cufence_status monitor_flush(unsigned timeout_ms)
{
    if (monitor_is_armed() && !delivery_is_in_handler())
        fence(NULL, timeout_ms, 1);
    return monitor_wait(timeout_ms);
}

/* All work of the context is said to be done. */
static void fence_idle(struct context *context)
{
    const uint64_t launches = launch_count(context);
    if (!contexts_are_watched())
        fence(context, UNSEEN_MS, 1);
    else if (!fence(context, (unsigned)tunables.swallowed, 0) && launch_count(context) == launches)
        fault_swallow(context->device);
}

void fault_learn(int is_device_idle)
{
    static int is_usually_busy; /* atomic: other streams keep the device busy, so a fence only costs time */
    struct context *context;
    if (delivery_is_in_handler())
        return;
    if (monitor_is_armed() && !monitor_has_fault() && !fault_is_swallowed() && (context = context_current()) != NULL) {
        if (is_device_idle) {
            fence_idle(context);
        } else if (!__atomic_load_n(&is_usually_busy, __ATOMIC_RELAXED) && !fence(context, BUSY_MS, 1)) {
            if (contexts_are_watched() && context_is_idle(context))
                fence_idle(context);
            else
                __atomic_store_n(&is_usually_busy, 1, __ATOMIC_RELAXED);
        }
    }
    monitor_await_reading(READING_MS);
}

cufence_status fault_settle(int is_device_idle)
{
    fault_learn(is_device_idle);
    if (!monitor_has_fault() || !monitor_returns_errors())
        return CUFENCE_OK;
    int device = kernels_current_device();
    for (int waited = 0; waited < STICKY_MS && !kernels_have_failed(device); waited++)
        aside_sleep(1000);
    return error_set(CUFENCE_ERROR_FAULTED, "a kernel has faulted; the report tells which");
}
