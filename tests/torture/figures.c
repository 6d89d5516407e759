/* Steps that give memory back, and that compare what is told of it with the world. */
#include "world.h"

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
    cufence_stats stats;
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
    cufence_unguarded left[16];
    size_t reasons = fence.get_unguarded(left, 16);
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
