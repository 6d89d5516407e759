#include "world.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct settings settings;
uint64_t progress;

/* ---- chance ---- */

uint64_t draw_from(uint64_t *random)
{
    uint64_t z = *random += UINT64_C(0x9E3779B97F4A7C15); /* splitmix64, after Steele, Lea and Flood */
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

uint64_t draw(struct world *world)
{
    return draw_from(&world->random);
}

unsigned pick(struct world *world, unsigned count)
{
    return (unsigned)((draw(world) >> 32) * count >> 32);
}

int chance(struct world *world, unsigned percent)
{
    return pick(world, 100) < percent;
}

/* ---- the log ---- */

static pthread_mutex_t print_lock = PTHREAD_MUTEX_INITIALIZER;
static struct world *worlds[8]; /* open worlds, by number */

void say(struct world *world, const char *format, ...)
{
    char *line = world->log[world->lines++ % LINES];
    va_list arguments;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    int length = snprintf(line, LINE_BYTES, "%3ld.%03ld %4u t%d ", now.tv_sec % 1000, now.tv_nsec / 1000000, world->steps,
                          world->thread);
    va_start(arguments, format);
    vsnprintf(line + length, (size_t)(LINE_BYTES - length), format, arguments);
    va_end(arguments);
    __atomic_add_fetch(&progress, 1, __ATOMIC_RELAXED);
    if (settings.is_verbose)
        fprintf(stderr, "[%d] %s\n", world->number, line);
}

static void print(const struct world *world, unsigned most)
{
    unsigned first = world->lines > most ? world->lines - most : 0;
    fprintf(stderr, "steps of world %d of seed %llu%s:\n", world->number, (unsigned long long)world->seed,
            first ? ", the last ones" : "");
    for (unsigned i = first; i < world->lines; i++)
        fprintf(stderr, "  %s\n", world->log[i % LINES]);
}

void worlds_print(void)
{
    for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++) {
        if (worlds[i])
            print(worlds[i], 40);
    }
}

void fail(struct world *world, const char *format, ...)
{
    va_list arguments;
    if (settings.is_surrounded) {
        note(format, (uint64_t)errno);
        _exit(9);
    }
    pthread_mutex_lock(&print_lock); /* never released */
    usleep(300000);                  /* a report of cufence may be on its way */
    if (!settings.is_verbose)
        print(world, LINES);
    if (fence.fault_count && fence.fault_count())
        fprintf(stderr, "FAILED seed %llu: cufence has reported a fault\n", (unsigned long long)world->seed);
    fprintf(stderr, "FAILED seed %llu: ", (unsigned long long)world->seed);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\n");
    _exit(1);
}

void must(struct world *world, const char *call, CUresult result)
{
    const char *name = "an unknown error";
    if (result == CUDA_SUCCESS)
        return;
    if (settings.is_surrounded)
        note(call, result);
    cu.cuGetErrorName(result, &name);
    fail(world, "%s: %s", call, name);
}

/* ---- beginning ---- */

/* The primary contexts of the process, and its memory shared by devices and host, which outlive the worlds. */
static struct {
    CUcontext handle;
    struct kernels kernels;
} primaries[DEVICES]; /* under open_lock, or while only one world is open */

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;

static struct memory {
    struct result results[CHECKS], graph_results[GRAPHS * GRAPH_STEPS];
    struct latch latches[HOLDS];
    char log[LINES][LINE_BYTES];
} * memories[8];

static void open_devices(struct world *world)
{
    for (int device = 0; device < settings.devices; device++) {
        if (!primaries[device].handle)
            MUST(world, cu.cuDevicePrimaryCtxRetain(&primaries[device].handle, device));
        if (!primaries[device].kernels.fill) {
            MUST(world, cu.cuCtxSetCurrent(primaries[device].handle));
            MUST(world, kernels_load(&primaries[device].kernels));
        }
    }
    for (int device = 0; device < settings.devices; device++) {
        struct pool *pool = &world->pools[device];
        context_add(world, device, primaries[device].handle, device, &primaries[device].kernels);
        MUST(world, cu.cuDeviceGetDefaultMemPool(&pool->handle, device));
        *pool = (struct pool){.is_live = 1, .device = device, .handle = pool->handle};
        pool_open(world, pool);
        for (int other = 0; other < settings.devices; other++) {
            if (other != device)
                cu.cuCtxEnablePeerAccess(primaries[other].handle, 0); /* may be enabled already */
        }
    }
}

void world_open(struct world *world, uint64_t seed, int number, int is_shared)
{
    memset(world, 0, sizeof *world);
    world->seed = seed;
    world->number = number;
    world->is_shared = is_shared;
    world->random = seed * 8 + (uint64_t)number;
    world->lacks = settings.is_scarce || settings.is_injected;
    pthread_mutex_lock(&open_lock);
    if (!memories[number]) {
        if (!primaries[0].handle)
            cu.cuDevicePrimaryCtxRetain(&primaries[0].handle, 0);
        cu.cuCtxSetCurrent(primaries[0].handle);
        memories[number] = shared_memory(sizeof *memories[number]);
    }
    if (!memories[number]) {
        fprintf(stderr, "torture: no memory\n");
        exit(2);
    }
    struct memory *memory = memories[number];
    memset(memory, 0, sizeof *memory);
    world->results = memory->results;
    world->graph_results = memory->graph_results;
    world->latches = memory->latches;
    world->log = memory->log;
    worlds[number] = world;
    for (int i = 0; i < HOLDS; i++)
        world->holds[i].latch = &world->latches[i];
    for (int i = 0; i < CHECKS; i++)
        world->checks[i].result = &world->results[i];
    world->actors[0] = (struct actor){.is_live = 1, .world = world};
    open_devices(world);
    pthread_mutex_unlock(&open_lock);
}

/* ---- the end ---- */

static void settle(struct world *world)
{
    for (int i = 0; i < HOLDS; i++) {
        struct hold *hold = &world->holds[i];
        if (hold->is_pending)
            release_holds(world, NULL);
    }
    for (int i = 0; i < CONTEXTS; i++) {
        if (world->contexts[i].is_live)
            sync_context(world, i);
    }
}

/* Retries each buffer: if its last user was another thread's stream, no remaining stream may be able to name that one. */
static void free_all(struct world *world)
{
    for (int i = 0; i < BUFFERS; i++) {
        struct buffer *buffer = &world->buffers[i];
        for (int tries = 0; buffer->is_live && tries < 200; tries++)
            buffer_free(world, i);
        if (buffer->is_live)
            fail(world, "the torture program finds no way to free #%u", buffer->id);
        buffer->owner = 0;
    }
}

static void check_all(struct world *world)
{
    for (int i = 0; i < BUFFERS; i++) {
        const struct buffer *buffer = &world->buffers[i];
        for (int queue = 0; buffer->is_live && buffer->is_filled && queue < QUEUES; queue++) {
            if (world->queues[queue].is_live && world->queues[queue].kind == QUEUE_LEGACY &&
                world->queues[queue].context == buffer->context && queue_wait(world, queue, &buffer->contents))
                buffer_check(world, i, queue);
        }
    }
}

void ask_for_too_much(struct world *world)
{
    CUdeviceptr address;
    void *pointer;
    for (int i = 0; i < CONTEXTS; i++) {
        if (!world->contexts[i].is_live)
            continue;
        context_enter(world, i);
        if (settings.is_alone ? fence.malloc(&pointer, settings.lack_bytes, -1, NULL) == CUFENCE_OK
                              : cu.cuMemAlloc(&address, settings.lack_bytes) == CUDA_SUCCESS)
            fail(world, "%zu bytes have been had", settings.lack_bytes);
    }
}

/* Everything is freed and nothing runs: nothing may be mapped. */
static void look_for_lost_memory(struct world *world)
{
    cufence_stats stats = {.struct_size = sizeof stats};
    if (!fence.trim || world->leaked || world->is_shared)
        return;
    /* After a failed call only a synchronisation proves that memory is unused, and trims don't synchronise. */
    if (settings.is_injected || settings.is_alone)
        ask_for_too_much(world);
    for (int tries = 0; tries < 100; tries++) {
        fence.trim(-1);
        fence.get_stats(-1, &stats);
        if (stats.mapped_bytes == 0 || (settings.is_injected && stats.mapped_bytes == stats.captured_bytes))
            return;    /* a graph that could not be followed, because a call failed, keeps its memory for good */
        usleep(50000); /* memory of destroyed graphs is released in the background */
    }
    fail(world, "nothing is live, and %llu bytes are mapped: %llu idle, %llu for graphs",
         (unsigned long long)stats.mapped_bytes, (unsigned long long)stats.idle_bytes,
         (unsigned long long)stats.captured_bytes);
}

void await_outputs(void)
{
    cufence_stats stats = {.struct_size = sizeof stats, .live_buffers = 1};
    for (int tries = 0; fence.get_stats && stats.live_buffers && tries < 500; tries++) {
        usleep(tries ? 10000 : 0);
        fence.get_stats(-1, &stats);
    }
}

void world_close(struct world *world)
{
    say(world, "the end");
    settle(world);
    check_all(world);
    for (int i = 0; i < GRAPHS; i++) {
        if (world->graphs[i].is_live && world->graphs[i].executable)
            graph_drop(world, i);
    }
    free_all(world);
    for (int i = 1; i < THREADS; i++) {
        if (world->actors[i].is_live)
            actor_end(world, i);
    }
    settle(world);
    for (int i = 0; i < QUEUES; i++) {
        if (world->queues[i].is_live && world->queues[i].kind >= QUEUE_BLOCKING) {
            queue_enter(world, i);
            destroy_stream(world, world->queues[i].handle);
        }
    }
    for (int i = DEVICES; i < POOLS; i++) {
        if (world->pools[i].is_live)
            MUST(world, cu.cuMemPoolDestroy(world->pools[i].handle));
    }
    if (world->has_outputs && !world->is_shared)
        await_outputs();
    world->has_outputs = 0;
    step_figures(world);
    if (settings.is_alone || chance(world, 50))
        look_for_lost_memory(world);
    for (int i = DEVICES; i < CONTEXTS; i++) {
        if (world->contexts[i].is_live)
            context_destroy(world, i);
    }
    context_enter(world, 0);
    step_figures(world);
    for (int i = 0; i < settings.devices && !world->is_shared; i++) { /* a reset may have created another one */
        primaries[i].handle = world->contexts[i].handle;
        primaries[i].kernels = world->contexts[i].kernels;
    }
    for (int i = 0; i < CHECKS; i++) {
        if (world->checks[i].is_pending)
            fail(world, "the torture program has forgotten a check of #%u", world->checks[i].buffer);
    }
    worlds[world->number] = NULL;
}
