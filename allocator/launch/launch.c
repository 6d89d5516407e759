#include "launch.h"

#include "driver/driver.h"
#include "functions.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_CONTEXTS 64
#define READ_ATTEMPTS 1000 /* at an entry that is being written, which takes 0.1 us unless the writer was put to sleep */

/* Who holds the entry may read and write it; nobody else touches it. */
struct place {
    int is_held; /* atomic */
    struct launch_entry entry;
};

/* One context's. A ring is never freed: it serves the next context when its own is gone. */
struct ring {
    CUcontext context;           /* atomic; written under the lock; NULL: nobody's */
    uint64_t count;              /* atomic: launches since it is the context's */
    struct place *places;        /* NULL: they are counted only */
    int device;                  /* atomic */
} __attribute__((aligned(128))); /* two contexts' threads do not slow each other down */

static struct {
    pthread_mutex_t lock; /* held while a ring is given to a context or taken from it; a leaf */
    uint64_t size;        /* places of a ring, a power of two or 0; constant after launch_open() */
    size_t used;          /* atomic: rings that have served a context; only grows, under the lock */
    struct ring rings[MAX_CONTEXTS];
    struct ring others; /* for contexts beyond those, which are counted only */
} launches = {.lock = PTHREAD_MUTEX_INITIALIZER};

void launch_open(uint64_t entries)
{
    launches.size = entries ? 1 : 0;
    while (launches.size < entries)
        launches.size *= 2;
}

/* ---- rings ---- */

static struct ring *find(CUcontext context)
{
    size_t used = __atomic_load_n(&launches.used, __ATOMIC_ACQUIRE);
    for (size_t i = 0; i < used; i++)
        if (__atomic_load_n(&launches.rings[i].context, __ATOMIC_ACQUIRE) == context)
            return &launches.rings[i];
    return NULL;
}

static int device_of(CUcontext context)
{
    CUdevice device = -1;
    CUcontext popped;
    if (driver->cuCtxPushCurrent(context) != CUDA_SUCCESS)
        return -1;
    if (driver->cuCtxGetDevice(&device) != CUDA_SUCCESS)
        device = -1;
    driver->cuCtxPopCurrent(&popped);
    return device;
}

/* Gives the context a ring; the lock is held. */
static struct ring *add_locked(CUcontext context, int device)
{
    size_t i = 0;
    while (i < launches.used && launches.rings[i].context)
        i++;
    if (i == MAX_CONTEXTS)
        return &launches.others;
    struct ring *ring = &launches.rings[i];
    if (!ring->places && launches.size)
        ring->places = calloc(launches.size, sizeof *ring->places); /* without host memory they are counted only */
    __atomic_store_n(&ring->device, device, __ATOMIC_RELAXED);
    __atomic_store_n(&ring->count, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&ring->context, context, __ATOMIC_RELEASE);
    if (i == launches.used)
        __atomic_store_n(&launches.used, i + 1, __ATOMIC_RELEASE);
    return ring;
}

static struct ring *find_or_add(CUcontext context)
{
    struct ring *ring = context ? find(context) : &launches.others;
    if (ring)
        return ring;
    int device = device_of(context);
    pthread_mutex_lock(&launches.lock);
    ring = find(context);
    if (!ring)
        ring = add_locked(context, device);
    pthread_mutex_unlock(&launches.lock);
    return ring;
}

/* ---- entries ---- */

static int hold(struct place *place)
{
    return !__atomic_exchange_n(&place->is_held, 1, __ATOMIC_ACQUIRE);
}

static void let_go(struct place *place)
{
    __atomic_store_n(&place->is_held, 0, __ATOMIC_RELEASE);
}

static int hold_soon(struct place *place)
{
    for (int i = 0; i < READ_ATTEMPTS; i++)
        if (hold(place))
            return 1;
    return 0;
}

static uint32_t own_tid(void)
{
    static __attribute__((tls_model("initial-exec"))) _Thread_local uint32_t tid;
    if (!tid)
        tid = (uint32_t)gettid();
    return tid;
}

static uint32_t at_most(size_t bytes, size_t most)
{
    return (uint32_t)(bytes < most ? bytes : most);
}

/* The form in which one buffer holds all arguments, as the device will see them. */
static void keep_buffer(struct launch_entry *entry, void *const *extra)
{
    const void *buffer = NULL;
    size_t size = 0;
    for (; extra && extra[0] != CU_LAUNCH_PARAM_END; extra += 2) {
        if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = extra[1] ? *(const size_t *)extra[1] : 0;
        else
            break; /* from a CUDA to come, with who knows how many values */
    }
    entry->argument_bytes = buffer ? at_most(size, UINT32_MAX) : 0;
    entry->kept_bytes = at_most(entry->argument_bytes, LAUNCH_KEPT_BYTES);
    if (buffer)
        memcpy(entry->bytes, buffer, entry->kept_bytes);
}

/* The form in which each argument has a pointer of its own. */
static void keep_each(struct launch_entry *entry, void *const *parameters)
{
    const struct launch_function *function = entry->function;
    entry->argument_bytes = function->argument_bytes;
    entry->kept_bytes = at_most(function->argument_bytes, LAUNCH_KEPT_BYTES);
    for (uint32_t i = 0; i < function->argument_count; i++) {
        struct launch_argument argument = function->arguments[i];
        if (argument.offset >= LAUNCH_KEPT_BYTES || !parameters[i])
            continue;
        uint8_t *to = entry->bytes + argument.offset;
        if (argument.size == 8 && argument.offset <= LAUNCH_KEPT_BYTES - 8)
            memcpy(to, parameters[i], 8);
        else
            memcpy(to, parameters[i], at_most(argument.size, LAUNCH_KEPT_BYTES - argument.offset));
    }
}

static void fill(struct launch_entry *entry, const struct launch_call *call, const struct launch_function *function)
{
    entry->function = function;
    entry->graph = 0;
    entry->is_cooperative = call->is_cooperative;
    memcpy(entry->grid, call->grid, sizeof entry->grid);
    memcpy(entry->block, call->block, sizeof entry->block);
    memcpy(entry->cluster, call->cluster, sizeof entry->cluster);
    entry->shared_bytes = call->shared_bytes;
    if (call->parameters && function && function->has_layout)
        keep_each(entry, call->parameters);
    else
        keep_buffer(entry, call->parameters ? NULL : call->extra);
}

/* Counts one launch and returns the place for it, held, with what every launch has filled in; NULL if it is not to be kept. */
static struct place *begin(CUcontext context, CUstream stream)
{
    struct timespec now;
    struct ring *ring = find_or_add(context);
    uint64_t sequence = __atomic_add_fetch(&ring->count, 1, __ATOMIC_RELAXED);
    struct place *place = ring->places && launches.size ? &ring->places[(sequence - 1) & (launches.size - 1)] : NULL;
    if (!place || !hold(place))
        return NULL;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    place->entry.sequence = sequence;
    place->entry.time_ns = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
    place->entry.stream = (uint64_t)(uintptr_t)stream;
    place->entry.tid = own_tid();
    place->entry.device = __atomic_load_n(&ring->device, __ATOMIC_RELAXED);
    return place;
}

void launch_record(CUcontext context, const struct launch_call *call)
{
    const struct launch_function *function = launches.size ? functions_find(call->function) : NULL;
    struct place *place = begin(context, call->stream);
    if (!place)
        return;
    fill(&place->entry, call, function);
    stack_capture_from(&place->entry.stack, call->frame ? call->frame : __builtin_frame_address(0));
    let_go(place);
}

void launch_record_graph(CUcontext context, CUgraphExec graph, CUstream stream, const void *frame)
{
    static const struct launch_call no_kernel;
    struct place *place = begin(context, stream);
    if (!place)
        return;
    fill(&place->entry, &no_kernel, NULL);
    place->entry.graph = (uint64_t)(uintptr_t)graph;
    stack_capture_from(&place->entry.stack, frame ? frame : __builtin_frame_address(0));
    let_go(place);
}

uint64_t launch_count(CUcontext context)
{
    struct ring *ring = context ? find(context) : NULL;
    return __atomic_load_n(ring ? &ring->count : &launches.others.count, __ATOMIC_ACQUIRE);
}

void launch_forget_functions(void)
{
    functions_forget();
}

void launch_forget_context(CUcontext context)
{
    functions_forget(); /* its modules go with it */
    pthread_mutex_lock(&launches.lock);
    struct ring *ring = context ? find(context) : NULL;
    for (uint64_t i = 0; ring && ring->places && i < launches.size; i++) {
        if (hold_soon(&ring->places[i])) {
            ring->places[i].entry.sequence = 0;
            let_go(&ring->places[i]);
        }
    }
    if (ring)
        __atomic_store_n(&ring->context, NULL, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&launches.lock);
}

/* ---- reading ---- */

static int is_asked_for(const struct launch_query *query, const struct launch_entry *entry)
{
    if (entry->graph)
        return query->has_graphs || !query->kernel;
    return !query->kernel || (entry->function && !strcmp(entry->function->name, query->kernel));
}

static size_t read_ring(struct ring *ring, const struct launch_query *query, struct launch_entry *out, size_t max)
{
    size_t found = 0;
    uint64_t count = __atomic_load_n(&ring->count, __ATOMIC_ACQUIRE);
    uint64_t oldest = count > launches.size ? count - launches.size + 1 : 1;
    for (uint64_t sequence = count; sequence >= oldest && found < max; sequence--) {
        struct place *place = &ring->places[(sequence - 1) & (launches.size - 1)];
        if (!hold_soon(place))
            continue;
        if (place->entry.sequence == sequence && is_asked_for(query, &place->entry))
            out[found++] = place->entry;
        let_go(place);
    }
    return found;
}

static int newest_first(const void *left, const void *right)
{
    const struct launch_entry *a = left, *b = right;
    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns ? 1 : -1;
    return a->sequence < b->sequence ? 1 : a->sequence > b->sequence ? -1 : 0;
}

size_t launch_read(const struct launch_query *query, struct launch_entry *out, size_t max)
{
    size_t found = 0, rings = 0, used = __atomic_load_n(&launches.used, __ATOMIC_ACQUIRE);
    for (size_t i = 0; i < used && found < max; i++) {
        struct ring *ring = &launches.rings[i];
        CUcontext context = __atomic_load_n(&ring->context, __ATOMIC_ACQUIRE);
        if (!context || !ring->places || (query->context && query->context != context) ||
            (query->device >= 0 && query->device != __atomic_load_n(&ring->device, __ATOMIC_RELAXED)))
            continue;
        size_t before = found;
        found += read_ring(ring, query, out + found, max - found);
        rings += found > before;
    }
    if (rings > 1)
        qsort(out, found, sizeof *out, newest_first);
    return found;
}
