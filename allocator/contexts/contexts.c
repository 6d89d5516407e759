#include "internal.h"

#include "base/aside.h"
#include "base/error.h"
#include "base/lock.h"

#include <stdlib.h>

uint64_t contexts_epoch = 1;
const struct context_events *contexts_events;

static struct lock lock = LOCK(RANK_CONTEXTS);
static struct context *registry; /* atomic; entries are added at the front and never removed */
static uint64_t generations;     /* under lock */
static unsigned faulted;         /* atomic: number of faulted contexts */
static int is_watched;           /* atomic */
static int has_greens;           /* atomic: a green context was seen; while 0, none needs to be looked for */

void contexts_open(const struct context_events *events)
{
    contexts_events = events;
}

void contexts_watch(void)
{
    __atomic_store_n(&is_watched, 1, __ATOMIC_RELEASE);
}

int contexts_are_watched(void)
{
    return __atomic_load_n(&is_watched, __ATOMIC_RELAXED);
}

static void enter(struct scope *scope, const struct context *context)
{
    scope->pushed = driver->cuCtxPushCurrent(__atomic_load_n(&context->handle, __ATOMIC_RELAXED)) == CUDA_SUCCESS;
    driver->cuThreadExchangeStreamCaptureMode(&scope->mode);
}

struct scope scope_enter(const struct context *context)
{
    struct scope scope = {.mode = CU_STREAM_CAPTURE_MODE_RELAXED};
    enter(&scope, context);
    return scope;
}

void scope_leave(struct scope scope)
{
    CUcontext popped;
    if (scope.visited && scope.hold == CONTEXT_HAS_ENDED)
        return;
    driver->cuThreadExchangeStreamCaptureMode(&scope.mode);
    if (scope.pushed)
        driver->cuCtxPopCurrent(&popped);
    if (scope.visited)
        context_let_go(scope.visited, scope.hold);
}

/* ---- the registry ---- */

static struct context *first(void)
{
    return __atomic_load_n(&registry, __ATOMIC_ACQUIRE);
}

struct context *context_next(const struct context *previous)
{
    struct context *context = previous ? previous->next : first();
    while (context && (!context_is_alive(context) || context->stands_for))
        context = context->next;
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
    while (context && !(context_is_alive(context) && __atomic_load_n(&context->handle, __ATOMIC_RELAXED) == handle))
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

static unsigned long long unique_id(CUcontext handle)
{
    unsigned long long id = 0;
    if (driver->cuCtxGetId && driver->cuCtxGetId(handle, &id) != CUDA_SUCCESS)
        id = 0;
    return id;
}

/* Requires a handle that the driver knows. A context with a sticky error may answer every call with the error; it is still the
 * same. */
static int has_same_id(const struct context *context)
{
    unsigned long long id = 0;
    if (!driver->cuCtxGetId)
        return 1;
    CUresult result = driver->cuCtxGetId(context->handle, &id);
    if (result == CUDA_SUCCESS)
        return id == context->unique;
    return result != CUDA_ERROR_INVALID_CONTEXT && result != CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* Whether the handle still names that context. */
static int is_same(const struct context *context)
{
    return contexts_are_watched() || __atomic_load_n(&context->is_held, __ATOMIC_RELAXED) || has_same_id(context);
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

/* An entry serves one device only: the other rooms keep that device's statistics behind it. */
static struct context *spare(int device)
{
    struct context *context = first();
    while (context && (context_is_alive(context) || context->stands_for || context->device != device))
        context = context->next;
    if (!context && (context = calloc(1, sizeof *context)) != NULL) {
        context->device = device;
        context->next = registry;
        __atomic_store_n(&registry, context, __ATOMIC_RELEASE);
    }
    return context;
}

/* Returns NULL if out of host memory. */
static struct context *begin(CUcontext handle, int device, int is_primary)
{
    lock_expect(RANK_CONTEXTS);
    struct context *context = spare(device);
    if (!context)
        return NULL;
    __atomic_store_n(&context->handle, handle, __ATOMIC_RELAXED);
    context->unique = unique_id(handle);
    __atomic_store_n(&context->generation, ++generations, __ATOMIC_RELAXED);
    context->is_primary = is_primary;
    __atomic_store_n(&context->is_held, 0, __ATOMIC_RELAXED);
    context->legacy.context = context->legacy.within = context;
    context->legacy.handle = NULL;
    struct scope scope = scope_enter(context);
    contexts_events->begun(context);
    scope_leave(scope);
    __atomic_store_n(&context->is_alive, 1, __ATOMIC_RELEASE);
    return context;
}

/* Returns the device's primary context if it is active, else NULL. Never creates it. */
static CUcontext primary_handle(CUdevice device)
{
    CUcontext primary = NULL;
    unsigned flags;
    int is_active = 0;
    if (driver->cuDevicePrimaryCtxGetState(device, &flags, &is_active) != CUDA_SUCCESS || !is_active ||
        driver->cuDevicePrimaryCtxRetain(&primary, device) != CUDA_SUCCESS)
        return NULL;
    driver->cuDevicePrimaryCtxRelease(device);
    return primary;
}

static int device_of(CUcontext handle)
{
    CUcontext popped;
    CUdevice device = -1;
    if (driver->cuCtxPushCurrent(handle) != CUDA_SUCCESS)
        return -1;
    if (driver->cuCtxGetDevice(&device) != CUDA_SUCCESS)
        device = -1;
    driver->cuCtxPopCurrent(&popped);
    return device;
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
    int device = device_of(handle);
    return device < 0 ? NULL : begin(handle, device, primary_handle(device) == handle);
}

struct obtained {
    CUcontext handle;
    struct context *entry;
};

static void obtain_aside(void *argument)
{
    struct obtained *obtained = argument;
    lock_take(&lock);
    obtained->entry = obtain(obtained->handle);
    lock_release(&lock);
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
    CUcontext handle = green->handle;
    int device = green->device;
    CUcontext primary = primary_handle(device);
    struct context *stands_for = primary && primary != handle ? context_of(primary) : NULL;
    if (!stands_for)
        return;
    lock_take(&lock);
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
    if (!entry && (entry = calloc(1, sizeof *entry)) != NULL) {
        entry->stands_for = stands_for;
        entry->device = device;
        entry->legacy.context = stands_for;
        entry->legacy.within = entry;
        entry->next = registry;
        __atomic_store_n(&registry, entry, __ATOMIC_RELEASE);
    }
    if (entry) {
        entry->unique = unique_id(handle);
        __atomic_store_n(&entry->handle, handle, __ATOMIC_RELAXED);
        __atomic_store_n(&has_greens, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&entry->is_alive, 1, __ATOMIC_RELEASE);
        contexts_changed();
    }
    lock_release(&lock);
}

void context_is_green(CUcontext handle, int device)
{
    struct green green = {handle, device};
    aside_call(add_green, &green);
}

void context_green_ends(CUcontext handle)
{
    struct context *entry = entry_of(handle);
    if (entry && entry->stands_for)
        streams_end_within(entry);
}

static void end_aside(void *handle)
{
    lock_take(&lock);
    struct context *entry = entry_of(handle);
    if (entry)
        end(entry);
    lock_release(&lock);
}

void context_ended(CUcontext handle)
{
    aside_call(end_aside, handle);
}

static void give_up_aside(void *handle)
{
    lock_take(&lock);
    struct context *entry = entry_of(handle);
    int device = entry && __atomic_exchange_n(&entry->is_held, 0, __ATOMIC_RELAXED) ? entry->device : -1;
    if (entry)
        end(entry);
    lock_release(&lock);
    if (device >= 0)
        driver->cuDevicePrimaryCtxRelease(device);
}

void context_given_up(CUcontext handle)
{
    aside_call(give_up_aside, handle);
}

enum context_hold context_hold(const struct context *context)
{
    CUcontext primary;
    unsigned flags;
    int is_active = 0;
    if (contexts_are_watched() || !context->is_primary || __atomic_load_n(&context->fault, __ATOMIC_RELAXED) != CUDA_SUCCESS ||
        driver->cuDevicePrimaryCtxGetState(context->device, &flags, &is_active) != CUDA_SUCCESS)
        return CONTEXT_COUNTS_AS_THERE;
    if (!is_active)
        return CONTEXT_HAS_ENDED;
    if (driver->cuDevicePrimaryCtxRetain(&primary, context->device) != CUDA_SUCCESS)
        return CONTEXT_COUNTS_AS_THERE;
    if (primary == __atomic_load_n(&context->handle, __ATOMIC_RELAXED) && has_same_id(context))
        return CONTEXT_IS_RETAINED;
    driver->cuDevicePrimaryCtxRelease(context->device);
    return CONTEXT_HAS_ENDED;
}

void context_let_go(const struct context *context, enum context_hold hold)
{
    if (hold == CONTEXT_IS_RETAINED)
        driver->cuDevicePrimaryCtxRelease(context->device);
}

struct ending {
    struct context *context;
    uint64_t generation;
};

/* Another thread may have ended it meanwhile, and begun the next. */
static void end_unseen(void *argument)
{
    const struct ending *ending = argument;
    lock_take(&lock);
    if (context_is_alive(ending->context) && ending->context->generation == ending->generation)
        end(ending->context);
    lock_release(&lock);
}

struct scope scope_visit(struct context *context)
{
    struct ending ending = {context, __atomic_load_n(&context->generation, __ATOMIC_RELAXED)};
    int is_alive = context_is_alive(context);
    enum context_hold hold = is_alive ? context_hold(context) : CONTEXT_HAS_ENDED;
    if (is_alive && hold == CONTEXT_HAS_ENDED)
        aside_call(end_unseen, &ending);
    struct scope scope = {.visited = context, .hold = hold, .mode = CU_STREAM_CAPTURE_MODE_RELAXED};
    if (hold != CONTEXT_HAS_ENDED)
        enter(&scope, context);
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
