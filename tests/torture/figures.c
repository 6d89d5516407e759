/* Steps that give memory back, that compare what is told of it with the world, and that look for memory of the host. */
#include "world.h"

#include <malloc.h>
#include <string.h>

int step_trim(struct world *world)
{
    int pool = (int)pick(world, POOLS);
    if (fence.trim && (settings.is_alone || chance(world, 30))) {
        release_contexts(world); /* with released graph pools it synchronises */
        say(world, "cufence_trim");
        return fence.trim(-1) == CUFENCE_OK;
    }
    if (!world->pools[pool].is_live)
        return 0;
    context_enter(world, world->pools[pool].device);
    say(world, "trim pool %d", pool);
    MUST(world, cu.cuMemPoolTrimTo(world->pools[pool].handle, 0));
    return 1;
}

static uint64_t attribute(struct world *world, int pool, CUmemPool_attribute which)
{
    cuuint64_t value = 0;
    MUST(world, cu.cuMemPoolGetAttribute(world->pools[pool].handle, which, &value));
    return value;
}

/* An allocation that is too large must fail, and leave no trace in the figures. */
int step_too_large(struct world *world)
{
    int queue = queue_pick(world, -1);
    if (queue < 0 || settings.is_alone || world->is_shared || (settings.without & FEATURE_LARGE))
        return 0;
    int device = world->contexts[world->queues[queue].context].device;
    CUdeviceptr address = 0;
    release_contexts(world); /* when out of memory, it may wait for pending frees */
    queue_enter(world, queue);
    uint64_t high = attribute(world, device, CU_MEMPOOL_ATTR_USED_MEM_HIGH);
    uint64_t now = attribute(world, device, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
    say(world, "an allocation that is too large, on queue %d", queue);
    CUresult result = cu.cuMemAllocAsync(&address, settings.lack_bytes, world->queues[queue].handle);
    if (result != CUDA_ERROR_OUT_OF_MEMORY)
        fail(world, "an allocation of %zu bytes: %d", settings.lack_bytes, (int)result);
    if (attribute(world, device, CU_MEMPOOL_ATTR_USED_MEM_HIGH) != high ||
        attribute(world, device, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) != now)
        fail(world, "an allocation that failed shows in the pool's figures: most used %llu, then %llu; used %llu, then %llu",
             (unsigned long long)high, (unsigned long long)attribute(world, device, CU_MEMPOOL_ATTR_USED_MEM_HIGH),
             (unsigned long long)now, (unsigned long long)attribute(world, device, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    return 1;
}

int step_figures(struct world *world)
{
    cufence_stats stats = {.struct_size = sizeof stats};
    uint64_t buffers = 0, bytes = 0;
    if (!fence.get_stats || world->is_shared || world->leaked || world->has_outputs)
        return 0;
    for (int i = 0; i < BUFFERS; i++) {
        buffers += (uint64_t)(world->buffers[i].is_live != 0);
        bytes += world->buffers[i].is_live ? world->buffers[i].bytes : 0;
    }
    if (fence.get_stats(-1, &stats) != CUFENCE_OK)
        fail(world, "cufence_get_stats: %s", fence.error_detail());
    say(world, "figures: %llu buffers of %llu bytes", (unsigned long long)buffers, (unsigned long long)bytes);
    cufence_unguarded left[16] = {{.struct_size = sizeof *left}};
    size_t reasons = 16;
    fence.get_unguarded(left, &reasons);
    for (size_t i = 0; i < reasons && i < 16; i++) {
        stats.live_buffers += left[i].live_buffers;
        stats.live_bytes += left[i].live_bytes;
    }
    if (stats.live_buffers != buffers || stats.live_bytes != bytes)
        fail(world, "cufence counts %llu live buffers of %llu bytes", (unsigned long long)stats.live_buffers,
             (unsigned long long)stats.live_bytes);
    if (fence.fault_count())
        fail(world, "cufence has reported a fault");
    return 1;
}

/* ---- many streams, threads or contexts ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static size_t host_bytes(void)
{
    return 0;
}
#else
static size_t host_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}
#endif

/* With reuse=0 the simulated device keeps each handle for good, of a context 80 events and 14 KB. */
static int handles_are_kept(void)
{
    const char *device = getenv("CUFENCE_SIM");
    return device && strstr(device, "reuse=0") != NULL;
}

static CUcontext churned;

static void use_stream(struct world *world, CUstream stream)
{
    CUdeviceptr address;
    MUST(world, cu.cuMemAllocAsync(&address, 4096, stream));
    MUST(world, cu.cuMemsetD32Async(address, 1, 1024, stream));
    MUST(world, cu.cuMemFreeAsync(address, stream));
}

static void churn_stream(struct world *world)
{
    CUstream stream;
    MUST(world, cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    use_stream(world, stream);
    destroy_stream(world, stream);
}

struct turn {
    struct world *world;
    CUdeviceptr address;
};

/* Submits no work: the simulated device keeps a worker for each stream that had some, and a thread's own stream ends with the
 * context. */
static void *in_thread(void *argument)
{
    struct turn *turn = argument;
    MUST(turn->world, cu.cuCtxSetCurrent(churned));
    MUST(turn->world, cu.cuMemAllocAsync(&turn->address, 4096, CU_STREAM_PER_THREAD));
    return NULL;
}

static void churn_thread(struct world *world)
{
    struct turn turn = {.world = world};
    pthread_t id;
    if (pthread_create(&id, NULL, in_thread, &turn) != 0)
        fail(world, "no thread could be started");
    pthread_join(id, NULL);
    MUST(world, cu.cuMemFree(turn.address));
}

static void churn_context(struct world *world)
{
    CUcontext context = context_make(world, 0);
    CUdeviceptr address;
    MUST(world, cu.cuCtxSetCurrent(context));
    MUST(world, cu.cuMemAlloc(&address, 4096));
    if (address % 8192)
        MUST(world, cu.cuMemFree(address));
    MUST(world, cu.cuCtxDestroy(context));
    MUST(world, cu.cuCtxSetCurrent(churned));
}

/* Creates and ends hundreds of streams, threads or contexts one after the other: later ones must take no memory that the first
 * ones did not. One doubling of a table is allowed. */
int step_churn(struct world *world)
{
    enum { ROUND = 80, ROUNDS = 3, PAUSE = 8, CONTEXTS_IN_A_ROW = 140 };
    static const struct {
        const char *name;
        void (*once)(struct world *world);
        size_t most; /* bytes per turn: what the simulated device keeps of a context or of a thread's stream */
        unsigned turns;
    } kinds[] = {{"streams", churn_stream, 1536, ROUND},
                 {"threads", churn_thread, 3072, ROUND},
                 {"contexts", churn_context, 6144, CONTEXTS_IN_A_ROW}};
    unsigned kind = pick(world, 3);
    if (world->is_shared || world->depth || settings.is_alone || !sim.fail_call || world->lacks ||
        ((settings.without & FEATURE_CHURN) && kinds[kind].once != churn_context))
        return 0;
    churned = context_make(world, 0);
    MUST(world, cu.cuCtxSetCurrent(churned));
    size_t grown = SIZE_MAX, most = kinds[kind].turns * kinds[kind].most * (handles_are_kept() ? 4 : 1);
    say(world, "churn: %s", kinds[kind].name);
    for (unsigned round = 0; round < ROUNDS && grown > most; round++) {
        size_t before = host_bytes();
        for (unsigned i = 0; i < kinds[kind].turns; i++) {
            kinds[kind].once(world);
            if (i % PAUSE == 0)
                MUST(world, cu.cuCtxSynchronize());
        }
        MUST(world, cu.cuCtxSynchronize());
        size_t after = host_bytes();
        grown = after > before ? after - before : 0;
    }
    if (grown > most)
        fail(world, "%u %s made and destroyed, and the host's memory has grown by %zu bytes", kinds[kind].turns,
             kinds[kind].name, grown);
    MUST(world, cu.cuCtxDestroy(churned));
    context_enter(world, 0);
    return 1;
}
