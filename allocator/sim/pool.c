#include "capture.h"
#include "virtual_memory.h"

static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER; /* taken after the queue lock */
static CUmemoryPool defaults[SIM_MAX_DEVICES];                 /* NULL: nobody has asked for it; under pools_lock */
static CUmemoryPool current[SIM_MAX_DEVICES];                  /* NULL: the default; under pools_lock */
static CUmemoryPool destroyed;                                 /* memory may refer to them; under pools_lock */

static CUmemoryPool create(int device)
{
    CUmemoryPool pool = handle_create(HANDLE_POOL, sizeof *pool, NULL);
    pool->device = device;
    pool->access[device] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return pool;
}

static CUmemoryPool default_pool_locked(int device)
{
    if (defaults[device] == NULL)
        defaults[device] = create(device);
    return defaults[device];
}

CUmemoryPool pool_of_graphs(int device)
{
    static struct CUmemPoolHandle_st of_graphs[SIM_MAX_DEVICES];
    return &of_graphs[device];
}

static CUmemoryPool current_pool_locked(int device)
{
    return current[device] == NULL ? default_pool_locked(device) : current[device];
}

static int is_pool(CUmemoryPool pool)
{
    return handle_is_valid(HANDLE_POOL, pool);
}

static CUresult get_pool(CUmemoryPool *pool, int device, CUmemoryPool (*find_locked)(int device))
{
    CALL_TRY(device_check(device, pool));
    HOLD(&pools_lock);
    *pool = find_locked(device);
    return CUDA_SUCCESS;
}

DRIVER_IS(cuDeviceGetDefaultMemPool, 11020, (CUmemoryPool *, pool_out, CUdevice, dev),
          get_pool(pool_out, dev, default_pool_locked))

DRIVER_IS(cuDeviceGetMemPool, 11020, (CUmemoryPool *, pool, CUdevice, dev), get_pool(pool, dev, current_pool_locked))

DRIVER(cuDeviceSetMemPool, 11020, (CUdevice, dev, CUmemoryPool, pool))
{
    CALL_REFUSE(!config_has_device(dev), INVALID_DEVICE);
    CALL_REFUSE(!is_pool(pool) || pool->device != dev, INVALID_VALUE);
    HOLD(&pools_lock);
    current[dev] = pool;
    return CUDA_SUCCESS;
}

/* Measured: in steps of 32 MiB. */
static cuuint64_t in_steps(uint64_t bytes)
{
    const uint64_t step = (uint64_t)32 << 20;
    return (bytes + step - 1) / step * step;
}

DRIVER(cuMemPoolCreate, 11020, (CUmemoryPool *, pool, const CUmemPoolProps *, poolProps))
{
    CALL_REFUSE(pool == NULL || poolProps == NULL || poolProps->allocType != CU_MEM_ALLOCATION_TYPE_PINNED, INVALID_VALUE);
    if (poolProps->location.type != CU_MEM_LOCATION_TYPE_DEVICE || poolProps->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_NOT_SUPPORTED;
    CALL_REFUSE(!config_has_device(poolProps->location.id), INVALID_DEVICE);
    *pool = create(poolProps->location.id);
    (*pool)->max_bytes = in_steps(poolProps->maxSize);
    return CUDA_SUCCESS;
}

DRIVER(cuMemPoolDestroy, 11020, (CUmemoryPool, pool))
{
    HOLD(&pools_lock);
    CALL_REFUSE(!is_pool(pool) || pool == defaults[pool->device] || !handle_remove(HANDLE_POOL, pool), INVALID_VALUE);
    LL_PREPEND(destroyed, pool);
    if (current[pool->device] == pool)
        current[pool->device] = NULL;
    pthread_mutex_lock(&space_lock);
    pool->threshold = 0;
    pthread_mutex_unlock(&space_lock);
    space_trim(pool, 0);
    return CUDA_SUCCESS;
}

static int is_beyond_limit(CUmemoryPool pool, size_t size)
{
    HOLD(&space_lock);
    return pool->max_bytes != 0 && (size > pool->max_bytes || pool->used > pool->max_bytes - size);
}

static CUresult allocate_captured_locked(CUdeviceptr *address, size_t size, CUmemoryPool pool, CUstream stream)
{
    struct operation *node;
    CALL_REFUSE(stream->capture->is_invalid, STREAM_CAPTURE_INVALIDATED);
    CALL_TRY(graph_memory_allocate_node(&node, address, size, pool->device));
    OPERATION(owned, node);
    return capture_append_locked(stream, owned);
}

/* Without `pool`, uses the current pool of the stream's device, whatever context is current. */
static CUresult allocate(CUdeviceptr *address, size_t size, CUmemoryPool pool, CUstream handle)
{
    struct ticket after = {0};
    CALL_REFUSE(address == NULL, INVALID_VALUE);
    OPERATION(wait, operation_create(OPERATION_NOTHING));
    STREAM_HELD(stream, handle);
    if (pool == NULL)
        CALL_TRY(get_pool(&pool, stream->context->device, current_pool_locked));
    if (size != 0 && stream->capture != NULL)
        return allocate_captured_locked(address, size, pool, stream);
    CALL_TRY(capture_check_unsafe_locked());
    CALL_TRY(capture_check_implicit_locked(stream, 1));
    if (size == 0) {
        *address = 0;
        return CUDA_SUCCESS;
    }
    CALL_REFUSE(is_beyond_limit(pool, size), OUT_OF_MEMORY);
    CALL_TRY(space_allocate_ordered(address, size, pool, stream, &after));
    return after.stream == NULL ? CUDA_SUCCESS : stream_enqueue_locked(stream, wait, &after, NULL);
}

DRIVER_TWIN_IS(cuMemAllocAsync, ptsz, 11020, (CUdeviceptr *, dptr, size_t, bytesize, CUstream, hStream),
               allocate(dptr, bytesize, NULL, hStream))

DRIVER_TWIN_IS(cuMemAllocFromPoolAsync, ptsz, 11020,
               (CUdeviceptr *, dptr, size_t, bytesize, CUmemoryPool, pool, CUstream, hStream),
               is_pool(pool) ? allocate(dptr, bytesize, pool, hStream) : CUDA_ERROR_INVALID_VALUE)

/* A captured free is a node of the graph, and only allowed for memory of a graph: the capture goes on without it. Another free
 * ends captures of other streams (both measured). */
DRIVER_TWIN(cuMemFreeAsync, ptsz, 11020, (CUdeviceptr, dptr, CUstream, hStream))
{
    if (dptr == 0)
        return CUDA_SUCCESS;
    OPERATION(operation, operation_create(OPERATION_FREE));
    STREAM_READY(stream, hStream);
    if (stream->capture != NULL) {
        struct operation *node;
        CALL_TRY(graph_memory_free_node(&node, stream->capture->graph->recording, dptr));
        OPERATION(owned, node);
        return capture_append_locked(stream, owned);
    }
    CALL_TRY(capture_check_unsafe_locked());
    CALL_TRY(capture_check_implicit_locked(stream, 1));
    CALL_TRY(space_free(dptr, stream, operation));
    return stream_enqueue_locked(stream, operation, NULL, NULL);
}

DRIVER(cuMemPoolTrimTo, 11020, (CUmemoryPool, pool, size_t, minBytesToKeep))
{
    CALL_REFUSE(!is_pool(pool), INVALID_VALUE);
    CALL_TRY(capture_check_unsafe());
    space_trim(pool, minBytesToKeep);
    return CUDA_SUCCESS;
}

static CUresult set_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, const void *value)
{
    HOLD(&space_lock);
    int is_used = attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH;
    if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
        pool->threshold = *(const cuuint64_t *)value;
    } else {
        CALL_REFUSE(!is_used && attribute != CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, INVALID_VALUE);
        CALL_REFUSE(*(const cuuint64_t *)value != 0, INVALID_VALUE);
        *(is_used ? &pool->used_high : &pool->reserved_high) = is_used ? pool->used : pool->reserved;
    }
    return CUDA_SUCCESS;
}

DRIVER(cuMemPoolSetAttribute, 11020, (CUmemoryPool, pool, CUmemPool_attribute, attr, void *, value))
{
    return value == NULL || !is_pool(pool) ? CUDA_ERROR_INVALID_VALUE : set_attribute(pool, attr, value);
}

static CUresult get_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    HOLD(&space_lock);
    const uint64_t values[] = {[CU_MEMPOOL_ATTR_RELEASE_THRESHOLD] = pool->threshold,
                               [CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT] = in_steps(pool->reserved),
                               [CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH] = in_steps(pool->reserved_high),
                               [CU_MEMPOOL_ATTR_USED_MEM_CURRENT] = pool->used,
                               [CU_MEMPOOL_ATTR_USED_MEM_HIGH] = pool->used_high};
    CALL_REFUSE(attribute < CU_MEMPOOL_ATTR_RELEASE_THRESHOLD || attribute > CU_MEMPOOL_ATTR_USED_MEM_HIGH, INVALID_VALUE);
    memcpy(value, &values[attribute], sizeof values[attribute]);
    return CUDA_SUCCESS;
}

DRIVER(cuMemPoolGetAttribute, 11020, (CUmemoryPool, pool, CUmemPool_attribute, attr, void *, value))
{
    return value == NULL || !is_pool(pool) ? CUDA_ERROR_INVALID_VALUE : get_attribute(pool, attr, value);
}

static CUresult set_access(CUmemoryPool pool, const CUmemAccessDesc *description)
{
    int device = description->location.id;
    CALL_REFUSE(description->location.type != CU_MEM_LOCATION_TYPE_DEVICE, INVALID_VALUE);
    CALL_REFUSE((device == pool->device && description->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE), INVALID_VALUE);
    CALL_REFUSE(!config_has_device(device), INVALID_DEVICE);
    HOLD(&space_lock);
    pool->access[device] = description->flags;
    return CUDA_SUCCESS;
}

DRIVER(cuMemPoolSetAccess, 11020, (CUmemoryPool, pool, const CUmemAccessDesc *, map, size_t, count))
{
    CALL_REFUSE(map == NULL || !is_pool(pool), INVALID_VALUE);
    for (size_t i = 0; i < count; i++)
        CALL_TRY(set_access(pool, &map[i]));
    return CUDA_SUCCESS;
}

/* ---- the memory of graphs ---- */

DRIVER(cuDeviceGetGraphMemAttribute, 11040, (CUdevice, device, CUgraphMem_attribute, attr, void *, value))
{
    static const CUmemPool_attribute like[] = {[CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT] = CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
                                               [CU_GRAPH_MEM_ATTR_USED_MEM_HIGH] = CU_MEMPOOL_ATTR_USED_MEM_HIGH,
                                               [CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT] = CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
                                               [CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH] = CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH};
    CALL_REFUSE(!config_has_device(device), INVALID_DEVICE);
    CALL_REFUSE(value == NULL || (unsigned)attr >= sizeof like / sizeof *like, INVALID_VALUE);
    return get_attribute(pool_of_graphs(device), like[attr], value);
}

DRIVER_IS(cuDeviceGraphMemTrim, 11040, (CUdevice, device),
          config_has_device(device) ? (space_trim(pool_of_graphs(device), 0), CUDA_SUCCESS) : CUDA_ERROR_INVALID_DEVICE)
