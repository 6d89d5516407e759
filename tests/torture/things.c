/* Steps with everything that is not a buffer: streams, contexts, pools, threads, processes. */
#include "world.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- streams ---- */

int step_stream(struct world *world)
{
    int queue = queue_pick(world, -1), streams = 0;
    for (int i = 0; i < QUEUES; i++)
        streams += world->queues[i].is_live && world->queues[i].kind >= QUEUE_BLOCKING;
    if (queue >= 0 && world->queues[queue].kind >= QUEUE_BLOCKING && (streams > 10 || chance(world, 35))) {
        queue_enter(world, queue);
        say(world, "destroy the stream of queue %d", queue);
        destroy_stream(world, world->queues[queue].handle);
        queue_end(world, queue);
        return 1;
    }
    int context = queue < 0 ? 0 : world->queues[queue].context;
    CUstream stream;
    int is_blocking = chance(world, 40);
    if (streams > 10 || !world->contexts[context].is_live)
        return 0;
    context_enter(world, context);
    MUST(world, cu.cuStreamCreate(&stream, is_blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
    queue = queue_add(world, is_blocking ? QUEUE_BLOCKING : QUEUE_NON_BLOCKING, context, stream);
    if (queue < 0) {
        destroy_stream(world, stream);
        return 0;
    }
    say(world, "queue %d = a %sblocking stream in context %d", queue, is_blocking ? "" : "non-", context);
    return 1;
}

int step_hold(struct world *world)
{
    int queue = queue_pick(world, -1);
    if (queue >= 0)
        hold_queue(world, queue);
    return queue >= 0;
}

int step_release(struct world *world)
{
    release_holds(world, NULL);
    return 1;
}

int step_synchronise(struct world *world)
{
    int queue = world->depth ? -1 : queue_pick(world, -1);
    if (queue < 0)
        return 0;
    if (chance(world, 70))
        sync_queue(world, queue);
    else
        sync_context(world, world->queues[queue].context);
    return 1;
}

/* ---- contexts ---- */

void context_add(struct world *world, int number, CUcontext handle, int device, const struct kernels *kernels)
{
    struct context *context = &world->contexts[number];
    *context = (struct context){.is_live = 1, .is_primary = number < DEVICES, .device = device, .handle = handle};
    context_enter(world, number);
    if (kernels)
        context->kernels = *kernels;
    else
        MUST(world, kernels_load(&context->kernels));
    int legacy = queue_add(world, QUEUE_LEGACY, number, chance(world, 50) ? NULL : CU_STREAM_LEGACY);
    if (legacy < 0)
        fail(world, "the torture program's own table of queues is full");
}

CUcontext context_make(struct world *world, int device)
{
    CUcontext handle, popped;
    MUST(world, cu.create_context(&handle, 0, device));
    MUST(world, cu.cuCtxPopCurrent(&popped));
    return handle;
}

/* Returns NULL if green contexts are not available. */
static CUgreenCtx make_green(struct world *world, int device)
{
    CUdevResource all;
    CUdevResourceDesc description;
    CUgreenCtx green;
    if (!cu.cuGreenCtxCreate || !sim.fail_call || settings.is_alone)
        return NULL;
    MUST(world, cu.cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
    MUST(world, cu.cuDevResourceGenerateDesc(&description, &all, 1));
    MUST(world, cu.cuGreenCtxCreate(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
    return green;
}

/* Without the preload library, cufence is told before a context ends. */
static void announce_end(struct world *world, int number)
{
    if (settings.is_alone && fence.context_gone(world->contexts[number].handle) != CUFENCE_OK)
        fail(world, "cufence_context_gone: %s", fence.error_detail());
}

void context_destroy(struct world *world, int number)
{
    const struct context *context = &world->contexts[number];
    announce_end(world, number);
    MUST(world, context->green ? cu.cuGreenCtxDestroy(context->green) : cu.cuCtxDestroy(context->handle));
}

int step_context(struct world *world)
{
    int number = DEVICES, device = (int)pick(world, (unsigned)settings.devices), queues = 0;
    CUcontext handle;
    while (number < CONTEXTS && world->contexts[number].is_live)
        number++;
    for (int i = 0; i < QUEUES; i++)
        queues += world->queues[i].is_used;
    if (number == CONTEXTS || queues > QUEUES - 20 || world->depth || (settings.is_alone && world->is_shared))
        return 0;
    CUgreenCtx green = chance(world, 40) ? make_green(world, device) : NULL;
    if (green)
        MUST(world, cu.cuCtxFromGreenCtx(&handle, green));
    else
        handle = context_make(world, device);
    say(world, "%scontext %d on device %d", green ? "green " : "", number, device);
    context_add(world, number, handle, device, NULL);
    world->contexts[number].green = green;
    return 1;
}

/* Makes it legal to end the context: nothing uses its memory any more, and what outlives it in some drivers but not in others
 * is freed. Returns 0 if that is not possible. */
static int empty_context(struct world *world, int number)
{
    int green = world->contexts[number].green != NULL; /* its memory belongs to the primary context, and stays */
    for (int i = DEVICES; i < CONTEXTS; i++) {
        if (world->contexts[number].is_primary && world->contexts[i].is_live && world->contexts[i].green &&
            world->contexts[i].device == world->contexts[number].device)
            return 0;
    }
    for (int g = 0; g < GRAPHS; g++) {
        if (world->graphs[g].is_live && world->graphs[g].executable)
            graph_drop(world, g);
    }
    for (int i = 0; i < BUFFERS; i++) {
        struct buffer *buffer = &world->buffers[i];
        if (!buffer->is_live || buffer->context != number)
            continue;
        if (!sync_clock(world, &buffer->uses))
            return 0;
        for (int tries = 0; buffer->is_live && tries < 20 && (buffer->kind == BUFFER_POOL || green || chance(world, 50));
             tries++)
            buffer_free(world, i);
        if (buffer->is_live && (buffer->kind == BUFFER_POOL || green))
            return 0;
        if (buffer->is_live && !sync_clock(world, &buffer->uses))
            return 0;
    }
    /* Streams of other contexts may still use freed memory: whether that outlives the context is undocumented. */
    for (int i = 0; i < CONTEXTS; i++) {
        if (world->contexts[i].is_live)
            sync_context(world, i);
    }
    if (settings.is_alone) /* cufence has not seen the synchronisations, and would keep what another context has used */
        ask_for_too_much(world);
    return 1;
}

void context_end(struct world *world, int number)
{
    world->contexts[number].is_live = 0;
    for (int i = 0; i < BUFFERS; i++) {
        if (world->buffers[i].context == number) {
            world->buffers[i].is_live = 0;
            world->buffers[i].owner = 0;
        }
    }
    for (int i = 0; i < QUEUES; i++) {
        if (world->queues[i].is_live && world->queues[i].context == number)
            queue_end(world, i);
    }
}

int step_destroy_context(struct world *world)
{
    int number = DEVICES + (int)pick(world, CONTEXTS - DEVICES);
    if (!world->contexts[number].is_live || world->depth || !empty_context(world, number))
        return 0;
    say(world, "destroy context %d", number);
    context_destroy(world, number);
    context_end(world, number);
    context_enter(world, 0);
    return 1;
}

/* A library retains and releases the primary context. Nothing ends, so nothing may wait. */
int step_primary(struct world *world)
{
    CUcontext handle;
    int device = (int)pick(world, (unsigned)settings.devices);
    MUST(world, cu.cuDevicePrimaryCtxRetain(&handle, device));
    say(world, "retain and release the primary context of device %d", device);
    if (handle != world->contexts[device].handle)
        fail(world, "the primary context has changed");
    MUST(world, cu.cuDevicePrimaryCtxRelease(device));
    return 1;
}

int step_reset(struct world *world)
{
    int device = (int)pick(world, (unsigned)settings.devices);
    CUcontext handle;
    if (world->is_shared || world->depth || !sim.fail_call || !empty_context(world, device))
        return 0;
    int is_release = chance(world, 50);
    say(world, "%s of device %d's primary context", is_release ? "last release" : "reset", device);
    announce_end(world, device);
    MUST(world, is_release ? cu.cuDevicePrimaryCtxRelease(device) : cu.cuDevicePrimaryCtxReset(device));
    context_end(world, device);
    MUST(world, cu.cuDevicePrimaryCtxRetain(&handle, device));
    if (!is_release) /* a reset releases nothing: it is still retained once */
        MUST(world, cu.cuDevicePrimaryCtxRelease(device));
    context_add(world, device, handle, device, NULL);
    for (int other = 0; other < settings.devices; other++) {
        if (other != device) {
            context_enter(world, device);
            cu.cuCtxEnablePeerAccess(world->contexts[other].handle, 0);
            context_enter(world, other);
            cu.cuCtxEnablePeerAccess(world->contexts[device].handle, 0);
        }
    }
    return 1;
}

/* ---- pools ---- */

void pool_open(struct world *world, const struct pool *pool)
{
    for (int other = 0; other < settings.devices; other++) {
        const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, other}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        if (other != pool->device)
            MUST(world, cu.cuMemPoolSetAccess(pool->handle, &access, 1));
    }
}

static int make_pool(struct world *world, int number)
{
    struct pool *pool = &world->pools[number];
    pool->device = (int)pick(world, (unsigned)settings.devices);
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = pool->device;
    MUST(world, cu.cuMemPoolCreate(&pool->handle, &properties));
    pool_open(world, pool);
    pool->is_live = 1;
    say(world, "pool %d on device %d", number, pool->device);
    return 1;
}

int step_pool(struct world *world)
{
    int number = DEVICES + (int)pick(world, POOLS - DEVICES);
    struct pool *pool = &world->pools[number];
    if (world->depth || settings.is_alone)
        return 0;
    if (!pool->is_live)
        return make_pool(world, number);
    if (!chance(world, 40))
        return 0;
    say(world, "destroy pool %d, with what it has given out", number);
    MUST(world, cu.cuMemPoolDestroy(pool->handle));
    pool->is_live = 0;
    return 1;
}

/* ---- threads and processes ---- */

int step_thread(struct world *world)
{
    int thread = 1 + (int)pick(world, THREADS - 1);
    if (world->thread != 0 || world->depth)
        return 0;
    if (world->actors[thread].is_live)
        actor_end(world, thread);
    else
        actor_start(world, thread);
    return 1;
}

static int hold_and_free(struct world *world)
{
    int queue = queue_own_default(world, world->context);
    if (queue < 0 || !buffer_make(world, queue, 4096))
        return 0;
    hold_queue(world, queue);
    int newest = buffer_newest(world);
    return newest >= 0 && buffer_free_on(world, newest, queue);
}

static int make_again(struct world *world)
{
    int queue = queue_own_default(world, world->context);
    return queue >= 0 && buffer_make(world, queue, 4096);
}

static int record_and_use(struct world *world)
{
    struct buffer *buffer = &world->buffers[world->subject];
    int queue = queue_own_default(world, buffer->context);
    if (queue < 0 || !buffer->is_filled || !queue_wait(world, queue, &buffer->contents))
        return 0;
    hold_queue(world, queue);
    buffer_record(world, world->subject, queue);
    return 1;
}

/* One thread records its own default stream, another frees and allocates again. */
static int record_elsewhere(struct world *world, int thread)
{
    int number = buffer_pick(world);
    if (number < 0 || world->buffers[number].kind != BUFFER_API || world->buffers[number].graphs || !fence.record_stream ||
        world->lacks)
        return 0;
    world->subject = number;
    int queue = queue_pick(world, world->buffers[number].context);
    size_t bytes = world->buffers[number].bytes;
    return queue >= 0 && actor_play(world, thread, record_and_use) && buffer_free_on(world, number, queue) &&
           buffer_make(world, queue, bytes);
}

/* A thread ends while its own default stream is busy with memory it has freed there, and another thread takes its place. */
int step_turnover(struct world *world)
{
    int thread = 1 + (int)pick(world, THREADS - 1);
    if (world->thread != 0 || world->depth)
        return 0;
    if (!world->actors[thread].is_live)
        actor_start(world, thread);
    if (chance(world, 50) || !sim.fail_call) /* a thread of a real GPU does not end: struct thread */
        return record_elsewhere(world, thread);
    world->context = (int)pick(world, (unsigned)settings.devices);
    if (!actor_play(world, thread, hold_and_free))
        return 0;
    actor_end(world, thread);
    actor_start(world, thread);
    return actor_play(world, thread, make_again);
}

/* CUDA does not survive a fork: calls in the child fail, and none may hang. */
int child_is_wrong(CUdeviceptr live)
{
    CUdeviceptr address;
    alarm(20);
    int is_wrong = cu.cuMemAllocAsync(&address, 4096, NULL) == CUDA_SUCCESS;
    is_wrong |= cu.cuMemAlloc(&address, 4096) == CUDA_SUCCESS ? 2 : 0;
    if (live)
        is_wrong |= (cu.cuMemFreeAsync(live, NULL) == CUDA_SUCCESS ? 4 : 0) | (cu.cuMemFree(live) == CUDA_SUCCESS ? 8 : 0);
    return is_wrong;
}

int step_fork(struct world *world)
{
    int number = buffer_pick(world), status = 0;
    if (world->depth || settings.is_alone || !sim.fail_call)
        return 0;
    context_enter(world, 0);
    say(world, "fork");
    pid_t child = fork();
    if (child == 0)
        _exit(child_is_wrong(number < 0 ? 0 : world->buffers[number].address));
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    if (child < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail(world, "after a fork the child %s (%#x)", WIFSIGNALED(status) ? "hung or crashed" : "could allocate or free",
             (unsigned)status);
    return 1;
}
