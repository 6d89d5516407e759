#include "contexts_internal.h"

#include "base/aside.h"
#include "base/error.h"
#include "base/lock.h"

#include <assert.h>
#include <stdlib.h>

uint64_t contexts_epoch = 1;
const struct context_events *contexts_events;

static struct lock lock = LOCK(RANK_CONTEXTS);
static struct context *registry; /* atomic; entries are added at the front and never removed */
static uint64_t generations;     /* under lock */
static unsigned faulted;         /* atomic: number of faulted contexts */
static int has_greens;           /* atomic: a green context was seen; while 0, none needs to be looked for */

void contexts_open(const struct context_events *events)
{
    contexts_events = events;
}

/* ---- the registry ---- */

static struct context *first(void)
{
    return __atomic_load_n(&registry, __ATOMIC_ACQUIRE);
}

struct context *context_next(const struct context *previous)
{
    struct context *context = context_next_ever(previous);
    while (context && !context_is_alive(context))
        context = context_next_ever(context);
    return context;
}

struct context *context_next_ever(const struct context *previous)
{
    struct context *context = previous ? previous->next : first();
    while (context && context->stands_for)
        context = context->next;
    return context;
}

/* Returns the entry of a handle. For a green context this is its own entry, not its primary's. */
static struct context *entry_of(CUcontext handle)
{
    struct context *context = first();
    while (context && !(context_is_alive(context) && __atomic_load_n(&context->handle, __ATOMIC_RELAXED) == handle &&
                        (!context_may_have_ended(context) || context_has_same_id(context, handle))))
        context = context->next;
    return context;
}

struct context *context_known(CUcontext handle)
{
    return context_meant(entry_of(handle));
}

struct context *context_known_current(void)
{
    CUcontext handle = NULL;
    return driver->cuCtxGetCurrent(&handle) == CUDA_SUCCESS && handle ? context_known(handle) : NULL;
}

/* Whether the handle still names that context. */
static int is_same(const struct context *context)
{
    return contexts_are_watched() || __atomic_load_n(&context->is_held, __ATOMIC_RELAXED) ||
           context_has_same_id(context, __atomic_load_n(&context->handle, __ATOMIC_RELAXED));
}

static void end(struct context *context)
{
    lock_expect(RANK_CONTEXTS);
    __atomic_store_n(&context->is_alive, 0, __ATOMIC_RELEASE);
    contexts_changed();
    if (__atomic_exchange_n(&context->fault, CUDA_SUCCESS, __ATOMIC_RELAXED) != CUDA_SUCCESS)
        __atomic_sub_fetch(&faulted, 1, __ATOMIC_RELEASE);
    for (struct context *other = first(); other; other = other->next) {
        if (other->stands_for != context) /* green contexts end with their primary */
            continue;
        __atomic_store_n(&other->is_alive, 0, __ATOMIC_RELEASE);
        streams_forget(other);
    }
    if (context->stands_for) {
        streams_end_within(context);
        return;
    }
    contexts_events->ended(context);
    streams_forget(context);
    contexts_changed();
}

/* NULL if out of host memory. */
static struct context *add_entry(int device, struct context *stands_for)
{
    struct context *context = calloc(1, sizeof *context);
    if (!context)
        return NULL;
    context->device = device;
    context->stands_for = stands_for;
    context->legacy.context = stands_for ? stands_for : context;
    context->legacy.within = context;
    lock_init(&context->legacy.touch, RANK_TOUCH);
    context->next = registry;
    __atomic_store_n(&registry, context, __ATOMIC_RELEASE);
    return context;
}

/* An entry serves one device only: the other rooms keep that device's statistics behind it. */
static struct context *spare(int device)
{
    struct context *context = first();
    while (context && (context_is_alive(context) || context->stands_for || context->device != device))
        context = context->next;
    return context ? context : add_entry(device, NULL);
}

/* Returns NULL if out of host memory. */
static struct context *begin(CUcontext handle, int device, int is_primary)
{
    lock_expect(RANK_CONTEXTS);
    assert(!entry_of(handle));
    struct context *context = spare(device);
    if (!context)
        return NULL;
    __atomic_store_n(&context->handle, handle, __ATOMIC_RELAXED);
    __atomic_store_n(&context->unique, context_unique_id(handle), __ATOMIC_RELAXED);
    __atomic_store_n(&context->generation, ++generations, __ATOMIC_RELAXED);
    context->is_primary = is_primary;
    __atomic_store_n(&context->is_held, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&context->attached, 0, __ATOMIC_RELAXED);
    struct scope scope = scope_enter(context);
    contexts_events->begun(context);
    scope_leave(scope);
    __atomic_store_n(&context->is_alive, 1, __ATOMIC_RELEASE);
    return context;
}

/* Returns the entry for a handle that the driver knows. */
static struct context *obtain(CUcontext handle)
{
    lock_expect(RANK_CONTEXTS);
    struct context *entry = entry_of(handle);
    if (entry && is_same(entry))
        return entry;
    if (entry)
        end(entry);
    int device = context_device_of(handle);
    return device < 0 ? NULL : begin(handle, device, context_primary_of(device) == handle);
}

struct obtained {
    CUcontext handle;
    struct context *entry;
};

static void obtain_aside(void *argument)
{
    struct obtained *obtained = argument;
    HOLD(&lock);
    obtained->entry = obtain(obtained->handle);
}

struct context *context_entry_of(CUcontext handle)
{
    if (!handle)
        return NULL;
    struct obtained obtained = {handle, entry_of(handle)};
    if (!obtained.entry || !is_same(obtained.entry))
        aside_call(obtain_aside, &obtained);
    return obtained.entry;
}

struct context *context_of(CUcontext handle)
{
    return context_meant(context_entry_of(handle));
}

struct context *context_entry(void)
{
    static HOT_TLS struct {
        CUcontext handle;
        struct context *entry;
        uint64_t epoch;
    } latest;
    CUcontext handle = NULL;
    if (driver->cuCtxGetCurrent(&handle) != CUDA_SUCCESS || !handle)
        return NULL;
    uint64_t epoch = contexts_epoch_now();
    if (latest.handle == handle && latest.epoch == epoch && is_same(latest.entry))
        return latest.entry;
    struct context *entry = context_entry_of(handle);
    if (entry) {
        latest.handle = handle;
        latest.entry = entry;
        latest.epoch = epoch; /* the epoch read above, not the present one: the context may have ended meanwhile */
    }
    return entry;
}

struct context *context_current(void)
{
    return context_meant(context_entry());
}

struct context *context_synchronised(void)
{
    struct context *entry = context_entry();
    return entry && entry->stands_for ? NULL : entry;
}

struct context *context_within(struct context *context)
{
    struct context *entry = __atomic_load_n(&has_greens, __ATOMIC_RELAXED) ? context_entry() : NULL;
    return entry && entry->stands_for == context ? entry : context;
}

/* ---- devices ---- */

static cufence_status check_device(int device)
{
    int devices = 0, has_vmm = 0;
    cufence_status status = driver_check(driver->cuDeviceGetCount(&devices), "cuDeviceGetCount");
    if (status != CUFENCE_OK)
        return status;
    if (device < 0 || device >= devices)
        return error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "there is no device %d: the driver has %d, counted from 0", device,
                         devices);
    driver->cuDeviceGetAttribute(&has_vmm, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device);
    return has_vmm ? CUFENCE_OK
                   : error_set(CUFENCE_ERROR_UNSUPPORTED, "device %d has no virtual memory management, which cufence needs",
                               device);
}

static struct context *held_primary(int device)
{
    struct context *context = context_next(NULL);
    while (context && !(context->device == device && __atomic_load_n(&context->is_held, __ATOMIC_RELAXED)))
        context = context_next(context);
    return context;
}

struct holding {
    int device;
    cufence_status status;
    struct context *context;
};

static void hold_primary(void *argument)
{
    struct holding *holding = argument;
    int device = holding->device;
    CUcontext handle;
    holding->status = check_device(device);
    if (holding->status == CUFENCE_OK)
        holding->status = driver_check(driver->cuDevicePrimaryCtxRetain(&handle, device), "cuDevicePrimaryCtxRetain");
    if (holding->status != CUFENCE_OK)
        return;
    lock_take(&lock);
    struct context *context = held_primary(device);
    if (context) {
        driver->cuDevicePrimaryCtxRelease(device); /* another thread was faster */
    } else if ((context = context_meant(obtain(handle))) != NULL) {
        __atomic_store_n(&context->is_held, 1, __ATOMIC_RELEASE);
    } else {
        driver->cuDevicePrimaryCtxRelease(device);
        holding->status = error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory to keep track of a context");
    }
    lock_release(&lock);
    holding->context = context;
}

struct context *context_of_device(int device, cufence_status *status)
{
    struct holding holding = {.device = device, .context = held_primary(device)};
    if (holding.context)
        return holding.context;
    aside_call(hold_primary, &holding);
    *status = holding.status;
    return holding.context;
}

struct context *context_for_pool(int device, struct context *near)
{
    struct context *found = NULL;
    if (near && near->device == device)
        return near;
    for (struct context *context = context_next(NULL); context; context = context_next(context)) {
        if (context->device == device && (!found || context->is_primary))
            found = context;
    }
    return found;
}

struct green {
    CUcontext handle;
    int device;
};

static void add_green(void *argument)
{
    const struct green *green = argument;
    CUcontext handle = green->handle, primary = context_primary_of(green->device);
    struct context *stands_for = primary && primary != handle ? context_of(primary) : NULL;
    if (!stands_for)
        return;
    HOLD(&lock);
    struct context *entry = entry_of(handle);
    if (entry && entry->stands_for != stands_for) { /* it was taken for an ordinary context, or the handle was reused */
        end(entry);
        entry = NULL;
    }
    /* stands_for never changes in an entry, since other threads may hold it: reuse only one with the same primary. */
    for (struct context *other = first(); other && !entry; other = other->next) {
        if (other->stands_for == stands_for && !context_is_alive(other))
            entry = other;
    }
    if (!entry)
        entry = add_entry(green->device, stands_for);
    if (entry) {
        __atomic_store_n(&entry->unique, context_unique_id(handle), __ATOMIC_RELAXED);
        __atomic_store_n(&entry->generation, ++generations, __ATOMIC_RELAXED);
        __atomic_store_n(&entry->handle, handle, __ATOMIC_RELAXED);
        __atomic_store_n(&has_greens, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&entry->is_alive, 1, __ATOMIC_RELEASE);
        contexts_changed();
    }
}

void context_is_green(CUcontext handle, int device)
{
    struct green green = {handle, device};
    aside_call(add_green, &green);
}

/* How it is to end: of this generation, if another thread has not ended it meanwhile. */
struct ending {
    struct context_end end;
    int may_be_there; /* unless the driver says that its handle is another one's */
    int is_given_up;  /* we no longer retain it */
};

static int is_over(const struct context_end *end)
{
    return !end->context || !context_is_alive(end->context) || end->context->generation != end->generation;
}

static void end_aside(void *argument)
{
    const struct ending *ending = argument;
    struct context *entry = ending->end.context;
    int device = -1;
    lock_take(&lock);
    if (!is_over(&ending->end) && !(ending->may_be_there && context_has_same_id(entry, entry->handle))) {
        if (ending->is_given_up && __atomic_exchange_n(&entry->is_held, 0, __ATOMIC_RELAXED))
            device = entry->device;
        end(entry);
    }
    lock_release(&lock);
    if (device >= 0)
        driver->cuDevicePrimaryCtxRelease(device);
}

static struct context_end end_of(struct context *entry)
{
    return (struct context_end){entry, entry ? __atomic_load_n(&entry->generation, __ATOMIC_RELAXED) : 0};
}

struct context_end context_ends(CUcontext handle)
{
    struct context_end end = end_of(entry_of(handle));
    if (end.context && end.context->stands_for)
        streams_end_within(end.context);
    if (end.context) {
        __atomic_add_fetch(&end.context->ending, 1, __ATOMIC_RELAXED);
        contexts_changed(); /* what threads have cached they look up again */
    }
    return end;
}

void context_ended(struct context_end end, int may_be_there)
{
    if (!end.context)
        return;
    aside_call(end_aside, &(struct ending){.end = end, .may_be_there = may_be_there});
    __atomic_sub_fetch(&end.context->ending, 1, __ATOMIC_RELEASE);
}

void context_given_up(CUcontext handle)
{
    aside_call(end_aside, &(struct ending){.end = end_of(entry_of(handle)), .is_given_up = 1});
}

struct scope scope_visit(struct context *context)
{
    struct ending ending = {.end = end_of(context)};
    int is_alive = context_is_alive(context);
    enum context_hold hold = is_alive ? context_hold(context) : CONTEXT_HAS_ENDED;
    if (is_alive && hold == CONTEXT_HAS_ENDED)
        aside_call(end_aside, &ending);
    struct scope scope = hold == CONTEXT_HAS_ENDED ? (struct scope){.pushed = 0} : scope_enter(context);
    scope.held = hold == CONTEXT_IS_RETAINED ? context : NULL;
    return scope;
}

/* ---- faults ---- */

void contexts_set_faulted(int device, CUresult error)
{
    for (struct context *context = context_next(NULL); context; context = context_next(context)) {
        CUresult none = CUDA_SUCCESS;
        if ((device < 0 || context->device == device) &&
            __atomic_compare_exchange_n(&context->fault, &none, error, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            __atomic_add_fetch(&faulted, 1, __ATOMIC_RELEASE);
    }
}

CUresult context_fault(void)
{
    if (__builtin_expect(!__atomic_load_n(&faulted, __ATOMIC_ACQUIRE), 1))
        return CUDA_SUCCESS;
    struct context *context = context_current();
    return context ? __atomic_load_n(&context->fault, __ATOMIC_RELAXED) : CUDA_SUCCESS;
}
