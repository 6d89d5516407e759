/*
 * The program's memory pools. The driver's own pools stay empty; their handles identify our pools. Those have no memory of
 * their own either: buffers come from the heap, and a pool only counts what was allocated in its name.
 *
 * A pool's RESERVED memory is what its buffers map, and what the program wants the pool to keep of what they have mapped (its
 * release threshold). It is told in the driver's steps.
 */
#include "preload_internal.h"

#include "base/aside.h"
#include "base/output.h"

#include "base/lock.h"
#include "base/options.h"
#include "base/peak.h"

#include <assert.h>

#define POOLS 255     /* below HEAP_TORCH */
#define FIRST_POOL 3u /* 0: not ours; below: OWNER_NO_POOL, OWNER_GRAPH */

/* The driver's pools reserve memory in such steps (H100, driver 580.159), so a small allocation usually leaves the figure as it
 * is, and programs count on that. A pool's limit is in such steps, too. */
#define RESERVE_STEP ((uint64_t)32 << 20)

struct pool_account {
    CUmemoryPool handle; /* NULL: unused entry */
    int device;          /* atomic: pools_keep() looks at all entries */
    int is_default;
    uint64_t limit;           /* bytes, 0: none */
    uint64_t used, used_high; /* atomic, like everything below */
    uint64_t mapped, mapped_high;
    uint64_t peak;      /* of mapped, since memory was last taken from the pool */
    uint64_t threshold; /* how much the program wants it to keep, in bytes, freed memory included */
    uint64_t live;
    int is_destroyed; /* atomic; the entry becomes unused once nothing is live */
};

static struct pool_account pools[POOLS];
static unsigned pools_end = FIRST_POOL;     /* atomic: no entry from here on was ever used */
static struct lock lock = LOCK(RANK_POOLS); /* for creating and destroying pools */
static unsigned generation = 1;             /* atomic: a change invalidates what threads have cached */

void pools_changed(void)
{
    __atomic_add_fetch(&generation, 1, __ATOMIC_RELEASE);
}

static unsigned lookup(CUmemoryPool handle)
{
    for (unsigned i = FIRST_POOL; handle && i < __atomic_load_n(&pools_end, __ATOMIC_RELAXED); i++) {
        if (__atomic_load_n(&pools[i].handle, __ATOMIC_ACQUIRE) == handle &&
            !__atomic_load_n(&pools[i].is_destroyed, __ATOMIC_RELAXED))
            return i;
    }
    return 0;
}

/* The program may capture meanwhile, which forbids to ask for it (driver 580.159). */
static uint64_t threshold_of(CUmemoryPool handle)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    cuuint64_t bytes = 0;
    driver->cuThreadExchangeStreamCaptureMode(&mode);
    real.cuMemPoolGetAttribute(handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes);
    driver->cuThreadExchangeStreamCaptureMode(&mode);
    return bytes;
}

static unsigned add(CUmemoryPool handle, int device, int is_default, uint64_t limit)
{
    uint64_t threshold = threshold_of(handle);
    lock_take(&lock);
    unsigned owner = lookup(handle);
    for (unsigned i = FIRST_POOL; !owner && i < POOLS; i++) {
        if (pools[i].handle)
            continue;
        __atomic_store_n(&pools[i].device, device, __ATOMIC_RELAXED);
        pools[i].is_default = is_default;
        pools[i].limit = limit;
        pools[i].live = 0;
        uint64_t *const figures[] = {&pools[i].used,        &pools[i].used_high, &pools[i].mapped,
                                     &pools[i].mapped_high, &pools[i].peak,      &pools[i].threshold};
        for (size_t k = 0; k < sizeof figures / sizeof *figures; k++)
            __atomic_store_n(figures[k], 0, __ATOMIC_RELAXED);
        __atomic_store_n(&pools[i].threshold, threshold, __ATOMIC_RELAXED);
        __atomic_store_n(&pools[i].is_destroyed, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&pools[i].handle, handle, __ATOMIC_RELEASE);
        owner = i;
        if (i >= pools_end)
            __atomic_store_n(&pools_end, i + 1, __ATOMIC_RELAXED);
    }
    lock_release(&lock);
    if (!owner)
        output_say("cufence: more than %u memory pools at once: this one is left to the driver, unguarded\n",
                   POOLS - FIRST_POOL);
    pools_changed();
    return owner;
}

/* Finds a pool that the program created, or the default pool of a device, which is registered at its first use. */
unsigned pool_of_handle(CUmemoryPool handle)
{
    unsigned owner = lookup(handle);
    for (int i = 0; !owner && handle && i < preload_devices; i++) {
        CUdevice device;
        CUmemoryPool standard = NULL;
        if (driver->cuDeviceGet(&device, i) == CUDA_SUCCESS &&
            driver->cuDeviceGetDefaultMemPool(&standard, device) == CUDA_SUCCESS && standard == handle)
            owner = add(handle, i, 1, 0);
    }
    return owner;
}

static unsigned find_current(int device)
{
    CUmemoryPool handle = NULL;
    if (driver->cuDeviceGetMemPool(&handle, device) != CUDA_SUCCESS)
        return 0;
    return pool_of_handle(handle);
}

unsigned pool_current(const struct context *context)
{
    static _Thread_local struct {
        uint64_t context;
        unsigned generation, owner;
    } latest;
    unsigned now = __atomic_load_n(&generation, __ATOMIC_ACQUIRE);
    if (latest.context == context->generation && latest.generation == now)
        return latest.owner;
    unsigned owner = find_current(context->device);
    latest.context = context->generation;
    latest.generation = now; /* the value read above: if add() has changed it since, the next call looks again */
    latest.owner = owner;
    return owner;
}

CUmemoryPool pool_handle(unsigned owner)
{
    return owner >= FIRST_POOL && owner < POOLS ? pools[owner].handle : NULL;
}

int pool_device(unsigned owner, const struct context *context)
{
    return owner >= FIRST_POOL ? pools[owner].device : context->device;
}

/* What does not fit is never counted: another thread's may fit meanwhile. */
static int reserve_within(struct pool_account *pool, size_t size)
{
    uint64_t used = __atomic_load_n(&pool->used, __ATOMIC_RELAXED);
    do {
        if (size > pool->limit || used > pool->limit - size)
            return 0;
    } while (!__atomic_compare_exchange_n(&pool->used, &used, used + size, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return 1;
}

int pool_reserve(unsigned owner, size_t size)
{
    struct pool_account *pool = &pools[owner];
    if (owner < FIRST_POOL)
        return 1;
    if (!pool->limit)
        __atomic_add_fetch(&pool->used, size, __ATOMIC_RELAXED);
    else if (!reserve_within(pool, size))
        return 0;
    __atomic_add_fetch(&pool->live, 1, __ATOMIC_RELAXED);
    return 1;
}

static void release_if_done(struct pool_account *pool)
{
    assert(__atomic_load_n(&pool->live, __ATOMIC_RELAXED));
    if (__atomic_sub_fetch(&pool->live, 1, __ATOMIC_ACQ_REL) || !__atomic_load_n(&pool->is_destroyed, __ATOMIC_ACQUIRE))
        return;
    HOLD(&lock);
    if (pool->is_destroyed && !__atomic_load_n(&pool->live, __ATOMIC_ACQUIRE))
        __atomic_store_n(&pool->handle, NULL, __ATOMIC_RELEASE);
}

void pool_cancel(unsigned owner, size_t size)
{
    if (owner < FIRST_POOL)
        return;
    __atomic_sub_fetch(&pools[owner].used, size, __ATOMIC_RELAXED);
    release_if_done(&pools[owner]);
}

void pool_mapped(unsigned owner, size_t mapped)
{
    if (owner < FIRST_POOL)
        return;
    raise_to(&pools[owner].used_high, __atomic_load_n(&pools[owner].used, __ATOMIC_RELAXED));
    uint64_t all = __atomic_add_fetch(&pools[owner].mapped, mapped, __ATOMIC_RELAXED);
    raise_to(&pools[owner].mapped_high, all);
    raise_to(&pools[owner].peak, all);
}

void pool_freed(const struct heap_freed *freed)
{
    if (freed->owner < FIRST_POOL || freed->owner >= POOLS)
        return;
    struct pool_account *pool = &pools[freed->owner];
    __atomic_sub_fetch(&pool->used, freed->size, __ATOMIC_RELAXED);
    __atomic_sub_fetch(&pool->mapped, freed->mapped, __ATOMIC_RELAXED);
    release_if_done(pool);
}

/* Freed memory that the pool keeps, because the program wants it to. */
static uint64_t kept(const struct pool_account *pool)
{
    uint64_t own = __atomic_load_n(&pool->mapped, __ATOMIC_RELAXED), peak = __atomic_load_n(&pool->peak, __ATOMIC_RELAXED);
    uint64_t threshold = __atomic_load_n(&pool->threshold, __ATOMIC_RELAXED), most = threshold < peak ? threshold : peak;
    return most > own && !__atomic_load_n(&pool->is_destroyed, __ATOMIC_RELAXED) ? most - own : 0;
}

uint64_t pools_keep(int device)
{
    uint64_t sum = 0;
    for (unsigned i = FIRST_POOL; i < __atomic_load_n(&pools_end, __ATOMIC_RELAXED); i++)
        sum += __atomic_load_n(&pools[i].device, __ATOMIC_RELAXED) == device ? kept(&pools[i]) : 0;
    return sum;
}

void pools_relieved(int device, uint64_t left)
{
    for (unsigned i = FIRST_POOL; i < __atomic_load_n(&pools_end, __ATOMIC_RELAXED); i++) {
        struct pool_account *pool = &pools[i];
        if (__atomic_load_n(&pool->device, __ATOMIC_RELAXED) != device)
            continue;
        uint64_t had = kept(pool), has = had < left ? had : left;
        left -= has;
        __atomic_store_n(&pool->peak, __atomic_load_n(&pool->mapped, __ATOMIC_RELAXED) + has, __ATOMIC_RELAXED);
    }
}

static uint64_t reserved(struct pool_account *pool)
{
    return __atomic_load_n(&pool->mapped, __ATOMIC_RELAXED) + kept(pool);
}

static uint64_t reserved_high(struct pool_account *pool)
{
    uint64_t most = __atomic_load_n(&pool->mapped_high, __ATOMIC_RELAXED), now = reserved(pool);
    return most > now ? most : now;
}

static uint64_t in_steps(uint64_t bytes)
{
    return (bytes + RESERVE_STEP - 1) / RESERVE_STEP * RESERVE_STEP;
}

CUresult hook_cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
    CUresult result = real.cuMemPoolGetAttribute(handle, attribute, value);
    unsigned owner = is_active() ? pool_of_handle(handle) : 0;
    if (result != CUDA_SUCCESS || !value || !owner)
        return result;
    cuuint64_t *bytes = value;
    switch ((int)attribute) { /* added to the driver's own value: graphs may have memory in its pool */
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        *bytes += in_steps(reserved(&pools[owner]));
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        *bytes += in_steps(reserved_high(&pools[owner]));
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        *bytes += __atomic_load_n(&pools[owner].used, __ATOMIC_RELAXED);
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        *bytes += __atomic_load_n(&pools[owner].used_high, __ATOMIC_RELAXED);
        break;
    default:
        break;
    }
    return result;
}

CUresult hook_cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
    CUresult result = real.cuMemPoolSetAttribute(handle, attribute, value);
    unsigned owner = is_active() ? pool_of_handle(handle) : 0;
    if (result != CUDA_SUCCESS || !owner)
        return result;
    struct pool_account *pool = &pools[owner];
    if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH) {
        __atomic_store_n(&pool->used_high, __atomic_load_n(&pool->used, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
    } else if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) {
        __atomic_store_n(&pool->mapped_high, reserved(pool), __ATOMIC_RELAXED);
    } else if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
        __atomic_store_n(&pool->threshold, *(const cuuint64_t *)value, __ATOMIC_RELAXED);
    }
    return result;
}

static void trim(void *device)
{
    heap_trim(*(int *)device, WAITS_FOR_NOTHING);
}

CUresult hook_cuMemPoolTrimTo(CUmemoryPool handle, size_t keep)
{
    CUresult result = real.cuMemPoolTrimTo(handle, keep);
    unsigned owner = result == CUDA_SUCCESS && is_active() ? pool_of_handle(handle) : 0;
    if (owner && reserved(&pools[owner]) > keep) {
        uint64_t own = __atomic_load_n(&pools[owner].mapped, __ATOMIC_RELAXED);
        __atomic_store_n(&pools[owner].peak, keep > own ? keep : own, __ATOMIC_RELAXED);
        uint64_t all = pools_keep(pools[owner].device);
        struct context *context = all ? context_for_pool(pools[owner].device, context_known_current()) : NULL;
        if (context)
            heap_keep_only(context, all);
        else
            aside_call(trim, &pools[owner].device);
    }
    return result;
}

void graph_memory_trimmed(CUdevice device)
{
    if (is_active())
        aside_call(trim, &device);
}

/* We take over pools of plain device memory that are not shared with other processes. */
void pool_created(CUmemoryPool handle, const CUmemPoolProps *properties)
{
    if (is_active() && properties->allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
        properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE && properties->handleTypes == CU_MEM_HANDLE_TYPE_NONE)
        add(handle, properties->location.id, 0, in_steps(properties->maxSize));
}

/* Once it is destroyed, a new pool may have its handle: so it is none from before that on, unless the call fails. */
CUresult hook_cuMemPoolDestroy(CUmemoryPool handle)
{
    unsigned owner = is_active() ? pool_of_handle(handle) : 0;
    struct pool_account *pool = &pools[owner];
    if (!owner || pool->is_default) /* which nobody can destroy */
        return real.cuMemPoolDestroy(handle);
    int device = pool->device;
    __atomic_add_fetch(&pool->live, 1, __ATOMIC_RELAXED); /* keeps the entry */
    __atomic_store_n(&pool->is_destroyed, 1, __ATOMIC_RELEASE);
    CUresult result = real.cuMemPoolDestroy(handle);
    if (result != CUDA_SUCCESS)
        __atomic_store_n(&pool->is_destroyed, 0, __ATOMIC_RELEASE);
    release_if_done(pool);
    /* Natively the current context is not asked: another thread may have destroyed it. */
    struct context *context = result == CUDA_SUCCESS ? context_for_pool(device, context_known_current()) : NULL;
    pools_changed();
    if (context)
        heap_keep_only(context, pools_keep(device));
    return result;
}
