/* Steps with buffers. */
#include "world.h"

#include <string.h>

#define MIXED 0x9E3779B1u /* makes each word differ from its neighbours */

/* ---- failing driver calls ---- */

/* Calls that cufence makes itself while the program allocates or frees, and that the program does not make at that time. */
static const char *const fragile[] = {
    "cuMemCreate",  "cuMemMap",        "cuMemSetAccess",      "cuEventCreate",          "cuEventRecord",
    "cuEventQuery", "cuMemUnmap",      "cuStreamIsCapturing", "cuStreamGetCaptureInfo", "cuCtxSynchronize",
    "cuMemRelease", "cuCtxPushCurrent"};

static const char *arm(struct world *world)
{
    static const CUresult codes[] = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN, CUDA_ERROR_INVALID_HANDLE};
    if (!settings.is_injected || world->is_shared || !chance(world, 25))
        return NULL;
    if (sim.fail_malloc && chance(world, 40)) {
        unsigned allocation = 1 + pick(world, 6);
        say(world, "allocation %u of cufence on the host fails", allocation);
        sim.fail_malloc(allocation);
        return "malloc";
    }
    const char *name = fragile[pick(world, sizeof fragile / sizeof fragile[0])];
    unsigned nth = 1 + pick(world, 3);
    CUresult code = codes[pick(world, 3)];
    say(world, "call %u of %s fails with %d", nth, name, (int)code);
    sim.fail_call(name, nth, code);
    return name;
}

static void disarm(const char *name)
{
    if (name && sim.fail_malloc)
        sim.fail_malloc(0);
    if (name)
        sim.fail_call(name, 0, CUDA_SUCCESS);
}

/* ---- picking ---- */

int buffer_pick(struct world *world)
{
    return PICK_WHERE(world, BUFFERS, world->buffers[i].is_live);
}

int buffer_newest(const struct world *world)
{
    for (int i = 0; i < BUFFERS; i++) {
        if (world->buffers[i].is_live && world->buffers[i].id == world->next_buffer)
            return i;
    }
    return -1;
}

int buffer_is_reachable(const struct world *world, const struct buffer *buffer, int queue)
{
    const struct context *from = &world->contexts[world->queues[queue].context];
    if (buffer->kind != BUFFER_POOL) /* only primary contexts have been given peer access */
        return world->queues[queue].context == buffer->context ||
               (from->is_primary && world->contexts[buffer->context].is_primary && from->device != buffer->device);
    return 1; /* every pool is open to every device (world_open(), step_pool()) */
}

static int queue_for(struct world *world, const struct buffer *buffer)
{
    for (int tries = 0; tries < 6; tries++) {
        int queue = queue_pick(world, chance(world, 40) ? buffer->context : -1);
        if (queue >= 0 && buffer_is_reachable(world, buffer, queue))
            return queue;
    }
    return -1;
}

/* Most buffers take one page, so that each may reuse another's place. */
static size_t draw_size(struct world *world)
{
    unsigned kind = pick(world, 100);
    size_t words = kind < 60 ? 1 + pick(world, 1024) : kind < 92 ? 1 + pick(world, 16384) : 524288 + pick(world, 4) * 131072;
    size_t bytes = chance(world, 15) ? (words + 3) / 4 * 16 : words * 4;
    if (kind >= 92 && chance(world, 30))
        bytes = ((size_t)2 << 20) - (chance(world, 50) ? 0 : 4);
    return bytes < settings.most_bytes ? bytes : settings.most_bytes / 4 * 4;
}

/* ---- work ---- */

static void used(struct world *world, struct buffer *buffer, int queue, uint32_t position, int is_written)
{
    buffer->uses.at[queue] = position;
    if (is_written) {
        memset(&buffer->contents, 0, sizeof buffer->contents);
        buffer->contents.at[queue] = position;
    }
}

void buffer_fill(struct world *world, int number, int queue)
{
    struct buffer *buffer = &world->buffers[number];
    struct queue *on = &world->queues[queue];
    int is_set = chance(world, 25);
    buffer->value = (uint32_t)draw(world);
    buffer->step = is_set ? 0 : MIXED;
    queue_enter(world, queue);
    used(world, buffer, queue, queue_submit(world, queue), 1);
    buffer->is_filled = 1;
    say(world, "%s #%u on queue %d with %#x", is_set ? "set" : "fill", buffer->id, queue, buffer->value);
    MUST(world, is_set ? cu.cuMemsetD32Async(buffer->address, buffer->value, buffer->bytes / 4, on->handle)
                       : launch_fill(&world->contexts[on->context].kernels, on->handle, buffer->address, buffer->bytes,
                                     buffer->value, buffer->step));
}

void buffer_check(struct world *world, int number, int queue)
{
    struct buffer *buffer = &world->buffers[number];
    struct check *check = check_add(world, queue);
    if (!check)
        return;
    struct queue *on = &world->queues[queue];
    queue_enter(world, queue);
    check->position = queue_submit(world, queue);
    check->buffer = buffer->id;
    check->value = buffer->value;
    check->step = buffer->step;
    used(world, buffer, queue, check->position, 0);
    say(world, "check #%u on queue %d: %#x", buffer->id, queue, buffer->value);
    MUST(world, launch_check(&world->contexts[on->context].kernels, on->handle, buffer->address, buffer->bytes, buffer->value,
                             buffer->step, check->result));
}

int step_use(struct world *world)
{
    int number = buffer_pick(world), queue = number < 0 ? -1 : queue_for(world, &world->buffers[number]);
    if (queue < 0)
        return 0;
    struct buffer *buffer = &world->buffers[number];
    int is_write = !buffer->is_filled || chance(world, 40);
    if (!queue_wait(world, queue, is_write ? &buffer->uses : &buffer->contents))
        return 0;
    if (is_write)
        buffer_fill(world, number, queue);
    else
        buffer_check(world, number, queue);
    return 1;
}

/* Copies to the host, or from one buffer to another. */
int step_copy(struct world *world)
{
    int from = buffer_pick(world), to = buffer_pick(world), queue = from < 0 ? -1 : queue_for(world, &world->buffers[from]);
    if (queue < 0 || !world->buffers[from].is_filled)
        return 0;
    struct buffer *source = &world->buffers[from], *target = &world->buffers[to];
    struct queue *on = &world->queues[queue];
    if (!world->depth && chance(world, 15)) {
        uint32_t word = 0, index = pick(world, (unsigned)(source->bytes / 4));
        if (!sync_clock(world, &source->contents))
            return 0;
        release_context(world, on->context); /* the call waits for the legacy stream */
        queue_enter(world, queue);
        say(world, "read #%u", source->id);
        MUST(world, cu.cuMemcpyDtoH(&word, source->address + (CUdeviceptr)index * 4, 4));
        if (word != source->value + index * source->step)
            fail(world, "buffer #%u holds wrong data: word %u is %#x, and should be %#x", source->id, index, word,
                 source->value + index * source->step);
        return 1;
    }
    if (from == to || target->bytes > source->bytes || !buffer_is_reachable(world, target, queue) ||
        !queue_wait(world, queue, &source->contents) || !queue_wait(world, queue, &target->uses))
        return 0;
    queue_enter(world, queue);
    uint32_t position = queue_submit(world, queue);
    used(world, source, queue, position, 0);
    used(world, target, queue, position, 1);
    target->value = source->value;
    target->step = source->step;
    target->is_filled = 1;
    say(world, "copy #%u to #%u on queue %d", source->id, target->id, queue);
    MUST(world, chance(world, 50) ? cu.cuMemcpyDtoDAsync(target->address, source->address, target->bytes, on->handle)
                                  : launch_copy(&world->contexts[on->context].kernels, on->handle, target->address,
                                                source->address, target->bytes));
    return 1;
}

/* Whether a buffer, of this world at least, has the memory now: streams=on takes what a launch is given for used. */
static int is_taken(const struct world *world, CUdeviceptr address)
{
    for (int i = 0; i < BUFFERS; i++) {
        const struct buffer *buffer = &world->buffers[i];
        if ((buffer->is_live || buffer->owner) && address - buffer->address < buffer->bytes)
            return 1;
    }
    return 0;
}

int step_stale(struct world *world)
{
    CUdeviceptr address = world->is_shared ? 0 : world->stale[pick(world, STALE)];
    int queue = address && !is_taken(world, address) ? queue_pick(world, -1) : -1;
    if (queue < 0)
        return 0;
    const struct queue *on = &world->queues[queue];
    queue_enter(world, queue);
    queue_submit(world, queue);
    say(world, "a launch on queue %d is given %#llx", queue, (unsigned long long)address);
    MUST(world, launch_fill(&world->contexts[on->context].kernels, on->handle, address, 0, 0, 0));
    return 1;
}

/* ---- allocating ---- */

static int place(const struct world *world)
{
    for (int i = 0; i < BUFFERS; i++) {
        if (!world->buffers[i].is_live && !world->buffers[i].owner)
            return i;
    }
    return -1;
}

static void look_at_address(struct world *world, const struct buffer *fresh)
{
    if (fresh->address == 0 || fresh->address % (CUdeviceptr)settings.align != 0)
        fail(world, "buffer #%u lies at %#llx", fresh->id, (unsigned long long)fresh->address);
    for (int i = 0; i < BUFFERS; i++) {
        const struct buffer *other = &world->buffers[i];
        if (other->is_live && other != fresh && fresh->address < other->address + other->bytes &&
            other->address < fresh->address + fresh->bytes)
            fail(world, "buffer #%u of %zu bytes lies at %#llx, in the live buffer #%u", fresh->id, fresh->bytes,
                 (unsigned long long)fresh->address, other->id);
    }
}

static void look_at_device(struct world *world, const struct buffer *buffer)
{
    int device = -1;
    MUST(world, cu.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, buffer->address));
    if (device != buffer->device)
        fail(world, "buffer #%u is on device %d instead of %d", buffer->id, device, buffer->device);
}

/* Picks a pool of the context's device, or any. */
static int pick_pool(struct world *world, int device)
{
    return PICK_WHERE(world, POOLS,
                      world->pools[i].is_live && (!(settings.without & FEATURE_POOLS) || world->pools[i].device == device));
}

static uint64_t count_live(void)
{
    cufence_stats stats = {.struct_size = sizeof stats};
    return fence.get_stats && fence.get_stats(-1, &stats) == CUFENCE_OK ? stats.live_buffers : 0;
}

/* Returns the new buffer, -1 if it could not be allocated. */
static int allocate_on(struct world *world, int queue, size_t bytes)
{
    int number = place(world);
    if (number < 0)
        return -1;
    struct queue *on = &world->queues[queue];
    struct buffer *buffer = &world->buffers[number];
    int device = world->contexts[on->context].device;
    unsigned kind = pick(world, 100);
    *buffer =
        (struct buffer){.id = ++world->next_buffer, .bytes = bytes, .context = on->context, .device = device, .pool = device};
    buffer->kind = settings.is_alone || (fence.malloc && kind < 12) ? BUFFER_API : kind < 35 ? BUFFER_DIRECT : BUFFER_POOL;
    queue_enter(world, queue);
    int is_named = buffer->kind == BUFFER_POOL && kind >= 80;
    if (is_named && (buffer->pool = pick_pool(world, device)) < 0)
        return -1;
    buffer->device = is_named ? world->pools[buffer->pool].device : device;
    if (buffer->kind == BUFFER_DIRECT)
        release_context(world, on->context); /* the driver's own allocator may wait */
    const char *armed = arm(world);
    uint64_t live = armed ? count_live() : 0;
    CUresult result;
    void *pointer = NULL;
    if (buffer->kind == BUFFER_API)
        result = fence.malloc(&pointer, bytes, -1, on->handle) == CUFENCE_OK ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    else if (buffer->kind == BUFFER_DIRECT)
        result = cu.cuMemAlloc(&buffer->address, bytes);
    else if (is_named)
        result = cu.cuMemAllocFromPoolAsync(&buffer->address, bytes, world->pools[buffer->pool].handle, on->handle);
    else
        result = cu.cuMemAllocAsync(&buffer->address, bytes, on->handle);
    disarm(armed);
    static const char *const kinds[] = {"cuMemAlloc", "cuMemAllocAsync", "cufence_malloc"};
    if (buffer->kind == BUFFER_API)
        buffer->address = (CUdeviceptr)(uintptr_t)pointer;
    if (result != CUDA_SUCCESS) {
        say(world, "%s of %zu bytes on queue %d: %d", kinds[buffer->kind], bytes, queue, (int)result);
        if (!armed && !world->lacks)
            fail(world, "an allocation has failed for no reason%s%s", buffer->kind == BUFFER_API ? ": " : "",
                 buffer->kind == BUFFER_API ? fence.error_detail() : "");
        return -1;
    }
    say(world, "#%u = %s of %zu bytes on queue %d%s: %#llx", buffer->id,
        is_named ? "cuMemAllocFromPoolAsync" : kinds[buffer->kind], bytes, queue, is_named ? " from a pool" : "",
        (unsigned long long)buffer->address);
    cufence_description place = {.struct_size = sizeof place};
    if (armed && fence.describe && fence.describe((void *)(uintptr_t)buffer->address, &place) == CUFENCE_OK &&
        place.place == CUFENCE_PLACE_UNKNOWN)
        world->leaked++; /* left to the driver, because cufence could not allocate its state: not in cufence's figures */
    buffer->is_live = 1;
    if (armed && count_live() == live)
        world->leaked++; /* out of host memory: the driver may serve the call, which cufence does not count */
    if (buffer->kind != BUFFER_DIRECT)
        used(world, buffer, queue, queue_mark(world, queue), 1);
    look_at_address(world, buffer);
    if (is_named)
        look_at_device(world, buffer);
    return number;
}

int buffer_make(struct world *world, int queue, size_t bytes)
{
    int number = queue < 0 ? -1 : allocate_on(world, queue, bytes);
    if (number < 0)
        return 0;
    if (chance(world, 92) && buffer_is_reachable(world, &world->buffers[number], queue)) {
        queue_wait(world, queue, &world->buffers[number].uses);
        buffer_fill(world, number, queue);
    }
    return 1;
}

int step_allocate(struct world *world)
{
    return buffer_make(world, queue_pick(world, -1), draw_size(world));
}

/* ---- freeing ---- */

/* A free never fails, whatever else does: the program would not try it again. */
static void freed(struct world *world, struct buffer *buffer, CUresult result)
{
    if (result != CUDA_SUCCESS)
        fail(world, "the free of buffer #%u has failed: %d", buffer->id, (int)result);
    buffer->is_live = 0;
    world->stale[pick(world, STALE)] = buffer->address + (chance(world, 50) ? 0 : buffer->bytes / 8 * 4);
}

/* Submits work right before a free: it disturbs, or is disturbed by, a reuse that comes too early. */
static void use_last(struct world *world, int number, int queue)
{
    struct buffer *buffer = &world->buffers[number];
    if (chance(world, 25))
        hold_queue(world, queue);
    if (buffer->is_filled && chance(world, 50))
        buffer_check(world, number, queue);
    if (chance(world, 60))
        buffer_fill(world, number, queue);
    if (buffer->is_filled && chance(world, 25))
        buffer_check(world, number, queue);
}

static int free_waiting(struct world *world, int number)
{
    struct buffer *buffer = &world->buffers[number];
    struct clock rest = buffer->uses;
    for (int i = 0; i < QUEUES; i++) {
        if (buffer->kind == BUFFER_DIRECT && world->queues[i].is_used && world->queues[i].context == buffer->context)
            rest.at[i] = 0; /* the call itself waits for the buffer's context, and for nothing else */
    }
    if (!sync_clock(world, &rest))
        return 0;
    /* Uses another context only if the work is done: it is undocumented which context such a call waits for. */
    int context = chance(world, 80) || !clock_covers(&world->host, &buffer->uses) ? buffer->context : 0;
    release_context(world, buffer->context); /* the call may wait for either */
    release_context(world, context);
    context_enter(world, context);
    say(world, "cuMemFree #%u", buffer->id);
    const char *armed = arm(world);
    CUresult result = cu.cuMemFree(buffer->address);
    disarm(armed);
    freed(world, buffer, result);
    return 1;
}

/* Recorded queues need not be done, since the free waits for them. If cufence is not told when a stream ends, it must exist
 * until then. */
static struct clock uses_unrecorded(const struct world *world, const struct buffer *buffer)
{
    struct clock needed = buffer->uses;
    for (int i = 0; i < QUEUES; i++) {
        if (buffer->recorded >> i & 1 && (world->queues[i].is_live || !settings.is_alone))
            needed.at[i] = 0;
    }
    return needed;
}

int buffer_free_on(struct world *world, int number, int queue)
{
    struct buffer *buffer = &world->buffers[number];
    struct clock needed = uses_unrecorded(world, buffer);
    if (!queue_wait(world, queue, &needed) || (buffer->kind == BUFFER_DIRECT && !sync_clock(world, &buffer->uses)))
        return 0;
    if (buffer->kind != BUFFER_DIRECT && clock_covers(&world->queues[queue].before, &buffer->uses))
        use_last(world, number, queue);
    queue_enter(world, queue);
    say(world, "free #%u on queue %d", buffer->id, queue);
    const char *armed = arm(world);
    CUresult result;
    if (buffer->kind == BUFFER_API)
        result = fence.free((void *)(uintptr_t)buffer->address, world->queues[queue].handle) == CUFENCE_OK ? CUDA_SUCCESS
                                                                                                           : CUDA_ERROR_UNKNOWN;
    else
        result = cu.cuMemFreeAsync(buffer->address, world->queues[queue].handle);
    disarm(armed);
    buffer->uses.at[queue] = queue_mark(world, queue);
    freed(world, buffer, result);
    return 1;
}

int buffer_free(struct world *world, int number)
{
    struct buffer *buffer = &world->buffers[number];
    if (buffer->graphs || (buffer->kind == BUFFER_DIRECT && world->depth))
        return 0; /* a launch would use it; a call that waits would invalidate the capture */
    unsigned asynchronous = buffer->kind == BUFFER_DIRECT ? 10 : buffer->kind == BUFFER_POOL ? 90 : 100;
    if (!world->depth && !chance(world, asynchronous))
        return free_waiting(world, number);
    int queue = queue_for(world, buffer);
    return queue >= 0 && buffer_free_on(world, number, queue);
}

int step_free(struct world *world)
{
    int number = buffer_pick(world);
    return number >= 0 && buffer_free(world, number);
}

int step_reallocate(struct world *world)
{
    int number = buffer_pick(world);
    if (number < 0)
        return 0;
    int context = world->buffers[number].context;
    size_t bytes = world->buffers[number].bytes;
    if (!buffer_free(world, number) || !world->contexts[context].is_live)
        return 0;
    return buffer_make(world, queue_pick(world, context), bytes);
}

/* ---- recording ---- */

void buffer_record(struct world *world, int number, int queue)
{
    struct buffer *buffer = &world->buffers[number];
    if (buffer->is_filled)
        buffer_check(world, number, queue);
    say(world, "record queue %d of #%u", queue, buffer->id);
    if (fence.record_stream((void *)(uintptr_t)buffer->address, world->queues[queue].handle) != CUFENCE_OK && !world->lacks)
        fail(world, "cufence_record_stream: %s", fence.error_detail());
    buffer->recorded |= UINT64_C(1) << queue;
}

int step_record(struct world *world)
{
    int number = fence.record_stream ? buffer_pick(world) : -1;
    if (number < 0 || world->buffers[number].kind != BUFFER_API)
        return 0;
    struct buffer *buffer = &world->buffers[number];
    int queue = queue_pick(world, buffer->context);
    if (queue < 0 || !queue_wait(world, queue, &buffer->contents))
        return 0;
    queue_enter(world, queue);
    if (chance(world, 40))
        hold_queue(world, queue);
    buffer_record(world, number, queue);
    return 1;
}
