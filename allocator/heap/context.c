#include "internal.h"

#include "error.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONTEXTS 256 /* in the life of the process, destroyed ones counted */

static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the making of contexts */
static struct heap_context *contexts[CONTEXTS];                   /* append-only; read without the lock */
static unsigned context_count;
static struct heap_context *primary[CONTEXTS]; /* by device */
static void (*context_hook)(CUcontext context, int device);

void context_set_hook(void (*hook)(CUcontext context, int device))
{
    context_hook = hook;
}

struct heap_context *context_next(const struct heap_context *previous)
{
    unsigned count = __atomic_load_n(&context_count, __ATOMIC_ACQUIRE), i = 0;
    while (previous && i < count && contexts[i++] != previous)
        ;
    return i < count ? contexts[i] : NULL;
}

void *line_alloc(size_t size)
{
    void *memory = aligned_alloc(CACHE_LINE, (size + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    return memory ? memset(memory, 0, size) : NULL;
}

static unsigned long long unique_id(CUcontext handle)
{
    unsigned long long id = 0;
    if (driver->cuCtxGetId)
        driver->cuCtxGetId(handle, &id);
    return id;
}

/* Whether the handle still is that context. One with a sticky error may answer nothing but the error, and it is the same. */
static int is_same(const struct heap_context *context)
{
    unsigned long long id = 0;
    CUresult result = driver->cuCtxGetId ? driver->cuCtxGetId(context->handle, &id) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        return id == context->unique;
    return result != CUDA_ERROR_INVALID_CONTEXT && result != CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* The context in the books for a handle. A handle that the driver has given to a new context leaves the old one dead. */
struct heap_context *context_known(CUcontext handle)
{
    unsigned count = __atomic_load_n(&context_count, __ATOMIC_ACQUIRE);
    for (unsigned i = count; i-- > 0;) {
        struct heap_context *context = contexts[i];
        if (context->handle != handle || __atomic_load_n(&context->is_dead, __ATOMIC_RELAXED))
            continue;
        if (context->is_primary || is_same(context))
            return context;
        __atomic_store_n(&context->is_dead, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

struct heap_context *context_latest(CUcontext handle)
{
    unsigned count = __atomic_load_n(&context_count, __ATOMIC_ACQUIRE);
    for (unsigned i = count; i-- > 0;) {
        if (contexts[i]->handle == handle)
            return __atomic_load_n(&contexts[i]->is_dead, __ATOMIC_RELAXED) ? NULL : contexts[i];
    }
    return NULL;
}

void context_forget(struct heap_context *context)
{
    pthread_mutex_lock(&contexts_lock);
    __atomic_store_n(&context->is_dead, 1, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < CONTEXTS; i++) {
        if (primary[i] == context)
            __atomic_store_n(&primary[i], NULL, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&contexts_lock);
}

static struct heap_context *make(CUcontext handle, int device, int is_primary, cufence_status *status)
{
    struct heap_context *context = context_count < CONTEXTS ? line_alloc(sizeof *context) : NULL;
    if (!context) {
        *status = error_set(CUFENCE_ERROR_UNSUPPORTED, "more than %d CUDA contexts in one process", CONTEXTS);
        return NULL;
    }
    context->handle = handle;
    context->unique = unique_id(handle);
    context->device = device;
    context->is_primary = is_primary; /* and we hold it, so that its handle stays its own */
    pthread_mutex_init(&context->lock, NULL);
    pthread_mutex_init(&context->events_lock, NULL);
    struct scope scope = scope_enter(context);
    if (context_hook)
        context_hook(handle, device);
    scope_leave(scope);
    contexts[context_count] = context;
    __atomic_store_n(&context_count, context_count + 1, __ATOMIC_RELEASE);
    return context;
}

static struct heap_context *primary_of(int device, cufence_status *status)
{
    int devices = 0;
    *status = driver_check(driver->cuDeviceGetCount(&devices), "cuDeviceGetCount");
    if (*status != CUFENCE_OK)
        return NULL;
    if (device >= devices || device >= CONTEXTS) {
        *status = error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "there is no device %d: the driver has %d, counted from 0", device,
                            devices);
        return NULL;
    }
    CUdevice handle;
    CUcontext context;
    int has_vmm = 0;
    *status = driver_check(driver->cuDeviceGet(&handle, device), "cuDeviceGet");
    if (*status == CUFENCE_OK)
        driver->cuDeviceGetAttribute(&has_vmm, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, handle);
    if (*status == CUFENCE_OK && !has_vmm)
        *status =
            error_set(CUFENCE_ERROR_UNSUPPORTED, "device %d has no virtual memory management, which cufence needs", device);
    if (*status == CUFENCE_OK)
        *status = driver_check(driver->cuDevicePrimaryCtxRetain(&context, handle), "cuDevicePrimaryCtxRetain");
    if (*status != CUFENCE_OK)
        return NULL;
    struct heap_context *found = context_known(context);
    if (!found)
        found = make(context, device, 1, status);
    if (found)
        __atomic_store_n(&primary[device], found, __ATOMIC_RELEASE);
    return found;
}

static struct heap_context *current(cufence_status *status)
{
    CUcontext handle = NULL;
    CUdevice device = 0;
    driver->cuCtxGetCurrent(&handle);
    if (!handle) {
        *status =
            error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "the calling thread has no current CUDA context; name a device from 0");
        return NULL;
    }
    struct heap_context *found = context_known(handle);
    if (found)
        return found;
    pthread_mutex_lock(&contexts_lock);
    found = context_known(handle);
    if (!found) {
        *status = driver_check(driver->cuCtxGetDevice(&device), "cuCtxGetDevice");
        if (*status == CUFENCE_OK)
            found = make(handle, device, 0, status);
    }
    pthread_mutex_unlock(&contexts_lock);
    return found;
}

struct heap_context *context_for(int device, cufence_status *status)
{
    if (device < -1) {
        *status = error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "there is no device %d; -1 means the current context's", device);
        return NULL;
    }
    if (device == -1)
        return current(status);
    struct heap_context *context = device < CONTEXTS ? __atomic_load_n(&primary[device], __ATOMIC_ACQUIRE) : NULL;
    if (context)
        return context;
    pthread_mutex_lock(&contexts_lock);
    context = primary_of(device, status);
    pthread_mutex_unlock(&contexts_lock);
    return context;
}

static struct freelist *find(struct heap_context *context, CUstream stream, uint64_t thread, struct pool *pool)
{
    struct freelist *list = __atomic_load_n(&context->freelists, __ATOMIC_ACQUIRE);
    while (list && !(list_stream(list) == stream && list->thread == thread && list->pool == pool))
        list = list->next;
    return list;
}

struct freelist *freelist_for(struct heap_context *context, CUstream stream, struct pool *pool)
{
    static HOT_TLS struct freelist *latest[4];
    static _Thread_local uint64_t thread_id;
    if (stream == CU_STREAM_LEGACY)
        stream = NULL;
    struct freelist **slot = &latest[(((uintptr_t)stream >> 4) ^ ((uintptr_t)stream >> 10) ^ ((uintptr_t)pool >> 5)) & 3];
    struct freelist *list = *slot;
    if (list && list->context == context && list_stream(list) == stream && list->pool == pool)
        return list;
    if (!thread_id)
        thread_id = (uint64_t)gettid();
    uint64_t thread = stream == CU_STREAM_PER_THREAD ? thread_id : 0;
    list = find(context, stream, thread, pool);
    if (!list) {
        pthread_mutex_lock(&context->lock);
        list = find(context, stream, thread, pool);
        if (!list && (list = line_alloc(sizeof *list)) != NULL) {
            list->context = context;
            list->stream = stream;
            list->thread = thread;
            list->pool = pool;
            list->next = context->freelists;
            __atomic_store_n(&context->freelists, list, __ATOMIC_RELEASE);
        }
        pthread_mutex_unlock(&context->lock);
    }
    *slot = list;
    return list;
}

CUevent event_take(struct heap_context *context)
{
    CUevent event = NULL;
    pthread_mutex_lock(&context->events_lock);
    if (context->event_count)
        event = context->events[--context->event_count];
    pthread_mutex_unlock(&context->events_lock);
    if (!event && driver->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        event = NULL;
    return event;
}

void event_give(struct heap_context *context, CUevent event)
{
    pthread_mutex_lock(&context->events_lock);
    if (context->event_count == context->event_capacity) {
        size_t capacity = context->event_capacity ? context->event_capacity * 2 : 64;
        CUevent *events = realloc(context->events, capacity * sizeof(CUevent));
        if (events) {
            context->events = events;
            context->event_capacity = capacity;
        }
    }
    int kept = context->event_count < context->event_capacity;
    if (kept)
        context->events[context->event_count++] = event;
    pthread_mutex_unlock(&context->events_lock);
    if (!kept)
        driver->cuEventDestroy(event);
}

struct scope scope_enter(struct heap_context *context)
{
    struct scope scope = {.mode = CU_STREAM_CAPTURE_MODE_RELAXED};
    scope.pushed = driver->cuCtxPushCurrent(context->handle) == CUDA_SUCCESS;
    driver->cuThreadExchangeStreamCaptureMode(&scope.mode);
    return scope;
}

void scope_leave(struct scope scope)
{
    CUcontext popped;
    driver->cuThreadExchangeStreamCaptureMode(&scope.mode);
    if (scope.pushed)
        driver->cuCtxPopCurrent(&popped);
}
